"""What JAX does with a step of mujoco_warp: derivatives by parameters, batches, export, sharding, rules."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Arrays of a model, and the entries of which a derivative is taken.
PARAMETERS = {
    "cartpole": {"body_mass": 2, "jnt_stiffness": 1, "dof_damping": 0, "actuator_gear": 0},
    "sphere that slides": {"body_mass": 1, "geom_friction": 1},
}


def by_parameters(mjm: Any, mjd: Any, m: Any, d: Any, name: str) -> dict[str, float]:
    """The error of ∂(velocities after a step)/∂(a parameter) against MuJoCo C's differences in double, relative."""
    import mujoco
    import mujoco_warp as mjw

    import jwarp as wp

    places = PARAMETERS[name]
    step = wp.functionalize(mjw.step, returns="d", max_trips=mjm.opt.iterations)

    def after(values: dict[str, Any]) -> Any:
        return wp.to_jax(step(wp.replace(m, **values), d).qvel)[0]

    found = jax.jit(jax.jacrev(after))({key: wp.to_jax(getattr(m, key)) for key in places})
    errors = {}
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
        wanted = (ends[0] - ends[1]) / (2 * h)
        mine = np.asarray(found[key])[:, 0, at]
        mine = mine.reshape(len(mine), -1)[:, 0]
        assert np.abs(wanted).max() > 1e-6, key
        errors[key] = float(np.abs(mine - wanted).max() / np.abs(wanted).max())
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
    sharded = jax.jit(jax.shard_map(jax.vmap(one), mesh=mesh, in_specs=split, out_specs=split))
    text = str(jax.make_jaxpr(jax.vmap(one))(q, v))
    assert "scan" not in text and "while" not in text.replace("jwarp", ""), "a batch is a launch"

    def apart(found: tuple[Any, Any], wanted: tuple[Any, Any]) -> float:
        return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in zip(found, wanted, strict=True))

    return {
        "worlds": apart(by_vmap, (many.qpos.numpy(), many.qvel.numpy())),
        "export": apart(exported.call(q, v), by_vmap),
        "shards": apart(sharded(jnp.asarray(q), jnp.asarray(v)), by_vmap),
    }
