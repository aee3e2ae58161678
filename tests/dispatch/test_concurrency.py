"""Threads that trace, compile and call at the same time, errors that come later, and a soak."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threads import at_once

import jwarp as wp

THREADS = 8
X = np.random.default_rng(5).uniform(0.2, 0.8, 64).astype(np.float32)
SOAK_SECONDS = float(os.environ.get("JWARP_SOAK", "5"))
SOAK = Path(__file__).parents[1] / "helpers" / "concurrency_soak.py"


def new_kernel(power):
    """A kernel that nothing in the process has seen: y = x^power, as a loop."""
    exponent = wp.constant(power)

    @wp.kernel
    def raise_to(x: wp.array[float], k: float, y: wp.array[float]):
        i = wp.tid()
        v = 1.0
        for _ in range(exponent):
            v = v * x[i]
        y[i] = k * v

    return raise_to


def use(kernel, power, k):
    """Value, gradient, tangent, second derivative and batch of one kernel, against formulas."""

    def run(x, k):
        return wp.launch(kernel, 64, [x, k], [64])[0]

    x = X.astype(float)
    y, (dx, dk) = jax.jit(lambda x, k: (run(x, k), jax.grad(lambda *a: run(*a).sum(), argnums=(0, 1))(x, k)))(X, k)
    np.testing.assert_allclose(y, k * x**power, rtol=1e-5)
    np.testing.assert_allclose(dx, k * power * x ** (power - 1), rtol=1e-5)
    np.testing.assert_allclose(dk, (x**power).sum(), rtol=1e-5)
    tangent = jax.jvp(lambda x: run(x, k), (X,), (np.ones_like(X),))[1]
    np.testing.assert_allclose(tangent, k * power * x ** (power - 1), rtol=1e-5)
    second = jax.grad(lambda x: jax.grad(lambda x: run(x, k).sum())(x).sum())(X)
    np.testing.assert_allclose(second, k * power * (power - 1) * x ** (power - 2), rtol=1e-4)
    rows = jax.vmap(run, in_axes=(None, 0))(X, jnp.arange(3.0))
    np.testing.assert_allclose(rows, np.arange(3)[:, None] * x**power, rtol=1e-5)


def test_the_same_new_kernel_in_all_threads():
    kernel = new_kernel(17)
    with wp.record_compiles() as events:
        at_once(THREADS, lambda number: use(kernel, 17, 1.0 + number))
    made = [(e.variant, e.source) for e in events if e.source != "memory"]
    assert len(set(made)) == len(made), "compiled twice"
    assert len({variant for variant, _ in made}) >= 4


def test_new_kernels_of_the_same_content():
    with wp.record_compiles() as events:
        at_once(THREADS, lambda number: use(new_kernel(18), 18, 1.0 + number))
    made = [e.variant for e in events if e.source != "memory"]
    assert len(set(made)) == len(made) >= 4


def test_a_new_kernel_in_each_thread():
    at_once(THREADS, lambda number: use(new_kernel(23 + number), 23 + number, 2.0))


def test_one_function_in_all_threads():
    kernel = new_kernel(19)
    run = jax.jit(jax.grad(lambda x: wp.launch(kernel, 64, [x, 1.0], [64])[0].sum()))
    for found in at_once(THREADS, lambda number: run(X)):
        np.testing.assert_allclose(found, 19 * X.astype(float) ** 18, rtol=1e-5)


@wp.kernel
def pick(x: wp.array[float], at: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[at[i]]


def test_settings_of_threads_stay_apart():
    """Half of the threads make wrong accesses an error, the others read zero."""

    def work(number):
        with wp.config(bounds="error" if number % 2 else "safe"):
            for _ in range(5):
                run = jax.jit(lambda x, at: wp.launch(pick, 3, [x, at], [3])[0])
                try:
                    found = np.asarray(run(X, np.array([0, 64, 1], np.int32)))
                except RuntimeError as error:
                    assert "pick" in str(error)
                    found = None
                assert (found is None) == bool(number % 2)
                if found is not None:
                    np.testing.assert_array_equal(found, [X[0], 0.0, X[1]])

    at_once(THREADS, work)


def test_an_error_of_a_program_that_runs_asynchronously_names_the_kernel():
    """Nothing is raised when the program is started; what depends on its results raises too."""
    with wp.config(bounds="error"):

        @jax.jit
        def run(m, x, at):
            m = jax.lax.fori_loop(0, 30, lambda _, m: jnp.tanh(m @ m), m)
            return wp.launch(pick, 3, [x + 0.0 * m[0, 0], at], [3])[0]

        m, right, wrong = jnp.eye(300) * 0.5, jnp.arange(3), jnp.array([0, 1, 99])
        np.testing.assert_array_equal(run(m, X, right), X[:3])
        started = run(m, X, wrong)
        following = started + 1.0
        for result in (started, following):
            with pytest.raises(RuntimeError, match=r"pick.*test_concurrency.py:\d+.*thread \(2\)"):
                result.block_until_ready()
        # The process goes on.
        np.testing.assert_array_equal(run(m, X, right), X[:3])


def test_errors_in_several_threads_are_each_their_own():
    def work(number):
        with wp.config(bounds="error"):
            at = jnp.array([0] * number + [1000 + number])
            with pytest.raises(RuntimeError, match=rf"pick.*thread \({number}\)"):
                wp.launch(pick, number + 1, [X, at], [number + 1])[0].block_until_ready()

    at_once(THREADS, work)


def test_soak():
    """JWARP_SOAK gives it more seconds."""
    command = [sys.executable, "-W", "error", str(SOAK), str(SOAK_SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOAK_SECONDS + 120)
    assert done.returncode == 0, done.stderr
    warmed_up, rounds, early, late, right = done.stdout.split()
    assert right == "right" and int(warmed_up) > 0 and int(rounds) > 0
    assert float(late) - float(early) < 80, f"{early} MiB became {late}"


def test_what_other_threads_keep_is_not_forgotten():
    """While one thread forgets the handles that nobody has, another one keeps what an array holds."""
    memory, view = (x := wp.array(X)).memory, x.layout
    kept, has_begun = [], []

    def nobody():
        if not has_begun:  # as another thread does it here
            has_begun.append(True)
            kept.append(memory.keep(view))

    memory.keepers[:] = [nobody] * 16
    own = memory.keep(view)
    x.fill_(7.0)
    for handle in (own, *kept):
        np.testing.assert_array_equal(handle.array(), X)
    assert len(kept) == 1
