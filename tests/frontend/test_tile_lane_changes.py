"""Elements of tiles that the threads of a block change, each for itself, all of them or some."""

import numpy as np
import pytest
from tile_running import BLOCK, run_blocks

import jwarp as wp

N = 3 * BLOCK


def numbers(seed, *shape):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


@wp.kernel
def written_by_threads(x: wp.array[float], index: wp.array[int], out: wp.array2d[float], rows: wp.array3d[float]):
    block, i = wp.tid()
    at = block * wp.block_dim() + i
    t = wp.tile_zeros(8)
    t[7 - i] = x[at]
    t[0] += 1.0
    t[1] += float(i)
    wp.tile_store(out[0], t, offset=block * 8)
    u = wp.tile_ones(4)
    u[index[at]] += x[at]
    wp.tile_store(out[1], u, offset=block * 8)
    w = wp.tile_zeros((2, 3))
    wp.tile_scatter_add(w, i % 2, index[at] % 3, value=x[at], has_value=i > 2)
    wp.tile_scatter_add(w, 0, 0, 1.0, True, atomic=True)
    wp.tile_scatter_masked(w, 1, i, float(i), i < 2)
    wp.tile_store(rows[block], w)


def test_threads_write_elements():
    x, index = numbers(7, N), np.random.default_rng(8).integers(0, 4, N).astype(np.int32)
    args = (x, index, np.zeros((2, N), np.float32), np.zeros((3, 2, 3), np.float32))
    out, rows = run_blocks(written_by_threads, (3, BLOCK), *args)[-2:]
    expected, scattered = np.zeros((2, 3, BLOCK), np.float32), np.zeros((3, 2, 3), np.float32)
    for block in range(3):
        mine, places = x.reshape(3, BLOCK)[block], index.reshape(3, BLOCK)[block]
        expected[0, block] = mine[::-1]
        expected[0, block, 0] += 1  # happens once
        expected[0, block, 1] += sum(range(BLOCK))
        expected[1, block, :4] = 1
        np.add.at(expected[1, block], places, mine)
        for i in range(3, BLOCK):
            scattered[block, i % 2, places[i] % 3] += mine[i]
        scattered[block, 0, 0] += BLOCK
        scattered[block, 1, :2] = 0, 1
    np.testing.assert_array_equal(out, expected.reshape(2, N))
    np.testing.assert_array_equal(rows, scattered)


@wp.kernel
def changed_by_some(x: wp.array[float], index: wp.array[int], n: int, out: wp.array2d[float], sums: wp.array[float]):
    block, i = wp.tid()
    at = block * wp.block_dim() + i
    t = wp.tile_load(x, shape=8, offset=block * 8)
    k = 4
    while k > 0:
        if i < k:
            t[i] += t[i + k]
        k //= 2
    u = wp.tile_zeros((2, 4))
    if i < 3:
        u[0, 3] += 1.0
        if index[at] > 1:
            j = index[at]
            u[1, j] = x[at]
            out[1, at] = x[at] + u[1, 0]
        else:
            u[1, 0] = 2.0
        sums[block] = u[1, 0]
    elif i == 3:
        for m in range(n):
            j = (m + index[at]) % 4
            u[0, j] += t[m]
            if m == index[at]:
                u[0, j] = 9.0
        t[1] = u[0, 3]
    v = u[0, i % 4]
    if v > 0.5:
        v = t[i]
        if v < 0.0:
            u[0, 2] = -1.0
    wp.tile_store(out[0], wp.tile_reshape(u, 8), offset=block * 8)
    out[2, at] = v + t[0] + t[1]


def changes_in_python(x, index, n):
    out, sums = np.zeros((3, N), np.float32), np.zeros(3, np.float32)
    for block in range(3):
        mine, at = slice(block * 8, block * 8 + 8), index[block * 8 : block * 8 + 8]
        xs, t, u = x[mine], x[mine].copy(), np.zeros((2, 4), np.float32)
        for k in (4, 2, 1):
            t[:k] += t[k : 2 * k]
        u[0, 3] = 3
        some = [i for i in range(3) if at[i] > 1]
        for i in some:
            u[1, at[i]] = xs[i]
        for i in some:
            out[1, block * 8 + i] = xs[i] + u[1, 0]
        if len(some) < 3:
            u[1, 0] = 2
        sums[block] = u[1, 0]
        for m in range(n):
            j = (m + at[3]) % 4
            u[0, j] = 9 if m == at[3] else u[0, j] + t[m]
        t[1] = u[0, 3]
        v = np.array([u[0, i % 4] for i in range(8)])
        chosen = v > 0.5
        v = np.where(chosen, t, v)
        if (chosen & (v < 0)).any():
            u[0, 2] = -1
        out[0, mine] = u.reshape(-1)
        out[2, mine] = v + t[0] + t[1]
    return out, sums


@pytest.mark.parametrize("n", [0, 3, 6])
def test_some_threads_change_elements(n):
    for seed in range(6):
        x, index = numbers(20 + seed, N), np.random.default_rng(seed).integers(0, 4, N).astype(np.int32)
        index[::8] = np.random.default_rng(seed).permutation(4)[:3]
        for block in range(3):  # of those that write one element, one only
            first = index[block * 8 : block * 8 + 3]
            first[1:] = np.where(np.isin(first[1:], first[:1]), 0, first[1:])
            first[2] = 1 if first[2] == first[1] else first[2]
        got = run_blocks(
            changed_by_some, (3, BLOCK), x, index, n, np.zeros((3, N), np.float32), np.zeros(3, np.float32)
        )
        for mine, wanted in zip(got[-2:], changes_in_python(x, index, n), strict=True):
            np.testing.assert_array_equal(mine, wanted)


@wp.kernel
def combined_bits(x: wp.array[int], index: wp.array[int], out: wp.array2d[int]):
    block, i = wp.tid()
    at = block * wp.block_dim() + i
    t = wp.tile_full(4, 255, dtype=int)
    t[0] &= x[at] | 1
    t[1] ^= x[at]
    t[2] |= 1 << (i + 8)
    t[3] &= 15
    u = wp.tile_zeros(4, dtype=int)
    u[index[at]] ^= x[at]
    if i % 2 == 0:
        u[1] |= 1 << i
        t[3] &= ~i
        if x[at] > 5:
            u[index[at]] |= x[at] << 8
    wp.tile_store(out[block], t)
    wp.tile_store(out[block], u, offset=4)


def test_threads_combine_bits():
    rng = np.random.default_rng(31)
    x, index = rng.integers(0, 256, N).astype(np.int32), rng.integers(0, 4, N).astype(np.int32)
    out = run_blocks(combined_bits, (3, BLOCK), x, index, np.zeros((3, 8), np.int32))[-1]
    expected = np.zeros((3, 8), np.int32)
    for block in range(3):
        row = expected[block]
        row[:4] = 255
        for i in range(BLOCK):
            mine, place = x[block * 8 + i], index[block * 8 + i]
            row[0] &= mine | 1
            row[1] ^= mine
            row[2] |= 1 << (i + 8)
            row[3] &= 15
            row[4 + place] ^= mine
        for i in range(0, BLOCK, 2):
            mine, place = x[block * 8 + i], index[block * 8 + i]
            row[5] |= 1 << i
            row[3] &= ~i
            row[4 + place] |= mine << 8 if mine > 5 else 0
    np.testing.assert_array_equal(out, expected)
