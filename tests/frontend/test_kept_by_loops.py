"""Names that a loop sets in some iterations keep their values in the others, even if unset before the loop."""

import ast
import textwrap

import numpy as np
import pytest

import jwarp as wp
from jwarp.frontend.syntax.flow import read_before_set

pytestmark = pytest.mark.filterwarnings("ignore:.*may have no value here")


@wp.kernel
def kept(ids: wp.array[int], x: wp.array[wp.vec2], y: wp.array[float], z: wp.array[int]):
    n = ids.shape[0]
    before = int(-1)
    for k in range(n):
        if ids[k] != before:
            before = ids[k]
            first = k
            v = x[before] * 2.0
        y[k] = v[0] + v[1]
        z[k] = k - first


@wp.kernel
def kept_in_a_loop_that_ends(ids: wp.array[int], y: wp.array[float]):
    k = int(0)
    while k < ids.shape[0]:
        if k % 2 == 0:
            last = float(ids[k])
        y[k] = last
        if ids[k] < 0:
            break
        for j in range(ids[k]):
            if j == 0:
                inner = last + 1.0
            y[k] += inner
        k += 1


@wp.kernel
def kept_tiles(ids: wp.array[int], x: wp.array2d[float], y: wp.array2d[float]):
    before = int(-1)
    for k in range(ids.shape[0]):
        if ids[k] != before:
            before = ids[k]
            t = wp.tile_load(x[before], shape=5)
            u = wp.tile_map(wp.mul, t, 2.0)
        s = u
        if k % 2 == 1:
            s = wp.tile_map(wp.add, u, t)
        wp.tile_store(y[k], s)


IDS = np.array([2, 2, 0, 0, 0, 1, 1], np.int32)


def test_numbers_and_vectors():
    x = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    y, z = np.zeros(7, np.float32), np.zeros(7, np.int32)
    wp.launch(kept, 1, inputs=[IDS, x], outputs=[y, z])
    np.testing.assert_allclose(y, 2 * x.sum(1)[IDS], rtol=1e-6)
    assert z.tolist() == [0, 1, 0, 1, 2, 0, 1]


def test_loops_that_are_left():
    ids = np.array([2, 3, 1, -1, 5], np.int32)
    y = np.zeros(5, np.float32)
    wp.launch(kept_in_a_loop_that_ends, 1, inputs=[ids], outputs=[y])
    assert y.tolist() == [2 + 2 * 3, 2 + 3 * 3, 1 + 2, 1, 0]


@pytest.mark.parametrize("block_dim", [1, 32])
def test_tiles(block_dim):
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    y = np.zeros((7, 5), np.float32)
    wp.launch_tiled(kept_tiles, 1, inputs=[IDS, x], outputs=[y], block_dim=block_dim)
    np.testing.assert_allclose(y, x[IDS] * np.where(np.arange(7) % 2, 3, 2)[:, None], rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = b\nb = a", "b"),
        ("if c:\n    a = 1\nelse:\n    a = 2\nb = a", ""),
        ("if c:\n    a = 1\nb = a", "a"),
        ("if c:\n    continue\nelse:\n    a = 1\nb = a", ""),
        ("for j in range(n):\n    a = j\nb = a", "a"),
        ("while a < 3:\n    a = 4", "a"),
        ("a += 1", "a"),
        ("i = i + 1", ""),
        ("match c:\n    case 1:\n        a = 2\nb = a", "a"),
    ],
)
def test_what_may_be_read_before_it_is_set(body, expected):
    (loop,) = ast.parse("for i in range(n):\n" + textwrap.indent(body, "    ")).body
    assert isinstance(loop, ast.For) and read_before_set(loop) == set(expected)


READ = []


def noted():
    """Each reading of what is written here, as `wp.static` evaluates it."""
    READ.append(None)
    return 1.0


@wp.kernel
def nested(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    total = float(0.0)
    for a in range(n):
        if a != 1:
            p = x[i] + float(a)
        total += p
        for b in range(n):
            if b != 1:
                q = p + float(b)
            total += 2.0 * q
            c = int(0)
            while c < n:
                if c != 1:
                    r = q * float(c)
                total -= r
                c += 1
                for d in range(n):
                    if d != 1:
                        s = r + wp.static(noted())
                    total += s
                    if total > 200.0:
                        break
    y[i] = total


def test_loops_in_loops_are_not_read_twice_for_each_one_around_them():
    x = np.float32([0.25, -1.5, 3.0])
    y = np.zeros_like(x)
    READ.clear()
    wp.launch(nested, 3, [x, 3], [y])
    assert len(READ) <= 5  # once for each loop, and to make the code of
    want = []
    for value in x:
        total = 0.0
        for a in range(3):
            p = value + a if a != 1 else p  # noqa: F821
            total += p
            for b in range(3):
                q = p + b if b != 1 else q  # noqa: F821
                total += 2 * q
                for c in range(3):
                    r = q * c if c != 1 else r  # noqa: F821
                    total -= r
                    for d in range(3):
                        s = r + 1.0 if d != 1 else s  # noqa: F821
                        total += s
                        if total > 200.0:
                            break
        want.append(total)
    np.testing.assert_allclose(y, want, rtol=1e-5)
