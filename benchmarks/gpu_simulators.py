"""mujoco_warp on a GPU, as a function of JAX and on Warp itself: states, steps a second, and gradients.

    python benchmarks/gpu_simulators.py                         # all of it, on a machine with a GPU
    python benchmarks/gpu_simulators.py --only cpu --reference cpu.npz    # what the CPU finds, on any machine
    python benchmarks/gpu_simulators.py --reference cpu.npz     # compares with that
    JWARP_CUDA_ARCH=sm_90 python benchmarks/gpu_simulators.py --only lower    # compiles all for a GPU, without one
    JAX_PLATFORMS=cpu python benchmarks/gpu_simulators.py --worlds 1,16   # tries the program without a GPU

Each library has a process of its own. jwarp's step is a jitted `lax.scan`, Warp's is captured as a CUDA graph and
launched again and again, as mujoco_warp's own `testspeed` does. Worlds start differently, and the first of them start
as the CPU's do. What the CPU finds is there twice: how far it goes from a start that is 1e-7 away says how near others
have to come, which is twice as near in the tests of states.

A row that fails says why, and the next one runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

# Instead of this folder, where another mujoco_warp is.
sys.path[0] = str(Path(__file__).resolve().parents[1] / "tests" / "helpers")
CHUNK = 20  # steps of a call
STEPS = 100
KEPT = 16  # worlds that are compared
TRIES = 4  # starts near each of them
ROLLOUT = 10  # steps of a rollout that has a gradient
SINGLE = ("pendulum", "hopper", "quadruped", "humanoid")  # one world of each
MANY = ("hopper", "humanoid")
GRADIENTS = ("hopper", "humanoid")


def rows(given: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Which models run, and in how many worlds."""
    yield from ((name, 1) for name in SINGLE if name in given.models)
    yield from ((name, n) for n in given.worlds if n > 1 for name in MANY if name in given.models)


def started(name: str, nworld: int, near: int = 0) -> tuple[Any, Any, Any]:
    """MuJoCo's model, and mujoco_warp's model and state: worlds that differ, the same at each call.

    With `near`, that many worlds follow for each of `nworld`, which start 1e-7 from it.
    """
    import mujoco_models
    import mujoco_warp as mjw

    model, data = mujoco_models.load(name)
    m, d = mjw.put_model(model), mjw.put_data(model, data, nworld=nworld * (1 + near))
    for seed, (x, size) in enumerate(((d.qpos, 0.01), (d.qvel, 0.01), (d.ctrl, 0.1))):
        start = x.numpy()[:nworld]
        start = (start + size * np.random.default_rng(seed).normal(size=start.shape)).astype(np.float32)
        x.assign(np.concatenate([start, nearby(np.concatenate([start] * near), seed)]) if near else start)
    return model, m, d


def nearby(x: np.ndarray, seed: int) -> np.ndarray:
    """Numbers 1e-7 away."""
    signs = np.random.default_rng(100 + seed).choice([-1, 1], x.shape)
    return (x * (1 + 1e-7 * signs) + 1e-7 * signs).astype(np.float32)


def state(d: Any) -> np.ndarray:
    """Coordinates and velocities, a row for each world."""
    return np.concatenate([d.qpos.numpy(), d.qvel.numpy()], axis=1)


def guarded(what: str, run: Callable[[], str]) -> None:
    """Print a row, or why there is none."""
    began = time.perf_counter()
    try:
        said = run()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        said = f"FAILED {type(error).__name__}: " + " / ".join(lines[:4])[:600]
    print(f"row | {what} | {said} | {time.perf_counter() - began:.1f} s in all", flush=True)


def compared(found: np.ndarray, reference: dict[str, np.ndarray], key: str) -> str:
    """How far from the CPU's something is, and what a start that is 1e-7 away makes of that."""
    if key not in reference:
        return "no reference"
    wanted, apart = reference[key], float(reference[f"{key}, apart"])
    count = min(len(found), len(wanted))
    error = float(np.abs(found[:count] - wanted[:count]).max())
    verdict = "agrees" if error <= 2 * apart else "DIFFERS"
    return f"{verdict} ({error:.1e}, 1e-7 makes {apart:.1e}, largest {np.abs(wanted[:count]).max():.1e})"


def spread(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What worlds find, and how far from them those near them are at most."""
    own, near = x[:KEPT], x[KEPT:].reshape(TRIES, KEPT, *x.shape[1:])
    return own, np.abs(near - own).max()


def loop_of(m: Any) -> Callable[[Any], Any]:
    """Some steps, jitted."""
    import jax
    import mujoco_warp as mjw

    import jwarp as wp

    step = wp.functionalize(mjw.step, returns="d")
    return jax.jit(lambda d: jax.lax.scan(lambda d, _: (step(m, d), None), d, length=CHUNK)[0])


def gradient_of(name: str, model: Any, m: Any, d: Any, unrolled: bool = False) -> Callable[[Any], Any]:
    """Value and gradient, by controls over time, of a sum over coordinates after a rollout; and each world's part."""
    import jax
    import jax.numpy as jnp
    import mujoco_warp as mjw
    from mujoco_rule import implicit
    from mujoco_warp._src import solver

    import jwarp as wp

    options = {"max_trips": model.opt.iterations} if unrolled else {"custom_vjp": {solver.solve: implicit}}
    step = wp.functionalize(mjw.step, returns="d", **options)
    start = tuple(wp.to_jax(x) for x in (d.qpos, d.qvel, d.qacc_warmstart))
    weights = jnp.asarray(np.random.default_rng(7).normal(size=start[0].shape[1]).astype(np.float32))

    def value(controls: Any) -> tuple[Any, Any]:
        def trip(state: Any, control: Any) -> tuple[Any, None]:
            q, v, warm = state
            after = step(m, wp.replace(d, qpos=q, qvel=v, qacc_warmstart=warm, ctrl=control))
            return tuple(wp.to_jax(x) for x in (after.qpos, after.qvel, after.qacc_warmstart)), None

        found = jax.lax.scan(trip, start, controls)[0][0] @ weights
        return found.sum(), found

    return jax.jit(jax.value_and_grad(value, has_aux=True))


def controls_of(d: Any) -> np.ndarray:
    """The controls of a rollout: those that the worlds start with, all the time."""
    return np.broadcast_to(d.ctrl.numpy(), (ROLLOUT, *d.ctrl.shape)).copy()


def found_by(gradient: Callable[[Any], Any], controls: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values of worlds, and gradients as a row for each world."""
    (_, value), slope = gradient(controls)
    slope = np.asarray(slope)
    return np.asarray(value), np.moveaxis(slope, 1, 0).reshape(slope.shape[1], -1)


def of_cpu(given: argparse.Namespace) -> None:
    """What the CPU finds, for others to be compared with."""
    import jax

    known: dict[str, Any] = {}
    for name in dict.fromkeys((*SINGLE, *MANY)):
        _, m, d = started(name, KEPT, TRIES)
        loop = loop_of(m)
        for steps in range(CHUNK, STEPS + 1, CHUNK):
            d = jax.block_until_ready(loop(d))
            if steps in (CHUNK, STEPS):
                key = f"{name} after {steps} steps"
                known[key], known[f"{key}, apart"] = spread(state(d))
        print(f"{name}: states", flush=True)
    for name in GRADIENTS:
        model, m, d = started(name, KEPT, TRIES)
        value, slope = found_by(gradient_of(name, model, m, d), controls_of(d))
        for key, x in ((f"{name}, values", value), (f"{name}, gradients", slope)):
            known[key], known[f"{key}, apart"] = spread(x)
        print(f"{name}: gradients", flush=True)
    np.savez_compressed(given.reference, **known)


def of_jwarp(given: argparse.Namespace) -> None:
    """States, speed and gradients of jwarp's program, where JAX runs."""
    import jax

    reference = dict(np.load(given.reference))
    print(f"jwarp on {jax.devices()[0].device_kind}, jax {jax.__version__}")

    def rollout(name: str, worlds: int) -> str:
        began = time.perf_counter()
        _, m, d = started(name, worlds)
        loop = loop_of(m)
        made = time.perf_counter()
        lowered = loop.lower(d)
        text = time.perf_counter()
        compiled = lowered.compile()
        ready = time.perf_counter()
        said = []
        for steps in range(CHUNK, STEPS + 1, CHUNK):
            d = compiled(d)
            if steps in (CHUNK, STEPS):
                said.append(f"{steps} steps: " + compared(state(d), reference, f"{name} after {steps} steps"))
        seconds = timed(lambda: jax.block_until_ready(ended(compiled, d)), given.tries)
        times = f"put {made - began:.1f} s, lowered {text - made:.1f} s, XLA {ready - text:.1f} s"
        return f"{speed(seconds, worlds)} | {'; '.join(said)} | {times}"

    def ended(step: Callable[[Any], Any], d: Any) -> Any:
        for _ in range(STEPS // CHUNK):
            d = step(d)
        return d

    def gradient(name: str, worlds: int, unrolled: bool) -> str:
        model, m, d = started(name, worlds)
        began = time.perf_counter()
        lowered = gradient_of(name, model, m, d, unrolled).lower(controls_of(d))
        text = time.perf_counter()
        compiled = lowered.compile()
        ready = time.perf_counter()
        controls = jax.device_put(controls_of(d))
        value, slope = found_by(compiled, controls)
        said = [compared(x, reference, f"{name}, {what}") for what, x in (("values", value), ("gradients", slope))]
        seconds = timed(lambda: jax.block_until_ready(compiled(controls)), given.tries)
        times = f"lowered {text - began:.1f} s, XLA {ready - text:.1f} s"
        return f"{1e3 * seconds:.2f} ms a gradient | values: {said[0]}; gradients: {said[1]} | {times}"

    every_row(given, rollout, gradient)


def of_lowering(given: argparse.Namespace) -> None:
    """How long it takes to lower all of it for CUDA, which needs no GPU; compiled kernels are kept on disk."""

    def lowered(function: Callable[[Any], Any], argument: Any) -> str:
        began = time.process_time()
        traced = function.trace(argument)
        made = time.process_time()
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
        calls = text.count("custom_call @")
        lowering = time.process_time() - made
        return f"traced in {made - began:.1f} s, lowered in {lowering:.1f} s of processors, {calls} calls"

    def rollout(name: str, worlds: int) -> str:
        _, m, d = started(name, worlds)
        return lowered(loop_of(m), d)

    def gradient(name: str, worlds: int, unrolled: bool) -> str:
        model, m, d = started(name, worlds)
        return lowered(gradient_of(name, model, m, d, unrolled), controls_of(d))

    every_row(given, rollout, gradient)


def every_row(
    given: argparse.Namespace, rollout: Callable[[str, int], str], gradient: Callable[[str, int, bool], str]
) -> None:
    """Run what there is of jwarp, row by row."""
    for name, worlds in rows(given):
        guarded(f"jwarp, {name}, {worlds} worlds", lambda name=name, worlds=worlds: rollout(name, worlds))
    gradients = [name for name in GRADIENTS if name in given.models]
    for name in gradients:
        for worlds in sorted({1, min(1024, max(given.worlds))}):
            guarded(
                f"jwarp, gradient of {ROLLOUT} steps, {name}, {worlds} worlds",
                lambda name=name, worlds=worlds: gradient(name, worlds, False),
            )
    for name in gradients[:1]:
        guarded(
            f"jwarp, gradient of {ROLLOUT} steps, unrolled solver, {name}, 1 worlds",
            lambda name=name: gradient(name, 1, True),
        )


def of_warp(given: argparse.Namespace) -> None:
    """States and speed of Warp's run; on a GPU as a CUDA graph."""
    import mujoco_warp as mjw
    import warp as wp

    reference = dict(np.load(given.reference))
    print(f"Warp {wp.__version__} on {wp.get_device().name}")

    def rollout(name: str, worlds: int) -> str:
        began = time.perf_counter()
        _, m, d = started(name, worlds)
        mjw.step(m, d)  # which compiles
        wp.synchronize()
        made = time.perf_counter()
        if wp.get_device().is_cuda:
            with wp.ScopedCapture() as capture:
                mjw.step(m, d)
            run = lambda: wp.capture_launch(capture.graph)  # noqa: E731
        else:
            run = lambda: mjw.step(m, d)  # noqa: E731
        said = []
        for k in range(2, STEPS + 1):
            run()
            if k in (CHUNK, STEPS):
                wp.synchronize()
                said.append(f"{k} steps: " + compared(state(d), reference, f"{name} after {k} steps"))
        seconds = timed(lambda: (*(run() for _ in range(STEPS)), wp.synchronize()), given.tries)
        return f"{speed(seconds, worlds)} | {'; '.join(said)} | first step {made - began:.1f} s"

    for name, worlds in rows(given):
        guarded(f"Warp, {name}, {worlds} worlds", lambda name=name, worlds=worlds: rollout(name, worlds))


def timed(run: Callable[[], Any], tries: int) -> float:
    """The shortest time of some tries, after one that warms up."""
    run()
    found = []
    for _ in range(tries):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found)


def speed(seconds: float, worlds: int) -> str:
    """Steps a second of all worlds, and the time of one."""
    return f"{STEPS * worlds / seconds:,.0f} steps/s, {1e3 * seconds / STEPS:.3f} ms a step"


CONTENDERS = {"cpu": of_cpu, "jwarp": of_jwarp, "warp": of_warp, "lower": of_lowering}


def main() -> None:
    """Run all, or `--only` one in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", default="1,1024,8192", help="of the models that run in many")
    parser.add_argument("--models", default=",".join(SINGLE))
    parser.add_argument("--reference", help="a file with what the CPU finds; made if it is left out")
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--only", choices=CONTENDERS)
    given = parser.parse_args()
    if given.only:
        given.worlds, given.models = [int(x) for x in given.worlds.split(",")], given.models.split(",")
        warnings.simplefilter("ignore")
        if given.only != "warp":
            import jwarp.as_warp  # noqa: F401
        CONTENDERS[given.only](given)
        return
    with tempfile.TemporaryDirectory() as folder:  # MuJoCo writes its log to where it starts
        made = given.reference or str(Path(folder) / "cpu.npz")
        for name in (*(() if given.reference else ("cpu",)), "jwarp", "warp"):
            environment = os.environ | ({"JAX_PLATFORMS": "cpu"} if name == "cpu" else {})
            numbers = [
                "--worlds",
                given.worlds,
                "--models",
                given.models,
                "--tries",
                str(given.tries),
                "--reference",
                str(Path(made).resolve()),
            ]
            command = [sys.executable, str(Path(__file__).resolve()), "--only", name, *numbers]
            done = subprocess.run(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"{name} FAILED: {done.stderr[-2000:]}", flush=True)


if __name__ == "__main__":
    main()
