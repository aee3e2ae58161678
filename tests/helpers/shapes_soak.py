"""Launches one kernel with shape after shape in every way that there is: `python shapes_soak.py SHAPES`.

Prints the memory of the process in MiB after half of the shapes and at the end, then the caches with a number as bound.
"""

from __future__ import annotations

import gc
import sys

import jax
import jax.numpy as jnp
import numpy as np

import jwarp as wp
from jwarp.caches import report

# JAX keeps what it traced and compiled itself, which this is no test of.
CLEARED_AFTER = 100


@wp.kernel
def soaked(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = k * x[i] * x[i]


def ways(n: int) -> None:
    """Each way to launch over `n` threads, checked."""
    jax_function = wp.jax_kernel(soaked)
    x, expected = np.arange(n, dtype=np.float32) / n, 2 * (np.arange(n, dtype=np.float32) / n) ** 2
    on_jax, out = jnp.asarray(x), np.zeros(n, np.float32)
    found = [
        wp.launch(soaked, n, [on_jax, 2.0], [n])[0],
        jax.jit(lambda x: wp.launch(soaked, n, [x, 2.0], [n])[0])(on_jax),
        jax_function(on_jax, 2.0)[0],
        wp.launch(soaked, n, [x, 2.0], [out])[0],
        wp.launch(soaked, n, [x, 2.0], [np.zeros(n, np.float32)], record_cmd=True).launch()[0],
        wp.launch(soaked, n, [on_jax, 2.0], [n], record_cmd=True).launch()[0],
    ]
    for y in found:
        np.testing.assert_allclose(y, expected, rtol=1e-6)
    into, ones = np.zeros_like(x), np.ones_like(x)
    fresh = {"adjoint": True, "adj_outputs": [on_jax * 0 + 1]}
    gradients = [
        jax.grad(lambda x: wp.launch(soaked, n, [x, 2.0], [n])[0].sum())(on_jax),
        wp.launch(soaked, n, [x, 2.0], [n], adjoint=True, adj_inputs=[into, None], adj_outputs=[ones])[0],
        wp.launch(soaked, n, [on_jax, 2.0], [n], adj_inputs=[True, None], **fresh)[0],
    ]
    for y in gradients:
        np.testing.assert_allclose(y, 4 * x, rtol=1e-6)


def resident() -> float:
    """MiB of the process."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def main(shapes: int) -> None:
    for n in range(1, shapes + 1):
        ways(n)
        if n % CLEARED_AFTER == 0 or n in (shapes // 2, shapes):
            jax.clear_caches()
        if n in (shapes // 2, shapes):
            print(resident(), flush=True)
    for usage in report():
        if isinstance(usage.bound, int):
            print(f"{usage.name}: {usage.entries} of {usage.count} x {usage.bound}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
