"""Hash grids: neighbours against a search of all pairs, in jit, in batches, with gradients, and of bad input."""

import copy
import pickle
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.api.geometry.hash_grid import _sorted_by_xla, _starts

RNG = np.random.default_rng(3)
DIMS = (5, 4, 7)


@wp.kernel
def numbers(grid: wp.uint64, points: wp.array[wp.vec3], radius: float, found: wp.array2d[int], sums: wp.array[float]):
    """How often each point is met, and the sum of distances of those that are near."""
    i = wp.tid()
    p = points[i]
    total = 0.0
    for j in wp.hash_grid_query(grid, p, radius):
        found[i, j] += 1
        d = wp.length(points[j] - p)
        if d < radius and d > 0.0:
            total += d
    sums[i] = total


@wp.func
def near(grid: wp.uint64, p: wp.vec3, radius: float, points: wp.array[wp.vec3]):
    count = wp.int32(0)
    query = wp.hash_grid_query(grid, p, radius)
    index = wp.int32(0)
    while wp.hash_grid_query_next(query, index):
        if wp.length(points[index] - p) >= radius:
            continue
        count += 1
    return count


@wp.kernel
def counted(grid: wp.uint64, points: wp.array[wp.vec3], radius: float, counts: wp.array[int]):
    i = wp.hash_grid_point_id(grid, wp.tid())
    counts[i] = near(grid, points[i], radius, points)


@wp.kernel
def grouped(grid: wp.uint64, points: wp.array[wp.vec3], groups: wp.array[int], radius: float, found: wp.array2d[int]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, points[i], radius, groups[i]):
        found[i, j] += 1


@wp.func
def met_by(query: wp.HashGridQuery[wp.float64]):
    count = wp.int32(0)
    for _ in query:
        count += 1
    return count


@wp.kernel
def passed_on(grid: wp.uint64, points: wp.array[wp.vec3d], counts: wp.array[int]):
    i = wp.tid()
    counts[i] = met_by(wp.hash_grid_query(grid, points[i], wp.float64(0.5)))


@wp.kernel
def of_any_type(grid: wp.uint64, points: wp.array[Any], radius: Any, found: wp.array2d[int]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, points[i], radius):
        found[i, j] += 1


@wp.kernel
def order(grid: wp.uint64, ids: wp.array[int]):
    i = wp.tid()
    ids[i] = wp.hash_grid_point_id(grid, i)


def cells(points, radius, dtype=np.float32):
    """The cells of points, by NumPy."""
    scaled = points * (np.ones((), dtype) / dtype(radius))
    return np.nan_to_num(np.floor(scaled)).astype(np.int64)


def met(points, radius, dims=DIMS, built=None, dtype=np.float32):
    """The points that a query about each point finds, by NumPy: those of cells that are in its range when wrapped."""
    scale = np.ones((), dtype) / dtype(built or radius)
    low, high = (np.floor((points + s * dtype(radius)) * scale).astype(np.int64) for s in (-1, 1))
    own = np.mod(np.floor(points * scale).astype(np.int64), dims)
    inside = np.ones((len(points),) * 2, bool)
    for axis, extent in enumerate(dims):
        count = np.minimum(high - low + 1, extent)[:, axis, None]
        inside &= np.mod(own[None, :, axis] - low[:, None, axis], extent) < count
    return inside


def grid_of(points, radius, dims=DIMS, **more):
    grid = wp.HashGrid(*dims, dtype=more.pop("dtype", None))
    grid.build(points, radius, **more)
    return grid


def distances(points):
    return np.linalg.norm(points[:, None].astype(float) - points[None], axis=-1)


@pytest.mark.parametrize("radius", [0.3, 1.1, 40.0])
def test_a_query_meets_each_point_of_its_cells_once(radius):
    points = RNG.uniform(-3, 3, (150, 3)).astype(np.float32)
    grid = grid_of(points, 0.5)
    found, sums = wp.launch(numbers, 150, [grid.id, points, radius], [(150, 150), 150])
    np.testing.assert_array_equal(found, met(points, radius, built=0.5))
    d = distances(points)
    np.testing.assert_allclose(sums, np.where(d < radius, d, 0).sum(1), rtol=1e-5)


def test_the_object_and_its_id_are_passed_in_every_way():
    points = RNG.normal(size=(200, 3)).astype(np.float32)
    grid = grid_of(points, 0.4)
    expected = (distances(points) < 0.4).sum(1)
    for given in (grid, grid.id, grid.arrays):
        np.testing.assert_array_equal(wp.launch(counted, 200, [given, points, 0.4], [200])[0], expected)
        np.testing.assert_array_equal(wp.jax_kernel(counted)(given, points, 0.4)[0], expected)
    named = {"points": points, "radius": 0.4, "grid": grid}
    np.testing.assert_array_equal(wp.launch(counted, 200, named, {"counts": 200})["counts"], expected)
    np.testing.assert_array_equal(wp.jax_kernel(counted)(**named)[0], expected)
    counts = np.zeros(200, np.int32)
    wp.launch(counted, 200, [grid.id, points, 0.4], [counts])
    np.testing.assert_array_equal(counts, expected)
    record = wp.launch(counted, 200, [grid.id, points, 0.4], [200], record_cmd=True)
    np.testing.assert_array_equal(record.launch()[0], expected)


def test_a_query_may_ask_for_one_group():
    points = RNG.uniform(0, 2, (120, 3)).astype(np.float32)
    groups = RNG.choice([-(2**31), -1, 0, 5, 2**31 - 1], 120).astype(np.int32)
    grid = grid_of(points, 0.5, groups=groups)
    (found,) = wp.launch(grouped, 120, [grid, points, groups, 0.5], [(120, 120)])
    np.testing.assert_array_equal(found, met(points, 0.5) & (groups[:, None] == groups))
    np.testing.assert_array_equal(  # of no group: all
        wp.launch(numbers, 120, [grid, points, 0.5], [(120, 120), 120])[0], met(points, 0.5)
    )
    plain = grid_of(points, 0.5)  # which has no groups to ask for
    np.testing.assert_array_equal(
        wp.launch(grouped, 120, [plain, points, groups, 0.5], [(120, 120)])[0], met(points, 0.5)
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_points_of_other_precisions_have_grids_of_theirs(dtype, x64):
    points = RNG.uniform(-2, 2, (60, 3)).astype(dtype)
    grid = grid_of(points, 0.5, dtype=wp.float16 if dtype is np.float16 else wp.float64)
    (found,) = wp.launch(of_any_type, 60, [grid, points, dtype(0.5)], [(60, 60)])
    np.testing.assert_array_equal(found, met(points, 0.5, dtype=dtype))
    if dtype is np.float64:
        (counts,) = wp.launch(passed_on, 60, [grid, points], [60])
        np.testing.assert_array_equal(counts, met(points, 0.5).sum(1))


def test_slots_are_in_order_of_cells_and_points():
    points = RNG.uniform(-2, 2, (90, 3)).astype(np.float32)
    grid = grid_of(points, 0.5)
    x, y, z = np.mod(cells(points, 0.5), DIMS).T
    (ids,) = wp.launch(order, 90, [grid], [90])
    np.testing.assert_array_equal(ids, np.argsort((z * DIMS[1] + y) * DIMS[0] + x, kind="stable"))


def test_a_grid_built_now_is_the_one_built_under_jit():
    points = RNG.uniform(-9, 9, (300, 3)).astype(np.float32)
    groups = RNG.choice([-(2**31), -7, 0, 70000, 2**31 - 1], 300).astype(np.int32)
    for given in (None, groups):

        @jax.jit
        def built(points, given=given):
            grid = wp.HashGrid(50, 51, 52)
            grid.build(points, 0.5, groups=given)
            return grid

        now, then = grid_of(points, 0.5, (50, 51, 52), groups=given), built(jnp.asarray(points))
        for mine, known in zip(jax.tree.leaves(now), jax.tree.leaves(then), strict=True):
            np.testing.assert_array_equal(mine, known)


@pytest.mark.parametrize("count", [0, 1, 700])
def test_how_points_are_sorted_on_gpus(count):
    """By XLA's sort and a search; a point in no cell has a number beyond them."""
    rng = np.random.default_rng(count)
    total = 60
    for cells in (
        rng.integers(0, total, count),
        rng.integers(7, 9, count),
        np.where(rng.random(count) < 0.1, total, 3),
    ):
        given = jnp.asarray(cells, jnp.int32)
        order, starts = jax.jit(_sorted_by_xla, static_argnums=1)(given, total)
        np.testing.assert_array_equal(order, np.argsort(cells, kind="stable"))
        expected = [np.sum(cells < cell) for cell in range(total + 1)]
        np.testing.assert_array_equal(starts, expected)
        np.testing.assert_array_equal(_starts(given[order], total), expected)


def test_arrays_that_change_are_sorted_as_they_are_now():
    points = wp.array(RNG.normal(size=(60, 3)), dtype=wp.vec3)
    counts = wp.zeros(60, dtype=int)
    grid = wp.HashGrid(*DIMS)
    for _ in range(2):
        grid.build(points, 0.4)
        wp.launch(counted, 60, inputs=[grid.id, points, 0.4], outputs=[counts])
        np.testing.assert_array_equal(counts.numpy(), (distances(points.numpy()) < 0.4).sum(1))
        points.assign(points.numpy() * 0.7)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_graph_builds_with_the_radius_of_its_capture(kind):
    points = wp.array(RNG.normal(size=(60, 3)), dtype=wp.vec3)
    grid, radius = wp.HashGrid(*DIMS), np.array(0.25, kind)
    with wp.ScopedCapture() as capture:
        grid.build(points, radius)
    radius[...] = 0.5
    for _ in range(4):
        wp.capture_launch(capture.graph)
        assert grid.scale == 4.0
    grid.build(points, radius)
    assert grid.scale == 2.0


def total(points):
    grid = wp.HashGrid(*DIMS)
    grid.build(points, 0.5)
    return wp.jax_kernel(numbers, num_outputs=2, output_dims={"found": (40, 40), "sums": 40})(grid, points, 0.5)[
        1
    ].sum()


def pairs(points):
    squares = ((points[:, None] - points[None]) ** 2).sum(-1)
    d = jnp.sqrt(jnp.where(squares > 0, squares, 1.0))
    return jnp.where((squares > 0) & (squares < 0.25), d, 0).sum()


def test_gradients_go_through_a_grid_that_is_built_under_jit():
    points = jnp.asarray(RNG.uniform(0, 1.5, (40, 3)), jnp.float32)
    value, gradient = jax.jit(jax.value_and_grad(total))(points)
    expected, by_pairs = jax.value_and_grad(pairs)(points)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, by_pairs, rtol=1e-4, atol=1e-5)
    twice = jax.jvp(jax.grad(total), (points,), (jnp.ones_like(points) * points,))[1]
    np.testing.assert_allclose(
        twice, jax.jvp(jax.grad(pairs), (points,), (jnp.ones_like(points) * points,))[1], rtol=1e-3, atol=1e-4
    )


def test_each_element_of_a_batch_has_its_grid():
    points = jnp.asarray(RNG.uniform(0, 1.5, (3, 40, 3)), jnp.float32)
    batch = jax.vmap(jax.value_and_grad(total))(points)
    each = [jax.value_and_grad(total)(p) for p in points]
    np.testing.assert_allclose(batch[0], [value for value, _ in each], rtol=1e-6)
    np.testing.assert_allclose(batch[1], jnp.stack([g for _, g in each]), rtol=1e-4, atol=1e-5)

    @jax.vmap
    def built(p):
        grid = wp.HashGrid(*DIMS)
        grid.build(p, 0.5)
        return grid

    grids = built(points)
    counts = jax.vmap(lambda grid, p: wp.jax_kernel(counted)(grid, p, 0.5)[0])(grids, points)
    np.testing.assert_array_equal(counts, [(distances(np.asarray(p)) < 0.5).sum(1) for p in points])


def test_grids_are_pytrees_that_are_pickled_and_exported():
    points = RNG.normal(size=(30, 3)).astype(np.float32)
    grid = grid_of(points, 0.4)
    assert all(hasattr(leaf, "dtype") for leaf in jax.tree.leaves(grid))
    again = pickle.loads(pickle.dumps(jax.device_get(grid)))
    expected = (distances(points) < 0.4).sum(1)
    np.testing.assert_array_equal(wp.launch(counted, 30, [again, points, 0.4], [30])[0], expected)
    call = jax.jit(lambda grid, points: wp.jax_kernel(counted)(grid, points, 0.4)[0])
    exported = jax.export.export(call, disabled_checks=wp.EXPORT_CHECKS)(grid, jnp.asarray(points))
    restored = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(restored.call(grid, jnp.asarray(points)), expected)


def test_grids_of_nothing_and_far_points_give_nothing_wrong():
    points = RNG.normal(size=(20, 3)).astype(np.float32)
    never = wp.HashGrid(*DIMS)
    assert not np.any(wp.launch(counted, 20, [never, points, 0.4], [20])[0])
    np.testing.assert_array_equal(wp.launch(order, 3, [never], [3])[0], [-1] * 3)
    empty = grid_of(np.zeros((0, 3), np.float32), 0.4)
    assert not np.any(wp.launch(numbers, 20, [empty, points, 0.4], [(20, 20), 20])[0])
    far = np.full((20, 3), np.nan, np.float32)
    far[1:5], far[5:9], far[9:13] = np.inf, -np.inf, [3e38, -3e38, 1e10]
    far[13:] = points[13:]
    grid = grid_of(far, 0.4)
    found, _ = wp.launch(numbers, 20, [grid, far, 0.4], [(20, 20), 20])
    assert np.asarray(found).max() == 1  # none is met twice
    assert np.diagonal(found)[13:].all()
    np.testing.assert_array_equal(found[13:, 13:], met(points, 0.4)[13:, 13:])
    (found,) = wp.launch(numbers, 20, [grid_of(points, 0.4), points, -1.0], [(20, 20), 20])[:1]
    assert np.asarray(found).max() <= 1


def test_what_is_wrong_is_said():
    points = np.zeros((4, 3), np.float32)
    grid = grid_of(points, 0.4)
    with pytest.raises(wp.LaunchError, match="must be positive"):
        wp.HashGrid(0, 4, 4)
    with pytest.raises(wp.LaunchError, match="exceeds supported limit"):
        wp.HashGrid(2**11, 2**10, 2**10)
    with pytest.raises(wp.KernelTypeError, match="integers"):
        wp.HashGrid(4.5, 4, 4)
    with pytest.raises(wp.KernelTypeError, match="dtype must be"):
        wp.HashGrid(4, 4, 4, dtype=wp.int32)
    for radius in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(wp.LaunchError, match="radius must be positive"):
            grid.build(points, radius)
    with pytest.raises(wp.KernelTypeError, match="'points' must be of float32, got float64"):
        grid.build(points.astype(np.float64), 0.4)
    with pytest.raises(wp.KernelTypeError, match=r"'points' must have the shape \(n, 3\)"):
        grid.build(points[:, :2], 0.4)
    with pytest.raises(wp.KernelTypeError, match="'points' must be an array"):
        grid.build([[0.0, 0.0, 0.0]], 0.4)
    for name in ("dims", "scalar"):
        with pytest.raises(AttributeError, match=f"{name} cannot be changed"):
            setattr(grid, name, getattr(grid, name))
        with pytest.raises(AttributeError, match=f"{name} cannot be deleted"):
            delattr(grid, name)
    with pytest.raises(wp.LaunchError, match="3 groups for 4"):
        grid.build(points, 0.4, groups=np.zeros(3, np.int32))
    with pytest.raises(wp.KernelTypeError, match="(?s)`hash_grid_point_id` is given a number.*pass the grid"):
        wp.launch(counted, 4, [7, points, 0.4], [4])
    with pytest.raises(wp.KernelTypeError, match="grid"):
        wp.launch(of_any_type, 4, [grid, points.astype(np.float16), np.float16(0.4)], [(4, 4)])


@pytest.mark.parametrize(("dims", "count"), [((20, 21, 22), 60), (DIMS, 200), ((9, 9, 9), 1)])
def test_a_grid_that_is_built_again_has_the_same_arrays(dims, count):
    grid = wp.HashGrid(*dims)
    points = RNG.normal(size=(count, 3)).astype(np.float32)
    grid.build(wp.array(points, dtype=wp.vec3), 0.3)
    own = grid.cell_starts, grid.point_ids
    places = [x.ctypes.data for x in own]
    del own
    for step in (0.0, 0.02, 0.3, 5.0, 100.0):
        points += np.float32(step) * RNG.normal(size=points.shape).astype(np.float32)
        radius = float(RNG.uniform(0.2, 0.5))
        grid.build(wp.array(points, dtype=wp.vec3), radius)
        new = wp.HashGrid(*dims)
        new.build(wp.array(points, dtype=wp.vec3), radius)
        assert np.array_equal(grid.cell_starts, new.cell_starts)
        assert np.array_equal(grid.point_ids, new.point_ids) and grid.scale == new.scale
        assert [x.ctypes.data for x in (grid.cell_starts, grid.point_ids)] == places
        assert not grid.cell_starts.flags.writeable and not grid.point_ids.flags.writeable


@pytest.mark.parametrize("dims", [(20, 21, 22), DIMS])
def test_structs_and_copies_keep_a_grid_as_it_was(dims):
    grid = wp.HashGrid(*dims)
    grid.build(RNG.normal(size=(60, 3)).astype(np.float32), 0.5)
    kept, copied = grid.in_place, copy.copy(grid)
    was = np.array(grid.cell_starts), np.array(grid.point_ids)
    for _ in range(3):
        grid.build(RNG.normal(size=(60, 3)).astype(np.float32), 0.5)
    assert not np.array_equal(grid.point_ids, was[1])
    for arrays in (kept, copied):
        assert np.array_equal(arrays.cell_starts, was[0]) and np.array_equal(arrays.point_ids, was[1])


@pytest.mark.parametrize("dims", [(20, 21, 22), DIMS])
def test_a_tape_goes_back_over_a_grid_as_it_was(dims):
    points, radius = RNG.uniform(-1.0, 1.0, (60, 3)).astype(np.float32), 0.6
    x = wp.array(points, dtype=wp.vec3, requires_grad=True)
    grid, out = wp.HashGrid(*dims), wp.zeros(60, dtype=float, requires_grad=True)
    found = wp.zeros((60, 60), dtype=int)
    grid.build(x, radius)
    with wp.Tape() as tape:
        wp.launch(numbers, 60, [grid.id, x, radius], [found, out])
    elsewhere = wp.array(RNG.uniform(50.0, 90.0, (60, 3)), dtype=wp.vec3)
    for _ in range(3):
        grid.build(elsewhere, radius)
    out.grad.fill_(1.0)
    tape.backward()
    apart = points[:, None] - points
    lengths = np.linalg.norm(apart, axis=-1)
    is_near = (lengths < radius) & (lengths > 0.0)
    want = 2.0 * (apart / np.where(is_near, lengths, np.inf)[..., None]).sum(1)
    np.testing.assert_allclose(x.grad.numpy(), want, atol=2e-5)
