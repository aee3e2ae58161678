"""svd2, svd3, qr3 and eig3, written in the kernel language: Jacobi and Givens rotations without branches.

The number of sweeps is fixed and steps depend on the data by selection only, so threads stay together in vectors.
Matrices are first scaled by a power of two, which keeps squares in range and changes no digit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jwarp.frontend.builtins.scalar import abs, cast, fixed, max, min, only_values, rolled, sqrt, symmetric, where
from jwarp.frontend.builtins.signatures import of_floats
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import diag, dot, matrix, matrix_from_cols, transpose, vector
from jwarp.frontend.func import Func, func
from jwarp.lib.float_types import Matrix22, Matrix33
from jwarp.lib.refinements import followed_eig, followed_qr, followed_svd, separated_eig, separated_svd
from jwarp.types import float32, float64, int32, int64

# With one less, a search for the slowest matrix finds errors above rounding in float64; with these it finds none.
SVD2_SWEEPS = 2
SVD3_SWEEPS = 5
EIG3_SWEEPS = 4

EXPONENT_32 = 0x7F800000
EXPONENT_64 = int64(0x7FF0000000000000)
SMALLEST_NORMAL_32 = 0x00800000
SMALLEST_NORMAL_64 = int64(0x0010000000000000)


def decomposition(form: str, **outputs: str) -> Callable[[Callable], Func]:
    """A public function whose results go to further arguments where a call names them.

    `form` and the types of the `outputs` are those for float32; there is the same for float64 and float16.
    """
    given = "".join(f", {name}: {kind}" for name, kind in outputs.items())
    forms = of_floats(f"{form} -> tuple[{', '.join(outputs.values())}]", f"{form[:-1]}{given}) -> None")
    return lambda function: library(forms)(Func(function, tuple(outputs)))


@func
def widened(m: Any):
    """The matrix with components of at least 32 bits."""
    if m.dtype.bits < 32:
        return matrix(m, shape=(len(m), len(m)), dtype=float32)
    return m


@func
def doubled(m: Any):
    """The matrix in float64."""
    return matrix(m, shape=(len(m), len(m)), dtype=float64)


@func
def chosen_svd(kind: Any, U: Any, sigma: Any, V: Any, separated: Any):
    """The factors in type `kind`, with those that derivatives take instead where that makes no other difference."""
    X, s, Y = separated
    u, t, v = narrowed_matrix(U, kind), narrowed_vector(sigma, kind), narrowed_matrix(V, kind)
    return symmetric(u, X, s, 0), symmetric(t, s, s, 1), symmetric(v, Y, s, 2)


@func
def narrowed_matrix(m: Any, kind: Any):
    """The matrix with components of type `kind`, where that is narrower."""
    if kind.bits < 32:
        return matrix(m, shape=(len(m), len(m)), dtype=kind)
    return m


@func
def narrowed_vector(v: Any, kind: Any):
    """As narrowed_matrix."""
    if kind.bits < 32:
        return vector(v, length=len(v), dtype=kind)
    return v


@func
def scale_of(m: Any):
    """The power of two just below the greatest entry, 1 if all are zero; NaN if an entry is NaN or infinite."""
    bits = int64 if m.dtype.bits == 64 else int32
    most = bits(0)  # floats without a sign have the order of their bits, and NaN is above infinity
    for i in range(len(m)):
        for j in range(len(m)):
            most = max(most, cast(abs(m[i, j]), bits))
    greatest = cast(most, m.dtype)
    if m.dtype.bits == 64:
        power = cast(max(most & EXPONENT_64, SMALLEST_NORMAL_64), m.dtype)
    else:
        power = cast(max(most & EXPONENT_32, SMALLEST_NORMAL_32), m.dtype)
    return where(most == bits(0), m.dtype(1.0), power + (greatest - greatest))


@func
def by_scale(m: Any, of: Any):
    """A matrix by the scale of another one, which has the same values, and that scale."""
    scale = scale_of(of)
    return m * (m.dtype(1.0) / scale), scale


@func
def turned(x: Any, y: Any, c: Any, s: Any):
    """The vectors c x - s y and s x + c y."""
    return c * x - s * y, s * x + c * y


@func
def jacobi(gap: Any, twice: Any, kind: Any):
    """Cosine, sine and tangent of the turn that makes [[a, b], [b, a + gap]] diagonal, where twice is 2 b.

    Of the turns that do it, the one by at most 45 degrees, with which the sweeps converge.
    """
    size = abs(gap) + sqrt(gap * gap + twice * twice)
    tangent = where(gap < kind(0.0), -twice, twice) / where(size == kind(0.0), kind(1.0), size)
    c = kind(1.0) / sqrt(kind(1.0) + tangent * tangent)
    return c, tangent * c, tangent


@func
def givens(x: Any, y: Any, kind: Any):
    """Cosine and sine of the turn that takes (x, y) to (r, 0), and r >= 0."""
    size = max(abs(x), abs(y))
    unit = where(size == kind(0.0), kind(1.0), size)
    u = where(size == kind(0.0), kind(1.0), x / unit)
    v = y / unit
    h = sqrt(u * u + v * v)
    return u / h, v / h, size * h


@func
def separated(p: Any, q: Any, v: Any, w: Any):
    """Columns p and q turned to be perpendicular, the longer first (Hestenes 1958), and v and w as much."""
    pp = dot(p, p)
    qq = dot(q, q)
    pq = dot(p, q)
    c, s, _tangent = jacobi(qq - pp, pq + pq, p.dtype)
    swaps = qq > pp
    cosine = where(swaps, s, c)
    sine = where(swaps, -c, s)
    p, q = turned(p, q, cosine, sine)
    v, w = turned(v, w, cosine, sine)
    return p, q, v, w


# -- two by two


@func
def svd2_wide(A: Any):
    """As svd2, in float32 or float64, of a matrix whose scale is one."""
    kind = A.dtype
    p = A[:, 0]
    q = A[:, 1]
    v = vector(kind(1.0), kind(0.0))
    w = vector(kind(0.0), kind(1.0))
    for _ in range(SVD2_SWEEPS):
        p, q, v, w = separated(p, q, v, w)
    c, s, first = givens(p[0], p[1], kind)
    second = c * q[1] - s * q[0]
    side = where(second < kind(0.0), kind(-1.0), kind(1.0))
    U = matrix(c, -s * side, s, c * side, shape=(2, 2))
    sigma = vector(max(first, abs(second)), min(first, abs(second)))
    return U, sigma, matrix_from_cols(v, w)


@decomposition("svd2(A: mat22)", U="mat22", sigma="vec2", V="mat22")
def svd2(A: Matrix22):
    """U, sigma, V with A == U @ diag(sigma) @ transpose(V); sigma[0] >= sigma[1] >= 0.

    V is a rotation, U a rotation where the determinant of A is not negative, else a reflection.
    """
    whole = widened(A)
    if only_values():
        one, scale = by_scale(whole, whole)
        U, sigma, V = svd2_wide(one)
        sigma = sigma * scale
        return narrowed_matrix(U, A.dtype), narrowed_vector(sigma, A.dtype), narrowed_matrix(V, A.dtype)
    one, scale = by_scale(whole, fixed(whole))
    U, sigma, V = svd2_wide(fixed(one))
    U, sigma, V = followed_svd(one, whole, scale, U, sigma, V)
    double, by = doubled(whole), float64(scale)
    X, s, Y = svd2_wide(fixed(double * (float64(1.0) / by)))
    return chosen_svd(A.dtype, U, sigma, V, separated_svd(double, X, s * by, Y, A.dtype))


# -- three by three


@func
def triangular(p: Any, q: Any, r: Any):
    """Q and R of the matrix with columns p, q and r, by three Givens rotations."""
    kind = p.dtype
    zero = kind(0.0)
    c, s, top = givens(p[0], p[1], kind)
    q0, q1 = turned(q[0], q[1], c, -s)
    r0, r1 = turned(r[0], r[1], c, -s)
    a = vector(c, s, zero)
    b = vector(-s, c, zero)
    c, s, first = givens(top, p[2], kind)
    q0, q2 = turned(q0, q[2], c, -s)
    r0, r2 = turned(r0, r[2], c, -s)
    a, d = turned(a, vector(zero, zero, kind(1.0)), c, -s)
    c, s, second = givens(q1, q2, kind)
    r1, r2 = turned(r1, r2, c, -s)
    b, d = turned(b, d, c, -s)
    R = matrix(first, q0, r0, zero, second, r1, zero, zero, r2, shape=(3, 3))
    return matrix_from_cols(a, b, d), R


@func
def svd3_wide(A: Any):
    """As svd3, in float32 or float64, of a matrix whose scale is one."""
    kind = A.dtype
    p = A[:, 0]
    q = A[:, 1]
    r = A[:, 2]
    one = kind(1.0)
    zero = kind(0.0)
    u = vector(one, zero, zero)
    v = vector(zero, one, zero)
    w = vector(zero, zero, one)
    for _ in range(rolled(SVD3_SWEEPS)):
        p, q, u, v = separated(p, q, u, v)
        p, r, u, w = separated(p, r, u, w)
        q, r, v, w = separated(q, r, v, w)
    U, R = triangular(p, q, r)
    # Only what is equal but for rounding, or hardly above zero, is still out of order.
    high = max(R[0, 0], R[1, 1])
    low = min(R[0, 0], R[1, 1])
    last = abs(R[2, 2])
    least = min(low, last)
    sigma = vector(max(high, last), max(low, min(high, last)), where(R[2, 2] < zero, -least, least))
    return U, sigma, matrix_from_cols(u, v, w)


@decomposition("svd3(A: mat33)", U="mat33", sigma="vec3", V="mat33")
def svd3(A: Matrix33):
    """U, sigma, V with A == U @ diag(sigma) @ transpose(V), where U and V are rotations.

    sigma decreases in magnitude; its last component has the sign of the determinant, the others are not negative.
    """
    whole = widened(A)
    if only_values():
        one, scale = by_scale(whole, whole)
        U, sigma, V = svd3_wide(one)
        sigma = sigma * scale
        return narrowed_matrix(U, A.dtype), narrowed_vector(sigma, A.dtype), narrowed_matrix(V, A.dtype)
    one, scale = by_scale(whole, fixed(whole))
    U, sigma, V = svd3_wide(fixed(one))
    U, sigma, V = followed_svd(one, whole, scale, U, sigma, V)
    double, by = doubled(whole), float64(scale)
    X, s, Y = svd3_wide(fixed(double * (float64(1.0) / by)))
    return chosen_svd(A.dtype, U, sigma, V, separated_svd(double, X, s * by, Y, A.dtype))


# -- rotation and stretch


@library(of_floats("polar(A: mat22) -> tuple[mat22, mat22]", "polar(A: mat33) -> tuple[mat33, mat33]"))
@func
def polar(A: Any):
    """R, S with A == R @ S, where R is the nearest rotation and S the symmetric stretch.

    Both are smooth, also where stretches are equal. R of a 2x2 matrix with a negative determinant is a reflection; of a
    3x3 matrix S then has a negative eigenvalue, the one of least magnitude. Warp has no such function.
    """
    if len(A) == 2:
        U, sigma, V = svd2(A)
    else:
        U, sigma, V = svd3(A)
    return U @ transpose(V), V @ diag(sigma) @ transpose(V)


@func
def qr3_wide(A: Any):
    """As qr3, in float32 or float64, of a matrix whose scale is one."""
    return triangular(A[:, 0], A[:, 1], A[:, 2])


@decomposition("qr3(A: mat33)", Q="mat33", R="mat33")
def qr3(A: Matrix33):
    """Q, R with A == Q @ R, where Q is a rotation and R upper triangular.

    The first two entries on the diagonal of R are not negative.
    """
    whole = widened(A)
    if only_values():
        one, scale = by_scale(whole, whole)
        Q, R = qr3_wide(one)
        R = R * scale
        return narrowed_matrix(Q, A.dtype), narrowed_matrix(R, A.dtype)
    one, scale = by_scale(whole, fixed(whole))
    Q, R = qr3_wide(fixed(one))
    Q, R = followed_qr(one, whole, scale, Q, R)
    return narrowed_matrix(Q, A.dtype), narrowed_matrix(R, A.dtype)


@func
def eig3_wide(A: Any):
    """As eig3, in float32 or float64, of a matrix whose scale is one."""
    kind = A.dtype
    half = A * kind(0.5)
    a = half[0, 0] + half[0, 0]
    b = half[1, 1] + half[1, 1]
    c = half[2, 2] + half[2, 2]
    ab = half[0, 1] + half[1, 0]
    ac = half[0, 2] + half[2, 0]
    bc = half[1, 2] + half[2, 1]
    one = kind(1.0)
    zero = kind(0.0)
    u = vector(one, zero, zero)
    v = vector(zero, one, zero)
    w = vector(zero, zero, one)
    for _ in range(rolled(EIG3_SWEEPS)):
        cosine, sine, tangent = jacobi(b - a, ab + ab, kind)
        a, b = a - tangent * ab, b + tangent * ab
        ab = zero
        ac, bc = turned(ac, bc, cosine, sine)
        u, v = turned(u, v, cosine, sine)
        cosine, sine, tangent = jacobi(c - a, ac + ac, kind)
        a, c = a - tangent * ac, c + tangent * ac
        ac = zero
        ab, bc = turned(ab, bc, cosine, sine)
        u, w = turned(u, w, cosine, sine)
        cosine, sine, tangent = jacobi(c - b, bc + bc, kind)
        b, c = b - tangent * bc, c + tangent * bc
        bc = zero
        ab, ac = turned(ab, ac, cosine, sine)
        v, w = turned(v, w, cosine, sine)
    return matrix_from_cols(u, v, w), vector(a, b, c)


@decomposition("eig3(A: mat33)", Q="mat33", d="vec3")
def eig3(A: Matrix33):
    """Q, d with A == Q @ diag(d) @ transpose(Q) for symmetric A, where Q is a rotation.

    The eigenvalues are in no particular order. Of any other matrix it decomposes the symmetric part.
    """
    whole = widened(A)
    if only_values():
        one, scale = by_scale(whole, whole)
        Q, d = eig3_wide(one)
        d = d * scale
        return narrowed_matrix(Q, A.dtype), narrowed_vector(d, A.dtype)
    one, scale = by_scale(whole, fixed(whole))
    Q, d = eig3_wide(fixed(one))
    Q, d = followed_eig(one, whole, scale, Q, d)
    double, by = doubled(whole), float64(scale)
    X, s = eig3_wide(fixed(double * (float64(1.0) / by)))
    X, s = separated_eig(double, X, s * by, A.dtype)
    q, t = narrowed_matrix(Q, A.dtype), narrowed_vector(d, A.dtype)
    return symmetric(q, X, s, 0), symmetric(t, s, s, 1)
