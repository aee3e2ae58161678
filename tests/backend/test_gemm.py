"""Matrix products of the CPU backend against NumPy, on matrices next to memory that must not be touched."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import itertools
import mmap
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest
from compiled_variants import TARGETS
from fuzz_profiles import each_value, in_turn
from guard_pages import Fenced

from jwarp.backend.cpu.gemm import Product, emit
from jwarp.backend.cpu.linker import new_linker
from jwarp.backend.cpu.runtime_library import object_of
from jwarp.backend.cpu.target import Target, host_target
from jwarp.errors import KernelTypeError
from jwarp.ir.matmul import Request
from jwarp.types import FLOATS, INTS, ScalarType, bfloat16, float16, float32, float64, int8, int16, int32, uint8

PAGE = mmap.PAGESIZE
LAYOUTS = list(itertools.product((False, True), repeat=2))
# Bits of the significand, and the smallest number.
PRECISION = {float16: (11, 2.0**-24), bfloat16: (8, 2.0**-133), float32: (24, 2.0**-149), float64: (53, 0.0)}
OUTSIDE = 0xFF  # a NaN of every type, where it is read
# One of each style: masks, odd vectors, few registers, an old processor.
STYLES = [name for name in ("16", "8 peeled", "sse", "avx2") if name in TARGETS]
FEW = [name for name in STYLES if name != "8 peeled"]


_linked: list = []
_jit = new_linker()


@functools.cache
def compiled(request: Request, target: Target) -> Callable[..., None]:
    """The unit of a request, as a function of three addresses."""
    library = llvm.JITLibraryBuilder().add_object_img(object_of(request, target)).add_current_process()
    tracker = library.export_symbol(request.symbol).link(_jit, f"gemm.{len(_linked)}")
    _linked.append(tracker)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(tracker[request.symbol])


class Guarded(Fenced):
    """A matrix with a page that faults on one side, and memory that must stay as it is on the other."""

    def __init__(self, array: np.ndarray, at_end: bool):
        super().__init__(array, at_end)
        inner = len(self.memory) - 2 * PAGE
        rest = slice(PAGE, PAGE + inner - array.nbytes) if at_end else slice(PAGE + array.nbytes, PAGE + inner)
        self.rest = np.frombuffer(self.memory, np.uint8, rest.stop - rest.start, rest.start)
        self.rest[...] = OUTSIDE

    def check(self) -> None:
        assert (self.rest == OUTSIDE).all()


def matrices(request: Request, rng: np.random.Generator, whole_numbers: bool) -> list[np.ndarray]:
    """Random A, B and C as they are stored."""
    r = request
    shapes = [(r.k, r.m) if r.transpose_a else (r.m, r.k), (r.n, r.k) if r.transpose_b else (r.k, r.n), (r.m, r.n)]
    return [_random(type, shape, rng, whole_numbers) for type, shape in zip((r.a, r.b, r.c), shapes, strict=True)]


def _random(type: ScalarType, shape: tuple[int, ...], rng: np.random.Generator, whole_numbers: bool) -> np.ndarray:
    if type.is_int:
        return rng.integers(type.min, type.max, shape, type.dtype, endpoint=True)
    values = rng.integers(-3, 4, shape) if whole_numbers else rng.standard_normal(shape)
    return values.astype(type.dtype)


def run(unit: Callable[..., None], given: list[np.ndarray], at_end: bool) -> np.ndarray:
    """C after the product, with A, B and what surrounds all three found unchanged."""
    guarded = [Guarded(x, at_end) for x in given]
    unit(*(g.array.ctypes.data for g in guarded))
    for g in guarded:
        g.check()
    for g, x in zip(guarded[:2], given[:2], strict=True):
        assert g.array.tobytes() == x.tobytes()
    return np.array(guarded[2].array)


def product(request: Request, given: list[np.ndarray]) -> np.ndarray:
    """op(A) op(B) [+ C] in 64-bit floats or integers, which wrap."""
    wide = np.float64 if request.c.is_float else np.int64
    a, b, c = (x.astype(wide) for x in given)
    with np.errstate(over="ignore"):
        result = (a.T if request.transpose_a else a) @ (b.T if request.transpose_b else b)
        return result + c if request.accumulate else result


def assert_right(request: Request, target: Target, seed: int, at_end: bool) -> None:
    rng, unit = np.random.default_rng(seed), compiled(request, target)
    whole = matrices(request, rng, whole_numbers=True)
    # Sums of small whole numbers are exact, so what is left is the rounding to C's type: once.
    expected = product(request, whole).astype(request.c.dtype)
    np.testing.assert_array_equal(run(unit, whole, at_end), expected)
    if request.c.is_float:
        given = matrices(request, rng, whole_numbers=False)
        error = np.abs(run(unit, given, at_end).astype(np.float64) - product(request, given))
        assert (error <= _bound(request, given)).all()


def _bound(request: Request, given: list[np.ndarray]) -> np.ndarray:
    """The error that sums in the accumulator's type and one rounding to C's type may make."""
    sizes = product(request, [np.abs(x) for x in given])
    (sum_bits, _), (bits, least) = PRECISION[request.accumulator], PRECISION[request.c]
    # The reference is itself a sum of 64-bit floats.
    sums = (request.k + 1) * (2.0**-sum_bits + 2.0**-53) * sizes
    return sums + 2.0**-bits * (np.abs(product(request, given)) + sums) + least


def random_request(rng: np.random.Generator, a: ScalarType, b: ScalarType, c: ScalarType) -> Request:
    def extent() -> int:
        value = int(rng.integers(1, 71))
        return value | 1 if rng.random() < 0.5 else value

    flags = [bool(x) for x in rng.integers(0, 2, 3)]
    return Request(a, b, c, extent(), extent(), extent(), *flags)


def _known(types: tuple[ScalarType, ...], target: Target) -> bool:
    return target.half or float16 not in types


@pytest.mark.parametrize("target", FEW)
@pytest.mark.parametrize("half", range(2))
def test_floats(target, half):
    rng = np.random.default_rng(half)
    for types in list(itertools.product(FLOATS, repeat=3))[half::2]:
        request = random_request(rng, *types)
        if _known(types, TARGETS[target]):
            assert_right(request, TARGETS[target], half, at_end=bool(rng.integers(0, 2)))


@pytest.mark.parametrize("target", STYLES)
def test_integers(target):
    rng = np.random.default_rng(11)
    mixed = [tuple(INTS[i] for i in rng.integers(0, len(INTS), 3)) for _ in range(16)]
    for types in [(t, t, t) for t in INTS] + mixed + [(int8, int8, int32), (uint8, int8, int32), (int32, int32, int16)]:
        request = random_request(rng, *types)
        assert_right(request, TARGETS[target], 3, at_end=bool(rng.integers(0, 2)))


@pytest.mark.parametrize("transpose_a, transpose_b", LAYOUTS)
@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("type", [float32, float64, bfloat16, int32])
def test_layouts(type, accumulate, transpose_a, transpose_b):
    rng = np.random.default_rng(5)
    for number, target in enumerate(TARGETS[name] for name in STYLES):
        request = random_request(rng, type, type, type)
        if not in_turn(number, 2 * transpose_a, transpose_b, type.bits // 16, of=4):
            continue
        request = dataclasses.replace(request, transpose_a=transpose_a, transpose_b=transpose_b, accumulate=accumulate)
        assert_right(request, target, 6, at_end=True)


def _around(target: Target, type: ScalarType) -> list[Request]:
    """Extents at the edges of vectors and of the panels that the loops are made of."""
    plan = Product(Request(type, type, type, 64, 64, 64), target).plan
    w, rows, columns = plan.lanes, plan.rows, plan.columns
    shapes = [(1, 1, 1), (1, w, 1), (w, 1, w), (1, 1, w + 1), (2, w - 1, 3), (3, w + 1, w), (rows, columns, 2)]
    shapes += [(rows - 1, columns - 1, w - 1), (rows + 1, columns + 1, w + 1), (5 * rows + 1, columns + w - 1, 7)]
    return [
        Request(type, type, type, m, n, k, *LAYOUTS[i % 4], accumulate=i % 3 > 0) for i, (m, n, k) in enumerate(shapes)
    ]


@pytest.mark.parametrize("target, type", each_value(STYLES, [float32, float64, bfloat16, int16]), ids=str)
def test_edges(target, type):
    for request in _around(TARGETS[target], type):
        for at_end in (False, True):
            assert_right(request, TARGETS[target], 9, at_end)


# More than one part of k; sums that wait in memory of their own, for one and for several blocks of rows;
# rows so far apart that A is packed.
LARGE = [
    Request(float32, float32, float32, 45, 70, 301, accumulate=True),
    Request(float32, float32, float32, 45, 70, 301, transpose_b=True, accumulate=False),
    Request(float32, float32, float32, 45, 37, 2048, transpose_a=False, accumulate=False),
    Request(float64, float64, float64, 61, 40, 530, transpose_a=True, transpose_b=True),
    Request(bfloat16, bfloat16, bfloat16, 61, 40, 530, accumulate=True),
    Request(bfloat16, bfloat16, bfloat16, 331, 67, 530, transpose_b=True, accumulate=False),
    Request(bfloat16, bfloat16, float32, 61, 40, 530, transpose_a=True, accumulate=False),
    Request(float16, float16, float16, 331, 33, 600, accumulate=True),
    Request(int8, int8, int8, 331, 33, 600, transpose_a=True, accumulate=True),
    Request(bfloat16, bfloat16, bfloat16, 2, 33, 9000, accumulate=True),
]


@pytest.mark.parametrize("target", FEW)
@pytest.mark.parametrize("request_", LARGE, ids=lambda r: r.key)
def test_large_extents(target, request_):
    types = (request_.a, request_.b, request_.c)
    if _known(types, TARGETS[target]):
        assert_right(request_, TARGETS[target], 13, at_end=True)


def test_the_large_extents_take_every_way():
    plans = [Product(r, host_target()).plan for r in LARGE]
    assert any(p.depth < r.k and not p.sums for p, r in zip(plans, LARGE, strict=True))
    assert {p.sums and p.block_rows < r.m for p, r in zip(plans, LARGE, strict=True)} == {False, True}
    assert any(p.sums and p.block_rows >= r.m for p, r in zip(plans, LARGE, strict=True))
    assert {p.pack_a for p in plans} == {False, True}


def test_the_product_does_not_depend_on_what_c_held():
    request = Request(float32, float32, float32, 9, 17, 300, accumulate=False)
    a, b, c = matrices(request, np.random.default_rng(0), whole_numbers=True)
    unit = compiled(request, host_target())
    results = [run(unit, [a, b, np.full_like(c, x)], True) for x in (np.nan, 0)]
    np.testing.assert_array_equal(*results)


def test_nan_and_infinity_go_through():
    request = Request(bfloat16, bfloat16, bfloat16, 3, 5, 17)
    a, b, c = matrices(request, np.random.default_rng(0), whole_numbers=True)
    a[0, 3], a[1, 2], b[2] = np.nan, np.inf, 1
    result = run(compiled(request, host_target()), [a, b, c], True).astype(np.float32)
    assert np.isnan(result[0]).all() and (result[1] == np.inf).all() and np.isfinite(result[2]).all()


def test_the_text_does_not_grow_with_the_matrices():
    small, large = (emit(Request(float32, float32, float32, s, s, s, False, True), host_target()) for s in (150, 1500))
    assert len(large) < 1.3 * len(small)


def test_scratch_memory_is_bounded():
    rng = np.random.default_rng(1)
    for _ in range(300):
        types = [FLOATS[i] for i in rng.integers(0, 4, 3)]
        m, n, k = (int(2 ** rng.uniform(0, 14)) for _ in range(3))
        request = Request(*types, m, n, k, *(bool(x) for x in rng.integers(0, 2, 3)))
        for target in (TARGETS[name] for name in STYLES):
            if _known(tuple(types), target):
                assert Product(request, target).scratch_bytes <= 64 << 10


def test_float16_needs_a_processor_that_converts_it():
    without = dataclasses.replace(host_target(), half=False)
    with pytest.raises(KernelTypeError, match="float16"):
        emit(Request(float16, float16, float32, 4, 4, 4), without)


def test_requests_are_named():
    request = Request(float32, float32, float32, 64, 32, 16, accumulate=True)
    assert request.key == "float32 64x32x16 nn add"
    mixed = Request(float16, float16, float32, 1, 2, 3, True, False, accumulate=False)
    assert mixed.key == "float16*float16->float32 1x2x3 tn set"
    assert mixed.symbol.isidentifier() and mixed.symbol.isascii()
    assert f"define void @{mixed.symbol}(ptr noalias %a, ptr noalias %b, ptr noalias %c)" in emit(mixed, host_target())


def test_accumulators():
    assert Request(float16, bfloat16, float16, 1, 1, 1).accumulator is float32
    assert Request(float64, float64, float64, 1, 1, 1).accumulator is float64
    assert Request(int8, int8, int32, 1, 1, 1).accumulator is int32


@pytest.mark.parametrize("types, shape", [((float32, int32, float32), (1, 1, 1)), ((float32,) * 3, (4, 0, 4))])
def test_what_is_no_product_is_refused(types, shape):
    with pytest.raises(ValueError, match="no matrix product"):
        Request(*types, *shape)
