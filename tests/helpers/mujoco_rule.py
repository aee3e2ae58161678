"""The gradient of mujoco_warp's constraint solver, from the conditions that its result satisfies."""

from __future__ import annotations

from typing import Any

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
    count, rows, entries = x.shape[1], held.shape[1], len(columns)
    there = jnp.arange(rows) < wp.to_jax(d.nefc)[:, None]
    pushes = (wp.to_jax(after.efc.state)[:, :rows] == QUADRATIC) & there
    row = jnp.searchsorted(start, jnp.arange(entries), side="right") - 1

    M, J, D, aref = (wp.to_jax(_of(d, name)) for name in ("M", "efc.J", "efc.D", "efc.aref"))
    dense = jnp.zeros((len(x), count, count)).at[:, row, columns].set(M[:, :entries])
    dense = dense.at[:, columns, row].set(M[:, :entries])
    J = jnp.where(there[..., None], J[:, :rows, :count], 0.0)
    D, aref = jnp.where(pushes, D[:, :rows], 0.0), aref[:, :rows]
    force = jnp.where(pushes, -D * (_times(J, x) - aref), jnp.where(there, held, 0.0))

    # The solver leaves M x and Jᵀ f in arrays, through which the result has effects of its own.
    by_pull, by_inertia = wp.to_jax(flowing.qfrc_constraint), wp.to_jax(flowing.efc.Ma)
    stiff = jnp.einsum("wri,wr,wrj->wij", J, D, J)
    wanted = wp.to_jax(flowing.qacc) - _times(stiff, by_pull) + _times(dense, by_inertia)
    y = jnp.linalg.solve(dense + stiff, wanted[..., None])[..., 0]

    # Cotangents of Jᵀ f, M x and f, and so of what they are made of.
    pull, inertia = y + by_pull, by_inertia - y
    f = _times(J, pull)
    full = inertia[:, row] * x[:, columns]
    full += jnp.where(row != columns, inertia[:, columns] * x[:, row], 0.0)
    slope = jnp.einsum("wr,wi->wri", force, pull) - jnp.einsum("wr,wi->wri", D * f, x)
    for name, gradient in {
        "M": full,
        "qfrc_smooth": y,
        "efc.J": slope,
        "efc.D": jnp.where(pushes, -f * (_times(J, x) - aref), 0.0),
        "efc.aref": D * f,
    }.items():
        array = _of(flowing, name)
        before = wp.to_jax(array)
        array.assign(before.at[tuple(map(slice, gradient.shape))].add(gradient))
    written = flowing.qacc, flowing.qfrc_constraint, flowing.efc.force, flowing.efc.Ma
    for array in (*written, flowing.qacc_warmstart):
        array.zero_()


def _times(matrix: Any, vector: Any) -> Any:
    return jnp.einsum("wij,wj->wi", matrix, vector)


def _of(d: Any, name: str) -> Any:
    for part in name.split("."):
        d = getattr(d, part)
    return d
