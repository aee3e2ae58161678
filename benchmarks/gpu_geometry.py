"""Hash grids and meshes on a GPU, beside Warp's: building them, and queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import kernels_geometry
import numpy as np
from gpu_cases import Case, Effort, Row, Way, ratios, to_warp, wait_for_warp, warp, warp_device
from meshes import bumpy_ball

import jwarp

OURS = kernels_geometry.define(jwarp)
NEIGHBOURS = 30


def geometry(effort: Effort) -> Iterator[tuple[str, Callable[[], Row]]]:
    theirs = kernels_geometry.define(warp, **({} if effort.dry else {"module": "unique"})) if warp else None
    count = effort.size(10**6, 500)
    x = jnp.asarray(np.random.default_rng(0).uniform(0, 1, (count, 3)), jnp.float32)
    reach = float((NEIGHBOURS / (4 / 3 * np.pi * count)) ** (1 / 3))
    cells = int(1 / reach) + 1

    def built(x: jax.Array) -> Any:
        grid = jwarp.HashGrid(cells, cells, cells)
        grid.build(x, reach)
        return grid

    def grid_of_warp() -> tuple[Any, Any]:
        points = to_warp(x, warp.vec3)
        made = warp.HashGrid(cells, cells, cells, device=warp_device())
        made.build(points, reach)
        return made, points

    def build_grid() -> Row:
        case = Case(f"hash grid of {count} points, build", effort)
        case.add_jax("jwarp", built, (x,))
        case.ways["jwarp"].results = None  # the two keep different things
        if theirs:
            case.guarded("Warp", builds, case, *grid_of_warp(), reach)
        return row(case)

    def query_grid() -> Row:
        case = Case(f"hash grid of {count} points, {NEIGHBOURS} neighbours", effort, rtol=1e-2, atol=1e-12)
        query = lambda grid, x: jwarp.launch(OURS.density, count, [grid, x, reach], [count])[0]  # noqa: E731
        case.add_jax("jwarp", query, (jax.jit(built)(x), x))
        if theirs:
            made, points = grid_of_warp()
            given = [made.id, points, reach]
            case.guarded("Warp", case.add_warp, theirs.density, count, [given], [(count, float)])
            kept.append(made)
        return row(case)

    kept: list[Any] = []  # Warp frees what nothing refers to
    points, faces = bumpy_ball(int((count / 40) ** 0.5))
    random = np.random.default_rng(1)
    near = jnp.asarray(random.uniform(-1.5, 1.5, (count, 3)), jnp.float32)
    starts = random.normal(size=(count, 3))
    starts = 3 * starts / np.linalg.norm(starts, axis=1, keepdims=True)
    ways = jnp.asarray(0.7 * random.normal(size=starts.shape) - starts, jnp.float32)
    asked = {"closest": (near,), "cast": (jnp.asarray(starts, jnp.float32), ways)}

    def mesh_of_warp() -> Any:
        if not kept or not isinstance(kept[-1], warp.Mesh):
            given = warp.array(points, dtype=warp.vec3, device=warp_device())
            kept.append(warp.Mesh(given, warp.array(faces, dtype=int, device=warp_device())))
        return kept[-1]

    def build_mesh() -> Row:
        case = Case(f"mesh of {len(faces) // 3} triangles, build", effort)
        corners = jnp.asarray(points)
        case.add_jax("jwarp", lambda corners: jwarp.Mesh(corners, faces), (corners,))
        case.ways["jwarp"].results = None
        if theirs:
            case.guarded("Warp", rebuilds, case, mesh_of_warp)
        return row(case)

    def query_mesh(name: str) -> Row:
        case = Case(f"mesh of {len(faces) // 3} triangles, {name}, {count}", effort, atol=1e-3, differing=1e-4)
        mesh = jwarp.Mesh(jnp.asarray(points), faces)
        kernel = getattr(OURS, name)
        query = lambda mesh, *x: jwarp.launch(kernel, count, [mesh, *x], [count])[0]  # noqa: E731
        case.add_jax("jwarp", query, (mesh, *asked[name]))
        if theirs:
            given = [mesh_of_warp().id, *asked[name]]
            vectors = {k + 1: warp.vec3 for k in range(len(asked[name]))}
            case.guarded("Warp", case.add_warp, getattr(theirs, name), count, [given], [(count, float)], vectors)
        return row(case)

    yield from (("grid, build", build_grid), ("grid, query", query_grid), ("mesh, build", build_mesh))
    for name in asked:
        yield f"mesh, {name}", lambda name=name: query_mesh(name)


def row(case: Case) -> Row:
    times = case.measure()
    return Row(case.name, times, (*ratios(times), *case.failed))


def builds(case: Case, grid: Any, points: Any, reach: float) -> None:
    case.ways["Warp"] = Way(lambda _: grid.build(points, reach), wait_for_warp)


def rebuilds(case: Case, mesh: Callable[[], Any]) -> None:
    """A new mesh, as jwarp makes one."""
    like = mesh()
    case.ways["Warp"] = Way(lambda _: warp.Mesh(like.points, like.indices), wait_for_warp)
