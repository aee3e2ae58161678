"""Derivatives of what is smooth where singular values or eigenvalues are equal, or nearly: against closed forms.

The gradient of sum(W * (U f(s) V^T)) has, in the frame of U and V, the divided differences of f as factors (Daleckii
and Krein 1965); second derivatives are differences of that one, in float64.
"""

# Without postponed annotations: those of these kernels name variables.

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.analysis.symmetry import symmetry
from jwarp.config import Settings
from jwarp.ir.nodes import Op, walk
from jwarp.passes.simplify import simplify

DISTANCES = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
# Functions of the values, and their slopes; in the kernels by number.
FUNCTIONS = [
    (lambda s: np.ones_like(s), lambda s: np.zeros_like(s)),
    (lambda s: s * s, lambda s: 2.0 * s),
    (lambda s: 3.0 * np.sin(s) + 1.0 / (s + 2.0), lambda s: 3.0 * np.cos(s) - 1.0 / (s + 2.0) ** 2),
]


@wp.func
def shaped(kind: int, s: wp.Float):
    sine = type(s)(3.0) * wp.sin(s) + type(s)(1.0) / (s + type(s)(2.0))
    return wp.where(kind == 0, type(s)(1.0), wp.where(kind == 1, s * s, sine))


@functools.cache
def kernel_of(name, scalar):
    function, n = getattr(wp, name), int(name[-1])
    matrix, vector = wp.types.matrix((n, n), scalar), wp.types.vector(n, scalar)

    def svd(kinds: wp.array[int], a: wp.array[matrix], w: wp.array[matrix], y: wp.array[scalar]):
        i = wp.tid()
        u, s, v = function(a[i])
        f = vector()
        for k in range(n):
            f[k] = shaped(kinds[i], s[k])
        y[i] = wp.ddot(u @ wp.diag(f) @ wp.transpose(v), w[i])

    def eig(kinds: wp.array[int], a: wp.array[matrix], w: wp.array[matrix], y: wp.array[scalar]):
        i = wp.tid()
        q, d = function(a[i])
        f = vector()
        for k in range(n):
            f[k] = shaped(kinds[i], d[k])
        y[i] = wp.ddot(q @ wp.diag(f) @ wp.transpose(q), w[i])

    return wp.kernel({"svd": svd, "eig": eig}[name[:3]])


def transposed(a):
    return np.swapaxes(a, 1, 2)


def factors(name, a):
    """U, the values and V in float64; of svd3 as rotations, with a last value of either sign."""
    if name == "eig3":
        values, q = np.linalg.eigh((a + transposed(a)) / 2)
        return q, values, q
    u, s, vt = np.linalg.svd(a)
    if name == "svd3":
        for m in (u, vt):
            sign = np.sign(np.linalg.det(m))
            s[:, 2] *= sign
            if m is u:
                m[:, :, 2] *= sign[:, None]
            else:
                m[:, 2] *= sign[:, None]
    return u, s, transposed(vt)


def exact(name, kinds, a, w):
    """The gradient by closed form."""
    u, s, v = factors(name, a)
    g = transposed(u) @ w @ v
    x, y = np.broadcast_arrays(s[:, :, None], s[:, None, :])
    near = np.abs(x - y) < 1e-4
    total = np.zeros_like(g)
    for kind, (f, slope) in enumerate(FUNCTIONS):
        divided = np.where(near, slope((x + y) / 2), (f(x) - f(y)) / np.where(near, 1.0, x - y))
        made = divided * (g + transposed(g)) / 2
        if name != "eig3":
            made = made + (f(x) + f(y)) / np.where(x + y == 0.0, 1.0, x + y) * (g - transposed(g)) / 2
        total += np.where((kinds == kind)[:, None, None], made, 0.0)
    return u @ total @ transposed(v)


def turns(rng, count, n):
    q = np.linalg.qr(rng.normal(size=(count, n, n)))[0]
    q[:, :, 0] *= np.linalg.det(q)[:, None]
    return q


def matrices(name, rng):
    """Matrices at each distance from ones with equal values: the unit, a rotation, pairs, reflected, of lower rank."""
    n = int(name[-1])
    rests = [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [2.0, 2.0, 0.5], [2.0, 0.5, 0.5], [1.7, 1.3, -0.4], [1.5, 1.5, 0.0]]
    if name == "svd2":
        rests = [[1.0, 1.0], [1.0, 1.0], [0.7, 0.7], [1.5, 0.2]]
    if name == "eig3":
        rests += [[-1.0, 1.0, 1.0]]
    made = [np.zeros((n, n))] * len(FUNCTIONS) if name == "eig3" else []
    for distance in DISTANCES:
        for k, rest in enumerate(rests):
            q, r = turns(rng, 2, n)
            base = np.diag(rest) if k == 0 else (q if name == "eig3" else r).T @ np.diag(rest) @ q
            d = rng.uniform(-1.0, 1.0, (n, n))
            a = base + distance * (d + d.T if name == "eig3" else d)
            made += [a] * len(FUNCTIONS)
    kinds = np.tile(np.arange(len(FUNCTIONS), dtype=np.int32), len(made) // len(FUNCTIONS))
    return kinds, np.array(made)


@pytest.mark.parametrize("name, scalar", [("svd3", wp.float32), ("eig3", wp.float32), ("svd2", wp.float64)])
def test_spectral_functions_at_rest(name, scalar):
    rng = np.random.default_rng(11)
    kinds, a = matrices(name, rng)
    w, t = rng.normal(size=(2, *a.shape))
    narrow = scalar.dtype
    a, w, t = (x.astype(narrow).astype(float) for x in (a, w, t))
    h = 1e-3

    def along(k):
        return exact(name, kinds, a + k * h * t, w)

    gradient = exact(name, kinds, a, w)
    curvature = (8 * (along(1) - along(-1)) - (along(2) - along(-2))) / (12 * h)
    with jax.enable_x64(scalar is wp.float64):

        def loss(a):
            return wp.launch(kernel_of(name, scalar), len(a), [kinds, a, w.astype(narrow)], [len(a)])[0].sum()

        made, moved = jax.jvp(jax.grad(loss), (jnp.asarray(a, narrow),), (jnp.asarray(t, narrow),))
    for found, expected, bound in ((made, gradient, 1e-6), (moved, curvature, 1e-4)):
        size = np.abs(expected).max((1, 2))
        smooth = size > 1e-3  # else it is zero, as that of the polar rotation of a scalar matrix is in some directions
        error = np.abs(np.asarray(found, float) - expected).max((1, 2)) / np.where(smooth, size, 1.0)
        assert error.max() < bound, (error.argmax(), error.max())


@wp.kernel
def hencky(a: wp.array[wp.mat22], y: wp.array[float], u: wp.array[wp.mat22], v: wp.array[wp.mat22]):
    i = wp.tid()
    p, s, q = wp.svd2(a[i])
    r = p @ wp.transpose(q)
    total = wp.float32(0.0)
    for k in range(2):
        total += wp.log(s[k]) ** 2.0
    if s[1] > 0.1:
        y[i] = total + wp.ddot(r - a[i], r - a[i])
    u[i], v[i] = p * 2.0, -q


def decomposed(a):
    return wp.launch(hencky, len(a), [a], [len(a)] * 3)


def test_a_polar_rotation_that_is_composed_outside():
    """The kernel's stores depend on the choice of vectors, and the final result does not."""
    rng = np.random.default_rng(12)
    a = np.concatenate([np.eye(2) + d * rng.uniform(-1, 1, (12, 2, 2)) for d in (0.0, 1e-7, 1e-5, 3e-5)])
    a = np.concatenate([a, turns(rng, len(a), 2) @ a]).astype(np.float32)
    w, t = rng.normal(size=(2, *a.shape)).astype(np.float32)

    def loss(a):
        _, u, v = decomposed(a)
        return (u @ -jnp.swapaxes(v, 1, 2) * w).sum() / 2

    made, moved = jax.jvp(jax.grad(loss), (a,), (t,))
    kinds, h = np.zeros(len(a), np.int32), 1e-3

    def along(k):
        return exact("svd2", kinds, a + k * h * t.astype(float), w)

    curvature = (8 * (along(1) - along(-1)) - (along(2) - along(-2))) / (12 * h)
    np.testing.assert_allclose(made, along(0), atol=5e-6)
    np.testing.assert_allclose(moved, curvature, atol=1e-4)


@wp.kernel
def flipped(a: wp.array[wp.mat22], w: wp.array[wp.mat22], flips: wp.array[bool], y: wp.array[float]):
    i = wp.tid()
    p, s, q = wp.svd2(a[i])
    if flips[i]:
        p[0, 1], p[1, 1] = -p[0, 1], -p[1, 1]
        q[0, 1], q[1, 1] = -q[0, 1], -q[1, 1]
        if s[0] > 0.0:
            p = -p
    y[i] = wp.ddot(p @ wp.transpose(q), w[i])


def test_a_polar_rotation_whose_factors_are_flipped_in_branches():
    rng = np.random.default_rng(15)
    a = np.concatenate([np.eye(2) + d * rng.uniform(-1, 1, (12, 2, 2)) for d in (0.0, 1e-5, 1e-3, 1e-2)])
    a, w, t = (x.astype(np.float32) for x in (a, *rng.normal(size=(2, *a.shape))))
    flips = rng.random(len(a)) < 0.5
    run = jax.grad(lambda a: wp.launch(flipped, len(a), [a, w, flips], [len(a)])[0].sum())
    made, moved = jax.jvp(run, (a,), (t,))
    kinds, h, sign = np.zeros(len(a), np.int32), 1e-3, np.where(flips, -1.0, 1.0)[:, None, None]

    def along(k):
        return sign * exact("svd2", kinds, a + k * h * t.astype(float), w)

    curvature = (8 * (along(1) - along(-1)) - (along(2) - along(-2))) / (12 * h)
    np.testing.assert_allclose(made, along(0), atol=5e-6)
    np.testing.assert_allclose(moved, curvature, atol=1e-4)


def test_a_body_at_rest_has_no_force_and_its_stiffness():
    """An energy of values and rotation, where the kernel stores factors as well: for small strains 2 |sym(F - I)|^2,
    whose second derivative along T is 4 sym(T)."""
    rests = np.concatenate([np.eye(2)[None], turns(np.random.default_rng(13), 7, 2)]).astype(np.float32)
    t = np.random.default_rng(14).normal(size=rests.shape).astype(np.float32)
    force, stiffness = jax.jvp(jax.grad(lambda a: decomposed(a)[0].sum()), (rests,), (t,))
    np.testing.assert_allclose(force, 0.0, atol=2e-6)
    np.testing.assert_allclose(force[0], 0.0, atol=1e-8)
    inside = transposed(rests) @ t
    np.testing.assert_allclose(stiffness, rests @ (inside + transposed(inside)) * 2, rtol=1e-4, atol=2e-4)


@wp.kernel
def uses(a: wp.array[wp.mat33], b: wp.array[wp.mat33], flag: wp.array[bool], y: wp.array[float]):
    u, s, v = wp.svd3(a[0])
    x, d, z = wp.svd3(b[0])
    r = u @ wp.transpose(v)
    y[0] = r[0, 1] * wp.where(flag[0], 2.0, x[0, 0])
    y[1] = s[0] * s[1] * s[2]
    y[2] = r[1, 0] + wp.dot(x[0] @ wp.diag(wp.cw_mul(d, d)), z[1])
    y[3] = s[0] + s[1]
    y[4] = u[0, 0]
    y[5] = u[0, 0] * v[1, 0] * s[0]
    y[6] = wp.sin(r[0, 1] - a[0][1, 1]) + wp.max(s[0], wp.max(s[1], s[2]))
    y[7] = wp.determinant(u) + u[0, 0] * (s[0] - s[1])
    y[8] = u[0, 0] * v[1, 0] + u[0, 1] * v[1, 1] + u[0, 2] * v[1, 2] * wp.where(s[2] < 0.0, -1.0, 1.0)


def test_what_counts_as_symmetric():
    kernel = simplify(uses.ir(Settings()))
    found = symmetry(kernel)
    stores = [n for n in walk(kernel.body) if isinstance(n, Op) and n.name == "store"]
    symmetric = [n.args[-1] in found.symmetric for n in stores]
    assert symmetric == [False, True, True, False, False, False, True, False, True]


@wp.kernel
def exponential(a: wp.array[wp.mat33], w: wp.array[wp.mat33], y: wp.array[float]):
    i = wp.tid()
    q, d = wp.eig3(a[i])
    y[i] = wp.ddot(q @ wp.diag(wp.vec3(wp.exp(d[0]), wp.exp(d[1]), wp.exp(d[2]))) @ wp.transpose(q), w[i])


def test_a_function_with_a_scale_near_zero():
    """Of small strains with two equal values, against which exp changes little."""
    rng = np.random.default_rng(16)
    sizes = np.array([0.0, 1e-8, 1e-6, 1e-4, 1e-2])
    q = turns(rng, len(sizes), 3)
    a = (q * sizes[:, None, None] * np.array([1.0, -0.3, -0.3])) @ transposed(q)
    w, t = rng.normal(size=(2, *a.shape))
    a, w, t = (x.astype(np.float32) for x in (a, w, t))

    def loss(a):
        return wp.launch(exponential, len(a), [a, w], [len(a)])[0].sum()

    made, moved = jax.jvp(jax.grad(loss), (a,), (t,))
    ws, ts = ((x + transposed(x)) / 2 for x in (w.astype(float), t.astype(float)))
    # exp(A) is 1 + A + A A / 2 + A A A / 6 up to a part in 10^8, and the gradient of a product is it with gaps.
    b = a.astype(float)
    products = [ws @ b + b @ ws, ws @ b @ b + b @ ws @ b + b @ b @ ws]
    np.testing.assert_allclose(made, ws + products[0] / 2 + products[1] / 6, rtol=1e-5, atol=1e-6)
    terms = [ws @ ts + ts @ ws]
    terms += [sum(x @ y @ z for x, y, z in itertools.permutations((ws, ts, b)))]
    np.testing.assert_allclose(moved, terms[0] / 2 + terms[1] / 6, rtol=1e-4, atol=2e-4)


def test_what_has_a_scale():
    assert symmetry(simplify(exponential.ir(Settings()))).has_scale
    assert not symmetry(simplify(kernel_of("eig3", wp.float32).ir(Settings()))).has_scale  # with a square
    assert not symmetry(simplify(uses.ir(Settings()))).has_scale
