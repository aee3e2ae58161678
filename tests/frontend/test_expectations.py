"""expect_eq, expect_neq and expect_near: what they print, what they leave alone, and the errors of debug mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from error_checks import check

import jwarp as wp


@wp.kernel
def expecting(x: wp.array[float], v: wp.array[wp.vec3], y: wp.array[float]):
    i = wp.tid()
    wp.expect_eq(x[i], 2.0)
    wp.expect_neq(i, 2)
    wp.expect_near(x[i], 2.0)
    wp.expect_near(v[i], wp.vec3(1.0), tolerance=1e-3)
    wp.expect_eq(v[i], wp.vec3(1.0))
    wp.expect_eq(x[i] > 1.0, True)
    wp.expect_near(wp.float64(x[i]), 2.0, wp.float64(0.5))
    y[i] = 2.0 * x[i]


X = jnp.asarray([2.0, 2.25, 2.0, jnp.nan], jnp.float32)
V = jnp.ones((4, 3)).at[1, 2].set(1.5)
FIRST = expecting.python.__code__.co_firstlineno
LINES = [
    "4: wp.expect_neq: both are 2",
    "5: wp.expect_near: expected 2 within 1e-06, got 2.25",
    "5: wp.expect_near: expected 2 within 1e-06, got nan",
    "3: wp.expect_eq: expected 2, got 2.25",
    "3: wp.expect_eq: expected 2, got nan",
    "6: wp.expect_near: expected (1, 1, 1) within 0.001, got (1, 1, 1.5)",
    "7: wp.expect_eq: expected (1, 1, 1), got (1, 1, 1.5)",
    "8: wp.expect_eq: expected True, got False",
    "9: wp.expect_near: expected 2 within 0.5, got nan",
]
expecting_fn = wp.jax_kernel(expecting)


def test_what_does_not_hold_is_printed_and_the_kernel_goes_on(capfd):
    (y,) = expecting_fn(X, V)
    gradient = jax.grad(lambda x: expecting_fn(x, V)[0].sum())(X)
    jax.effects_barrier()
    np.testing.assert_array_equal(y, 2 * X)
    np.testing.assert_array_equal(gradient, 2.0)
    shown = set(capfd.readouterr().out.splitlines())
    wanted = (line.partition(":") for line in LINES)
    assert shown == {f"test_expectations.py:{FIRST + int(n)}:{text}" for n, _, text in wanted}


def test_what_holds_is_silent(capfd):
    expecting_fn(X[:1], V[:1])
    jax.effects_barrier()
    assert capfd.readouterr().out == ""


def test_debug_mode_ends_with_an_error(capfd):
    with wp.config(debug=True), pytest.raises(RuntimeError) as error:
        jax.block_until_ready(expecting_fn(jnp.full(4, 2.0), jnp.ones((4, 3))))
    assert f"kernel 'expecting': test_expectations.py:{FIRST + 4}: wp.expect_neq does not hold" in str(error.value)
    assert "thread (2)" in str(error.value)
    capfd.readouterr()


HEAD = "import jwarp as wp\n\n\n@wp.kernel\ndef k(v: wp.array[wp.vec3], x: float, n: int):\n    "


@pytest.mark.parametrize(
    "call, words",
    [
        ("wp.expect_eq(x, n)", "wp.expect_eq needs values of one type, got float32, int32"),
        ("wp.expect_eq(v[0], x)", "`==` does not take (vec3, float32)"),
        ("wp.expect_near(n, n)", "compares two values of one type, of floats, not int32 and int32"),
        ("wp.expect_near(v[0], x)", "of floats, not vec3 and float32"),
        ("wp.expect_near(x, x, n)", "wp.expect_near needs values of one type"),
    ],
)
def test_values_that_cannot_be_compared(call, words, tmp_path):
    check(f"{HEAD}«{call}»\n", wp.KernelTypeError, words, "", tmp_path)


@wp.kernel
def stopping(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.5:
        wp.breakpoint()
    y[i] = 2.0 * x[i]


def test_breakpoints_stop_nothing():
    x = np.random.default_rng(8).random(9).astype(np.float32)
    y = wp.zeros(9, dtype=float)
    wp.launch(stopping, 9, inputs=[wp.array(x), y])
    np.testing.assert_array_equal(y.numpy(), 2.0 * x)
    assert wp.breakpoint() is None


def test_breakpoints_take_nothing():
    @wp.kernel
    def given(y: wp.array[float]):
        wp.breakpoint(y[0])

    with pytest.raises((wp.CompileError, wp.KernelTypeError), match="breakpoint"):
        wp.launch(given, 1, inputs=[wp.zeros(1, dtype=float)])
