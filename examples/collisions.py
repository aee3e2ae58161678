"""Colliding discs form a letter: a gradient through all collisions finds their initial velocities
===============================================================================================

Two thousand discs lie in a box. A step launches four kernels. `sort_into_cells` assigns discs to the cells of a grid,
where atomic counters give each disc a slot. `find_contacts` searches neighbouring cells, and a counter compacts the
pairs that touch to a list of contacts. `push_apart` processes the list; each contact is a damped spring (Cundall and
Strack 1979, "A discrete numerical model for granular assemblies", Géotechnique 29). `move` integrates. The derivative
goes through the slots that the counters gave out.

Each disc has a target in the letter. The loss is the sum of the squared distances to the targets after five hundred
steps: a `lax.scan` of scans, with `jax.checkpoint` around the inner ones. Gradient descent on the initial velocities
starts from rest. Its first step throws each disc straight at its target; further steps correct for collisions.

To run it::

    python examples/collisions.py               # writes collisions.png
    python examples/collisions.py --quick       # a few seconds

Needs matplotlib and tqdm. The box is 1 m wide, times are in s; a disc weighs 1 kg.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import drawing
import jwarp as wp
from drawing.discs import draw, start_and_goal

RADIUS = 0.005  # m
STIFFNESS = 2.0e4  # N/m
DAMPING = 30.0  # N s/m: a bounce returns about three quarters of the speed
DRAG = 2.5  # 1/s, of the table
STEP = 0.002  # s
CELLS = 80  # along each side of the box; discs that touch are in one or in neighbouring cells
ROOM = 8  # discs that a cell has slots for
LONGEST_CHANGE = 0.02  # m/s, of a velocity in one step of the search, but for the first
Vectors, Count, Pairs = wp.array[wp.vec2], wp.array[int], wp.array[wp.vec2i]
CONTACTS_EACH = 3  # contacts per disc that the list has room for; discs that lie side by side have as many


@wp.func
def cell_of(x: wp.vec2) -> wp.vec2i:
    """The cell that a disc is in; discs outside the box are in those at its sides."""
    return wp.vec2i(wp.clamp(int(x[0] * float(CELLS)), 0, CELLS - 1), wp.clamp(int(x[1] * float(CELLS)), 0, CELLS - 1))


@wp.kernel
def sort_into_cells(x: Vectors, count: wp.array2d[int], members: wp.array3d[int]):
    """Each disc takes a slot of its cell."""
    i = wp.tid()
    cell = cell_of(x[i])
    slot = wp.atomic_add(count, cell[0], cell[1], 1)
    if slot < ROOM:
        members[cell[0], cell[1], slot] = i


@wp.kernel
def find_contacts(
    x: Vectors, v: Vectors, count: wp.array2d[int], members: wp.array3d[int], found: Count, pairs: Pairs, push: Vectors
):
    """Each disc writes the contacts with discs of smaller numbers to the list: who, and the force between them."""
    i = wp.tid()
    here = cell_of(x[i])
    for a in range(wp.max(here[0] - 1, 0), wp.min(here[0] + 2, CELLS)):
        for b in range(wp.max(here[1] - 1, 0), wp.min(here[1] + 2, CELLS)):
            for k in range(wp.min(count[a, b], ROOM)):
                j = members[a, b, k]
                apart, distance = x[i] - x[j], wp.length(x[i] - x[j])
                if j < i and distance < 2.0 * RADIUS:
                    slot = wp.atomic_add(found, 0, 1)
                    if slot < pairs.shape[0]:
                        normal, spring = apart / distance, STIFFNESS * (2.0 * RADIUS - distance)
                        pairs[slot] = wp.vec2i(i, j)
                        push[slot] = (spring + DAMPING * wp.dot(v[j] - v[i], normal)) * normal


@wp.kernel
def push_apart(found: Count, pairs: Pairs, push: Vectors, force: Vectors):
    """Add the forces of all contacts up, for both discs of each."""
    contact = wp.tid()
    if contact < found[0]:
        wp.atomic_add(force, pairs[contact][0], push[contact])
        wp.atomic_sub(force, pairs[contact][1], push[contact])


@wp.func
def walls(x: float) -> float:
    """The force of both walls across an axis."""
    return STIFFNESS * (wp.max(RADIUS - x, 0.0) - wp.max(x + RADIUS - 1.0, 0.0))


@wp.kernel
def move(force: Vectors, x: Vectors, v: Vectors):
    """A step of the semi-implicit Euler method, in place."""
    i = wp.tid()
    pushed = force[i] + wp.vec2(walls(x[i][0]), walls(x[i][1]))
    v[i] = (v[i] + STEP * pushed) / (1.0 + STEP * DRAG)
    x[i] += STEP * v[i]


State = tuple[jax.Array, jax.Array]  # places and velocities


def step(state: State, _: None = None) -> tuple[State, jax.Array]:
    """One step, and what it took: discs in the fullest cell, and contacts."""
    x, v = state
    discs, most = x.shape[0], CONTACTS_EACH * x.shape[0]
    count, members = wp.launch(sort_into_cells, discs, [x], [(CELLS, CELLS), (CELLS, CELLS, ROOM)])
    found, pairs, push = wp.launch(find_contacts, discs, [x, v, count, members], [1, most, most])
    (force,) = wp.launch(push_apart, most, [found, pairs, push], [discs])
    return wp.launch(move, discs, [force], [x, v]), jnp.stack([count.max(), found[0]])


@partial(jax.jit, static_argnums=(1, 2))
def simulate(state: State, blocks: int, steps: int) -> tuple[State, State, jax.Array]:
    """The end, the states after each of so many blocks of steps, and the most that a step took."""

    @jax.checkpoint
    def block(state: State, _: None) -> tuple[State, tuple[State, jax.Array]]:
        state, taken = jax.lax.scan(step, state, length=steps)
        return state, (state, taken.max(0))

    end, (seen, taken) = jax.lax.scan(block, state, length=blocks)
    return end, seen, taken.max(0)


class Task(NamedTuple):
    """Where discs lie at first, and where each has to be in the end."""

    start: np.ndarray  # (discs, 2)
    goal: np.ndarray

    def loss(self, v: jax.Array, blocks: int, steps: int) -> tuple[jax.Array, jax.Array]:
        """The mean squared distance from the goal at the end, in radii; and the most that a step took."""
        (x, _), _, taken = simulate((jnp.asarray(self.start), v), blocks, steps)
        return jnp.mean(jnp.sum((x - self.goal) ** 2, -1)) / RADIUS**2, taken


class Search(NamedTuple):
    """What was found."""

    straight: np.ndarray  # velocities (m/s) of discs that are thrown at their places
    velocity: np.ndarray  # the best ones found
    losses: np.ndarray  # at which each gradient was taken
    seconds: float  # for a simulation and its gradient
    most: np.ndarray  # discs that were in a cell, and contacts at one time


def search(given: Task, rounds: int, blocks: int, steps: int) -> Search:
    """Gradient descent from rest: steps that do not lead down are taken back, and shorter ones follow."""
    value_and_grad = jax.jit(jax.value_and_grad(partial(given.loss, blocks=blocks, steps=steps), has_aux=True))
    # How far a disc gets that hits nobody, for each m/s. One step of this scale takes it to its place.
    reach = sum((1.0 + STEP * DRAG) ** -k for k in range(1, blocks * steps + 1)) * STEP
    scale = len(given.start) * RADIUS**2 / (2.0 * reach**2)
    best, size, taken, losses, costs = (np.inf, jnp.zeros(given.start.shape)), 1.0, np.zeros(2, int), [], []
    slope = change = best[1]
    for _ in drawing.progress(range(rounds), desc="gradients"):
        begun, v = time.perf_counter(), best[1] + size * change
        (loss, most), found = jax.block_until_ready(value_and_grad(v))
        costs.append(time.perf_counter() - begun)
        losses.append(float(loss))
        taken = np.maximum(taken, most)
        down = losses[-1] < best[0]
        best, slope, size = ((losses[-1], v), found, min(1.0, 1.6 * size)) if down else (best, slope, 0.4 * size)
        change = -scale * slope
        longest = LONGEST_CHANGE if len(losses) > 1 else jnp.inf  # the first step may be as long as it likes
        change /= jnp.maximum(1.0, jnp.linalg.norm(change, axis=1, keepdims=True) / longest)
    straight, seconds = (given.goal - given.start) / reach, float(np.median(costs[1:]))
    return Search(straight, np.asarray(best[1]), np.array(losses), seconds, taken)


def main(quick: bool = False, out: Path = Path("collisions.png")) -> tuple[Task, Search]:
    """Search, report, draw."""
    side, rounds, blocks, steps = (16, 8, 4, 25) if quick else (45, 60, 20, 25)
    given = Task(*start_and_goal("W", side, RADIUS))
    found = search(given, rounds, blocks, steps)
    off = np.sqrt(found.losses)
    print(f"{side * side} discs, {blocks * steps} steps: at rest {off[0]:.2f} radii off, then {off.min():.2f}")
    fullest, contacts = found.most
    print(
        f"a simulation with its gradient takes {found.seconds:.2f} s; at most {contacts} contacts, {fullest} in a cell"
    )
    if contacts > CONTACTS_EACH * side * side or fullest > ROOM:
        raise RuntimeError("contacts were left out: lists are too short")
    seen, thrown = (simulate((given.start, v), blocks, steps)[1][0] for v in (found.velocity, found.straight))
    draw(given, found, np.asarray(seen), np.asarray(thrown[-1]), steps * STEP, RADIUS, out)
    print(f"wrote {out}")
    return given, found


if __name__ == "__main__":
    drawing.run(main, __doc__, "collisions.png")
