"""Every pure operation, compiled, against the interpreter: all types, corner values, constants."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_variants import TARGETS, Compiled, Variant
from fuzz_profiles import ALL
from op_kernels import (
    CASTS,
    PURE,
    Ops,
    agree,
    arguments,
    close,
    corners,
    inputs_of,
    operand_sets,
    ops_of,
    parts,
)

import jwarp as wp
from jwarp.backend.cpu.code import Options
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings
from jwarp.ir.evaluate import as_constant
from jwarp.ir.nodes import Param
from jwarp.ir.ops import ELEMENTARY, OPS
from jwarp.types import FLOATS, INTS, SCALARS, ArrayType, ScalarType, bool_, float16


def check(ops: Ops, name: str, target: str, inputs: list, count: int) -> None:
    kernel, args = ops.kernel(name), arguments(ops, inputs, count)
    compare(ops, compiled_for(ops, name, target).run((count,), args), run(kernel, (count,), args), inputs, target)


def compiled_for(ops: Ops, name: str, target: str) -> Compiled:
    return Compiled(ops.kernel(name), Variant(target, "fast"))


def compare(ops: Ops, results: list, expected: list, inputs: list, target: str) -> None:
    arrays = sum(isinstance(p.type, ArrayType) for p in ops.inputs)
    for (label, _), x, y in zip(ops.labels, results[arrays:], expected[arrays:], strict=True):
        name = label.split()[0]
        if name == "fma" and not TARGETS[target].fma:
            continue  # rounds twice there
        fits = close(x, y) if name in ELEMENTARY else agree(x, y)
        if not fits.all():
            k = int(np.argmin(fits))
            given = [np.atleast_1d(v)[k if np.ndim(v) else 0] for v in inputs]
            raise AssertionError(f"{label} of {given}: {x[k]!r}, expected {y[k]!r}; {(~fits).sum()} differ")


# The older targets differ in instructions, the others in width.
SOME_TARGETS = [name for name in ("16", "avx2", "sse") if name in TARGETS]


def targets_of(number: int, type_: ScalarType) -> list[str]:
    """All for one integer and one float; for other types the widest, and of the older ones one, in turns."""
    if type_.name in ("int32", "float32"):
        return [*TARGETS]
    # Processors without instructions for float16 are too old to matter.
    older = [name for name in SOME_TARGETS[1:] if (type_, name) != (float16, "sse")]
    return [*SOME_TARGETS[:1], *(older if ALL else older[number % len(older) :][:1] if older else [])]


TYPES_AND_TARGETS = [
    pytest.param(type_, target, id=f"{type_}-{target}", marks=[pytest.mark.quick] if target == "16" else [])
    for number, type_ in enumerate(SCALARS.values())
    for target in targets_of(number, type_)
]


@pytest.mark.parametrize(("type_", "target"), TYPES_AND_TARGETS)
def test_operations_on_arrays(type_, target):
    inputs = inputs_of(type_, 1)
    check(ops_of(type_), f"arrays_{type_}", target, inputs, len(inputs[0]))


@pytest.mark.quick
@pytest.mark.parametrize("type_", SCALARS.values(), ids=SCALARS)
def test_operations_on_scalars(type_):
    ops = ops_of(type_, as_scalars=True)
    name = f"scalars_{type_}"
    kernel, compiled = ops.kernel(name), compiled_for(ops, name, "16")
    inputs = inputs_of(type_, 2)
    for k in np.random.default_rng(3).choice(len(inputs[0]), 30):
        scalars = [v[k] for v in inputs]
        args = arguments(ops, scalars, 1)
        compare(ops, compiled.run((1,), args), run(kernel, (1,), args), scalars, "16")


@pytest.mark.parametrize("type_", SCALARS.values(), ids=SCALARS)
def test_operations_with_a_constant_operand(type_):
    x = operand_sets(type_, 1, 4)[0]
    ops = Ops([Param("x", ArrayType(type_, 1))])
    rng = np.random.default_rng(6)
    rows = [row for row in PURE if row.arity == 2 and type_.kind in row.kinds and row.name not in ELEMENTARY]
    for row in rows:
        # What divides and shifts by a constant depends on the constant.
        count = 5 if row.name in ("div", "floordiv", "mod", "shl", "shr") else 2
        some = rng.permutation(corners(type_))[:count]
        if row.name in ("div", "floordiv", "mod"):
            some = np.unique(np.concatenate([some, np.array([0], type_.dtype)]))
        for constant in (as_constant(v, type_) for v in some):
            for side, args in (("right", (ops.operands[0], constant)), ("left", (constant, ops.operands[0]))):
                if side == "left" and constant.value != as_constant(some[0], type_).value:
                    continue
                result = row.result(tuple(a.type for a in args))
                assert result is not None
                ops.apply(row.name, args, result, f"{row.name} with {constant.value} {side}")
    for part in parts(ops, 40):
        check(part, f"constant_{type_}", "16", [x], len(x))


@pytest.mark.parametrize("target", SOME_TARGETS)
@pytest.mark.parametrize("type_", INTS, ids=str)
def test_divisions_by_one_number_for_all(type_, target):
    rng = np.random.default_rng(7)
    x = np.concatenate([corners(type_), rng.permutation(operand_sets(type_, 1, 8)[0])[:60]])
    ops = Ops([Param("x", ArrayType(type_, 1)), Param("d", type_)])
    for name in ("div", "mod", "floordiv"):
        ops.apply(name, tuple(ops.operands), type_)
    kernel, compiled = ops.kernel(f"by_one_{type_}"), compiled_for(ops, f"by_one_{type_}", target)
    for d in np.concatenate([corners(type_), rng.integers(1, 100, 4).astype(type_.dtype)]):
        given = arguments(ops, [x, d], len(x))
        compare(ops, compiled.run((len(x),), given), run(kernel, (len(x),), given), [x, d], target)
        multiples = (np.arange(len(x)) - 20).astype(type_.dtype) * d  # and beside them, where a rounding would show
        given = arguments(ops, [multiples - (np.arange(len(x)) % 2).astype(type_.dtype), d], len(x))
        compare(ops, compiled.run((len(x),), given), run(kernel, (len(x),), given), given[:2], target)


@pytest.mark.parametrize(("source", "target"), TYPES_AND_TARGETS)
def test_conversions(source, target):
    ops = Ops([Param("x", ArrayType(source, 1))])
    for result in SCALARS.values():
        if (result, target) == (float16, "sse"):
            continue
        ops.apply("cast", tuple(ops.operands), result, f"cast to {result}")
        if result is not bool_ and source is not bool_ and result.bits == source.bits:
            ops.apply("bitcast", tuple(ops.operands), result, f"bitcast to {result}")
    (x,) = operand_sets(source, 1, 5)
    check(ops, f"casts_{source}", target, [x], len(x))


def test_no_operation_is_left_out():
    covered = {row.name for row in (*PURE, *CASTS)} | {
        name for name, row in OPS.items() if row.threads.is_common and row.effect == "pure"
    }
    assert covered | {"tid", "param", "shape", "thread", "on_gpu"} == {
        name for name, row in OPS.items() if row.effect == "pure"
    }
    assert all(any(t.kind in row.kinds for t in (*INTS, *FLOATS, bool_)) for row in PURE)


def test_float16_is_refused_where_the_processor_cannot_convert_it():
    @wp.kernel
    def doubled(x: wp.array[wp.float16], y: wp.array[wp.float16]):
        i = wp.tid()
        y[i] = x[i] + x[i]

    if "sse" not in TARGETS:
        pytest.skip("another processor family")
    with pytest.raises(wp.KernelTypeError, match="F16C"):
        CpuKernel(doubled.ir(), Settings()).text("fast", Options(TARGETS["sse"]))
