"""A lid-driven cavity by the lattice Boltzmann method, in 3 dimensions with 19 speeds; a program that Warp runs, too.

One launch a step pulls the populations from the neighbours, bounces them off the walls and relaxes them:
Krüger et al., "The Lattice Boltzmann Method", Springer 2017, sections 3.3.2, 5.3.3 and 5.3.4.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import warp as wp

SPEEDS = [c for c in itertools.product((0, -1, 1), repeat=3) if sum(map(abs, c)) <= 2]
WEIGHTS = [(1 / 3, 1 / 18, 1 / 36)[sum(map(abs, c))] for c in SPEEDS]
C = wp.constant(wp.types.matrix((19, 3), wp.int32)(*np.ravel(SPEEDS).tolist()))
W = wp.constant(wp.types.vector(19, wp.float32)(*WEIGHTS))
OPPOSITE = wp.constant(wp.types.vector(19, wp.int32)(*(SPEEDS.index((-x, -y, -z)) for x, y, z in SPEEDS)))
populations = wp.types.vector(19, wp.float32)


@wp.kernel
def step(before: wp.array4d(dtype=float), after: wp.array4d(dtype=float), n: int, omega: float, lid: float):
    i, j, k = wp.tid()
    f = populations()
    density = wp.float32(0.0)
    u = wp.vec3()
    for q in range(19):
        x, y, z = i - C[q, 0], j - C[q, 1], k - C[q, 2]
        if x < 0 or x >= n or y < 0 or y >= n or z < 0 or z >= n:
            f[q] = before[OPPOSITE[q], i, j, k]
            if z >= n:
                f[q] += 6.0 * W[q] * lid * float(C[q, 0])
        else:
            f[q] = before[q, x, y, z]
        density += f[q]
        u += f[q] * wp.vec3(float(C[q, 0]), float(C[q, 1]), float(C[q, 2]))
    u = u / density
    for q in range(19):
        along = u[0] * float(C[q, 0]) + u[1] * float(C[q, 1]) + u[2] * float(C[q, 2])
        equilibrium = W[q] * density * (1.0 + 3.0 * along + 4.5 * along * along - 1.5 * wp.dot(u, u))
        after[q, i, j, k] = f[q] + omega * (equilibrium - f[q])


class Example:
    """The populations of `n` cells in each dimension, and steps of them, `launches` at once."""

    def __init__(self, n: int, launches: int = 10):
        self.n, self.launches = n, launches
        start = np.broadcast_to(np.array(WEIGHTS, np.float32)[:, None, None, None], (19, n, n, n))
        self.now, self.next = (wp.array(start, dtype=float) for _ in range(2))

    def step(self) -> None:
        for _ in range(self.launches):
            wp.launch(step, (self.n, self.n, self.n), [self.now, self.next, self.n, 1.6, 0.05])
            self.now, self.next = self.next, self.now


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=64)
    example = Example(parser.parse_args().cells)
    example.step()
