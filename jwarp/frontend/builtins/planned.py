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
    "gradient tapes (jax.grad and jax.vjp do that)": "Tape",
    "breakpoints": "breakpoint",
    "checks of values inside kernels": "expect_near",
    "derivatives of functions": "func_replay grad",
    "mapped functions": "map",
    "arrays outside kernels": "full ones",
    "random numbers and noise": (
        "rand_init randi randu randf randn sample_cdf sample_triangle sample_unit_ring sample_unit_disk "
        "sample_unit_sphere_surface sample_unit_sphere sample_unit_hemisphere_surface sample_unit_hemisphere "
        "sample_unit_square sample_unit_cube poisson noise pnoise curlnoise"
    ),
    "these tiles": ("tile_randi tile_randf"),
    "queries of meshes and trees": (
        "tile_bvh_query_aabb tile_bvh_query_ray tile_bvh_query_next tile_mesh_query_aabb tile_mesh_query_aabb_next "
        "tile_query_valid"
    ),
}
PLANNED = {name: Planned(name, feature) for feature, names in _FEATURES.items() for name in names.split()}


def refuse(name: str) -> AttributeError:
    """The error for a name that the package does not have."""
    planned = PLANNED.get(name)
    return AttributeError(str(planned) if planned else f"module 'jwarp' has no attribute {name!r}")
