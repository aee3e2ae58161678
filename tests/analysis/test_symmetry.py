"""Values computed of decompositions: which do not depend on the choice of vectors of equal values."""

import pytest
from textual_ir import read

from jwarp.analysis.symmetry import depends_on_decompositions, symmetry

pytestmark = pytest.mark.quick

LOAD = "kernel k(x: array[float32], y: array[float32]), tid 1\n%0: int32 = tid 0\n%1: float32 = load x[%0]\n"

# %10 to %13 are U, %20 and %21 the values, %30 to %33 are V, by rows.
SVD = LOAD + "\n".join(
    f"%{10 * (factor + 1) + k}: float32 = symmetric %1, %1, %1 factor {factor} number {k} width 2"
    for factor, count in ((0, 4), (1, 2), (2, 4))
    for k in range(count)
)
# %10 to %13 are the vectors of a symmetric matrix, %20 and %21 its eigenvalues.
EIGEN = "\n".join(line for line in SVD.splitlines() if "factor 2" not in line)


def facts(parts, *lines):
    """The symmetry of a kernel of these lines, and the value of the last one."""
    kernel = read("\n".join([parts, *lines]))
    assert depends_on_decompositions(kernel)
    last = kernel.body.nodes[-1].result
    return symmetry(kernel), last


ROTATION = [  # element (0, 1) of U V^T
    "%40: float32 = mul %10, %32",
    "%41: float32 = mul %11, %33",
    "%42: float32 = add %40, %41",
]
STRETCHED = [  # element (0, 0) of U s V^T
    "%40: float32 = mul %10, %20",
    "%41: float32 = mul %40, %30",
    "%42: float32 = mul %11, %21",
    "%43: float32 = mul %42, %31",
    "%44: float32 = add %41, %43",
]


@pytest.mark.parametrize("lines", [
    ROTATION,
    STRETCHED,
    ["%40: float32 = add %20, %21"],
    ["%40: float32 = mul %20, %21"],
    ["%40: float32 = max %20, %21", "%41: float32 = add %40, %40"],
])  # fmt: skip
def test_functions_of_the_matrix_are_symmetric(lines):
    found, last = facts(SVD, *lines)
    assert last in found.made and last in found.symmetric


@pytest.mark.parametrize("lines", [
    ["%40: float32 = mul %10, %30"],  # one vector alone
    ["%40: float32 = sub %20, %21"],  # values in their order
    ROTATION[:1],
    [*STRETCHED[:4], "%44: float32 = sub %41, %43"],
    ["%40: float32 = mul %20, 2.0"],
])  # fmt: skip
def test_what_depends_on_the_choice_of_vectors_or_their_order_is_not(lines):
    found, last = facts(SVD, *lines)
    assert last in found.made and last not in found.symmetric


def test_values_say_what_they_are_made_of():
    found, last = facts(SVD, *ROTATION)
    assert last in found.of_vectors and last not in found.of_values
    found, last = facts(SVD, *STRETCHED)
    assert last in found.of_vectors and last in found.of_values
    found, last = facts(SVD, "%40: float32 = add %20, %21")
    assert last not in found.of_vectors and last in found.of_values
    found, last = facts(SVD, "%40: float32 = add %1, %1")
    assert last not in found.made and last not in found.symmetric


@pytest.mark.parametrize(("function", "has_scale"), [("exp", True), ("abs", False)])
def test_functions_of_eigenvalues_have_a_scale_where_they_change_at_zero_as_near_it(function, has_scale):
    lines = [f"%{40 + k}: float32 = {function} %{20 + k}" for k in range(2)]
    found, last = facts(EIGEN, *lines, "%42: float32 = add %40, %41")
    assert last in found.symmetric and found.has_scale is has_scale
    assert not facts(EIGEN, "%40: float32 = mul %20, %20", "%41: float32 = mul %21, %21",
                     "%42: float32 = add %40, %41")[0].has_scale  # fmt: skip


def test_kernels_without_decompositions_have_none():
    kernel = read(LOAD + "%2: float32 = add %1, %1")
    assert not depends_on_decompositions(kernel)
    assert not symmetry(kernel).made
