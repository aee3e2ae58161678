"""Values that a derivative goes through although a thread may not choose them, and those that may be constants."""

import pytest
from textual_ir import read

from jwarp.analysis.activity import activity
from jwarp.analysis.choices import maybe_constant, maybe_unchosen
from jwarp.autodiff.tile_rules import carries
from jwarp.ir.nodes import Op, walk

pytestmark = pytest.mark.quick

HEAD = """
    kernel k(x: array[float32], y: array[float32]), tid 1
      %0: int32 = tid 0
      %1: float32 = load x[%0]
      %2: bool = gt %1, 0.0
      %3: float32 = sin %1
      %4: float32 = cos %1
"""


def chooses(node):
    return (1, 2) if node.row.transfer.chooses else ()


def names(kernel, values):
    """The operations whose results are among some values."""
    return {n.name for n in walk(kernel.body) if isinstance(n, Op) and n.result in values}


def active(kernel):
    return activity(kernel, {0}, {1}, carries)


def unchosen(body, contested=()):
    kernel = read(HEAD + body)
    return names(kernel, maybe_unchosen(kernel, active(kernel), chooses, contested))


def constant(body):
    kernel = read(HEAD + body)
    found = maybe_constant(kernel, active(kernel), chooses)
    return names(kernel, found)


BRANCH = """
      if %2 {
        yield %3
      } else {
        yield %4
      } -> %5: float32
      store y[%0], %5
"""
LOOP = """
      for %6: int32 = 0 .. 3 step 1 carry (%7: float32 = %3) {
        %8: float32 = exp %4
        yield %8
      } -> %9: float32
      store y[%0], %9
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("store y[%0], %3", set()),
        ("%5: float32 = select %2, %3, %4\nstore y[%0], %5", {"sin", "cos"}),
        ("%5: float32 = select %2, %3, %4\n%6: float32 = add %5, %3\nstore y[%0], %6", {"cos"}),
        (BRANCH, {"sin", "cos"}),
        (BRANCH + "atomic_add y[%0], %3", {"cos"}),
        ("atomic_max y[%0], %3", {"sin"}),
        ("atomic_add y[%0], %3", set()),
        (LOOP, {"sin", "cos"}),  # it may have no iteration, or end with another value
    ],
)
def test_what_reaches_a_result_by_choices_alone(body, found):
    # The element is read for what is certain and what is not.
    assert unchosen(body) - {"load"} == found


def test_what_is_stored_to_a_contested_array():
    assert "sin" in unchosen("store y[%0], %3", contested=(1,))
    assert "sin" not in unchosen("store y[%0], %3", contested=(0,))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("store y[%0], %3", set()),
        ("%5: float32 = select %2, %3, %4\nstore y[%0], %5", set()),
        ("%5: float32 = select %2, %3, 1.0\n%6: float32 = exp %5\nstore y[%0], %6", {"select", "exp"}),
        ("%5: float32 = select %2, %3, 1.0\n%6: float32 = mul %5, %3\nstore y[%0], %6", {"select"}),
        (BRANCH.replace("yield %4", "yield 2.0").replace("y[%0], %5", "y[%0], %6").replace(
            "store", "%6: float32 = exp %5\nstore"), {"exp"}),
    ],
)  # fmt: skip
def test_what_may_be_a_constant(body, found):
    assert constant(body) == found
