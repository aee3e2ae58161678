"""The gradient of mujoco_warp's constraint solver, from the conditions that its result meets."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import jwarp as wp

QUADRATIC = 1  # the state of a constraint whose force is in proportion to how far it is violated


def implicit(inputs: Any, outputs: Any, cotangents: Any) -> None:
    """With x = qacc: M x = qfrc_smooth + Jᵀ f, f = -D (J x - aref) where a constraint pushes or pulls.

    So dx = -H⁻¹ dr, where r is the difference of the two sides and H = M + Jᵀ D J over those constraints. For
    `solver.solve(m, d)` with dense Jacobians and pyramidal friction cones.
    """
    (m, d), (_, after), (_, flowing) = inputs, outputs, cotangents
    x, start, columns = (wp.to_jax(a) for a in (after.qacc, m.M_rowadr, m.M_colind))
    held = wp.to_jax(after.efc.force)
    count, rows = x.shape[1], held.shape[1]
    pushes = wp.to_jax(after.efc.state)[:, :rows] == QUADRATIC
    pushes &= jnp.arange(rows) < wp.to_jax(d.nefc)[:, None]
    number = jnp.arange(len(columns))
    row = jnp.searchsorted(start, number, side="right") - 1

    def parts(M: Any, smooth: Any, J: Any, D: Any, aref: Any, x: Any) -> tuple[Any, Any, Any]:
        """r, and what it is made of that the solver leaves in arrays: Jᵀ f and M x."""
        dense = jnp.zeros((len(x), count, count)).at[:, row, columns].set(M[:, : len(columns)])
        dense = dense.at[:, columns, row].set(M[:, : len(columns)])
        J = J[:, :rows, :count]
        force = jnp.where(pushes, -D[:, :rows] * (jnp.einsum("wij,wj->wi", J, x) - aref[:, :rows]), held)
        pull = jnp.einsum("wij,wi->wj", J, jnp.where(jnp.arange(rows) < wp.to_jax(d.nefc)[:, None], force, 0.0))
        inertial = jnp.einsum("wij,wj->wi", dense, x)
        return inertial - smooth - pull, pull, inertial

    arrays = ("M", "qfrc_smooth", "efc.J", "efc.D", "efc.aref")
    values = [wp.to_jax(_of(d, name)) for name in arrays]
    (r, *_), back = jax.vjp(parts, *values, x)
    left = wp.to_jax(flowing.qfrc_constraint), wp.to_jax(flowing.efc.Ma)
    wanted = wp.to_jax(flowing.qacc) + back((jnp.zeros_like(r), *left))[-1]
    H = _hessian(parts, values, x)
    gradients = back((-jnp.linalg.solve(H, wanted[..., None])[..., 0], *left))
    for name, gradient in zip(arrays, gradients[:-1], strict=True):
        array = _of(flowing, name)
        array.assign(wp.to_jax(array) + gradient)
    written = flowing.qacc, flowing.qfrc_constraint, flowing.efc.force, flowing.efc.Ma
    for array in (*written, flowing.qacc_warmstart):
        array.zero_()


def _of(d: Any, name: str) -> Any:
    for part in name.split("."):
        d = getattr(d, part)
    return d


def _hessian(parts: Any, values: Any, x: Any) -> Any:
    """∂r/∂x of each world: its columns are what r changes by along each coordinate."""
    ones = jnp.eye(x.shape[1])
    along = jax.vmap(lambda e: jax.jvp(lambda x: parts(*values, x)[0], (x,), (jnp.broadcast_to(e, x.shape),))[1])
    return jnp.moveaxis(along(ones), 0, -1)
