"""Volumes on tapes and in captures: gradients through voxels that are stored, against differences."""

import numpy as np
import pytest

import jwarp as wp


@wp.kernel
def store_squares(volume: wp.uint64, at: wp.array[wp.vec3i], x: wp.array[wp.float64], y: wp.array[wp.float64]):
    i = wp.tid()
    p = at[i]
    before = wp.volume_lookup(volume, p[0], p[1], p[2], wp.float64)
    y[i] = before * x[i]
    wp.volume_store(volume, p[0], p[1], p[2], before * x[i] * x[i])


@wp.kernel
def sample_in_float64(volume: wp.uint64, at: wp.array[wp.vec3], y: wp.array[wp.float64]):
    i = wp.tid()
    y[i] += wp.volume_sample(volume, at[i], wp.Volume.LINEAR, wp.float64)


class Stored:
    """Voxels are scaled, sampled, scaled again, and sampled; some of them are in no tile, and stay as they are."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.content = rng.normal(size=(8, 8, 8))
        self.at = np.array(np.unravel_index(rng.choice(512, 60, replace=False), (8, 8, 8)), np.int32).T
        self.at[:5] += 400
        self.places = (rng.random((40, 3)) * 6).astype(np.float32)
        self.x, self.weights, self.more = rng.normal(size=60), rng.normal(size=40), rng.normal(size=60)

    def make(self, content, x):
        volume = wp.Volume.allocate_by_tiles(wp.zeros((1, 3), dtype=wp.int32), 1.0, wp.float64(0.5))
        volume.values.assign(np.append(content.reshape(-1), 0.5))
        volume.values.requires_grad = True
        arrays = wp.array(self.at, dtype=wp.vec3i), wp.array(x, dtype=wp.float64, requires_grad=True)
        outputs = [wp.zeros(n, dtype=wp.float64, requires_grad=True) for n in (60, 40)]
        return volume, arrays, wp.array(self.places, dtype=wp.vec3), outputs

    def run(self, volume, arrays, places, outputs):
        for _ in range(2):
            wp.launch(store_squares, 60, [volume.id, *arrays, outputs[0]])
            wp.launch(sample_in_float64, 40, [volume.id, places, outputs[1]])

    def loss(self, content, x):
        made = self.make(content, x)
        self.run(*made)
        return float(self.weights @ made[3][1].numpy() + self.more @ made[3][0].numpy())


@pytest.mark.parametrize("captured", [False, True])
def test_tapes_go_back_through_what_was_stored(captured):
    s = Stored(3)
    volume, arrays, _, outputs = made = s.make(s.content, s.x)
    start = volume.values.numpy().copy()
    seeds = {outputs[1]: wp.array(s.weights, dtype=wp.float64), outputs[0]: wp.array(s.more, dtype=wp.float64)}

    def whole():
        volume.values.assign(start)
        for a in outputs:
            a.zero_()
        tape = wp.Tape()
        with tape:
            s.run(*made)
        volume.values.grad.zero_()
        arrays[1].grad.zero_()
        tape.backward(grads=seeds)

    if captured:
        with wp.ScopedCapture() as capture:
            whole()
    for _ in range(3):
        wp.capture_launch(capture.graph) if captured else whole()
        steps = np.eye(60)[::7] * 1e-6
        for step, found in zip(steps, arrays[1].grad.numpy()[::7], strict=True):
            differences = (s.loss(s.content, s.x + step) - s.loss(s.content, s.x - step)) / 2e-6
            np.testing.assert_allclose(found, differences, rtol=1e-6, atol=1e-7)
        direction = np.random.default_rng(1).normal(size=s.content.shape)
        ends = [s.loss(s.content + h * direction, s.x) for h in (1e-6, -1e-6)]
        tiles = volume.values.grad.numpy()[:512].reshape(8, 8, 8)
        np.testing.assert_allclose((tiles * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_captures_see_what_is_stored():
    """Each replay stores what its inputs hold then."""
    s = Stored(4)
    volume, arrays, _, outputs = made = s.make(s.content, s.x)
    with wp.ScopedCapture() as capture:
        s.run(*made)
    for a in outputs:
        a.zero_()
    volume.values.assign(s.make(s.content, s.x)[0].values)
    x = np.random.default_rng(8).normal(size=60)
    arrays[1].assign(x)
    wp.capture_launch(capture.graph)
    expected = s.make(s.content, x)
    s.run(*expected)
    for found, wanted in zip(outputs, expected[3], strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    np.testing.assert_array_equal(volume.values.numpy(), expected[0].values.numpy())


@wp.kernel
def looked_up(volume: wp.uint64, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i] * float(1 + wp.volume_lookup_index(volume, i, i, i))


@pytest.mark.parametrize("captured", [False, True])
def test_tapes_go_back_through_the_volume_that_was_built_for_them(captured):
    """Also where it is built anew before, in the next run of a graph or after the tape has recorded."""
    points = wp.array(np.array([[0, 0, 0], [1, 1, 1]], np.int32), dtype=wp.vec3i)
    volume = wp.Volume.allocate_by_voxels(points, voxel_size=1.0, rebuildable=True, max_active_voxels=8)
    x, y = wp.array(np.arange(1.0, 9.0), dtype=float, requires_grad=True), wp.zeros(8, dtype=float, requires_grad=True)
    elsewhere = wp.array(np.full((2, 3), 7, np.int32), dtype=wp.vec3i)

    def both():
        with wp.Tape() as tape:
            volume.rebuild(points)
            wp.launch(looked_up, 8, [volume.id, x, y])
        volume.rebuild(elsewhere)
        tape.backward(grads={y: wp.ones(8, dtype=float)})

    if captured:
        with wp.ScopedCapture() as capture:
            both()
    for run in range(4):
        points.assign(np.array([[run] * 3, [run + 3] * 3], np.int32))
        x.grad.zero_()
        wp.capture_launch(capture.graph) if captured else both()
        found = np.zeros(8)
        found[run], found[run + 3] = 1.0, 2.0
        np.testing.assert_allclose(y.numpy(), found * x.numpy() ** 2)
        np.testing.assert_allclose(x.grad.numpy(), 2.0 * found * x.numpy())
        np.testing.assert_array_equal(np.unique(volume.get_voxels().numpy()[:1]), [7])
