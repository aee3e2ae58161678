"""Races that coordinates and extents alone decide are found, with the two threads; others are left to the launch."""

import pytest
from textual_ir import read

from jwarp.analysis.races import find_race

pytestmark = pytest.mark.quick

KERNEL = """
    kernel k(x: array[float32], n: array[int32]), tid 1
      %0: int32 = tid 0
      {}
      store x[%1], 1.0
"""


def race(index, count=6, extent=6, **options):
    repeated = options.get("repeated", False)
    return find_race(read(KERNEL.format(index)), (count,), ((extent,), (9,)), {0}, repeated)


@pytest.mark.parametrize(
    ("index", "threads", "element"),
    [
        ("%1: int32 = div %0, 2", ((0,), (1,)), (0,)),
        ("%1: int32 = mod %0, 4", ((0,), (4,)), (0,)),
        ("%1: int32 = mul 0, %0", ((0,), (1,)), (0,)),
        ("%1: int32 = sub %0, 3", None, None),  # -3, -2, -1 are 3, 4, 5 of six
        ("%2: int32 = shape x axis 0\n  %1: int32 = sub %2, 1", ((0,), (1,)), (5,)),
    ],
)
def test_two_threads_at_one_element(index, threads, element):
    found = race(index)
    if threads is None:
        assert found is None
        return
    assert (found.param, found.threads, found.element) == (0, threads, element)


def test_negative_indices_count_from_the_end():
    found = race("%1: int32 = sub %0, 1")
    assert found is None
    found = race("%1: int32 = sub %0, 1", count=7)
    assert found.element == (5,) and {*found.threads} == {(0,), (6,)}


def test_what_is_outside_or_not_run_is_no_race():
    assert race("%2: int32 = div %0, 2\n  %1: int32 = add %2, 6") is None
    guarded = """
        kernel k(x: array[float32]), tid 1
          %0: int32 = tid 0
          %1: bool = eq %0, {}
          if %1 {{
            store x[0], 1.0
          }} else {{
            store x[1], 1.0
          }}
    """
    assert find_race(read(guarded.format(0)), (2,), ((3,),), {0}, False) is None
    assert find_race(read(guarded.format(0)), (3,), ((3,),), {0}, False).threads == ((1,), (2,))


def test_data_decides_nothing_here():
    assert race("%1: int32 = load n[%0]") is None
    assert race("%1: int32 = mod %0, 1", count=0) is None and race("%1: int32 = mod %0, 1", count=1) is None


def test_repeated_threads_race_with_themselves():
    assert race("%1: int32 = add %0, 0", repeated=True).threads == ((0, 0), (0, 1))
    assert race("%1: int32 = add %0, 0") is None
    kernel = read(KERNEL.format("%1: int32 = mul %0, 0"))
    assert find_race(kernel, (6,), ((6,), (9,)), (), False) is None  # of other arrays nobody asks
