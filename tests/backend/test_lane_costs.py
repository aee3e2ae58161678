"""The estimated cost of a vector of threads: that of the strategy which the table has for each access."""

import pytest
from textual_ir import read

from jwarp.backend.cpu.access import costs
from jwarp.backend.cpu.lane_costs import vector_cost
from jwarp.backend.cpu.target import host_target
from jwarp.passes.rotate_axes import rotated

pytestmark = [
    pytest.mark.quick,
    pytest.mark.skipif(host_target().width < 4, reason="blocks of four lanes are transposed"),
]

TIDS = "%0: int32 = tid 0\n%1: int32 = tid 1\n"
TID_COSTS = 2 * 0.25  # scalars, from which those of the lanes count up


def cost(params, *lines):
    """The estimate for some lines besides the numbers of the thread."""
    kernel = read(f"kernel k({params}), tid 2\n{TIDS}" + "\n".join(lines))
    return vector_cost(kernel) - TID_COSTS


@pytest.mark.parametrize(("at", "kind", "expected"), [
    ("%0, %1", "float32", costs.CONTIGUOUS),
    ("%0, %1", "float64", costs.CONTIGUOUS),
    ("%1, %0", "float32", costs.STRIDED),
    ("%1, %0", "float64", costs.ANY),
    ("%0, 0", "float32", costs.ONE),
    ("%0, %1, 2", "vec3", costs.SHUFFLED),
    ("%1, %0, 2", "vec3", costs.TRANSPOSED),
])  # fmt: skip
def test_loads_cost_what_the_strategy_of_their_pattern_does(at, kind, expected):
    scalar = kind if kind.startswith("float") else "float32"
    assert cost(f"y: array2d[{kind}]", f"%2: {scalar} = load y[{at}]") == expected


def test_atomic_operations_cost_alike_wherever_they_are():
    costs_of = {cost("y: array2d[float32]", f"atomic_add y[{at}], 1.0") for at in ("%0, 0", "%0, %1", "%1, %0")}
    assert costs_of == {costs.ATOMIC}


def test_a_loop_takes_its_body_as_often_as_it_runs():
    body = ["for %2: int32 = 0 .. 5 step 1 {", "store y[%0, %1], 1.0", "}"]
    assert cost("y: array2d[float32]", *body) == 5 * costs.CONTIGUOUS


def test_lanes_along_the_first_dimension_stride_through_rows():
    kernel = read(f"kernel k(y: array2d[float64]), tid 2\n{TIDS}%2: float64 = load y[%0, %1]")
    assert vector_cost(kernel) == costs.CONTIGUOUS + TID_COSTS
    assert vector_cost(rotated(kernel)) == costs.ANY + TID_COSTS
