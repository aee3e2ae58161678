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
    Reason("finite elements", "`warp.fem` is not part of jwarp", r"^fem\.|warp\.fem|warp\._src\.fem"),
    Reason(
        "sparse matrices",
        "`warp.sparse` is not part of jwarp: `jax.experimental.sparse`",
        r"^test_(sparse|fsai)\.|warp\.(_src\.)?sparse|\bBsr|bsr_",
    ),
    Reason(
        "volumes",
        "Warp's own bytes of volumes, used in place, and the gradient of a transform (docs/from_warp.md)",
        r"^geometry\.test_volume",
    ),
    Reason(
        "surfaces from fields",
        "surface nets, triangulations and marching cubes of sparse grids are not part of jwarp",
        r"_src\.geometry|surfaces from fields|geometry\.test_(delaunay|surface_nets|sparse_marching_cubes)",
    ),
    Reason(
        "arrays of Omniverse's Fabric",
        "they are memory of another program",
        r"^test_fabricarray|[Ff]abricarray|ARRAY_TYPE_FABRIC|indexedfabricarray",
    ),
    Reason(
        "Warp's compiler and its files",
        "Warp makes C++ and libraries, ahead of time and by the host's compiler; jwarp makes LLVM's IR",
        r"compile_aot|^aot\.|load_aot|_src\.build\b|build_experimental|get_host_compiler|HostCompiler|precompiled"
        r"|core_library|_verify_library_version|ModuleBuild|^test_(compilation|kernel_cache|external_build|version)\."
        r"|^test_cpu_(precompiled_headers|jit)|codegen_(func|kernel|module)|llvm_|\.wp_|runtime\.core",
    ),
    Reason(
        "hashes of modules",
        "a kernel is known by its own fingerprint, and no module has a hash",
        r"hash_module|get_module_hash|^test_module_hashing|hasher|\.hash\b|ModuleHasher|module_hash",
    ),
    Reason(
        "graphs in files",
        "tests of the files of Warp, which hold its machine code; `wp.capture_save` writes those of `jax.export`",
        r"_src\.apic|^test_apic|capture_(save|load)|APIC",
    ),
    Reason(
        "GPUs by Warp's runtime",
        "streams, pools of memory and peers of CUDA are XLA's here",
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
        "entry points of kernels are called by jwarp's runtime alone",
        r"entry_point_abi|entry points?\b",
    ),
    Reason(
        "memory-safe indices",
        "an index outside of its array reads zero and stores nothing; a negative one counts from the end",
        r"test_tile_oob|out.of.bounds|_oob\b",
    ),
    Reason(
        "warnings of a tape's arrays",
        "a tape keeps the values that its way back needs, so that overwriting them is right",
        r"has already been read from in a previous launch|verify_autograd|_is_read",
    ),
    Reason(
        "private objects of Warp",
        "the test looks into modules, attributes or tables of `warp._src`, which are not public",
        r"warp\._src\.|no counterpart for|stands for Warp's|has no attribute '(_|native_|ctype|adj\b)"
        r"|'Module' object has|'Kernel' object has|'Function' object has|'Adjoint'",
    ),
    Reason(
        "what Warp refuses works here",
        "no error where Warp has a limit that jwarp does not have, or finds it at another time",
        r"\w+(Error|Warning) not (raised|triggered)|did not raise|No warnings?\b",
    ),
    Reason(
        "words and classes of errors",
        "refused in both, in words of its own, or by another class",
        r"does not match|not found in ['\"]|: fail: AssertionError: Regex|Regex didn't match|Expected error message",
    ),
    Reason(
        "other results",
        "values differ: a deviation that [a page](from_warp.md) lists, or a fault",
        r": fail: AssertionError",
    ),
    Reason(
        "refused by name",
        "jwarp refuses it, and says why and what does it",
        r": error: (jwarp\.\S+\.)?(CompileError|KernelTypeError|LaunchError|NotDifferentiableError)",
    ),
)


def reason_of(test: str, state: str, message: str) -> str:
    """The name of the first reason whose pattern is in the outcome of a test."""
    text = f"{test}: {state}: {message}"
    return next((reason.name for reason in REASONS if re.search(reason.pattern, text)), OTHER)
