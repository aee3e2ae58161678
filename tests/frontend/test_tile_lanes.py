"""Scalar code of the threads of a block, together with code on tiles."""

import types

import numpy as np
import pytest
import warp_parity_kernels
from tile_running import BLOCK, run_blocks

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.config import Settings
from jwarp.frontend.tiles.blocks import by_blocks
from jwarp.ir.verify import verify

N = 3 * BLOCK


def numbers(seed, *shape):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


def atomic(combine):
    def change(a, index, value):
        before = a[index]
        a[index] = combine(before, value)
        return before

    return change


def by_threads(kernel, dims, *args):
    """The array arguments after Python has run the kernel's function for each thread."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    for thread in np.ndindex(dims):
        names = types.SimpleNamespace(**{**vars(wp), "block_dim": lambda: BLOCK})
        names.atomic_add, names.atomic_max = atomic(np.add), atomic(np.maximum)
        names.tid = lambda thread=thread: thread if len(thread) > 1 else thread[0]
        outer = {**kernel.python.__globals__, "wp": names}

        def plain(f, outer=outer):
            return types.FunctionType(f.__code__, outer, closure=f.__closure__)

        outer |= {name: plain(f.python) for name, f in outer.items() if isinstance(f, wp.Func)}
        plain(kernel.python)(*copies)
    return [c for c in copies if isinstance(c, np.ndarray)]


def check(kernel, dims, *args):
    dims = (dims,) if isinstance(dims, int) else dims
    for got, wanted in zip(run_blocks(kernel, dims, *args), by_threads(kernel, dims, *args), strict=True):
        np.testing.assert_array_equal(got, wanted)


@wp.func
def steps_of(x: int, most: int):
    steps = int(0)
    while x != 1:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
        if steps == most:
            break
    return steps


@wp.func
def sign_of(x: float):
    if x < 0.0:
        return -1.0
    elif x > 0.0:
        return 1.0
    return 0.0


@wp.kernel
def threads(x: wp.array[float], n: int, out: wp.array2d[float], whole: wp.array2d[int]):
    i = wp.tid()
    size = wp.block_dim()
    v = x[i] * 2.0
    if i % 3 == 0:
        v = v + x[(i + n) % x.shape[0]]
    elif v > 3.0:
        v = -v
        out[1, i] = float(size)
    out[0, i] = v + sign_of(v)
    whole[0, i] = steps_of(i + 1, n)
    total = float(0.0)
    for k in range(i % 5):
        if x[k] < 0.0:
            continue
        total += x[k] * float(k)
    out[2, i] = total
    last = int(0)
    for k in range(n):
        last = last + k * i
        if k == 2:
            last += 1
    whole[1, i] = last
    if n > 2:
        w = v
    else:
        w = x[n]
    out[3, i] = w if i > 4 else x[0]
    if i >= N - 5:
        return
    whole[2, i] = 7 + n
    p = wp.vec3(x[i], float(i), 1.0)
    p[i % 3] += 0.5
    out[4, i] = p[0] + 2.0 * p[1] + 3.0 * p[2]


@pytest.mark.parametrize("n", [1, 4])
def test_threads(n):
    check(threads, N, numbers(0, N), n, np.zeros((5, N), np.float32), np.zeros((3, N), np.int32))


ORDINARY = [name for name, value in vars(warp_parity_kernels).items() if isinstance(value, wp.Kernel)]


@pytest.mark.parametrize("name", [name for name in ORDINARY if name != "local_arrays"])
@pytest.mark.parametrize("size", [1, 8, 64])
def test_ordinary_kernels_run_by_blocks_alike(name, size):
    rng = np.random.default_rng(40)
    a, b = (rng.integers(-100, 100, 64).astype(np.int32) for _ in range(2))
    x, y = (rng.choice([1, 0.25], 64) * rng.integers(-20, 20, 64) / 2 for _ in range(2))
    outs = np.zeros((20, 64), np.int32), np.zeros((20, 64), np.float32)
    args = (a, np.where(b == 0, 3, b), x.astype(np.float32), np.where(y == 0, 1.5, y).astype(np.float32), *outs)
    ir = getattr(warp_parity_kernels, name).ir()
    blocks = by_blocks(ir, size, 0)
    verify(blocks)
    for got, wanted in zip(run(blocks, (64 // size,), args), run(ir, (64,), args), strict=True):
        np.testing.assert_array_equal(got, wanted)


@wp.kernel
def planes(x: wp.array3d[float], out: wp.array3d[float]):
    i, j, k = wp.tid()
    wp.block_dim()
    if j == 1:
        out[i, j, k] = x[i, j, k] * float(i)
    else:
        out[i, j, k] = x[i, 0, k] + float(k)


def test_several_dimensions():
    check(planes, (2, 3, 2 * BLOCK), numbers(1, 2, 3, 2 * BLOCK), np.zeros((2, 3, 2 * BLOCK), np.float32))


@wp.kernel
def counted(x: wp.array[int], sums: wp.array[int], old: wp.array[int]):
    i = wp.tid()
    wp.block_dim()
    wp.atomic_add(sums, 0, 1)
    before = wp.atomic_add(sums, 1 + x[i], 2)
    old[i] = before
    if x[i] == 1:
        wp.atomic_max(sums, 5, i)
        sums[6] -= 1


def test_every_thread_makes_atomic_operations():
    x = np.random.default_rng(2).integers(0, 3, N).astype(np.int32)
    check(counted, N, x, np.zeros(7, np.int32), np.zeros(N, np.int32))


# -- tiles of what the threads have


@wp.kernel
def together(x: wp.array[float], v: wp.array[wp.vec2], m: wp.array[wp.mat22], out: wp.array2d[float]):
    block, i = wp.tid()
    at = block * wp.block_dim() + i
    value = x[at]
    if value < 0.0:
        value = value * value
    t = wp.tile(value)
    total = wp.tile_sum(t)[0]
    mine = wp.untile(t * 2.0)
    out[0, at] = total
    out[1, at] = mine + t[0]
    vectors = wp.tile(v[at])
    mean = wp.tile_sum(vectors, axis=1)
    p = wp.untile(vectors * 3.0)
    out[2, at] = p[0] + p[1] + mean[1]
    kept = wp.tile(v[at], preserve_type=True)
    q = wp.untile(kept + kept)
    out[3, at] = q.x
    out[4, at] = wp.tile_sum(kept)[0][1]
    matrices = wp.tile(m[at])
    r = wp.untile(wp.tile_reshape(wp.tile_reshape(matrices, (4, wp.block_dim())), (2, 2, wp.block_dim())))
    out[5, at] = r[1, 0] + matrices[0, 1, i]
    out[6, at] = wp.tile_from_thread(shape=3, value=value, thread_idx=block + 1)[2]
    out[7, at] = wp.tile_sum(wp.tile(1.0))[0] + wp.tile_sum(wp.tile(float(block)))[0]
    w = wp.tile_from_thread((2,), v[at], 3)
    out[8, at] = w[1][0]


def test_tiles_of_threads():
    x, v, m = numbers(3, N), numbers(4, N, 2), numbers(5, N, 2, 2)
    out = run_blocks(together, (3, BLOCK), x, v, m, np.zeros((9, N), np.float32))[-1]
    value = np.where(x < 0, x * x, x).reshape(3, BLOCK)
    blocks = np.repeat(np.arange(3), BLOCK)
    sums, first = value.sum(1)[blocks], value[:, 0][blocks]
    of_v = v.reshape(3, BLOCK, 2)
    expected = [
        sums,
        2 * value.ravel() + first,
        3 * v.sum(1) + of_v.sum(1)[blocks, 1],
        2 * v[:, 0],
        of_v.sum(1)[blocks, 1],
        m[:, 1, 0] + m[:, 0, 1],
        value[np.arange(3), np.arange(3) + 1][blocks],
        BLOCK * (1 + blocks),
        of_v[:, 3, 0][blocks],
    ]
    np.testing.assert_array_equal(out, np.stack(expected).astype(np.float32))


@wp.kernel
def elements(x: wp.array[float], out: wp.array2d[float]):
    block, i = wp.tid()
    t = wp.tile_load(x, shape=5, offset=block)
    if i < 5:
        out[0, block * 8 + i] = t[4 - i]
    if i == 0:
        out[1, block] = t[2] + t[3] if block < 1 else t[0]
    s = float(0.0)
    for k in range(3):
        s += t[(k + i) % 5]
    out[2, block * 8 + i] = s
    if i > 5:
        out[4, block] = t[1]
        if i > 6:
            j = (i * 2) % 5
            out[3, block] = t[j] + t[1]


def test_threads_read_elements():
    x = numbers(6, 7)
    out = run_blocks(elements, (3, BLOCK), x, np.zeros((5, N), np.float32))[-1]
    expected = np.zeros((5, N), np.float32)
    for block in range(3):
        t = x[block : block + 5]
        for i in range(BLOCK):
            at = block * 8 + i
            if i < 5:
                expected[0, at] = t[4 - i]
            expected[2, at] = sum(t[(k + i) % 5] for k in range(3))
        expected[1, block] = t[2] + t[3] if block < 1 else t[0]
        expected[3:, block] = t[14 % 5] + t[1], t[1]
    np.testing.assert_array_equal(out, expected)


@wp.kernel
def single_elements(x: wp.array[float], out: wp.array2d[float]):
    block, i = wp.tid()
    t = wp.tile_zeros(1)
    t[0] = x[block]
    s = wp.tile_ones(1)
    s[0] += float(i)
    wp.tile_store(out[0], t, block)
    wp.tile_store(out[1], s, block)


def test_tiles_of_one_element():
    x = numbers(30, 3)
    out = run_blocks(single_elements, (3, BLOCK), x, np.zeros((2, 3), np.float32))[-1]
    np.testing.assert_array_equal(out, np.stack([x, [29.0] * 3]))


@wp.kernel
def halved(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    value = x[i]
    for k in range(3):
        t = wp.tile(value)
        if k == 1:
            t = t - wp.tile_full(wp.block_dim(), wp.tile_max(t)[0])
        value = wp.untile(t) * 0.5
        if value < -1.0:
            value = -1.0
    out[i] = value


def test_tiles_and_threads_in_turn():
    x = numbers(9, N)
    got = run_blocks(halved, N, x, np.zeros(N, np.float32))[-1]
    value = x.reshape(3, BLOCK)
    for k in range(3):
        t = value - value.max(1, keepdims=True) if k == 1 else value
        value = np.maximum(t / 2, -1)
    np.testing.assert_array_equal(got, value.ravel())


@wp.kernel
def without_lanes(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    t = wp.tile_load(x, shape=4, offset=i * 4)
    out[i] = wp.tile_sum(t)[0]
    wp.atomic_add(out, 3, 1.0)


def test_a_launch_by_blocks():
    x = numbers(10, 12)
    out = run_blocks(without_lanes, (3, BLOCK), x, np.zeros(4, np.float32))[-1]
    np.testing.assert_array_equal(out, [*x.reshape(3, 4).sum(1), 3 * BLOCK])


@wp.kernel
def printing(x: wp.array[float]):
    i = wp.tid()
    t = wp.tile_load(x, 2)
    print("hello")
    print(i, t[1])
    if i > 5:
        wp.printf("%d of %d\n", i, wp.block_dim())
        print("last")


def test_every_thread_prints(capfd):
    run_blocks(printing, BLOCK, np.zeros(2, np.float32))
    lines = capfd.readouterr().out.splitlines()
    expected = ["hello"] * 8 + [f"{i} 0" for i in range(8)] + ["6 of 8", "7 of 8", "last", "last"]
    assert lines == expected * 5  # so often it is run


@wp.kernel
def printing_tiles(x: wp.array2d[float]):
    i = wp.tid()
    t = wp.tile_load(x, (2, 3))
    print(t)
    print("row", wp.tile_arange(3, dtype=int))
    if i == 2:
        print(t[1, 0:2])


def test_tiles_are_printed_once(capfd):
    run_blocks(printing_tiles, BLOCK, np.arange(6, dtype=np.float32).reshape(2, 3) / 4)
    shown = "[[0 0.25 0.5]\n [0.75 1 1.25]] = tile(shape=(2,3))\nrow [0 1 2] = tile(shape=(3))\n"
    assert capfd.readouterr().out == (shown + "[0.75 1] = tile(shape=(2))\n") * 5  # so often it is run


@wp.kernel
def asserting(x: wp.array[float], most: float, out: wp.array[float]):
    i = wp.tid()
    t = wp.tile_load(x, 8)
    assert t[i] < most
    out[i] = t[i]


def test_asserts_are_checked_for_each_thread():
    ir = asserting.block_ir(Settings(debug=True), 8, 0)
    x = np.arange(8, dtype=np.float32)
    (_, out) = run(ir, (1,), [x, np.float32(8), np.zeros(8, np.float32)])
    np.testing.assert_array_equal(out, x)
    with pytest.raises(RuntimeError, match="assertion failed: t.i. < most"):
        run(ir, (1,), [x, np.float32(7), np.zeros(8, np.float32)])


@wp.kernel
def indexing(x: wp.array[float], i: int, out: wp.array[float]):
    lane = wp.tid()
    t = wp.tile_load(x, (8,))
    u = wp.tile_zeros((2, 8))
    if lane > 5:
        out[lane] = t[i + lane]
    u[i + 1] = t
    wp.tile_assign(u, wp.tile_reshape(t[0:4], (1, 4)), offset=(0, i + 4))
    wp.tile_scatter_add(u, 0, lane + 3, 1.0, lane < 5)
    out[0] = wp.tile_view(u, (0, i + 2), (2, 6))[0, 0]


def test_indices_of_elements_are_checked():
    ir = indexing.block_ir(Settings(debug=True), 8, 0)
    args = [numbers(13, 8), 0, np.zeros(8, np.float32)]
    run(ir, (1,), args)
    for wrong in (2, 1, -20):
        args[1] = wrong
        with pytest.raises(RuntimeError, match="index outside of the [28] elements along an axis of a tile"):
            run(ir, (1,), args)


@wp.kernel
def own_array(x: wp.array[float], n: int, out: wp.array[float]):
    b = wp.tid()
    t = wp.tile_load(x, 4)
    a = wp.zeros(shape=3, dtype=float)
    for k in range(n):
        a[k % 3] += t[k % 4]
    out[b] = a[0] + a[1] * 10.0 + a[2] * 100.0


def test_an_array_that_is_the_same_for_all_threads():
    x = numbers(12, 4)
    out = run_blocks(own_array, (2, BLOCK), x, 5, np.zeros(2, np.float32))[-1]
    np.testing.assert_array_equal(out, x[0] + x[3] + 10 * (x[1] + x[0]) + 100 * x[2])


def test_the_thread_of_a_block_of_one_is_any_that_a_tile_is_made_from():
    """As in Warp, whose launches on processors have such blocks."""

    @wp.kernel
    def spread(k: int, out: wp.array2d[float]):
        i, _ = wp.tid()
        value = 10.0 * float(i + 1)
        wp.tile_store(out[i], wp.tile_from_thread(shape=2, value=value, thread_idx=3))
        wp.tile_store(out[i], wp.tile_from_thread(shape=2, value=value, thread_idx=k), offset=2)

    out = wp.zeros((2, 4), dtype=float)
    wp.launch_tiled(spread, dim=[2], inputs=[5, out], block_dim=1)
    np.testing.assert_array_equal(out.numpy(), [[10.0] * 4, [20.0] * 4])
