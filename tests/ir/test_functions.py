"""Functions of a kernel where they are called: a copy for each call but the only one, whatever is around it."""

import random

import pytest
from textual_ir import agree, expect, lines, read

from jwarp.ir.functions import inlined, settled_functions, without_reading_functions
from jwarp.ir.nodes import Op, walk

pytestmark = pytest.mark.quick

NESTED = """
    kernel k(x: array[float32], y: array[float32]), tid 1
      function 0 square(%0: float32) {
        %1: float32 = mul %0, %0
        yield %1
      }
      function 1 choose(%2: float32, %3: bool) {
        if %3 {
          %4: int32 = call 0 square %2
          %5: float32 = call_part 0 %4
          yield %5
        } else {
          yield %2
        } -> %6: float32
        yield %6, %2
      }
      %7: int32 = tid 0
      %8: float32 = load x[%7]
      %9: bool = gt %8, 0.0
      %10: int32 = call 1 choose %8, %9
      %11: float32 = call_part 0 %10
      %12: float32 = call_part 1 %10
      %13: int32 = call 0 square %11
      %14: float32 = call_part 0 %13
      %15: float32 = add %14, %12
      store y[%7], %15
"""


def test_nested_functions_in_line():
    expect(
        inlined(read(NESTED)),
        """
        kernel k(x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: bool = gt %1, 0.0
          if %2 {
            %3: float32 = mul %1, %1
            yield %3
          } else {
            yield %1
          } -> %4: float32
          %5: float32 = mul %4, %4
          %6: float32 = add %5, %1
          store y[%0], %6
        """,
    )
    agree(read(NESTED), inlined(read(NESTED)))


def test_functions_that_read_arrays_are_put_in_line_alone():
    text = NESTED.replace("%1: float32 = mul %0, %0", "%20: float32 = load x[0]\n%1: float32 = mul %0, %20")
    made = without_reading_functions(read(text))
    assert not made.functions  # `choose` calls what reads
    agree(read(text), made)
    assert lines(without_reading_functions(read(NESTED))) == lines(read(NESTED))


def test_large_functions_with_several_calls_stay():
    steps = "\n".join(f"%{k + 100}: float32 = sin %{k + 99 if k else 0}" for k in range(200))
    text = NESTED.replace("%1: float32 = mul %0, %0", f"{steps}\n%1: float32 = mul %299, %0")
    made = settled_functions(read(text))
    assert [function.name for function in made.functions] == ["square"]
    calls = [n for n in walk(made.body) if isinstance(n, Op) and n.row.is_call]
    assert [call.number for call in calls] == [0, 0]
    agree(read(text), made)


def test_functions_that_stay_have_new_numbers():
    steps = "\n".join(f"%{k + 101}: float32 = sin %{k + 100}" for k in range(200))
    text = f"""
kernel k(x: array[float32]), tid 1
  function 0 small(%1: float32) {{
    %2: float32 = neg %1
    yield %2
  }}
  function 1 large(%100: float32) {{
    {steps}
    yield %300
  }}
  %3: float32 = load x[0]
  %4: int32 = call 0 small %3
  %5: float32 = call_part 0 %4
  %6: int32 = call 1 large %5
  %7: float32 = call_part 0 %6
  %8: int32 = call 1 large %7
  %9: float32 = call_part 0 %8
  store x[0], %9
"""
    made = settled_functions(read(text))
    assert [function.name for function in made.functions] == ["large"]
    assert [n.number for n in walk(made.body) if isinstance(n, Op) and n.row.is_call] == [0, 0]
    agree(read(text), made)


def random_functions(rng, count):
    """A kernel with functions that call some of those before them, in branches and loops too."""
    text, number = ["kernel k(x: array[float32], y: array[float32]), tid 1"], 0

    def fresh():
        nonlocal number
        number += 1
        return f"%{number}"

    def call(k, x):
        stands, part = fresh(), fresh()
        return [
            f"{stands}: int32 = call {k} f{k} {x}",
            f"{part}: float32 = call_part {rng.randrange(2)} {stands}",
        ], part

    for k in range(count):
        x = fresh()
        text += [f"function {k} f{k}({x}: float32) {{"]
        last = x
        for _ in range(rng.randrange(3) if k else 0):
            made, part = call(rng.randrange(k), last)
            kind, result = rng.randrange(3), fresh()
            if kind == 0:
                test = fresh()
                text += [f"{test}: bool = gt {last}, 0.0", f"if {test} {{", *made, f"yield {part}", "} else {"]
                text += [f"yield {x}", f"}} -> {result}: float32"]
                last = result
            elif kind == 1:
                carried = fresh()
                made, part = call(rng.randrange(k), carried)
                text += [f"for {fresh()}: int32 = 0 .. 2 step 1 carry ({carried}: float32 = {last}) {{", *made]
                text += [f"yield {part}", f"}} -> {result}: float32"]
                last = result
            else:
                text += made
                last = part
        made = fresh()
        text += [f"{made}: float32 = sub {last}, {k}.5", f"yield {made}, {rng.choice([x, last, made, '2.0'])}", "}"]
    (
        thread,
        value,
    ) = fresh(), fresh()
    made, part = call(count - 1, value)
    other, second = call(rng.randrange(count), part)
    text += [f"{thread}: int32 = tid 0", f"{value}: float32 = load x[{thread}]", *made, *other]
    return "\n".join([*text, f"store y[{thread}], {second}"])


@pytest.mark.parametrize("seed", range(20))
def test_random_functions_do_the_same_in_line(seed):
    kernel = read(random_functions(random.Random(seed), 6))
    made = inlined(kernel)
    assert not made.functions and not any(n.row.is_outlined for n in walk(made.body) if isinstance(n, Op))
    agree(kernel, made)


def chain(count):
    text = ["kernel k(x: array[float32]), tid 1", "function 0 f0(%0: float32) {", "yield %0", "}"]
    for k in range(1, count):
        text += [f"function {k} f{k}(%{10 * k}: float32) {{", f"%{10 * k + 1}: int32 = call {k - 1} f{k - 1} %{10 * k}"]
        text += [f"%{10 * k + 2}: float32 = call_part 0 %{10 * k + 1}", f"%{10 * k + 3}: float32 = sin %{10 * k + 2}"]
        text += [f"yield %{10 * k + 3}", "}"]
    text += ["%1: float32 = load x[0]", f"%2: int32 = call {count - 1} f{count - 1} %1", "%3: float32 = call_part 0 %2"]
    return read("\n".join([*text, "store x[0], %3"]))


def test_the_only_call_of_a_function_copies_nothing():
    """A chain of 4,000 functions was copied 4,000 times, which took 23 s."""
    kernel = chain(100)
    made = [n.result for n in walk(inlined(kernel).body) if isinstance(n, Op) and n.name == "sin"]
    assert made == [n.result for f in kernel.functions for n in walk(f.body) if isinstance(n, Op) and n.name == "sin"]
    agree(kernel, inlined(kernel))
