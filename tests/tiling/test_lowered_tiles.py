"""Kernels with tiles written as loops: random ones do what they did, and nothing is kept that need not be."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from exact_tiles import Maker
from fuzz_profiles import ALL, LONG
from tile_kernels import COLUMNS, ROWS, Program, TileBuilder

from jwarp.autodiff.forward import jvp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run
from jwarp.errors import KernelTypeError
from jwarp.ir.attributes import Iota, Reduction, Scan, Strided, Transposes, Triangle
from jwarp.ir.builder import make_block, zero
from jwarp.ir.nodes import Const, For, Kernel, Op, Param, Value, walk
from jwarp.ir.printing import format_kernel
from jwarp.ir.row_groups import Stage
from jwarp.ir.verify import verify
from jwarp.passes.simplify import simplify
from jwarp.tiling.to_scalars import lower_tiles, shared_bytes
from jwarp.types import ArrayType, TileType, float32, float64, int32, tile_type, vector

pytestmark = pytest.mark.quick


def without_tiles(kernel: Kernel, flat: bool) -> Kernel:
    """The kernel lowered; verified, and without a value that is a tile."""
    lowered = lower_tiles(kernel, flat=flat, tables=not flat)
    verify(lowered, Stage.LOWERED)
    made = [n.result for n in walk(lowered.body) if isinstance(n, Op) and n.result is not None]
    assert not any(isinstance(v.type, TileType) for v in made)
    return lowered


def forms(seeds: range) -> list[tuple[int, bool]]:
    """Seeds, each with vectors or flat, in turns; the long profile has both of each."""
    return [(seed, flat) for seed in seeds for flat in ((False, True) if ALL else (seed // 2 % 2 == 1,))]


@pytest.mark.parametrize("seed, flat", forms(range(144 if LONG else 16)))
def test_random_kernels(seed, flat):
    rng = random.Random(seed)
    case = Maker(rng, size=rng.choice([5, 14, 30])).case()
    verify(case.kernel)
    expected = run(case.kernel, case.dims, case.arguments)
    kernel = simplify(case.kernel) if seed % 2 else case.kernel
    results = run(without_tiles(kernel, flat), case.dims, case.arguments)
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(found, wanted, err_msg=format_kernel(case.kernel))


@pytest.mark.parametrize("seed, flat", forms(range(200, 248 if LONG else 206)))
def test_derivatives_of_random_kernels(seed, flat):
    """Tapes and logs, which the reverse sweep takes back in the opposite order."""
    kernel = Program(seed).kernel()
    rng = np.random.default_rng(seed)
    for made in (kernel, vjp(kernel, [0, 1, 2, 3], [2, 3]).kernel, jvp(kernel, range(4)).kernel):
        args = [rng.normal(size=(ROWS, COLUMNS)) for _ in made.params]
        expected = run(made, (3,), args)
        results = run(without_tiles(made, flat), (3,), args)
        for found, wanted in zip(results, expected, strict=True):
            atol = 1e-10 * (1 + np.abs(wanted).max())
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=atol, err_msg=format_kernel(made))


# -- what is kept in memory


def arrays(names: str, dtype=float32, rank: int = 2) -> tuple[Param, ...]:
    return tuple(Param(name, ArrayType(dtype, rank)) for name in names.split())


def loaded(b: TileBuilder, array: int, shape, row, column, dtype=float32):
    made = Value(tile_type(dtype, shape))
    b.append(Op("load", b.places(shape, row, column), array, made))
    return made


def finished(b: TileBuilder, params, dims: int = 1) -> Kernel:
    kernel = Kernel("tiles", params, dims, make_block(b.nodes), block_dim=64)
    verify(kernel)
    return kernel


def product(m: int, n: int, k: int) -> Kernel:
    """c = a @ b, tile by tile."""
    b = TileBuilder()
    row, column = b.op("mul", b.tid(0), Const(int32, m)), b.op("mul", b.tid(1), Const(int32, n))
    start = zero(tile_type(float32, (m, n)))
    total, result, step = Value(start.type), Value(start.type), Value(int32)
    with b.block() as nodes:
        at = b.op("mul", step, Const(int32, k))
        x = loaded(b, 0, (m, k), row, at)
        y = loaded(b, 1, (k, n), at, column)
        following = b.op("matmul", x, y, total, attr=Transposes(False, False))
    body = make_block(nodes, [following])
    b.append(For(step, Const(int32, 0), Const(int32, 4), 1, (total,), (start,), body, (result,)))
    b.effect("store", *b.places((m, n), row, column), result, attr=2)
    return finished(b, arrays("a b c"), 2)


def copies(kernel: Kernel) -> int:
    """How many loops do nothing but copy one tile to another."""
    found = 0
    for loop in (n for n in walk(kernel.body) if isinstance(n, For) and n.lanes is not None):
        names = [n.name for n in loop.body.nodes if isinstance(n, Op)]
        moved = [n.attr for n in loop.body.nodes if isinstance(n, Op) and n.name in ("load", "store")]
        found += names == ["load", "store"] and min(moved) >= len(kernel.params)
    return found


def test_a_product_is_added_up_in_place():
    lowered = lower_tiles(product(8, 16, 4))
    assert [local.size for local in lowered.locals] == [8 * 16, 8 * 4, 4 * 16]
    assert copies(simplify(lowered)) == 0


def test_the_sum_of_a_product_needs_no_tile():
    b = TileBuilder()
    x, y = (loaded(b, k, (8, 32), b.tid(), Const(int32, 0)) for k in range(2))
    total = b.op("reduce", b.op("mul", x, y), attr=Reduction("add", (0, 1)))
    b.effect("store", b.tid(), Const(int32, 0), total, attr=2)
    kernel = finished(b, arrays("x y out"))
    assert lower_tiles(kernel).locals == ()
    assert lower_tiles(kernel, flat=True).locals == ()


def test_what_is_used_once_never_is_in_memory():
    b = TileBuilder()
    x = loaded(b, 0, (16, 16), b.tid(), Const(int32, 0))
    filled = b.op("fill", b.op("cast", b.tid(), type=float32), attr=(16, 16))
    b.effect("store", *b.places((16, 16), b.tid(), Const(int32, 0)), b.op("add", x, filled), attr=1)
    assert lower_tiles(finished(b, arrays("x y"))).locals == ()


def test_what_every_block_computes_alike_is_a_table():
    b = TileBuilder()
    x = loaded(b, 0, (4, 4), b.tid(), Const(int32, 0))
    rows = b.op("cast", b.op("iota", attr=Iota((4, 4), 0)), type=tile_type(float32, (4, 4)))
    factor = b.op("cos", b.op("mul", rows, b.op("cast", b.op("iota", attr=Iota((4, 4), 1)), type=rows.type)))
    own = b.op("add", factor, b.op("fill", b.op("cast", b.tid(), type=float32), attr=(4, 4)))  # not alike
    y = b.op("matmul", b.op("matmul", x, factor, zero(x.type), attr=Transposes(False, False)), own, zero(x.type),
             attr=Transposes(False, False))  # fmt: skip
    b.effect("store", *b.places((4, 4), b.tid(), Const(int32, 0)), y, attr=1)
    kernel = finished(b, arrays("x y"))
    lowered = lower_tiles(kernel, tables=True)
    verify(lowered, Stage.LOWERED)
    (table,) = (local for local in lowered.locals if local.values is not None)
    i = np.arange(4.0)
    np.testing.assert_allclose(np.reshape(table.values, (4, 4)), np.cos(np.outer(i, i)), rtol=1e-6)
    assert "table" in format_kernel(lowered) and all(local.values is None for local in lower_tiles(kernel).locals)
    args = np.random.default_rng(0).normal(size=(2, 8, 4)).astype(np.float32)
    for found, wanted in zip(run(lowered, (3,), args), run(kernel, (3,), args), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_table_may_take_many_operations():
    b = TileBuilder()
    x = loaded(b, 0, (4, 4), b.tid(), Const(int32, 0))
    factor = b.op("cast", b.op("iota", attr=Iota((4, 4), 0)), type=x.type)
    for _ in range(1200):
        factor = b.op("mul", b.op("add", factor, Const(x.type, 1.0)), Const(x.type, 0.5))
    y = b.op("matmul", x, factor, zero(x.type), attr=Transposes(False, False))
    b.effect("store", *b.places((4, 4), b.tid(), Const(int32, 0)), y, attr=1)
    lowered = lower_tiles(finished(b, arrays("x y")), tables=True)
    (table,) = (local for local in lowered.locals if local.values is not None)
    np.testing.assert_allclose(table.values, 1.0)


def test_indices_that_are_surely_inside_are_not_tested():
    b = TileBuilder()
    whole = b.op("scan", loaded(b, 0, (32,), b.tid(), Const(int32, 0)), attr=Scan("add", False, False))
    number = b.op("min", b.op("iota", attr=Iota((32,), 0)), Const(tile_type(int32, (32,)), 7))
    taken = b.op("take", b.op("view", whole, attr=Strided((32,), 31, (-1,))), number)
    b.effect("store", *b.places((32,), b.tid(), Const(int32, 0)), taken, attr=1)
    lowered = lower_tiles(finished(b, arrays("x y")))
    assert not [n for n in walk(lowered.body) if isinstance(n, Op) and n.name in ("lt", "select")]


def stores(b: TileBuilder, shape, values, places) -> Kernel:
    """A kernel that stores tiles one after the other, each to the component and from the row that `places` say."""
    for value, (component, row) in zip(values, places, strict=True):
        at = b.places(shape, row, Const(int32, 0))
        b.effect("store", *at, Const(tile_type(int32, shape), component), value, attr=1)
    return finished(b, (*arrays("x"), Param("y", ArrayType(vector(2, float32), 2))))


def test_a_component_is_not_stored_before_a_load_that_comes_first():
    b = TileBuilder()
    shape, first = (2, 16), Const(int32, 0)
    x = loaded(b, 0, shape, first, first)
    at = b.places(shape, first, first)
    for component in range(2):
        b.effect("store", *at, Const(tile_type(int32, shape), component), b.op("add", x, x), attr=1)
        if component == 0:
            before = b.op("load", Const(int32, 1), Const(int32, 3), Const(int32, 1), attr=1, type=float32)
    b.effect("store", *at, b.op("fill", before, attr=shape), attr=2)
    kernel = finished(b, (*arrays("x"), Param("y", ArrayType(vector(2, float32), 2)), *arrays("z")))
    rng = np.random.default_rng(0)
    args = [rng.normal(size=size).astype(np.float32) for size in (shape, (*shape, 2), shape)]
    for found, wanted in zip(run(lower_tiles(kernel), (1,), args), run(kernel, (1,), args), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("places", "loops"), [(((0, 0), (1, 0)), 1), (((0, 0), (0, 0)), 2), (((0, 0), (1, 1)), 2)])
def test_components_are_stored_together(places, loops):
    """Stores to other components of one element share a loop; others that may meet keep their order."""
    b = TileBuilder()
    shape = (2, 16)
    whole = b.op("scan", loaded(b, 0, (32,), b.tid(), Const(int32, 0)), attr=Scan("add", False, False))
    values = [b.op("view", whole, attr=Strided(shape, k, (16, 1))) for k in (0, 0)]
    values[1] = b.op("add", values[1], values[1])
    kernel = stores(b, shape, values, [(c, b.op("add", b.tid(), Const(int32, r))) for c, r in places])
    lowered = simplify(lower_tiles(simplify(kernel)))
    found = [n for n in walk(lowered.body) if isinstance(n, For) and any(isinstance(m, Op) and m.name == "store"
             and m.attr == 1 for m in n.body.nodes)]  # fmt: skip
    assert len(found) == loops
    args = [np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32), np.zeros((4, 32, 2), np.float32)]
    for one, other in zip(run(lowered, (2,), args), run(kernel, (2,), args), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_element_is_assigned_in_place():
    """A loop over a[j] = v touches one element in an iteration."""
    b = TileBuilder()
    x = loaded(b, 0, (64,), b.tid(), Const(int32, 0))
    tile, result, j = Value(x.type), Value(x.type), Value(int32)
    with b.block() as nodes:
        twice = b.op("mul", b.op("take", tile, j), Const(float32, 2.0))
        following = b.op("put", tile, j, twice)
    b.append(For(j, Const(int32, 0), Const(int32, 64), 1, (tile,), (x,), make_block(nodes, [following]), (result,)))
    b.effect("store", *b.places((64,), b.tid(), Const(int32, 0)), result, attr=1)
    lowered = simplify(lower_tiles(finished(b, arrays("x y"))))
    assert len(lowered.locals) == 1
    assert copies(lowered) == 0
    (loop,) = (n for n in lowered.body.nodes if isinstance(n, For) and n.lanes is None)
    assert not any(isinstance(n, For) for n in loop.body.nodes)


def test_carried_tiles_may_change_places():
    b = TileBuilder()
    x, y = (loaded(b, k, (5,), b.tid(), Const(int32, 0)) for k in range(2))
    params, results = ((Value(x.type), Value(x.type)) for _ in range(2))
    loop = For(Value(int32), Const(int32, 0), Const(int32, 3), 1, params, (x, y), make_block([], params[::-1]), results)
    b.append(loop)
    for k, result in enumerate(results):
        b.effect("store", *b.places((5,), b.tid(), Const(int32, 0)), result, attr=2 + k)
    kernel = finished(b, arrays("x y u v"))
    args = [np.random.default_rng(k).normal(size=(3, 5)).astype(np.float32) for k in range(4)]
    found = run(lower_tiles(kernel), (3,), args)
    np.testing.assert_array_equal(found[2], args[1])
    np.testing.assert_array_equal(found[3], args[0])


def test_tiles_that_are_too_large():
    lowered = lower_tiles(product(256, 256, 64))
    assert shared_bytes(lowered) == 4 * (256 * 256 + 2 * 256 * 64)
    large = product(512, 512, 64)
    with pytest.raises(KernelTypeError, match="kernel `tiles`: its tiles need 1310720 bytes at once, of 1048576"):
        lower_tiles(large)


def test_routines_of_a_backend():
    b = TileBuilder()
    x = loaded(b, 0, (6, 6), b.tid(), Const(int32, 0), float64)
    factor = b.op("cholesky", x)
    solved = b.op("tri_solve", factor, x, attr=Triangle(True, False))
    running = b.op("scan", solved, attr=Scan("add", False, True))
    b.effect("store", *b.places((6, 6), b.tid(), Const(int32, 0)), running, attr=1)
    kernel = finished(b, arrays("x y", float64))
    lowered = lower_tiles(kernel, routines=("tile_scan", "tile_cholesky", "tile_solve"), flat=True)
    called = [n.name for n in walk(lowered.body) if isinstance(n, Op) and n.name.startswith("tile_")]
    assert called == ["tile_cholesky", "tile_solve", "tile_scan"]
    assert not any(n.name.startswith("tile_") for n in walk(lower_tiles(kernel).body) if isinstance(n, Op))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("operation, running", [("add", np.cumsum), ("max", np.maximum.accumulate)])
def test_a_scan_by_a_routine_is_that_of_numpy(operation, running, exclusive, reverse):
    b = TileBuilder()
    scanned = b.op(
        "scan", loaded(b, 0, (3, 5), b.tid(), Const(int32, 0), float64), attr=Scan(operation, reverse, exclusive)
    )
    b.effect("store", *b.places((3, 5), b.tid(), Const(int32, 0)), scanned, attr=1)
    lowered = lower_tiles(finished(b, arrays("x y", float64)), routines=("tile_scan",), flat=True)
    assert [n.name for n in walk(lowered.body) if isinstance(n, Op)].count("tile_scan") == 1
    x = np.random.default_rng(3).integers(-9, 9, (3, 5)).astype(np.float64)  # whose sums are exact
    expected = running(x.ravel()[:: -1 if reverse else 1])
    if exclusive:
        expected = np.concatenate([[0.0 if operation == "add" else np.nan], expected[:-1]])
    _, found = run(lowered, (1,), [x, np.zeros((3, 5))])
    np.testing.assert_array_equal(found.ravel()[:: -1 if reverse else 1], expected)


def test_the_same_kernel_gives_the_same_code():
    case = Maker(random.Random(5), size=30).case()
    again = dataclasses.replace(case.kernel)
    assert format_kernel(lower_tiles(case.kernel)) == format_kernel(lower_tiles(again))
