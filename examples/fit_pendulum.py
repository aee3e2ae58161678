"""Gradients find a pendulum's length and drag from ten observations of its bobs
=============================================================================

The kernel is that of `pendulum_batch.py`: a loop of Runge-Kutta steps, whose parameters are numbers. JAX
differentiates it in both modes. `jax.value_and_grad` goes back through the loop of each launch and returns the
gradient of the misfit. `jax.jacfwd` goes forward with the two parameters and returns the Jacobian, which the
Gauss-Newton method needs. The picture shows the misfit before each step, and the path of length and drag.

To run it::

    python examples/fit_pendulum.py               # writes fit_pendulum.png
    python examples/fit_pendulum.py --quick       # fewer steps

Needs matplotlib and tqdm.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import drawing
from pendulum_batch import STEP, swing_fn, twins


@dataclass(frozen=True)
class Fit:
    """Length (m) and drag (1/s) of a pendulum, what they were taken for at each step, and the misfit (rad²) then."""

    true: np.ndarray
    ways: np.ndarray  # (steps + 1, 2)
    misfits: np.ndarray

    @property
    def found(self) -> np.ndarray:
        """The last ones."""
        return self.ways[-1]


def fit(true: tuple[float, float] = (1.1, 0.12), guess: tuple[float, float] = (0.9, 0.02), steps: int = 30) -> Fit:
    """Find `true` from the states seen ten times in a second, by Gauss and Newton's method."""
    one, two = twins()

    def seen(parameters: jax.Array) -> jax.Array:
        """Angles and speeds at each time."""

        def launch(state, _):
            state = swing_fn(state, two, *parameters, STEP, 20)[0][0]
            return state, state

        return jax.lax.scan(launch, one, length=10)[1]

    observed = jax.jit(seen)(jnp.array(true))

    def misfit(parameters: jax.Array) -> jax.Array:
        return jnp.mean((seen(parameters) - observed) ** 2)

    @jax.jit
    def improve(parameters):
        value, slope = jax.value_and_grad(misfit)(parameters)
        jacobian = jax.jacfwd(seen)(parameters).reshape(-1, 2)
        bend = 2.0 * jacobian.T @ jacobian / jacobian.shape[0]
        return parameters - jnp.linalg.solve(bend + 1.0e-6 * jnp.eye(2), slope), value

    ways, misfits = [jnp.array(guess)], []
    for _ in drawing.progress(range(steps), desc="fit", unit=" steps"):
        parameters, value = improve(ways[-1])
        ways.append(parameters)
        misfits.append(float(value))
    return Fit(np.array(true), np.stack(ways), np.array(misfits))


def draw(fit: Fit, path: Path) -> None:
    """The way of the parameters, and the misfit."""
    figure = Figure(figsize=(10.0, 4.2), dpi=120, layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(*fit.ways.T, "o-", color=drawing.INK, markersize=4, linewidth=1.2)
    left.plot(*fit.true, "*", color=drawing.WARM, markersize=16, label="the pendulum")
    left.set(xlabel="length of the lower arm (m)", ylabel="air drag (1/s)")
    left.legend(frameon=False)
    right.semilogy(np.maximum(fit.misfits, 1e-14), "o-", color=drawing.INK, markersize=4, linewidth=1.2)
    right.set(xlabel="steps", ylabel="mean squared misfit (rad²)")
    drawing.titled(left, "Length and drag, step by step")
    drawing.titled(right, "How far off the motion is")
    figure.savefig(path)


def main(quick: bool = False, out: Path = Path("fit_pendulum.png")) -> Fit:
    """Search, report, draw."""
    found = fit(steps=15 if quick else 30)
    (length, drag), (lower, slowed) = found.found, found.true
    print(f"one pendulum fitted: {length:.4f} m and drag {drag:.4f}/s; it has {lower:g} m and {slowed:g}/s")
    draw(found, out)
    print(f"wrote {out}")
    return found


if __name__ == "__main__":
    drawing.run(main, __doc__, "fit_pendulum.png")
