"""Sparse matrices: assembly, products with vectors, squares, transposes and sums, beside SciPy, Warp and JAX's BCSR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from contenders import jwarp, warp
from figures import Figure, faster
from jax.experimental import sparse as jax_sparse
from scipy import sparse as scipy_sparse
from timing import Run, interleave

if warp:
    import warp.sparse as warp_sparse

    warp.init()
PER_ROW = 8


def measure(rounds: int, budget: float, rows: int) -> Iterator[Figure]:
    """Figures for a matrix of so many rows with eight entries in each, near the diagonal, float32."""
    random = np.random.default_rng(0)
    places = np.repeat(np.arange(rows, dtype=np.int32), PER_ROW)
    near = (places.astype(np.int64) + random.integers(-300, 300, places.size)) % rows
    order = random.permutation(places.size)
    entries = places[order], near[order].astype(np.int32), random.random(places.size, dtype=np.float32)
    x = random.random(rows, dtype=np.float32)

    theirs = _assembled_by_scipy(rows, entries)
    assembly: dict[str, Run] = {"scipy": lambda: _assembled_by_scipy(rows, entries)}
    products: dict[str, Run] = {"scipy": lambda: theirs @ x}
    squares: dict[str, Run] = {"scipy": lambda: theirs @ theirs}
    turned = theirs.T.tocsr()
    transposes: dict[str, Run] = {"scipy": lambda: theirs.T.tocsr()}
    sums: dict[str, Run] = {"scipy": lambda: theirs + turned}
    for name, library, functions in (("jwarp", jwarp, jwarp.sparse), ("warp", warp, warp and warp_sparse)):
        if library:
            runs = _runs(library, functions, rows, entries, x, theirs)
            assembly[name], products[name], squares[name], transposes[name], sums[name] = runs
    of_jax, given = jax_sparse.BCSR.from_scipy_sparse(theirs), jax.numpy.asarray(x)
    multiply = jax.jit(lambda A, x: A @ x)
    products["jax"] = lambda: jax.block_until_ready(multiply(of_jax, given))
    for name, runs in (
        ("assembly", assembly),
        ("times a vector", products),
        ("squared", squares),
        ("transposed", transposes),
        ("added to its transpose", sums),
    ):
        times = interleave(runs, rounds, budget)
        targets = faster(times, "scipy", 2.0) + faster(times, "warp", 2.0)
        yield Figure(f"sparse matrix of {places.size:.0e}, {name}", times, targets)


def _assembled_by_scipy(rows: int, entries: tuple[Any, ...]) -> Any:
    made = scipy_sparse.coo_matrix((entries[2], entries[:2]), (rows, rows)).tocsr()
    made.sum_duplicates()
    return made


def _runs(library: Any, functions: Any, rows: int, entries: tuple[Any, ...], x: np.ndarray, right: Any) -> list[Run]:
    """What a library with Warp's names does, after a look at its results."""
    kinds = library.int32, library.int32, library.float32
    arrays = [library.array(each, dtype=kind, device="cpu") for each, kind in zip(entries, kinds, strict=True)]
    given, out = library.array(x, dtype=float, device="cpu"), library.zeros(rows, dtype=float, device="cpu")

    def assemble() -> Any:
        return functions.bsr_from_triplets(rows, rows, *arrays)

    made = assemble()
    made.nnz_sync()
    np.testing.assert_allclose(functions.bsr_mv(made, given, out).numpy(), right @ x, rtol=1e-4)
    square = functions.bsr_mm(made, made)
    np.testing.assert_allclose(functions.bsr_mv(square, given).numpy(), right @ (right @ x), rtol=1e-4)
    turned = functions.bsr_transposed(made)
    return [
        assemble,
        lambda: functions.bsr_mv(made, given, out),
        lambda: functions.bsr_mm(made, made),
        lambda: functions.bsr_transposed(made),
        lambda: functions.bsr_axpy(turned, functions.bsr_copy(made)),
    ]


if __name__ == "__main__":
    for figure in measure(rounds=5, budget=5.0, rows=100_000):
        print(figure.name, {who: f"{1e3 * time.least:.3g} ms" for who, time in figure.times.items()})
        for target in figure.targets:
            print("   ", target)
