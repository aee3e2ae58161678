"""Launches whose last dimension is too short for vectors, which run with lanes along the first one."""

import jax
import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.cpu.target import host_target
from jwarp.compiler.cpu import lower_kernel
from jwarp.compiler.launch_forms import LEAST_VECTORS, LEAST_WIDTH, VECTOR, with_lanes
from jwarp.compiler.program import program_of
from jwarp.config import config
from jwarp.launching.geometry import Geometry

MANY = LEAST_VECTORS * VECTOR + 3
SPLIT = 2 * LEAST_VECTORS * VECTOR
pytestmark = pytest.mark.skipif(host_target().width < LEAST_WIDTH, reason="vectors of so few threads are always filled")


@wp.kernel
def shifted(x: wp.array2d[wp.vec3], parent: wp.array[int], y: wp.array2d[wp.vec3], total: wp.array[wp.int64]):
    i, j = wp.tid()
    s = wp.vec3(0.0)
    b = j
    while b >= 0:
        s += x[i, b]
        b = parent[b]
    y[i, j] = s
    wp.atomic_add(total, j, wp.int64(i + 1))


@wp.kernel
def in_three(x: wp.array3d[float], y: wp.array3d[float]):
    i, j, k = wp.tid()
    y[i, j, k] = x[i, j, (k + 1) % x.shape[2]] * float(1 + i) + float(10 * j + k)


@wp.kernel
def slots(count: wp.array[int], slot: wp.array2d[int]):
    i, j = wp.tid()
    slot[i, j] = wp.atomic_add(count, 0, 1)


@wp.kernel
def summed(x: wp.array2d[wp.spatial_vector], count: wp.array[int], y: wp.array2d[wp.spatial_vector]):
    i, j = wp.tid()
    total = x[i, j]
    for k in range(j + 1, j + count[j]):
        total += x[i, k]
    y[i, j] = total


@wp.kernel
def scaled(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = x[i, j] * 2.0 + float(i)


@wp.kernel
def limited(x: wp.array2d[float]):
    i, j = wp.tid()
    assert x[i, j] < 5.0
    x[i, j] = 1.0


def arranged(kernel, dims, settings=None):
    program = program_of(kernel, settings or config.settings)
    return with_lanes(program, Geometry((*dims, *[1] * (4 - len(dims)))))


def is_rotated(kernel, dims, settings=None):
    return arranged(kernel, dims, settings)[0] is not program_of(kernel, settings or config.settings)


@pytest.mark.parametrize("columns", [1, 2])
def test_lanes_along_the_first_dimension(columns):
    rng = np.random.default_rng(columns)
    assert is_rotated(shifted, (MANY, columns)) and not is_rotated(shifted, (7, columns))
    for rows in (MANY, 7):  # the second record's geometry is not rotated
        x = rng.normal(size=(rows, columns, 3)).astype(np.float32)
        parent = np.arange(-1, columns - 1, dtype=np.int32)
        y, total = np.zeros_like(x), np.zeros(columns, np.int64)
        wp.launch(shifted, (rows, columns), inputs=[x, parent], outputs=[y, total])
        np.testing.assert_allclose(y, np.cumsum(x, axis=1), rtol=1e-5, atol=1e-6)
        assert total.tolist() == [rows * (rows + 1) // 2] * columns


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_three_dimensions_and_repeats():
    x = np.random.default_rng(0).normal(size=(MANY, 3, 2)).astype(np.float32)
    i, j, k = np.indices(x.shape)
    expected = np.roll(x, -1, 2) * (1 + i).astype(np.float32) + (10 * j + k)
    assert is_rotated(in_three, x.shape)
    for dims in (x.shape, (*x.shape, 2)):
        y = np.zeros_like(x)
        wp.launch(in_three, dims, inputs=[x], outputs=[y])
        np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-5)


def test_records_change_their_dimensions():
    x, y = np.ones((MANY, 2, 8), np.float32), np.zeros((MANY, 2, 8), np.float32)
    record = wp.launch(in_three, (MANY, 2, 1), inputs=[x], outputs=[y], record_cmd=True)
    for dims in ((MANY, 2, 1), (MANY, 1, 8), (3, 2, 1), (MANY, 2, 2)):
        y[...] = 0.0
        record.set_dim(dims)
        record.launch()
        i, j, k = np.indices(y.shape)
        inside = (i < dims[0]) & (j < dims[1]) & (k < dims[2])
        np.testing.assert_array_equal(y, np.where(inside, 1 + i + 10 * j + k, 0))


def test_what_depends_on_the_order_of_threads_stays():
    assert not is_rotated(slots, (MANY, 2))
    debugging = config.with_values(debug=True)
    assert not is_rotated(limited, (MANY, 2), debugging)
    x = np.zeros((MANY, 2), np.float32)
    x[5, 1] = x[9, 0] = 7.0
    with wp.config(debug=True), pytest.raises(RuntimeError, match=r"thread \(5, 1\)"):
        wp.launch(limited, x.shape, outputs=[x])


def test_a_launch_that_is_certain_to_leave_an_array():
    x = np.zeros((MANY, 2, 2), np.float32)
    with pytest.raises(wp.LaunchError, match=rf"in a launch over \({MANY}, 3, 2\)"):
        wp.launch(in_three, (MANY, 3, 2), inputs=[x], outputs=[x.copy()])


@pytest.mark.parametrize("columns", [5, 17, 40])
def test_rows_longer_than_vectors(columns):
    rng = np.random.default_rng(columns)
    count = (1 + rng.integers(0, columns - np.arange(columns))).astype(np.int32)
    for rows in (SPLIT, SPLIT - 1, SPLIT * 3):
        width = VECTOR
        assert is_rotated(summed, (rows, columns)) == (rows % width == 0 or columns * 2 <= width)
        x = rng.integers(0, 100, (rows, columns, 6)).astype(np.float32)
        y = np.zeros_like(x)
        wp.launch(summed, (rows, columns), inputs=[x, count], outputs=[y])
        expected = np.stack([x[:, j : j + n].sum(1) for j, n in enumerate(count)], 1)
        np.testing.assert_array_equal(y, expected)


def test_three_dimensions_in_vectors_of_the_first():
    x = np.random.default_rng(1).normal(size=(SPLIT, 2, 3)).astype(np.float32)
    i, j, k = np.indices(x.shape)
    assert is_rotated(in_three, x.shape)
    for dims in (x.shape, (*x.shape, 2)):
        y = np.zeros_like(x)
        wp.launch(in_three, dims, inputs=[x], outputs=[y])
        np.testing.assert_allclose(y, np.roll(x, -1, 2) * (1 + i) + (10 * j + k), rtol=1e-5, atol=1e-4)


def test_rows_in_order_stay():
    assert not is_rotated(scaled, (SPLIT, 40))
    assert is_rotated(scaled, (SPLIT, 1))


@pytest.mark.parametrize("columns", [1, 5, 17])
def test_launches_on_jax_values(columns):
    """Under jit, with a batch, and their gradients, which are launches of their own."""
    rng = np.random.default_rng(columns)
    count = (1 + rng.integers(0, columns - np.arange(columns))).astype(np.int32)
    x = rng.integers(0, 100, (3, SPLIT, columns, 6)).astype(np.float32)
    expected = np.stack([x[:, :, j : j + n].sum(2) for j, n in enumerate(count)], 2)
    assert is_rotated(summed, (SPLIT, columns))

    @jax.jit
    def run(x):
        return wp.launch(summed, (SPLIT, columns), inputs=[x, count], outputs=[(SPLIT, columns)])[0]

    np.testing.assert_array_equal(run(x[0]), expected[0])
    np.testing.assert_array_equal(jax.vmap(run)(x), expected)
    lowered = lower_kernel(arranged(summed, (SPLIT, columns))[0].kernel, config.settings)
    assert lowered.fingerprint in run.lower(x[0]).as_text()
    weights = rng.integers(0, 9, expected[0].shape).astype(np.float32)
    gradient = jax.grad(lambda x: (run(x) * weights).sum())(x[0])
    reaching = np.array([[j <= k < j + n for k in range(columns)] for j, n in enumerate(count)], np.float32)
    np.testing.assert_allclose(gradient, np.einsum("jk,ijc->ikc", reaching, weights), rtol=1e-6)


def test_sizes_that_are_not_known_yet():
    (n,) = jax.export.symbolic_shape("n")
    run = jax.jit(lambda x: wp.launch(scaled, x.shape, inputs=[x], outputs=[x.shape])[0])
    exported = jax.export.export(run, disabled_checks=wp.EXPORT_CHECKS)(jax.ShapeDtypeStruct((n, 1), np.float32))
    x = np.random.default_rng(3).normal(size=(SPLIT, 1)).astype(np.float32)
    np.testing.assert_array_equal(exported.call(x), run(x))
