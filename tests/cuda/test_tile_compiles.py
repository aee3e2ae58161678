"""The tile routines compile for every generation of GPUs, into the instructions that they are written for."""

from __future__ import annotations

import itertools
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cuda_compiling import compiler_version
from fuzz_profiles import ALL
from tile_routines import C_TYPES, FLOATS, INTEGERS, Product, bfloat16

from jwarp.backend.cuda.nvrtc import (
    DEFAULT_ARCHITECTURES,
    Rejected,
    Unit,
    compile_unit,
    device_folder,
    device_header,
    disassembler,
)

pytestmark = pytest.mark.usefixtures("compiler")

HEADERS = {path.name: device_header(path.name) for path in Path(device_folder()).glob("*.cuh")}
f16, f32, f64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
i32 = np.dtype(np.int32)
ENTRY = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads", re.DOTALL)


def kernel_of(name: str, block: int, body: str) -> str:
    return f"""
extern "C" __global__ void __launch_bounds__({block}) {name}(const __grid_constant__ jw_args<4, 3> args) {{
  namespace tile = jw::tile;
  extern __shared__ __align__(16) char memory[];
  {body}
}}
"""


def product_kernel(name: str, product: Product) -> str:
    """A kernel that fetches operands, multiplies and stores what comes out."""
    (m, n), size = product.extents[:2], product.padding
    sizes = [rows * (columns + size) * t.itemsize for (rows, columns), t in product.tiles]
    names = [C_TYPES[t] for _, t in product.tiles]
    lines = [
        f"{t}* {v} = ({t}*)(memory + {sum(sizes[:k])});" for k, (t, v) in enumerate(zip(names, "abc", strict=True))
    ]
    for k, (shape, _) in enumerate(product.tiles[: 3 if product.added else 2]):
        copied = f"{names[k]}, {shape[0]}, {shape[1]}, {product.block}, {shape[1] + size}"
        source = f"(const {names[k]}*)args.arrays[{k}]"
        lines.append(f"tile::copy_2d_async<{copied}>({'abc'[k]}, {source}, {shape[1]});")
    lines += ["tile::wait_async();", product.call()]
    lines.append(f"for (int k = threadIdx.x; k < {m * n}; k += {product.block})")
    lines.append(f"  (({names[2]}*)args.arrays[2])[k] = c[k / {n} * {n + size} + k % {n}];")
    return kernel_of(name, product.block, "\n  ".join(lines))


TENSOR_TYPES = {
    "f16": (f16, f16, f16), "f16_f32": (f16, f16, f32), "bf16": (bfloat16, bfloat16, bfloat16),
    "bf16_f32": (bfloat16, bfloat16, f32), "tf32": (f32, f32, f32), "f32": (f32, f32, f32), "f64": (f64, f64, f64),
    "i32": (i32, i32, i32),
}  # fmt: skip


def tensor_products() -> dict[str, Product]:
    """Of sizes that kernels use: plain and with operands transposed as in adjoints, larger ones, many threads."""
    found = {}
    for name, types in TENSOR_TYPES.items():
        most = name in ("f16", "tf32", "f32", "f64")
        for ta, tb in itertools.product((False, True), repeat=2):
            for k, (extents, block) in enumerate((((64, 64, 64), 128), ((128, 128, 32), 256), ((64, 64, 32), 1024))):
                if (k > 0 or not most) and (ta, tb) != (False, name.startswith("bf16")):
                    continue
                padding = 16 // types[0].itemsize * (k % 2)
                product = Product(*types, extents, (ta, tb), ta, block, name == "tf32", padding)
                found[f"{name}_{'nt'[ta]}{'nt'[tb]}_{block}"] = product
    return found


PRODUCTS = tensor_products()


def share(items, architecture: str):
    """A quarter of the items for each architecture; all of them for each with `ALL`."""
    return items if ALL else items[DEFAULT_ARCHITECTURES.index(architecture) :: len(DEFAULT_ARCHITECTURES)]


def compiled(products: dict[str, Product], architecture: str) -> tuple[dict[str, int], dict[str, Counter]]:
    """Of every product, bytes that are spilled, and how often it has each instruction."""
    text = '#include "jwarp.cuh"\n#include "tile.cuh"\n'
    text += "".join(product_kernel(name, product) for name, product in products.items())
    code = built(text, architecture, "-Xptxas=-v")
    spills = {found[0]: int(found[1]) + int(found[2]) for found in ENTRY.findall(code.log)}
    return spills, instructions(code.cubin)


def built(text: str, architecture: str, *options: str):
    try:
        return compile_unit(Unit(text, "tiles.cu", options, HEADERS), architecture)
    except Rejected as rejected:
        raise AssertionError(rejected.log[:4000]) from None


def instructions(cubin: bytes) -> dict[str, Counter]:
    """How often each function has each instruction: by its name, and by the part before the first dot."""
    tool = disassembler()
    if tool is None:
        pytest.skip("nvdisasm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tiles.cubin")
        path.write_bytes(cubin)
        shown = subprocess.run([tool, "--print-code", str(path)], check=True, capture_output=True, text=True).stdout
    found: dict[str, Counter] = {}
    for line in shown.splitlines():
        if match := re.match(r"\s*\.section\s+\.text\.(\w+)", line):
            counts = found.setdefault(match[1], Counter())
        elif match := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", line):
            counts[match[1].split(".")[0]] += 1
            if "." in match[1]:
                counts[match[1]] += 1
    return found


# What a product is made of, and what it must not have.
MATRIX = {"f16": "HMMA.16816.F32", "bf16": "HMMA.16816.F32.BF16", "tf32": "HMMA.1688.F32.TF32", "f64": "DMMA"}
PLAIN = {"f32": "FFMA", "i32": "IMAD", "f64": "DFMA"}


@pytest.mark.parametrize("architecture", DEFAULT_ARCHITECTURES)
def test_products(architecture):
    """They keep all in registers, and are made of matrix instructions where there are some."""
    products = dict(share(list(PRODUCTS.items()), architecture))
    spills, counts = compiled(products, architecture)
    assert spills == dict.fromkeys(products, 0)
    assert all(counts[name]["LDL"] == counts[name]["STL"] == 0 for name in products)
    for name, product in products.items():
        kind, found = name.split("_")[0], counts[name]
        has_matrix = kind in MATRIX and not (kind == "f64" and architecture == "sm_120")
        if has_matrix:
            assert found[MATRIX[kind]] > 0, name
            assert found["FFMA"] == found["DFMA"] == 0, f"{name} has a second way, which no launch takes"
        else:
            assert found[PLAIN[kind]] > 0 and found["HMMA"] == found["DMMA"] == 0, name
        if kind in ("f16", "bf16"):
            assert found["LDSM"] > 0, name
        if kind == "tf32":  # of which 32-bit elements cannot be transposed on the way
            assert (found["LDSM"] > 0) == (not product.transposed[0] or product.transposed[1]), name
        assert found["LDGSTS.E.BYPASS.128"] > 0, name


def routines(types: list[tuple[np.dtype, str]]) -> str:
    """Every other routine for these types, block sizes with and without a last warp of few lanes."""
    texts = []
    for dtype, name in types:
        number = list(C_TYPES).index(dtype)
        block = (96, 40, 256, 1000, 32, 1)[number % 6]
        operations = ["add", "mul", "min", "max"] + [f"bit_{x}" for x in ("and", "or", "xor")] * (dtype not in FLOATS)
        lines = [f"{name}* x = ({name}*)args.arrays[0]; {name}* place = ({name}*)memory;"]
        lines += [f"{name} value = x[threadIdx.x];"]
        lines += [f"value = tile::block_reduce<tile::{op}, {block}>(value, place);" for op in operations]
        if dtype in (*FLOATS, *INTEGERS):
            scan = f"{block}, 1>(x, int(args.symbols[0]), place);"
            lines += [f"tile::block_scan<tile::{('add', 'min', 'max')[number % 3]}, {scan}"]
            lines += ["const int number = threadIdx.x; int* numbers = (int*)args.arrays[1];"]
            lines += [
                f"numbers[{k}] = tile::block_arg_reduce<tile::{op}, {block}>(value, number, place, numbers).number;"
                for k, op in enumerate(("min", "max"))
            ]
            if dtype in (f32, f64):
                lines += [f"tile::cholesky<{name}, 33, {block}>(x);"]
                for columns, flags in ((2, "true, false"), (64, "false, false"), (3, "true, true")):
                    lines += [f"tile::tri_solve<{name}, 33, {columns}, {flags}, {block}>(x, place);"]
            generic = f"tile::gemm<{name}, {name}, {name}, 5, 7, 9, 0, 1, 1, {block}>(x, x, place);"
            lines += [generic, f"tile::copy_async<33, {block}>(place, x);", "tile::commit_async();"]
            lines += [f"tile::copy_2d_async<{name}, 5, 7, {block}>(place, x, 9);", "tile::wait_async<1>();"]
        lines += [f"x[threadIdx.x] = tile::block_any<{block}>(value != value) ? place[1] : value;"]
        if dtype in (f16, bfloat16):
            lines[-1] = "x[threadIdx.x] = value;"
        texts.append(kernel_of(f"k{number}", block, "\n  ".join(lines)))
    return '#include "rows.cuh"\n#include "segments.cuh"\n#include "tile.cuh"\n' + "".join(texts)


@pytest.mark.parametrize("architecture", DEFAULT_ARCHITECTURES)
def test_every_routine(architecture):
    types = share(list(C_TYPES.items()), architecture)
    code = built(routines(types), architecture, "-Xptxas=-v")
    assert len(ENTRY.findall(code.log)) == len(types)


@pytest.mark.parametrize("architecture", DEFAULT_ARCHITECTURES)
def test_operands_that_may_be_anywhere(architecture):
    """Where the compiler does not know that tiles are in shared memory, there is a way for those that are not."""
    body = """jw_half* a = args.symbols[0] ? (jw_half*)memory : (jw_half*)args.arrays[0];
  tile::gemm<jw_half, jw_half, float, 32, 32, 32, 0, 0, 0, 64>(a, a + args.symbols[1], (float*)args.arrays[2]);"""
    code = built('#include "tile.cuh"\n' + kernel_of("anywhere", 64, body), architecture)
    found = instructions(code.cubin)["anywhere"]
    assert found["FFMA"] > 0
    # For these, NVRTC 13.0 takes what may be in shared memory for what is not: the sums are right, and slower.
    is_left_out = compiler_version() < (13, 5) and architecture in ("sm_80", "sm_90")
    assert is_left_out or found["HMMA"] > 0
    assert "isspacep.shared" in code.ptx
