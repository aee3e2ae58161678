"""Kernels take addresses of arrays, store arrays into elements of arrays of structs, and find them there."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def on_host():
    with wp.ScopedDevice("cpu"):
        yield


@wp.struct
class Cell:
    k: float
    a: wp.array[float]
    b: wp.array2d[wp.vec3]


@wp.struct
class Owner:
    cell: Cell
    n: int


@wp.kernel
def addresses(x: wp.array2d[float], s: Cell, out: wp.array[wp.uint64]):
    i = wp.tid()
    row = x[i]
    out[7 * i] = x.ptr
    out[7 * i + 1] = row.ptr
    out[7 * i + 2] = x[1:, 2].ptr
    out[7 * i + 3] = x[-1, ::2].ptr
    out[7 * i + 4] = s.b.ptr + wp.uint64(4 * i)
    out[7 * i + 5] = s.a[1:].ptr
    out[7 * i + 6] = x[:, ::-1].ptr


@pytest.mark.parametrize("is_strided", [False, True])
def test_addresses_are_those_of_the_arrays(is_strided):
    whole = wp.array(RNG.normal(size=(8, 10)).astype(np.float32))
    x = whole[::2, 1:6] if is_strided else whole
    b = wp.array(RNG.normal(size=(3, 2, 3)).astype(np.float32), dtype=wp.vec3)
    s = Cell(a=wp.zeros(5), b=b.transpose() if is_strided else b)
    out = wp.zeros(21, dtype=wp.uint64)
    wp.launch(addresses, 3, [x, s], [out])
    down, across = x.strides
    for i, found in enumerate(out.numpy().reshape(3, 7).astype(np.int64) - x.ptr):
        last = (x.shape[0] - 1) * down, (x.shape[1] - 1) * across
        others = s.b.ptr + 4 * i - x.ptr, s.a.ptr + 4 - x.ptr
        assert found.tolist() == [0, i * down, down + 2 * across, last[0], *others, last[1]]


@wp.kernel
def twice(x: wp.array[float], start: int, count: int, y: wp.array[float]):
    part = wp.array(ptr=x.ptr + wp.uint64(4 * start), shape=(count,), dtype=float)
    for i in range(count):
        y[i] = part[i] * 2.0


def test_arrays_of_addresses_of_parameters_stay_inside():
    x = wp.array(RNG.normal(size=9).astype(np.float32))
    for start, count in ((0, 9), (2, 4), (7, 5), (1 << 20, 3), (-3, 6)):
        y = wp.zeros(16)
        wp.launch(twice, 1, [x, start, count], [y])
        padded = dict(enumerate(2 * x.numpy()))
        # What begins where nothing is has no elements.
        wanted = [padded.get(start + i, 0.0) if start >= 0 else 0.0 for i in range(count)]
        np.testing.assert_array_equal(y.numpy()[:count], np.float32(wanted))


@wp.kernel
def fill(cells: wp.array[Cell], owners: wp.array[Owner], x: wp.array2d[float], s: Cell, other: wp.array[Cell]):
    i = wp.tid()
    cells[i].a = x[i]
    cells[i].b = s.b
    cells[i].k = float(i)
    owners[i].cell = cells[i]
    owners[i].n = i
    if i == 1:
        owners[i].cell.a = x[2, 1:]
        other[0] = s
        other[1] = other[2]
        other[3].a = other[4].a


@wp.kernel
def total(cells: wp.array[Cell], y: wp.array[float]):
    i = wp.tid()
    for j in range(cells[i].a.shape[0]):
        y[i] += cells[i].a[j]
    for j in range(cells[i].b.shape[0]):
        y[i] += cells[i].b[j, 1][2]


def sums(cells):
    y = wp.zeros(cells.shape)
    wp.launch(total, cells.shape, [cells], [y])
    return y.numpy()


def test_kernels_store_arrays_into_elements():
    x = wp.array(RNG.normal(size=(3, 4)).astype(np.float32))
    b = wp.array(RNG.normal(size=(3, 2, 3)).astype(np.float32), dtype=wp.vec3)
    arrays = [wp.array(RNG.normal(size=3).astype(np.float32)) for _ in range(5)]
    cells, owners = wp.zeros(3, dtype=Cell), wp.zeros(3, dtype=Owner)
    other = wp.array([Cell(a=a, k=1.0) for a in arrays], dtype=Cell)
    inputs = [cells, owners, x, Cell(a=arrays[0], b=b), other]
    own = b.numpy()[:, 1, 2].sum()
    rows = x.numpy().sum(axis=1) + own
    firsts = [a.numpy().sum() for a in arrays]
    with wp.ScopedCapture() as capture:
        wp.launch(fill, 3, inputs)
    record = wp.launch(fill, 3, inputs, record_cmd=True)
    for run in (lambda: wp.launch(fill, 3, inputs), lambda: wp.capture_launch(capture.graph), record.launch):
        for _ in range(2):
            cells.zero_()
            owners.zero_()
            other.assign([Cell(a=a, k=1.0) for a in arrays])
            run()
            np.testing.assert_allclose(sums(cells), rows, rtol=1e-5)
            assert cells.numpy()["k"].tolist() == [0, 1, 2] and owners.numpy()["n"].tolist() == [0, 1, 2]
            wanted = [firsts[0] + own, firsts[2], firsts[2], firsts[4], firsts[4]]
            np.testing.assert_allclose(sums(other), wanted, rtol=1e-5)
    found = owners.list()
    assert found[0].cell.a.shape == (4,) and found[1].cell.a.shape == (3,) and found[2].cell.b.shape == (3, 2)
    np.testing.assert_array_equal(found[1].cell.a.numpy(), x.numpy()[2, 1:])
    more = wp.array(RNG.normal(size=(3, 4)).astype(np.float32))
    record.set_param_at_index(2, more)
    record.launch()
    np.testing.assert_allclose(sums(cells), more.numpy().sum(axis=1) + own, rtol=1e-5)
    wp.launch(fill, 3, [cells, owners, x, inputs[3], other])
    np.testing.assert_allclose(sums(cells), rows, rtol=1e-5)


@wp.kernel
def tie(cells: wp.array[Cell], x: wp.array[float]):
    cells[wp.tid()].a = x


def test_arrays_that_kernels_stored_do_not_live_longer():
    cells, x = wp.zeros(2, dtype=Cell), wp.ones(5)
    for _ in range(3):
        wp.launch(tie, 2, [cells, x])
    assert sums(cells).tolist() == [5, 5]
    del x
    gc.collect()
    assert sums(cells).tolist() == [0, 0]


@wp.kernel
def squares(cells: wp.array[Cell], y: wp.array[float]):
    i = wp.tid()
    for j in range(cells[i].a.shape[0]):
        y[i] += cells[i].a[j] * cells[i].a[j]


def test_tapes_go_through_arrays_that_kernels_stored():
    x = wp.array(RNG.normal(size=5).astype(np.float32), requires_grad=True)
    cells, y = wp.zeros(2, dtype=Cell), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(tie, 2, [cells, x])
        wp.launch(squares, 2, [cells], [y])
    tape.backward(grads={y: wp.array([1.0, 3.0], dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 8 * x.numpy(), rtol=1e-5)


@wp.kernel
def local_address(cells: wp.array[Cell]):
    own = wp.zeros(shape=3, dtype=float)
    cells[0].a = own


@wp.kernel
def wrong_type(cells: wp.array[Cell], x: wp.array[int]):
    cells[0].a = x


@wp.kernel
def add_array(cells: wp.array[Cell], x: wp.array[float]):
    cells[0].a += x


@wp.kernel
def own_address(x: wp.array[float], y: wp.array[wp.uint64]):
    y[0] = x.ptr


def test_what_has_no_address_is_refused():
    cells, y = wp.zeros(1, dtype=Cell), wp.zeros(1, dtype=wp.uint64)
    with pytest.raises(wp.KernelTypeError, match="`own` is a local array, which ends with its thread"):
        wp.launch(local_address, 1, [cells])
    with pytest.raises(wp.KernelTypeError, match="`cells.a` holds array.float32., the value is"):
        wp.launch(wrong_type, 1, [cells, wp.zeros(3, dtype=int)])
    with pytest.raises((wp.KernelTypeError, wp.CompileError)):
        wp.launch(add_array, 1, [cells, wp.zeros(3)])
    with pytest.raises(wp.LaunchError, match="takes the address of its parameter 'x', for which ndarray is given"):
        wp.launch(own_address, 1, [np.zeros(3, np.float32)], [y])
    with jax.enable_x64(True), pytest.raises(wp.KernelTypeError, match="the address of `x` is looked up when"):
        jax.jit(lambda x: wp.launch(own_address, 1, [x], [1])[0])(jnp.zeros(3, jnp.float32))
