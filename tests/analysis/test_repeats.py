"""Blocks of a kernel that do the same with other values: found, with what they are given, and not found."""

import pytest
from textual_ir import read

from jwarp.analysis.repeats import repeated_blocks
from jwarp.ir.nodes import Const, If, walk

pytestmark = pytest.mark.quick

STEPS = 80


def block(start, first, function="sin", index="0", steps=STEPS):
    """A branch that computes `steps` values from one."""
    lines = [f"%{start}: float32 = load x[{index}]", f"%{start + 1}: float32 = add %{start}, {first}"]
    lines += [f"%{start + k}: float32 = {function} %{start + k - 1}" for k in range(2, steps)]
    return "\n".join([f"if %2 {{\n{chr(10).join(lines)}\nyield %{start + steps - 1}\n}} else {{",
                      f"yield 0.0\n}} -> %{start + steps}: float32\nstore y[0], %{start + steps}"])  # fmt: skip


def repeats(*blocks, known=lambda node: True, of_value=lambda value: True):
    """The repeats of a kernel with these blocks, for each of its branches."""
    head = "kernel k(x: array[float32], y: array[float32]), tid 1\n%0: int32 = tid 0\n%1: float32 = load x[%0]\n"
    kernel = read("\n".join([head + "%2: bool = gt %1, 0.0", *blocks]))
    found = repeated_blocks(kernel, known, of_value)
    return [found.get(n.then) for n in walk(kernel.body) if isinstance(n, If)]


def test_copies_take_what_is_outside_of_them():
    one, other, third = repeats(block(100, "%1"), block(200, "%1"), block(300, "%1"))
    assert one.number == other.number == third.number and one.first is other.first is third.first
    assert one.model is one.first and one.params == one.given == other.given  # nothing differs
    assert len(one.results) == len(one.made) == 1 and one.made == other.made and one.results != other.results


def test_constants_that_differ_as_indices_are_params():
    one, other, third = repeats(*(block(100 * k, "%1", index=str(k)) for k in (1, 2, 3)))
    assert len(one.params) == len(one.given) == 2
    assert [r.given[1].value for r in (one, other, third)] == [1, 2, 3]
    assert one.first is not one.model and isinstance(one.given[1], Const)


@pytest.mark.parametrize("other", [
    block(200, "%1", "cos"),
    block(200, "1.0"),
    block(200, "%1", steps=STEPS + 1),
    block(200, "%1").replace("yield %279", "yield %278"),
])  # fmt: skip
def test_what_does_something_else_is_no_copy(other):
    assert None not in repeats(block(100, "%1"), block(200, "%1"))
    assert repeats(block(100, "%1"), other) == [None, None]


def test_copies_have_the_same_facts():
    kinds = iter(range(10**6))
    assert repeats(*(block(100 * k, "%1") for k in (1, 2, 3)), known=lambda node: next(kinds)) == [None] * 3
    assert repeats(*(block(100 * k, "%1") for k in (1, 2, 3)), known=lambda node: None) == [None] * 3
    values = repeats(*(block(100 * k, "%1") for k in (1, 2, 3)), of_value=lambda value: value.type)
    assert None not in values


def test_what_saves_little_stays():
    assert repeats(*(block(100 * k, "%1", steps=25) for k in (1, 2, 3))) == [None] * 3
    assert None not in repeats(*(block(100 * k, "%1", steps=25) for k in range(1, 6)))


def nested(innermost, start, depth=60):
    """An `elif` of many branches, whose last one multiplies by a number."""
    lines, ends = [], []
    for k in range(start, start + 3 * depth, 3):
        lines += [f"%{k}: bool = lt %1, {k - start}.5", f"%{k + 1}: float32 = mul %1, {k - start}.25"]
        lines += [f"if %{k} {{", f"yield %{k + 1}", "} else {"]
        ends = [f"yield %{k + 5 if k + 3 < start + 3 * depth else k + 3}", f"}} -> %{k + 2}: float32", *ends]
    lines += [f"%{start + 3 * depth}: float32 = mul %1, {innermost}", *ends, f"store y[0], %{start + 2}"]
    return "\n".join(["if %2 {", *lines, "}"])


def test_each_operation_is_read_once_however_deep_it_stands():
    read_ops = []
    assert (
        repeats(nested("2.0", 1000), nested("3.0", 2000), known=lambda node: read_ops.append(node) or True)[0] is None
    )
    assert len(read_ops) == len(set(read_ops)) == 3 + 2 * (2 * 60 + 2)


def test_the_outermost_of_nested_blocks_are_copies():
    found = repeats(nested("2.0", 1000), nested("2.0", 2000))
    (one, *inside), (other, *others) = found[:61], found[61:]
    assert one.number == other.number == 0 and one.params == one.given == other.given
    assert not any(inside) and not any(others)


def test_an_access_to_an_array_of_the_kernel_is_no_part_of_a_copy():
    inside = block(100, "%1").replace("%100: float32 = load x[0]", "%100: float32 = load x[0]\nstore t[0], %100")
    head = (
        "kernel k(x: array[float32], y: array[float32]), tid 1\n  local t: array[float32] of [4]\n%0: int32 = tid 0\n"
    )
    kernel = read(
        "\n".join([head + "clear t\n%1: float32 = load x[%0]\n%2: bool = gt %1, 0.0", inside, block(200, "%1")])
    )
    count = len(kernel.params)
    own = lambda node: None if node.row.is_access and node.array >= count else True  # noqa: E731
    assert not repeated_blocks(kernel, own, lambda value: True)
