"""Copies from and to indexed arrays: contents as NumPy has them, gradients by hand, arrays that do not fit."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(3)
ROWS, COLUMNS = np.array([4, 0, 2]), np.array([1, 3])


def indices(*named):
    return [None if i is None else wp.array(i, dtype=int) for i in named]


@pytest.mark.parametrize("dtype", [float, wp.vec3, wp.mat22, wp.int8])
def test_copies_have_the_elements_that_are_named(dtype):
    shape = (5, 4, *getattr(dtype, "shape", ()))
    content = (RNG.normal(size=shape) * 50).astype(np.int8 if dtype is wp.int8 else np.float32)
    data = wp.array(content, dtype=dtype)
    named = wp.indexedarray(data, indices(ROWS, COLUMNS))
    assert named.device is data.device and not named.is_contiguous and not named.requires_grad
    expected = content[np.ix_(ROWS, COLUMNS)]
    for made in (wp.clone(named), wp.empty_like(named), wp.zeros_like(named)):
        assert made.shape == (3, 2) and made.dtype is named.dtype and made.is_contiguous
        wp.copy(made, named)
        np.testing.assert_array_equal(made.numpy(), expected)
    assert not wp.zeros_like(named).numpy().any() and (wp.ones_like(named).numpy() == 1).all()
    values = expected[::-1].copy()
    content[np.ix_(ROWS, COLUMNS)] = values
    named.assign(values)
    np.testing.assert_array_equal(data.numpy(), content)
    other = wp.array(content[:3, :2] * 0, dtype=dtype)
    wp.copy(wp.indexedarray(other, indices(None, np.arange(2))), named)
    np.testing.assert_array_equal(other.numpy(), values)


def test_copies_of_structs():
    @wp.struct
    class Pair:
        k: int
        v: wp.vec2

    data = wp.array([Pair(i, wp.vec2(i, -i)) for i in range(5)], dtype=Pair)
    made = wp.clone(data[wp.array(ROWS, dtype=int)])
    assert [p.k for p in data[wp.array(ROWS, dtype=int)].contiguous().list()] == ROWS.tolist()
    assert [p.k for p in made.list()] == ROWS.tolist() and list(made.list()[0].v) == [4.0, -4.0]


@wp.kernel
def squared(x: wp.array[float], loss: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(loss, 0, float(i + 1) * x[i] * x[i])


def test_no_elements_of_structs():
    @wp.struct
    class Pair:
        k: int
        v: wp.vec2

    named = wp.zeros((2, 3), dtype=Pair)[wp.empty(0, dtype=int)]
    assert named.shape == (0, 3) and wp.clone(named).shape == (0, 3) and named.list() == []
    named.fill_(Pair())
    named.assign(wp.empty_like(named))


def test_gradients_go_through_copies():
    source = wp.array(RNG.normal(size=5), dtype=float, requires_grad=True)
    target = wp.array(RNG.normal(size=4), dtype=float, requires_grad=True)
    x, y, loss = wp.clone(source), wp.clone(target), wp.zeros(1, dtype=float, requires_grad=True)
    twice = [1, 3, 1]  # what is written last is there
    with wp.Tape() as tape:
        wp.copy(wp.indexedarray(y, indices(twice)), wp.indexedarray(x, indices(ROWS)))
        wp.launch(squared, 4, [y], [loss])
    expected = target.numpy().copy()
    for to, of in zip(twice, ROWS, strict=True):
        expected[to] = source.numpy()[of]
    np.testing.assert_array_equal(y.numpy(), expected)
    tape.backward(loss)
    slope = 2.0 * np.arange(1, 5) * expected
    np.testing.assert_allclose(x.grad.numpy(), [slope[3], 0, slope[1], 0, 0], rtol=1e-6)
    np.testing.assert_allclose(y.grad.numpy(), [slope[0], 0, slope[2], 0], rtol=1e-6)


@pytest.mark.parametrize("dtype", [float, wp.vec2])
def test_gradients_go_through_contiguous(dtype):
    components = getattr(dtype, "shape", ())
    data = wp.array(RNG.normal(size=(5, 4, *components)), dtype=dtype, requires_grad=True)
    with wp.Tape() as tape:
        made = wp.indexedarray(data, indices([4, 0, 4], COLUMNS)).contiguous()
        doubled = wp.map(lambda x: x * 2.0, made)
    assert made.requires_grad and made.shape == (3, 2)
    np.testing.assert_array_equal(made.numpy(), data.numpy()[np.ix_([4, 0, 4], COLUMNS)])
    slope = RNG.normal(size=(3, 2, *components)).astype(np.float32)
    tape.backward(grads={doubled: wp.array(slope, dtype=dtype)})
    expected = np.zeros_like(data.numpy())
    np.add.at(expected, np.ix_([4, 0, 4], COLUMNS), 2 * slope)
    np.testing.assert_allclose(data.grad.numpy(), expected, rtol=1e-6)
    assert not wp.indexedarray(wp.zeros(3, dtype=float), indices([1])).contiguous().requires_grad


def test_maps_write_to_what_is_named():
    content = np.arange(10, dtype=np.float32)
    data = wp.array(content)
    named = wp.indexedarray(data, indices([1, 3, 5]))
    assert wp.map(lambda x: x * 10.0, named, out=named) is named
    named += 1.0
    content[[1, 3, 5]] = content[[1, 3, 5]] * 10 + 1
    assert isinstance(named, wp.indexedarray)
    np.testing.assert_array_equal(data.numpy(), content)


def test_what_does_not_fit_is_refused():
    data = wp.zeros((5, 4), dtype=float)
    named = wp.indexedarray(data, indices(ROWS))
    with pytest.raises(wp.LaunchError, match=r"destination shape=\(3, 4\), source shape=\(5, 4\)"):
        wp.copy(named, data)
    with pytest.raises(wp.KernelTypeError, match="dtype"):
        wp.copy(named, wp.zeros((3, 4), dtype=wp.int32))
    with pytest.raises(wp.LaunchError, match="as a whole"):
        wp.copy(named, wp.zeros((3, 4), dtype=float), count=2)
    with pytest.raises(wp.KernelTypeError, match="expected an array"):
        wp.copy(named, [1.0])
    with pytest.raises(wp.KernelTypeError, match="expected an array"):
        wp.empty_like(wp.indexedarray(np.zeros(3, np.float32), ROWS.astype(np.int32)))
    with pytest.raises(wp.KernelTypeError, match="expected an array"):
        wp.indexedarray(np.zeros(3, np.float32), ROWS.astype(np.int32)).contiguous()
    with pytest.raises(wp.LaunchError, match=r"output arrays \(2\) does not match"):
        wp.map(lambda x: x + 1.0, named, out=(named, named))


@wp.struct
class Holder:
    k: int
    a: wp.array2d[float]
    v: wp.vec2


def test_structs_with_arrays_fill_what_is_named():
    data = wp.zeros(5, dtype=Holder)
    inner = wp.array(np.random.default_rng(3).random((2, 3)), dtype=float)
    named = data[wp.array(ROWS, dtype=int)]
    named.fill_(Holder(7, inner, wp.vec2(1.0, 2.0)))
    for row, found in enumerate(data.list()):
        is_named = row in ROWS
        assert (found.k, list(found.v)) == ((7, [1.0, 2.0]) if is_named else (0, [0.0, 0.0]))
        assert (found.a is inner) if is_named else found.a is None
    named.fill_(Holder())
    assert not data.numpy()["a"]["data"].any() and not data.numpy()["k"].any()
    with pytest.raises(wp.KernelTypeError, match="holds array2d"):
        named.fill_(Holder(1, wp.zeros(3, dtype=float), wp.vec2()))


def test_lists_of_structs_have_their_arrays():
    memory = wp.array(np.random.default_rng(4).random((4, 6)), dtype=float)
    expected = memory.numpy()[::2, 1:4].copy()
    data = wp.array([Holder(1, memory[::2, 1:4], wp.vec2()), Holder()], dtype=Holder)
    view, absent = (x.a for x in data.list())  # the view has died, its memory has not
    np.testing.assert_array_equal(view.numpy(), expected)
    view.fill_(3.0)
    assert (memory.numpy()[::2, 1:4] == 3.0).all() and absent is None
    forged = data.numpy()
    forged["a"]["shape"][0, 0] = 9
    assert wp.array(forged, dtype=Holder).list()[0].a is None
    del memory, view
    gc.collect()
    assert data.list()[0].a is None


@pytest.mark.parametrize("index", [4, -5])
def test_indices_outside_are_errors_of_indices(index):
    data = wp.zeros((4, 3), dtype=float)
    named = wp.indexedarray(data, indices([0, index, 1]))
    changes = [
        named.numpy,
        named.list,
        lambda: named.fill_(1.0),
        lambda: wp.clone(named),
        lambda: wp.copy(named, wp.ones((3, 3), dtype=float)),
        lambda: wp.copy(wp.zeros((3, 3), dtype=float), named),
    ]
    for change in changes:
        for error in (wp.LaunchError, IndexError):
            with pytest.raises(error, match=f"index {index} is outside axis 0 of the array, whose extent is 4"):
                change()
    assert not data.numpy().any()
