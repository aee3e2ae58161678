"""Derivatives of a step of mujoco_warp, as functions of JAX, and what MuJoCo C has for them in double."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FREE, BALL, SLIDE, HINGE = range(4)  # types of joints


def turned(q: Any, w: Any) -> Any:
    """A quaternion after a small turn w in its own frame: to first order in w."""
    a, b, c, d = q
    x, y, z = 0.5 * w
    return q + jnp.array([-b * x - c * y - d * z, a * x - d * y + c * z, d * x + a * y - b * z, -c * x + b * y + a * z])


def turn(q: Any, r: Any) -> Any:
    """The small turn in its own frame that leads from a quaternion r to q: to first order."""
    a, b, c, d = r
    rows = jnp.array([[-b, a, d, -c], [-c, -d, a, b], [-d, c, -b, a]])
    return 2.0 * rows @ q


def _parts(model: Any) -> list[tuple[int, int, int, int]]:
    """For each joint: where its coordinates and velocities begin, how many numbers are added, and whether it turns."""
    kinds = {FREE: (3, 1), BALL: (0, 1), SLIDE: (1, 0), HINGE: (1, 0)}
    return [
        (int(a), int(b), *kinds[int(kind)])
        for a, b, kind in zip(model.jnt_qposadr, model.jnt_dofadr, model.jnt_type, strict=True)
    ]


def moved(model: Any, qpos: Any, by: Any) -> Any:
    """Coordinates after a small motion in tangent coordinates."""
    for a, b, plain, turns in _parts(model):
        qpos = qpos.at[a : a + plain].add(by[b : b + plain])
        if turns:
            qpos = qpos.at[a + plain : a + plain + 4].set(
                turned(qpos[a + plain : a + plain + 4], by[b + plain : b + plain + 3])
            )
    return qpos


def motion(model: Any, qpos: Any, before: Any) -> Any:
    """The small motion in tangent coordinates that leads from `before` to `qpos`."""
    found = []
    for a, _, plain, turns in _parts(model):
        found.append(qpos[a : a + plain] - before[a : a + plain])
        if turns:
            found.append(turn(qpos[a + plain : a + plain + 4], before[a + plain : a + plain + 4]))
    return jnp.concatenate(found)


def step_in_tangents(model: Any, data: Any, m: Any, d: Any, steps: int = 1, **options: Any) -> tuple[Any, Any]:
    """The state after some steps as a function of a small change of state and control, and the zeros to take it at."""
    import mujoco_warp as mjw

    import jwarp as wp

    step = wp.functionalize(mjw.step, returns="d", **options)
    q, v, u = (jnp.asarray(x, jnp.float32) for x in (data.qpos, data.qvel, data.ctrl))

    def after(z: Any) -> tuple[Any, Any]:
        dq, dv, du = jnp.split(z, [model.nv, 2 * model.nv])
        d_next = wp.replace(d, qpos=moved(model, q, dq)[None], qvel=(v + dv)[None], ctrl=(u + du)[None])
        if steps > 1:
            d_next = jax.lax.scan(lambda d, _: (step(m, d), None), d_next, length=steps - 1)[0]
        d_next = step(m, d_next)
        return wp.to_jax(d_next.qpos)[0], wp.to_jax(d_next.qvel)[0]

    zeros = jnp.zeros(2 * model.nv + model.nu)
    end, _ = jax.jit(after)(zeros)

    def f(z: Any) -> Any:
        qpos, qvel = after(z)
        return jnp.concatenate([motion(model, qpos, end), qvel])

    return f, zeros


def sensors_in_tangents(model: Any, data: Any, m: Any, d: Any) -> tuple[Any, Any]:
    """The sensors of a step as a function of a small change of state and control, and the zeros to take it at."""
    import mujoco_warp as mjw

    import jwarp as wp

    step = wp.functionalize(mjw.step, returns="d")
    q, v, u = (jnp.asarray(x, jnp.float32) for x in (data.qpos, data.qvel, data.ctrl))

    def seen(z: Any) -> Any:
        dq, dv, du = jnp.split(z, [model.nv, 2 * model.nv])
        found = step(m, wp.replace(d, qpos=moved(model, q, dq)[None], qvel=(v + dv)[None], ctrl=(u + du)[None]))
        return wp.to_jax(found.sensordata)[0]

    return seen, jnp.zeros(2 * model.nv + model.nu)


def sensors_of_mujoco(model: Any, data: Any) -> np.ndarray:
    """∂(sensors of a step)/∂(state, control) by MuJoCo C's differences in double."""
    import mujoco

    c = np.zeros((model.nsensordata, 2 * model.nv + model.na))
    d = np.zeros((model.nsensordata, model.nu))
    mujoco.mjd_transitionFD(model, data, 1e-6, True, None, None, c, d)
    return np.concatenate([c[:, : 2 * model.nv], d], axis=1)


def of_mujoco(model: Any, data: Any, steps: int = 1) -> np.ndarray:
    """∂(state after some steps)/∂(state, control) by MuJoCo C's differences in double, the control being the same."""
    import mujoco

    size = 2 * model.nv + model.na  # with the activations, which begin the same
    found = np.zeros((size, size + model.nu))
    found[:, :size] = np.eye(size)
    for _ in range(steps):
        a, b = np.zeros((size, size)), np.zeros((size, model.nu))
        mujoco.mjd_transitionFD(model, data, 1e-6, True, a, b, None, None)
        found = a @ found
        found[:, size:] += b
        mujoco.mj_step(model, data)
    return np.delete(found[: 2 * model.nv], np.arange(2 * model.nv, size), axis=1)
