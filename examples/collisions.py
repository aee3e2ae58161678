"""Discs that hit each other form a letter: their first velocities are found by a gradient through all collisions
==============================================================================================================

Two thousand discs lie in a box. A step has four kernels. `sort_into_cells` hashes discs to the cells of a grid, where
atomic counters give each one a slot; `find_contacts` looks around in neighbouring cells, and a counter compacts what it
finds to a list of contacts; `push_apart` goes through the list, each contact a damped spring (Cundall and Strack 1979,
"A discrete numerical model for granular assemblies", Géotechnique 29); `move` takes the step. What the list holds
depends on where discs are, so the derivative goes through slots that counters gave.

Each disc has a place of its own in the letter, and their ways there cross. Five hundred steps are a `lax.scan` of scans
with `jax.checkpoint` around the inner ones; the gradient of the squared distances at the end, by all velocities at the
start, is descended from rest. The first step throws each disc straight at its place, as if there were no others, and
collisions blur the letter; the further ones are short, and undo part of that. Where many discs hit each other, who hits
whom soon decides more than a gradient knows.

To run it::

    python examples/collisions.py               # writes collisions.png
    python examples/collisions.py --quick       # a few seconds

Needs matplotlib and tqdm. The box is 1 m wide, times are in s; a disc weighs 1 kg.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path as Outline
from matplotlib.textpath import TextPath
from scipy.optimize import linear_sum_assignment
from tqdm import tqdm

import jwarp as wp

RADIUS = 0.005  # m
STIFFNESS = 2.0e4  # N/m
DAMPING = 30.0  # N s/m: a bounce returns about three quarters of the speed
DRAG = 2.5  # 1/s, of the table
STEP = 0.002  # s
CELLS = 80  # along each side of the box; discs that touch are in one or in neighbouring cells
ROOM = 8  # discs that a cell has slots for
MIXING = 0.012  # m: how far from the shortest ways, all in all, the places of discs are
LONGEST_CHANGE = 0.02  # m/s, of a velocity in one step of the search, but for the first
CONTACTS_EACH = 3  # contacts per disc that the list has room for; discs that lie side by side have as many


@wp.func
def cell_of(x: wp.vec2) -> wp.vec2i:
    """The cell that a disc is in; discs outside the box are in those at its sides."""
    i = wp.clamp(int(x[0] * float(CELLS)), 0, CELLS - 1)
    j = wp.clamp(int(x[1] * float(CELLS)), 0, CELLS - 1)
    return wp.vec2i(i, j)


@wp.kernel
def sort_into_cells(x: wp.array[wp.vec2], count: wp.array2d[int], members: wp.array3d[int]):
    """Each disc takes a slot of its cell."""
    i = wp.tid()
    cell = cell_of(x[i])
    slot = wp.atomic_add(count, cell[0], cell[1], 1)
    if slot < ROOM:
        members[cell[0], cell[1], slot] = i


@wp.kernel
def find_contacts(
    x: wp.array[wp.vec2],
    v: wp.array[wp.vec2],
    count: wp.array2d[int],
    members: wp.array3d[int],
    found: wp.array[int],
    pairs: wp.array[wp.vec2i],
    push: wp.array[wp.vec2],
):
    """Each disc writes the contacts with discs of smaller numbers to the list: who, and the force between them."""
    i = wp.tid()
    here = cell_of(x[i])
    for a in range(wp.max(here[0] - 1, 0), wp.min(here[0] + 2, CELLS)):
        for b in range(wp.max(here[1] - 1, 0), wp.min(here[1] + 2, CELLS)):
            for k in range(wp.min(count[a, b], ROOM)):
                j = members[a, b, k]
                apart = x[i] - x[j]
                distance = wp.length(apart)
                if j < i and distance < 2.0 * RADIUS:
                    slot = wp.atomic_add(found, 0, 1)
                    if slot < pairs.shape[0]:
                        normal = wp.normalize(apart)
                        closing = wp.dot(v[j] - v[i], normal)
                        pairs[slot] = wp.vec2i(i, j)
                        push[slot] = (STIFFNESS * (2.0 * RADIUS - distance) + DAMPING * closing) * normal


@wp.kernel
def push_apart(found: wp.array[int], pairs: wp.array[wp.vec2i], push: wp.array[wp.vec2], force: wp.array[wp.vec2]):
    """Add the forces of all contacts up, for both discs of each."""
    contact = wp.tid()
    if contact < found[0]:
        wp.atomic_add(force, pairs[contact][0], push[contact])
        wp.atomic_sub(force, pairs[contact][1], push[contact])


@wp.func
def wall(x: float) -> float:
    """The force of the two walls across an axis."""
    return STIFFNESS * (wp.max(RADIUS - x, 0.0) - wp.max(x + RADIUS - 1.0, 0.0))


@wp.kernel
def move(force: wp.array[wp.vec2], x: wp.array[wp.vec2], v: wp.array[wp.vec2]):
    """A step of the semi-implicit Euler method, in place."""
    i = wp.tid()
    pushed = force[i] + wp.vec2(wall(x[i][0]), wall(x[i][1]))
    faster = (v[i] + STEP * pushed) / (1.0 + STEP * DRAG)
    v[i] = faster
    x[i] = x[i] + STEP * faster


State = tuple[jax.Array, jax.Array]  # places and velocities


def step(state: State, _: None = None) -> tuple[State, jax.Array]:
    """One step, and what it took: discs in the fullest cell, and contacts."""
    x, v = state
    discs = x.shape[0]
    most = CONTACTS_EACH * discs
    count, members = wp.launch(sort_into_cells, discs, [x], [(CELLS, CELLS), (CELLS, CELLS, ROOM)])
    found, pairs, push = wp.launch(find_contacts, discs, [x, v, count, members], [1, most, most])
    (force,) = wp.launch(push_apart, most, [found, pairs, push], [discs])
    x, v = wp.launch(move, discs, [force], [x, v])
    return (x, v), jnp.stack([count.max(), found[0]])


@partial(jax.jit, static_argnums=(1, 2))
def simulate(state: State, blocks: int, steps: int) -> tuple[State, State, jax.Array]:
    """The end, the states after each of so many blocks of steps, and the most that a step took."""

    @jax.checkpoint
    def block(state: State, _: None) -> tuple[State, tuple[State, jax.Array]]:
        state, taken = jax.lax.scan(step, state, length=steps)
        return state, (state, taken.max(0))

    end, (seen, taken) = jax.lax.scan(block, state, length=blocks)
    return end, seen, taken.max(0)


@dataclass(frozen=True)
class Task:
    """Where discs lie at first, and where each has to be in the end."""

    start: np.ndarray  # (discs, 2)
    goal: np.ndarray

    def loss(self, v: jax.Array, blocks: int, steps: int) -> tuple[jax.Array, jax.Array]:
        """The mean squared distance from the goal at the end, in radii; and the most that a step took."""
        (x, _), _, taken = simulate((jnp.asarray(self.start), v), blocks, steps)
        return jnp.mean(jnp.sum((x - self.goal) ** 2, -1)) / RADIUS**2, taken


def letter(text: str, discs: int) -> np.ndarray:
    """So many places in a letter that fills most of the box, on a lattice of triangles as wide as they fit."""
    outline = TextPath((0, 0), text, size=1.0, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    low, high = outline.vertices.min(0), outline.vertices.max(0)
    scale = 0.9 / (high - low).max()
    shape = Outline((outline.vertices - (low + high) / 2.0) * scale + 0.5, outline.codes)
    spacing = 0.08
    while True:
        rows = np.arange(0.0, 1.0, spacing * np.sqrt(0.75))
        points = np.array(
            [(x + (k % 2) * spacing / 2.0, y) for k, y in enumerate(rows) for x in np.arange(0, 1, spacing)]
        )
        inside = points[shape.contains_points(points, radius=-0.3 * RADIUS)]
        if len(inside) >= discs:
            left_out = np.random.default_rng(0).choice(len(inside), len(inside) - discs, replace=False)
            return np.delete(inside, left_out, 0)
        spacing *= 0.995


def task(text: str, side: int) -> Task:
    """Discs on a grid that is shaken, and for each a place in the letter: on the shortest ways, were they elsewhere.

    On the shortest ways of all nobody would meet; on these, ways cross.
    """
    random = np.random.default_rng(1)
    grid = (np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2) + 0.5) / side
    start = grid + random.uniform(-1.0, 1.0, grid.shape) * max(0.0, 0.45 / side - RADIUS)
    goal = letter(text, len(start))
    elsewhere = start + random.normal(size=start.shape) * MIXING
    ways = ((elsewhere[:, None] - goal[None]) ** 2).sum(-1)
    return Task(start.astype(np.float32), goal[linear_sum_assignment(ways)[1]].astype(np.float32))


@dataclass(frozen=True)
class Search:
    """The velocities that were found, the loss that each gradient was taken at, and what things cost."""

    straight: np.ndarray  # velocities (m/s) of discs that are thrown at their places
    velocity: np.ndarray
    losses: np.ndarray
    forward: float  # seconds for a simulation
    gradient: float  # seconds for a simulation and its gradient
    fullest: int  # discs in the fullest cell
    contacts: int  # at one time


def search(given: Task, rounds: int, blocks: int, steps: int) -> Search:
    """Gradient descent from rest: steps that do not lead down are taken back, and shorter ones follow."""
    value_and_grad = jax.jit(jax.value_and_grad(partial(given.loss, blocks=blocks, steps=steps), has_aux=True))
    # How far a disc gets that hits nobody, for each m/s. One step of this scale takes it to its place.
    reach = sum((1.0 + STEP * DRAG) ** -k for k in range(1, blocks * steps + 1)) * STEP
    scale = len(given.start) * RADIUS**2 / (2.0 * reach**2)
    best, size = (np.inf, jnp.zeros_like(jnp.asarray(given.start))), 1.0
    slope = change = jnp.zeros_like(best[1])
    losses: list[float] = []
    costs: list[float] = []
    taken = np.zeros(2, int)
    for _ in tqdm(range(rounds), desc="gradients", leave=False):
        begun = time.perf_counter()
        v = best[1] + size * change
        (loss, most), found = jax.block_until_ready(value_and_grad(v))
        costs.append(time.perf_counter() - begun)
        losses.append(float(loss))
        taken = np.maximum(taken, most)
        if losses[-1] < best[0]:
            best, slope, size = (losses[-1], v), found, min(1.0, 1.6 * size)
        else:
            size *= 0.4
        change = -scale * slope
        if len(losses) > 1:
            length = jnp.linalg.norm(change, axis=1, keepdims=True)
            change *= jnp.minimum(1.0, LONGEST_CHANGE / jnp.maximum(length, LONGEST_CHANGE))
    velocity = np.asarray(best[1])
    run = jax.jit(partial(given.loss, blocks=blocks, steps=steps))
    jax.block_until_ready(run(velocity))
    begun = time.perf_counter()
    jax.block_until_ready(run(velocity))
    forward = time.perf_counter() - begun
    straight = (given.goal - given.start) / reach
    gradient = float(np.median(costs[1:]))
    return Search(straight, velocity, np.array(losses), forward, gradient, int(taken[0]), int(taken[1]))


# -- the picture


def draw(given: Task, found: Search, blocks: int, steps: int, path: Path) -> None:
    figure = Figure(figsize=(14.0, 8.6), dpi=120, layout="constrained")
    axes = figure.subplot_mosaic([["start", "early", "end"], ["loss", "late", "straight"]])

    def seen(velocity: np.ndarray) -> np.ndarray:
        return np.asarray(simulate((jnp.asarray(given.start), jnp.asarray(velocity)), blocks, steps)[1][0])

    def off(x: np.ndarray) -> str:
        return f"{np.sqrt(np.mean(np.sum((x - given.goal) ** 2, -1))) / RADIUS:.2g} radii off"

    places, dt = seen(found.velocity), steps * STEP
    early, late = max(0, blocks // 10 - 1), max(0, blocks // 3 - 1)
    discs(axes["start"], given, given.start, "At first, with the velocities that were found")
    axes["start"].quiver(*given.start.T, *found.velocity.T, color="#333333", width=0.0016, scale=12.0)
    discs(axes["early"], given, places[early], f"After {(early + 1) * dt:.2f} s")
    discs(axes["late"], given, places[late], f"After {(late + 1) * dt:.2f} s")
    discs(axes["end"], given, places[-1], f"In the end, after {blocks * dt:.2f} s: {off(places[-1])}")
    thrown = seen(found.straight)[-1]
    discs(axes["straight"], given, thrown, f"Thrown straight instead: {off(thrown)}")
    for name in ("end", "straight"):
        axes[name].plot(*given.goal.T, ".", color="black", markersize=1.0)
    count = np.arange(1, len(found.losses) + 1)
    axes["loss"].semilogy(count, found.losses, ".", color="#9aa5b8", label="each gradient")
    best = np.minimum.accumulate(found.losses)
    axes["loss"].semilogy(count, best, color="#20304f", linewidth=1.8, label="best so far")
    axes["loss"].set(xlabel="gradients", ylabel="mean squared distance (radii²)")
    axes["loss"].set_ylim(0.7 * best[-1], 1.5 * best[0])
    axes["loss"].set_title(f"A gradient takes {found.gradient:.2g} s, a simulation {found.forward:.2g} s",
                           loc="left", fontsize=12, fontweight="bold")  # fmt: skip
    axes["loss"].spines[["top", "right"]].set_visible(False)
    axes["loss"].grid(alpha=0.3)
    axes["loss"].legend(frameon=False)
    figure.savefig(path)


def discs(axes: Axes, given: Task, x: np.ndarray, title: str) -> None:
    """Discs in the box, coloured by where they lay at first."""
    size = np.full(len(x), 2.0 * RADIUS)
    colours = np.stack(
        [0.15 + 0.75 * given.start[:, 0], 0.35 + 0.3 * given.start[:, 1], 0.9 - 0.7 * given.start[:, 1]], -1
    )
    axes.add_collection(
        EllipseCollection(size, size, np.zeros(len(x)), units="x", offsets=x, transOffset=axes.transData,
                          facecolors=colours, linewidths=0.0)
    )  # fmt: skip
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal", xticks=[], yticks=[])
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")


def main(quick: bool = False, out: Path | None = None) -> tuple[Task, Search]:
    """Search, report, draw."""
    side, rounds, blocks, steps = (16, 8, 4, 25) if quick else (45, 60, 20, 25)
    given = task("W", side)
    found = search(given, rounds, blocks, steps)
    first, last = found.losses[0] ** 0.5, found.losses.min() ** 0.5
    print(f"{side * side} discs, {blocks * steps} steps: at rest {first:.2f} radii off, then {last:.2f}")
    print(f"a simulation takes {found.forward:.2f} s, with its gradient {found.gradient:.2f} s")
    print(f"at most {found.contacts} contacts at a time, and {found.fullest} discs in a cell")
    if found.contacts > CONTACTS_EACH * side * side or found.fullest > ROOM:
        raise RuntimeError("contacts were left out: lists are too short")
    out = out or Path("collisions.png")
    draw(given, found, blocks, steps, out)
    print(f"wrote {out}")
    return given, found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few discs and gradients")
    parser.add_argument("--out", type=Path, help="where the picture goes")
    given_args = parser.parse_args()
    main(given_args.quick, given_args.out)
