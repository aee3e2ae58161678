"""The runtime's declarations against the toolkit's header, and its check of images against NVRTC's."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cuda_calls import SCALE_PLAN, scale_launch

import jwarp as wp
from jwarp import _native
from jwarp.backend.cuda import nvrtc

RUNTIME = Path(__file__).parents[2] / "cuda" / "runtime"


def include_folder() -> Path:
    """Where a wheel of NVIDIA has put cuda.h."""
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations if spec else None) or []:
        if (Path(place) / "cu13" / "include" / "cuda.h").exists():
            return Path(place) / "cu13" / "include"
    pytest.skip("needs cuda.h, of the wheel nvidia-cuda-runtime")


CHECKS = """
#include <cuda.h>
#include <type_traits>
#include "gpu/driver.h"

// Whether both take arguments of the same sizes, pointers in the same places.
template <typename A, typename B> constexpr bool alike = sizeof(A) == sizeof(B) && alignof(A) == alignof(B);
template <typename A, typename B> struct Same : std::false_type {};
template <typename... A, typename... B>
struct Same<CUresult (*)(A...), int (*)(B...)> : std::bool_constant<(alike<A, B> && ...)> {};

using namespace jwarp::cuda;
#define OFFSET(ours, theirs) \\
  static_assert(offsetof(LaunchConfig, ours) == offsetof(CUlaunchConfig, theirs));
OFFSET(grid, gridDimX) OFFSET(block, blockDimX) OFFSET(shared_bytes, sharedMemBytes) OFFSET(stream, hStream)
OFFSET(attributes, attrs) OFFSET(attribute_count, numAttrs)
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
#define VALUE(ours, theirs) static_assert(ours == static_cast<int>(theirs));
VALUE(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY)
VALUE(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU)
VALUE(kNotCapturing, CU_STREAM_CAPTURE_STATUS_NONE)
VALUE(kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
VALUE(kMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
VALUE(kMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
VALUE(kMaxSharedPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
VALUE(kStaticShared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
VALUE(kMaxDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
"""


def compiles(text: str, folder: Path, tmp_path: Path) -> str:
    """The compiler's errors about the text."""
    source = tmp_path / "checks.cc"
    source.write_text(text)
    command = ["g++", "-std=c++17", "-fsyntax-only", f"-I{folder}", f"-I{RUNTIME}", str(source)]
    return subprocess.run(command, capture_output=True, text=True).stderr


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_declarations_are_those_of_the_toolkit(tmp_path):
    folder = include_folder()
    functions = re.findall(r"X\((\w+), \"(\w+)\"", (RUNTIME / "gpu" / "driver.h").read_text())
    assert len(functions) > 20
    lines = [
        f"static_assert(Same<decltype(&::{name}), decltype(Driver::{member})>::value);" for member, name in functions
    ]
    assert compiles("\n".join([CHECKS, *lines]), folder, tmp_path) == ""
    wrong = "static_assert(Same<decltype(&::cuInit), decltype(Driver::stream_synchronize)>::value);"
    assert "static assertion failed" in compiles("\n".join([CHECKS, wrong]), folder, tmp_path)


def make(image: bytes) -> _native.DeviceLaunch:
    return _native.DeviceLaunch(
        kernel="k", entry="k", image=image, plan=SCALE_PLAN, launch=scale_launch(5), block=128
    )  # fmt: skip


@pytest.mark.parametrize("architectures", [["sm_90"], ["sm_80", "sm_90", "sm_120"]])
def test_images_of_nvrtc_are_whole_until_they_are_cut(architectures):
    if nvrtc.missing():
        pytest.skip("needs NVRTC")
    text = 'extern "C" __global__ void k(float* x) { __shared__ float s[9]; s[threadIdx.x] = *x; *x = s[1]; }'
    unit = nvrtc.Unit(text, "k.cu")
    image = nvrtc.bundle(architectures, {a: nvrtc.compile_unit(unit, a) for a in architectures})
    make(image)
    make(image + b"\0" * 8)
    rng = np.random.default_rng(0)
    for at in (*rng.integers(0, len(image), size=50), len(image) - 1):
        with pytest.raises(wp.LaunchError, match="its image is damaged(?s:.*)delete JAX's compilation cache"):
            make(image[:at])
