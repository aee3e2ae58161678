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
    "spatial vectors": (
        "spatial_vector spatial_vectorf spatial_vectord spatial_vectorh spatial_matrix spatial_matrixf spatial_matrixd "
        "spatial_matrixh spatial_adjoint spatial_dot spatial_cross spatial_cross_dual spatial_top spatial_bottom "
        "velocity_at_point transform_twist transform_wrench"
    ),
    "textures (interpolate between elements of an array)": "texture_sample",
    "NanoVDB volumes (an array of three dimensions holds a dense grid)": (
        "volume_sample volume_sample_grad volume_lookup volume_store volume_sample_f volume_sample_grad_f "
        "volume_lookup_f volume_store_f volume_sample_v volume_lookup_v volume_store_v volume_sample_i volume_lookup_i "
        "volume_store_i volume_sample_index volume_sample_grad_index volume_lookup_index volume_voxel_count "
        "volume_index_to_world volume_world_to_index volume_index_to_world_dir volume_world_to_index_dir"
    ),
    "meshes, trees and hash grids (pass points and indices as arrays, and loop over them)": (
        "bvh_query_aabb bvh_query_ray bvh_query_capsule bvh_query_sphere bvh_query_next bvh_query_aabb_tiled "
        "bvh_query_ray_tiled bvh_query_next_tiled bvh_get_group_root mesh_get_group_root mesh_query_point "
        "mesh_query_point_sign_parity mesh_query_point_no_sign mesh_query_furthest_point_no_sign "
        "mesh_query_point_sign_normal mesh_query_point_sign_winding_number mesh_query_ray mesh_query_ray_anyhit "
        "mesh_query_ray_count_intersections mesh_get_bvh mesh_query_aabb mesh_query_sphere mesh_query_next "
        "mesh_query_aabb_next mesh_query_aabb_tiled mesh_query_aabb_next_tiled mesh_eval_position mesh_eval_velocity "
        "hash_grid_query hash_grid_query_next hash_grid_point_id intersect_tri_tri mesh_get mesh_eval_face_normal "
        "mesh_get_point mesh_get_velocity mesh_get_index closest_point_edge_edge"
    ),
    "these tiles": "tile_randi tile_randf",
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
