"""Gradients through unmodified mujoco_warp: gradient descent swings up a cartpole and makes a hopper hop
======================================================================================================

mujoco_warp is written for NVIDIA Warp and has no derivatives. Here its `step` becomes a JAX function:
`wp.functionalize` traces its launches, `jax.lax.scan` repeats them, and `jax.value_and_grad` goes back through all of
them, including the contact solver. The unknowns are the controls: those that bring the pole upright and to rest, and
those that lift the hopper's torso. The pictures show the motion before and after, and the loss.

To run it::

    python examples/mujoco_gradients.py               # writes mujoco_gradients.png
    python examples/mujoco_gradients.py --quick       # a few steps of each search

Needs mujoco-warp, matplotlib, optax and tqdm. The first run compiles the kernels of a step and their adjoints, which
takes a minute or two; they are kept on disk. Lengths are in m, times in s, angles in rad.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure

import jwarp.as_warp  # before anything imports warp  # isort: skip
import drawing
import jwarp as wp
from drawing.robots import CARTPOLE, HOPPER, links, strobe

import mujoco  # isort: skip
import mujoco_warp as mjw  # isort: skip

warnings.filterwarnings("ignore", category=wp.KernelWarning)  # of mujoco_warp's kernels


@dataclass(frozen=True)
class Search:
    """What descent found: the coordinates over time before and after, each loss, and seconds for a gradient."""

    model: mujoco.MjModel
    before: np.ndarray  # (steps, coordinates)
    after: np.ndarray
    losses: np.ndarray
    seconds: float


def rollout_of(xml: str, trips: int) -> tuple[mujoco.MjModel, Callable[[Any], tuple[Any, Any]]]:
    """A model, and the function from controls over time to coordinates and velocities over time.

    The solver has so many iterations at most: a loop with a bound has a gradient in reverse mode.
    """
    model = mujoco.MjModel.from_xml_string(xml)
    state = mujoco.MjData(model)
    mujoco.mj_forward(model, state)
    m, d = mjw.put_model(model), mjw.put_data(model, state)
    step = wp.functionalize(mjw.step, returns="d", max_trips=trips)

    def next_state(carry, control):
        qpos, qvel, warm = carry
        after = step(m, wp.replace(d, qpos=qpos, qvel=qvel, qacc_warmstart=warm, ctrl=control[None]))
        carry = tuple(wp.to_jax(x) for x in (after.qpos, after.qvel, after.qacc_warmstart))
        return carry, (carry[0][0], carry[1][0])

    def rollout(controls):
        start = tuple(wp.to_jax(x) for x in (d.qpos, d.qvel, d.qacc_warmstart))
        return jax.lax.scan(next_state, start, controls)[1]

    return model, rollout


def descend(
    xml: str,
    loss_of: Callable[[Any, Any, Any], Any],
    guess: Callable[[np.ndarray], np.ndarray],
    steps: int,
    searched: int,
    rate: float,
    name: str,
    trips: int = 10,
) -> Search:
    """Look for the controls of some steps by Adam; `guess` gives those at given times to start from."""
    model, rollout = rollout_of(xml, trips)
    times = np.arange(steps) * model.opt.timestep

    def loss(controls):
        squashed = jnp.tanh(controls)  # motors give no more than that
        return loss_of(*rollout(squashed), squashed)

    optimizer = optax.adam(optax.cosine_decay_schedule(rate, searched))
    value_and_grad = jax.jit(jax.value_and_grad(loss))
    controls = jnp.asarray(guess(times), jnp.float32)
    first, held, best = controls, optimizer.init(controls), (np.inf, controls)
    losses, seconds = [], []
    for _ in drawing.progress(range(searched), desc=name, unit=" gradients"):
        began = time.perf_counter()
        value, slope = jax.block_until_ready(value_and_grad(controls))
        seconds.append(time.perf_counter() - began)
        losses.append(float(value))
        best = min(best, (losses[-1], controls), key=lambda found: found[0])
        change, held = optimizer.update(slope / (1.0 + optax.global_norm(slope)), held)
        controls = optax.apply_updates(controls, change)
    move = jax.jit(lambda controls: rollout(jnp.tanh(controls))[0])
    before, after = (np.asarray(move(x)) for x in (first, best[1]))
    return Search(model, before, after, np.array(losses), float(np.median(seconds[1:])))


def upright(qpos: Any, qvel: Any, controls: Any) -> Any:
    """How far the pole is from standing still in the last 0.2 s, and what it costs."""
    (x, angle), (speed, turning) = qpos[-10:].T, qvel[-10:].T
    off = 1.0 + jnp.cos(angle) + 0.02 * turning**2 + 0.2 * x**2 + 0.05 * speed**2
    return jnp.mean(off) + 1e-3 * jnp.mean(controls**2)


def high(qpos: Any, qvel: Any, controls: Any) -> Any:
    """How low the torso will be at most after the last step, how far it has turned or gone, and what it costs."""
    (x, z, angle), (_, rise, turning) = qpos[-1, :3], qvel[-1, :3]
    top = z + 0.5 * rise * jnp.abs(rise) / 9.81
    return -top + 0.3 * angle**2 + 0.03 * turning**2 + 0.3 * x**2 + 1e-3 * jnp.mean(controls**2)


def draw(searches: dict[str, Search], path: Path) -> None:
    """Motions before and after, and losses."""
    figure = Figure(figsize=(11.0, 6.4), dpi=120, layout="constrained")
    rows = figure.subplots(2, 3, width_ratios=(1.0, 1.0, 0.8))
    for (name, found), (left, middle, right) in zip(searches.items(), rows, strict=True):
        for axes, motion, text in ((left, found.before, "before"), (middle, found.after, "after")):
            strobe(axes, [links(found.model, q) for q in motion])
            drawing.titled(axes, f"{name}, {text}", bare=False)
        right.plot(found.losses, color=drawing.INK, linewidth=1.5)
        right.set(xlabel=f"gradients, {1e3 * found.seconds:.0f} ms each", ylabel="loss")
        drawing.titled(right, "Loss")
    figure.savefig(path)


def main(quick: bool = False, out: Path = Path("mujoco_gradients.png")) -> dict[str, Search]:
    """Search, report, draw."""
    few = 3 if quick else 1
    searches = {
        "Cartpole": descend(
            CARTPOLE,
            upright,
            lambda t: 0.3 * np.sin(5.0 * t)[:, None],
            150 // few,
            6 if quick else 150,
            0.1,
            "cartpole",
        ),
        "Hopper": descend(HOPPER, high, lambda t: np.zeros((len(t), 3)), 60 // few, 6 if quick else 120, 0.1, "hopper"),
    }
    for name, found in searches.items():
        print(
            f"{name}: loss {found.losses[0]:.3f} before, {found.losses.min():.3f} after {len(found.losses)} gradients"
            f" through {len(found.after)} steps, {1e3 * found.seconds:.0f} ms each"
        )
    draw(searches, out)
    print(f"wrote {out}")
    return searches


if __name__ == "__main__":
    drawing.run(main, __doc__, "mujoco_gradients.png")
