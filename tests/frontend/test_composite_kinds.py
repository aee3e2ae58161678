"""A kind of composites without a row of its own anywhere else computes, differentiates, and is taken for no other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from complex_kind import COMPLEX, complex_numbers, cplx
from error_checks import T, check

import jwarp as wp
from jwarp.frontend.values.bindings import Composite
from jwarp.frontend.values.operator_table import OPERATORS
from jwarp.ir.builder import zero
from jwarp.ir.serialize import fingerprint, from_bytes, to_bytes
from jwarp.types import KINDS

ONE = cplx(1.0, 0.0)


@pytest.fixture(autouse=True)
def kind():
    with complex_numbers():
        yield


@wp.func
def magnitude(z: cplx):
    return z.re * z.re + z.im * z.im


@wp.func
def magnitude(v: wp.vec2):  # noqa: F811
    return wp.length_sq(v) + 1000.0


@wp.struct
class Wave:
    amplitude: cplx
    phase: float


@wp.kernel
def iterate(c: wp.array[cplx], w: Wave, out: wp.array[cplx], size: wp.array[float], parts: wp.array[wp.vec2]):
    i = wp.tid()
    z = cplx()
    for _ in range(3):
        z = z * z + c[i]
    z += w.amplitude / 2.0 - ONE * w.phase
    same = z == z
    out[i] = wp.where(same, -z, cplx(0.0, 0.0))
    size[i] = magnitude(out[i])
    parts[i] = wp.vec2(z[0], z.im)


def expected(c, w):
    z, c = jnp.zeros((), complex), c[:, 0] + 1j * c[:, 1]
    for _ in range(3):
        z = z * z + c
    z = z + (w["amplitude"][0] + 1j * w["amplitude"][1]) / 2 - w["phase"]
    return jnp.stack([-z.real, -z.imag], -1), jnp.abs(z) ** 2


def test_kernels_compute_with_them():
    c = np.array([[0.1, 0.2], [-0.3, 0.5]], np.float32)
    w = {"amplitude": jnp.array([0.5, -1.0]), "phase": jnp.float32(0.25)}
    fn = wp.jax_kernel(iterate, num_outputs=3)
    out, size, parts = fn(c, w)
    for found, wanted in zip((out, size), expected(c, w), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(parts, -out, rtol=1e-6)
    gradients = jax.grad(lambda c, w: fn(c, w)[1].sum(), argnums=(0, 1))(jnp.asarray(c), w)
    wanted = jax.grad(lambda c, w: expected(c, w)[1].sum(), argnums=(0, 1))(jnp.asarray(c), w)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4), gradients, wanted)


@wp.kernel
def places(c: wp.array[cplx], out: wp.array[cplx]):
    i = wp.tid()
    kept = wp.zeros(shape=2, dtype=cplx)
    kept[1] = c[i]
    kept[1].re += 1.0
    z = kept[1]
    z[1] = 2.0 * z.im
    out[0] += z
    out[1] -= cplx(z[:][1], 0.0)


@wp.kernel
def blocks(c: wp.array[cplx], out: wp.array[cplx]):
    t = wp.tile_load(c, shape=4)
    wp.tile_store(out, 2.0 * t + wp.tile_full(shape=4, value=cplx(1.0, 0.0), dtype=cplx))


def test_places_and_tiles_hold_them():
    c = np.arange(8, dtype=np.float32).reshape(4, 2)
    out = np.zeros((2, 2), np.float32)
    wp.launch(places, 4, [c], [out])
    np.testing.assert_allclose(out, [[16, 32], [-32, 0]])
    out = np.zeros((4, 2), np.float32)
    wp.launch_tiled(blocks, 1, [c], [out], block_dim=32)
    np.testing.assert_allclose(out, 2 * c + np.array([1, 0]))


def test_unary_minus_and_sums_are_rows():
    """Where a sum is not by components, no element of an array is changed by atomic operations on components."""

    def conjugate(e, symbol, name, z, nothing, span):
        return Composite(z.type, (z.items[0], e.emit("neg", z.items[1], span=span)))

    def without_imaginary(e, symbol, name, x, y, span):
        return Composite(x.type, (e.emit("add", x.items[0], y.items[0], span=span), zero(wp.float32)))

    OPERATORS["neg", COMPLEX, None] = conjugate
    OPERATORS["add", COMPLEX, COMPLEX] = without_imaginary

    @wp.kernel
    def k(z: wp.array[cplx]):
        z[0] = -z[0]
        z[1] += z[2]
        z[2] -= z[0]
        wp.atomic_sub(z, 3, z[0])

    @wp.kernel
    def adds(z: wp.array[cplx]):
        wp.atomic_add(z, 0, z[0])

    z = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    wp.launch(k, 1, [z])
    np.testing.assert_array_equal(z, [[1, -2], [8, 0], [4, 8], [6, 10]])
    with pytest.raises(wp.KernelTypeError, match="wp.atomic_add does not take cplx"):
        adds.ir()


def test_the_bytes_of_a_kernel_name_the_kind():
    @wp.kernel
    def first(x: wp.array[cplx], y: wp.array[wp.vec2], z: wp.vec2):
        y[0] = wp.vec2(x[0].re, z[1])

    ir = first.ir()
    again = from_bytes(to_bytes(ir))
    assert [p.type for p in again.params] == [p.type for p in ir.params] and fingerprint(again) == fingerprint(ir)
    assert again.params[0].type.element is cplx and again.params[2].type.element is wp.vec2
    KINDS.pop("complex")
    with pytest.raises(ValueError, match="there are no components"):
        from_bytes(to_bytes(ir))


KERNEL = "from complex_kind import cplx\nimport jwarp as wp\n\n@wp.kernel\ndef k(z: cplx, v: wp.vec2, x: float):\n"

# As in test_composite_errors.py.
BODIES = {
    "another kind": ("u = «z + v»", T, "`+` does not take (cplx, vec2)", ""),
    "compared with another kind": ("u = «z == v»", T, "`==` does not take (cplx, vec2)", "components"),
    "made a vector": ("u = «wp.vec2(z)»", T, "cplx cannot become vec2", ""),
    "made of a vector": ("u = «cplx(v)»", T, "vec2 cannot become cplx", ""),
    "made of one number": ("u = «cplx(1.0)»", T, "cplx has 2 components: incompatible number of values given (1)", ""),
    "function of vectors": ("u = «wp.dot(z, z)»", T, "wp.dot takes 2 vectors of one type, got (cplx, cplx)", ""),
    "function of scalars": ("u = «wp.abs(z)»", T, "wp.abs does not take (cplx)", ""),
    "composed function": ("u = wp.sign(«z»)", T, "must be a scalar, not cplx", ""),
    "missing operator": ("u = «z / z»", T, "`/` does not take (cplx, cplx)", ""),
    "sum with a number": ("u = «z + x»", T, "`+` does not take (cplx, float32)", ""),
    "names of other kinds": ("u = «z.x»", T, "`x` is not an attribute of cplx", ""),
    "order": ("u = «z < z»", T, "`<` does not take (cplx, cplx)", "components"),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_mistake_with_kinds(name, tmp_path):
    text, error, words, hint = BODIES[name]
    check(f"{KERNEL}    {text}\n", error, words, hint, tmp_path)
