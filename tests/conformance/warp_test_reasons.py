"""Reasons for which unit tests of Warp do not pass: a row for each, with a pattern of names and messages."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A reason, why it is one, and a pattern that is looked for in `name of the test: state: message`."""

    name: str
    why: str
    pattern: str


OF_WARP = "not in Warp itself"  # without a GPU: skipped there, or failing
OTHER = "others"
ENDED = ("crash", "timeout")  # never a reason

# The first one whose pattern is found counts: parts of Warp that are not here, then what is like it in many parts.
REASONS = (
    Reason(
        "other packages",
        "the test needs usd-core, or a build option of Warp's library, and is skipped",
        r": skip: ",
    ),
    Reason("finite elements", "the test inspects Warp's compiler", r"^fem\.|warp\.fem|warp\._src\.fem"),
    Reason(
        "subclasses of arrays",
        "the tests read ctypes descriptors that Warp packs, or distinguish Fabric's arrays by their types",
        r"^test_array_subclass\.",
    ),
    Reason(
        "parts of sparse matrices",
        "the tests inspect internals of Warp's matrices: launched kernels, copies and others",
        r"^test_(sparse|fsai)\.|warp\.(_src\.)?sparse|warp\._src\.optim|block_jacobi|\bBsr|(?<!apic\.TestApic)\.test\w*_bsr_",
    ),
    Reason(
        "surfaces from fields",
        "surface nets, triangulations and marching cubes of sparse grids are not part of jwarp",
        r"_src\.geometry|surfaces from fields|geometry\.test_(delaunay|surface_nets|sparse_marching_cubes)",
    ),
    Reason(
        "arrays of Omniverse's Fabric",
        "attributes whose elements are arrays, and Fabric's arrays in arrays of structs, are not supported; "
        "Fabric's arrays have the types of ordinary arrays",
        r"^test_fabricarray|[Ff]abricarray|ARRAY_TYPE_FABRIC|indexedfabricarray",
    ),
    Reason(
        "Warp's compiler and its files",
        "Warp generates C++ and compiles libraries; jwarp generates LLVM's IR",
        r"compile_aot|^aot\.|load_aot|_src\.build\b|build_experimental|get_host_compiler|HostCompiler|precompiled"
        r"|core_library|_verify_library_version|ModuleBuild|^test_(compilation|kernel_cache|external_build|version)\."
        r"|^test_cpu_(precompiled_headers|jit)|codegen_(func|kernel|module)|llvm_|\.wp_|runtime\.core",
    ),
    Reason(
        "hashes of modules",
        "jwarp identifies kernels by fingerprints, and does not hash modules",
        r"hash_module|get_module_hash|^test_module_hashing|hasher|\.hash\b|ModuleHasher|module_hash"
        r"|Module hash|mangled_name_cache",
    ),
    Reason(
        "graphs in files",
        "Warp's files contain its machine code; `wp.capture_save` writes files of `jax.export`",
        r"_src\.apic|^test_apic|capture_(save|load)|APIC",
    ),
    Reason(
        "GPUs by Warp's runtime",
        "streams, memory pools and peer access of CUDA are managed by XLA",
        r"get_cuda|CUDA devices|mempool|\bpeer|smem|shared_memory|mathdx|cuda_supported|wp\.Stream"
        r"|cuda_profiler|check_p2p|_src\.cuda|Allocator",
    ),
    Reason(
        "native code",
        "`@wp.func_native` is compiled for GPUs; elsewhere it needs `cpu=`",
        r"native code|native snippet|func_native|add_native|native_type",
    ),
    Reason(
        "launches by other programs",
        "only jwarp's runtime calls the entry points of kernels",
        r"entry_point_abi|entry points?\b",
    ),
    Reason(
        "memory-safe indices",
        "an index outside its array reads zero and stores nothing; a negative index counts from the end",
        r"test_tile_oob|out.of.bounds|_oob\b",
    ),
    Reason(
        "warnings of a tape's arrays",
        "a tape saves the values that its backward pass needs, so overwriting them is allowed",
        r"has already been read from in a previous launch|verify_autograd|_is_read|test_overwrite\.\S+: fail"
        r"|restore_inputs_preserves_read_state|target_array_read_tracks_access",
    ),
    Reason(
        "private objects of Warp",
        "the test inspects modules, attributes or tables of `warp._src`, or deleters, which are private",
        r"warp\._src\.|no counterpart for|stands for Warp's|has no attribute '(_|native_|ctype|adj\b|deleter)"
        r"|'Module' object has|does not have the attribute|got an unexpected keyword argument 'func'"
        r"|got multiple values"
        r"|object has no attribute '(module_exec|user_overloads|custom_grad_func|is_write|mark_write|overloads)'"
        r"|get_mangled_name|has no setter|'LaunchEntry' object is not subscriptable|/programs/native/|<Mock id"
        r"|has no attribute 'vars'|compiler calls by itself|test_graph_alloc|validates_all_target_block_dims"
        r"|'Kernel' object has|'Function' object has|'Adjoint'"
        r"|_canonicalize_dim|deferred_outer_resolvable|volume_rejects_missing_feature_name"
        r"|test_map\.TestMap\.test_cache_|clears_grad_keepalive",
    ),
    Reason(
        "blocks on the CPU",
        "Warp's modules determine the blocks of these tests; in blocks with fewer threads, jwarp's tiles are whole",
        r"test_cpu_block_dim\.\S+: fail|block_dim_autodiff|_launch_bounds\.\S+\.test_tiled_"
        r"|tile_random_generators_default"
        r"|test_tile_(stack|struct)\.\S+: fail|_axis_(empty_partial_slices|partial_block)|tile_scan_partial_block",
    ),
    Reason(
        "gradients where Warp's are others",
        "Warp's results are not the derivative: of replaced values, of kept gradients, of `mod` by its second "
        "operand, of the transform of a volume",
        r"test_retain_grad|volume_transform_gradient|mat_slicing_assign_backward|tape_copy_adjoint|test_binary_ops_float",
    ),
    Reason(
        "rounding",
        "operations have another order, or are fused; the test's tolerance is for Warp's order",
        r"test_ctypes\S+test_mat44_cpu: fail|test_codegen\S+test_multiple_return_values_cpu: fail"
        r"|test_quat\S+scalar_division_float16_cpu: fail",
    ),
    Reason(
        "deviations on purpose",
        "listed in [From Warp to jwarp](from_warp.md#deviations-on-purpose): colourings, memory of grids, read-"
        "only or overlapping arrays, extents of axes that no thread reads",
        r"test_coloring_balance_|native_hashgrid_cpu: fail|the array is read-only|false_tuple_tid_accepts"
        r"|at the address 0|'a', which it writes, overlaps|'output', which it writes, overlaps",
    ),
    Reason(
        "objects that are made anew",
        "if a kernel of a unique module is defined again, it is another object with the same compiled code; if a "
        "vector type is defined again, it is the same object",
        r"test_unique_module\.|sample_index_equivalent_dtype|test_unique_custom_gradient_reuse|value_isolation_across_shared_tree"
        r"|stage_argnames_cpu: fail|custom_named_overload_stub_cpu: fail",
    ),
    Reason(
        "texts",
        "titles of plots, warnings, logs, diagnostics and representations are worded differently",
        r"jacobian_plot|gradcheck_plotting|test_logger\.|print_diagnostics|annotation_repr|test_options_backward"
        r"|test_warn:|zero_iterations_preserves|array_inner_error_shapes|invalid_set_row_index|print_numeric_cpu",
    ),
    Reason(
        "classes of values outside kernels",
        "vectors are NumPy arrays and numbers NumPy's, with addresses and types of JAX's and NumPy's own; see "
        "[Deviations](from_warp.md#deviations-on-purpose)",
        r"test_to_list_|legacy_scalar_return_types|numpy_dtype_|array_interface_empty|test_dlpack\.\S+: fail"
        r"|test_introspection",
    ),
    Reason(
        "annotations as objects",
        "annotations have no parts for Warp's compiler, and the shape of a tile's that says none is None",
        r"test_subscript_types\.",
    ),
    Reason(
        "what Warp refuses works here",
        "there is no error, because jwarp does not have Warp's limit, or detects the fault at another time",
        r"\w*(Error|Warning|Exception|'>\)) not (raised|triggered)|did not raise|No warnings?\b|_rejected_cpu: fail"
        r"|unexpectedly succeeded|releases_failed_kernel|expected the build",
    ),
    Reason(
        "words and classes of errors",
        "refused by both, with another message or another class",
        r"does not match|not found in ['\"]|: fail: AssertionError: Regex|Regex didn't match|Expected error message",
    ),
    Reason(
        "refused by name",
        "jwarp refuses it, with a reason and an alternative",
        r"dim must be at most"
        r"|: error: (jwarp\.\S+\.)?(CompileError|KernelTypeError|LaunchError|NotDifferentiableError)",
    ),
    Reason(
        "other results",
        "values differ: a deviation in [From Warp to jwarp](from_warp.md), or a fault",
        r": fail: AssertionError",
    ),
)


def reason_of(test: str, state: str, message: str) -> str:
    """The name of the first reason whose pattern is in the outcome of a test."""
    text = f"{test}: {state}: {message}"
    return next((reason.name for reason in REASONS if re.search(reason.pattern, text)), OTHER)
