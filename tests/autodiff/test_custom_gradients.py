"""Gradients that authors wrote, as part of a kernel's text: they stand in the adjoint in place of rules."""

import numpy as np
import pytest
from textual_ir import expect, read

from jwarp.autodiff.custom_gradients import plain
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run

pytestmark = pytest.mark.quick

# y = f(x), of whose derivative the author says that it is 10 g.
AUTHORED = """
    kernel authored(x: array[float64], y: array[float64]), tid 1
      gradient 0 [value 0 0; cotangent 0 0; gradient 0 0] {
        kernel by_author(x: float64, adj_ret: float64, adj_x: array[float64]), tid 1
          %0: float64 = param adj_ret
          %1: float64 = mul %0, 10.0:float64
          atomic_add adj_x[0], %1
      }
      %0: int32 = tid 0
      %1: float64 = load x[%0]
      %2: float64 = floor %1
      rule %1 gradient 0 arrays []
      %3: float64 = detach %2, %1 rule 0 result 0 arrays []
      store y[%0], %3
"""


def test_compiled_kernels_have_no_rules():
    expect(
        plain(read(AUTHORED)),
        """
            kernel authored(x: array[float64], y: array[float64]), tid 1
              %0: int32 = tid 0
              %1: float64 = load x[%0]
              %2: float64 = floor %1
              store y[%0], %2
        """,
    )


def test_the_adjoint_does_what_the_author_wrote():
    made = vjp(read(AUTHORED), (0,), (1,))
    expect(
        made.kernel,
        """
            kernel authored(adj_y: array[float64], adj_x: array[float64]), tid 1
              %0: int32 = tid 0
              %1: float64 = load adj_y[%0]
              %2: float64 = mul %1, 10.0:float64
              %3: float64 = load adj_x[%0]
              %4: float64 = add %3, %2
              store adj_x[%0], %4
        """,
    )
    g = np.arange(1.0, 5.0)
    given = {"primal": np.ones(4), "cotangent": g, "gradient": np.zeros(4)}
    found = run(made.kernel, (4,), [given[o.kind] for o in made.origins])
    np.testing.assert_array_equal(found[-1], 10 * g)
