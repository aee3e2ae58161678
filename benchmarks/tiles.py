"""Kernels with tiles: a large matrix product against NumPy's, rows of softmax and of sums against XLA."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import kernels_tiles
import numpy as np
from contenders import jwarp, warp
from figures import Figure, Target, faster
from kernels_tiles import LANES, ROW
from throughput import Case
from timing import Time

JWARP = kernels_tiles.define(jwarp)
WARP = kernels_tiles.define(warp, kernels_tiles.PRODUCT_WARP) if warp else None

SIZE = 1024
ROWS = 4096
BOUND = 0.8  # of NumPy's speed, for the product


def measure(rounds: int, budget: float) -> Iterator[Figure]:
    """A figure for each kernel."""
    rng = np.random.default_rng(7)
    for case in (product("float32", rng), product("float64", rng), softmax(rng), row_sums(rng)):
        yield case.measure(rounds, budget)


def product(dtype: str, rng: np.random.Generator) -> Case:
    a, b = (rng.random((SIZE, SIZE)).astype(dtype) for _ in range(2))
    out, other = np.zeros_like(a), np.zeros_like(a)
    name = f"product{dtype[5:]}"
    case = Case(f"{SIZE}^3 matrix product, {dtype}, tiles of {'x'.join(map(str, JWARP.tile))}")
    tm, tn, _ = JWARP.tile

    def launch() -> None:
        grid = (SIZE // tm, SIZE // tn)
        jwarp.launch_tiled(getattr(JWARP, name), grid, [a, b], [out], block_dim=LANES)

    case.add_in_place("jwarp", launch, [out])
    case.add_in_place("numpy", lambda: np.matmul(a, b, out=other), [other])
    if WARP is not None:
        add_warp(case, name, (SIZE // WARP.tile[0], SIZE // WARP.tile[1]), [a, b], np.zeros_like(a))

    def targets(times: dict[str, Time]) -> tuple[Target, ...]:
        ratio = times["numpy"].least / times["jwarp"].least
        speed = 2 * SIZE**3 / times["jwarp"].least / 1e9
        case.note = f"{speed:.0f} GFLOP/s"
        return (Target("of numpy's speed", ratio, BOUND, "x", at_least=True), *faster(times, "warp", 5))

    case.targets = targets
    return case


def add_warp(case: Case, kernel: str, dim: tuple[int, ...], inputs: list[np.ndarray], output: np.ndarray) -> None:
    """Warp's launch of a kernel with tiles, on its own arrays."""
    assert warp is not None
    given, written = [warp.array(x, device="cpu") for x in inputs], warp.array(output, device="cpu")

    def launch() -> None:
        warp.launch_tiled(
            getattr(WARP, kernel), dim=dim, inputs=given, outputs=[written], block_dim=LANES, device="cpu"
        )

    def results() -> list[np.ndarray]:
        launch()
        return [written.numpy()]

    case.runs["warp"], case.results["warp"] = launch, results


def softmax(rng: np.random.Generator) -> Case:
    x = rng.normal(size=(ROWS, ROW)).astype(np.float32)
    case = Case(f"softmax of {ROWS} rows of {ROW}")
    case.add_jax(
        "jwarp",
        lambda x: jwarp.launch_tiled(JWARP.softmax, [ROWS], [x], [x.shape], block_dim=LANES),
        jnp.asarray(x),
    )
    case.add_jax("jax", lambda x: jax.nn.softmax(x, axis=1), jnp.asarray(x))
    if WARP is not None:
        add_warp(case, "softmax", (ROWS,), [x], np.zeros_like(x))
    case.targets = lambda times: faster(times, "jax", 1)
    return case


def row_sums(rng: np.random.Generator) -> Case:
    x = rng.normal(size=(ROWS, ROW)).astype(np.float32)
    case = Case(f"sums of {ROWS} rows of {ROW}")
    case.add_jax(
        "jwarp",
        lambda x: jwarp.launch_tiled(JWARP.row_sums, [ROWS], [x], [ROWS], block_dim=LANES),
        jnp.asarray(x),
    )
    case.add_jax("jax", lambda x: x.sum(1), jnp.asarray(x))
    if WARP is not None:
        add_warp(case, "row_sums", (ROWS,), [x], np.zeros(ROWS, np.float32))
    case.targets = lambda times: faster(times, "jax", 1)
    return case
