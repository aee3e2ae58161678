"""Arrays of structs: as fields of structs, and as arrays whose elements lie one after the other in memory."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp


@wp.struct
class Inner:
    v: wp.vec3
    n: int


@wp.struct
class Joint:
    inner: Inner
    m: wp.mat22


@wp.struct
class Model:
    joints: wp.array[Joint]
    scale: float
    grid: wp.array2d[Inner]


@wp.struct
class World:
    model: Model
    w: wp.array[float]


@wp.func
def shift(model: Model, i: int) -> float:
    return model.joints[i].inner.v[1] * model.scale


@wp.kernel
def moved(world: World, other: Model, k: int, r: wp.array[float]):
    i = wp.tid()
    model = world.model
    if k == i:
        model.joints = other.joints
        if other.grid:
            model.grid = other.grid
    joint = model.joints[i]
    joint.inner.v *= world.w[i]
    empty = Model()
    r[i] = shift(model, i) + wp.dot(joint.inner.v, joint.inner.v) + model.grid[i % 2, 1].v[0]
    r[i] += float(joint.inner.n) + joint.m[0, 1] + float(empty.joints.shape[0] + model.grid.shape[1])


def joints(rng, count, xp=jnp):
    v, n, m = rng.normal(size=(count, 3)), rng.integers(0, 9, count), rng.normal(size=(count, 2, 2))
    inner = Inner(v=xp.asarray(v, np.float32), n=xp.asarray(n, np.int32))
    return Joint(inner=inner, m=xp.asarray(m, np.float32))


def world():
    rng = np.random.default_rng(0)
    grid = Inner(v=jnp.asarray(rng.normal(size=(2, 3, 3)), jnp.float32), n=jnp.zeros((2, 3), jnp.int32))
    model = Model(joints=joints(rng, 4), scale=1.5, grid=grid)
    other = Model(joints=joints(rng, 4), scale=0.5, grid=None)
    return World(model=model, w=jnp.asarray(rng.normal(size=4), jnp.float32)), other


def expected(world, other, k):
    mine, theirs = world.model.joints, other.joints
    chosen = jnp.arange(4) == k
    v = jnp.where(chosen[:, None], theirs.inner.v, mine.inner.v)
    n = jnp.where(chosen, theirs.inner.n, mine.inner.n)
    m = jnp.where(chosen, theirs.m[:, 0, 1], mine.m[:, 0, 1])
    total = v[:, 1] * world.model.scale + ((v * world.w[:, None]) ** 2).sum(1)
    return total + world.model.grid.v[jnp.arange(4) % 2, 1, 0] + n + m + 3


def fn(world, other, k):
    return wp.launch(moved, 4, [world, other, k], [4])[0]


def test_fields_that_are_arrays_of_structs():
    w, other = world()
    np.testing.assert_allclose(fn(w, other, 2), expected(w, other, 2), rtol=1e-5)

    def loss(f, model, weights, theirs):
        return (f(World(model=model, w=weights), other.replace(joints=theirs), 2) ** 2).sum()

    given, which = (w.model, w.w, other.joints), (1, 2, 3)
    found, wanted = (jax.grad(loss, which, allow_int=True)(f, *given) for f in (fn, expected))
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        if x.dtype == jnp.float32:
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)
    batch = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x), 2 * jnp.asarray(x)]), w)
    got = jax.vmap(lambda w: fn(w, other, 1))(batch)
    np.testing.assert_allclose(got, jax.vmap(lambda w: expected(w, other, 1))(batch), rtol=1e-5)


@wp.kernel
def turned(joints: wp.array[Joint], by: wp.array[float], r: wp.array[float]):
    i = wp.tid()
    r[i] = joints[i].inner.v[2] * joints[i].m[1, 0]
    joints[i].inner.v[0] = by[i]
    joints[i].inner.n += i


@wp.kernel
def held(model: Model, r: wp.array[float]):
    i = wp.tid()
    r[i] = model.joints[i].inner.v[1] * model.scale


LAYOUT = np.dtype(
    {"names": ["inner", "m"], "formats": [[("v", "<f4", 3), ("n", "<i4")], ("<f4", (2, 2))], "itemsize": 48}
)


def structured():
    rng = np.random.default_rng(1)
    made = np.zeros(8, LAYOUT)
    made["inner"]["v"], made["m"] = rng.normal(size=(8, 3)), rng.normal(size=(8, 2, 2))
    made["inner"]["n"] = np.arange(8)
    return made


@pytest.mark.quick
@pytest.mark.parametrize("step", [1, -2])
def test_structs_that_lie_one_after_the_other(step):
    array = structured()
    before, shown = array.copy(), array[::step]
    n = len(shown)
    by = np.arange(n, dtype=np.float32) / 4
    joints, r = wp.launch(turned, n, {"by": by}, {"joints": shown, "r": np.zeros(n, np.float32)}).values()
    assert np.shares_memory(joints.inner.v, array)
    np.testing.assert_allclose(r, before["inner"]["v"][::step, 2] * before["m"][::step, 1, 0])
    np.testing.assert_array_equal(shown["inner"]["v"][:, 0], by)
    np.testing.assert_array_equal(shown["inner"]["n"], before["inner"]["n"][::step] + np.arange(n))
    np.testing.assert_array_equal(array["inner"]["v"][:, 1:], before["inner"]["v"][:, 1:])
    model = {"joints": shown, "scale": 2.0, "grid": None}
    np.testing.assert_allclose(wp.launch(held, n, [model], [n])[0], 2 * before["inner"]["v"][::step, 1], rtol=1e-6)


@pytest.mark.quick
def test_what_does_not_fit_is_refused():
    other = np.zeros(4, [("v", "<f4", 3), ("m", "<f4", (2, 2))])
    with pytest.raises(wp.KernelTypeError, match="parameter 'joints': the elements have the fields v, m, not inner, m"):
        wp.launch(turned, 4, {"by": np.zeros(4, np.float32)}, {"joints": other, "r": np.zeros(4, np.float32)})

    interface = {"typestr": "|V48", "shape": (4,), "data": (0, False), "version": 3}
    on_gpu = types.SimpleNamespace(__cuda_array_interface__=interface)
    with pytest.raises(wp.KernelTypeError, match="an array of structs on a GPU"):
        wp.launch(held, 4, [{"joints": on_gpu, "scale": 1.0, "grid": None}], [4])


@pytest.mark.quick
def test_arrays_of_warp_are_what_warp_makes_of_them():
    warp = pytest.importorskip("warp")
    warp.config.quiet = True

    @warp.struct
    class Body:
        v: warp.vec3
        n: warp.int8
        d: warp.float64
        q: warp.quat

    @warp.struct
    class Scene:
        bodies: warp.array(dtype=Body)
        scale: float

    @warp.kernel(module="unique", enable_backward=False)
    def stepped(bodies: warp.array(dtype=Body), scene: Scene, r: warp.array(dtype=warp.float64)):
        i = warp.tid()
        b = scene.bodies[i]
        r[i] = b.d * warp.float64(scene.scale) + warp.float64(b.q[3])
        bodies[i].v = warp.quat_rotate(b.q, bodies[i].v)
        bodies[i].n += warp.int8(i)

    zeros = warp.zeros(5, dtype=Body, device="cpu")
    rng = np.random.default_rng(2)
    content = [np.zeros(5, zeros.numpy().dtype) for _ in range(2)]
    for c in content:
        c["v"], c["q"], c["d"] = rng.normal(size=(5, 3)), rng.normal(size=(5, 4)), rng.normal(size=5)
    results = []
    for library in (warp, wp):
        bodies, others = (warp.array(c, dtype=Body, device="cpu") for c in content)
        scene = Scene()
        scene.bodies, scene.scale = others, 3.0
        r = warp.zeros(5, dtype=warp.float64, device="cpu")
        library.launch(stepped, 5, [bodies, scene, r])
        results.append((bodies.numpy(), r.numpy()))
    for name in zeros.numpy().dtype.names:
        np.testing.assert_allclose(results[0][0][name], results[1][0][name], rtol=1e-5)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-12)


@wp.struct
class Found:
    grid: wp.uint64
    count: int


@wp.kernel
def words(found: Found, listed: wp.array[Found], number: wp.uint64, out: wp.array[wp.uint64]):
    out[0] = found.grid
    out[1] = listed[0].grid
    out[2] = number
    for _ in wp.hash_grid_query(found.grid, wp.vec3(0.0), 1.0):
        out[3] = wp.uint64(7)


def test_minus_one_is_the_id_of_nothing():
    """As in C, a number below 0 gives its bits; programs mark grids that they do not have so."""
    found = Found()
    found.grid = -1
    out = wp.full(4, 1, dtype=wp.uint64)
    wp.launch(words, 1, inputs=[found, wp.array([found], dtype=Found), -2], outputs=[out])
    assert out.numpy().tolist() == [2**64 - 1, 2**64 - 1, 2**64 - 2, 1]
    with pytest.raises(wp.LaunchError, match="which is outside"):
        wp.launch(words, 1, inputs=[found, wp.array([found], dtype=Found), 2**64], outputs=[out])
