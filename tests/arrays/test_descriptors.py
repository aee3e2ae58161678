"""Arrays in elements of arrays of structs: a kernel finds them by descriptors, or nothing where these name none."""

import copy
import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(33)


@pytest.fixture(autouse=True)
def on_host():
    with wp.ScopedDevice("cpu"):
        yield


@wp.struct
class Cell:
    a: wp.array[float]
    b: wp.array2d[wp.vec3]
    k: float


@wp.struct
class Owner:
    cell: Cell
    n: int


@wp.func
def total(a: wp.array[float]):
    found = 0.0
    for j in range(a.shape[0]):
        found += a[j]
    return found


@wp.kernel
def read(cells: wp.array[Cell], y: wp.array[float], v: wp.array[wp.vec3], n: wp.array[int]):
    i = wp.tid()
    cell = cells[i]
    y[i] = cells[i].a[0] * cell.k + total(cell.a) - cell.a[-1] + total(cell.a[1:3])
    row = cell.b[1]
    v[i] = cells[i].b[1, -1] + row[0] + cells[i].b[7, 0] + cells[i].b[-9, 0]
    n[i] = cell.a.shape[0] + 10 * cell.b.shape[0] + 100 * cell.b.shape[1]


@wp.kernel
def write(cells: wp.array[Cell]):
    i = wp.tid()
    cell = cells[i]
    cells[i].a[1] = 7.0
    wp.atomic_add(cells[i].a, 2, 5.0)
    cell.b[0, 0] = wp.vec3(1.0, 2.0, 3.0)
    cell.b[1, 0][1] = 9.0
    cells[i].b[0, 1].z += 2.0
    cells[i].a[100] = 4.0  # of no element
    cells[i].b[2, 0] = wp.vec3(4.0)


@wp.kernel
def sums(owners: wp.array[Owner], y: wp.array[float]):
    i = wp.tid()
    cell = owners[i].cell
    if i == 1:
        cell = owners[0].cell
    y[i] = total(cell.a) * 10.0 + total(owners[i].cell.a)


def cells(count):
    made = []
    for k in range(count):
        a = wp.array(RNG.normal(size=4 + k).astype(np.float32))
        b = wp.array(RNG.normal(size=(2, 2 + k, 3)).astype(np.float32), dtype=wp.vec3)
        made.append(Cell(a=a, b=b, k=float(k + 1)))
    return made


def expected(made):
    y, v = [], []
    for cell in made:
        a, b = cell.a.numpy(), cell.b.numpy()
        y.append(a[0] * cell.k + a.sum() - a[-1] + a[1:3].sum())
        v.append(b[1, -1] + b[1, 0])
    return np.array(y), np.array(v)


def launched(given, count):
    y, v, n = wp.zeros(count), wp.zeros(count, dtype=wp.vec3), wp.zeros(count, dtype=int)
    wp.launch(read, count, inputs=[given, y, v, n])
    return y.numpy(), v.numpy(), n.numpy()


@pytest.mark.parametrize("count", [1, 7, 33])
def test_kernels_read_and_write_arrays_in_elements(count):
    made = cells(count)
    given = wp.array(made, dtype=Cell)
    for _ in range(3):
        y, v, n = launched(given, count)
        for found, wanted in zip((y, v), expected(made), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        assert n.tolist() == [4 + k + 20 + 100 * (2 + k) for k in range(count)]
        before = [(c.a.numpy().copy(), c.b.numpy().copy()) for c in made]
        wp.launch(write, count, inputs=[given])
        for cell, (a, b) in zip(made, before, strict=True):
            a[1], a[2] = 7.0, a[2] + np.float32(5.0)
            b[0, 0], b[1, 0, 1] = [1.0, 2.0, 3.0], 9.0
            b[0, 1, 2] += np.float32(2.0)
            np.testing.assert_array_equal(cell.a.numpy(), a)
            np.testing.assert_array_equal(cell.b.numpy(), b)


def test_structs_in_structs_copies_and_changes():
    made = cells(4)
    given = wp.array([Owner(cell=cell, n=k) for k, cell in enumerate(made)], dtype=Owner)
    own = [c.a.numpy().sum() for c in made]
    wanted = [10 * own[0 if k == 1 else k] + own[k] for k in range(4)]
    other = wp.zeros(4, dtype=Owner)
    wp.copy(other, given)
    for each in (given, wp.clone(given), copy.copy(given), other, wp.array(given.numpy(), dtype=Owner)):
        y = wp.zeros(4)
        wp.launch(sums, 4, inputs=[each, y])
        np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5)
    y = wp.zeros(2)
    wp.launch(sums, 2, inputs=[given[2:], y])
    np.testing.assert_allclose(y.numpy(), [11 * own[2], 10 * own[2] + own[3]], rtol=1e-5)
    given.fill_(Owner(cell=made[3], n=1))
    y = wp.zeros(4)
    wp.launch(sums, 4, inputs=[given, y])
    np.testing.assert_allclose(y.numpy(), [11 * own[3]] * 4, rtol=1e-5)


def test_views_that_are_not_contiguous_are_elements_too():
    whole = RNG.normal(size=(6, 4)).astype(np.float32)
    vectors = RNG.normal(size=(5, 2, 3)).astype(np.float32)
    a, b = wp.array(whole), wp.array(vectors, dtype=wp.vec3)
    given = wp.array([Cell(a=a[:, 1], b=b.transpose(), k=2.0), Cell(a=a[2], b=b[::2], k=1.0)], dtype=Cell)
    y, v, n = launched(given, 2)
    first = whole[:, 1]
    np.testing.assert_allclose(y[0], first[0] * 2 + first.sum() - first[-1] + first[1:3].sum(), rtol=1e-5)
    np.testing.assert_allclose(v, [vectors[4, 1] + vectors[0, 1], vectors[2, 1] + vectors[2, 0]], rtol=1e-6)
    assert n.tolist() == [6 + 20 + 500, 4 + 30 + 200]


def test_descriptors_of_arrays_that_are_gone_read_zeros():
    made = cells(3)
    given = wp.array(made, dtype=Cell)
    assert launched(given, 3)[0].all()
    del made[1]
    gc.collect()
    y, v, _ = launched(given, 3)
    assert y[1] == 0 and not v[1].any() and y[0] != 0 and y[2] != 0
    wp.launch(write, 3, inputs=[given])  # changes nothing that it must not
    assert made[0].a.list()[1] == 7.0


def test_numbers_that_are_no_descriptors_touch_no_memory():
    """Random words in the places of addresses, extents and strides: living memory alone is read and written."""
    made = cells(8)
    given = wp.array(made, dtype=Cell)
    for trial in range(40):
        words = given.numpy()
        for name in ("a", "b"):
            of = words[name]
            kind = RNG.integers(0, 4, 8)
            anywhere = RNG.integers(0, 1 << 64, 8, dtype=np.uint64) >> RNG.integers(0, 48, 8).astype(np.uint64)
            near = of["data"] + RNG.integers(-4096, 4096, 8).astype(np.int64).view(np.uint64)
            of["data"] = np.where(kind == 0, of["data"], np.where(kind == 1, anywhere, near))
            if trial % 2:
                of["shape"] = RNG.integers(-(1 << 31), 1 << 31, (8, 4))
                of["strides"] = RNG.integers(-(1 << 31), 1 << 31, (8, 4))
            else:
                of["shape"] = 1 << 20
        changed = wp.array(words, dtype=Cell)
        wp.launch(one_each, 8, inputs=[changed, wp.array(RNG.integers(-(1 << 31), 1 << 31, 8).astype(np.int32))])
        wp.launch(write, 8, inputs=[changed])


@wp.kernel
def one_each(cells: wp.array[Cell], where: wp.array[int]):
    i = wp.tid()
    j = where[i]
    cells[i].a[j] = cells[i].a[j] + cells[i].b[j, 1][0] + cells[i].b[0, j][2]
    cells[i].a[0] = cells[i].a[-1] + cells[i].a[j // 1024]


def test_captures_and_records_follow_descriptors_as_they_are():
    made = cells(4)
    given = wp.array(made[:2], dtype=Cell)
    y, v, n = wp.zeros(2), wp.zeros(2, dtype=wp.vec3), wp.zeros(2, dtype=int)
    with wp.ScopedCapture(device="cpu") as capture:
        wp.launch(read, 2, inputs=[given, y, v, n])
    record = wp.launch(read, 2, inputs=[given, y, v, n], record_cmd=True)
    for part in (made[:2], made[2:], made[1:3]):
        given.assign(part)
        for run in (lambda: wp.capture_launch(capture.graph), record.launch):
            y.zero_()
            run()
            np.testing.assert_allclose(y.numpy(), expected(part)[0], rtol=1e-5)


@wp.kernel
def scaled(cells: wp.array[Cell], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i] * cells[i].a[0]


def test_tapes_go_back_to_what_is_passed_and_to_what_is_found():
    made = cells(3)
    given = wp.array(made, dtype=Cell)
    x, y = (wp.array(RNG.normal(size=3).astype(np.float32), requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(scaled, 3, inputs=[given, x], outputs=[y])
    tape.backward(grads={y: wp.ones(3)})
    firsts = np.array([c.a.numpy()[0] for c in made])
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() * firsts, rtol=1e-5)
    with wp.Tape() as tape:
        wp.launch(scaled, 3, inputs=[given, x], outputs=[y])
        made[1].a.fill_(3.0)
    x.grad.zero_()
    tape.backward(grads={y: wp.ones(3)})  # of what the launch read
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() * firsts, rtol=1e-5)
    moving = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    given = wp.array([*made[:2], Cell(a=moving, b=made[0].b, k=1.0)], dtype=Cell)
    with wp.Tape() as tape:
        wp.launch(scaled, 3, inputs=[given, x], outputs=[y])
    tape.backward(grads={y: wp.ones(3)})
    np.testing.assert_allclose(moving.grad.numpy(), [x.numpy()[2] ** 2, 0.0], rtol=1e-6)


def test_what_is_no_array_of_the_field_is_refused():
    with pytest.raises(
        wp.KernelTypeError, match="field 'a' of Cell holds array.float32. in an element, got array.int32."
    ):
        wp.array([Cell(a=wp.zeros(3, dtype=int))], dtype=Cell)
    with pytest.raises(wp.KernelTypeError, match="field 'b' of Cell holds array2d.*got ndarray"):
        wp.array([Cell(b=np.zeros((2, 2, 3)))], dtype=Cell)
    given = wp.array(cells(2), dtype=Cell)
    with pytest.raises(wp.KernelTypeError, match="(?s)hold arrays, which only launches that run now.*under JAX"):
        jax.jit(lambda y: wp.launch(first, 2, [given], {"y": y}))(jnp.zeros(2))


@wp.kernel
def first(cells: wp.array[Cell], y: wp.array[float]):
    y[wp.tid()] = cells[wp.tid()].a[0]


def test_adjoints_that_are_launched_refuse_what_is_found():
    made = cells(3)
    given = wp.array(made, dtype=Cell)
    x, y = (wp.array(RNG.normal(size=3).astype(np.float32), requires_grad=True) for _ in range(2))
    y.grad.fill_(1.0)
    wp.launch(scaled, 3, inputs=[given, x], outputs=[y], adjoint=True)
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() * [c.a.numpy()[0] for c in made], rtol=1e-5)
    made[0].a.requires_grad = True
    given.assign(made)
    with pytest.raises(wp.NotDifferentiableError, match="finds arrays by numbers"):
        wp.launch(scaled, 3, inputs=[given, x], outputs=[y], adjoint=True)
