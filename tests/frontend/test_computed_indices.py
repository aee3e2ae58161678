"""Components of vectors and matrices at computed indices: what any integer gives, and how long the code for it is."""

import numpy as np
import pytest
from tile_running import BLOCK, run_blocks

import jwarp as wp
from jwarp.compiler.cpu import lower_kernel
from jwarp.config import config
from jwarp.ir.nodes import Op, walk

N = 8
Long, Table = wp.types.vector(length=130, dtype=float), wp.types.matrix(shape=(2, 5), dtype=float)


def kernel_for(kind):
    @wp.kernel
    def read_and_changed(v: wp.array[Long], index: wp.array[kind], read: wp.array[float], after: wp.array[Long]):
        i = wp.tid()
        u = v[0]
        read[i] = u[index[i]]
        u[index[i]] = -1.0
        after[i] = u

    return read_and_changed


@pytest.mark.parametrize("kind", [wp.int8, wp.int32, wp.uint32, wp.int64])
def test_any_integer_is_an_index(kind):
    info = np.iinfo(kind.dtype)
    wanted = {0, 1, 126, 127, 128, 129, 130, 131, -1, -2, -128, -129, -130, -131, info.min, info.max, info.max - 1}
    index = np.array(sorted(k for k in wanted if info.min <= k <= info.max), info.dtype)
    v = np.random.default_rng(0).normal(size=(1, 130)).astype(np.float32)
    read, after = np.zeros(len(index), np.float32), np.zeros((len(index), 130), np.float32)
    wp.launch(kernel_for(kind), len(index), inputs=[v, index], outputs=[read, after])
    for i, k in enumerate(index.tolist()):
        expected, known = v[0].copy(), -130 <= k < 130
        assert read[i] == (expected[k] if known else 0.0), k
        if known:
            expected[k] = -1.0
        np.testing.assert_array_equal(after[i], expected)


@wp.kernel
def entries(m: wp.array[Table], row: wp.array[int], column: wp.array[int], read: wp.array[float]):
    i = wp.tid()
    u = m[i]
    u[row[i], column[i]] += 1.0
    read[i] = u[row[i], column[i]] + u[row[i]][1]


def test_an_index_is_compared_with_each_position_once():
    names = [n.name for n in walk(entries.ir().body) if isinstance(n, Op)]
    # Three matrices are read or made, by two indices, each counted from its end.
    assert names.count("eq") <= 4 * (2 + 5) and names.count("or") == 0
    rng = np.random.default_rng(1)
    m = rng.normal(size=(N, 2, 5)).astype(np.float32)
    row, column = rng.integers(-3, 3, N).astype(np.int32), rng.integers(-6, 6, N).astype(np.int32)
    read = np.zeros(N, np.float32)
    wp.launch(entries, N, inputs=[m, row, column], outputs=[read])
    for i, (r, c) in enumerate(zip(row.tolist(), column.tolist(), strict=True)):
        expected = 0.0
        if -2 <= r < 2:
            there = -5 <= c < 5
            m[i, r, c if there else 0] += 1.0 if there else 0.0
            expected = (m[i, r, c] if there else 0.0) + m[i, r, 1]
        assert read[i] == np.float32(expected)


Kept = wp.types.vector(length=40, dtype=float)


@wp.kernel
def largest(x: wp.array2d[float], count: int, out: wp.array[float]):
    i = wp.tid()
    kept = Kept()
    for k in range(40):
        kept[k] = x[i, k]
    left = kept
    for _ in range(count):
        best, place = float(-9.0), int(-1)
        for k in range(40):
            if left[k] > best:
                best, place = left[k], k
        left[place] = -9.0
        out[i] += best
    out[i] += kept[0] + wp.tile_sum(wp.tile(kept[1]))[0]


def test_elements_that_all_threads_of_a_block_have_lie_side_by_side():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(2 * BLOCK, 40)).astype(np.float32)
    *_, out = run_blocks(largest, 2 * BLOCK, x, 3, np.zeros(2 * BLOCK, np.float32))
    expected = np.sort(x, 1)[:, :-4:-1].sum(1) + x[:, 0] + np.repeat(x[:, 1].reshape(2, -1).sum(1), BLOCK)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    kernel = largest.block_ir(None, BLOCK, 0)
    assert [local.shape for local in kernel.locals] == [(40, BLOCK)] * 2
    # Each thread finds another place, where it changes what is left. Everything else is in vectors.
    assert lower_kernel(kernel, config.settings).text().count("call void @llvm.masked.scatter") == 1
