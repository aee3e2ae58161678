"""Arrays that threads only add to, how threads are apart in them, and how long a thread runs."""

import pytest
from textual_ir import read

from jwarp.analysis.sums import apart_of, sums_of, weight_of

pytestmark = pytest.mark.quick


def kernel(body, tid_dims=2):
    return read(f"kernel k(x: array[float32], y: array[float32]), tid {tid_dims}\n%0: int32 = tid 0\n{body}")


@pytest.mark.parametrize(
    ("body", "sums"),
    [
        ("atomic_add x[%0], 1.0\natomic_add x[0], 2.0\nstore y[%0], 1.0", {0}),
        ("%1: float32 = atomic_add x[%0], 1.0", {0}),
        ("%1: float32 = atomic_add x[%0], 1.0\natomic_add y[%0], %1", {1}),
        ("atomic_add x[%0], 1.0\n%1: float32 = load x[0]\natomic_add y[%0], 1.0", {1}),
        ("atomic_max x[%0], 1.0", set()),
    ],
)
def test_arrays_that_are_only_added_to(body, sums):
    assert sums_of(kernel(body)) == sums


@pytest.mark.parametrize(
    ("index", "apart"),
    [
        ("%2: int32 = add %0, 3", 1),
        ("%2: int32 = sub %0, 3", 0),
        ("%2: int32 = mul %0, 2", 0),
        ("%3: int32 = mul %0, 8\n%2: int32 = add %3, %1", 8),
        ("%2: int32 = add %0, %1", 0),
        ("%2: int32 = add %1, 0", 0),
    ],
)
def test_how_first_coordinates_tell_elements_apart(index, apart):
    found = kernel(f"%1: int32 = tid 1\n{index}\natomic_add x[%2], 1.0")
    assert apart_of(found, 0) == apart
    # Two threads with other first coordinates meet nowhere: counted over a launch whose last dimension is so long.
    last, where = max(apart, 1), {}
    if apart and "mul %0, 8" in index:
        where = {(i, j): 8 * i + j for i in range(5) for j in range(last)}
    elif apart:
        where = {(i, j): i + 3 for i in range(5) for j in range(last)}
    assert all(where[a] != where[b] for a in where for b in where if a[0] != b[0])


def test_two_indices_that_differ_tell_nothing():
    assert apart_of(kernel("%1: int32 = add %0, 1\natomic_add x[%0], 1.0\natomic_add x[%1], 1.0"), 0) == 0


def test_weights_grow_with_loops():
    plain = kernel("%1: float32 = load x[%0]\nstore y[%0], %1")
    looped = kernel("for %1: int32 = 0 .. 10 step 1 {\n%2: float32 = load x[%1]\nstore y[%0], %2\n}")
    unknown = kernel("for %1: int32 = 0 .. %0 step 1 {\n%2: float32 = load x[%1]\nstore y[%0], %2\n}")
    empty = kernel("for %1: int32 = 9 .. 3 step 1 {\n%2: float32 = load x[%1]\nstore y[%0], %2\n}")
    assert weight_of(plain) == 1 + 4 + 4 and weight_of(looped) == 1 + 80 and weight_of(empty) == 1
    assert weight_of(unknown) > weight_of(looped)


def test_loops_of_unknown_length_in_others_count_for_less():
    def loops(count):
        begin = "".join(f"for %1{n}: int32 = 0 .. %0 step 1 {{\n" for n in range(count))
        return weight_of(kernel(f"{begin}atomic_add x[%0], 1.0\n" + "}\n" * count))

    assert [loops(count) - 1 for count in range(4)] == [20, 64 * 20, 64 * 8 * 20, 64 * 8 * 2 * 20]
