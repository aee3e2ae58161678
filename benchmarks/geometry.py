"""Hash grids, meshes and volumes: how long they take to build, and queries of them. Warp launches on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import kernels_geometry
import numpy as np
from contenders import jwarp, warp
from figures import Figure, faster
from meshes import bumpy_ball
from timing import Run, interleave

OURS = kernels_geometry.define(jwarp)
THEIRS = kernels_geometry.define(warp) if warp else None
if warp:
    warp.init()
NEIGHBOURS = 30


def measure(rounds: int, budget: float, count: int) -> Iterator[Figure]:
    """Figures for `count` particles, points and rays, and a mesh of a tenth as many triangles."""
    yield from _grid(rounds, budget, count)
    yield from _mesh(rounds, budget, count)
    yield from _volume(rounds, budget, count)


def _figure(name: str, runs: dict[str, Run], rounds: int, budget: float, bound: float) -> Figure:
    times = interleave(runs, rounds, budget)
    return Figure(name, times, faster(times, "warp", bound))


def _grid(rounds: int, budget: float, count: int) -> Iterator[Figure]:
    x = np.random.default_rng(0).uniform(0, 1, (count, 3)).astype(np.float32)
    reach = float((NEIGHBOURS / (4 / 3 * np.pi * count)) ** (1 / 3))
    cells = int(1 / reach) + 1
    ours = jwarp.HashGrid(cells, cells, cells)
    given = jnp.asarray(x)

    def build() -> None:
        ours.build(given, reach)
        jax.block_until_ready(ours)

    build()
    out = np.zeros(count, np.float32)
    builds: dict[str, Run] = {"jwarp": build}
    queries: dict[str, Run] = {"jwarp": lambda: jwarp.launch(OURS.density, count, [ours, x, reach], [out])}
    if THEIRS:
        theirs, points = warp.HashGrid(cells, cells, cells, device="cpu"), warp.array(x, dtype=warp.vec3, device="cpu")
        theirs.build(points, reach)
        found = warp.zeros(count, dtype=float, device="cpu")
        builds["warp"] = lambda: theirs.build(points, reach)
        queries["warp"] = _launched(THEIRS.density, count, [theirs.id, points, reach], found)
        _check(queries, out, found)
    yield _figure(f"hash grid of {count:.0e}, build", builds, rounds, budget, 1.0)
    yield _figure(f"hash grid of {count:.0e}, {NEIGHBOURS} neighbours", queries, rounds, budget, 5.0)


def _mesh(rounds: int, budget: float, count: int) -> Iterator[Figure]:
    points, faces = bumpy_ball(int((count / 40) ** 0.5))
    ours = jwarp.Mesh(points, faces)
    random = np.random.default_rng(1)
    x = random.uniform(-1.5, 1.5, (count, 3)).astype(np.float32)
    side = int(count**0.5)
    u, v = np.meshgrid(np.linspace(-1.4, 1.4, side), np.linspace(-1.4, 1.4, side), indexing="ij")
    eyes = np.stack([u, v, np.full_like(u, 3.0)], -1).reshape(-1, 3).astype(np.float32)
    down = np.broadcast_to(np.float32([0.01, 0.02, -1.0]), eyes.shape).copy()
    starts = random.normal(size=(len(eyes), 3))
    starts = (3 * starts / np.linalg.norm(starts, axis=1, keepdims=True)).astype(np.float32)
    ways = (0.7 * random.normal(size=starts.shape) - starts).astype(np.float32)
    theirs = moved = None
    builds: dict[str, Run] = {"jwarp": lambda: jax.block_until_ready(jwarp.Mesh(points, faces))}
    if THEIRS:
        moved = warp.array(points, dtype=warp.vec3, device="cpu"), warp.array(faces, dtype=int, device="cpu")
        theirs = warp.Mesh(*moved)
        builds["warp"] = lambda: warp.Mesh(*moved)
    yield _figure(f"mesh of {len(faces) // 3:.0e} triangles, build", builds, rounds, budget, 1.0)
    cases = (
        ("closest points", OURS.closest, "closest", (x,)),
        ("rays side by side", OURS.cast, "cast", (eyes, down)),
        ("rays from anywhere", OURS.cast, "cast", (starts, ways)),
    )
    for name, kernel, of_warp, given in cases:
        n = len(given[0])
        out = np.zeros(n, np.float32)
        queries: dict[str, Run] = {"jwarp": _in_place(kernel, n, [ours, *given], out)}
        if THEIRS:
            found = warp.zeros(n, dtype=float, device="cpu")
            arrays = [warp.array(a, dtype=warp.vec3, device="cpu") for a in given]
            queries["warp"] = _launched(getattr(THEIRS, of_warp), n, [theirs.id, *arrays], found)
            _check(queries, out, found)
        yield _figure(f"{name}, {n:.0e}", queries, rounds, budget, 3.0)


def _volume(rounds: int, budget: float, count: int) -> Iterator[Figure]:
    random = np.random.default_rng(2)
    dense = random.normal(size=(64, 64, 64)).astype(np.float32)
    x = random.uniform(0, 63, (count, 3)).astype(np.float32)
    out = np.zeros(count, np.float32)
    ours = jwarp.Volume.load_from_numpy(dense, bg_value=0.0)
    for name, kernel in (("samples", "sample"), ("samples and gradients", "sample_grad")):
        runs: dict[str, Run] = {"jwarp": _in_place(getattr(OURS, kernel), count, [ours, x], out)}
        if THEIRS:
            theirs = warp.Volume.load_from_numpy(dense, bg_value=0.0, device="cpu")
            found = warp.zeros(count, dtype=float, device="cpu")
            places = warp.array(x, dtype=warp.vec3, device="cpu")
            runs["warp"] = _launched(getattr(THEIRS, kernel), count, [theirs.id, places], found)
            _check(runs, out, found)
        yield _figure(f"volume of 64 cubed, {count:.0e} {name}", runs, rounds, budget, 1.0)


def _in_place(kernel: object, count: int, given: list, out: np.ndarray) -> Callable[[], object]:
    return lambda: jwarp.launch(kernel, count, given, [out])


def _launched(kernel: object, count: int, given: list, out: object) -> Callable[[], object]:
    return lambda: warp.launch(kernel, count, inputs=given, outputs=[out], device="cpu")


def _check(queries: dict[str, Run], ours: np.ndarray, theirs: object) -> None:
    """Refuse to time what gives other results; beside edges a ray may hit here and miss there."""
    for run in queries.values():
        run()
    off = np.abs(ours - theirs.numpy()) > 1e-3 * np.abs(ours).max()
    assert off.mean() < 1e-4, f"{off.sum()} of {len(off)} results differ"
