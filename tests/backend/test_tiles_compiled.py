"""Kernels with tiles on the CPU: compiled code against the interpreter, tiles over the edges of arrays, batches."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from compiled_variants import TARGETS, VARIANTS, Compiled, Variant
from exact_tiles import Maker
from fuzz_profiles import LONG, each_value, in_turn, some
from launch_format import INPUT, ZEROS, make_launch
from tile_kernels import COLUMNS, ROWS, Program, TileBuilder

from jwarp import _native
from jwarp.analysis.conditions import condition_text
from jwarp.autodiff.reverse import vjp
from jwarp.backend.events import record_compiles
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.ir.attributes import Reduction, Strided, Transposes
from jwarp.ir.builder import make_block
from jwarp.ir.nodes import Const, Kernel, Op, Param, Value, walk
from jwarp.ir.printing import format_kernel
from jwarp.ir.row_groups import Stage
from jwarp.ir.verify import verify
from jwarp.types import FLOATS, INTS, ArrayType, bool_, float32, int32, tile_type

SETTINGS = Settings(cache_dir="")


def order_matters(kernel: Kernel) -> bool:
    """True if results may depend on the order of blocks: some array is not only added to, by one operation."""
    accesses = [n for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_access]
    changed = [n for n in accesses if n.row.is_write]
    return any(sum(n.array == c.array for n in accesses) > 1 or c.name != "atomic_add" or c.result for c in changed)


@pytest.mark.parametrize("seed", range(300, 500) if LONG else some(range(300, 316), of=2))
def test_random_kernels(seed):
    rng = random.Random(seed)
    case = Maker(rng, size=rng.choice([5, 14, 25])).case()
    expected = run(case.kernel, case.dims, case.arguments)
    made = CpuKernel(case.kernel, SETTINGS)
    verify(made.proofs.kernel, Stage.LOWERED)
    for variant in rng.sample(VARIANTS, 2):
        threads = rng.choice([1, 2])
        if order_matters(case.kernel) and math.prod(case.dims) > 1:
            threads = 1  # the interpreter goes from block to block, as one thread does
        results = Compiled(made, variant).run(case.dims, case.arguments, threads=threads)
        for found, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=f"{variant}\n{format_kernel(case.kernel)}")


@pytest.mark.parametrize("seed", range(400, 460) if LONG else some(range(400, 408), of=2))
def test_derivatives_of_random_kernels(seed):
    """Tapes and logs hold vectors of elements, and are taken back in the opposite order."""
    kernel = vjp(Program(seed).kernel(), [0, 1, 2, 3], [2, 3]).kernel
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=(ROWS, COLUMNS)) for _ in kernel.params]
    expected = run(kernel, (3,), args)
    for variant in random.Random(seed).sample(VARIANTS, 2):
        results = Compiled(kernel, variant).run((3,), args)
        for found, wanted in zip(results, expected, strict=True):
            atol = 1e-10 * (1 + np.abs(wanted).max())
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=atol, err_msg=str(variant))


# -- arrays and their edges


def copied(shape: tuple[int, ...], rows: int, columns: int) -> Kernel:
    """y = x + 1 in tiles, which may stick out."""
    b = TileBuilder()
    corner = b.op("mul", b.tid(0), Const(int32, rows)), b.op("mul", b.tid(1), Const(int32, columns))
    x = Value(tile_type(float32, shape))
    b.append(Op("load", b.places(shape, *corner), 0, x))
    b.effect("store", *b.places(shape, *corner), b.op("add", x, Const(x.type, 1.0)), attr=1)
    params = tuple(Param(name, ArrayType(float32, 2)) for name in "xy")
    return Kernel("copied", params, 2, make_block(b.nodes), block_dim=32)


@pytest.mark.parametrize("target, extents", each_value(list(TARGETS), [(16, 64), (15, 64), (16, 61), (9, 33), (1, 1)]))
def test_tiles_over_the_edge(target, extents):
    kernel = copied((8, 32), 8, 32)
    x = np.random.default_rng(0).normal(size=extents).astype(np.float32)
    found = Compiled(kernel, Variant(target)).run((2, 2), [x, np.zeros_like(x)])
    np.testing.assert_array_equal(found[1], x + 1)


def test_the_launch_says_that_tiles_are_inside():
    made = CpuKernel(copied((8, 32), 8, 32), SETTINGS)
    words = condition_text(made.condition, made.kernel, made.proofs.symbols).split(" and ")
    assert set(words) == {f"{n} * dim[{k}] <= {name}.shape[{k}]" for k, n in enumerate((8, 32)) for name in "xy"}
    fast, checked = (made.text(version) for version in ("fast", "checked"))
    assert "masked" not in fast.split("define internal")[1].split("define void")[0]
    assert "masked.gather" in checked


@pytest.mark.parametrize("type_", [*FLOATS, *INTS, bool_])
def test_element_types(type_):
    """Each type in memory, in a tile, and added up."""
    b = TileBuilder()
    x = Value(tile_type(type_, (37,)))
    places = (b.op("add", b.op("fill", b.op("mul", b.tid(), Const(int32, 37)), attr=(37,)), b.iota((37,))),)
    b.append(Op("load", places, 0, x))
    backwards = b.op("view", x, attr=Strided((37,), 36, (-1,)))
    b.effect("store", *places, backwards, attr=1)
    kind = "xor" if type_ is bool_ else "add"
    b.effect("store", b.tid(), b.op("reduce", x, attr=Reduction(kind, (0,))), attr=2)
    kernel = Kernel("t", tuple(Param(n, ArrayType(type_, 1)) for n in "xyz"), 1, make_block(b.nodes), block_dim=32)
    verify(kernel)
    x = np.random.default_rng(0).integers(0, 4, 111).astype(type_.dtype)
    args = [x, np.zeros_like(x), np.zeros(3, x.dtype)]
    expected = run(kernel, (3,), args)
    number = [*FLOATS, *INTS, bool_].index(type_)
    fitting = [t for t in TARGETS if not (t == "sse" and type_.name == "float16")]
    for target in (t for k, t in enumerate(fitting) if in_turn(number, k, of=2)):
        for found, wanted in zip(Compiled(kernel, Variant(target)).run((3,), args), expected, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=target)


@pytest.mark.parametrize("kind", ["add", "mul", "min", "max"])
@pytest.mark.parametrize("size", [1, 3, 16, 33, 1000])
def test_reductions_of_floats(kind, size):
    """NaN and zeros of both signs; sums in any order are as good as the size and the numbers allow."""
    b = TileBuilder()
    x = Value(tile_type(float32, (size,)))
    row = b.op("fill", b.tid(), attr=(size,))
    b.append(Op("load", (row, b.iota((size,))), 0, x))
    b.effect("store", b.tid(), b.op("reduce", x, attr=Reduction(kind, (0,))), attr=1)
    params = (Param("x", ArrayType(float32, 2)), Param("y", ArrayType(float32, 1)))
    kernel = Kernel("t", params, 1, make_block(b.nodes), block_dim=32)
    x = np.random.default_rng(size).normal(1, 0.1, (4, size)).astype(np.float32)
    x[1, size // 2], x[2], x[3, 0] = np.nan, -0.0, np.inf
    (_, wanted), (_, found) = (
        runner((4,), [x, np.zeros(4, np.float32)])
        for runner in (lambda *a: run(kernel, *a), Compiled(kernel, Variant("16")).run)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-7 * size * (10 if kind == "mul" else 1))
    if kind != "mul":
        assert np.signbit(found[2]) == np.signbit(wanted[2])


# -- launches


def test_a_batch_of_launches():
    """Each batch element has arrays of its own, but for one that all share."""
    kernel = product()
    made = CpuKernel(kernel, SETTINGS)
    made.compile("fast")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 16, 32)).astype(np.float32), rng.normal(size=(32, 24)).astype(np.float32)
    out = np.empty((5, 16, 24), np.float32)
    launch = make_launch((2, 3), [(0, -1, INPUT, 1), (1, -1, INPUT, 0), (-1, 0, ZEROS, 1)], batch=(5,))
    _native.run_launch(made.fingerprint, launch, [a, b, out], 1)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)


def product() -> Kernel:
    """c = a @ b for 32 columns of a, in tiles of 8 x 8."""
    b = TileBuilder()
    row, column = (b.op("mul", b.tid(axis), Const(int32, 8)) for axis in range(2))
    x, y = Value(tile_type(float32, (8, 32))), Value(tile_type(float32, (32, 8)))
    b.append(Op("load", b.places((8, 32), row, Const(int32, 0)), 0, x))
    b.append(Op("load", b.places((32, 8), Const(int32, 0), column), 1, y))
    made = b.op("matmul", x, y, Const(tile_type(float32, (8, 8)), 0.0), attr=Transposes(False, False))
    b.effect("store", *b.places((8, 8), row, column), made, attr=2)
    params = tuple(Param(name, ArrayType(float32, 2)) for name in "abc")
    return Kernel("product", params, 2, make_block(b.nodes), block_dim=32)


def test_a_product_is_compiled_once():
    """The second version finds the code of the product in memory; another process finds it on disk."""
    made = CpuKernel(product(), SETTINGS)
    with record_compiles() as events:
        for version in ("fast", "checked"):
            made.compile(version)
    units = [e for e in events if e.variant.startswith("tile_matmul")]
    assert [e.variant for e in units] == ["tile_matmul[float32 8x8x32 nn set]"] * 2
    assert units[1].source == "memory"
    assert all(e.kernel == "product" and e.bytes > 0 for e in units)


def test_code_from_disk_knows_its_products(tmp_path):
    settings = Settings(cache_dir=str(tmp_path))
    first, second = (CpuKernel(product(), settings).object_code("fast") for _ in range(2))
    if second[1] == "disk":  # not if sources were edited since
        assert first[0] == second[0]
    assert first[0].startswith(b'[["product","float32","float32","float32",8,8,32,0,0,0]]\n')


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_threads_do_not_change_a_bit(seed):
    kernel = Program(seed).kernel()
    made = Compiled(kernel, Variant("16"))
    args = [np.random.default_rng(seed).normal(size=(300, COLUMNS)) for _ in kernel.params]
    results = [[x.tobytes() for x in made.run((97,), args, threads=threads)] for threads in (1, 2)]
    assert results[0] == results[1]
