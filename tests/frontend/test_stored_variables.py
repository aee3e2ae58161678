"""Vectors and matrices of many components that are indexed by values: they are in memory, and still values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.frontend.lowering import indexed_composites
from jwarp.ir.nodes import walk

F, N = wp.float64, 64
Vec, Ints = wp.types.vector(length=N, dtype=F), wp.types.vector(length=N, dtype=int)
Mat = wp.types.matrix(shape=(8, 7), dtype=F)


@wp.func
def add(count: int, keys: Ints, sums: Vec, key: int, x: F):
    if key < 0:
        return count, keys, sums
    for i in range(count):
        if keys[i] == key:
            sums[i] += x
            return count, keys, sums
    if count < N:
        keys[count] = key
        sums[count] = x
        return count + 1, keys, sums
    return count, keys, sums


@wp.func
def add_all(count: int, keys: Ints, sums: Vec, x: wp.array[F], n: int):
    if n == 0:
        return count, keys, sums
    for k in range(n):
        count, keys, sums = add(count, keys, sums, (k * k) % 7 - 1, x[k])
    return add(count, keys, sums, 3, F(2.0))


@wp.kernel
def collected(x: wp.array[F], n: wp.array[int], sums_out: wp.array2d[F], count_out: wp.array[int]):
    t = wp.tid()
    keys = Ints(-1)
    sums = Vec(F(0.0))
    count = int(0)
    count, keys, sums = add_all(count, keys, sums, x, n[t])
    if n[t] > 2:
        count, keys, sums = add(count, keys, sums, 4, F(1.0))
    before = sums
    sums[0] = F(100.0)
    for j in range(count):
        sums_out[t, j] = before[j] * F(keys[j]) + sums[j]
    count_out[t] = count


def test_a_vector_that_functions_change_and_return():
    rng = np.random.default_rng(3)
    x, n = rng.normal(size=12), np.array([0, 1, 2, 3, 5, 12, 4, 7], np.int32)
    sums, counts = np.zeros((8, 12)), np.zeros(8, np.int32)
    wp.launch(collected, 8, inputs=[x, n], outputs=[sums, counts])
    for t, trips in enumerate(n.tolist()):
        known: dict[int, float] = {}
        items = [(k * k % 7 - 1, x[k]) for k in range(trips)]
        items += [(3, 2.0)] * (trips > 0) + [(4, 1.0)] * (trips > 2)
        for key, value in items:
            if key >= 0:
                known[key] = known.get(key, 0.0) + value
        expected = [s * key + (100.0 if j == 0 else s) for j, (key, s) in enumerate(known.items())]
        assert counts[t] == len(known)
        np.testing.assert_allclose(sums[t, : len(known)], expected, rtol=1e-14)


def test_its_code_does_not_grow_with_the_components():
    assert sum(1 for _ in walk(collected.ir().body)) < 900
    assert len(collected.ir().locals) == 3


@wp.func
def crossed(a: Vec, b: Vec, i: int):
    a[i] = F(7.0)
    b[i + 1] = a[i] * b[i]
    return b, a


@wp.func
def scaled_at(a: Vec, i: int, by: F):
    if i > 50:
        return a
    for j in range(i):
        a[j] = a[j] * by + a[i]
        if a[j] > F(3.0):
            return a
    a[i] = a[0] - by
    return a


@wp.kernel
def kept_apart(x: wp.array[Vec], k: wp.array[int], o: wp.array2d[F]):
    t = wp.tid()
    a = x[t]
    b = a
    c = scaled_at(a, k[t], F(0.5))  # of a copy
    a, b = crossed(a, b, k[t])
    b = scaled_at(b, k[t], F(1.5))
    d = a
    if k[t] > 5:
        d = scaled_at(b, 3, F(0.25))
        d[k[t] - 80] = F(9.0)
    e = Vec()
    for j in range(3):
        e = e + d
        d[k[t] + j] += e[j]
        if d[j] > F(20.0):
            break
    d[k[t] + 60] = F(5.0)
    for j in range(N):
        o[t, j] = a[j] + F(3.0) * b[j] + F(5.0) * c[j] + F(7.0) * d[j] + F(11.0) * e[j]


def _at(i: int) -> int | None:
    return i % N if -N <= i < N else None


class _Values(np.ndarray):
    """A vector outside of which reads give zero and stores do nothing."""

    def get(self, i):
        return 0.0 if _at(i) is None else float(self[_at(i)])

    def put(self, i, x):
        if _at(i) is not None:
            self[_at(i)] = x


def _scaled_at(a, i, by):
    a = a.copy()
    if i > 50:
        return a
    for j in range(i):
        a.put(j, a.get(j) * by + a.get(i))
        if a.get(j) > 3.0:
            return a
    a.put(i, a.get(0) - by)
    return a


def _kept_apart(x, k):
    a = x.copy().view(_Values)
    b = a.copy()
    c = _scaled_at(a, k, 0.5)
    p, q = a.copy(), b.copy()
    p.put(k, 7.0)
    q.put(k + 1, p.get(k) * q.get(k))
    a, b = q, p
    b = _scaled_at(b, k, 1.5)
    d = a.copy()
    if k > 5:
        d = _scaled_at(b, 3, 0.25)
        d.put(k - 80, 9.0)
    e = np.zeros(N).view(_Values)
    for j in range(3):
        e = e + d
        d.put(k + j, d.get(k + j) + e.get(j))
        if d.get(j) > 20.0:
            break
    d.put(k + 60, 5.0)
    return np.asarray(a + 3 * b + 5 * c + 7 * d + 11 * e)


K = np.array([0, 3, 6, 63, 70, -3, -64, 20, 17, 52], np.int32)


def test_copies_are_copies():
    x = np.random.default_rng(5).normal(size=(len(K), N))
    found = np.zeros((len(K), N))
    wp.launch(kept_apart, len(K), inputs=[x, K], outputs=[found])
    np.testing.assert_allclose(found, [_kept_apart(*pair) for pair in zip(x, K, strict=True)], rtol=1e-13)


def test_gradients_agree_with_differences():
    rng = np.random.default_rng(6)
    x, w = rng.normal(size=(len(K), N)), rng.normal(size=(len(K), N))
    direction = rng.normal(size=x.shape)

    def total(x):
        spec = jax.ShapeDtypeStruct(x.shape, jnp.float64)
        return (wp.launch(kept_apart, len(K), inputs=[x, K], outputs=[spec])[0] * w).sum()

    with jax.enable_x64(True):
        gradient = np.asarray(jax.grad(total)(jnp.asarray(x)))
    reference = lambda x: (np.array([_kept_apart(*pair) for pair in zip(x, K, strict=True)]) * w).sum()  # noqa: E731
    h = 1e-6
    slope = (reference(x + h * direction) - reference(x - h * direction)) / (2 * h)
    np.testing.assert_allclose((gradient * direction).sum(), slope, rtol=1e-7)


@wp.func
def filled(m: Mat, i: int, x: F):
    for j in range(7):
        m[i, j] += x * F(j)
        m[i - 1][j] = m[j, i] - x
    return m


@wp.kernel
def rows(x: wp.array[Mat], k: wp.array[int], o: wp.array[Mat], p: wp.array2d[F]):
    t = wp.tid()
    m = x[t]
    m = filled(m, k[t], F(0.5))
    r = m[k[t]]
    m[2] = r
    o[t] = m
    for j in range(7):
        p[t, j] = m[j, 3] + r[j]


def test_matrices(monkeypatch):
    x, k = np.random.default_rng(7).normal(size=(len(K), 8, 7)), K % 9 - 1

    def run():
        out = [np.zeros_like(x), np.zeros((len(K), 7))]
        wp.launch(wp.kernel(rows.python), len(K), inputs=[x, k.astype(np.int32)], outputs=out)
        return out

    found = run()
    monkeypatch.setattr(indexed_composites, "MAX_SCALARS", 1 << 20)
    for got, expected in zip(found, run(), strict=True):
        np.testing.assert_array_equal(got, expected)


@wp.kernel
def by_lanes(x: wp.array[F], k: wp.array[int], o: wp.array2d[F]):
    _, lane = wp.tid()
    for t in range(lane, x.shape[0], wp.block_dim()):
        v = Vec(F(0.5))
        if k[t] > 1:
            v = scaled_at(v, k[t], x[t])
        for j in range(N):
            o[t, j] = v[j]


@pytest.mark.parametrize("block_dim", [1, 8])
def test_in_blocks(block_dim):
    x, found = np.random.default_rng(8).normal(size=len(K)), np.zeros((len(K), N))
    wp.launch(by_lanes, (1, block_dim), inputs=[x, K], outputs=[found], block_dim=block_dim)
    start = np.full(N, 0.5).view(_Values)
    expected = [_scaled_at(start, k, y) if k > 1 else start for k, y in zip(K, x, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@wp.func
def moved(a: wp.ref[Vec], i: int):
    a[i] += F(2.0)
    return a[i + 1]


@wp.kernel
def by_reference(x: wp.array[Vec], k: wp.array[int], o: wp.array2d[F]):
    t = wp.tid()
    v = x[t]
    v[k[t]] = F(1.0)
    y = moved(v, k[t]) + moved(v, 3)
    for j in range(N):
        o[t, j] = v[j] + y


def test_references(monkeypatch):
    x = np.random.default_rng(9).normal(size=(len(K), N))

    def run():
        found = np.zeros((len(K), N))
        wp.launch(wp.kernel(by_reference.python), len(K), inputs=[x, K], outputs=[found])
        return found

    found = run()
    monkeypatch.setattr(indexed_composites, "MAX_SCALARS", 1 << 20)
    np.testing.assert_array_equal(found, run())
