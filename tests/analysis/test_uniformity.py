"""Which values are uniform, affine in the lane or divergent: in each scope, and as the interpreter finds them."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from fuzz_profiles import LONG
from kernel_sources import Writer, load
from textual_ir import read

from jwarp.analysis.common_sums import thread_values
from jwarp.analysis.uniformity import UNIFORM, VARYING, Shape, join
from jwarp.analysis.vector_lanes import shapes_of
from jwarp.backend.interpreter.machine import _Interpreter
from jwarp.frontend.tiles.lift import Variation
from jwarp.ir.nodes import Block, Kernel, Node, Op, Operand, results, walk
from jwarp.passes.simplify import simplify

pytestmark = pytest.mark.quick


def stored_in(text: str) -> tuple[Kernel, list[Operand]]:
    """A kernel, and the values that it stores."""
    kernel = read(text)
    return kernel, [n.args[-1] for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_store]


def strides(text: str) -> list[int | None]:
    """The strides of what a kernel stores, in the lanes of a vector."""
    kernel, values = stored_in(text)
    shapes = shapes_of(kernel)
    return [shapes[v].stride for v in values]


def test_the_lattice():
    assert join(UNIFORM, UNIFORM) == UNIFORM and join(Shape(2), Shape(2)) == Shape(2)
    assert join(UNIFORM, Shape(1)) == VARYING == join(VARYING, UNIFORM)
    assert UNIFORM.is_uniform and VARYING.is_varying and not Shape(1).is_uniform and not Shape(1).is_varying


def test_arithmetic_of_the_last_coordinate():
    assert strides("""
        kernel k(x: array[int64], n: int32), tid 2
          %0: int32 = tid 0
          %1: int32 = tid 1
          %2: int32 = param n
          %3: int32 = mul %1, 3
          %4: int32 = sub %0, %3
          %5: int64 = cast %1
          %6: int64 = cast %4
          %7: int32 = mul %1, %2
          %8: int64 = cast %7
          %9: int64 = cast %2
          store x[%0], %5
          store x[%0], %6
          store x[%0], %8
          store x[%0], %9
    """) == [1, None, None, 0]  # 3 * %1 may wrap between two lanes, and its factor may be anything


def test_a_narrow_value_that_cannot_wrap_is_affine_in_a_wider_type():
    assert strides("""
        kernel k(x: array[int64]), tid 1
          %0: int32 = tid 0
          %1: int64 = cast %0
          %2: int32 = sub %0, 1
          %3: int64 = cast %2
          %4: int32 = add %0, 1
          %5: int64 = cast %4
          %6: int32 = add %0, 2
          %7: int64 = cast %6
          store x[%1], %3
          store x[%1], %5
          store x[%1], %7
    """) == [1, 1, None]


LOOP = """
    kernel k(x: array[int32], n: array[int32]), tid 1
      %0: int32 = tid 0
      %1: int32 = load n[%0]
      for %2: int32 = 0 .. %1 step 1 carry (%3: int32 = 0) {
        %4: int32 = add %3, 2
        store x[%0], %2
        store x[%0], %4
        yield %4
      } -> %5: int32
      store x[%0], %5
"""


def test_lanes_in_lockstep_have_one_iteration_and_leave_with_different_values():
    assert strides(LOOP) == [0, 0, None]


def test_threads_of_a_launch_may_be_at_any_iteration():
    kernel, values = stored_in(LOOP)
    differing = thread_values(kernel)
    assert all(v in differing for v in values)


def test_all_that_divergent_control_flow_gives_varies_in_a_block():
    kernel, values = stored_in(LOOP)
    count = next(n.result for n in walk(kernel.body) if _is_load(n))
    outside = Block(tuple(n for n in kernel.body.nodes if not _is_load(n)), kernel.body.yields)
    for varying in ((count,), ()):
        variation = Variation(varying)
        variation.find(outside)
        assert [variation.of(v) for v in values] == [bool(varying)] * 3


def _is_load(node: Node) -> bool:
    return isinstance(node, Op) and node.row.is_load


class Watched(_Interpreter):
    """Runs threads in lockstep as the lanes of one vector, and compares what they have with the shapes of values."""

    def __init__(self, *args, shapes):
        super().__init__(*args)
        self.shapes, self.seen = shapes, Counter()

    def node(self, node, active):
        super().node(node, active)
        for result in results(node):
            shape = self.shapes[result]
            self.seen[shape.stride] += 1
            values, lanes = np.broadcast_to(self.values[result], active.shape)[active], np.flatnonzero(active)
            if shape.is_varying:
                continue
            if shape.stride:  # integers wrap
                values = values - (shape.stride * lanes).astype(values.dtype)
            is_float = values.dtype.kind not in "iub"
            assert np.array_equal(values, np.full_like(values, values[0]), equal_nan=is_float), node


def test_lanes_of_random_kernels_have_the_shapes_that_are_found(tmp_path):
    seen: Counter = Counter()
    for seed in range(400 if LONG else 40):
        rng = random.Random(seed)
        made = Writer(rng).kernel()
        kernel = simplify(load(made.source, tmp_path).ir())
        arguments = [_argument(p, np.random.default_rng(seed)) for p in kernel.params]
        dims = (*[1] * (kernel.tid_dims - 1), 7)
        machine = Watched(kernel, dims, arguments, None, shapes=shapes_of(kernel))
        with np.errstate(all="ignore"):
            machine.block(kernel.body, np.ones(7, bool))
        seen += machine.seen
    assert min(seen[0], seen[1], seen[None]) > 50 and len(seen) > 5


def _argument(param, rng):
    shape = () if not param.is_array else (*rng.integers(3, 9, param.type.dims), *param.type.components)
    kind = param.dtype
    return rng.integers(0, 2 if kind.kind == "bool" else 6, shape).astype(kind.dtype)
