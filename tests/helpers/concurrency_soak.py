"""Eight threads jit, batch and differentiate launches, over and over: `python concurrency_soak.py SECONDS`.

Prints the number of rounds, the memory of the process in MiB after a third of the time and at the end, and `right`.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np

import jwarp as wp

THREADS = 8


@wp.kernel
def logistic(x: wp.array[float], r: float, steps: int, y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    for _ in range(steps):
        v = r * v * (1.0 - v)
    y[i] = v


@wp.kernel
def deposit(x: wp.array[float], at: wp.array[int], total: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(total, at[i], x[i] * x[i])


@wp.kernel
def relax(rate: float, x: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] + rate * (1.0 - x[i]) * x[i]


def logistic_fn(x, r):
    return wp.launch(logistic, x.shape[0], [x, r, 5], [x.shape])[0]


def deposit_fn(x, at):
    return wp.launch(deposit, x.shape[0], [x, at], [7])[0]


def relax_fn(x, rate):
    return wp.launch(relax, x.shape[0], [rate], [x])[0]


def np_logistic(x, r):
    v, dv = np.asarray(x, np.float64), 1.0
    for _ in range(5):
        v, dv = r * v * (1 - v), r * (1 - 2 * v) * dv
    return v, dv


def values(x, at, r):
    found = jax.jit(lambda x: logistic_fn(x, r))(x)
    np.testing.assert_allclose(found, np_logistic(x, r)[0], rtol=1e-4, atol=1e-5)


def gradients(x, at, r):
    found = jax.jit(jax.grad(lambda x: logistic_fn(x, r).sum()))(x)
    np.testing.assert_allclose(found, np_logistic(x, r)[1], rtol=1e-3, atol=1e-3)


def batches(x, at, r):
    rates = jnp.linspace(0.1, r, 3)
    found = jax.jit(jax.vmap(jax.grad(lambda r, x: logistic_fn(x, r).sum()), in_axes=(0, None)))(rates, x)
    h = 1e-6
    for rate, slope in zip(np.asarray(rates, np.float64), found, strict=True):
        difference = (np_logistic(x, rate + h)[0].sum() - np_logistic(x, rate - h)[0].sum()) / (2 * h)
        np.testing.assert_allclose(slope, difference, rtol=1e-3, atol=1e-2)


def sums(x, at, r):
    value, slope = jax.jit(jax.value_and_grad(lambda x: (deposit_fn(x, at) * jnp.arange(7.0)).sum()))(x)
    weights = np.asarray(at, np.float64)
    np.testing.assert_allclose(value, (weights * np.asarray(x, np.float64) ** 2).sum(), rtol=1e-4)
    np.testing.assert_allclose(slope, 2 * weights * x, rtol=1e-5)


def scans(x, at, r):
    run = jax.jit(lambda x: jax.lax.scan(lambda c, _: (relax_fn(c, 0.1 * r), None), x, length=10)[0], donate_argnums=0)
    v = np.asarray(x, np.float64)
    for _ in range(10):
        v = v + 0.1 * r * (1 - v) * v
    np.testing.assert_allclose(run(jnp.array(x)), v, rtol=1e-4)


def eager(x, at, r):
    np.testing.assert_allclose(logistic_fn(x, r), np_logistic(x, r)[0], rtol=1e-4, atol=1e-5)


ROUNDS = (values, gradients, batches, sums, scans, eager)


def memory() -> float:
    """MiB of this process in memory."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def main(seconds: float) -> None:
    start, errors, counts = time.monotonic(), [], [0] * THREADS

    def work(number: int, end: float) -> None:
        rng = random.Random(f"{number} {end}")
        try:
            done = 0
            while (time.monotonic() < end or not done) and not errors:  # once, however slow the machine is
                n = rng.choice((1, 3, 16, 100, 3000))
                data = np.random.default_rng(rng.randrange(2**32))
                x = data.uniform(0.1, 0.9, n).astype(np.float32)
                at = data.integers(0, 7, n).astype(np.int32)
                rng.choice(ROUNDS)(jnp.asarray(x), jnp.asarray(at), np.float32(rng.uniform(0.5, 3.0)))
                counts[number] += 1
                done += 1
        except BaseException as error:
            errors.append(error)

    def run_until(end: float) -> float:
        threads = [threading.Thread(target=work, args=(number, end)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        jax.clear_caches()
        gc.collect()
        return memory()

    for task in ROUNDS:
        task(jnp.full(100, 0.5), jnp.zeros(100, jnp.int32), np.float32(1.5))
    early = run_until(start + seconds / 3)
    first = sum(counts)
    late = run_until(start + seconds)
    print(first, sum(counts) - first, early, late, "right")


if __name__ == "__main__":
    main(float(sys.argv[1]))
