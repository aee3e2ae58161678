"""Meshes and trees: derivatives against closed forms, in jit, in batches, refitted, and of bad input."""

import functools
import pickle

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(5)
BALL = 26


@wp.kernel
def distances(mesh: wp.uint64, points: wp.array[wp.vec3], signed: wp.array[float], moving: wp.array[wp.vec3]):
    i = wp.tid()
    q = wp.mesh_query_point(mesh, points[i], 100.0)
    if q.result:
        signed[i] = q.sign * wp.length(wp.mesh_eval_position(mesh, q.face, q.u, q.v) - points[i])
        moving[i] = wp.mesh_eval_velocity(mesh, q.face, q.u, q.v)


@wp.kernel
def hits(
    mesh: wp.uint64, starts: wp.array[wp.vec3], ways: wp.array[wp.vec3], found: wp.array2d[float], face: wp.array[int]
):
    i = wp.tid()
    q = wp.mesh_query_ray(mesh, starts[i], ways[i], 100.0)
    face[i] = -1
    if q.result:
        face[i] = q.face
        found[i, 0] = q.t
        found[i, 1] = q.u
        found[i, 2] = q.v
        n = wp.mesh_eval_face_normal(mesh, q.face)
        found[i, 3] = q.normal[0] + 2.0 * n[1] + 3.0 * q.normal[2]


@wp.func
def any_box(tree: wp.uint64, low: wp.vec3, high: wp.vec3):
    for i in wp.bvh_query_aabb(tree, low, high):
        return i
    return -1


@wp.kernel
def boxes(
    tree: wp.uint64, lows: wp.array[wp.vec3], highs: wp.array[wp.vec3], met: wp.array2d[int], first: wp.array[int]
):
    i = wp.tid()
    first[i] = any_box(tree, lows[i], highs[i])
    for j in wp.bvh_query_aabb(tree, lows[i], highs[i]):
        met[i, j] += 1


def ball(n=BALL, seed=0):
    """The convex hull of points on a ball, as triangles that point outward."""
    from scipy.spatial import ConvexHull

    points = np.random.default_rng(seed).normal(size=(n, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    hull = ConvexHull(points)
    faces = hull.simplices.copy()
    flip = (
        np.einsum(
            "ij,ij->i", np.cross(*(points[faces[:, k]] - points[faces[:, 0]] for k in (1, 2))), points[faces[:, 0]]
        )
        < 0
    )
    faces[flip] = faces[flip][:, ::-1]
    return points.astype(np.float32), faces.astype(np.int32).ravel()


POINTS, FACES = ball()
N = 64
WHERE = RNG.normal(size=(N, 3)).astype(np.float32)
WAYS = (0.4 * RNG.normal(size=(N, 3)) - WHERE).astype(np.float32)
VELOCITIES = RNG.normal(size=POINTS.shape).astype(np.float32)


def signed(points, velocities, where):
    mesh = wp.Mesh(points, FACES, velocities)
    found, moving = wp.jax_kernel(distances, num_outputs=2)(mesh, where)
    return found, moving


def cast(points, starts, ways):
    mesh = wp.Mesh(points, FACES)
    return wp.launch(hits, N, [mesh, starts, ways], [(N, 4), N])


def of_faces(points, faces, starts, ways):
    """The intersections of rays with faces, by Cramer's rule."""
    p, q, r = (points[FACES.reshape(-1, 3)[faces, k]] for k in range(3))
    n = jnp.cross(q - p, r - p)
    t = ((p - starts) * n).sum(-1) / (ways * n).sum(-1)
    x = starts + t[:, None] * ways
    square = (n * n).sum(-1)
    u = (jnp.cross(r - q, x - q) * n).sum(-1) / square
    v = (jnp.cross(p - r, x - r) * n).sum(-1) / square
    unit = n / jnp.sqrt(square)[:, None]
    return jnp.stack([t, u, v, unit[:, 0] + 2 * unit[:, 1] + 3 * unit[:, 2]], -1)


def by_all(points, where):
    """Signed distances to a convex mesh, by a search of all faces in float64."""
    best = np.full(len(where), np.inf)
    corners = points[FACES.reshape(-1, 3)].astype(float)
    for p, q, r in corners:
        s, t = np.meshgrid(np.linspace(0, 1, 60), np.linspace(0, 1, 60))
        s, t = s[s + t <= 1], t[s + t <= 1]
        samples = p + s[:, None] * (q - p) + t[:, None] * (r - p)
        best = np.minimum(best, np.linalg.norm(where[:, None] - samples, axis=-1).min(1))
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inside = (np.einsum("fj,nfj->nf", normals, where[:, None] - corners[:, 0]) < 0).all(1)
    return np.where(inside, -best, best)


def test_signed_distances_are_those_of_a_search():
    found, _ = signed(POINTS, VELOCITIES, WHERE)
    np.testing.assert_allclose(found, by_all(POINTS, WHERE), atol=6e-3)


def test_distances_have_derivatives_by_the_place_and_the_corners():
    weights = jnp.asarray(RNG.normal(size=N), jnp.float32)

    def loss(points, velocities, where):
        found, moving = signed(points, velocities, where)
        return (weights * found).sum() + (moving * jnp.asarray(WAYS)).sum()

    given = tuple(map(jnp.asarray, (POINTS, VELOCITIES, WHERE)))
    by_points, by_velocities, by_where = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*given)

    @wp.kernel
    def closest(mesh: wp.uint64, points: wp.array[wp.vec3], face: wp.array[int], weight: wp.array[wp.vec3]):
        i = wp.tid()
        q = wp.mesh_query_point_no_sign(mesh, points[i], 100.0)
        face[i] = q.face
        weight[i] = wp.vec3(q.u, q.v, 1.0 - q.u - q.v)

    faces, shares = map(np.asarray, wp.launch(closest, N, [wp.Mesh(POINTS, FACES), WHERE], [N, N]))
    of_face = FACES.reshape(-1, 3)[faces]
    way = WHERE - np.einsum("nk,nkj->nj", shares, POINTS[of_face])
    sign = np.sign(np.asarray(signed(*given)[0]))
    way *= (sign / np.linalg.norm(way, axis=1))[:, None]

    def moving(points, velocities, where):  # what the weights depend on, by the plane or the sides that they are on
        return (signed(points, velocities, where)[1] * jnp.asarray(WAYS)).sum()

    step = jax.grad(moving, argnums=(0, 2))(*given)
    np.testing.assert_allclose(by_where - step[1], weights[:, None] * way, atol=1e-4)
    expected = np.zeros_like(POINTS)
    np.add.at(expected, of_face, -(np.asarray(weights)[:, None] * shares)[:, :, None] * way[:, None])
    np.testing.assert_allclose(by_points - step[0], expected, atol=1e-4)
    expected = np.zeros_like(POINTS)
    np.add.at(expected, of_face, shares[:, :, None] * WAYS[:, None])
    np.testing.assert_allclose(by_velocities, expected, atol=1e-4)


def test_hits_of_rays_have_derivatives_of_both_orders():
    given = tuple(map(jnp.asarray, (POINTS, WHERE, WAYS)))
    found, faces = cast(*given)
    known = np.asarray(faces) >= 0
    assert known.sum() > N // 3
    weights = jnp.asarray(RNG.normal(size=(N, 4)) * known[:, None], jnp.float32)

    def ours(*args):
        return (weights * cast(*args)[0]).sum()

    def theirs(*args):
        return (weights * of_faces(args[0], np.maximum(np.asarray(faces), 0), *args[1:])).sum()

    np.testing.assert_allclose(found[known], of_faces(given[0], faces, *given[1:])[known], rtol=1e-3, atol=1e-4)
    first = jax.jit(jax.grad(ours, argnums=(0, 1, 2)))(*given)
    expected = jax.jit(jax.grad(theirs, argnums=(0, 1, 2)))(*given)
    for mine, known_ in zip(first, expected, strict=True):
        np.testing.assert_allclose(mine, known_, rtol=2e-3, atol=2e-3)
    step = tuple(jnp.asarray(RNG.normal(size=x.shape), jnp.float32) for x in given)

    @functools.partial(jax.jit, static_argnums=0)  # op by op, most of the time would go into compiling each
    def along(loss, *args):
        return jax.jvp(jax.grad(loss, argnums=(0, 1, 2)), args, step)[1]

    second, expected = along(ours, *given), along(theirs, *given)
    for mine, known_ in zip(second, expected, strict=True):
        np.testing.assert_allclose(mine, known_, rtol=2e-2, atol=2e-2 * float(jnp.abs(known_).max()))


def test_adjoints_record_no_traversal():
    mesh = wp.Mesh(POINTS, FACES)
    given = [jnp.asarray(WHERE), jnp.asarray(WAYS)]
    lines = str(
        wp.explain(lambda *a: jax.grad(lambda x: wp.launch(hits, N, [mesh, x, a[1]], [(N, 4), N])[0].sum())(a[0]))(
            *given
        )
    )
    assert "bytes taped" not in lines or "0 bytes" in lines, lines


def test_each_element_of_a_batch_has_its_mesh():
    batch = jnp.stack([jnp.asarray(POINTS) * s for s in (1.0, 0.5, 2.0)])
    places = jnp.asarray(WHERE)
    found = jax.vmap(signed, in_axes=(0, None, None))(batch, jnp.asarray(VELOCITIES), places)[0]
    each = jnp.stack([signed(points, jnp.asarray(VELOCITIES), places)[0] for points in batch])
    np.testing.assert_allclose(found, each, atol=1e-6)
    meshes = jax.vmap(lambda points: wp.Mesh(points, jnp.asarray(FACES)))(batch)
    again = jax.vmap(lambda mesh: wp.jax_kernel(distances, num_outputs=2)(mesh, places)[0])(meshes)
    np.testing.assert_allclose(again, each, atol=1e-6)
    by_points = jax.vmap(jax.grad(lambda p: signed(p, jnp.asarray(VELOCITIES), places)[0].sum()))(batch)
    one = jax.grad(lambda p: signed(p, jnp.asarray(VELOCITIES), places)[0].sum())(batch[1])
    np.testing.assert_allclose(by_points[1], one, atol=1e-5)


def test_a_mesh_is_refitted_in_place_and_by_new_points():
    points = POINTS.copy()
    mesh = wp.Mesh(points, FACES)
    points *= 0.5
    mesh.refit()
    expected = by_all(points, WHERE)
    np.testing.assert_allclose(wp.launch(distances, N, [mesh, WHERE], [N, N])[0], expected, atol=2e-3)
    mesh.points = jnp.asarray(POINTS) * 0.5
    np.testing.assert_allclose(wp.launch(distances, N, [mesh.id, WHERE], [N, N])[0], expected, atol=2e-3)
    mesh.velocities = VELOCITIES
    assert np.any(wp.launch(distances, N, [mesh.id, WHERE], [N, N])[1])
    with pytest.raises(wp.LaunchError, match="new points"):
        mesh.points = POINTS[:5]
    with pytest.raises(wp.LaunchError, match="5 velocities for 26"):
        mesh.velocities = VELOCITIES[:5]


def test_a_mesh_of_arrays_that_change_follows_them():
    points, places = wp.array(POINTS, dtype=wp.vec3), wp.array(WHERE, dtype=wp.vec3)
    mesh = wp.Mesh(points, wp.array(FACES, dtype=int))
    found, moving = wp.zeros(N, dtype=float), wp.zeros(N, dtype=wp.vec3)
    for scale in (1.0, 0.5):
        points.assign(POINTS * scale)
        mesh.refit()
        wp.launch(distances, N, inputs=[mesh.id, places], outputs=[found, moving])
        expected = wp.launch(distances, N, [wp.Mesh(POINTS * np.float32(scale), FACES), WHERE], [N, N])[0]
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
        np.testing.assert_allclose(wp.launch(distances, N, [mesh, WHERE], [N, N])[0], expected, atol=1e-6)


def test_meshes_are_pytrees_that_are_pickled_and_exported():
    mesh = wp.Mesh(jnp.asarray(POINTS), jnp.asarray(FACES), jnp.asarray(VELOCITIES))
    assert all(hasattr(leaf, "dtype") for leaf in jax.tree.leaves(mesh))
    expected = wp.launch(distances, N, [mesh, WHERE], [N, N])
    again = pickle.loads(pickle.dumps(jax.device_get(mesh)))
    np.testing.assert_array_equal(wp.launch(distances, N, [again, WHERE], [N, N])[0], expected[0])
    call = jax.jit(lambda mesh, where: wp.launch(distances, N, [mesh, where], [N, N])[0])
    exported = jax.export.export(call, disabled_checks=wp.EXPORT_CHECKS)(mesh, jnp.asarray(WHERE))
    restored = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(restored.call(mesh, jnp.asarray(WHERE)), expected[0])


@pytest.mark.parametrize("count", [0, 1, 2, 5, 33])
def test_trees_of_few_boxes_and_bad_ones(count):
    lows = RNG.uniform(-1, 1, (count, 3)).astype(np.float32)
    highs = lows + RNG.uniform(0, 0.8, (count, 3)).astype(np.float32)
    if count > 4:
        lows[1, 2] = np.nan
        highs[2] = lows[2] - 0.1  # inside out
        highs[3], lows[4] = np.inf, -np.inf
    asked = RNG.uniform(-1, 1, (20, 3)).astype(np.float32)
    upper = asked + RNG.uniform(0, 0.8, (20, 3)).astype(np.float32)
    asked[0] = np.nan
    asked[1], upper[1] = -np.inf, np.inf
    tree = wp.Bvh(lows, highs, leaf_size=3)
    met, first = wp.launch(boxes, 20, [tree, asked, upper], [(20, count), 20])
    expected = ((asked[:, None] <= highs) & (upper[:, None] >= lows)).all(-1)
    if count > 4:
        expected[:, 1] = False
    np.testing.assert_array_equal(met, expected)
    assert all(expected[i, k] if k >= 0 else not expected[i].any() for i, k in enumerate(np.asarray(first)))
    if count == 33:
        lows += 0.3
        highs += 0.3
        tree.refit()
        again = ((asked[:, None] <= highs) & (upper[:, None] >= lows)).all(-1)
        again[:, 1] = False
        np.testing.assert_array_equal(wp.launch(boxes, 20, [tree, asked, upper], [(20, count), 20])[0], again)
        tree.rebuild()
        np.testing.assert_array_equal(wp.launch(boxes, 20, [tree, asked, upper], [(20, count), 20])[0], again)


def test_nodes_of_nothing_are_out_of_the_way_of_rays():
    mesh = wp.Mesh(POINTS, FACES[: 3 * 9], bvh_leaf_size=2)  # in five of eight leaves
    nodes = np.asarray(mesh.nodes).reshape(-1, 6)
    assert (nodes[13:] == np.inf).all() and (nodes[6:8, :3] < np.inf).any()
    assert not (nodes[:, 3:] == -np.inf).any()


def test_faces_that_are_none_are_not_found():
    points = np.concatenate([POINTS, [[np.nan, 0, 0], [3, 3, 3]]]).astype(np.float32)
    bad = np.array([[0, 1, 26], [0, 1, 5000], [0, -1, 2], [3, 3, 4], [27, 27, 27]], np.int32)
    faces = np.concatenate([bad[:3], FACES.reshape(-1, 3), bad[3:]])
    mesh, whole = wp.Mesh(points, faces), wp.Mesh(POINTS, FACES)
    places = WHERE.copy()
    for given, expected in ((mesh, whole),):
        mine = wp.launch(distances, N, [given, places], [N, N])[0]
        np.testing.assert_allclose(mine, wp.launch(distances, N, [expected, places], [N, N])[0], atol=1e-6)
        mine = wp.launch(hits, N, [given, places, WAYS], [(N, 4), N])[0]
        np.testing.assert_allclose(mine, wp.launch(hits, N, [expected, places, WAYS], [(N, 4), N])[0], atol=1e-6)
    places[:3], ways = [[np.nan] * 3, [np.inf] * 3, [-np.inf, 0, np.nan]], WAYS.copy()
    ways[3:6] = [[0, 0, 0], [np.nan, 0, 1], [np.inf, 1, 1]]
    found = wp.launch(distances, N, [whole, places], [N, N])[0]
    assert found[0] == 0 and found[2] == 0
    _, faces = wp.launch(hits, N, [whole, places, ways], [(N, 4), N])
    assert (np.asarray(faces)[:5] == -1).all()
    for nothing in (wp.Mesh(POINTS, FACES[:0]), wp.Mesh(POINTS[:0], FACES[:0]), wp.Mesh(POINTS[:0], FACES)):
        assert not np.any(wp.launch(distances, N, [nothing, WHERE], [N, N])[0])
        assert (np.asarray(wp.launch(hits, N, [nothing, WHERE, WAYS], [(N, 4), N])[1]) == -1).all()


@wp.kernel
def read(mesh: wp.uint64, at: wp.array[int], found: wp.array[wp.vec3], number: wp.array[int]):
    i = wp.tid()
    found[i] = wp.mesh_eval_position(mesh, at[i], 0.5, 0.5) + wp.mesh_eval_face_normal(mesh, at[i])
    found[i] += (
        wp.mesh_get_point(mesh, at[i])
        + wp.mesh_get_velocity(mesh, at[i])
        + wp.mesh_eval_velocity(mesh, at[i], 0.1, 0.2)
    )
    number[i] = wp.mesh_get_index(mesh, at[i])


def test_faces_and_corners_that_there_are_not_are_zero():
    at = np.array([-1, len(FACES), 2**31 - 1, -(2**31)], np.int32)
    for velocities in (None, VELOCITIES):
        found, number = wp.launch(read, 4, [wp.Mesh(POINTS, FACES, velocities), at], [4, 4])
        assert not np.any(found)
        np.testing.assert_array_equal(number, -1)


def test_what_is_wrong_is_said():
    with pytest.raises(wp.LaunchError, match="4 indices are no faces"):
        wp.Mesh(POINTS, FACES[:4])
    with pytest.raises(wp.KernelTypeError, match="'indices' must be of int32"):
        wp.Mesh(POINTS, FACES.astype(np.int64))
    with pytest.raises(wp.KernelTypeError, match="constructor must be"):
        wp.Mesh(POINTS, FACES, bvh_constructor="best")
    with pytest.raises(wp.LaunchError, match="leaf size must be at least 1"):
        wp.Mesh(POINTS, FACES, bvh_leaf_size=0)
    with pytest.raises(wp.LaunchError, match="26 lower corners and 25"):
        wp.Bvh(POINTS, POINTS[:25])
    with pytest.raises(wp.KernelTypeError, match="(?s)takes|must be"):
        wp.launch(distances, N, [wp.Bvh(POINTS, POINTS), WHERE], [N, N])
    tree = wp.Bvh(POINTS.copy(), POINTS)
    tree.lowers = tree.uppers = POINTS[:5]
    with pytest.raises(wp.LaunchError, match="5 boxes in a tree of 26"):
        tree.refit()
