"""A lander finds its thrust: a forward and an adjoint launch, recorded once and replayed on NumPy arrays
======================================================================================================

The kernel flies a craft for some seconds under gravity, drag and thrust, and sums up the cost of the landing: the
distance to the pad, the final speed, and the fuel. Two records share their arrays. One launch writes the path and the
cost, the other adds the gradient of the thrust to an array, and plain NumPy makes the descent step. Nothing is traced
or copied, and a replay has no argument left to check. At the end, the program prints the time of a step of this loop,
compared with `wp.launch` in each step, and with one jitted `lax.scan` over `jax.value_and_grad`.

To run it::

    python examples/replay_loop.py                  # writes replay_loop.png
    python examples/replay_loop.py --quick          # fewer steps

Needs matplotlib and tqdm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import drawing
import jwarp as wp
from drawing.landing import draw

GRAVITY = 3.7  # m/s², as on Mars
PHASES, STEPS_PER_PHASE, STEP = 60, 5, 0.02  # phases of thrust, steps of each, and s for a step
STIFFNESS, FUEL = 0.2, 2.0e-3  # in the cost: of the squared distance from the pad (1/s²), and of thrust squared
START, LIMIT = wp.vec4(-30.0, 40.0, 9.0, -2.0), 12.0  # m, m, m/s, m/s; and m/s²: the strongest thrust
Vectors = wp.array[wp.vec2]


@wp.struct
class Craft:
    drag: float
    gravity: float


CRAFT = Craft(drag=0.03, gravity=GRAVITY)  # 1/m: what air takes from speed squared; and m/s²


@wp.func
def fly(craft: Craft, state: wp.vec4, thrust: wp.vec2, dt: float):
    """Position and velocity one step later (symplectic Euler)."""
    vx, vy = state[2], state[3]
    speed = wp.sqrt(vx * vx + vy * vy + 1.0e-6)
    vx += dt * (thrust[0] - craft.drag * speed * vx)
    vy += dt * (thrust[1] - craft.gravity - craft.drag * speed * vy)
    return wp.vec4(state[0] + dt * vx, state[1] + dt * vy, vx, vy)


@wp.kernel
def land(thrust: Vectors, craft: Craft, start: wp.vec4, dt: float, path: Vectors, cost: wp.array[float]):
    """One flight by each thread; here there is one."""
    i = wp.tid()
    state = start
    spent = 0.0
    for phase in range(thrust.shape[0]):
        push = thrust[phase]
        spent += FUEL * wp.dot(push, push)
        for _ in range(STEPS_PER_PHASE):
            state = fly(craft, state, push, dt)
        path[phase] = wp.vec2(state[0], state[1])
    place, velocity = wp.vec2(state[0], state[1]), wp.vec2(state[2], state[3])
    cost[i] = spent + STIFFNESS * wp.length_sq(place) + wp.length_sq(velocity)


@dataclass(frozen=True)
class Landing:
    """The costs of all steps, and the path (m) at some of them."""

    costs: np.ndarray
    paths: dict[int, np.ndarray]
    thrust: np.ndarray


class Buffers:
    """The NumPy arrays that both records work on."""

    def __init__(self) -> None:
        self.thrust, self.path, self.adj_thrust, self.momentum = np.zeros((4, PHASES, 2), np.float32)
        self.thrust[:, 1] = GRAVITY
        self.cost = np.zeros(1, np.float32)
        self.one = np.ones(1, np.float32)  # the cotangent of the cost

    @property
    def forward(self) -> dict:
        """The arguments of the launch."""
        return {"inputs": [self.thrust, CRAFT, START, STEP], "outputs": [self.path, self.cost]}

    @property
    def adjoint(self) -> dict:
        """What an adjoint launch takes besides: gradients of the thrust alone."""
        return {"adjoint": True, "adj_inputs": [self.adj_thrust, None, None, None], "adj_outputs": [None, self.one]}

    def descend(self, rate: float = 0.05, memory: float = 0.9) -> None:
        """Gradient descent with momentum, within what the engine can do."""
        self.momentum *= memory
        self.momentum -= rate * self.adj_thrust
        self.thrust += self.momentum
        np.clip(self.thrust, -LIMIT, LIMIT, out=self.thrust)


def loop_of(forward: Callable, backward: Callable, buffers: Buffers) -> Callable[[], None]:
    """One step of the loop."""

    def step() -> None:
        forward()
        buffers.adj_thrust.fill(0.0)
        backward()
        buffers.descend()

    return step


def replayed(buffers: Buffers) -> Callable[[], None]:
    """A step with two records."""
    forward = wp.launch(land, 1, **buffers.forward, record_cmd=True)
    backward = wp.launch(land, 1, **buffers.forward, **buffers.adjoint, record_cmd=True)
    return loop_of(forward.launch, backward.launch, buffers)


def launched(buffers: Buffers) -> Callable[[], None]:
    """The same with a launch each time."""
    forward = partial(wp.launch, land, 1, **buffers.forward)
    return loop_of(forward, partial(forward, **buffers.adjoint), buffers)


def jitted(steps: int) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """All steps in one jitted function of the thrust: the thrust they find, and the costs."""

    def cost(thrust: jax.Array) -> jax.Array:
        return wp.launch(land, 1, [thrust, CRAFT, START, STEP], [PHASES, 1])[1][0]

    def descend(carried, _):
        thrust, momentum = carried
        value, gradient = jax.value_and_grad(cost)(thrust)
        momentum = 0.9 * momentum - 0.05 * gradient
        return (jnp.clip(thrust + momentum, -LIMIT, LIMIT), momentum), value

    def run(thrust: jax.Array) -> tuple[jax.Array, jax.Array]:
        (thrust, _), costs = jax.lax.scan(descend, (thrust, jnp.zeros_like(thrust)), length=steps)
        return thrust, costs

    return jax.jit(run)


def optimise(steps: int, shown: tuple[int, ...]) -> Landing:
    """The loop of two records, whose path is kept at the steps `shown`."""
    buffers = Buffers()
    step, costs, paths = replayed(buffers), np.zeros(steps), {}
    for k in drawing.progress(range(steps), desc="descend", unit=" steps"):
        step()
        costs[k] = buffers.cost[0]
        if k in shown:
            paths[k] = buffers.path.copy()
    return Landing(costs, paths, buffers.thrust)


def seconds_per_step(steps: int) -> dict[str, float]:
    """What one step costs each way (s), the least of five runs taken in turns."""
    by_record, by_launch, run, start = replayed(Buffers()), launched(Buffers()), jitted(steps), Buffers().thrust
    ways: dict[str, Callable[[], object]] = {
        "replayed": lambda: [by_record() for _ in range(steps)],
        "wp.launch": lambda: [by_launch() for _ in range(steps)],
        "one jitted scan": lambda: jax.block_until_ready(run(start)),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in drawing.progress(range(6), desc="measure", unit=" rounds"):  # the first compiles
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            best[name] = min(best[name], (time.perf_counter() - begin) / steps)
    return best


def main(quick: bool = False, out: Path = Path("replay_loop.png")) -> tuple[Landing, dict[str, float]]:
    """Run the example; what was found, and what a step costs each way (s)."""
    steps = 150 if quick else 300
    landing = optimise(steps, shown=(0, 6, 12, 24, steps - 1))
    off, first, last = np.hypot(*landing.paths[steps - 1][-1]), landing.costs[0], landing.costs[-1]
    print(f"{steps} steps: the craft stands {off:.2f} m from the pad, at a cost of {last:.3f} instead of {first:.0f}")
    costs = seconds_per_step(100 if quick else 500)
    for name, seconds in costs.items():
        print(f"{name:16} {seconds * 1e6:7.1f} µs per step: a launch, its adjoint, and the step downhill")
    draw(landing, START[:2], out)
    print(f"wrote {out}")
    return landing, costs


if __name__ == "__main__":
    drawing.run(main, __doc__, "replay_loop.png")
