"""A lander finds its thrust: a forward and an adjoint launch, recorded once and replayed on NumPy buffers
=======================================================================================================

The kernel flies a craft for some seconds under gravity, drag and its own thrust, and adds up what is wrong with the
landing: the distance to the pad, the speed there, and the fuel. Two records share their buffers. One launch writes the
path and the cost, the other adds the gradient of the thrust to an array, and plain NumPy takes the step downhill.
Nothing is traced, nothing is copied, and a replay has no argument left to check.

At the end it prints what one step of that loop costs, beside the same by `wp.launch` each time, and beside one jitted
`lax.scan` over `jax.value_and_grad`.

To run it::

    python examples/replay_loop.py                  # writes replay_loop.png
    python examples/replay_loop.py --quick          # fewer steps

Needs matplotlib.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jwarp as wp

GRAVITY = 3.7  # m/s², as on Mars
DRAG = 0.03  # 1/m: what air takes from speed squared
PHASES = 60  # of thrust, each held for STEPS_PER_PHASE steps
STEPS_PER_PHASE = 5
STEP = 0.02  # s
STIFFNESS = 0.2  # 1/s²: how strongly the pad pulls in the cost
FUEL = 2.0e-3  # cost of thrust squared
START = wp.vec4(-30.0, 40.0, 9.0, -2.0)  # m, m, m/s, m/s
LIMIT = 12.0  # m/s²: the strongest thrust


@wp.struct
class Craft:
    drag: float
    gravity: float


@wp.func
def fly(craft: Craft, state: wp.vec4, thrust: wp.vec2, dt: float):
    """Position and velocity one step later (symplectic Euler)."""
    vx, vy = state[2], state[3]
    speed = wp.sqrt(vx * vx + vy * vy + 1.0e-6)
    vx += dt * (thrust[0] - craft.drag * speed * vx)
    vy += dt * (thrust[1] - craft.gravity - craft.drag * speed * vy)
    return wp.vec4(state[0] + dt * vx, state[1] + dt * vy, vx, vy)


@wp.kernel
def land(
    thrust: wp.array[wp.vec2],
    craft: Craft,
    start: wp.vec4,
    dt: float,
    path: wp.array[wp.vec2],
    cost: wp.array[float],
):
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
    x, y, vx, vy = state[0], state[1], state[2], state[3]
    cost[i] = spent + STIFFNESS * (x * x + y * y) + vx * vx + vy * vy


@dataclass(frozen=True)
class Landing:
    """The costs of all steps, and the path (m) at some of them."""

    costs: np.ndarray
    paths: dict[int, np.ndarray]
    thrust: np.ndarray


class Buffers:
    """The NumPy arrays that both records work on."""

    def __init__(self) -> None:
        self.thrust = np.zeros((PHASES, 2), np.float32)
        self.thrust[:, 1] = GRAVITY
        self.path = np.zeros((PHASES, 2), np.float32)
        self.cost = np.zeros(1, np.float32)
        self.adj_thrust = np.zeros((PHASES, 2), np.float32)
        self.one = np.ones(1, np.float32)  # the cotangent of the cost
        self.momentum = np.zeros((PHASES, 2), np.float32)

    @property
    def forward(self) -> dict:
        """The arguments of the launch."""
        craft = Craft(drag=DRAG, gravity=GRAVITY)
        return {"inputs": [self.thrust, craft, START, STEP], "outputs": [self.path, self.cost]}

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


def replayed(buffers: Buffers) -> Callable[[], None]:
    """One step of the loop with two records."""
    forward = wp.launch(land, 1, **buffers.forward, record_cmd=True)
    backward = wp.launch(land, 1, **buffers.forward, **buffers.adjoint, record_cmd=True)

    def step() -> None:
        forward.launch()
        buffers.adj_thrust.fill(0.0)
        backward.launch()
        buffers.descend()

    return step


def launched(buffers: Buffers) -> Callable[[], None]:
    """The same with a launch each time."""

    def step() -> None:
        wp.launch(land, 1, **buffers.forward)
        buffers.adj_thrust.fill(0.0)
        wp.launch(land, 1, **buffers.forward, **buffers.adjoint)
        buffers.descend()

    return step


def jitted(steps: int) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """All steps in one jitted function of the thrust: the thrust they find, and the costs."""
    craft = Craft(drag=DRAG, gravity=GRAVITY)

    def cost(thrust: jax.Array) -> jax.Array:
        _, cost = wp.launch(land, 1, [thrust, craft, START, STEP], [PHASES, 1])
        return cost[0]

    def descend(carried, _):
        thrust, momentum = carried
        value, gradient = jax.value_and_grad(cost)(thrust)
        momentum = 0.9 * momentum - 0.05 * gradient
        return (jnp.clip(thrust + momentum, -LIMIT, LIMIT), momentum), value

    @jax.jit
    def run(thrust: jax.Array) -> tuple[jax.Array, jax.Array]:
        (thrust, _), costs = jax.lax.scan(descend, (thrust, jnp.zeros_like(thrust)), length=steps)
        return thrust, costs

    return run


def optimise(steps: int, shown: tuple[int, ...]) -> Landing:
    """The loop of two records, whose path is kept at the steps `shown`."""
    buffers = Buffers()
    step, costs, paths = replayed(buffers), np.zeros(steps), {}
    for k in range(steps):
        step()
        costs[k] = buffers.cost[0]
        if k in shown:
            paths[k] = buffers.path.copy()
    return Landing(costs, paths, buffers.thrust)


def seconds_per_step(steps: int) -> dict[str, float]:
    """What one step costs each way (s), the least of five runs taken in turns."""
    ways: dict[str, Callable[[], object]] = {}
    for name, make in (("replayed", replayed), ("wp.launch", launched)):
        step = make(Buffers())
        ways[name] = lambda step=step: [step() for _ in range(steps)]
    run, start = jitted(steps), jnp.asarray(Buffers().thrust)
    ways["one jitted scan"] = lambda: jax.block_until_ready(run(start))
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(6):  # the first compiles
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            best[name] = min(best[name], (time.perf_counter() - begin) / steps)
    return best


def draw(landing: Landing, out: Path) -> None:
    """Paths of some steps, the thrust of the last, and the cost of all."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
    left.axhline(0.0, color="0.6", lw=1)
    shades = np.linspace(0.75, 0.0, len(landing.paths))
    for shade, (step, path) in zip(shades, landing.paths.items(), strict=True):
        left.plot(*np.vstack([START[:2], path]).T, color=(shade, shade, shade), label=f"step {step}")
    *_, last = landing.paths.values()
    left.quiver(*last[::3].T, *-landing.thrust[::3].T, color="tab:orange", angles="xy", width=0.004, scale=60)
    left.plot(0.0, 0.0, "^", color="tab:red", ms=10, label="pad")
    left.set(xlabel="x (m)", ylabel="height (m)", title="paths, and the exhaust of the last", aspect="equal")
    left.legend()
    right.semilogy(landing.costs, color="k")
    right.set(xlabel="step", ylabel="cost", title="what is wrong with the landing")
    figure.savefig(out, dpi=110)


def main(*, quick: bool = False, out: Path = Path("replay_loop.png")) -> tuple[Landing, dict[str, float]]:
    """Run the example; what was found, and what a step costs each way (s)."""
    steps = 150 if quick else 300
    shown = (0, 6, 12, 24, steps - 1)
    landing = optimise(steps, shown)
    final = landing.paths[steps - 1][-1]
    print(f"after {steps} steps the craft stands {np.hypot(*final):.2f} m from the pad, at a cost of "
          f"{landing.costs[-1]:.3f} instead of {landing.costs[0]:.0f}")  # fmt: skip
    costs = seconds_per_step(100 if quick else 500)
    for name, seconds in costs.items():
        print(f"{name:16} {seconds * 1e6:7.1f} µs per step: a launch, its adjoint, and the step downhill")
    draw(landing, out)
    print(f"wrote {out}")
    return landing, costs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--out", type=Path, default=Path("replay_loop.png"), help="where the picture goes")
    given = parser.parse_args()
    main(quick=given.quick, out=given.out)
