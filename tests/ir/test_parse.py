"""The text of a kernel is read back as the same kernel; a fault in a text is named with line and column."""

from __future__ import annotations

import dataclasses
import random
import textwrap
import typing
import warnings

import collision_sources
import golden_kernels
import gradient_sources
import ir_kernels
import kernel_sources
import language_sources
import numpy as np
import pytest
from textual_ir import agree, assert_same_bits, expect, is_same, read
from tile_kernels import Program

import jwarp as wp
from jwarp.autodiff.checkpoints import Storage
from jwarp.autodiff.forward import jvp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.errors import KernelWarning, NotDifferentiableError
from jwarp.ir.attributes import fields_of, item_of, role_of, without_none
from jwarp.ir.functions import inlined
from jwarp.ir.nodes import Block, Const, Function, Kernel, Local, Op, Order, Param, Value, written_params
from jwarp.ir.ops import OPS
from jwarp.ir.parse import IRSyntaxError, parse_kernel
from jwarp.ir.printing import format_kernel
from jwarp.ir.row_groups import Stage
from jwarp.ir.verify import verify
from jwarp.types import SCALARS, ArrayType, bool_, float32, float64, int32, tile_type

pytestmark = pytest.mark.quick


def returns(kernel: Kernel, stage: Stage | None = Stage.DERIVED) -> Kernel:
    """The kernel that is read from its own text, which equals it."""
    text = format_kernel(kernel)
    found = parse_kernel(text)
    if stage is not None:
        verify(found, stage)
    assert is_same(kernel, found), text
    return found


@pytest.mark.parametrize("make", ir_kernels.ALL, ids=lambda f: f.__name__)
def test_kernels_of_nodes_return(make):
    returns(make())


def test_golden_kernels_and_their_lowered_forms_return():
    for kernel in golden_kernels.KERNELS:
        returns(kernel.ir())
        returns(CpuKernel(kernel.ir(), Settings(cache_dir="")).proofs.kernel, Stage.LOWERED)


def test_random_kernels_return(tmp_path):
    for seed in range(12):
        generated = kernel_sources.Writer(random.Random(seed)).kernel()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KernelWarning)
            ir = kernel_sources.load(generated.source, tmp_path).ir(Settings(max_unroll=4))
        found = returns(ir)
        for mine, theirs in zip(*(run(k, generated.dims, generated.arguments) for k in (ir, found)), strict=True):
            assert_same_bits(mine, theirs)


@pytest.mark.parametrize("sources", [gradient_sources, language_sources, collision_sources], ids=lambda m: m.__name__)
def test_derivatives_of_random_kernels_return(sources, tmp_path):
    derived = 0
    for seed in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KernelWarning)
            ir = kernel_sources.load(sources.Writer(random.Random(seed)).source(), tmp_path).ir(Settings(max_unroll=4))
        returns(ir)
        ir = inlined(ir)
        wanted, given = tuple(p for p, x in enumerate(ir.params) if x.dtype.is_float), written_params(ir)
        makers = [
            lambda ir=ir, wanted=wanted: jvp(ir, wanted),
            lambda ir=ir, wanted=wanted, given=given: vjp(ir, wanted, given),
            lambda ir=ir, wanted=wanted, given=given: vjp(ir, wanted, given, storage=Storage.CHECKPOINTS),
        ]
        for make in makers:
            try:
                made = make()
            except NotDifferentiableError:
                continue
            returns(made.kernel)
            derived += 1
    assert derived > 5


def test_tiles_their_derivatives_and_the_loops_that_they_become_return():
    for seed in range(4):
        kernel = Program(seed).kernel()
        returns(kernel)
        returns(CpuKernel(kernel, Settings(cache_dir="")).proofs.kernel, Stage.LOWERED)
        returns(jvp(kernel, (0, 1, 3)).kernel)
        returns(vjp(kernel, (0, 1, 3), (2, 3)).kernel)


@wp.func
def cube(x: float):
    return x * x * x


@wp.func_grad(cube)
def cube_gradient(x: float, adj_ret: float):
    wp.adjoint[x] += 3.0 * x * x * adj_ret


@wp.kernel
def cubes(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = cube(x[i])


def test_gradients_of_authors_return():
    kernel = cubes.ir()
    assert kernel.gradients
    returns(kernel)
    changed = dataclasses.replace(kernel.gradients[0], feeds=(("value", 0, 1),))
    assert not is_same(kernel, dataclasses.replace(kernel, gradients=(changed,)))
    assert not is_same(kernel, dataclasses.replace(kernel, gradients=()))


def example(kind, count):
    """An attribute of a kind, all of whose numbers differ; arrays are the first ones of four."""
    arrays, numbers = iter(range(4)), iter(range(11, 60))

    def made(kind):
        role = role_of(kind)
        if role is not None and role.what in ("array", "parameter"):
            return next(arrays)
        if role is not None and role.what == "function":
            return 1
        if parts := fields_of(kind):
            return kind(*(made(part) for _, part in parts))
        if item_of(kind) is bool:
            return tuple(k % 2 == 0 for k in range(count))
        kind = getattr(kind, "__origin__", kind) if role else kind
        if typing.get_origin(kind) is tuple:
            return (made(typing.get_args(kind)[0]), made(typing.get_args(kind)[0]))
        return {int: lambda: next(numbers), bool: lambda: True, str: lambda: 'ä "text"\n # # %1, "'}[kind]()

    return made(kind)


def test_every_operation_returns():
    """Whatever its attribute, with as many operands as it takes, with a result and without."""
    params = tuple(Param(name, ArrayType(float32, 1)) for name in ("m", "a b", "nan", "n"))
    functions = (Function("f", (), Block()), Function("g h", (), Block()))
    for name, row in OPS.items():
        for count in (row.arity,) if row.arity is not None else (1, 2, 3):
            args = tuple(Const(int32, k) for k in range(count))
            meant = without_none(row.attribute)
            attributes = [None if meant is None else example(meant, count)]
            if meant is not row.attribute:
                attributes.append(None)
            for attr in attributes:
                if name in ("arg", "reduce", "scan", "tile_scan"):  # of which a text is the name of an operation
                    attr = _with_operation(attr)
                for result in (None, Value(tile_type(float64, (2, 3)))):
                    kernel = Kernel("k", params, 1, Block((Op(name, args, attr, result),)), functions=functions)
                    assert is_same(parse_kernel(format_kernel(kernel)), kernel), format_kernel(kernel)


def _with_operation(attr):
    if isinstance(attr, str):
        return "max"
    return dataclasses.replace(
        attr, **{n: _with_operation(getattr(attr, n)) for n in ("operation", "scan") if hasattr(attr, n)}
    )


def test_constants_of_every_type_return():
    rng = np.random.default_rng(3)
    for kind in SCALARS.values():
        if kind is bool_:
            values = [True, False]
        elif kind.is_float:
            bits = rng.integers(0, 2**kind.bits, 200, dtype=np.uint64).astype(f"uint{kind.bits}").view(kind.dtype)
            values = [float(x) for x in bits] + [
                0.0,
                -0.0,
                1.0,
                9984.0 if kind.bits < 32 else 1e4,
                float("inf"),
                -float("inf"),
                float("nan"),
            ]
        else:
            info = np.iinfo(kind.dtype)
            values = [0, 1, int(info.min), int(info.max)]
        for type_ in (kind, tile_type(kind, (2, 3, 1, 4))):
            nodes = tuple(
                Op("select", (Const(bool_, True), Const(type_, v), Const(type_, v)), None, None) for v in values
            )
            found = parse_kernel(format_kernel(Kernel("k", (), 1, Block(nodes))))
            assert [n.args for n in found.body.nodes] == [n.args for n in nodes]


def test_the_head_of_a_kernel_returns():
    vec, mat = wp.types.vector(5, wp.float32), wp.types.matrix((2, 5), wp.float64)
    named = (wp.vec3, wp.mat33d, wp.quat, wp.transformd, wp.spatial_vector, wp.types.quaternion(wp.bfloat16))
    types = (*SCALARS.values(), *(ArrayType(t, d) for d, t in enumerate((vec, mat, *named)) if d + len(t.shape) < 5))
    types += tuple(ArrayType(t, 0) for t in named)
    params = tuple(Param(f"a.b{k}" if k % 2 else f"extent {k} # of, x", t) for k, t in enumerate(types))
    local = (
        Local("local array", ArrayType(vec, 1), (3, 5)),
        Local("tile0", ArrayType(float32, 1), (7,), shared=True),
        Local("tile1", ArrayType(float64, 1), (4,), shared=True, values=(0.1, 1e-05, -0.0, float("inf"))),
        Local("tile2", ArrayType(int32, 1), (2,), shared=True, values=(-1, 2)),
        Local("tile3", ArrayType(bool_, 1), (2,), shared=True, values=(True, False)),
    )
    for order in Order:
        for tid_dims, block_dim, exact, variant in ((1, 0, False, "forward"), (4, 32, True, 'adjoint(x, "k")')):
            returns(
                Kernel("<lambda>", params, tid_dims, Block(), locals=local, variant=variant, exact=exact,
                       block_dim=block_dim, order=order),
                None,
            )  # fmt: skip
    returned = returns(Kernel("k", params, 1, Block(), locals=local), None)
    assert returned.params == params and returned.locals == local


def test_arrays_of_one_name_are_told_apart():
    array = ArrayType(float32, 1)
    nodes = (
        Op("clear", (), 1),
        Op("store", (Const(int32, 0), Const(float32, 1.0)), 1),
        Op("load", (Const(int32, 0),), 0, Value(float32)),
    )
    kernel = Kernel("k", (Param("x", array),), 1, Block(nodes), locals=(Local("x", array, (2,)),))
    assert "clear x@1" in format_kernel(kernel)
    returns(kernel)


HEAD = "kernel k(x: array[int32]), tid 1\n"
FAULTS = {
    "(": "line 1, column 1: expected `kernel`, found `(`",
    "kernel k(4: int32), tid 1": "line 1, column 10: expected the name of a parameter, found `4`",
    "kernel k(x: int31), tid 1": "line 1, column 13: there is no type `int31`",
    "kernel k(x: vector(0, float32)), tid 1": "line 1, column 13: (0,) is no shape of vector",
    "kernel k(), tid 1, blok 3": "line 1, column 20: there is no `blok` in the head of a kernel",
    HEAD + "  ad 1, 2": "line 2, column 3: there is no operation `ad`",
    HEAD + "  neg %1": "line 2, column 7: %1 is not defined",
    HEAD + "  %0: int32 = neg %0": "line 2, column 19: %0 is not defined",
    HEAD + "  %0: int32 = neg 1\n  %0: int32 = neg 1": "line 3, column 3: %0 is defined twice",
    HEAD + "  clear y": "line 2, column 9: no parameter or local array is called `y`",
    HEAD + "  local x: array[int32] of [1]\n  clear x": "line 3, column 9: several arrays are called `x`",
    HEAD + "  clear x@1": "line 2, column 9: no parameter or local array is called `x`",
    HEAD + "  neg 1.5:int8": "line 2, column 7: `1.5` is no int8",
    HEAD + "  neg 1.0:float32[2x0]": "line 2, column 11: `2x0` is no shape of a tile",
    HEAD + "  for %0: int32 = 0 .. 3 4 {": "line 2, column 26: expected `step`, found `4`",
    HEAD + "  !": "line 2, column 3: unexpected '!'",
    HEAD + "  if True {\n  neg 1\n": "line 4, column 1: expected `}`, found the end",
    HEAD + "  neg 1\n}": "line 3, column 1: expected `end`, found `}`",
    HEAD + "  neg 1 3": "line 2, column 9: unexpected `3` after `neg`",
    HEAD + "  shape x 0": "line 2, column 11: expected `axis`, found `0`",
    HEAD + "\n  function 1 f() {\n  }": "line 3, column 12: function 0 comes here",
    HEAD + '  print "a\\q"': "line 2, column 9: a text in quotes is spelt as in JSON",
}


def test_faults_have_line_and_column():
    wrong = []
    for text, message in FAULTS.items():
        with pytest.raises(IRSyntaxError) as error:
            parse_kernel(text)
        if not str(error.value).startswith(message):
            wrong.append(f"{message}\n     is: {error.value}")
    assert not wrong, "\n".join(wrong)


def test_damaged_texts_are_refused_or_read_and_nothing_else_happens():
    texts = [format_kernel(make()) for make in ir_kernels.ALL]
    texts += [format_kernel(Program(seed).kernel()) for seed in range(3)]
    rng, refused = random.Random(5), 0
    for trial in range(600):
        text = texts[trial % len(texts)]
        start = rng.randrange(len(text))
        text = (
            text[:start] + rng.choice(["", "x", "%", "4", '"', "\n", "(", "@9", "{"]) + text[start + rng.randrange(4) :]
        )
        try:
            parse_kernel(text)
        except IRSyntaxError as error:
            lines = text.split("\n")
            assert 1 <= error.line <= len(lines) and 1 <= error.column <= len(lines[error.line - 1]) + 1
            refused += 1
    assert refused > 300


def test_what_is_read_runs():
    doubled = read("""
        kernel doubled(x: array[float32], y: array[float32]), tid 1  # a comment

          %0: int32 = tid 0
          %7: float32 = load x[%0]
          if True {
            %1: float32 = add %7, %7
            yield %1
          } else {
            yield 0.0
          } -> %2: float32
          store y[%0], %2
    """)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(run(doubled, (4,), [x, np.zeros(4, np.float32)])[1], 2 * x)
    expect(doubled, format_kernel(doubled))
    agree(doubled, parse_kernel(format_kernel(doubled)))
    with pytest.raises(AssertionError):
        agree(doubled, read(format_kernel(doubled).replace("add", "sub")))
    with pytest.raises(AssertionError):
        expect(doubled, textwrap.dedent(format_kernel(doubled)).replace("add", "sub"))
