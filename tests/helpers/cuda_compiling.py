"""Compiles kernels for GPUs, and kernels that several tests of that take."""

from versions import read_version

import jwarp as wp
from jwarp.backend.cuda.nvrtc import Rejected, compile_unit
from jwarp.compiler.cuda import CudaKernel
from jwarp.config import Settings
from jwarp.ir.nodes import Kernel

PLAIN = Settings(cache_dir="")


def compiler_version() -> tuple[int, int]:
    """That of NVRTC."""
    from cuda.bindings import nvrtc

    return nvrtc.nvrtcVersion()[1:]


def compiles(kernel: Kernel, architecture: str, version: str = "checked", settings: Settings = PLAIN) -> None:
    unit = CudaKernel(kernel, settings).unit(read_version(version), 256)
    try:
        code = compile_unit(unit, architecture)
    except Rejected as rejected:
        raise AssertionError(f"{rejected.log}\n{unit.text}") from None
    assert code.cubin.startswith(b"\x7fELF") and f".target {architecture}" in code.ptx


@wp.kernel
def saxpy(a: float, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def bodies(p: wp.array[wp.vec3], m: wp.array[float], f: wp.array[wp.vec3]):
    i = wp.tid()
    total = wp.vec3(0.0)
    for j in range(p.shape[0]):
        d = p[j] - p[i]
        r2 = wp.dot(d, d) + 1.0e-4
        total += d * (m[j] / (r2 * wp.sqrt(r2)))
    f[i] = total


@wp.kernel
def stencil(u: wp.array3d[float], out: wp.array3d[float]):
    i, j, k = wp.tid()
    if i > 0 and j > 0 and k > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1 and k < u.shape[2] - 1:
        around = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
        out[i, j, k] = u[i, j, k] + 0.1 * (around - 6.0 * u[i, j, k])
