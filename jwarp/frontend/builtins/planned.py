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
    "quaternions and transforms": (
        "quat quatf quatd quath quaternion quat_identity quat_from_axis_angle quat_to_axis_angle quat_from_matrix "
        "quat_rpy quat_inverse quat_rotate quat_rotate_inv quat_slerp quat_to_matrix quat_from_euler quat_to_euler "
        "quat_to_rpy quat_twist quat_twist_angle quat_twist_angle_signed quat_between_vectors transformf "
        "transformd transformh transformation transform_identity transform_get_translation transform_get_rotation "
        "transform_set_translation transform_set_rotation transform_multiply transform_point transform_vector "
        "transform transform_inverse transform_from_matrix transform_to_matrix transform_compose transform_decompose"
    ),
    "random numbers and noise": (
        "rand_init randi randu randf randn sample_cdf sample_triangle sample_unit_ring sample_unit_disk "
        "sample_unit_sphere_surface sample_unit_sphere sample_unit_hemisphere_surface sample_unit_hemisphere "
        "sample_unit_square sample_unit_cube poisson noise pnoise curlnoise"
    ),
    "spatial vectors": (
        "spatial_vector spatial_vectorf spatial_vectord spatial_vectorh spatial_matrix spatial_matrixf spatial_matrixd "
        "spatial_matrixh spatial_adjoint spatial_dot spatial_cross spatial_cross_dual spatial_top spatial_bottom "
        "velocity_at_point transform_twist transform_wrench"
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
