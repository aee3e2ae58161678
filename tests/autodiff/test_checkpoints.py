"""Loops that start again from the states in fixed slots: the same gradients as with a tape, without one."""

import numpy as np
import pytest
from derived_launches import check_derivatives
from textual_ir import lines, random_arguments, read

from jwarp.autodiff.checkpoints import Storage
from jwarp.autodiff.reverse import vjp
from jwarp.ir.nodes import Op, walk

pytestmark = pytest.mark.quick

RECURRENCE = """
    kernel recurrence(x: array[float64], n: array[int32], y: array[float64]), tid 1
      %0: int32 = tid 0
      %1: float64 = load x[%0]
      %2: int32 = load n[%0]
      for %3: int32 = 0 .. %2 step 1 carry (%4: float64 = %1) {
        %5: float64 = sin %4
        %6: float64 = mul %5, 1.5:float64
        yield %6
      } -> %7: float64
      store y[%0], %7
"""


@pytest.mark.parametrize("count", [0, 1, 2, 40])
@pytest.mark.parametrize("storage", Storage)
def test_gradients_fit_differences_for_any_number_of_iterations(count, storage):
    kernel = read(RECURRENCE)
    args = random_arguments(kernel, (4,))
    args[1] = np.array([count, 0, 3, count], np.int32)
    check_derivatives(kernel, (4,), args, (0,), storage=storage)


def test_the_tape_grows_with_the_loop_and_the_slots_do_not():
    taped, slots = (vjp(read(RECURRENCE), (0,), (2,), storage=storage).kernel for storage in Storage)
    assert [n.name for n in walk(taped.body) if isinstance(n, Op) and n.row.uses_tape] == ["push", "top", "pop"]
    assert not any(n.row.uses_tape for n in walk(slots.body) if isinstance(n, Op))
    assert [local.name for local in slots.locals if local.name.startswith("checkpoint")] and not taped.locals
    assert "push" in "\n".join(lines(taped))
