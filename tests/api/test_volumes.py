"""Volumes: lookups, samples and their derivatives against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp


@wp.kernel
def sample_f(volume: wp.uint64, uvw: wp.array[wp.vec3], mode: int, out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.volume_sample_f(volume, uvw[i], mode)


@wp.kernel
def sample_world(volume: wp.uint64, xyz: wp.array[wp.vec3], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.volume_sample_f(volume, wp.volume_world_to_index(volume, xyz[i]), wp.Volume.LINEAR)


@wp.kernel
def sample_with_gradient(volume: wp.uint64, uvw: wp.array[wp.vec3], out: wp.array[wp.vec3], slopes: wp.array[wp.mat33]):
    i = wp.tid()
    jacobian = wp.mat33()
    out[i] = wp.volume_sample_grad(volume, uvw[i], wp.Volume.LINEAR, jacobian, dtype=wp.vec3)
    slopes[i] = jacobian


@wp.kernel
def store_and_look_up(volume: wp.uint64, at: wp.array[wp.vec3i], values: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    p = at[i]
    wp.volume_store_f(volume, p[0], p[1], p[2], values[i])
    out[i] = wp.volume_lookup_f(volume, p[0], p[1], p[2])


@wp.kernel
def look_up(volume: wp.uint64, at: wp.array[wp.vec3i], out: wp.array[float], indices: wp.array[int]):
    i = wp.tid()
    p = at[i]
    out[i] = wp.volume_lookup_f(volume, p[0], p[1], p[2])
    indices[i] = wp.volume_lookup_index(volume, p[0], p[1], p[2])


@wp.kernel
def sample_index(
    volume: wp.uint64, uvw: wp.array[wp.vec3], data: wp.array[float], outside: wp.array[float], out: wp.array[float]
):
    i = wp.tid()
    out[i] = wp.volume_sample_index(volume, uvw[i], wp.Volume.LINEAR, data, outside[0])


sample_f_fn = wp.jax_kernel(sample_f)
sample_world_fn = wp.jax_kernel(sample_world)
sample_with_gradient_fn = wp.jax_kernel(sample_with_gradient, num_outputs=2)
sample_index_fn = wp.jax_kernel(sample_index)


def interpolated(dense, outside, place):
    """The trilinear value at a place, in float64, where what lies outside of an array has one value."""
    low = np.floor(place).astype(int)
    part = place - low
    total = 0.0
    for corner in np.ndindex(2, 2, 2):
        at = low + corner
        inside = (at >= 0).all() and (at < dense.shape[:3]).all()
        total = total + np.prod(np.where(corner, part, 1 - part)) * (dense[tuple(at)] if inside else outside)
    return total


def places(rng, count=60):
    return rng.uniform(-3.0, 20.0, size=(count, 3)).astype(np.float32)


def test_samples_are_those_of_numpy():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(16, 8, 16)).astype(np.float32)
    volume = wp.Volume.load_from_numpy(dense, bg_value=0.75)
    uvw = places(rng)
    (linear,) = sample_f_fn(volume, jnp.asarray(uvw), 1)
    np.testing.assert_allclose(linear, [interpolated(dense, 0.75, p.astype(float)) for p in uvw], rtol=2e-5, atol=2e-6)
    (closest,) = sample_f_fn(volume, jnp.asarray(uvw), 0)
    at = np.trunc(uvw + np.copysign(0.5, uvw)).astype(int)
    inside = ((at >= 0) & (at < dense.shape)).all(1)
    wanted = np.where(inside, dense[tuple(np.where(inside[:, None], at, 0).T)], np.float32(0.75))
    np.testing.assert_array_equal(closest, wanted)
    np.testing.assert_array_equal(sample_f_fn(volume, jnp.asarray(uvw), 7)[0], 0.0)
    out = wp.zeros(len(uvw), dtype=float)
    wp.launch(sample_f, len(uvw), [volume.id, wp.array(uvw, dtype=wp.vec3), 1, out])
    np.testing.assert_array_equal(out.numpy(), linear)


def test_gradients_of_vectors_are_those_of_differences():
    rng = np.random.default_rng(1)
    dense = rng.normal(size=(8, 16, 8, 3)).astype(np.float32)
    volume = wp.Volume.load_from_numpy(dense, bg_value=(0.5, -1.0, 2.0))
    uvw = (np.floor(places(rng)) + rng.uniform(0.1, 0.9, size=(60, 3))).astype(np.float32)
    outside = np.array([0.5, -1.0, 2.0])
    values, slopes = sample_with_gradient_fn(volume, jnp.asarray(uvw))
    for p, value, slope in zip(uvw.astype(float), values, slopes, strict=True):
        np.testing.assert_allclose(value, interpolated(dense, outside, p), rtol=1e-4, atol=1e-5)
        steps = 1e-3 * np.eye(3)
        wanted = [(interpolated(dense, outside, p + h) - interpolated(dense, outside, p - h)) / 2e-3 for h in steps]
        np.testing.assert_allclose(slope, np.stack(wanted, -1), rtol=1e-3, atol=1e-4)


def test_derivatives_reach_values_and_places():
    rng = np.random.default_rng(2)
    dense = rng.normal(size=(8, 8, 8)).astype(np.float32)
    volume = wp.Volume.load_from_numpy(dense, (1.0, 2.0, 3.0), (0.5, 0.25, 2.0), bg_value=0.3)
    low, side = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, 2.0])
    cells = rng.integers(-1, 8, size=(20, 3)) + rng.uniform(0.2, 0.8, size=(20, 3))
    xyz = jnp.asarray(low + cells * side, jnp.float32)
    weights = rng.normal(size=20)

    def loss(values, xyz):
        return sample_world_fn(wp.replace(volume, values=values), xyz)[0] @ jnp.asarray(weights, jnp.float32)

    def wanted(dense, outside, cells):
        return sum(w * interpolated(dense, outside, p) for w, p in zip(weights, cells, strict=True))

    values = jnp.asarray(volume.values.numpy())
    by_values, by_places = jax.jit(jax.grad(loss, argnums=(0, 1)))(values, xyz)
    moved = rng.normal(size=dense.shape)
    at = tuple(volume.get_voxels().numpy().T)
    expected = wanted(dense + moved, 0.3 + 0.7, cells) - wanted(dense, 0.3, cells)  # it is linear
    np.testing.assert_allclose(by_values @ np.append(moved[at], 0.7), expected, rtol=1e-4)
    for axis in range(3):
        h = 1e-4 * np.eye(3)[axis]
        for n in range(20):
            p = cells[n]
            slope = (interpolated(dense, 0.3, p + h) - interpolated(dense, 0.3, p - h)) / 2e-4
            np.testing.assert_allclose(by_places[n, axis], weights[n] * slope / side[axis], rtol=2e-3, atol=2e-4)
    both = jax.vmap(jax.grad(loss), in_axes=(0, None))(jnp.stack([values, 2 * values]), xyz)
    np.testing.assert_allclose(both, np.stack([by_values, by_values]), rtol=1e-6)
    batched = jax.vmap(loss, in_axes=(0, None))(jnp.stack([values, 2 * values]), xyz)
    np.testing.assert_allclose(batched, [loss(values, xyz), loss(2 * values, xyz)], rtol=1e-5)


def test_indices_of_voxels_and_their_data():
    rng = np.random.default_rng(3)
    points = rng.integers(-200, 200, size=(300, 3)).astype(np.int32)
    points = np.concatenate([points, points[:50], rng.integers(0, 8, size=(100, 3)).astype(np.int32)])
    volume = wp.Volume.allocate_by_voxels(wp.array(points, dtype=wp.int32), 0.5)
    voxels = volume.get_voxels().numpy()
    assert {*map(tuple, voxels)} == {*map(tuple, points)} and len(voxels) == volume.get_voxel_count()
    out, indices = wp.zeros(len(voxels) + 1, dtype=float), wp.zeros(len(voxels) + 1, dtype=int)
    at = wp.array(np.concatenate([voxels, [[500, 0, 0]]]).astype(np.int32), dtype=wp.vec3i)
    wp.launch(look_up, len(voxels) + 1, [volume.id, at, out, indices])
    np.testing.assert_array_equal(indices.numpy(), [*range(len(voxels)), -1])

    data = jnp.asarray(rng.normal(size=len(voxels)), jnp.float32)
    uvw = jnp.asarray(rng.uniform(-1.0, 9.0, size=(40, 3)), jnp.float32)
    known = {tuple(v): float(x) for v, x in zip(voxels, data, strict=True)}
    dense = np.array([known.get(v, 0.25) for v in np.ndindex(12, 12, 12)]).reshape(12, 12, 12)
    inside = (np.asarray(uvw) >= 0).all(1)
    (found,) = sample_index_fn(volume, uvw, data, jnp.asarray([0.25]))
    wanted = [interpolated(dense, 0.25, np.asarray(p, float)) for p in uvw[inside]]
    np.testing.assert_allclose(found[inside], wanted, rtol=1e-4, atol=1e-5)
    grads = jax.grad(lambda d, o: sample_index_fn(volume, uvw, d, o)[0].sum(), argnums=(0, 1))(
        data, jnp.asarray([0.25])
    )
    np.testing.assert_allclose(sum(float(g.sum()) for g in grads), 40.0, rtol=1e-5)  # the weights of each place


def test_stores_reach_own_voxels_alone():
    rng = np.random.default_rng(4)
    volume = wp.Volume.allocate_by_tiles(wp.array([[0, 0, 0], [-8, 16, 0]], dtype=wp.int32), 1.0, bg_value=9.0)
    at = np.array([[0, 0, 0], [7, 3, 5], [-1, 17, 2], [8, 0, 0], [-9, 16, 0]], np.int32)
    values, out = rng.normal(size=5).astype(np.float32), wp.zeros(5, dtype=float)
    arguments = [wp.array(at, dtype=wp.vec3i), wp.array(values), out]
    for volume_id in (volume.id, int(volume.id)):
        wp.launch(store_and_look_up, 5, [volume_id, *arguments])
        np.testing.assert_array_equal(out.numpy(), [*values[:3], 9.0, 9.0])
    assert volume.get_active_stats() == (1024, 2, 2, 2)
    np.testing.assert_array_equal(volume.get_tiles().numpy(), [[-8, 16, 0], [0, 0, 0]])
    wp.launch(store_and_look_up, 5, [12345, *arguments])  # names nothing
    np.testing.assert_array_equal(out.numpy(), 0.0)


def test_what_there_cannot_be_is_refused():
    with pytest.raises(RuntimeError, match="Invalid grid buffer pointer"):
        wp.Volume.load_from_address(0x1234567)
    with pytest.raises(RuntimeError, match="not computed by JAX"):
        jax.jit(lambda p: wp.Volume.allocate_by_tiles(p, 1.0).table)(jnp.zeros((3, 3), jnp.int32))
    with pytest.raises(TypeError, match="no volumes have values"):
        wp.Volume.allocate_by_tiles(wp.zeros((1, 3), dtype=wp.int32), 1.0, bg_value=wp.float16(1.0))
    with pytest.raises(RuntimeError, match="within 2\\^31"):
        wp.Volume.allocate_by_tiles(wp.array([[np.nan, 0, 0]], dtype=wp.float32), 1.0)
    volume = wp.Volume.allocate([0, 0, 0], [7, 7, 7], 1.0)
    address = volume.array()
    assert wp.Volume.load_from_address(address.ptr).get_tile_count() == 1
    with pytest.raises(RuntimeError, match="rebuildable"):
        volume.rebuild(wp.zeros((1, 3), dtype=wp.int32))
    with pytest.raises(wp.LaunchError, match="values"):
        sample_f_fn(wp.replace(volume, values=jnp.zeros(3)), jnp.zeros((1, 3)), 1)
    with pytest.raises(RuntimeError, match="Unsupported codec"):
        volume.save_to_nvdb("nowhere.nvdb", codec="rar")


@wp.kernel
def sample_half(volume: wp.uint64, out: wp.array[float]):
    out[0] = float(wp.volume_sample(volume, wp.vec3(), 1, dtype=wp.float16))


@wp.kernel
def sample_gradient_of_another_type(volume: wp.uint64, out: wp.array[float]):
    gradient = wp.vec3d()
    out[0] = wp.volume_sample_grad(volume, wp.vec3(), 1, gradient, dtype=float)


@wp.kernel
def sample_index_gradient_of_another_type(volume: wp.uint64, out: wp.array[float]):
    gradient = wp.vec3d()
    out[0] = wp.volume_sample_grad_index(volume, wp.vec3(), 1, out, 1.0, gradient)


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (sample_half, "no overload of `volume_sample` takes"),
        (sample_gradient_of_another_type, "no overload of `volume_sample_grad` takes"),
        (sample_index_gradient_of_another_type, "vectors or matrices of one type, not vec3d, vec3"),
    ],
    ids=["values", "gradients", "indices"],
)
def test_errors_name_the_public_function_and_the_call(kernel, said):
    volume = wp.Volume.allocate([0, 0, 0], [7, 7, 7], 1.0)
    with pytest.raises(wp.KernelTypeError, match=said) as raised:
        wp.launch(kernel, 1, [volume.id, wp.zeros(1, dtype=float)])
    message = str(raised.value)
    assert f"{__file__}:" in message and not {"gradient_into", "sampled", "volumes.py:"} & {*message.split()}
    assert "volume_functions.py" not in message
    if said.startswith("no overload"):
        assert "(wp.Volume, vec3, int32, " in message


@pytest.mark.parametrize("dtype", [float, wp.float64, wp.vec3, wp.vec4d])
def test_a_grid_of_tiles_finds_what_a_hash_table_does(dtype, monkeypatch):
    rng = np.random.default_rng(9)

    @wp.kernel(module="unique")
    def sample(volume: wp.uint64, uvw: wp.array[wp.vec3], out: wp.array[dtype], indices: wp.array[int]):
        i = wp.tid()
        out[i] = wp.volume_sample(volume, uvw[i], wp.Volume.LINEAR, dtype=dtype)
        p = uvw[i]
        indices[i] = wp.volume_lookup_index(volume, int(p[0]), int(p[1]), int(p[2]))

    points = wp.array(rng.integers(-30, 10, size=(60, 3)), dtype=wp.int32)
    uvw = rng.uniform(-40, 20, size=(300, 3))
    uvw[:150] = np.round(uvw[:150] / 8) * 8 + rng.choice([-1.0, -0.25, 0.0, 0.5], size=(150, 3))  # beside borders
    uvw[-4:] = [[np.inf, 0, 0], [-1e30, 0, 0], [1e30, 1e30, 1e30], [0, np.nan, 0]]
    at, values, found = wp.array(uvw, dtype=wp.vec3), None, []
    for most in (8, 0):
        monkeypatch.setattr("jwarp.api.geometry.volume_tables._MOST_CELLS", most)
        volume = wp.Volume.allocate_by_tiles(points, 1.0, dtype(3.0))
        if values is None:
            values = rng.normal(size=volume.values.numpy().shape)
        volume = wp.replace(volume, values=wp.array(values, dtype=dtype))
        assert (volume.table.shape[0] == 0) == (most > 0)
        out, indices = wp.zeros(300, dtype=dtype), wp.zeros(300, dtype=int)
        wp.launch(sample, 300, [volume, at, out, indices])
        found.append((out.numpy(), indices.numpy()))
    assert len(np.unique(found[0][1])) > 20
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


@wp.kernel
def sample_integers(volume: wp.uint64, mode: int, out: wp.array[int]):
    out[0] = wp.volume_sample(volume, wp.vec3(1.2, 2.0, 3.0), mode, dtype=int)


@wp.kernel
def interpolate_integers(volume: wp.uint64, mode: int, out: wp.array[int]):
    out[0] = wp.volume_sample(volume, wp.vec3(1.2, 2.0, 3.0), wp.Volume.LINEAR, dtype=int)


@wp.kernel
def interpolate_data_of_integers(volume: wp.uint64, mode: int, out: wp.array[int]):
    out[0] = wp.volume_sample_index(volume, wp.vec3(1.2, 2.0, 3.0), wp.Volume.LINEAR, out, 0)


@pytest.mark.parametrize("kernel", [sample_integers, interpolate_integers, interpolate_data_of_integers])
def test_integers_are_not_interpolated(kernel):
    volume = wp.Volume.load_from_numpy(np.arange(512, dtype=np.int32).reshape(8, 8, 8), bg_value=0)
    with pytest.raises(wp.KernelTypeError, match="no overload of `interpolated` takes .float32, int32."):
        wp.launch(kernel, 1, [volume.id, 1, wp.zeros(1, dtype=int)])


@wp.kernel
def looked_up_wide(volume: wp.uint64, y: wp.array[wp.float64]):
    y[0] = wp.volume_lookup(volume, 1, 1, 1, dtype=wp.float64)


def test_values_of_another_width_are_refused():
    volume = wp.Volume.load_from_numpy(np.ones((3, 3, 3), np.float32), bg_value=1.0)
    with pytest.raises(wp.KernelTypeError, match="float32"):
        wp.launch(looked_up_wide, 1, [volume.id, wp.zeros(1, dtype=wp.float64)])
