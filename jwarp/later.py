"""Names that Warp code uses and jwarp does not have yet, so that asking for one says so."""

from __future__ import annotations

_LATER = {
    "adjoint launches and launch records": "Launch LaunchDescriptor Tape",
    "derivatives of functions": "func_grad func_replay grad adjoint check_grads",
    "generic and mapped functions": "map overload",
    "handwritten CUDA kernels": "cuda_kernel",
    "larger decompositions": "svd2 svd3 qr3 eig3",
    "arrays outside kernels": "full ones",
    "prints from kernels": "printf print",
    "quaternions and transforms": "quat quatf quatd quath transformf transformd transformh spatial_vector",
    "random numbers and noise": "rand_init randi randf randn noise pnoise curlnoise poisson",
    "structs": "struct",
    "tiles": "tile launch_tiled block_dim tile_load tile_store tile_zeros tile_ones tile_sum tile_matmul",
}
LATER = {name: feature for feature, names in _LATER.items() for name in names.split()}


def refuse(name: str) -> AttributeError:
    """The error for a name that the package does not have."""
    if name in LATER:
        return AttributeError(f"wp.{name}: {LATER[name]} are not available yet")
    return AttributeError(f"module 'jwarp' has no attribute {name!r}")
