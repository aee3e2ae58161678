"""Topology optimisation of a beam by gradients, with Warp's finite elements
=========================================================================

A cantilever is fixed on the left and pulled down at the middle of its right end. Half of its area may be material.
The program looks for the density of each cell that makes the beam stiffest: it minimises the compliance, the work of
the load.

`warp.fem` is Warp's own code. One function assembles the elasticity matrix, fixes the left side, and solves by
conjugate gradients. `wp.functionalize` makes a JAX function from it, and `jax.grad` needs one more solution of the
same system. The stiffness of a cell is the cube of its density (SIMP; Bendsøe and Sigmund, 1999). Densities are
smoothed, and updated by the optimality criterion (Sigmund, A 99 line topology optimization code, 2001).

To run it::

    python examples/cantilever.py               # writes cantilever.png
    python examples/cantilever.py --quick       # a coarse beam, few steps

Needs warp-lang 1.19 (`pip install 'jwarp[fem]'`), matplotlib and tqdm. Lengths are in units of the beam's height.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jwarp.as_warp  # before anything imports warp  # isort: skip
import drawing
import jwarp as wp

import warp.fem as fem  # isort: skip
from warp.optim.linear import cg  # isort: skip

warnings.filterwarnings("ignore", category=wp.KernelWarning)  # of Warp's kernels

LENGTH, VOLUME = 3.0, 0.5  # of the beam, and the part of its area that is material
SOFTEST, POISSON = 1e-3, 0.3  # stiffness of an empty cell, and Poisson's ratio


@fem.integrand
def elasticity(s: fem.Sample, u: fem.Field, v: fem.Field, stiffness: fem.Field):
    """Plane stress: twice the elastic energy of two displacements."""
    strain, other = fem.D(u, s), fem.D(v, s)
    e, nu = stiffness(s), wp.static(POISSON)
    spread = nu / (1.0 - nu) * wp.trace(strain) * wp.trace(other)
    return e / (1.0 + nu) * (wp.ddot(strain, other) + spread)


@fem.integrand
def pull(s: fem.Sample, domain: fem.Domain, v: fem.Field):
    """A load downwards on the middle fifth of the right side."""
    x = domain(s)
    at = wp.where(x[0] > wp.static(LENGTH - 1e-3) and wp.abs(x[1] - 0.5) < 0.1, 1.0, 0.0)
    return -5.0 * at * v(s)[1]


@fem.integrand
def fixed(s: fem.Sample, domain: fem.Domain, u: fem.Field, v: fem.Field):
    """The displacements of the left side."""
    return wp.where(domain(s)[0] < 1e-3, 1.0, 0.0) * wp.dot(u(s), v(s))


@dataclass(frozen=True)
class Beam:
    """A grid of cells with what every solution needs."""

    cells: tuple[int, int]
    displacement: Callable[[jax.Array], jax.Array]  # of nodes, by the stiffness of cells
    load: jax.Array  # on nodes


def beam_of(rows: int) -> Beam:
    """A beam of three times as many cells as rows along its length."""
    columns = round(LENGTH) * rows
    grid = fem.Grid2D(res=wp.vec2i(columns, rows), bounds_hi=wp.vec2(LENGTH, 1.0))
    cells, sides = fem.Cells(grid), fem.BoundarySides(grid)
    space = fem.make_polynomial_space(grid, degree=1, dtype=wp.vec2)
    stiffness = fem.make_polynomial_space(grid, degree=0).make_field()
    trial, test = fem.make_trial(space, domain=cells), fem.make_test(space, domain=cells)
    on_sides = {"u": fem.make_trial(space, domain=sides), "v": fem.make_test(space, domain=sides)}
    projector = fem.integrate(fixed, fields=on_sides, assembly="nodal")
    fem.normalize_dirichlet_projector(projector)
    load = fem.integrate(pull, fields={"v": on_sides["v"]}, output_dtype=wp.vec2)

    def displace(values: wp.array[float]):
        stiffness.dof_values = values
        fields = {"u": trial, "v": test, "stiffness": stiffness}
        matrix = fem.integrate(elasticity, fields=fields, kernel_options={"enable_backward": True})
        right = wp.clone(load)
        fem.project_linear_system(matrix, right, projector, normalize_projector=False)
        x = wp.zeros_like(right)
        cg(matrix, right, x, tol=1e-5, M=wp.optim.linear.preconditioner(matrix), maxiter=2000)
        return wp.to_jax(x)

    made = wp.functionalize(displace)
    return Beam((columns, rows), lambda values: made(values)[0], wp.to_jax(load))


def smooth(density: jax.Array, radius: float = 1.5) -> jax.Array:
    """Averages over neighbours, weighted by how much closer than the radius they are, in cells."""
    reach = jnp.arange(-1.0, 2.0)
    weights = jnp.maximum(radius - jnp.hypot(*jnp.meshgrid(reach, reach)), 0.0)
    convolve = lambda a: jax.scipy.signal.convolve2d(a, weights, mode="same")  # noqa: E731
    return convolve(density) / convolve(jnp.ones_like(density))


def compliance(beam: Beam, density: jax.Array) -> jax.Array:
    """The work of the load, for the densities of cells of shape `beam.cells`."""
    stiffness = SOFTEST + (1.0 - SOFTEST) * smooth(density) ** 3
    return jnp.vdot(beam.load, beam.displacement(stiffness.ravel()))


@jax.jit
def improved(density: jax.Array, gradient: jax.Array) -> jax.Array:
    """The optimality criterion: material goes where it saves most, by a factor that keeps its volume."""
    saved = jnp.maximum(-gradient, 1e-12)

    def given(price: jax.Array) -> jax.Array:
        wanted = density * jnp.sqrt(saved / price)
        return jnp.clip(wanted, jnp.maximum(density - 0.2, 0.01), jnp.minimum(density + 0.2, 1.0))

    def halve(_: int, bounds: jax.Array) -> jax.Array:
        low, high = bounds
        middle = jnp.sqrt(low * high)
        return jnp.where(given(middle).mean() > VOLUME, jnp.array([middle, high]), jnp.array([low, middle]))

    return given(jnp.sqrt(jnp.prod(jax.lax.fori_loop(0, 60, halve, jnp.array([1e-9, 1e9])))))


def search(rows: int, steps: int) -> tuple[list[jax.Array], np.ndarray]:
    """The densities after each step, and the compliance before each."""
    beam = beam_of(rows)
    found, losses = [jnp.full(beam.cells, VOLUME)], []
    gradient = jax.jit(jax.value_and_grad(lambda density: compliance(beam, density)))
    for _ in drawing.progress(range(steps), desc="improving the beam"):
        loss, by = gradient(found[-1])
        losses.append(float(loss))
        found.append(improved(found[-1], by))
    return found, np.array(losses)


def draw(found: list[jax.Array], losses: np.ndarray, out: Path) -> None:
    """The densities at the start, on the way and at the end, and how the compliance fell."""
    figure = Figure((12, 5.2), layout="constrained")
    shown = figure.subplot_mosaic([["early", "late"], ["final", "loss"]])
    steps = {"early": len(losses) // 8 or 1, "late": len(losses) // 3, "final": len(losses)}
    for name, step in steps.items():
        axes = shown[name]
        axes.imshow(
            np.asarray(smooth(found[step])).T, origin="lower", extent=(0, LENGTH, 0, 1), cmap="Greys", vmin=0, vmax=1
        )
        axes.annotate("", (LENGTH, 0.28), (LENGTH, 0.5), arrowprops={"color": drawing.WARM, "width": 2, "headwidth": 8})
        axes.plot([0, 0], [0, 1], color=drawing.INK, linewidth=5)
        axes.set_axis_off()
        drawing.titled(axes, f"after {step} steps", bare=False)
    shown["loss"].semilogy(losses, color=drawing.WARM)
    shown["loss"].set(xlabel="step", ylabel="work of the load")
    drawing.titled(shown["loss"], "compliance")
    figure.savefig(out, dpi=120)


def main(quick: bool = False, out: Path = Path("cantilever.png")) -> tuple[list[jax.Array], np.ndarray]:
    found, losses = search(rows=8 if quick else 32, steps=8 if quick else 40)
    print(f"compliance {losses[0]:.1f} -> {losses[-1]:.1f} with {float(found[-1].mean()):.0%} of material")
    draw(found, losses, out)
    return found, losses


if __name__ == "__main__":
    drawing.run(main, __doc__, "cantilever.png")
