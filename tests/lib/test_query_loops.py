"""Loops over queries of grids: the form that runs of points have, and threads that go through them together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.cpu.target import host_target

RNG = np.random.default_rng(8)
COUNT = 400
REACH = 0.21


@wp.func
def first_beyond(grid: wp.uint64, points: wp.array[wp.vec3], p: wp.vec3, least: float):
    for j in wp.hash_grid_query(grid, p, REACH):
        if wp.length(points[j] - p) > least:
            return j
    return -1


@wp.kernel
def in_runs(
    grid: wp.uint64, points: wp.array[wp.vec3], in_order: int, sums: wp.array2d[float], numbers: wp.array2d[int]
):
    i = wp.tid()
    if in_order == 1:
        i = wp.hash_grid_point_id(grid, i)
    p = points[i]
    query = wp.hash_grid_query(grid, p, REACH)
    j = wp.int32(-5)
    while wp.hash_grid_query_next(query, j):
        d = wp.length(points[j] - p)
        if d > REACH:
            continue
        sums[i, 0] = sums[i, 0] * 0.9 + d  # in order, or the sum is another one
    numbers[i, 0] = j
    again = wp.hash_grid_query(grid, p, REACH)
    seen = wp.int32(0)
    while wp.hash_grid_query_next(again, j):
        seen += 1
        if seen > 7 and j % 2 == 0:
            break
    numbers[i, 1] = j
    if wp.hash_grid_query_next(again, j):  # goes on after the one that left the loop
        numbers[i, 2] = j
    total = wp.float32(0.0)
    for k in wp.hash_grid_query(grid, p, 0.1):
        for m in wp.hash_grid_query(grid, points[k], 0.1):
            if m % 3 == 0:
                total += points[m][0]
            elif m % 3 == 1 and m > 390:
                break
    sums[i, 1] = total
    numbers[i, 3] = first_beyond(grid, points, p, 0.2)


@wp.kernel
def one_by_one(
    grid: wp.uint64, points: wp.array[wp.vec3], in_order: int, sums: wp.array2d[float], numbers: wp.array2d[int]
):
    i = wp.tid()
    p = points[i]
    query = wp.hash_grid_query(grid, p, REACH)
    j = wp.int32(-5)
    while True:
        if not wp.hash_grid_query_next(query, j):
            break
        d = wp.length(points[j] - p)
        if d <= REACH:
            sums[i, 0] = sums[i, 0] * 0.9 + d
    numbers[i, 0] = j
    again = wp.hash_grid_query(grid, p, REACH)
    seen = wp.int32(0)
    while True:
        if not wp.hash_grid_query_next(again, j):
            break
        seen += 1
        if seen > 7 and j % 2 == 0:
            break
    numbers[i, 1] = j
    if wp.hash_grid_query_next(again, j):
        numbers[i, 2] = j
    total = wp.float32(0.0)
    outer = wp.hash_grid_query(grid, p, 0.1)
    k = wp.int32(0)
    while True:
        if not wp.hash_grid_query_next(outer, k):
            break
        inner = wp.hash_grid_query(grid, points[k], 0.1)
        m = wp.int32(0)
        while True:
            if not wp.hash_grid_query_next(inner, m):
                break
            if m % 3 == 0:
                total += points[m][0]
            if m % 3 == 1 and m > 390:
                break
    sums[i, 1] = total
    found = wp.int32(-1)
    last = wp.hash_grid_query(grid, p, REACH)
    while found < 0 and wp.hash_grid_query_next(last, j):
        if wp.length(points[j] - p) > 0.2:
            found = j
    numbers[i, 3] = found


@pytest.mark.parametrize("spread", [0.3, 1.0, 20.0])
def test_all_forms_of_a_loop_find_the_same_in_the_same_order(spread):
    points = RNG.uniform(0, spread, (COUNT, 3)).astype(np.float32)
    grid = wp.HashGrid(6, 5, 7)
    grid.build(points, REACH)
    sizes = [(COUNT, 2), (COUNT, 4)]
    expected = wp.launch(one_by_one, COUNT, [grid, points, 0], sizes)
    for in_order in (0, 1):
        for known, found in zip(expected, wp.launch(in_runs, COUNT, [grid, points, in_order], sizes), strict=True):
            np.testing.assert_array_equal(found, known)


@wp.kernel
def crowd(grid: wp.uint64, points: wp.array[wp.vec3], out: wp.array[float]):
    i = wp.hash_grid_point_id(grid, wp.tid())
    query = wp.hash_grid_query(grid, points[i], REACH)
    j = wp.int32(0)
    while wp.hash_grid_query_next(query, j):
        d = points[j] - points[i]
        out[i] += wp.max(REACH * REACH - wp.dot(d, d), 0.0)


def test_threads_load_a_point_once_for_all_of_them_and_have_its_gradient():
    points = jnp.asarray(RNG.uniform(0, 1, (COUNT, 3)), jnp.float32)
    grid = wp.HashGrid(6, 5, 7)
    grid.build(points, REACH)
    record = wp.launch(crowd, COUNT, [grid, points], [COUNT], record_cmd=True)
    assert ("llvm.prefetch" in wp.inspect(record, "llvm")) == has_vectors()

    def by_pairs(x):
        squares = ((x[:, None] - x[None]) ** 2).sum(-1)
        return jnp.maximum(REACH * REACH - squares, 0.0).sum(1)

    weights = jnp.asarray(RNG.normal(size=COUNT), jnp.float32)
    found, pull = jax.vjp(lambda x: wp.jax_kernel(crowd)(grid, x)[0], points)
    known, pull_known = jax.vjp(by_pairs, points)
    np.testing.assert_allclose(found, known, rtol=1e-4)
    np.testing.assert_allclose(pull(weights)[0], pull_known(weights)[0], rtol=1e-3, atol=1e-4)


def has_vectors():
    return host_target().width > 1


@wp.func
def first_even(query: wp.HashGridQuery, numbers: wp.array[int]):
    j = wp.int32(0)
    n = wp.int32(0)
    while wp.hash_grid_query_next(query, j):
        numbers[n] = j
        n += 1
        if j % 2 == 0:
            return n
    return n


@wp.kernel
def in_parts(grid: wp.uint64, tree: wp.uint64, points: wp.array[wp.vec3], numbers: wp.array3d[int]):
    i = wp.tid()
    p = points[i]
    reach = wp.vec3(REACH)
    j = wp.int32(0)
    n = wp.int32(0)
    for k in wp.hash_grid_query(grid, p, REACH):
        numbers[0, i, n] = k
        n += 1
    query = wp.hash_grid_query(grid, p, REACH)
    n = 0
    for k in query:
        numbers[1, i, n] = k
        n += 1
        if n == 3:
            break
    if wp.hash_grid_query_next(query, j):
        numbers[1, i, n] = j
        n += 1
    while wp.hash_grid_query_next(query, j):
        numbers[1, i, n] = j
        n += 1
        if n % 5 == 0:
            break
    for k in query:
        numbers[1, i, n] = k
        n += 1
        if wp.hash_grid_query_next(query, j):
            numbers[1, i, n] = j
            n += 1
    query = wp.hash_grid_query(grid, p, REACH)
    n = first_even(query, numbers[2, i])  # of a query of its own
    n = 0
    while wp.hash_grid_query_next(query, j):
        numbers[2, i, n] = j
        n += 1
    n = 0
    boxes = wp.bvh_query_aabb(tree, p - reach, p + reach)
    while wp.bvh_query_next(boxes, j):
        numbers[3, i, n] = j
        n += 1
    boxes = wp.bvh_query_aabb(tree, p - reach, p + reach)
    n = 0
    for k in boxes:
        numbers[4, i, n] = k
        n += 1
        if n == 3:
            break
    for k in boxes:
        numbers[4, i, n] = k
        n += 1


def test_a_query_goes_on_where_a_loop_over_it_was_left():
    points = RNG.uniform(0.0, 1.0, (COUNT, 3)).astype(np.float32)
    grid, tree = wp.HashGrid(4, 5, 3), wp.Bvh(jnp.asarray(points - 0.01), jnp.asarray(points + 0.01))
    grid.build(points, REACH)
    numbers = np.full((5, COUNT, COUNT), -1, np.int32)
    wp.launch(in_parts, COUNT, [grid.id, tree.id, points], [numbers])
    assert (numbers[0] >= 0).sum(1).min() > 8 and (numbers[3, :, 3] >= 0).mean() > 0.5
    np.testing.assert_array_equal(numbers[1], numbers[0])
    np.testing.assert_array_equal(numbers[2], numbers[0])
    np.testing.assert_array_equal(numbers[4], numbers[3])


@wp.kernel
def in_sequence(grid: wp.uint64, points: wp.array[wp.vec3], numbers: wp.array2d[int], sums: wp.array[float]):
    i = wp.hash_grid_point_id(grid, wp.tid())
    n = wp.int32(0)
    total = wp.float32(0.0)
    if i % 7 != 3:
        for j in wp.hash_grid_query(grid, points[i], REACH):
            numbers[i, n] = j
            n += 1
            d = points[j] - points[i]
            total = 0.9 * total + wp.dot(d, d)
    sums[i] = total


@pytest.mark.parametrize("dims", [(6, 5, 7), (2, 9, 3)])
def test_rows_of_cells_that_wrap_round_are_met_from_the_first_cell_on(dims):
    points = RNG.uniform(0, 1, (COUNT, 3)).astype(np.float32)
    grid = wp.HashGrid(*dims)
    grid.build(points, REACH)
    sequences = [() if i % 7 == 3 else in_order_of_cells(points, p, dims) for i, p in enumerate(points)]
    expected = np.full((COUNT, COUNT), -1, np.int32)
    for row, sequence in zip(expected, sequences, strict=True):
        row[: len(sequence)] = sequence
    longest = (expected >= 0).sum(1).max()
    numbers, sums = np.full_like(expected, -1), np.zeros(COUNT, np.float32)
    wp.launch(in_sequence, COUNT, [grid, points], [numbers, sums])
    np.testing.assert_array_equal(numbers, expected)

    def by_sequences(x):
        total, ids = jnp.zeros(COUNT), jnp.asarray(expected[:, :longest].T)
        for k in range(longest):
            d = x[ids[k]] - x
            total = jnp.where(ids[k] >= 0, 0.9 * total + (d * d).sum(-1), total)
        return total

    of_kernel = wp.jax_kernel(in_sequence, num_outputs=2, output_dims={"numbers": (COUNT, COUNT), "sums": COUNT})
    weights = jnp.asarray(RNG.normal(size=COUNT), jnp.float32)
    known, pull_known = jax.vjp(by_sequences, jnp.asarray(points))
    found, pull = jax.vjp(lambda x: of_kernel(grid, x)[1], jnp.asarray(points))
    np.testing.assert_allclose(sums, known, rtol=1e-5)
    np.testing.assert_allclose(found, known, rtol=1e-5)
    np.testing.assert_allclose(pull(weights)[0], pull_known(weights)[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("spread", [0.02, 0.5, 3.0])
def test_points_that_have_moved_since_meet_the_same_in_the_same_order(spread):
    """Threads of neighbours are in adjacent rows of cells then, or far apart, and wait for each other."""
    dims = (6, 5, 7)
    points = RNG.uniform(0, 1, (COUNT, 3)).astype(np.float32)
    moved = (points + [0.01, -0.5 * REACH, 0.6 * REACH] + spread * REACH * RNG.normal(size=(COUNT, 3))).astype(
        np.float32
    )
    grid = wp.HashGrid(*dims)
    grid.build(points, REACH)
    expected = np.full((COUNT, COUNT), -1, np.int32)
    for i, row in enumerate(expected):
        sequence = () if i % 7 == 3 else in_order_of_cells(points, moved[i], dims)
        row[: len(sequence)] = sequence
    numbers = np.full_like(expected, -1)
    wp.launch(in_sequence, COUNT, [grid, moved], [numbers, np.zeros(COUNT, np.float32)])
    np.testing.assert_array_equal(numbers, expected)


def in_order_of_cells(points, p, dims):
    """The points that a query about a place finds, by NumPy: cell by cell, along the first axis first."""
    scale = np.float32(1.0) / np.float32(REACH)
    own = np.mod(np.floor(points * scale).astype(int), dims)
    low, high = (np.floor((p + s * np.float32(REACH)) * scale).astype(int) for s in (-1, 1))
    count = np.minimum(high - low + 1, dims)
    cells = [np.mod(low + (x, y, z), dims) for z in range(count[2]) for y in range(count[1]) for x in range(count[0])]
    return np.concatenate([np.flatnonzero((own == cell).all(1)) for cell in cells])
