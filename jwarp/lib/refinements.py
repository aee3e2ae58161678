"""The derivatives of matrix decompositions, as those of two steps that refine a decomposition that is known.

A step squares the error (Ogita and Aishima 2018 for eigenvectors; the others are made in the same way). Held fixed
while the matrix moves by h, a decomposition has an error of order h, after two steps of order h^4: so the refined
one has the first and second derivatives of the decomposition itself. They are NaN where there are none, at equal
singular values or eigenvalues.
"""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.scalar import fixed, follow
from jwarp.frontend.builtins.vector import get_diag, identity, transpose
from jwarp.frontend.func import func


@func
def corrected(Q: Any, W: Any):
    """Q turned by the small skew matrix W, and made perpendicular."""
    deviation = identity(n=len(Q), dtype=Q.dtype) - transpose(Q) @ Q
    return Q + Q @ (deviation * Q.dtype(0.5) + W)


@func
def rebalanced(P: Any, U: Any, V: Any):
    """P = U^T A V as it is once U and V are made perpendicular, as far as first order goes."""
    one = identity(n=len(P), dtype=P.dtype)
    left = one - transpose(U) @ U
    right = one - transpose(V) @ V
    return P + (left @ P + P @ right) * P.dtype(0.5)


@func
def refined_svd(A: Any, U: Any, V: Any):
    """U and V after one step."""
    half = A.dtype(0.5)
    P = transpose(U) @ A @ V
    M = rebalanced(P, U, V)
    X = M * A.dtype(0.0)
    Y = M * A.dtype(0.0)
    for i in range(len(P)):
        for j in range(i):
            both = (M[i, j] + M[j, i]) / (P[j, j] - P[i, i])
            apart = (M[i, j] - M[j, i]) / (P[j, j] + P[i, i])
            x = half * (both + apart)
            y = half * (both - apart)
            X[i, j] = x
            X[j, i] = -x
            Y[i, j] = y
            Y[j, i] = -y
    return corrected(U, X), corrected(V, Y)


@func
def followed_svd(A: Any, U: Any, sigma: Any, V: Any):
    """The decomposition with its derivative by A."""
    U1, V1 = refined_svd(A, fixed(U), fixed(V))
    U2, V2 = refined_svd(A, U1, V1)
    return follow(U, U2), follow(sigma, get_diag(transpose(U2) @ A @ V2)), follow(V, V2)


@func
def refined_eigenvectors(A: Any, Q: Any):
    """Q after one step, for symmetric A."""
    P = transpose(Q) @ A @ Q
    M = rebalanced(P, Q, Q)
    W = M * A.dtype(0.0)
    for i in range(len(P)):
        for j in range(i):
            w = (M[i, j] + M[j, i]) * A.dtype(0.5) / (P[j, j] - P[i, i])
            W[i, j] = w
            W[j, i] = -w
    return corrected(Q, W)


@func
def followed_eig(A: Any, Q: Any, d: Any):
    """The decomposition of the symmetric part of A, with its derivative by A."""
    S = (A + transpose(A)) * A.dtype(0.5)
    Q1 = refined_eigenvectors(S, fixed(Q))
    Q2 = refined_eigenvectors(S, Q1)
    return follow(Q, Q2), follow(d, get_diag(transpose(Q2) @ S @ Q2))


@func
def refined_qr(A: Any, Q: Any):
    """Q after one step."""
    P = transpose(Q) @ A
    M = rebalanced(P, Q, identity(n=3, dtype=A.dtype))
    W = M * A.dtype(0.0)
    first = M[1, 0] / P[0, 0]
    second = M[2, 0] / P[0, 0]
    third = (M[2, 1] - second * P[0, 1]) / P[1, 1]
    W[1, 0] = first
    W[0, 1] = -first
    W[2, 0] = second
    W[0, 2] = -second
    W[2, 1] = third
    W[1, 2] = -third
    return corrected(Q, W)


@func
def followed_qr(A: Any, Q: Any, R: Any):
    """The decomposition with its derivative by A."""
    Q1 = refined_qr(A, fixed(Q))
    Q2 = refined_qr(A, Q1)
    moved = transpose(Q2) @ A
    for i in range(3):
        for j in range(i):
            moved[i, j] = A.dtype(0.0)
    return follow(Q, Q2), follow(R, moved)
