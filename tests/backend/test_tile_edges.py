"""Tiles in the middle of arrays leave their neighbours alone, for elements of all widths and vectors of any number."""

import numpy as np
import pytest
from compiled_variants import TARGETS, Compiled, Variant
from fuzz_profiles import each_value
from tile_kernels import TileBuilder

from jwarp.backend.interpreter.machine import run
from jwarp.ir.builder import make_block, zero
from jwarp.ir.nodes import Const, Kernel, Op, Param, Value
from jwarp.types import ArrayType, bfloat16, bool_, float16, float32, int8, int16, int32, tile_type, with_shape

pytestmark = pytest.mark.quick

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)
GAP = 3  # elements between tiles, which nobody stores to


def narrowing(source, target):
    """Stores tiles of several sizes, narrowed from another type, with gaps between them."""
    b, place = TileBuilder(), 0
    for n in SIZES:
        index = b.iota((n,))
        index = b.op("add", index, Const(index.type, place))
        x = Value(tile_type(source, (n,)))
        b.append(Op("load", (index,), 0, x))
        y = b.op("add", x, x)
        y = b.op("ne", y, zero(y.type)) if target is bool_ else b.op("cast", y, type=with_shape(target, (n,)))
        b.effect("store", index, y, attr=1)
        place += n + GAP
    params = (Param("x", ArrayType(source, 1)), Param("y", ArrayType(target, 1)))
    return Kernel("narrowing", params, 1, make_block(b.nodes), block_dim=4), place


TYPES = (bool_, int8, int16, bfloat16, float16)


@pytest.mark.parametrize("target, processor", each_value(TYPES, list(TARGETS)), ids=str)
def test_gaps_keep_what_they_hold(target, processor):
    if target is float16 and not TARGETS[processor].half:
        pytest.skip("float16 needs the processor's conversions")
    source = float32 if target.is_float else int32
    kernel, size = narrowing(source, target)
    rng = np.random.default_rng(target.bits)
    x = rng.integers(-20, 20, size).astype(source.dtype)
    y = rng.integers(1, 9, size).astype(target.dtype)
    expected = run(kernel, (1,), [x, y])[1]
    found = Compiled(kernel, Variant(processor, "fast")).run((1,), [x, y])[1]
    np.testing.assert_array_equal(found, expected)
