"""Expressions of vectors and matrices, each with what NumPy gives for it, and kernels made of them.

In an expression `u` and `v` are vectors of length 3, `p` is one of length 2, `a` and `b` are 3 by 3 matrices, `r` is
2 by 3, `s` is a number, `S`, `V`, `P`, `M` and `R` are the types of all these, and `k` is an int from -4 to 4.
NumPy gets the same names with one more axis in front, for the threads.
"""

import numpy as np

THREADS = 37
SUFFIXES = {"float16": "h", "float32": "f", "float64": "d", "int32": "i"}
TYPES = {"scalar": "S", "vector": "V", "pair": "P", "matrix": "M", "wide": "R", "int": "int"}
ELEMENTS = {"scalar": (), "vector": (3,), "pair": (2,), "matrix": (3, 3), "wide": (2, 3), "int": ()}


def truncated(x, y):
    """The quotient as C has it."""
    return np.trunc(x / y) if x.dtype.kind == "f" else np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))


def length(x):
    return np.sqrt((x * x).sum(-1))


def apart(n, columns):
    """Vectors or matrices from their components."""
    return np.stack(np.broadcast_arrays(*columns), -1).reshape(len(columns[0]), *n)


def huber(square, delta):
    return np.where(square <= delta**2, 0.5 * square, delta * (np.sqrt(square) - 0.5 * delta))


def picked(x, k):
    """x[k] for each thread, zero outside."""
    inside = (k >= -x.shape[1]) & (k < x.shape[1])
    items = x[np.arange(len(x)), np.where(inside, k, 0)]
    return np.where(inside.reshape(-1, *[1] * (items.ndim - 1)), items, 0)


# By the kind of the result. What every number type has:
ANY = {
    "vector": {
        "u + v": lambda e: e.u + e.v,
        "u - v": lambda e: e.u - e.v,
        "-u": lambda e: -e.u,
        "+u": lambda e: e.u,
        "u * s": lambda e: e.u * e.s[:, None],
        "s * u": lambda e: e.u * e.s[:, None],
        "u / s": lambda e: truncated(e.u, e.s[:, None]) if e.u.dtype.kind == "i" else e.u / e.s[:, None],
        "s / u": lambda e: truncated(e.s[:, None], e.u) if e.u.dtype.kind == "i" else e.s[:, None] / e.u,
        "u % v": lambda e: e.u - e.v * truncated(e.u, e.v),
        "a @ u": lambda e: np.einsum("nij,nj->ni", e.a, e.u),
        "a * u": lambda e: np.einsum("nij,nj->ni", e.a, e.u),
        "u @ a": lambda e: np.einsum("ni,nij->nj", e.u, e.a),
        "p @ r": lambda e: np.einsum("ni,nij->nj", e.p, e.r),
        "wp.add(u, v)": lambda e: e.u + e.v,
        "wp.mul(a, u)": lambda e: np.einsum("nij,nj->ni", e.a, e.u),
        "wp.neg(u)": lambda e: -e.u,
        "wp.cross(u, v)": lambda e: np.cross(e.u, e.v),
        "wp.cw_mul(u, v)": lambda e: e.u * e.v,
        "wp.cw_div(u, v)": lambda e: truncated(e.u, e.v) if e.u.dtype.kind == "i" else e.u / e.v,
        "wp.abs(u)": lambda e: np.abs(e.u),
        "abs(u)": lambda e: np.abs(e.u),
        "wp.pos(u)": lambda e: e.u,
        "wp.sign(u)": lambda e: np.where(e.u < 0, -1, 1),
        "wp.min(u, v)": lambda e: np.fmin(e.u, e.v),
        "wp.max(u, v)": lambda e: np.fmax(e.u, e.v),
        "wp.get_diag(a)": lambda e: np.einsum("nii->ni", e.a),
        "wp.where(k > 0, u, v)": lambda e: np.where(e.k[:, None] > 0, e.u, e.v),
        "u if k > 0 else v": lambda e: np.where(e.k[:, None] > 0, e.u, e.v),
        "V()": lambda e: np.zeros_like(e.u),
        "V(s)": lambda e: np.repeat(e.s[:, None], 3, 1),
        "V(s, u[1], S(3))": lambda e: apart((3,), [e.s, e.u[:, 1], np.array([3])]),
        "V(1, 2, 3)": lambda e: np.tile([1, 2, 3], (len(e.u), 1)),
        "V(wp.vec3d(u))": lambda e: e.u,
        "wp.vector(s, u[1], s)": lambda e: apart((3,), [e.s, e.u[:, 1], e.s]),
        "wp.vector(s, length=3)": lambda e: np.repeat(e.s[:, None], 3, 1),
        "wp.vector(length=3, dtype=S)": lambda e: np.zeros_like(e.u),
        "wp.vector(u)": lambda e: e.u,
        "wp.vector(1, 2, 3, dtype=S)": lambda e: np.tile([1, 2, 3], (len(e.u), 1)),
        "wp.types.vector(s, s, s)": lambda e: np.repeat(e.s[:, None], 3, 1),
        "u[::-1]": lambda e: e.u[:, ::-1],
        "a[1]": lambda e: e.a[:, 1],
        "a[k]": lambda e: picked(e.a, e.k),
        "a[:, 2]": lambda e: e.a[:, :, 2],
        "a[-1, :]": lambda e: e.a[:, -1],
    },
    "pair": {
        "u[1:3]": lambda e: e.u[:, 1:3],
        "u[0:3:2]": lambda e: e.u[:, 0:3:2],
        "u[:-1]": lambda e: e.u[:, :-1],
        "a[1:, 0]": lambda e: e.a[:, 1:, 0],
        "a[k, :2]": lambda e: picked(e.a, e.k)[:, :2],
        "r @ u": lambda e: np.einsum("nij,nj->ni", e.r, e.u),
    },
    "scalar": {
        "u[0]": lambda e: e.u[:, 0],
        "u[-1]": lambda e: e.u[:, -1],
        "u.x + u.z": lambda e: e.u[:, 0] + e.u[:, 2],
        "u[k]": lambda e: picked(e.u, e.k),
        "a[1, 2]": lambda e: e.a[:, 1, 2],
        "a[1][2]": lambda e: e.a[:, 1, 2],
        "a[k, 1]": lambda e: picked(e.a, e.k)[:, 1],
        "a[0, k]": lambda e: picked(e.a[:, 0], e.k),
        "a[k, k]": lambda e: picked(picked(e.a, e.k), e.k),
        "r[1, -1]": lambda e: e.r[:, 1, 2],
        "wp.dot(u, v)": lambda e: (e.u * e.v).sum(1),
        "wp.ddot(a, b)": lambda e: (e.a * e.b).sum((1, 2)),
        "wp.length_sq(u)": lambda e: (e.u**2).sum(1),
        "wp.trace(a)": lambda e: np.einsum("nii->n", e.a),
        "wp.min(u)": lambda e: e.u.min(1),
        "wp.max(u)": lambda e: e.u.max(1),
        "wp.pos(s)": lambda e: e.s,
        "u.dtype(k)": lambda e: e.k,
    },
    "int": {
        "int(wp.argmin(u))": lambda e: e.u.argmin(1),
        "int(wp.argmax(u))": lambda e: e.u.argmax(1),
        "int(wp.unot(k))": lambda e: e.k == 0,
        "int(u == v)": lambda e: (e.u == e.v).all(1),
        "int(a == b)": lambda e: (e.a == e.b).all((1, 2)),
        "int(u == u[::-1])": lambda e: e.u[:, 0] == e.u[:, 2],
        "len(u) + 10 * len(r)": lambda e: np.full(len(e.u), 23),
    },
    "matrix": {
        "a + b": lambda e: e.a + e.b,
        "a - b": lambda e: e.a - e.b,
        "-a": lambda e: -e.a,
        "a * s": lambda e: e.a * e.s[:, None, None],
        "s * a": lambda e: e.a * e.s[:, None, None],
        "a / S(2)": lambda e: truncated(e.a, np.array(2)) if e.a.dtype.kind == "i" else e.a / 2,
        "a @ b": lambda e: e.a @ e.b,
        "a * b": lambda e: e.a @ e.b,
        "wp.mul(a, b)": lambda e: e.a @ e.b,
        "wp.transpose(r) @ r": lambda e: e.r.swapaxes(1, 2) @ e.r,
        "wp.transpose(a)": lambda e: e.a.swapaxes(1, 2),
        "wp.outer(u, v)": lambda e: e.u[:, :, None] * e.v[:, None],
        "wp.skew(u)": lambda e: -np.cross(e.u[:, None], np.eye(3, dtype=e.u.dtype)),
        "wp.diag(u)": lambda e: e.u[:, :, None] * np.eye(3, dtype=e.u.dtype),
        "wp.cw_mul(a, b)": lambda e: e.a * e.b,
        "wp.matrix_from_rows(u, v, u)": lambda e: np.stack([e.u, e.v, e.u], 1),
        "wp.matrix_from_cols(u, v, u)": lambda e: np.stack([e.u, e.v, e.u], 2),
        "wp.identity(n=3, dtype=S)": lambda e: np.tile(np.eye(3), (len(e.u), 1, 1)),
        "M()": lambda e: np.zeros_like(e.a),
        "M(s)": lambda e: np.broadcast_to(e.s[:, None, None], e.a.shape),
        "M(1, 2, 3, 4, 5, 6, 7, 8, 9)": lambda e: np.tile(np.arange(1, 10).reshape(3, 3), (len(e.u), 1, 1)),
        "M(wp.mat33d(a))": lambda e: e.a,
        "wp.matrix(a)": lambda e: e.a,
        "wp.matrix(s, shape=(3, 3))": lambda e: np.broadcast_to(e.s[:, None, None], e.a.shape),
        "wp.where(k > 0, a, b)": lambda e: np.where(e.k[:, None, None] > 0, e.a, e.b),
        "a if k > 0 else b": lambda e: np.where(e.k[:, None, None] > 0, e.a, e.b),
    },
    "wide": {
        "r @ a": lambda e: e.r @ e.a,
        "wp.outer(p, u)": lambda e: e.p[:, :, None] * e.u[:, None],
        "a[1:]": lambda e: e.a[:, 1:],
        "a[0:2, ::-1]": lambda e: e.a[:, :2, ::-1],
        "wp.matrix_from_rows(u, v)": lambda e: np.stack([e.u, e.v], 1),
        "wp.matrix(s, s, s, u[0], u[1], u[2], shape=(2, 3))": lambda e: np.stack([e.u * 0 + e.s[:, None], e.u], 1),
        "wp.matrix(shape=(2, 3), dtype=S)": lambda e: np.zeros_like(e.r),
        "R(1, 2, 3, 4, 5, 6)": lambda e: np.tile(np.arange(1, 7).reshape(2, 3), (len(e.u), 1, 1)),
    },
}
FLOAT = {
    "vector": {
        "wp.normalize(u)": lambda e: e.u / length(e.u)[:, None],
        "wp.normalize(u - u)": lambda e: np.zeros_like(e.u),
        "wp.div_approx(u, s)": lambda e: e.u / e.s[:, None],
        "wp.lerp(u, v, s)": lambda e: e.u * (1 - e.s[:, None]) + e.v * e.s[:, None],
    },
    "scalar": {
        "wp.length(u)": lambda e: length(e.u),
        "wp.determinant(a)": lambda e: np.linalg.det(e.a),
        "wp.determinant(a[1:, 1:])": lambda e: np.linalg.det(e.a[:, 1:, 1:]),
    },
    "int": {
        "int(wp.isfinite(u))": lambda e: np.ones(len(e.u)),
        "int(wp.isnan(u * (s - s) / (s - s)))": lambda e: np.ones(len(e.u)),
        "int(wp.isinf(V(u[0], s / (s - s), s)))": lambda e: np.ones(len(e.u)),
    },
    "matrix": {
        "wp.inverse(a)": lambda e: np.linalg.inv(e.a),
        "wp.inverse_approx(a)": lambda e: np.linalg.inv(e.a),
        "wp.inverse(a - a)": lambda e: np.zeros_like(e.a),
        "wp.lerp(a, b, s)": lambda e: e.a * (1 - e.s[:, None, None]) + e.b * e.s[:, None, None],
    },
}
# Warp has these for float32 only.
NORMS = {
    "scalar": {
        "wp.norm_l1(u)": lambda e: np.abs(e.u).sum(1),
        "wp.norm_l2(u)": lambda e: length(e.u),
        "wp.norm_huber(u)": lambda e: huber((e.u**2).sum(1), 1.0),
        "wp.norm_huber(u, delta=2.0)": lambda e: huber((e.u**2).sum(1), 2.0),
        "wp.norm_pseudo_huber(u, 2.0)": lambda e: 2.0 * np.sqrt(1.0 + (e.u**2).sum(1) / 4.0),
    },
    "vector": {
        "wp.smooth_normalize(u)": lambda e: e.u / np.sqrt(1.0 + (e.u**2).sum(1))[:, None],
    },
}
INT = {
    "vector": {
        "~u": lambda e: ~e.u,
        "u & v": lambda e: e.u & e.v,
        "u | v": lambda e: e.u | e.v,
        "u ^ v": lambda e: e.u ^ e.v,
        "u << V(3)": lambda e: e.u << 3,
        "u >> V(1)": lambda e: e.u >> 1,
        "wp.bit_and(u, v)": lambda e: e.u & e.v,
    },
    "matrix": {
        "a & b": lambda e: e.a & e.b,
    },
}
# What Warp has not.
OWN = {
    "vector": {"wp.select(k > 0, u, v)": lambda e: np.where(e.k[:, None] > 0, e.v, e.u)},
    "int": {"int(u != v)": lambda e: (e.u != e.v).any(1)},
    "matrix": {"wp.abs(a)": lambda e: np.abs(e.a), "a % b": lambda e: e.a - e.b * truncated(e.a, e.b)},
    "scalar": {
        "u[0:2][1]": lambda e: e.u[:, 1],
        "u[wp.uint8(k)]": lambda e: np.where((e.k >= 0) & (e.k < 3), picked(e.u, e.k), 0),
    },
}


def expressions(dtype, own):
    """The expressions of a type, by the kind of their result; `own` are those that Warp lacks."""
    groups = [ANY, INT] if dtype == "int32" else [ANY, FLOAT]
    groups += [NORMS] if dtype == "float32" or (own and dtype != "int32") else []
    groups += [OWN] if own else []
    kinds = dict.fromkeys(kind for group in groups for kind in group)
    return {kind: {t: f for group in groups for t, f in group.get(kind, {}).items()} for kind in kinds}


def module(dtype, own):
    """The text of a module with one kernel for each kind of result, which writes a row for each expression."""
    suffix = SUFFIXES[dtype]
    lines = ["import jwarp as wp", f"S = wp.{dtype}", f"V = wp.vec3{suffix}", f"P = wp.vec2{suffix}"]
    lines += ["M = wp.types.matrix(shape=(3, 3), dtype=S)", "R = wp.types.matrix(shape=(2, 3), dtype=S)", ""]
    for kind, rows in expressions(dtype, own).items():
        inputs = "us: wp.array[V], vs: wp.array[V], ps: wp.array[P], sa: wp.array[M], sb: wp.array[M]"
        inputs += ", sr: wp.array[R], ss: wp.array[S], ks: wp.array[int]"
        lines += ["", "@wp.kernel", f"def {kind}_rows({inputs}, out: wp.array2d[{TYPES[kind]}]):", "    i = wp.tid()"]
        lines += [f"    {x} = {x}s[i]" for x in "uvpsk"] + [f"    {x} = s{x}[i]" for x in "abr"]
        lines += [f"    out[{n}, i] = {text}" for n, text in enumerate(rows)]
    return "\n".join(lines) + "\n"


def inputs(dtype, seed, outside):
    """u, v, p, a, b, r, s and k for each thread; k may lie `outside` of the vectors."""
    rng = np.random.default_rng(seed)
    shapes = [(3,), (3,), (2,), (3, 3), (3, 3), (2, 3), ()]
    arrays = [(rng.integers(1, 9, (THREADS, *s)) * rng.choice([-1, 1], (THREADS, *s))) for s in shapes]
    if dtype != "int32":
        arrays = [a / 4 for a in arrays]
        arrays[3] += 4 * np.eye(3)  # far from singular
    u, v, _p, a, b, *_ = arrays
    v[::5], b[::4] = u[::5], a[::4]
    u[::3, 2] = u[::3, 0]
    return [*(x.astype(dtype) for x in arrays), rng.integers(-3 - outside, 3 + 2 * outside, THREADS).astype(np.int32)]
