"""Runs mujoco_warp in a process of its own, on Warp or on jwarp: `python mujoco_runs.py (warp|jwarp) JOB MODEL …`.

What a job finds is written as JSON to the last line of the output. MuJoCo writes a log to the folder that it is
started in, which is why `run` starts it in a temporary one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import pytest

STEPS = 100
# The processes of the jobs import it: here it would take 100 MB.
needs_mujoco_warp = pytest.mark.skipif(
    importlib.util.find_spec("mujoco_warp") is None,
    reason="mujoco_warp is not installed: the extra examples has it",
)
long = pytest.mark.skipif(
    os.environ.get("JWARP_SIMULATORS") != "all",
    reason="its kernels compile for minutes where none are kept: JWARP_SIMULATORS=all runs it",
)


def run(library: str, job: str, *models: str, seconds: int = 900) -> dict[str, Any]:
    """The results of a job on models, in a process of its own.

    Compiled kernels are kept from one run of the tests to the next: a step has about a hundred of them.
    """
    kept = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    environment = {**os.environ, "JWARP_CACHE_DIR": os.path.join(kept, "jwarp-simulators"), "PYTHONWARNINGS": "ignore"}
    for name in ("XLA_FLAGS", "JWARP_CPU_LEVEL"):
        environment.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, os.path.abspath(__file__), library, job, *models],
            env=environment, cwd=folder, capture_output=True, text=True, timeout=seconds,
        )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def started(name: str, nworld: int = 1) -> tuple[Any, Any, Any, Any]:
    """MuJoCo's model and state, and mujoco_warp's."""
    import mujoco_models
    import mujoco_warp as mjw

    model, data = mujoco_models.load(name)
    return model, data, mjw.put_model(model), mjw.put_data(model, data, nworld=nworld)


def state(d: Any) -> np.ndarray:
    """Coordinates and velocities of all worlds, one after the other."""
    return np.concatenate([d.qpos.numpy().ravel(), d.qvel.numpy().ravel()])


def states(name: str) -> list[float]:
    """The state after 100 steps, which run one launch after the other."""
    import mujoco_warp as mjw

    mjm, mjd, m, d = started(name)
    for _ in range(STEPS):
        mjw.step(m, d)
    mjw.get_data_into(mjd, mjm, d)
    found = np.concatenate([mjd.qpos, mjd.qvel])
    np.testing.assert_array_equal(found.astype(np.float32), state(d))
    return found.tolist()


def apart(name: str) -> float:
    """How far from each other 100 steps lead from states that are 1e-7 apart: the most of four tries."""
    import mujoco_warp as mjw

    _, _, m, d = started(name, nworld=5)
    rng = np.random.default_rng(1)
    for x in (d.qpos, d.qvel):
        before = x.numpy()
        moved = before * (1 + 1e-7 * rng.choice([-1, 1], before.shape)) + 1e-7 * rng.choice([-1, 1], before.shape)
        moved[0] = before[0]
        x.assign(moved.astype(np.float32))
    for _ in range(STEPS):
        mjw.step(m, d)
    return max(float(np.abs(x - x[0]).max()) for x in (d.qpos.numpy(), d.qvel.numpy()))


def traced(name: str) -> list[float]:
    """The state after 100 steps of a jitted loop."""
    import jax
    import mujoco_warp as mjw

    import jwarp as wp

    _, _, m, d = started(name)
    step = wp.functionalize(mjw.step, returns="d")
    loop = jax.jit(lambda d: jax.lax.scan(lambda d, _: (step(m, d), None), d, length=STEPS)[0])
    return [float(x) for x in state(loop(d))]


def _error(found: Any, wanted: np.ndarray) -> float:
    return float(np.abs(np.asarray(found) - wanted).max() / np.abs(wanted).max())


def forward(name: str) -> float:
    """The error of ∂(state after a step)/∂(state, control) in forward mode, over its largest entry."""
    import jax
    from mujoco_matrices import of_mujoco, step_in_tangents

    mjm, mjd, m, d = started(name)
    f, zeros = step_in_tangents(mjm, mjd, m, d)
    return _error(jax.jit(jax.jacfwd(f))(zeros), of_mujoco(mjm, mjd))


def reverse(name: str, steps: int = 1) -> float:
    """The same in reverse mode, over some steps."""
    import jax
    from mujoco_matrices import of_mujoco, step_in_tangents

    mjm, mjd, m, d = started(name)
    f, zeros = step_in_tangents(mjm, mjd, m, d, steps, max_trips=mjm.opt.iterations)
    return _error(jax.jit(jax.jacrev(f))(zeros), of_mujoco(mjm, mjd, steps))


def sensors(name: str) -> float:
    """The largest error of the derivative of a sensor's number in forward mode, over its largest entry."""
    import jax
    from mujoco_matrices import sensors_in_tangents, sensors_of_mujoco

    mjm, mjd, m, d = started(name)
    f, zeros = sensors_in_tangents(mjm, mjd, m, d)
    found, wanted = np.asarray(jax.jit(jax.jacfwd(f))(zeros)), sensors_of_mujoco(mjm, mjd)
    sizes = np.maximum(np.abs(wanted).max(axis=1), 1e-3)  # the angular momentum of a symmetric body hardly changes
    return float((np.abs(found - wanted).max(axis=1) / sizes).max())


def chained(name: str) -> float:
    """Reverse mode over twenty steps."""
    return reverse(name, 20)


def parameters(name: str) -> dict[str, list[float]]:
    """Errors of derivatives by parameters of a model."""
    from mujoco_jobs import by_parameters

    return by_parameters(*started(name), name)


def transforms(name: str) -> dict[str, float]:
    """The results of vmap, export and shard_map."""
    import jax
    from mujoco_jobs import transforms

    jax.config.update("jax_num_cpu_devices", 2)
    mjm, mjd, m, d = started(name)
    return transforms(mjm, mjd, m, d, started(name, nworld=4)[3])


def rule(name: str) -> dict[str, float]:
    """The implicit rule of the solver against its unrolled gradient: how derivatives of a step differ, and prices.

    The times are those of the solver alone, without and with either gradient.
    """
    import jax
    from mujoco_jobs import solver_prices
    from mujoco_matrices import step_in_tangents
    from mujoco_rule import implicit
    from mujoco_warp._src import solver

    mjm, mjd, m, d = started(name)
    ways = {"unrolled": {"max_trips": mjm.opt.iterations}, "implicit": {"custom_vjp": {solver.solve: implicit}}}
    found = []
    for options in ways.values():
        f, zeros = step_in_tangents(mjm, mjd, m, d, **options)
        found.append(np.asarray(jax.jit(jax.jacrev(f))(zeros)))
    return {"error": _error(found[1], found[0]), **solver_prices(m, d, ways)}


def stopped(name: str) -> list[float]:
    """The largest derivative of a step by stiffness: as it is, and with a kernel or function that none goes through."""
    import jax
    import mujoco_warp as mjw
    from mujoco_warp._src import passive

    import jwarp as wp

    mjm, _, m, d = started(name)
    found = []
    for stop in ([], [passive._spring_damper_dof_passive], [passive.passive]):
        step = wp.functionalize(mjw.step, returns="d", max_trips=mjm.opt.iterations, stop_gradient_in=stop)

        def after(stiffness: Any, step: Any = step) -> Any:
            return wp.to_jax(step(wp.replace(m, jnt_stiffness=stiffness), d).qvel).sum()

        found.append(float(np.abs(jax.jit(jax.grad(after))(wp.to_jax(m.jnt_stiffness))).max()))
    return found


def docs(name: str) -> list[list[int]]:
    """Run the blocks of docs/simulators.md that are about mujoco_warp: the shapes of the derivatives."""
    import re
    from pathlib import Path

    import jax
    import mujoco_rule

    import jwarp as wp

    text = (Path(__file__).parents[2] / "docs" / "simulators.md").read_text()
    first, second = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    mjm, mjd, _, d = started(name)
    known: dict[str, Any] = {"jax": jax, "wp": wp, "mj_model": mjm, "mj_data": mjd, "implicit": mujoco_rule.implicit}
    known |= {"qpos": wp.to_jax(d.qpos), "qvel": wp.to_jax(d.qvel)}
    exec(first + "\nfound = jax.jacrev(next_state, argnums=(0, 1))(qpos, qvel)\n", known)
    shapes = [list(x.shape) for x in jax.tree.leaves(known["found"])]
    exec(second, known)
    by_rule = jax.jacrev(known["next_state"], argnums=(0, 1))(known["qpos"], known["qvel"])
    for a, b in zip(jax.tree.leaves(by_rule), jax.tree.leaves(known["found"]), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3 * float(np.abs(b).max()))
    return shapes


def reference(name: str) -> dict[str, Any]:
    """Warp's stored states."""
    return {"state": states(name), "apart": apart(name)}


def main(library: str, job: str, *models: str) -> None:
    """Run a job of each model, and print what it finds."""
    if library == "jwarp":
        import jwarp.as_warp  # noqa: F401
    import warp

    warp.config.quiet = True
    found = {name: globals()[job](name) for name in models}
    print()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
