"""Kernels with tiles compiled by NVRTC for each generation of GPUs: no error, and all that is at hand in registers."""

import random
import re

import pytest
from cuda_compiling import compiles
from cuda_tiles import Scattered, in_blocks_of
from tile_kernels import Program
from tile_programs import product, softmax
from versions import read_version

from jwarp.autodiff.reverse import vjp
from jwarp.backend.cuda.nvrtc import DEFAULT_ARCHITECTURES, Unit, compile_unit
from jwarp.backend.cuda.shared import LIMITS
from jwarp.compiler.cuda import CudaKernel
from jwarp.config import Settings
from jwarp.errors import KernelTypeError
from jwarp.ir.verify import verify
from jwarp.types import bfloat16, float16, float32, float64, int32

pytestmark = pytest.mark.usefixtures("compiler")

PLAIN = Settings(cache_dir="")
PRODUCTS = [(float32, float32), (float16, float32), (bfloat16, float32), (float16, float16), (float64, float64)]


@pytest.mark.parametrize("seed", range(4))
def test_random_kernels(seed):
    rng = random.Random(100 + seed)
    architecture = DEFAULT_ARCHITECTURES[seed % len(DEFAULT_ARCHITECTURES)]
    compiles(in_blocks_of(Program(100 + seed).kernel(), rng), architecture, rng.choice(["flat checked", "either"]))
    compiles(in_blocks_of(Scattered(rng).case().kernel, rng), architecture, rng.choice(["checked", "flat fast"]))


def resources(kernel, architecture):
    verify(kernel)
    unit = CudaKernel(kernel, PLAIN).unit(read_version("flat fast"), kernel.block_dim)
    return compile_unit(
        Unit(unit.text, unit.name, (*unit.options, "-Xptxas=-v"), unit.headers), architecture
    ), unit.text


@pytest.mark.parametrize("architecture", DEFAULT_ARCHITECTURES)
def test_softmax_of_rows(architecture):
    for columns, block_dim in ((1024, 128), (1000, 256), (4096, 1024)):
        code, text = resources(softmax(columns, block_dim), architecture)
        assert code.spills == 0
        # Each thread has elements of its own: it waits for others only to combine what all have.
        assert text.count("__syncthreads") == 1 and text.count("block_reduce") == 2


@pytest.mark.parametrize("architecture", DEFAULT_ARCHITECTURES)
def test_products(architecture):
    for type_, sums in PRODUCTS:
        code, text = resources(product(type_, sums), architecture)
        assert code.spills == 0, (type_, sums)
        assert re.findall(r"jw::tile::block_sums<.*64, 64, false, false, true, 128>", text) or type_ is float32
        assert "gemm<" not in text and text.count(".add<64, ") == 1
    forward = product(float32, float32, 32, 32, 32, 64)
    adjoint = vjp(forward, [0, 1], [2])
    assert resources(adjoint.kernel, architecture)[0].spills <= 16


def test_tiles_that_a_gpu_has_no_room_for():
    kernel = product(float64, float64, 128, 96, 32)
    size = 8 * (128 * 96 + 128 * 32 + 32 * 96)
    made = CudaKernel(kernel, PLAIN)
    assert LIMITS[120] < size <= LIMITS[80] and made.needs.shared == size
    # Rows of tiles are apart where there is room for that.
    assert size < made.image(read_version("fast"), ["sm_80", "sm_90"]).shared <= LIMITS[80]
    message = (
        rf"(?s)kernel `product`: its tiles need {size} bytes of shared memory for a block.* sm_120 have {LIMITS[120]}"
    )
    with pytest.raises(KernelTypeError, match=message):
        made.image(read_version("fast"), ["sm_90", "sm_120"])
    with pytest.raises(KernelTypeError, match="kernel `product`: tiles need a GPU of sm_80 or later, not sm_75"):
        made.image(read_version("fast"), ["sm_75"])


def test_products_of_integers():
    compiles(product(int32, int32, 16, 16, 16, 32), "sm_90")
