"""Headers that files of CUDA include and NVRTC does not have: of the host, and of CUDA where that is not installed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from jwarp.backend.cuda.headers import cuda_headers, included
from jwarp.backend.cuda.nvrtc import device_header

# The content of these headers is built into NVRTC, or belongs to host code, which is left out.
_EMPTY = (
    "stdio.h", "stdlib.h", "assert.h", "string.h", "time.h", "errno.h", "memory.h", "cstdio", "cstdlib", "cassert",
    "cstring", "ctime", "cerrno", "iostream", "iomanip", "fstream", "sstream", "ostream", "istream", "string", "vector",
    "map", "set", "list", "deque", "queue", "unordered_map", "unordered_set", "memory", "random", "chrono", "thread",
    "mutex", "stdexcept", "exception", "cuda.h", "cuda_profiler_api.h",
)  # fmt: skip
_LIMITS = """\
#pragma once
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-LLONG_MAX - 1)
#define ULLONG_MAX 18446744073709551615ull
"""
_INTEGERS = """\
#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef unsigned long long uint64_t;
"""
_MATHS = """\
#pragma once
#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
"""
_FUNCTIONS = (
    "abs", "fabs", "sqrt", "exp", "exp2", "log", "log2", "log10", "pow", "sin", "cos", "tan", "asin", "acos", "atan",
    "atan2", "sinh", "cosh", "tanh", "floor", "ceil", "round", "trunc", "fmod", "fmin", "fmax", "fma", "cbrt", "hypot",
    "erf", "erfc", "isnan", "isinf", "isfinite", "copysign",
)  # fmt: skip
_IN_STD = f"namespace std {{ {' '.join(f'using ::{name};' for name in _FUNCTIONS)} }}\n"
STUBS = {
    **dict.fromkeys(_EMPTY, ""), "float.h": _LIMITS, "cfloat": _LIMITS, "limits.h": _LIMITS, "climits": _LIMITS,
    "stdint.h": _INTEGERS, "inttypes.h": _INTEGERS, "math.h": _MATHS,
}  # fmt: skip
# Libraries of the host by what their names begin with, whose headers say nothing to a GPU.
_OF_HOST = re.compile(
    r"(torch|ATen|c10|pybind11|numpy|nvtx3|GL|sys|gtest|glog|gflags|boost|opencv2)/|Python\.h$|unistd\.h$|mpi\.h$|omp\.h$"
    r"|(cublas|cudnn|cusparse|cusolver|cufft|curand|nccl|nvml|nvrtc)\w*\.h$|nvToolsExt|cudaProfiler"
    r"|helper_(cuda|functions|string|timer|image|gl|multiprocess)\w*\.h$"
)
# The parts of CUB that are for functions of a GPU; the whole has others, too, which NVRTC does not take.
_CUB = (
    "block/block_discontinuity", "block/block_exchange", "block/block_histogram", "block/block_load",
    "block/block_radix_sort", "block/block_reduce", "block/block_scan", "block/block_store", "warp/warp_exchange",
    "warp/warp_reduce", "warp/warp_scan",
)  # fmt: skip
_CUB_NAMES = """#if CUB_MAJOR_VERSION >= 3
#include <cuda/functional>
#include <cuda/std/functional>
namespace cub { using Sum = ::cuda::std::plus<>; using Max = ::cuda::maximum<>; using Min = ::cuda::minimum<>; }
#endif
"""
# Of C++'s own, which CUDA has under another name.
_OF_CCCL = (
    "algorithm", "array", "bit", "cmath", "cstddef", "cstdint", "functional", "initializer_list", "iterator", "limits",
    "numeric", "optional", "tuple", "type_traits", "utility",
)  # fmt: skip
# Where CUDA's headers are not installed. The first ones have nothing that NVRTC lacks.
_OF_CUDA = {
    **dict.fromkeys(
        ("cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "vector_types.h", "vector_functions.h",
         "device_functions.h", "driver_types.h", "math_constants.h", "sm_60_atomic_functions.h"), "",
    ),
    "cooperative_groups/reduce.h": "#include <cooperative_groups.h>\n",
}  # fmt: skip
# Names that nvcc knows without a header.
KNOWN = """\
#ifndef JW_HOST_SHIM
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
#endif
"""


def host_headers() -> dict[str, str]:
    """The texts of headers that have to be given, by the names they are included by."""
    folders = cuda_headers()
    of_library = {
        "cstdint": _INTEGERS, "cmath": _MATHS + _IN_STD, **dict.fromkeys(("cstddef", "algorithm", "functional"), ""),
    }  # fmt: skip
    if len(folders) > 1:
        there = [name for name in _OF_CCCL if Path(folders[1], "cuda", "std", name).is_file()]
        of_library |= {name: _forwarding(name) for name in there}
    of_cuda = {} if folders else {**_OF_CUDA, "cooperative_groups.h": device_header("groups.cuh")}
    return {**STUBS, **of_library, **of_cuda}


def of_libraries(texts: Sequence[str], folders: Sequence[str]) -> dict[str, str]:
    """Headers of libraries that texts include: empty ones of the host's that no folder has, and CUB's for a GPU alone.

    Of CUB, that has the parts that are named.
    """
    names = {name for text in texts for name in included(text)}
    made = {name: "" for name in sorted(names) if _OF_HOST.match(name) and not _is_in(name, folders)}
    if "cub/cub.cuh" in names and _is_in("cub/cub.cuh", folders):
        parts = [part for part in _CUB if any(_class_of(part) in text for text in texts)]
        made["cub/cub.cuh"] = "".join(f"#include <cub/{part}.cuh>\n" for part in (*parts, "version")) + _CUB_NAMES
    return made


def _is_in(name: str, folders: Sequence[str]) -> bool:
    return any(Path(folder, name).is_file() for folder in folders)


def _class_of(part: str) -> str:
    """`BlockReduce` for `block/block_reduce`."""
    return "".join(word.title() for word in part.split("/")[1].split("_"))


def _forwarding(name: str) -> str:
    first = _MATHS if name == "cmath" else "#pragma once\n"
    return f"{first}#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n"
