"""Kernels of Warp's that give other results in jwarp, and why that is right."""

OPERATORS = "a @wp.func named `add` or `sub` stands in for the operator in Warp; here operators are arithmetic"
LATE = "what the kernel refers to changes between the two times that the trial reads it"
TAKEN = "threads take places from a counter or a stack, in no order that either side promises"
ROUNDING = "the difference of numbers that are nearly equal"
NAN = "a number made up gives a NaN, of which min, max and clamp are NaN; in Warp they are the other number"
PARALLEL = "of segments that are nearly parallel; the kernel in float64 gives what jwarp gives"
ASYMMETRIC = "eigenvectors of a matrix made up that is not symmetric; they agree when it is"
BESIDE = "an index made up that a matrix or vector does not have: 0 here, whatever is in memory there in Warp"
SINGLE = "computed in float32 and kept in float64: units in the last place of float32"
TIES = "of equal keys, which of their values comes first: the order they had here, any in Warp"
SIGNS = "vectors of a decomposition, which have either sign"
SINGULAR = (
    "a triangular matrix with a zero on its diagonal: infinite or NaN, as in Warp on GPUs, which divides by 1 here"
)
LITERAL = "a literal factor has all its digits in a product of float64 tiles here, those of float32 in Warp"
RANGE = "a float made up is outside of the range of the integer: the nearest number here, undefined in Warp"
ROOTS = "a root of a group is a number of its own kind in each, given back to the tree that it came from"
FOUND = "a search finds the same, in another order"
EXACT = "factors of svd3, which are right to 1e-6 of the largest entry here, and to 1e-2 in Warp"
EDGE = "what is on the edge of two faces is on either: the number of one of them"
HALF = "a mesh with holes, whose winding number is about a half there"

_NUMBER_OF_STEPS = "make_eval_min_num_iterations_kernel.<locals>._eval_min_num_iterations"
_ROUNDTRIP = "test_oct_encode_decode_roundtrip.<locals>.roundtrip_error_kernel"
_FEM = "_src.fem.integrate:get_"

DIFFERENCES = {
    f"{_FEM}integrate_constant_kernel.<locals>.integrate_kernel_fn": ROUNDING,
    f"{_FEM}interpolate_at_quadrature_kernel.<locals>.interpolate_at_quadrature_kernel_fn": ROUNDING,
    "mujoco_warp._src.cli:_ctrl_noise": NAN,
    "mujoco_warp._src.constraint:_equality_weld.<locals>.kernel": ROUNDING,
    "newton._src.sim.articulation:eval_articulation_body_inertia_about_root": BESIDE,
    "newton._src.sensors.warp_raytrace.utils:flatten_normal_image": RANGE,
    "newton._src.actuators.effort_mode_implicit:_build_coupled_solve_kernel.<locals>.solve": ROUNDING,
    "newton._src.solvers.steel.kernels:eval_rigid_fk_kinematics": ROUNDING,
    "newton._src.solvers.steel.kernels:rotate_mf_body_Hinv_to_free_root_anchor": ROUNDING,
    "newton._src.solvers.mujoco.kernels:update_body_inertia_kernel": ASYMMETRIC,
    "mujoco_warp._src.bvh:compute_mesh_group_roots": ROOTS,
    "mujoco_warp._src.bvh:compute_bvh_group_roots": ROOTS,
    "newton._src.geometry.bvh:compute_bvh_group_roots": ROOTS,
    "newton._src.solvers.kamino._src.linalg.conjugate:_initialize_tolerance_kernel": NAN,
    f"newton._src.solvers.kamino._src.solvers.fk.kernels:{_NUMBER_OF_STEPS}": RANGE,
    "newton._src.solvers.vbd.particle_vbd_kernels:accumulate_self_contact_force_and_hessian": ROUNDING,
    "newton._src.solvers.vbd.rigid_vbd_kernels:create_solve_rigid_body.<locals>.solve_rigid_body": ROUNDING,
    "newton._src.geometry.kernels:edge_colliding_edges_detection_kernel": FOUND,
    "newton._src.geometry.kernels:vertex_triangle_collision_detection_kernel": ROOTS,
    "newton._src.geometry.particle_surface_kernels:_compute_anisotropy": EXACT,
    "newton._src.geometry.particle_surface_kernels:_compute_anisotropy_bins": EXACT,
    "newton._src.sensors.sensor_camera_render.render_context:RenderContext._compute_mesh_group_roots": ROOTS,
    "newton._src.sensors.warp_raytrace.render_context:RenderContext._compute_mesh_group_roots": ROOTS,
    "newton._src.solvers.implicit_mpm.rheology_solver_kernels:compute_delassus_diagonal": SIGNS,
    "newton._src.solvers.semi_implicit.kernels_particle:eval_bending": ROUNDING,
    "newton._src.solvers.semi_implicit.kernels_particle:eval_tetrahedra": ROUNDING,
    "newton._src.solvers.semi_implicit.kernels_particle:eval_triangle": ROUNDING,
    "newton._src.solvers.style3d.collision.bvh.kernels:aabb_vs_aabb_kernel": FOUND,
    "newton._src.solvers.style3d.kernels:eval_bend_kernel": ROUNDING,
    "newton._src.solvers.xpbd.kernels:bending_constraint": ROUNDING,
    "newton._src.solvers.xpbd.kernels:solve_springs": ROUNDING,
    f"newton.tests.test_contact_reduction_global:{_ROUNDTRIP}": ROUNDING,
    "newton.tests.test_implicit_mpm_flow_rule:test_random_flow_rule_impl_kernel": ROUNDING,
    "newton._src.viewer.kernels:compute_inertia_box_lines": ASYMMETRIC,
    "newton._src.viewer.viewer_rtx:write_prim_world_matrices": SINGLE,
    "tests.aux_test_array_slot_operators:overloaded_slot_add_backward": OPERATORS,
    "tests.aux_test_array_slot_operators:overloaded_slot_augassign": OPERATORS,
    "tests.aux_test_array_slot_operators:overloaded_slot_sub_backward": OPERATORS,
    "tests.aux_test_array_slot_operators:update_shared_component_backward": OPERATORS,
    "tests.aux_test_array_slot_operators:update_shared_component_forward": OPERATORS,
    "tests.aux_test_dependent:kern": LATE,
    "tests.deterministic.test_deterministic_counter:local_scratch_counter_kernel": TAKEN,
    "tests.geometry.test_grouped_bvh:get_group_root": ROOTS,
    "tests.geometry.test_bvh:bvh_query_aabb_groups": ROOTS,
    "tests.geometry.test_bvh:bvh_get_group_roots": ROOTS,
    "tests.geometry.test_mesh_query_point:sample_mesh_brute": ROUNDING,
    "tests.geometry.test_swept_volume:_signed_distance_to_mesh_kernel": HALF,
    "tests.matrix.test_mat:test_eig_mixed_gradients.<locals>.mixed_loss": SIGNS,
    "tests.matrix.test_mat:test_svd.<locals>.check_mat_svd": SIGNS,
    "tests.matrix.test_mat:test_svd_2D.<locals>.check_mat_svd2": SIGNS,
    "tests.test_apic_mesh:mesh_query_point_kernel": EDGE,
    "tests.test_apic_mesh:mesh_query_ray_kernel": EDGE,
    "tests.test_closest_point_edge_edge:cpee_dist_kernel": PARALLEL,
    "tests.test_compile_consts:test_hash_redefine_kernel.<locals>.test_function": LATE,
    "tests.test_ctypes:make_matrix_test.<locals>.test_matrix_kernel": ROUNDING,
    "tests.test_math:quat_euler_roundtrip_kernel": ROUNDING,
    "tests.test_math:quat_helpers_kernel": ROUNDING,
    "tests.test_quat:test_quat_rpy_grad.<locals>.rpy_to_quat_kernel_forward": BESIDE,
    "tests.test_quat:test_quat_to_axis_angle_grad.<locals>.quat_sampler": SINGLE,
    "tests.test_quat:test_slerp_grad.<locals>.quat_sampler_slerp": SINGLE,
    "tests.tile.test_tile_matmul:tile_matmul_mixed_precision_kernel": LITERAL,
    "tests.tile.test_tile_solve:tile_upper_solve_kernel": SINGULAR,
    "tests.tile.test_tile_stack:float16_dtype_kernel": TAKEN,
    "tests.tile.test_tile_stack:float_dtype_kernel": TAKEN,
    "tests.tile.test_tile_stack:func_tile_stack_kernel": TAKEN,
    "tests.tile.test_tile_stack:overflow_data_integrity_kernel": TAKEN,
    "tests.tile.test_tile_stack:overflow_kernel": TAKEN,
    "tests.tile.test_tile_stack:pop_slot_compact_kernel": TAKEN,
    "tests.tile.test_tile_stack:push_all_kernel": TAKEN,
    "tests.tile.test_tile_stack:two_stacks_kernel": TAKEN,
    "tests.tile.test_tile_stack:vec3_dtype_kernel": TAKEN,
    "tests.tile.test_tile_struct:tile_struct_float64_fields_kernel": TIES,
    "tests.tile.test_tile_struct:tile_struct_half_fields_kernel": TIES,
    "tests.tile.test_tile_struct:tile_struct_quat_transform_fields_kernel": TIES,
}
