"""Tiles in loops, branches and functions, where they are changed in place: Python on NumPy's arrays does the same."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy_tiles import check
from tile_running import run_tiled

import jwarp as wp

pytestmark = pytest.mark.quick


def numbers(seed, *shape):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


OUT = np.zeros((8, 4, 4), np.float32)


@wp.kernel
def loops(x: wp.array2d[float], n: int, m: int, out: wp.array3d[float]):
    t = wp.tile_load(x, (4, 4))
    total = wp.tile_zeros((4, 4))
    row = t[1]
    steps = wp.tile_zeros((4, 4))
    for k in range(n):
        total += t
        for i in range(m):
            total[i, k] += 2.0
            row[i] = total[k, i] + 1.0
        total = total * 0.5
        if total[0, 0] > 3.0:
            steps[k] = total[0]
            continue
        steps[k, 0] = 1.0
    wp.tile_store(out[0], t)
    wp.tile_store(out[1], total)
    wp.tile_store(out[2], steps)
    k = int(0)
    while wp.tile_max(t)[0] < 50.0 and k < n * 4:
        t += t
        k += 1
        if t[2, 2] > 30.0:
            break
        t[0, 0] = 1.0
    out[3, 0, 0] = float(k)
    wp.tile_store(out[4], t)


@pytest.mark.parametrize("n, m", [(0, 0), (1, 4), (3, 2), (4, 0)])
def test_loops(n, m):
    check(loops, numbers(0, 4, 4), n, m, OUT)


@wp.kernel
def matrix_product(a: wp.array2d[float], b: wp.array2d[float], n: int, out: wp.array3d[float]):
    c = wp.tile_zeros((4, 4))
    for k in range(n):
        x = wp.tile_load(a, shape=(4, 2), offset=(0, k * 2))
        y = wp.tile_load(b, shape=(2, 4), offset=(k * 2, 0))
        wp.tile_matmul(x, y, c)
        if k == 1:
            c[1] = c[2]
    wp.tile_store(out[0], c)
    for k in range(3):
        c[k] = c[k + 1]
    wp.tile_store(out[1], c)


def test_accumulation():
    for n in (0, 1, 3):
        check(matrix_product, numbers(1, 4, 6), numbers(2, 6, 4), n, OUT)


@wp.kernel
def branches(x: wp.array2d[float], n: int, out: wp.array3d[float]):
    t = wp.tile_load(x, (4, 4))
    u = wp.tile_ones((4, 4))
    view = u[1:3]
    if n > 0:
        t[1] = t[0]
        view[0, n] = 5.0
        if n > 1:
            t = t * 2.0
            t[0, 0] = -1.0
        w = t * 3.0
    elif n == -1:
        t += u
        w = wp.tile_ones((4, 4))
    else:
        u[1] = t[2]
        w = t + u
    wp.tile_store(out[0], t)
    wp.tile_store(out[1], u)
    wp.tile_store(out[2], w)
    wp.tile_store(out[3], view)
    if n == 3:
        return
    wp.tile_store(out[4], t * 2.0 if n > 0 else u)
    wp.tile_store(out[5], wp.tile_zeros((4, 4)))


@pytest.mark.parametrize("n", [-2, -1, 0, 1, 2, 3])
def test_branches(n):
    check(branches, numbers(3, 4, 4), n, np.ones_like(OUT))


# -- functions


@wp.func
def add_twice(t: wp.tile(dtype=float, shape=(4, 4)), by: wp.tile[float, 4, 4]):
    t += by
    t += by


@wp.func
def set_row(t: wp.tile[float], i: int, row: wp.tile[float, 4]):
    t[i] = row
    return row[0] * 2.0


@wp.func
def clamped(t: wp.tile[float, (4, 4)], most: float, n: int) -> wp.tile[float, 4, 4]:
    for k in range(n):
        if t[k, k] > most:
            t[k, k] = most
            return t * 1.0
    return t * 2.0


@wp.func
def both(t: wp.tile(dtype=float, shape=(4, 4))):
    return t[0:2] * 1.0, t[2:4] * 2.0


@wp.func
def first_rows(t: wp.tile[float], n: int):
    if n > 2:
        u = t[:2] * 3.0
        u[0, 0] = 0.0
        return u
    return t[:2] + t[2:]


@wp.kernel
def functions(x: wp.array2d[float], n: int, out: wp.array3d[float]):
    t, u = wp.tile_load(x, (4, 4)), wp.tile_ones((4, 4))
    add_twice(t, u)
    wp.tile_store(out[0], t)
    out[1, 0, 0] = set_row(t, n, t[1])
    out[1, 0, 1] = set_row(t[::-1], 0, u[1, ::-1])
    wp.tile_store(out[2], t)
    wp.tile_store(out[3], clamped(t, 3.0, n))
    wp.tile_store(out[4], t)
    a, b = both(t)
    a[0, 0] = 9.0
    wp.tile_store(out[5], a)
    wp.tile_store(out[6], b)
    for k in range(n):
        add_twice(u, t * float(k))
    wp.tile_store(out[7], u)
    wp.tile_store(out[6], first_rows(t, n))


def test_functions():
    for n in (0, 1, 3):
        check(functions, numbers(4, 4, 4), n, OUT)


@wp.func
def size_of(t: wp.tile[float, 2]):
    return 2


@wp.func
def size_of(t: wp.tile[float, 3]):  # noqa: F811
    return 3


@wp.func
def size_of(t: wp.tile[int]):  # noqa: F811
    return 100


@wp.kernel
def chosen(out: wp.array[int]):
    out[0] = size_of(wp.tile_zeros(3)) + 10 * size_of(wp.tile_zeros(2)) + size_of(wp.tile_zeros(7, dtype=int))


def test_overloads():
    assert run_tiled(chosen, 1, np.zeros(1, np.int32))[0][0] == 123


@wp.kernel
def may_be_unset(x: wp.array[float], n: int, out: wp.array2d[float]):
    t = wp.tile_load(x, 4)
    if n > 0:
        u = t * 2.0
    for k in range(n):
        v = t + t
    wp.tile_store(out[0], u)
    wp.tile_store(out[1], v)


def test_a_tile_that_may_be_unset_is_zero_then():
    x = numbers(5, 4)
    for n in (0, 2):
        with pytest.warns(wp.KernelWarning) if n == 0 else _nothing():
            out = run_tiled(may_be_unset, 1, x, n, np.ones((2, 4), np.float32), debug=False)[-1]
        np.testing.assert_array_equal(out, np.stack([2 * x, 2 * x]) if n else 0)


class _nothing:
    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


# -- where it is open what shares a place


@wp.func
def itself(t: wp.tile[float]):
    return t


@wp.kernel
def unclear_result(x: wp.array[float], out: wp.array2d[float]):
    t = wp.tile_load(x, 4)
    u = itself(t)
    u[0] = 1.0
    wp.tile_store(out[0], t)


@wp.kernel
def unclear_view(x: wp.array[float], n: int, out: wp.array2d[float]):
    t = wp.tile_load(x, 4)
    v = t[1:3]
    if n > 0:
        t = t * 2.0
    t[1] = 5.0
    wp.tile_store(out[0], v)


@wp.kernel
def unclear_loop(x: wp.array[float], n: int, out: wp.array2d[float]):
    t = wp.tile_load(x, 4)
    v = t[1:3]
    for k in range(n):
        out[0, k] = v[0]
        t += t
        t = t * 2.0


@wp.kernel
def unclear_choice(x: wp.array[float], n: int, out: wp.array2d[float]):
    t, u = wp.tile_load(x, 4), wp.tile_ones(4)
    v = t if n > 0 else u
    v[0] = 2.0
    wp.tile_store(out[0], u)


@pytest.mark.parametrize("kernel", [unclear_result, unclear_view, unclear_loop, unclear_choice])
def test_unclear_changes_are_refused(kernel):
    with pytest.raises(wp.CompileError, match="may be the same as one that was changed since"):
        kernel.ir()


@wp.kernel
def clear_enough(x: wp.array[float], n: int, out: wp.array2d[float]):
    t = wp.tile_load(x, 4)
    u = itself(t)
    v = t[0:2]
    if n > 0:
        t = t * 2.0
    wp.tile_store(out[0], u + t)
    wp.tile_store(out[1], v)
    row = u[0:2]
    wp.tile_store(out[2], row)
    for k in range(n):
        row = t[2:4]
        wp.tile_store(out[3], row)


def test_where_nothing_is_changed_nothing_is_unclear():
    x = numbers(6, 4)
    for n in (0, 2):
        out = run_tiled(clear_enough, 1, x, n, np.zeros((4, 4), np.float32))[-1]
        t = 2 * x if n else x
        expected = np.zeros((4, 4), np.float32)
        expected[0], expected[1, :2], expected[2, :2] = x + t, x[:2], x[:2]
        expected[3, :2] = t[2:] if n else 0
        np.testing.assert_array_equal(out, expected)


@wp.kernel
def taking_turns(x: wp.array[float], out: wp.array2d[float], seen: wp.array[int]):
    block, lane = wp.tid()
    whole = ((x.shape[0] + wp.block_dim() - 1) // wp.block_dim()) * wp.block_dim()
    largest = -1.0e30
    for k in range(lane, whole, wp.block_dim()):
        value = -1.0e30
        if k < x.shape[0]:
            value = x[k] * float(block + 1)
            wp.atomic_add(seen, k, 1)
        largest = wp.max(largest, wp.tile_max(wp.tile(value))[0])
    for k in range(lane, 2 * wp.block_dim(), wp.block_dim()):
        t = wp.tile(float(k))
        out[block, k] = largest + wp.tile_sum(t)[0]


def test_loops_in_which_the_threads_of_a_block_take_turns():
    for count in (0, 5, 32, 70):
        x = jnp.asarray(np.random.default_rng(count).normal(size=count), jnp.float32)
        out, seen = wp.launch_tiled(taking_turns, 3, [x], [(3, 64), count], block_dim=32)
        largest = [max([-1.0e30, *(np.asarray(x) * np.float32(b + 1))]) for b in range(3)]
        lanes = np.arange(64).reshape(2, 32).sum(1).repeat(32)
        np.testing.assert_allclose(out, np.array(largest, np.float32)[:, None] + lanes.astype(np.float32), rtol=1e-6)
        assert (np.asarray(seen) == 3).all()


@wp.kernel
def lengths(x: wp.array2d[float], out: wp.array[int]):
    t = wp.tile_load(x, shape=(8, 4))
    out[0] = wp.static(len(t)) + len(t[0])


def test_the_length_of_a_tile_is_known_to_static():
    assert wp.launch_tiled(lengths, 1, [jnp.ones((8, 4))], [1], block_dim=32)[0].tolist() == [12]


@wp.kernel
def rows_alone(x: wp.array2d[float], o: wp.array[float]):
    i = wp.tid()
    s = float(0.0)
    for j in range(int(x[i, 0])):
        t = wp.tile_load(x[i], shape=4, offset=4 * j)
        s += wp.tile_extract(wp.tile_sum(t), 0)
    if s > 20.0:
        s = s + wp.tile_extract(wp.tile_max(wp.tile_load(x[i], shape=4)), 0)
    o[i] = s


def test_nothing_differs_in_blocks_of_one_thread():
    values = np.random.default_rng(3).normal(size=(5, 16)).astype(np.float32)
    values[:, 0] = 1, 2, 3, 4, 2
    values[3, 1:] += 3.0
    x, o = wp.array(values, dtype=float, requires_grad=True), wp.zeros(5, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(rows_alone, dim=5, inputs=[x, o], block_dim=1)
    tape.backward(grads={o: wp.ones(5, dtype=float)})
    expected, slopes = np.zeros(5), np.zeros_like(values)
    for i, row in enumerate(values):
        number = 4 * int(row[0])
        expected[i], slopes[i, :number] = row[:number].sum(), 1.0
        if expected[i] > 20.0:
            expected[i] += row[:4].max()
            slopes[i, row[:4].argmax()] += 1.0
    assert (expected > 20.0).any()
    np.testing.assert_allclose(o.numpy(), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-6)
    with pytest.raises(wp.CompileError, match="reach a tile operation together"):
        wp.launch(rows_alone, dim=4, inputs=[x, o], block_dim=2)
