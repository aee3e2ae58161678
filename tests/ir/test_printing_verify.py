"""The text of kernels, and that the verifier accepts good ones and names the fault of bad ones."""

import dataclasses
import textwrap

import ir_kernels
import pytest
from ir_kernels import Nodes, arrays, const

from jwarp.errors import Span
from jwarp.ir.attributes import Extent
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Op, Param, Value, While
from jwarp.ir.printing import format_constant, format_kernel
from jwarp.ir.verify import InvalidIR, verify
from jwarp.types import (
    ArrayType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint32,
)

pytestmark = pytest.mark.quick


def text(lines):
    return textwrap.dedent(lines).lstrip("\n")


def test_text_of_operations_and_source_lines():
    assert format_kernel(ir_kernels.spring()) == text("""
        kernel spring(x: array[float32], k: float32, f: array[float32]), tid 1
          %0: int32 = tid 0                          # line 12
          %1: float32 = param k                      # line 13
          %2: float32 = load x[%0]
          %3: float32 = neg %1
          %4: float32 = mul %3, %2
          store f[%0], %4
    """)


def test_text_of_a_branch():
    assert format_kernel(ir_kernels.clamp()) == text("""
        kernel clamp(x: array[float32], y: array[float32], count: array[uint8]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: bool = lt %1, 0.0
          if %2 {
            store count[0], 1:uint8
            yield 0.0
          } else {
            %3: float32 = sqrt %1
            yield %3
          } -> %4: float32
          store y[%0], %4
    """)


def test_text_of_loops():
    assert format_kernel(ir_kernels.power(int64, -2)) == text("""
        kernel power(x: array[float32], n: array[int64], y: array[float32], s: array[int64]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: int64 = load n[%0]
          for %3: int64 = %2 .. 0:int64 step -2 carry (%4: float32 = 1.0, %5: int64 = 0:int64) {
            %6: float32 = mul %4, %1
            %7: int64 = add %5, %3
            yield %6, %7
          } -> %8: float32, %9: int64
          store y[%0], %8
          store s[%0], %9
    """)
    assert format_kernel(ir_kernels.collatz()).splitlines()[3:6] == [
        "  while carry (%2: int32 = %1, %3: int32 = 0) {",
        "    %4: bool = gt %2, 1",
        "    yield %4",
    ]


def test_source_text_stands_beside_the_first_operation_of_a_line(tmp_path):
    file, other = tmp_path / "model.py", tmp_path / "library.py"
    file.write_text("def f():\n    a = 1\n    b = g(a)\n")
    other.write_text("    return a + a\n")
    places = [(file, 2), (file, 3), (file, 3), (other, 1), (file, 3)]
    nodes = tuple(Op("tid", (), 0, Value(int32), Span(str(f), line)) for f, line in places)
    lines = format_kernel(Kernel("f", (), 1, Block(nodes), Span(str(file), 1))).splitlines()
    comments = [line.partition("#")[2].strip() for line in lines[1:]]
    assert comments == [
        "line 2: a = 1",
        "line 3: b = g(a)",
        "",
        "library.py line 1: return a + a",
        "line 3: b = g(a)",
    ]
    assert str(tmp_path) not in "\n".join(lines)


def test_constants_are_as_short_as_their_type_allows():
    for constant, expected in (
        (Const(float32, 0.10000000149011612), "0.1"),
        (Const(float64, 0.1), "0.1:float64"),
        (Const(float16, 1.0), "1.0:float16"),
        (Const(bfloat16, 1.0), "1.0:bfloat16"),
        (Const(float32, -0.0), "-0.0"),
        (Const(float32, float("-inf")), "-inf"),
        (Const(float32, float("nan")), "nan"),
        (Const(int32, -3), "-3"),
        (Const(uint8, 3), "3:uint8"),
        (Const(bool_, True), "True"),
    ):
        assert format_constant(constant) == expected


def test_broken_kernels_print_too():
    nodes = (Op("load", (Value(int32),), 5, Value(float32)),)
    assert "%0: float32 = load parameter 5[%undefined:int32]" in format_kernel(Kernel("f", (), 1, Block(nodes)))


@pytest.mark.parametrize("make", ir_kernels.ALL, ids=lambda f: f.__name__)
def test_good_kernels_pass(make):
    verify(make())


def kernel_of(*nodes, yields=(), params=None, tid_dims=1):
    params = (*arrays("x"), Param("k", float32), *arrays("m", dtype=int32, ndim=2)) if params is None else params
    return Kernel("broken", params, tid_dims, Block(nodes, yields))


def op(name, *args, attr=None, result=None):
    """One operation, on constants where the arguments are Python numbers."""
    args = tuple(a if isinstance(a, (Value, Const)) else const(a) for a in args)
    return Op(name, args, attr, Value(result) if result else None, Span("/a/b.py", 7))


FLAG, NUMBER, REAL = Value(bool_), Value(int32), Value(float32)
YES, NO = Block((), (const(1.0),)), Block((), (const(2.0),))
EMPTY = Block()

# Faults of one operation: what the error must say.
OPERATIONS = {
    "takes 2 arguments, not 1": op("add", 1.0, result=float32),
    "does not take arguments of kinds bool": op("neg", True, result=bool_),
    "does not take arguments of types": op("add", 1.0, 1, result=float32),
    "gives float32, not int32": op("add", 1.0, 1.0, result=int32),
    "gives bool, not float32": op("lt", 1.0, 1.0, result=float32),
    "has a result, but here it has none": op("add", 1.0, 1.0),
    "has no attr": op("add", 1.0, 1.0, attr=3, result=float32),
    "axis 1 is not one of 1": op("tid", attr=1, result=int32),
    "attr must be the number of an axis, but here it is None": op("tid", result=int32),
    "attr must be the number of an axis, but here it is True": op("tid", attr=True, result=int32),
    "gives int32, not int64": op("tid", attr=0, result=int64),
    "there is no array 3": op("load", 1, attr=3, result=float32),
    "attr must be the number of an array, but here it is -1": op("load", 1, attr=-1, result=float32),
    "parameter k is not an array": op("load", 1, attr=1, result=float32),
    "parameter x is not a scalar": op("param", attr=0, result=float32),
    "gives float32, not float64": op("param", attr=1, result=float64),
    "1 indices for an array of 2": op("load", 1, attr=2, result=int32),
    "does not take arguments of kinds float": op("load", 1.0, attr=0, result=float32),
    "gives float32, not uint32": op("load", 1, attr=0, result=uint32),
    "indices must be integers": op("store", 1.0, 1.0, attr=0),
    "int32 is written to an array of float32": op("store", 0, 1, attr=0),
    "0 indices for an array of 1": op("store", 1.0, attr=0),
    "has no result": op("store", 0, 1.0, attr=0, result=float32),
    "takes arguments": op("store", attr=0),
    "attr must be Extent(array, axis)": op("shape", attr=0, result=int32),
    "axis 2 is not one of 2": op("shape", attr=Extent(2, 2), result=int32),
    "attr must be a text": op("check", True, attr=1),
    "indices for an array of 2": op("inside", 1, attr=2, result=bool_),
    "gives bool, not int32": op("inside", 1, attr=0, result=int32),
    "there is no array 7": op("inside", 1, attr=7, result=bool_),
    "has no attr, but here": op("thread", attr=0, result=int64),
    "attr must be a format text": op("print", attr=3),
    "there is no conversion": op("print", attr="%k"),
    "not those that the format asks for": op("print", 1.0, attr="%d"),
    "as many bits": op("bitcast", 1.0, result=int64),
    "constant 300": op("neg", Const(int8, 300), result=int8),
    "constant 0.1": op("neg", Const(float32, 0.1), result=float32),
    "constant 1 is": op("neg", Const(float32, 1), result=float32),
    "constant True": op("neg", Const(int32, True), result=int32),
    "operand 1 of type float32 is not defined": op("add", 1.0, REAL, result=float32),
}


@pytest.mark.parametrize("reason", OPERATIONS)
def test_a_bad_operation_is_named(reason):
    node = OPERATIONS[reason]
    with pytest.raises(InvalidIR) as error:
        verify(kernel_of(node))
    assert reason in str(error.value)
    assert str(error.value).startswith(f"kernel broken (b.py:7): {node.name}: ")


def loop(**changes):
    """A good counted loop, changed."""
    param, result = Value(float32), Value(float32)
    good = For(Value(int32), const(0), const(4), 1, (param,), (const(0.0),), Block((), (param,)), (result,))
    return dataclasses.replace(good, **changes)


def repeat(**changes):
    """A good conditional loop, changed."""
    param, result = Value(float32), Value(float32)
    cond = Block((), (const(False),))
    good = While((param,), (const(0.0),), cond, Block((), (param,)), (result,))
    return dataclasses.replace(good, **changes)


STRUCTURES = {
    "the condition is float32": If(const(1.0), EMPTY, EMPTY, ()),
    "If: yields [float32]": If(const(True), YES, NO, ()),
    "If: yields [] where [float32]": If(const(True), YES, EMPTY, (Value(float32),)),
    "If: yields [float32] where [int32]": If(const(True), YES, NO, (Value(int32),)),
    "For: index int32 runs from int64": loop(lo=const(0, int64)),
    "For: index float32": loop(index=Value(float32)),
    "For: step 0": loop(step=0),
    "For: step 1.0": loop(step=1.0),
    "For: step -2147483648": loop(step=-(2**31)),
    "For: yields []": loop(body=EMPTY),
    "For: the carried values": loop(init=()),
    "For: the carried values, ": loop(results=(Value(int32),)),
    "While: the carried values": repeat(results=()),
    "While: yields []": repeat(cond=EMPTY),
    "While: yields [float32] where [bool]": repeat(cond=YES),
    "While: yields [bool]": repeat(body=Block((), (const(True),))),
}


@pytest.mark.parametrize("reason", STRUCTURES)
def test_a_bad_structure_is_named(reason):
    with pytest.raises(InvalidIR) as error:
        verify(kernel_of(STRUCTURES[reason]))
    assert reason in str(error.value)


def test_the_good_loops_of_the_tests_above_are_good():
    verify(kernel_of(loop(), repeat(), loop(step=-3)))


def test_values_of_a_block_are_not_visible_outside():
    inner = op("neg", 1.0, result=float32)
    use = op("neg", inner.result, result=float32)
    verify(kernel_of(inner, use))
    hidden = [
        If(const(True), Block((inner,)), EMPTY, ()),
        loop(body=Block((inner,), (inner.result,))),
        repeat(body=Block((inner,), (inner.result,))),
    ]
    for node in hidden:
        verify(kernel_of(node))
        with pytest.raises(InvalidIR, match="is not visible here"):
            verify(kernel_of(node, use))
    with pytest.raises(InvalidIR, match="is not visible here"):
        verify(kernel_of(If(const(True), Block((inner,)), Block((use,)), ())))
    counted, conditional = loop(), repeat()
    for node, value in ((counted, counted.params[0]), (conditional, conditional.params[0])):
        with pytest.raises(InvalidIR, match="is not visible here"):
            verify(kernel_of(node, op("neg", value, result=float32)))


def test_a_result_is_not_visible_in_its_own_node():
    result = Value(float32)
    with pytest.raises(InvalidIR, match="is not defined"):
        verify(kernel_of(Op("neg", (result,), None, result)))
    with pytest.raises(InvalidIR, match="is not defined"):
        verify(kernel_of(If(const(True), Block((), (result,)), YES, (result,))))


def test_a_value_is_defined_once():
    once = op("neg", 1.0, result=float32)
    with pytest.raises(InvalidIR, match="defined twice"):
        verify(kernel_of(once, once))
    with pytest.raises(InvalidIR, match="defined twice"):
        verify(kernel_of(If(const(True), Block((once,)), Block((once,)), ())))


@pytest.mark.parametrize("tid_dims", [0, 5, True, None])
def test_tid_dims_are_1_to_4(tid_dims):
    with pytest.raises(InvalidIR, match="tid_dims must be 1 to 4"):
        verify(kernel_of(tid_dims=tid_dims))


def test_parameters_and_the_body_are_checked():
    with pytest.raises(InvalidIR, match="the same name"):
        verify(kernel_of(params=arrays("x", "x")))
    for type_ in (float, None, ArrayType(float32, 5), ArrayType(float32, 0)):
        with pytest.raises(InvalidIR, match="parameter p has type"):
            verify(kernel_of(params=(Param("p", type_),)))
    with pytest.raises(InvalidIR, match="yields"):
        verify(kernel_of(yields=(const(1.0),)))


def test_operations_without_fixed_types_are_accepted():
    b = Nodes()
    i = b.tid()
    wide = b("cast", i, type_=int64)
    b("bitcast", const(1.0), type_=uint32)
    b("select", const(True), wide, wide, type_=int64)
    b("load", wide, attr=0)
    b("load", i, wide, attr=2, type_=int32)
    b("check", const(True), attr="fine")
    b("slope", const(1.0), const(1.0), const(1.0), attr="author's")
    b("slope", const(1.0), const(1.0), const(1.0))
    verify(kernel_of(*b.nodes))
