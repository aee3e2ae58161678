"""A step of mujoco_warp under JAX: derivatives by parameters, batches, export, sharding, rules."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Arrays of a model, and the entries of which a derivative is taken.
PARAMETERS = {
    "cartpole": {"body_mass": 2, "jnt_stiffness": 1, "dof_damping": 0, "actuator_gear": 0},
    "sphere that slides": {"body_mass": 1, "geom_friction": 1},
}


def by_parameters(mjm: Any, mjd: Any, m: Any, d: Any, name: str) -> dict[str, list[float]]:
    """The relative errors of ∂(velocities after a step)/∂(a parameter): against differences of mujoco_warp itself, and
    against those of MuJoCo C in double.

    The second ones say nothing of the mass of a free body: where its array of masses of subtrees is not made anew,
    mujoco_warp and MuJoCo do not mean the same.
    """
    import mujoco
    import mujoco_warp as mjw

    import jwarp as wp

    places = PARAMETERS[name]
    step = wp.functionalize(mjw.step, returns="d", max_trips=mjm.opt.iterations)

    def after(values: dict[str, Any]) -> Any:
        return wp.to_jax(step(wp.replace(m, **values), d).qvel)[0]

    values = {key: wp.to_jax(getattr(m, key)) for key in places}
    found = jax.jit(jax.jacrev(after))(values)
    run = jax.jit(after)
    errors = {}

    def error(mine: Any, ends: list[Any], h: float) -> float:
        wanted = (np.asarray(ends[0], float) - np.asarray(ends[1], float)) / (2 * h)
        assert np.abs(wanted).max() > 1e-6
        return float(np.abs(mine - wanted).max() / np.abs(wanted).max())

    for key, at in places.items():
        array = getattr(mjm, key)
        array = array.reshape(len(array), -1)[:, 0]
        before, ends = array[at], []
        h = 1e-6 * max(1.0, abs(before))
        for sign in (1, -1):
            array[at] = before + sign * h
            moved = mujoco.MjData(mjm)
            moved.qpos[:], moved.qvel[:], moved.ctrl[:] = mjd.qpos, mjd.qvel, mjd.ctrl
            moved.qacc_warmstart[:] = mjd.qacc_warmstart
            mujoco.mj_step(mjm, moved)
            ends.append(moved.qvel.copy())
        array[at] = before
        mine = np.asarray(found[key])[:, 0, at]
        mine = mine.reshape(len(mine), -1)[:, 0]
        place = (0, at, *(0 for _ in values[key].shape[2:]))
        wide = 0.02 * abs(before)
        own = [run({**values, key: values[key].at[place].add(sign * wide)}) for sign in (1, -1)]
        errors[key] = [error(mine, own, wide), error(mine, ends, h)]
    return errors


def transforms(mjm: Any, mjd: Any, m: Any, d: Any, many: Any) -> dict[str, float]:
    """How far a batch by vmap is from mujoco_warp's own worlds, and what export and shards give from that batch."""
    import mujoco_warp as mjw

    import jwarp as wp

    worlds = many.nworld
    rng = np.random.default_rng(2)
    q = (mjd.qpos + 0.1 * rng.normal(size=(worlds, mjm.nq))).astype(np.float32)
    v = (mjd.qvel + 0.1 * rng.normal(size=(worlds, mjm.nv))).astype(np.float32)
    many.qpos.assign(q)
    many.qvel.assign(v)
    mjw.step(m, many)
    step = wp.functionalize(mjw.step, returns="d")

    def one(q: Any, v: Any) -> tuple[Any, Any]:
        after = step(m, wp.replace(d, qpos=q[None], qvel=v[None]))
        return wp.to_jax(after.qpos)[0], wp.to_jax(after.qvel)[0]

    batch = jax.jit(jax.vmap(one))
    by_vmap = batch(q, v)
    exported = jax.export.deserialize(jax.export.export(batch, disabled_checks=wp.EXPORT_CHECKS)(q, v).serialize())
    mesh = jax.make_mesh((2,), ("worlds",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.sharding.PartitionSpec("worlds")
    whole = jax.shard_map(jax.vmap(one), mesh=mesh, in_specs=split, out_specs=split)
    sharded = jax.jit(whole)
    launches = [
        str(jax.make_jaxpr(f)(*x)).count("jwarp_launch[") for f, x in ((jax.vmap(one), (q, v)), (one, (q[0], v[0])))
    ]
    assert launches[0] == launches[1] > 30, "a batch is a launch for each launch"

    def apart(found: tuple[Any, Any], wanted: tuple[Any, Any]) -> float:
        return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in zip(found, wanted, strict=True))

    return {
        "worlds": apart(by_vmap, (many.qpos.numpy(), many.qvel.numpy())),
        "export": apart(exported.call(q, v), by_vmap),
        "shards": apart(sharded(jnp.asarray(q), jnp.asarray(v)), by_vmap),
    }


def solver_prices(m: Any, d: Any, ways: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Processor time in ms of the constraint solver alone, and of it with its gradient in each of some ways."""
    import mujoco_warp as mjw
    from mujoco_warp._src import solver

    import jwarp as wp

    mjw.forward(m, d)
    given = {"qfrc_smooth": d.qfrc_smooth, "M": d.M}
    of_constraints = {"J": d.efc.J, "D": d.efc.D, "aref": d.efc.aref}
    values = [{k: wp.to_jax(x) for k, x in part.items()} for part in (given, of_constraints)]
    run = {}
    for way, options in {"value": {}, **ways}.items():
        solve = wp.functionalize(solver.solve, returns="d", **options)

        def total(given: Any, of_constraints: Any, solve: Any = solve) -> Any:
            after = solve(m, wp.replace(d, efc=wp.replace(d.efc, **of_constraints), **given))
            return jnp.sum(wp.to_jax(after.qacc) * jnp.arange(1.0, 1.0 + m.nv))

        function = jax.grad(total, argnums=(0, 1)) if options else total
        run[way] = jax.jit(function).lower(*values).compile()
    least = dict.fromkeys(run, float("inf"))
    for _ in range(20):
        for way, function in run.items():
            began = time.process_time()
            for _ in range(10):
                jax.block_until_ready(function(*values))
            least[way] = min(least[way], 100 * (time.process_time() - began))
    return least
