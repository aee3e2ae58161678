"""Gradients where they stand: the operations of a kernel with those of its gradient, against differences."""

import dataclasses

import numpy as np
import pytest
from textual_ir import read

from jwarp.autodiff.inline import gradients
from jwarp.backend.interpreter.machine import run
from jwarp.errors import NO_SPAN, CompileError, NotDifferentiableError
from jwarp.frontend.lowering.derivatives import Differentiated
from jwarp.ir.builder import Builder
from jwarp.ir.nodes import Const, Local, Op
from jwarp.ir.verify import verify
from jwarp.types import int32

pytestmark = pytest.mark.quick

# Each loads a and b, computes, and stores the result, which the last line says.
HEAD = """
kernel k(x: array[float64], y: array[float64]), tid 1
  local l: array[float64] of [2]
  %0: float64 = load x[0]
  %1: float64 = load x[1]
"""
BODIES = {
    "product": "%2: float64 = sin %0\n%3: float64 = mul %2, %1\nstore y[0], %3",
    "branch": """
  %2: bool = gt %0, 0.0:float64
  if %2 {
    %3: float64 = mul %0, %1
    yield %3
  } else {
    %4: float64 = cos %0
    yield %4
  } -> %5: float64
  store y[0], %5
""",
    "one side": """
  %2: bool = gt %1, 0.0:float64
  if %2 {
    yield 1.0:float64
  } else {
    yield %0
  } -> %5: float64
  %6: float64 = mul %5, %1
  store y[0], %6
""",
    "loop": """
  for %2: int32 = 0 .. 3 step 1 carry (%3: float64 = %0, %4: float64 = 1.0:float64) {
    %5: float64 = mul %3, %1
    %6: float64 = add %4, %5
    yield %6, %5
  } -> %7: float64, %8: float64
  %9: float64 = mul %7, %8
  store y[0], %9
""",
    "while": """
  while carry (%2: float64 = %0, %3: int32 = 0) {
    %4: bool = lt %3, 3
    yield %4
  } do {
    %5: float64 = mul %2, %1
    %6: int32 = add %3, 1
    yield %5, %6
  } -> %7: float64, %8: int32
  store y[0], %7
""",
    "local array": """
  clear l
  store l[0], %0
  %2: float64 = mul %0, %1
  atomic_add l[0], %2
  store l[1], 3.0:float64
  %3: float64 = load l[0]
  %4: float64 = load l[1]
  %5: float64 = mul %3, %4
  clear l
  %6: float64 = load l[0]
  %7: float64 = add %5, %6
  store y[0], %7
""",
    "array that a loop stores to after it was read": """
  clear l
  store l[0], 1.0:float64
  for %2: int32 = 0 .. 3 step 1 carry (%3: float64 = %1) {
    %4: float64 = load l[0]
    %5: float64 = mul %3, %4
    store l[0], %0
    yield %5
  } -> %6: float64
  store y[0], %6
""",
    "integers": "%2: int32 = cast %0\n%3: float64 = cast %2\n%4: float64 = mul %3, %1\nstore y[0], %4",
}


def with_gradient(text):
    """The kernel that computes the function and stores its gradient after it: y[1] by a, y[2] by b."""
    kernel = read(HEAD + text)
    *nodes, store = kernel.body.nodes[2:]
    loads = kernel.body.nodes[:2]
    local, twins = kernel.locals[0], list[Local]()

    def twin(number):
        twins.append(dataclasses.replace(local, name=f"l{len(twins)}"))
        return 2 + len(twins)

    builder = Builder()
    builder.extend(loads)
    function = Differentiated("f", NO_SPAN, range(2, 3), twin)
    inputs = [(load.result, load.result) for load in loads]
    found = gradients(builder, nodes, inputs, [store.args[-1]], (), function)
    builder.append(store)
    for k, x in enumerate(found):
        builder.append(Op("store", (Const(int32, 1 + k), x), store.attr))
    # A new array is zero where its kernel begins.
    cleared = [Op("clear", (), 3 + k) for k in range(len(twins))]
    body = dataclasses.replace(kernel.body, nodes=(*cleared, *builder.nodes))
    made = dataclasses.replace(kernel, body=body, locals=(local, *twins))
    verify(made)
    return made


def value(text, x):
    y = np.zeros(3)
    return run(read(HEAD + text), (1,), [x, y])[1][0]


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("x", [(0.7, 1.3), (-0.4, 0.6), (0.9, -1.1)])
def test_gradients_fit_differences(name, x):
    x, text = np.array(x), BODIES[name]
    found = run(with_gradient(text), (1,), [x.copy(), np.zeros(3)])[1]
    assert found[0] == value(text, x.copy())
    for k in range(2):
        step = np.eye(2)[k] * 1e-6
        expected = (value(text, x + step) - value(text, x - step)) / 2e-6
        np.testing.assert_allclose(found[1 + k], expected, rtol=1e-7, atol=1e-8)


def test_results_without_a_way_to_an_input_have_the_gradient_zero():
    made = with_gradient("%2: float64 = sin %0\nstore y[0], %2")
    assert made.body.nodes[-1].args[-1] == Const(made.params[0].dtype, 0.0)


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("store y[2], %0\nstore y[0], %1", CompileError, "writes to an array"),
        ("%2: int64 = bitcast %0\n%3: float64 = bitcast %2\nstore y[0], %3", NotDifferentiableError, "no derivative"),
    ],
)  # fmt: skip
def test_what_has_no_gradient_is_refused(text, error, reason):
    with pytest.raises(error, match=reason):
        with_gradient(text)
