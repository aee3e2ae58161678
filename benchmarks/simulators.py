"""mujoco_warp's humanoid in many worlds: a jitted step, Warp's CPU run, MuJoCo C's rollout; and gradients of a rollout.

Each library has a process of its own: `python benchmarks/simulators.py [--worlds 1024] [--steps 10]`. Times are those
of a step of all worlds, by the clock and of all processors together; Warp's CPU run uses one processor.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Instead of this folder, where another mujoco_warp is.
sys.path[0] = str(Path(__file__).resolve().parents[1] / "tests" / "helpers")
TRIES = 3
ROLLOUT = 50  # steps of the rollout that has a gradient


def measured(what: str, run: Callable[[], Any], steps: int) -> None:
    """Print the shortest time of a step, after one run that warms up."""
    run()
    tries = []
    for _ in range(TRIES):
        clock, processors = time.perf_counter(), time.process_time()
        run()
        tries.append((time.perf_counter() - clock, time.process_time() - processors))
    clock, processors = (1e3 * min(column) / steps for column in zip(*tries, strict=True))
    print(f"{what:44s} {clock:9.2f} ms  {processors:9.2f} ms of processors", flush=True)


def disturbed(d: Any) -> None:
    """Every world is another one."""
    rng = np.random.default_rng(0)
    for x, size in ((d.qpos, 0.01), (d.ctrl, 0.3)):
        x.assign(x.numpy() + (size * rng.normal(size=x.shape)).astype(np.float32))


def of_warp(worlds: int, steps: int) -> None:
    """mujoco_warp as it is meant to run."""
    import mujoco_models
    import mujoco_warp as mjw

    model, data = mujoco_models.load("humanoid")
    m, d = mjw.put_model(model), mjw.put_data(model, data, nworld=worlds)
    disturbed(d)

    def run() -> None:
        for _ in range(steps):
            mjw.step(m, d)

    measured(f"Warp, {worlds} humanoids", run, steps)


def of_mujoco(worlds: int, steps: int) -> None:
    """MuJoCo C's own rollout, on two threads."""
    import mujoco
    import mujoco.rollout
    import mujoco_models

    model, data = mujoco_models.load("humanoid")
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    state = np.zeros(mujoco.mj_stateSize(model, kind))
    mujoco.mj_getState(model, data, state, kind)
    controls = np.broadcast_to(
        0.3 * np.random.default_rng(0).normal(size=(worlds, 1, model.nu)), (worlds, steps, model.nu)
    )
    with mujoco.rollout.Rollout(nthread=2) as pool:
        own = [mujoco.MjData(model) for _ in range(2)]
        measured(
            f"MuJoCo C, {worlds} humanoids",
            lambda: pool.rollout(model, own, np.tile(state, (worlds, 1)), controls),
            steps,
        )


def of_jwarp(worlds: int, steps: int) -> None:
    """The same as a loop of JAX, and value and gradient of a rollout of one world."""
    import jwarp.as_warp  # noqa: I001
    import jax
    import jax.numpy as jnp
    import mujoco_models
    import mujoco_warp as mjw

    import jwarp as wp

    model, data = mujoco_models.load("humanoid")
    m, d = mjw.put_model(model), mjw.put_data(model, data, nworld=worlds)
    disturbed(d)
    step = wp.functionalize(mjw.step, returns="d")
    began = time.perf_counter()
    loop = jax.jit(lambda d: jax.lax.scan(lambda d, _: (step(m, d), None), d, length=steps)[0])
    measured(f"jwarp, {worlds} humanoids", lambda: jax.block_until_ready(loop(d)), steps)
    began = time.perf_counter()
    jax.make_jaxpr(lambda d: wp.functionalize(mjw.step, returns="d")(m, d).qpos)(d)
    print(f"jwarp, tracing a step once more              {1e3 * (time.perf_counter() - began):9.2f} ms", flush=True)

    bounded = wp.functionalize(mjw.step, returns="d", max_trips=model.opt.iterations)
    one = mjw.put_data(model, data)
    start = tuple(wp.to_jax(x) for x in (one.qpos, one.qvel, one.qacc_warmstart))

    def value(controls: Any) -> Any:
        def trip(state: Any, control: Any) -> tuple[Any, None]:
            q, v, warm = state
            after = bounded(m, wp.replace(one, qpos=q, qvel=v, qacc_warmstart=warm, ctrl=control[None]))
            return tuple(wp.to_jax(x) for x in (after.qpos, after.qvel, after.qacc_warmstart)), None

        return jax.lax.scan(trip, start, controls)[0][0][0, 2]

    controls = jnp.zeros((ROLLOUT, model.nu))
    for what, f in (("value of", value), ("value and gradient of", jax.value_and_grad(value))):
        g = jax.jit(f)
        measured(f"jwarp, {what} {ROLLOUT} steps", lambda g=g: jax.block_until_ready(g(controls)), 1)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


CONTENDERS = {"warp": of_warp, "mujoco": of_mujoco, "jwarp": of_jwarp}


def main() -> None:
    """Run all, or `--only` one in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only", choices=CONTENDERS)
    given = parser.parse_args()
    if given.only:
        CONTENDERS[given.only](given.worlds, given.steps)
        return
    for name in CONTENDERS:
        with tempfile.TemporaryDirectory() as folder:  # MuJoCo writes its log to where it starts
            numbers = ["--worlds", str(given.worlds), "--steps", str(given.steps)]
            command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--only", name, *numbers]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        print("".join(line for line in done.stdout.splitlines(True) if " ms" in line or "memory" in line), end="")
        if done.returncode:
            print(f"{name}: {done.stderr[-2000:]}")


if __name__ == "__main__":
    main()
