"""The surroundings of arrays and structs: NumPy's views, capsules, fills and maps of indexed arrays, annotations."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.errors import KernelTypeError, LaunchError


@wp.struct
class Inner:
    n: wp.int8
    v: wp.vec3


@wp.struct
class Outer:
    x: float
    inner: Inner
    m: wp.mat22d


@wp.struct
class WithArray:
    x: wp.array[float]


@wp.kernel
def squared(a: WithArray, out: wp.array[float]):
    i = wp.tid()
    out[i] = a.x[i] * a.x[i]


@wp.func
def tenfold(x: float):
    return x * 10.0


@wp.func
def pair(x: float, k: float):
    return x * k, x + k


def test_structs_describe_their_elements_to_numpy():
    rng = np.random.default_rng(5)
    value = Outer(1.5, Inner(3, wp.vec3(*rng.normal(size=3))), wp.mat22d(*rng.normal(size=4)))
    elements = np.zeros(2, dtype=Outer.numpy_dtype())
    elements[1] = value.numpy_value()
    a = wp.array([Outer(), value], dtype=Outer)
    assert a.numpy().dtype == Outer.numpy_dtype() and (a.numpy() == elements).all()
    assert set(Outer.numpy_dtype()) == {"names", "formats", "offsets", "itemsize"}
    back = wp.array(elements, dtype=Outer).list()[1]
    assert np.array_equal(back.m, value.m) and np.array_equal(back.inner.v, value.inner.v) and back.inner.n == 3


def test_numpy_takes_the_memory_of_an_array():
    a = wp.array(np.arange(6.0, dtype=np.float32).reshape(2, 3))
    described = a.__array_interface__
    assert described["shape"] == (2, 3) and described["data"][0] == a.ptr
    np.asarray(a)[1, 2] = 7.0
    assert a.numpy()[1, 2] == 7.0
    assert not hasattr(wp.array(dtype=float), "__array_interface__")
    halves = wp.array([1.0, 2.0], dtype=wp.bfloat16)
    assert np.asarray(halves).astype(np.float32).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_capsules_are_arrays(dtype):
    content = np.array([0, 1, 1, 0], dtype)
    a = wp.array(content)
    b = wp.from_dlpack(wp.to_dlpack(a))
    assert b.ptr == a.ptr and b.dtype is a.dtype and (b.numpy() == content).all()
    assert wp.from_dlpack(content.__dlpack__()).numpy().tolist() == content.tolist()
    if dtype is np.bool_:
        assert wp.from_dlpack(wp.to_dlpack(a), dtype=wp.int8).numpy().tolist() == [0, 1, 1, 0]


def test_a_capsule_is_taken_once():
    capsule = wp.to_dlpack(wp.zeros(2))
    wp.from_dlpack(capsule)
    with pytest.raises(KernelTypeError, match="taken already"):
        wp.from_dlpack(capsule)


def test_a_tape_has_the_gradients_of_structs():
    a = WithArray()
    a.x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    out = wp.zeros(3, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squared, dim=3, inputs=[a, out])
    tape.backward(grads={out: wp.ones(3, dtype=float)})
    assert tape.gradients[a].x.numpy().tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(KeyError):
        tape.gradients[wp.zeros(1)]


def test_annotations_take_literals():
    assert wp.tile[float, Literal[8], Literal[4]] == wp.tile(dtype=float, shape=(8, 4))
    assert wp.types.is_array(wp.fabricarray[float]) and wp.fabricarray[float] != wp.array[float]
    assert wp.fixedarray(dtype=int, shape=(2, 3)) == wp.array2d[int]
    with pytest.raises(KernelTypeError):
        wp.fixedarray([1, 2], dtype=int)


def test_shapes_may_be_arrays_of_numpy():
    assert wp.zeros(np.array([2, 3])).shape == (2, 3) and wp.zeros(np.int64(4)).shape == (4,)
    for wrong in (np.array([2.0, 3.0]), np.array([-1, 2])):
        with pytest.raises(LaunchError):
            wp.zeros(wrong)


def test_indexed_arrays_fill_what_they_name():
    rng = np.random.default_rng(3)
    content = rng.normal(size=(4, 5)).astype(np.float32)
    rows, columns = np.array([3, 1], np.int32), np.array([0, 4, 2], np.int32)
    a = wp.array(content)
    indexed = wp.indexedarray(a, [wp.array(rows), wp.array(columns)])
    indexed.fill_(2.5)
    content[np.ix_(rows, columns)] = 2.5
    assert np.array_equal(a.numpy(), content)
    wp.indexedarray(a, [None, wp.array(columns)]).zero_()
    content[:, columns] = 0.0
    assert np.array_equal(a.numpy(), content)
    v = wp.zeros(3, dtype=wp.vec2)
    wp.indexedarray(v, [wp.array([1], dtype=int)]).fill_(wp.vec2(1.0, 2.0))
    assert v.numpy().tolist() == [[0, 0], [1, 2], [0, 0]]
    structs = wp.zeros(3, dtype=Inner)
    wp.indexedarray(structs, [wp.array([2, 0], dtype=int)]).fill_(Inner(7, wp.vec3(1.0)))
    assert structs.numpy()["n"].tolist() == [7, 0, 7] and structs.numpy()["v"].sum() == 6.0


@wp.kernel
def square(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = x[i, j] * x[i, j]


@pytest.mark.parametrize("captured", (False, True))
def test_what_an_indexed_fill_overwrites_has_no_gradient(captured):
    content = np.random.default_rng(7).normal(size=(5, 4)).astype(np.float32)
    x, y, z = (wp.array(a, requires_grad=True) for a in (content, np.zeros_like(content), np.zeros_like(content)))
    rows = wp.array([3, 1], dtype=int)

    def run():
        tape = wp.Tape()
        with tape:
            wp.launch(square, (5, 4), inputs=[x, y])
            wp.indexedarray(y, [rows, None]).fill_(3.0)
            wp.launch(square, (5, 4), inputs=[y, z])
        rows.fill_(0)  # the gradient goes by those that there were
        tape.backward(grads={z: wp.ones((5, 4))})

    if captured:
        with wp.ScopedCapture() as capture:
            run()
        for _ in range(3):
            rows.assign([3, 1])
            x.grad.zero_()
            wp.capture_launch(capture.graph)
    else:
        run()
    expected = 4 * content**3
    expected[[3, 1]] = 0
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)
    assert (z.numpy()[[3, 1]] == 9).all()


def test_maps_of_indexed_arrays_have_derivatives():
    rng = np.random.default_rng(4)
    content, named = rng.normal(size=10).astype(np.float32), np.array([7, 1, 7], np.int32)
    a = wp.array(content, requires_grad=True)
    indexed = wp.indexedarray(a, [wp.array(named)])
    with wp.Tape() as tape:
        y = wp.map(tenfold, indexed)
    assert isinstance(y, wp.array) and np.array_equal(y.numpy(), content[named] * np.float32(10))
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    assert a.grad.numpy().tolist() == [0, 10, 0, 0, 0, 0, 0, 20, 0, 0]
    product, total = wp.map(pair, indexed, 3.0)
    assert np.array_equal(product.numpy(), content[named] * 3) and np.array_equal(total.numpy(), content[named] + 3)
    assert np.array_equal((2.0 * indexed).numpy(), content[named] * 2)
    assert np.array_equal((indexed - 1.0).numpy(), content[named] - 1)
    assert np.array_equal(indexed.contiguous().numpy(), content[named]) and indexed.list() == content[named].tolist()
    rows = wp.indexedarray(wp.array(content.reshape(5, 2)), [wp.array([4, 0], dtype=int), None])
    assert np.array_equal(wp.map(tenfold, rows).numpy(), content.reshape(5, 2)[[4, 0]] * np.float32(10))


def test_expectations_outside_kernels_are_printed(capsys):
    wp.expect_eq(wp.vec3(1.0), wp.vec3(1.0))
    wp.expect_neq(1, 2)
    wp.expect_near(1.0, 1.0005, 1e-3)
    assert capsys.readouterr().err == ""
    for wrong in (lambda: wp.expect_eq(1, 2), lambda: wp.expect_neq(1, 1), lambda: wp.expect_near(1.0, 1.1, 1e-3)):
        wrong()
        assert "failed" in capsys.readouterr().err
    wp.expect_near(float("nan"), float("nan"))
    assert "failed" in capsys.readouterr().err


@wp.kernel
def scaled(a: wp.array[wp.vec2], k: float, c: wp.array[float], d: wp.array[wp.vec2]):
    i = wp.tid()
    c[i] = k * a[i][0]
    d[i] = k * a[i]


def scale(a: wp.array[wp.vec2], k: float, c: wp.array[float], d: wp.array[wp.vec2]):
    wp.launch(scaled, dim=a.shape, inputs=[a, k], outputs=[c, d])


@pytest.mark.parametrize("make", [lambda: wp.jax_kernel(scaled, 2), lambda: wp.jax_callable(scale, 2)])
def test_output_dims_may_have_the_axes_of_components(make: Any):
    a = jnp.asarray(np.random.default_rng(6).normal(size=(5, 2)), jnp.float32)
    for shape in ((5, 2), (5,), 5):
        c, d = jax.jit(lambda a, s=shape: make()(a, 2.0, output_dims={"c": (5,), "d": s}))(a)
        assert np.array_equal(c, 2 * a[:, 0]) and np.array_equal(d, 2 * a)
    for wrong in ((5, 3), (5, 2, 2)):
        with pytest.raises(LaunchError):
            make()(a, 2.0, output_dims={"c": (5,), "d": wrong})


def test_components_at_an_address():
    a = wp.array(np.random.default_rng(5).normal(size=(4, 3)), dtype=wp.vec3)
    found = wp.vec3.from_ptr(a.ptr + 12)
    np.testing.assert_array_equal(found, a.numpy()[1])
    a.zero_()
    assert wp.mat22.from_ptr(a.ptr).shape == (2, 2) and np.abs(found).max() > 0
    with pytest.raises(RuntimeError, match="NULL pointer exception"):
        wp.vec3.from_ptr(0)
    for address in (12345, a.ptr + 40, a.ptr - 4, -1, 2**70):
        with pytest.raises(wp.LaunchError, match="no array that is alive on the host has the address"):
            wp.vec3.from_ptr(address)
