"""What kernels under test compute, in jax.numpy, where more than one program measures that."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from kernels import MANDELBROT_STEPS


def mandelbrot(side: int) -> jax.Array:
    """Steps until each of `side` x `side` points leaves the disk, or `MANDELBROT_STEPS`."""
    place = jnp.arange(side, dtype=jnp.float32)
    cx = jnp.broadcast_to(-2.0 + 3.0 * place / side, (side, side))
    cy = jnp.broadcast_to((-1.5 + 3.0 * place / side)[:, None], (side, side))

    def step(_: Any, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        x, y, steps = carry
        inside = x * x + y * y < 4.0
        moved = (x * x - y * y + cx, 2.0 * x * y + cy, steps + 1)
        return tuple(jnp.where(inside, new, old) for new, old in zip(moved, carry, strict=True))

    start = (jnp.zeros_like(cx), jnp.zeros_like(cx), jnp.zeros(cx.shape, jnp.int32))
    return jax.lax.fori_loop(0, MANDELBROT_STEPS, step, start)[2]
