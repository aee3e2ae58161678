"""The rows of names that Warp code uses and jwarp does not have yet, so that asking for one says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Planned:
    """A name that is to come, with the feature that it belongs to."""

    name: str
    feature: str

    def __str__(self) -> str:
        return f"wp.{self.name}: {self.feature} are not available yet"


_FEATURES = {
    "addresses of variables (pass the array and the index, or take it as wp.ref[T])": "address_of",
    "functions of matrices in flat arrays (tiles have wp.tile_matmul, wp.tile_cholesky and wp.tile_cholesky_solve)": (
        "dense_gemm dense_gemm_batched dense_chol dense_chol_batched dense_subs dense_solve dense_solve_batched"
    ),
}
PLANNED = {name: Planned(name, feature) for feature, names in _FEATURES.items() for name in names.split()}


def refuse(name: str) -> AttributeError:
    """The error for a name that the package does not have."""
    planned = PLANNED.get(name)
    return AttributeError(str(planned) if planned else f"module 'jwarp' has no attribute {name!r}")
