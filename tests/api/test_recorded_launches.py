"""`Tape.record_launch` records a launch without running it; gradients go back through it all the same."""

from __future__ import annotations

import numpy as np
import pytest

import jwarp as wp


@wp.kernel
def cubed(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = k * x[i] * x[i] * x[i]


@wp.kernel
def doubled(x: wp.array[wp.Float], y: wp.array[wp.Float]):
    y[wp.tid()] = x[wp.tid()] * x.dtype(2.0)


def arrays(dtype=float, n=9):
    x = np.random.default_rng(5).normal(size=n)
    return x, wp.array(x, dtype=dtype, requires_grad=True), wp.zeros(n, dtype=dtype, requires_grad=True)


def test_a_launch_is_recorded_and_does_not_run():
    numbers, x, y = arrays()
    tape = wp.Tape()
    tape.record_launch(cubed, len(numbers), 0, [x, 1.5], [y], "cpu")
    np.testing.assert_array_equal(y.numpy(), 0)
    tape.backward(grads={y: wp.ones(len(numbers), dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 4.5 * numbers**2, rtol=1e-5)
    assert len(tape.launches) == 1


def test_it_is_one_of_several_on_the_tape():
    numbers, x, y = arrays()
    z = wp.zeros_like(y, requires_grad=True)
    wp.launch(cubed, len(numbers), [x, 2.0], [y])
    tape = wp.Tape()
    tape.record_launch(kernel=cubed, dim=len(numbers), inputs=[x, 2.0], outputs=[y], device=None, max_blocks=0)
    with tape:
        wp.launch(cubed, len(numbers), [y, 1.0], [z])
    tape.backward(grads={z: wp.ones(len(numbers), dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 8 * 9 * numbers**8, rtol=1e-4)


def test_generic_kernels_are_recorded():
    numbers, x, y = arrays(wp.float64)
    tape = wp.Tape()
    tape.record_launch(doubled, len(numbers), 0, [x], [y], "cpu", block_dim=0)
    tape.backward(grads={y: wp.ones(len(numbers), dtype=wp.float64)})
    np.testing.assert_array_equal(x.grad.numpy(), 2)


def test_what_does_not_fit_is_refused():
    _, x, y = arrays()
    with pytest.raises(wp.LaunchError):
        wp.Tape().record_launch(cubed, 9, 0, [x], [y], "cpu")
    with pytest.raises(wp.KernelTypeError):
        wp.Tape().record_launch(3, 9, 0, [x, 1.0], [y], "cpu")


@wp.kernel
def shifted(x: wp.array[float], d: wp.float64, n: wp.int64, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + float(d) + float(n)


@pytest.mark.parametrize("numpy", [False, True])
def test_numbers_of_64_bits_are_set_whatever_jax_does(numpy):
    """Launches in place take them."""
    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    if not numpy:
        x, y = wp.array(x), wp.array(y)
    record = wp.launch(shifted, 2, [x, 1.0, 2], [y], record_cmd=True)
    for k, d in enumerate((2, 2.5, np.float64(3.0), wp.float64(4.0))):
        record.set_param_at_index(1, d)
        record.set_param_by_name("n", 2**40 if k == 0 else np.int64(k))
        record.launch()
        np.testing.assert_allclose(np.asarray(y), np.float32(1.0 + float(d) + (2.0**40 if k == 0 else k)))
        record.set_params([x, d, 7, y])
        record.launch()
        np.testing.assert_allclose(np.asarray(y), 8.0 + float(d))
