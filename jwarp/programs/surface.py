"""The public names of Warp 1.19 that jwarp has no counterpart for: what each belongs to, and what to use instead."""

from __future__ import annotations

from jwarp.frontend.builtins import planned
from jwarp.frontend.builtins.planned import PLANNED
from jwarp.programs.own_python import is_run_as_it_is

# Modules all of whose names are missing, and what they are for. Those inside of them are rows below.
_FEATURES = {
    "warp.build_experimental": "functions added to Warp's own compiler (wp.func, wp.jax_func, wp.cuda_kernel)",
    "warp.sim": "simulators of its own (Newton took the place of Warp's; see wp.functionalize)",
}

# The names in these modules.
_NAMES = {
    "warp.build_experimental": "add_builtin add_native_type",
}

# Names missing in modules that are there otherwise: by module, what they belong to, and the names.
_MISSING: dict[str, dict[str, str]] = {
    "warp": {
        "memory of one's own (numbers live in arrays of NumPy or JAX, or are given by DLPack)": (
            "Allocator CudaManagedAllocator ScopedAllocator get_device_allocator set_device_allocator "
            "set_cuda_allocator from_ipc_handle from_ptr"
        ),
        "buffers of OpenGL": "GLTextureResource RegisteredGLBuffer",
        "arrays on CUDA devices (JAX arrays can be there, and kernels run on them)": (
            "map_cuda_device unmap_cuda_device get_cuda_kernel_properties get_cuda_max_cluster_dim "
            "get_cuda_supported_archs get_cuda_toolkit_version"
        ),
        "pictures of graphs (print a wp.Launch)": "capture_debug_dot_print",
        "modules compiled ahead of time (compiled kernels are kept in files; jax.export)": (
            "compile_aot_module load_aot_module get_cpu_kernel_cache_key ModuleBuildOptions"
        ),
        "streams of PyTorch (torch.cuda.default_stream: work on arrays is in one order with it)": "stream_to_torch",
        "tensors of Paddle (they go by DLPack)": (
            "from_paddle to_paddle dtype_from_paddle dtype_to_paddle device_from_paddle device_to_paddle "
            "stream_from_paddle"
        ),
        "addresses of memory": "address address_of",
        "functions that Warp's compiler calls by itself": "array_store store index indexref load view",
        "matrices in one thread by these names (tile_matmul, tile_cholesky)": (
            "dense_chol dense_chol_batched dense_gemm dense_gemm_batched dense_solve dense_solve_batched dense_subs"
        ),
    },
    "warp.utils": {
        "memory of one's own": "AllocatorRmm",
    },
}

# Of modules that Warp keeps to itself: names that programs import, and that have no counterpart. They fail on use.
PRIVATE = {
    "context": (
        "ModuleBuilder ModuleExec ModuleHasher Runtime Allocator _smem_shortfall_clause _verify_library_version "
        "get_host_compiler_version get_libmathdx_version get_nanovdb_version "
        "get_nvrtc_version get_warp_clang_version add_builtin get_builtin_call_desc"
    ),
    "types": (
        "_launch_bounds_classes launch_bounds_t "
        "_validate_array_subclass_descriptor _IndexedArrayAnnotation "
        "hash_grid_query_type"
    ),
    "codegen": (
        "Adjoint Var codegen_func_forward codegen_func_reverse codegen_kernel codegen_module "
        "cuda_kernel_forward_name cuda_kernel_backward_name cuda_module_header get_arg_type resolve_grid_stride "
        "_codegen_lock _is_tid_call _SharedFunctionSource _shared_function_sources _shared_source_for_code "
        "_store_shared_source _substitute_nodes"
    ),
    "build": (
        "build_cpu build_cuda build_lto_dot build_lto_fft build_lto_solver get_cached_lto_meta get_lto_cache_dir "
        "hash_symbol init_kernel_cache clear_kernel_cache LTO_CACHE_KEY_LENGTH _build_lto_base _add_long_path_prefix "
        "_gemm_lto_alignment_unsupported _gemm_operand_alignments _get_mathdx_arch _resolved_kernel_cache_dir"
    ),
    "builtins": "tile_full_value_func tile_randf_dispatch_func tile_randi_dispatch_func",
    "deterministic": (
        "DETERMINISTIC_FAMILY_ADD DETERMINISTIC_GPU_TO_GPU DETERMINISTIC_NOT_GUARANTEED DETERMINISTIC_RUN_TO_RUN "
        "DETERMINISTIC_SCATTER_MAX_CAPACITY REDUCE_OP_ADD REDUCE_OP_MAX REDUCE_OP_MIN ScatterTarget "
        "_SCALAR_TYPE_IDS _deterministic_arrays_overlap allocate_scatter_buffers get_scatter_record_count "
        "run_sort_reduce"
    ),
    "jax": "get_jax_device",
    "texture": "texture1d_t texture2d_t texture3d_t cuda_array_desc_t MemoryType",
    "jax.ffi": (
        "JAX_CALLABLE_DEFAULT_GRAPH_CACHE_MAX _FFI_CALLABLE_REGISTRY _FFI_REGISTRY_LOCK _build_kernel_launch_bounds "
        "_preload_ffi_module register_ffi_callback"
    ),
}

# The modules that exist with these names alone, and which of their names are modules.
_OTHERS = ["types", "config", "autograd", "optim", "optim.linear", "sparse", "_src"]
MODULES = {*_NAMES, *_MISSING, *(f"warp.{name}" for name in _OTHERS)} - {"warp"}
_WHY = {
    **{
        (module, name): _FEATURES[".".join(module.split(".")[:2])]
        for module, names in _NAMES.items()
        for name in names.split()
    },
    **{
        (module, name): feature
        for module, rows in _MISSING.items()
        for feature, names in rows.items()
        for name in names.split()
    },
}


def missing(module: str, name: str) -> str | None:
    """Why a public name of Warp's is not there, and what to use; None for one that Warp does not have either."""
    if f"{module}.{name}" in MODULES:
        return None
    if (module, name) in _WHY:
        return f"{module}.{name}: jwarp has no {_WHY[module, name]}"
    planned = PLANNED.get(name) if module == "warp" else None
    if planned is not None:
        return f"{module}.{name}: {planned.feature} are not available in jwarp"
    if module.startswith("warp._src"):
        return f"{module}.{name}: an internal part of Warp, which jwarp has no counterpart for"
    return None


def refuse(name: str) -> AttributeError:
    """The error for a name that `jwarp` does not have: for one of Warp's with the reason, and what to use."""
    why = _FEATURES.get(f"warp.{name}")
    if is_run_as_it_is(f"warp.{name}"):
        return AttributeError(
            f"wp.{name}: Warp's own Python code, which runs in programs: `import warp.{name}` under"
            " `python -m jwarp run` or after `import jwarp.as_warp`, where warp-lang is installed"
            " (pip install 'jwarp[fem]')"
        )
    text = f"wp.{name}: jwarp has no {why}" if why else missing("warp", name)
    if name in PLANNED or text is None:
        return planned.refuse(name)
    return AttributeError(text.replace("warp.", "wp.", 1))


def refuse_in(module: str, name: str) -> AttributeError:
    """The same for a name of one of jwarp's public modules, such as `utils`."""
    rows = _MISSING.get(f"warp.{module}.{name}")  # a module that is missing as a whole
    text = f"warp.{module}.{name}: jwarp has no {next(iter(rows))}" if rows else missing(f"warp.{module}", name)
    return AttributeError(
        text.replace("warp.", "wp.", 1) if text else f"module 'jwarp.{module}' has no attribute {name!r}"
    )
