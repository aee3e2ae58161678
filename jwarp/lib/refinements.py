"""The derivatives of matrix decompositions, from how the factors turn while the matrix moves.

With A = U S V^T, where U turns at the rate U X, V at V Y and M = U^T dA V (X and Y are skew), the sum b = X + Y and
the difference a = X - Y solve

    b S - S b = M + M^T        a S + S a = M - M^T        dS = diag(M)

(Papadopoulo and Lourakis 2000, "Estimating the Jacobian of the singular value decomposition"; for eigenvectors Magnus
1985, "On differentiating eigenvalues and eigenvectors"). The coefficients of a, 1 / (s_i + s_j), are bounded at equal
singular values, those of b, 1 / (s_j - s_i), are not. There, b is taken to be zero: it turns both factors alike, which
U @ transpose(V) does not see, nor any other vector than those of the equal values.

As b may not keep S diagonal then, S is a matrix here, whose off-diagonal part counts to first order. So
second derivatives are those of these equations. For them every factor is given twice: `first` moves as a decomposition
moves to first order, and what is returned as these equations say, where the coefficients are made of `first`.

The coefficients are those of a matrix by its scale, so that none is out of range, as the inverses of the values of a
whole matrix may be. The derivative of the values is taken by the whole matrix: it is as large as that is, while the
scale as a factor of a cotangent would be out of range, too.
"""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.scalar import abs, fixed, fixed_once, follow, max, min, replayed, separation, where
from jwarp.frontend.builtins.vector import cw_mul, diag, get_diag, transpose, vector
from jwarp.frontend.func import func

# Where values differ by less than this, relative to the greatest one, they count as equal: the term that is left out
# has lost that many digits to rounding.
CLOSE_32 = 5.0e-4
CLOSE_64 = 1.0e-7


@func
def closeness(s: Any):
    """Up to which distance values count as equal."""
    size = s.dtype(0.0)
    for i in range(len(s)):
        size = max(size, abs(s[i]))
    if s.dtype.bits == 64:
        return size * s.dtype(CLOSE_64)
    return size * s.dtype(CLOSE_32)


@func
def inverse_gaps(s: Any, close: Any):
    """1 / (s_j - s_i), and 0 for values that count as equal."""
    kind = s.dtype
    zero = kind(0.0)
    R = diag(s) * zero
    for i in range(len(s)):
        for j in range(i):
            gap = s[j] - s[i]
            apart = abs(gap) > close
            r = where(apart, kind(1.0) / where(apart, gap, kind(1.0)), zero)
            R[i, j] = r
            R[j, i] = -r
    return R


@func
def inverse_sums(s: Any):
    """1 / (s_i + s_j), and 0 where that is infinite."""
    kind = s.dtype
    zero = kind(0.0)
    D = diag(s) * zero
    for i in range(len(s)):
        for j in range(i):
            total = s[j] + s[i]
            some = total != zero
            d = where(some, kind(1.0) / where(some, total, kind(1.0)), zero)
            D[i, j] = d
            D[j, i] = d
    return D


@func
def off_diagonal(M: Any):
    """The symmetric part of M without its diagonal."""
    return (M + transpose(M)) * M.dtype(0.5) - diag(get_diag(M))


@func
def commuting(B: Any, S: Any, R: Any):
    """The b of b S - S b = B, where R has the inverse gaps of a diagonal and S is the off-diagonal part."""
    b = cw_mul(R, B)
    return cw_mul(R, B - (b @ S - S @ b))


@func
def anticommuting(N: Any, S: Any, D: Any):
    """The a of a S + S a = N, where D has the inverse sums of a diagonal and S is the off-diagonal part."""
    a = cw_mul(D, N)
    return cw_mul(D, N - (a @ S + S @ a))


@func
def on_diagonal(U: Any, A: Any, V: Any):
    """The diagonal of U^T A V."""
    return get_diag(transpose(U) @ A @ V)


@func
def followed_values(values: Any, A: Any, U: Any, V: Any, U1: Any, V1: Any):
    """The values of a whole matrix A with their derivative by it, for factors that move as U1 and V1 to first order."""
    first = follow(values, on_diagonal(fixed(U), A, fixed(V)))
    return replayed(follow(values, on_diagonal(fixed_once(U1), A, fixed_once(V1))), first)


@func
def turned_svd(A: Any, U: Any, sigma: Any, V: Any, S: Any):
    """Values with the derivative of U, sigma and V, which are constants; S is the part off the diagonal."""
    half = A.dtype(0.5)
    M = transpose(U) @ A @ V
    b = commuting(M + transpose(M), S, inverse_gaps(sigma, closeness(sigma)))
    a = anticommuting(M - transpose(M), S, inverse_sums(sigma))
    return U @ ((b + a) * half), get_diag(M), V @ ((b - a) * half)


@func
def followed_svd(A: Any, whole: Any, scale: Any, U: Any, sigma: Any, V: Any):
    """The decomposition of the whole matrix, which is scale * A, with its derivative, by that of A."""
    S = fixed(off_diagonal(transpose(U) @ A @ V))
    U1, sigma1, V1 = turned_svd(A, fixed(U), fixed(sigma), fixed(V), S)
    U1, sigma1, V1 = follow(U, U1), follow(sigma, sigma1), follow(V, V1)
    S = fixed_once(off_diagonal(transpose(U1) @ A @ V1))
    U2, _, V2 = turned_svd(A, fixed_once(U1), fixed_once(sigma1), fixed_once(V1), S)
    values = followed_values(sigma * scale, whole, U, V, U1, V1)
    return replayed(follow(U, U2), U1), values, replayed(follow(V, V2), V1)


@func
def turned_eig(A: Any, Q: Any, d: Any, S: Any):
    """Values with the derivative of Q and d, which are constants, for symmetric A."""
    M = transpose(Q) @ A @ Q
    return Q @ commuting(M, S, inverse_gaps(d, closeness(d))), get_diag(M)


@func
def symmetric_part(A: Any):
    """The symmetric part of a matrix, whose sums stay in range."""
    half = A * A.dtype(0.5)
    return half + transpose(half)


@func
def followed_eig(A: Any, whole: Any, scale: Any, Q: Any, d: Any):
    """The decomposition of the symmetric part of the whole matrix, scale * A, with its derivative, by that of A."""
    A = symmetric_part(A)
    Q1, d1 = turned_eig(A, fixed(Q), fixed(d), fixed(off_diagonal(transpose(Q) @ A @ Q)))
    Q1, d1 = follow(Q, Q1), follow(d, d1)
    Q2, _ = turned_eig(A, fixed_once(Q1), fixed_once(d1), fixed_once(off_diagonal(transpose(Q1) @ A @ Q1)))
    values = followed_values(d * scale, symmetric_part(whole), Q, Q, Q1, Q1)
    return replayed(follow(Q, Q2), Q1), values


# -- in float64 and of values that are apart, for what does not see how vectors of equal values turn


@func
def unless_zero(size: Any):
    """The size of a matrix, and 1 of zero."""
    return where(size == size.dtype(0.0), size.dtype(1.0), size)


@func
def spread_svd(sigma: Any, kind: Any):
    """The singular values, with those apart that are too near to each other, or to minus the other, in type `kind`."""
    apart = separation(unless_zero(abs(sigma[0])), kind, False)
    last = len(sigma) - 1
    spread = sigma
    spread[last] = abs(sigma[last])
    moved = sigma.dtype(0.0)
    for k in range(last):
        i = last - 1 - k
        spread[i] = max(sigma[i], spread[i + 1] + apart)
        moved += spread[i] - sigma[i]
    # The mean stays, which halves the error; no value changes its sign.
    back = min(moved / sigma.dtype(len(sigma)), spread[last] * sigma.dtype(0.5))
    for i in range(len(sigma)):
        spread[i] -= back
    spread[last] = where(sigma[last] < sigma.dtype(0.0), -spread[last], spread[last])
    return spread


@func
def spread_eig(d: Any, kind: Any):
    """As spread_svd, for three eigenvalues in any order."""
    low = min(d[0], min(d[1], d[2]))
    high = max(d[0], max(d[1], d[2]))
    apart = separation(unless_zero(max(abs(low), abs(high))), kind, True)
    # Of two that are equal, the first counts as the lower one.
    rank0 = where(d[1] < d[0], 1, 0) + where(d[2] < d[0], 1, 0)
    rank1 = where(d[0] <= d[1], 1, 0) + where(d[2] < d[1], 1, 0)
    rank2 = 3 - rank0 - rank1
    middle = where(rank0 == 1, d[0], where(rank1 == 1, d[1], d[2]))
    above = max(middle, low + apart)
    top = max(high, above + apart)
    back = (above - middle + (top - high)) / d.dtype(3.0)
    low, middle, high = low - back, above - back, top - back
    return vector(
        where(rank0 == 0, low, where(rank0 == 1, middle, high)),
        where(rank1 == 0, low, where(rank1 == 1, middle, high)),
        where(rank2 == 0, low, where(rank2 == 1, middle, high)),
    )


@func
def apart_svd(A: Any, U: Any, sigma: Any, V: Any):
    """As turned_svd, where no two values are equal: S stays diagonal."""
    half = A.dtype(0.5)
    M = transpose(U) @ A @ V
    b = cw_mul(inverse_gaps(sigma, A.dtype(0.0)), M + transpose(M))
    a = cw_mul(inverse_sums(sigma), M - transpose(M))
    return U @ ((b + a) * half), get_diag(M), V @ ((b - a) * half)


@func
def separated_svd(A: Any, U: Any, sigma: Any, V: Any, kind: Any):
    """A decomposition in float64 with its derivative by A, which is that of a matrix with values that are apart."""
    sigma = fixed(spread_svd(sigma, kind))
    U1, sigma1, V1 = apart_svd(A, fixed(U), sigma, fixed(V))
    U1, sigma1, V1 = follow(U, U1), follow(sigma, sigma1), follow(V, V1)
    U2, sigma2, V2 = apart_svd(A, fixed_once(U1), fixed_once(sigma1), fixed_once(V1))
    return replayed(follow(U, U2), U1), replayed(follow(sigma, sigma2), sigma1), replayed(follow(V, V2), V1)


@func
def apart_eig(A: Any, Q: Any, d: Any):
    """As turned_eig, where no two values are equal."""
    M = transpose(Q) @ A @ Q
    return Q @ cw_mul(inverse_gaps(d, A.dtype(0.0)), M), get_diag(M)


@func
def separated_eig(A: Any, Q: Any, d: Any, kind: Any):
    """As separated_svd."""
    A = symmetric_part(A)
    d = fixed(spread_eig(d, kind))
    Q1, d1 = apart_eig(A, fixed(Q), d)
    Q1, d1 = follow(Q, Q1), follow(d, d1)
    Q2, d2 = apart_eig(A, fixed_once(Q1), fixed_once(d1))
    return replayed(follow(Q, Q2), Q1), replayed(follow(d, d2), d1)


# -- triangular factors


@func
def turned_qr(A: Any, Q: Any, R: Any):
    """Values with the derivative of Q and R, which are constants: Q^T dA = W R + dR with a skew W."""
    kind = A.dtype
    M = transpose(Q) @ A
    W = M * kind(0.0)
    first = M[1, 0] / R[0, 0]
    second = M[2, 0] / R[0, 0]
    third = (M[2, 1] - second * R[0, 1]) / R[1, 1]
    W[1, 0] = first
    W[0, 1] = -first
    W[2, 0] = second
    W[0, 2] = -second
    W[2, 1] = third
    W[1, 2] = -third
    moved = M - W @ R
    for i in range(3):
        for j in range(i):
            moved[i, j] = kind(0.0)
    return Q @ W, moved


@func
def followed_qr(A: Any, whole: Any, scale: Any, Q: Any, R: Any):
    """The decomposition of the whole matrix, which is scale * A, with its derivative, by that of A."""
    Q1, R1 = turned_qr(A, fixed(Q), fixed(R))
    Q1, R1 = follow(Q, Q1), follow(R, R1)
    Q2, _ = turned_qr(A, fixed_once(Q1), fixed_once(R1))
    # How R moves is linear in the matrix, with coefficients that know no scale.
    _, first = turned_qr(whole, fixed(Q), fixed(R))
    _, second = turned_qr(whole, fixed_once(Q1), fixed_once(R1))
    values = R * scale
    return replayed(follow(Q, Q2), Q1), replayed(follow(values, second), follow(values, first))
