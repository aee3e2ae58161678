"""Marching cubes: Warp's vertices, surfaces without holes, in jit, in batches and with derivatives."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(12)
BOUNDS = {"lower": (0.0, 1.0, 2.0), "upper": (3.0, 4.0, 5.0)}
NOISE = RNG.normal(size=(7, 6, 8)).astype(np.float32)


def distances(nodes=12, radius=0.7):
    """To a ball about the middle of the cube from -1 to 1."""
    x = jnp.stack(jnp.meshgrid(*[jnp.linspace(-1, 1, nodes)] * 3, indexing="ij"), -1)
    return jnp.linalg.norm(x, axis=-1) - radius


def volume(verts, indices):
    p, q, r = (verts[indices.reshape(-1, 3)[:, k]] for k in range(3))
    return (p * jnp.cross(q, r)).sum() / 6


def corners_of(indices):
    """The triangles, each from its least corner on, in order."""
    faces = np.asarray(indices).reshape(-1, 3)
    first = faces.argmin(1)
    turned = np.stack([faces[np.arange(len(faces)), (first + k) % 3] for k in range(3)], -1)
    return turned[np.lexsort(turned.T)]


@pytest.mark.parametrize("field", [NOISE, np.asarray(distances())], ids=["noise", "ball"])
def test_vertices_and_triangles_are_warps(field):
    import warp
    from warp.geometry import IsoSurfaceMarchingCubes

    verts, indices = wp.MarchingCubes.extract(field, 0.05, **BOUNDS)
    of_warp = warp.array(field, dtype=float, device="cpu")
    theirs, faces = IsoSurfaceMarchingCubes.extract(of_warp, 0.05, **BOUNDS)
    np.testing.assert_allclose(verts, theirs.numpy(), atol=1e-5)
    assert indices.dtype == np.int32
    np.testing.assert_array_equal(corners_of(indices), corners_of(faces.numpy()))
    ranges = wp.MarchingCubes.CASE_TO_TRI_RANGE
    assert tuple(IsoSurfaceMarchingCubes.CASE_TO_TRI_RANGE) == ranges
    for first, last in itertools.pairwise(ranges):
        ours, known = (np.array(x.TRI_LOCAL_INDICES[first:last]) for x in (wp.MarchingCubes, IsoSurfaceMarchingCubes))
        np.testing.assert_array_equal(corners_of(ours), corners_of(known))


def test_surfaces_have_no_holes():
    field = np.pad(NOISE, 1, constant_values=-1.0)
    verts, indices = wp.MarchingCubes.extract(field, 0.3)
    faces = np.asarray(indices).reshape(-1, 3)
    sides = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    there, back = (sorted(map(tuple, x.tolist())) for x in (sides, sides[:, ::-1]))
    assert there == back
    assert sorted(set(faces.ravel().tolist())) == list(range(len(verts)))


def test_jit_has_room_for_so_many_and_says_how_many_there_are():
    field = distances()
    verts, indices = wp.MarchingCubes.extract(field, 0.0)

    @jax.jit
    def surface(field):
        return wp.MarchingCubes.extract(field, 0.0, max_verts=800, max_tris=1500)

    padded, faces, count, face_count = surface(field)
    assert (int(count), int(face_count)) == (len(verts), len(indices) // 3)
    np.testing.assert_allclose(padded[: len(verts)], verts, atol=1e-6)
    np.testing.assert_array_equal(faces[: len(indices)], indices)
    assert not np.any(padded[len(verts) :]) and not np.any(faces[len(indices) :])
    small = wp.MarchingCubes.extract(field, 0.0, max_verts=10, max_tris=20)
    assert int(small[2]) == len(verts) and small[1].max() < 10 and small[0].shape == (10, 3)
    batch = jnp.stack([distances(radius=r) for r in (0.3, 0.7)])
    for k, one in enumerate(batch):
        np.testing.assert_array_equal(jax.vmap(surface)(batch)[1][k], surface(one)[1])


def test_where_vertices_are_has_derivatives_of_both_orders():
    def size(radius):
        verts, indices, *_ = wp.MarchingCubes.extract(
            distances(radius=radius), 0.0, lower=(-1, -1, -1), upper=(1, 1, 1), max_verts=800, max_tris=1500
        )
        return volume(verts, indices)

    slope = jax.jit(jax.grad(size))(0.7)
    np.testing.assert_allclose(slope, 4 * np.pi * 0.7**2, rtol=0.05)
    np.testing.assert_allclose(slope, (size(0.701) - size(0.699)) / 0.002, rtol=2e-2)
    change = (jax.grad(size)(0.7005) - jax.grad(size)(0.6995)) / 0.001
    np.testing.assert_allclose(jax.grad(jax.grad(size))(0.7), change, rtol=5e-2)


def test_objects_keep_the_last_surface():
    iso = wp.MarchingCubes(12, 12, 12, domain_bounds_lower_corner=(0, 0, 0), domain_bounds_upper_corner=(1, 1, 1))
    iso.surface(wp.array(np.asarray(distances()), dtype=float), threshold=0.0)
    assert isinstance(iso.verts, wp.array) and iso.verts.dtype is wp.vec3
    lengths = np.linalg.norm(iso.verts.numpy() - 0.5, axis=1)
    np.testing.assert_allclose(lengths, 0.35, atol=0.01)
    iso.resize(7, 6, 8)
    iso.surface(NOISE, 0.0)
    assert iso.indices.shape[0] % 3 == 0
    nothing, none = wp.MarchingCubes.extract(NOISE, 100.0)
    assert nothing.shape == (0, 3) and none.shape == (0,)
    broken = NOISE.copy()
    broken[2, 3, 4] = np.nan
    verts, indices = wp.MarchingCubes.extract(broken, 0.0)  # NaN is below every threshold
    assert np.asarray(indices).max() < len(verts)


def test_what_is_wrong_is_said():
    with pytest.raises(wp.LaunchError, match="on \\[5, 5, 5\\] nodes"):
        wp.MarchingCubes(5, 5, 5).surface(NOISE, 0.0)
    with pytest.raises(wp.LaunchError, match="max_verts"):
        jax.jit(lambda f: wp.MarchingCubes.extract(f))(NOISE)
    with pytest.raises(wp.LaunchError, match="go together"):
        wp.MarchingCubes.extract(NOISE, max_verts=3)
    for bad in (NOISE[0], NOISE[:1], NOISE.astype(np.float64)):
        with pytest.raises(wp.KernelTypeError, match="three axes of two nodes or more"):
            wp.MarchingCubes.extract(bad)
    with pytest.raises(wp.KernelTypeError, match="must be an array"):
        wp.MarchingCubes.extract("field")


def total(verts, weights):
    """A function of vertices that no symmetry makes simple."""
    return float((np.sin(verts * weights) * weights).sum())


@pytest.mark.parametrize("sizes", [{}, {"max_verts": 400, "max_tris": 700}], ids=["all", "sizes"])
def test_tapes_go_back_to_the_field(sizes):
    smooth = np.asarray(jax.image.resize(RNG.normal(size=(3, 3, 3)), (7, 6, 8), "cubic"), np.float32)
    field = wp.array(smooth, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        verts, *_ = wp.MarchingCubes.extract(field, 0.1, **BOUNDS, **sizes)
        field.fill_(0.0)  # the derivative is by what it held
    points = verts.numpy()
    weights = RNG.normal(size=points.shape).astype(np.float32)
    tape.backward(grads={verts: wp.array(np.cos(points * weights) * weights**2, dtype=wp.vec3)})
    found = field.grad.numpy()
    assert not verts.grad.numpy().any()
    step = 1e-3
    near = np.abs(smooth - 0.1) > 2 * step  # nodes that stay on their side of the surface
    checked = [tuple(k) for k in np.argwhere(near)]
    for k in (checked[n] for n in RNG.permutation(len(checked))[:40]):
        changed = []
        for sign in (1, -1):
            moved = smooth.copy()
            moved[k] += sign * step
            changed.append(
                total(np.asarray(wp.MarchingCubes.extract(moved, 0.1, **BOUNDS, **sizes)[0], float), weights)
            )
        np.testing.assert_allclose(found[k], (changed[0] - changed[1]) / (2 * step), rtol=2e-2, atol=2e-2)


def test_surfaces_are_not_made_in_captures():
    field = wp.array(NOISE, dtype=float)
    with pytest.raises(wp.LaunchError, match="a capture is open"), wp.ScopedCapture():
        wp.MarchingCubes.extract(field)
