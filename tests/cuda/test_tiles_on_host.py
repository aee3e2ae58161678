"""Kernels with tiles as generated for GPUs, run on the processor with a stand-in for CUDA, against the interpreter.

The threads of a block run forward, backward and shuffled, so that a barrier that is missing shows.
"""

import random
import subprocess

import numpy as np
import pytest
from cuda_on_host import BACKWARD, FORWARD, SHIM, HostCompiled, compile_host, run_host
from cuda_tiles import Scattered, in_blocks_of
from fuzz_profiles import some
from op_kernels import agree
from tile_kernels import COLUMNS, ROWS, Program
from tile_programs import Tiles, product
from versions import read_version

from jwarp.autodiff.forward import jvp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.cuda.accumulators import DOUBLES, HALVES, simt_registers, tensor_registers
from jwarp.backend.cuda.nvrtc import device_folder
from jwarp.backend.cuda.records import grows
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cuda import CudaKernel
from jwarp.config import Settings
from jwarp.ir.builder import make_block
from jwarp.ir.nodes import Const, If, Op, Value, While
from jwarp.ir.printing import format_kernel
from jwarp.types import bfloat16, float16, float32, float64, int32

PLAIN = Settings(cache_dir="")
GROUP = 8


def compiled(kernels, versions):
    """The kernels as prepared for CUDA, and as run by the processor."""
    made = [CudaKernel(kernel, PLAIN) for kernel in kernels]
    texts = [
        kernel.unit(read_version(v), kernel.kernel.block_dim).text for kernel, v in zip(made, versions, strict=True)
    ]
    return made, texts, compile_host(texts)


def launched(made, host, dims, args, order):
    """The arrays after a launch in which one block of threads runs all blocks in their order."""
    return run_host(host, made.kernel, dims, args, order, blocks=1, failures=made.failures, shared=made.needs.shared)


@pytest.mark.parametrize("group", some(range(3), of=3))
def test_random_kernels_with_exact_sums(group):
    seeds = range(group * GROUP, (group + 1) * GROUP)
    rngs = [random.Random(seed) for seed in seeds]
    cases = [Scattered(rng).case() for rng in rngs]
    kernels = [in_blocks_of(case.kernel, rng) for case, rng in zip(cases, rngs, strict=True)]
    versions = [rng.choice(["checked", "flat checked", "either"]) for rng in rngs]
    for seed, case, made, text, host in zip(seeds, cases, *compiled(kernels, versions), strict=True):
        expected = run(case.kernel, case.dims, case.arguments)
        for order in (FORWARD, BACKWARD, 1 + seed):
            found = launched(made, host, case.dims, case.arguments, order)
            for k, (x, y) in enumerate(zip(found, expected, strict=True)):
                message = f"seed {seed}, order {order}, array {k}:\n{x}\n{y}\n{format_kernel(case.kernel)}\n{text}"
                assert np.all(agree(x, y)), message


@pytest.mark.parametrize("group", some(range(3), of=3))
def test_random_kernels(group):
    """Every operation on tiles, sums as they come."""
    seeds = range(group * GROUP, (group + 1) * GROUP)
    rngs = [random.Random(seed) for seed in seeds]
    kernels = [in_blocks_of(Program(seed).kernel(), rng) for seed, rng in zip(seeds, rngs, strict=True)]
    versions = [rng.choice(["checked", "flat checked", "either"]) for rng in rngs]
    for seed, made, text, host in zip(seeds, *compiled(kernels, versions), strict=True):
        values = np.random.default_rng(seed)
        args = [values.normal(size=(ROWS, COLUMNS)) for _ in Program.PARAMS]
        expected = run(made.kernel, (3,), args)
        for order in (FORWARD, BACKWARD, 1 + seed):
            found = launched(made, host, (3,), args, order)
            for x, y in zip(found, expected, strict=True):
                message = f"seed {seed}, order {order}\n{format_kernel(made.kernel)}\n{text}"
                np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9, err_msg=message)


NAMES = range(len(Program.PARAMS))


def derivatives(seed):
    """The adjoint of a random kernel by all its arrays, and now and then the tangent."""
    kernel = Program(seed, steps=5).kernel()
    return [vjp(kernel, NAMES, [2, 3]), *([jvp(kernel, NAMES)] if seed % 4 == 0 else [])]


@pytest.mark.parametrize("group", some(range(3), of=3))
def test_derivatives_of_random_kernels(group):
    """Records of an adjoint belong to one thread: in local memory, or on the heap."""
    rng = random.Random(group)
    derived = [d for seed in range(12 * group, 12 * group + 12) for d in derivatives(seed)]
    kernels = [in_blocks_of(d.kernel, rng) for d in derived]
    assert any(map(grows, kernels)), "some remember on the heap"
    all_made = zip(derived, *compiled(kernels, ["flat checked"] * len(kernels)), strict=True)
    for k, (d, made, text, host) in enumerate(all_made):
        values = np.random.default_rng(k)
        args = [values.normal(size=(ROWS, COLUMNS)) for _ in d.origins]
        expected = run(made.kernel, (3,), args)
        for order in (FORWARD, BACKWARD, 1 + k):
            found = launched(made, host, (3,), args, order)
            for slot, x, y in zip(d.origins, found, expected, strict=True):
                message = f"{slot}, order {order}\n{format_kernel(made.kernel)}\n{text}"
                np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-8 * (1 + np.abs(y).max()), err_msg=message)


def tickets():
    """Each block takes a number; those with even ones store as many times a tile, and count them down again."""
    b = Tiles()
    i, zero, mine = b.tid(0), Const(int32, 0), Value(int32)
    b.append(Op("atomic_add", (zero, zero, Const(int32, 1)), 1, mine))
    b.effect("store", i, zero, mine, attr=2)
    with b.block() as nodes:
        x = b.load(0, float32, (1, 40), i, zero)
        b.store(3, b.op("mul", x, b.op("fill", b.op("cast", mine, type=float32), attr=(1, 40))), i, zero)
    is_even = b.op("eq", b.op("mod", mine, Const(int32, 2)), zero)
    b.append(If(is_even, make_block(nodes), make_block([]), ()))
    with b.block() as test:
        left = Value(int32)
        b.append(Op("load", (i, zero), 2, left))
        goes_on = b.op("gt", left, Const(int32, 10))
    with b.block() as nodes:
        again = Value(int32)
        b.append(Op("load", (i, zero), 2, again))
        b.effect("store", i, zero, b.op("sub", again, Const(int32, 1)), attr=2)
    b.append(While((), (), make_block(test, [goes_on]), make_block(nodes), ()))
    params = [("x", float32), ("counter", int32), ("order", int32), ("y", float32)]
    return b.kernel("tickets", params, 1, 64)


def test_what_the_first_thread_finds_all_know():
    """Else threads of one block would go different ways, and wait for each other forever."""
    x = np.random.default_rng(4).uniform(0.5, 2, size=(16, 40)).astype(np.float32)
    made = HostCompiled(tickets(), "flat checked")
    for order in (FORWARD, BACKWARD, 3):
        zeros = np.zeros((1, 1), np.int32), np.zeros((16, 1), np.int32), np.zeros_like(x)
        _, counter, found, y = made.run((16,), [x, *zeros], order)
        assert counter.tolist() == [[16]]
        taken = np.rint(y[:, :1] / x[:, :1])
        assert sorted(taken[taken > 0].tolist()) == list(range(2, 16, 2))
        np.testing.assert_allclose(y, taken * x, rtol=1e-6)
        assert sorted(found.ravel().tolist()) == [*range(10), *[10] * 6]


def test_sums_that_fit_registers_are_known(tmp_path):
    """The rule that a thread has registers for the sums of a product agrees with the device library."""
    rng, lines = random.Random(5), []
    for _ in range(60):
        block, m = rng.choice([1, 17, 32, 96, 128, 256, 512, 1024]), rng.choice([1, 8, 33, 64, 112, 128])
        n = rng.choice([5, 8, 24, 64, 88, 128, 256])
        for type_, size in (("float", 4), ("double", 8)):
            fits = simt_registers(m, n, block, size) is not None
            flags = f"{rng.randrange(2)}, {rng.randrange(2)}"
            sums = f"simt_sums<{type_}, {type_}, {type_}, {m}, {n}, {flags}, {block}>"
            lines.append(f"static_assert({sums}::are_all == {int(fits)});")
        for unit, extents in (("half_unit<jw_half>", HALVES), ("double_unit", DOUBLES)):
            if block >= 32 and m % extents.m == n % extents.n == 0:
                own = m // extents.m, n // extents.n
                fits = tensor_registers(*own, block, extents.m // extents.n) is not None
                lines.append(f"static_assert(tensor_sums<{unit}, {m}, {n}, {block}>::are_all == {int(fits)});")
    text = '#include "cuda_on_host.h"\n#include "jwarp.cuh"\n#include "tile.cuh"\nnamespace jw::tile {\n'
    (tmp_path / "fits.cc").write_text(text + "\n".join(lines) + "\n}\n")
    command = ["g++", "-std=c++17", "-fsyntax-only", "-w", f"-I{SHIM}", f"-I{device_folder()}", "fits.cc"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0 and len(lines) > 150, made.stderr[:2000]


PRODUCTS = [(float32, float32), (float16, float32), (bfloat16, float32), (float16, float16), (float64, float64)]


def test_products_that_fetch_ahead():
    """No iteration, one, and several, of a loop with double-buffered tiles; with and without proofs."""
    cases = [(*types, version) for types in PRODUCTS for version in ("flat fast", "flat either", "checked")]
    kernels = [product(type_, sums, 32, 16, 24, 64) for type_, sums, _ in cases]
    versions = [version for *_, version in cases]
    rng = np.random.default_rng(0)
    for (type_, sums, version), made, text, host in zip(cases, *compiled(kernels, versions), strict=True):
        assert ("copy_2d_async" in text) == (version != "checked")
        assert text.count("wait_async") == (version != "checked")
        for depth in (0, 24, 48, 120):
            a, b = (rng.normal(size=shape).astype(type_.dtype) for shape in ((64, depth), (depth, 48)))
            expected = a.astype(float) @ b.astype(float)
            for order in (FORWARD, BACKWARD, 5):
                args = [a, b, np.full((64, 48), 7, sums.dtype)]
                *_, c = launched(made, host, (2, 3), args, order)
                digits = 1e-14 if type_ is float64 else 1e-5 if sums is float32 else 2e-3
                np.testing.assert_allclose(c.astype(float), expected, rtol=digits, atol=digits * (1 + depth))
