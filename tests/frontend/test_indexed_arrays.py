"""Indexed arrays: what kernels read and write through them, as JAX values, NumPy arrays and in batches."""

import gc
import importlib.util
import weakref
from typing import Literal

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

ROWS, POINTS = np.array([4, 0, 5, 1], np.int32), np.array([8, 2, 2, 3], np.int32)


@wp.func
def first(a: wp.array[float]):
    return a[0] * 2.0 + float(len(a))


@wp.func
def last(a: wp.indexedarray[float]):
    return a[-1] * 3.0


@wp.kernel
def mixed(x: wp.indexedarray2d[float], v: wp.indexedarray[wp.vec3], r: wp.array2d[float]):
    i, j = wp.tid()
    r[i, j] = x[i, j] * x[-1, j] + first(x[i]) + last(x[:, j]) + v[i].y * x[1:3, j][1] + x[50 * i * j, j]
    v[i].x += x[i, j]
    if i == j:
        r[i, j] += float(x.shape[0] * 10 + x.shape[1])


@wp.kernel
def scattered(values: wp.array2d[float], x: wp.indexedarray(dtype=float, ndim=2)):
    i, j = wp.tid()
    x[i, j] = values[i, j]
    wp.atomic_max(x, i, j, 0.5)


@wp.kernel
def doubled(x: wp.indexedarray[float, Literal[1]], r: wp.array[float]):
    i = wp.tid()
    r[i] = 2.0 * x[i]


@wp.kernel
def smooth(x: wp.indexedarray2d[float], v: wp.indexedarray[wp.vec3], r: wp.array2d[float]):
    i, j = wp.tid()
    r[i, j] = x[i, j] * x[-1, j] * v[i].y
    v[i].x += x[1:3, j][1]


smooth_fn = wp.jax_kernel(smooth, num_outputs=2, in_out_argnames=["v"], launch_dims=(4, 5), output_dims={"r": (4, 5)})
mixed_fn = wp.jax_kernel(mixed, num_outputs=2, in_out_argnames=["v"], output_dims={"r": (4, 5)})


def inputs():
    rng = np.random.default_rng(0)
    return rng.normal(size=(6, 5)).astype(np.float32), rng.normal(size=(9, 3)).astype(np.float32)


def expected(x, v):
    s, w = x[ROWS], v[POINTS]
    i, j = np.indices(s.shape)
    outside = np.where(i * j == 0, s[:1], 0.0)
    r = s * s[-1] + 2 * s[:, :1] + 5 + 3 * s[-1:] + w[:, 1:2] * s[2] + outside + np.where(i == j, 45, 0)
    after = v.copy()
    np.add.at(after, (POINTS, 0), s.sum(1))
    return after, r


def test_kernels_see_the_elements_that_indices_name():
    x, v = inputs()
    after, r = expected(x, v)
    v_out, got = jax.jit(mixed_fn)(wp.indexedarray(x, [ROWS]), wp.indexedarray(v, POINTS))
    np.testing.assert_allclose(got, r, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(v_out.data, after, rtol=1e-5)
    np.testing.assert_array_equal(v_out.indices[0], POINTS)
    given = [wp.indexedarray(jnp.asarray(x), [ROWS, None]), wp.indexedarray(jnp.asarray(v), POINTS), jnp.zeros((4, 5))]
    found = wp.launch(mixed, (4, 5), given)
    np.testing.assert_allclose(found["r"], r, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["v"].data, after, rtol=1e-5)


def test_numpy_arrays_are_written_in_place():
    rng = np.random.default_rng(1)
    x, values = np.zeros((6, 7), np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    columns = np.array([6, 0, 3], np.int32)
    wp.launch(scattered, (4, 3), [values], [wp.indexedarray(x, [ROWS, columns])])
    wanted = np.zeros_like(x)
    wanted[np.ix_(ROWS, columns)] = np.maximum(values, 0.5)
    np.testing.assert_array_equal(x, wanted)


def test_derivatives_and_batches():
    x, v = map(jnp.asarray, inputs())

    def fn(x, v):
        return smooth_fn(wp.indexedarray(x, [ROWS]), wp.indexedarray(v, POINTS))

    wp.check_grads(lambda x, v: [fn(x, v)[0].data, fn(x, v)[1]], (x, v))
    batch = jax.vmap(fn, in_axes=(0, None))(jnp.stack([x, -2 * x]), v)
    one = jax.tree.map(lambda a: a[1], batch)
    jax.tree.map(lambda got, wanted: np.testing.assert_allclose(got, wanted, rtol=1e-5), one, fn(-2 * x, v))


def imported(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_warp_gives_the_same(tmp_path):
    warp = pytest.importorskip("warp")
    path = tmp_path / "indexed_of_warp.py"
    text = (
        "import warp as wp\n\n"
        "@wp.kernel(enable_backward=False)\n"
        "def scattered(values: wp.array2d[float], x: wp.indexedarray(dtype=float, ndim=2), r: wp.array[float]):\n"
        "    i, j = wp.tid()\n"
        "    x[i, j] = values[i, j]\n"
        "    wp.atomic_max(x, i, j, 0.5)\n"
        "    if i == 0 and j == 0:\n"
        "        row = x[1]\n"
        "        r[0] = float(x.shape[0] * 100 + x.shape[1] * 10 + row.shape[0])\n"
    )
    warp.config.quiet = True
    path.write_text(text)
    module = imported(path, "indexed_of_warp")
    values = np.random.default_rng(2).normal(size=(4, 3)).astype(np.float32)
    columns = np.array([6, 0, 3], np.int32)
    data = warp.zeros((6, 7), dtype=float, device="cpu")
    indices = [warp.array(a, dtype=int, device="cpu") for a in (ROWS, columns)]
    r = warp.zeros(1, dtype=float, device="cpu")
    warp.launch(module.scattered, (4, 3), [warp.array(values, device="cpu"), warp.indexedarray(data, indices), r])
    path.write_text(text.replace("import warp as wp", "import jwarp as wp"))
    own = imported(path, "indexed_of_jwarp")
    x, got = np.zeros((6, 7), np.float32), np.zeros(1, np.float32)
    wp.launch(own.scattered, (4, 3), [values], [wp.indexedarray(x, [ROWS, columns]), got])
    np.testing.assert_array_equal(x, data.numpy())
    np.testing.assert_array_equal(got, r.numpy())


def test_export_and_default_dims():
    x = jnp.arange(6.0)
    fn = wp.jax_kernel(doubled)
    given = wp.indexedarray(x, jnp.asarray(ROWS))
    np.testing.assert_array_equal(fn(given)[0], 2 * x[ROWS])
    exported = jax.export.export(jax.jit(fn), disabled_checks=wp.EXPORT_CHECKS)(given)
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(again.call(given)[0], 2 * x[ROWS])
    assert (given.shape, given.ndim, given.dtype) == ((4,), 1, np.float32)
    assert "indexedarray" in repr(given)


def test_what_does_not_fit_is_refused():
    x = np.zeros(6, np.float32)
    with pytest.raises(wp.KernelTypeError, match="2 arrays of indices for 1 axes"):
        wp.indexedarray(x, [ROWS, ROWS])
    with pytest.raises(wp.KernelTypeError, match="expected indexedarray"):
        wp.launch(doubled, 4, [x], [4])
    with pytest.raises(wp.KernelTypeError, match="x.indices0"):
        wp.launch(doubled, 4, [wp.indexedarray(x, ROWS.astype(np.int64))], [4])
    with pytest.raises(wp.LaunchError, match="2 arrays of indices for the 1 dimension"):
        wp.launch(doubled, 4, [wp.indexedarray(np.zeros((6, 2), np.float32), [ROWS, None])], [4])
    with pytest.raises(wp.KernelTypeError, match="expected indexedarray"):
        wp.launch(scattered, (4, 3), [np.zeros((4, 3), np.float32)], [(6, 7)])
    with pytest.raises(wp.KernelTypeError, match="scalar, vector, matrix"):
        wp.indexedarray[str]
    assert wp.fabricarrayarray(dtype=float).ndim == wp.indexedfabricarrayarray(dtype=float).ndim == 2


@wp.kernel
def copied(x: wp.fabricarray(dtype=wp.vec3), rows: wp.indexedfabricarray(dtype=float), y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i][1] * rows[i]


def test_arrays_are_given_for_those_of_fabric():
    x = np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)
    y = wp.zeros(5, dtype=float)
    rows = wp.array([4, 0, 1, 1, 2], dtype=int)
    selected = wp.indexedfabricarray(fa=wp.array(x[:, 3].copy()), indices=rows)
    wp.launch(copied, 5, [wp.array(x[:, :3], dtype=wp.vec3), selected], [y])
    np.testing.assert_array_equal(y.numpy(), x[:, 1] * x[rows.numpy(), 3])


class _Fabric:
    """The interface of an attribute whose buckets are parts of an array."""

    def __init__(self, data, told, counts, apart=0, **changes):
        size = data.size and data.layout.itemsize
        starts = np.cumsum([0, *counts[:-1]]) * size + apart * np.arange(len(counts)) + (data.ptr or 0)
        about = {"type": told, "access": 2, "pointers": starts.tolist(), "counts": counts, **changes}
        self.__fabric_arrays_interface__ = {"version": 1, "device": "cpu", "attribs": {"x": about}}
        self.data = data


def test_an_attribute_of_fabric_is_an_array():
    data = wp.array(np.random.default_rng(4).normal(size=(7, 2, 2)).astype(np.float32), dtype=wp.mat22)
    values, gone = data.numpy(), weakref.ref(fabric := _Fabric(data, (True, "f4", 4, 0, "matrix"), [2, 0, 4, 1]))
    shown = wp.fabricarray(fabric, "x")
    del fabric
    assert shown.dtype is wp.mat22 and shown.shape == (7,) and gone() is not None
    np.testing.assert_array_equal(shown.numpy(), values)
    shown[wp.array([6, 0], dtype=int)].fill_(3.0)
    values[[6, 0]] = 3.0
    np.testing.assert_array_equal(data.numpy(), values)
    del shown
    gc.collect()
    assert gone() is None
    assert wp.fabricarray(_Fabric(wp.zeros(0, dtype=wp.quat), (True, "f8", 4, 0, "quat"), []), "x").dtype is wp.quatd


@pytest.mark.parametrize(
    "given, said",
    [
        ({"told": (True, "f4", 1, 0)}, "must contain five elements, got 4"),
        ({"told": (True, "f4", 6, 0, "matrix")}, "must have a square element count, got 6"),
        ({"told": (True, "f3", 1, 0, "")}, "is not a type of kernels"),
        ({"told": (False, "f4", 1, 0, "")}, "is not a type of kernels"),
        ({"told": (True, "u1", 1, 0, "text")}, "is not a type of kernels"),
        ({"told": (True, "f4", 1, 1, "")}, "the elements of 'x' are arrays"),
        ({"apart": 4}, "do not follow one another"),
        ({"counts": [7, -1]}, "2 buckets and 2 counts"),
        ({"pointers": [1]}, "1 buckets and 2 counts"),
    ],
)
def test_what_fabric_says_amiss_is_refused(given, said):
    known = {"told": (True, "f4", 1, 0, ""), "counts": [3, 3], **given}
    with pytest.raises(
        wp.LaunchError if "must" in said or "bucket" in said or "follow" in said else wp.KernelTypeError
    ) as e:
        wp.fabricarray(_Fabric(wp.zeros(6), **known), "x")
    assert said in str(e.value)


def test_other_data_is_not_fabrics():
    with pytest.raises(wp.KernelTypeError, match="must have __fabric_arrays_interface__, not be list"):
        wp.fabricarray([1.0], "x")
    with pytest.raises(wp.LaunchError, match="version 2 of the interface"):
        wp.fabricarray({"version": 2}, "x")
    with pytest.raises(wp.LaunchError, match="no attribute 'y'"):
        wp.fabricarray({"version": 1, "attribs": {}}, "y")


def test_structs_of_arrays_move_to_devices():
    @wp.struct
    class Inner:
        to: float

    @wp.struct
    class Holder:
        a: wp.array[float]
        b: wp.indexedarray[float]
        inner: Inner
        k: int

    a, rows = wp.zeros(3), wp.array([1], dtype=int)
    held = Holder(a=a, b=wp.indexedarray(a, rows), inner=Inner(to=2.0), k=3)
    moved = held.to("cpu")
    assert moved is not held and moved.a is a and moved.b is held.b and moved.k == 3 and moved.inner.to == 2.0
    assert Holder.key == "test_structs_of_arrays_move_to_devices__locals__Holder"


def test_indices_of_an_output_are_read_alone():
    """So that NumPy's index a JAX array, and the other way round; they come back as they were given."""
    values = np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)
    want = np.zeros((6, 5), np.float32)
    want[ROWS] = np.maximum(values, 0.5)
    for rows in (ROWS, jnp.asarray(ROWS)):
        (found,) = wp.launch(scattered, (4, 5), [values], [wp.indexedarray(jnp.zeros((6, 5)), [rows])])
        assert isinstance(found.data, jax.Array) and found.indices[0] is rows
        np.testing.assert_array_equal(found.data, want)
        x = np.zeros((6, 5), np.float32)
        wp.launch(scattered, (4, 5), [values], [wp.indexedarray(x, [rows])])
        np.testing.assert_array_equal(x, want)
