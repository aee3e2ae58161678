"""A rope is thrown so that its free end hits a target: a Warp program with mutable arrays and a tape.

It imports only warp, and runs under both:

    python rope.py
    python -m jwarp run rope.py
"""

import argparse

import numpy as np
import warp as wp
import warp.optim

BEADS = 12
LENGTH = 0.1  # of rope between two beads
STIFFNESS = 4000.0  # of that, for a bead of mass 1
DAMPING = 2.0
GRAVITY = wp.constant(wp.vec3(0.0, -9.81, 0.0))


@wp.func
def pull(x: wp.vec3, v: wp.vec3, other_x: wp.vec3, other_v: wp.vec3) -> wp.vec3:
    """The force of a piece of rope on the bead at x; a rope does not push."""
    along = other_x - x
    length = wp.length(along)
    direction = along / wp.max(length, 1.0e-6)
    stretch = wp.max(length - LENGTH, 0.0)
    return direction * (STIFFNESS * stretch + DAMPING * wp.dot(other_v - v, direction))


@wp.kernel
def step(
    x: wp.array[wp.vec3],
    v: wp.array[wp.vec3],
    dt: float,
    new_x: wp.array[wp.vec3],
    new_v: wp.array[wp.vec3],
):
    """Half-implicit Euler; the first bead is held."""
    i = wp.tid()
    force = GRAVITY
    if i > 0:
        force += pull(x[i], v[i], x[i - 1], v[i - 1])
    if i < x.shape[0] - 1:
        force += pull(x[i], v[i], x[i + 1], v[i + 1])
    faster = v[i] + force * dt
    if i == 0:
        faster = wp.vec3()
    new_v[i] = faster
    new_x[i] = x[i] + faster * dt


@wp.kernel
def miss(x: wp.array[wp.vec3], target: wp.vec3, loss: wp.array[float]):
    """The squared distance of the last bead from the target."""
    loss[0] = wp.length_sq(x[x.shape[0] - 1] - target)


class Throw:
    """The states at all steps, of which the first velocities are looked for."""

    def __init__(self, steps: int, dt: float = 0.004):
        self.steps, self.dt = steps, dt
        # At rest each piece is stretched by the weight of the beads below it. Just taut, it would be at a kink.
        pieces = LENGTH + 9.81 / STIFFNESS * np.arange(BEADS - 1, 0, -1)
        hanging = np.outer(np.append(0.0, np.cumsum(pieces)), [0.0, -1.0, 0.0])
        self.x = [wp.array(hanging, dtype=wp.vec3, requires_grad=True)]
        self.v = [wp.zeros(BEADS, dtype=wp.vec3, requires_grad=True)]
        for _ in range(steps):
            self.x.append(wp.zeros_like(self.x[0]))
            self.v.append(wp.zeros_like(self.v[0]))
        self.target = wp.vec3(0.7, 0.2, 0.3)
        self.loss = wp.zeros(1, dtype=float, requires_grad=True)
        self.optimizer = warp.optim.Adam([self.v[0]], lr=0.2)

    def run(self) -> None:
        for t in range(self.steps):
            wp.launch(step, dim=BEADS, inputs=[self.x[t], self.v[t], self.dt], outputs=[self.x[t + 1], self.v[t + 1]])
        wp.launch(miss, dim=1, inputs=[self.x[-1], self.target], outputs=[self.loss])

    def improve(self) -> float:
        """One iteration of the search: the loss before it."""
        with wp.Tape() as tape:
            self.run()
        tape.backward(self.loss)
        self.optimizer.step([self.v[0].grad])
        tape.zero()
        return float(self.loss.numpy()[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--iterations", type=int, default=40)
    arguments = parser.parse_args()
    throw = Throw(arguments.steps)
    with wp.ScopedTimer("search"):
        for iteration in range(arguments.iterations):
            loss = throw.improve()
            if iteration % 10 == 0 or iteration == arguments.iterations - 1:
                print(f"iteration {iteration:3}: the rope misses by {loss**0.5:.4f}")
