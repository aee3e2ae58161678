"""Every pure operation, compiled, against the interpreter: all types, corner values, constants."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from harness import TARGETS, Compiled, Variant, agree

import jwarp as wp
from jwarp.backend.cpu.code import Options
from jwarp.backend.cpu.compile import CpuKernel
from jwarp.backend.interpreter import run
from jwarp.config import Settings
from jwarp.ir.evaluate import as_constant
from jwarp.ir.nodes import Block, Kernel, Op, Operand, Param, Value
from jwarp.ir.ops import ELEMENTARY, OPS
from jwarp.types import FLOATS, INTS, SCALARS, ArrayType, ScalarType, bool_, float16, int32

ULP_LIMIT = {"float16": 1, "bfloat16": 1, "float32": 3, "float64": 3}
PURE = [row for row in OPS.values() if row.effect == "pure" and row.arity and row.typed_by == ""]
CASTS = [row for row in OPS.values() if row.typed_by == "target"]
RANDOM_COUNT = 150


def corners(type_: ScalarType) -> np.ndarray:
    """Values at which operations go wrong."""
    if type_ is bool_:
        return np.array([False, True])
    if type_.is_int:
        wanted = [0, 1, 2, 3, 7, type_.bits - 1, type_.bits, type_.bits + 1, type_.max, type_.max - 1]
        wanted += [type_.max // 2 + 1, type_.min, type_.min + 1, -1, -2, -3, -7, -type_.bits]
        return np.array([w for w in wanted if type_.min <= w <= type_.max], type_.dtype)
    halfway = [0.5, 1.5, 2.5, 0.49999997, 8388607.5, 1e-7, 3.0, 100.7, 127.0, 128.0, 255.9, 256.0, 65535.9]
    ends = [2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e10, 1e20, 1e38, 3.4028235e38, 1e-40, 1e-45, 1e300, 5e-324]
    positive = [0.0, 1.0, 2.0, 1.0000001, np.inf, *halfway, *ends]
    with np.errstate(all="ignore"):
        made = np.array([s * v for v in positive for s in (1, -1)] + [np.nan]).astype(type_.dtype)
    return np.unique(made.view(f"u{made.itemsize}")).view(made.dtype)  # what underflows is zero once


def random_values(rng: np.random.Generator, type_: ScalarType, count: int) -> np.ndarray:
    """Half of them of random bits, half of them of ordinary size."""
    if type_ is bool_:
        return rng.random(count) < 0.5
    bits = rng.integers(0, 256, (count, type_.bits // 8), np.uint8).view(type_.dtype).ravel()
    usual = rng.normal(0, 5, count).astype(np.float32)
    usual = np.abs(usual) if type_.kind == "uint" else usual
    return np.where(rng.random(count) < 0.5, bits, usual.astype(type_.dtype))


def operand_sets(type_: ScalarType, arity: int, seed: int) -> list[np.ndarray]:
    """All corners against each other (at most pairs of them), then random values."""
    rng, special = np.random.default_rng(seed), corners(type_)
    grids = [g.ravel() for g in np.meshgrid(*[special] * min(arity, 2))]
    grids += [rng.permutation(grids[0]) for _ in range(arity - len(grids))]
    return [np.concatenate([g, random_values(rng, type_, RANDOM_COUNT)]) for g in grids]


class Ops:
    """A kernel in the making that stores each result to an array of its own."""

    def __init__(self, inputs: list[Param]):
        self.inputs, self.outputs = inputs, []
        self.nodes: list[Op] = []
        self.thread = Value(int32)
        self.nodes.append(Op("tid", (), 0, self.thread))
        self.operands = [self._read(p, param) for p, param in enumerate(inputs)]
        self.labels: list[tuple[str, ScalarType]] = []

    def _read(self, p: int, param: Param) -> Value:
        is_array = isinstance(param.type, ArrayType)
        value = Value(param.type.dtype if is_array else param.type)
        self.nodes.append(Op("load", (self.thread,), p, value) if is_array else Op("param", (), p, value))
        return value

    def apply(self, name: str, args: tuple[Operand, ...], type_: ScalarType, label: str = "") -> None:
        result = Value(type_)
        place = len(self.inputs) + len(self.outputs)
        self.nodes += [Op(name, args, None, result), Op("store", (self.thread, result), place)]
        self.outputs.append(Param(f"out{place}", ArrayType(type_, 1)))
        self.labels.append((label or name, args[-1].type))

    def kernel(self, name: str) -> Kernel:
        return Kernel(name, (*self.inputs, *self.outputs), 1, Block(tuple(self.nodes)))


def arguments(ops: Ops, inputs: list, count: int) -> list:
    return [*inputs, *(np.zeros(count, p.type.dtype.dtype) for p in ops.outputs)]


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


def close(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Within the limit of units of the last place: the distance in the order of all floats."""
    limit = ULP_LIMIT[{2: "float16", 4: "float32", 8: "float64"}[x.itemsize]]
    places = [v.view(f"i{v.itemsize}").astype(object) for v in (x, y)]
    lowest = -(1 << (8 * x.itemsize - 1))
    a, b = (np.where(p < 0, lowest - p, p) for p in places)
    return agree(x, y) | ((np.abs(a - b) <= limit) & np.isfinite(y.astype(np.float64)))


def ops_of(type_: ScalarType, as_scalars: bool = False) -> Ops:
    inputs = [Param(n, type_ if as_scalars else ArrayType(type_, 1)) for n in "xyz"]
    conditions = [Param("c", bool_ if as_scalars else ArrayType(bool_, 1))]
    ops = Ops(inputs + conditions)
    for row in PURE:
        if row.name == "select":
            ops.apply("select", (ops.operands[3], *ops.operands[:2]), type_)
        elif type_.kind in row.kinds:
            args = tuple(ops.operands[: row.arity])
            result = row.result(tuple(a.type for a in args))
            assert result is not None
            ops.apply(row.name, args, result)
    return ops


def inputs_of(type_: ScalarType, seed: int) -> list[np.ndarray]:
    x, y, z = operand_sets(type_, 3, seed)
    return [x, y, z, np.random.default_rng(seed).random(len(x)) < 0.5]


# The older targets differ in instructions, the others in width.
SOME_TARGETS = [name for name in ("16", "avx2", "sse") if name in TARGETS]
TYPES_AND_TARGETS = [
    pytest.param(type_, target, id=f"{type_}-{target}")
    for type_ in SCALARS.values()
    for target in (TARGETS if type_.name in ("int32", "float32") else SOME_TARGETS)
    # Processors without instructions for float16 are too old to matter.
    if (type_, target) != (float16, "sse")
]


@pytest.mark.parametrize(("type_", "target"), TYPES_AND_TARGETS)
def test_operations_on_arrays(type_, target):
    inputs = inputs_of(type_, 1)
    check(ops_of(type_), f"arrays_{type_}", target, inputs, len(inputs[0]))


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


def parts(ops: Ops, size: int) -> Iterator[Ops]:
    """Kernels of at most `size` operations each: a launch has room for so many arrays only."""
    applied = [node for node in ops.nodes if node.name not in ("tid", "load", "store")]
    for start in range(0, len(applied), size):
        part = Ops(ops.inputs)
        part.operands = ops.operands
        part.thread, part.nodes = ops.thread, ops.nodes[: 1 + len(ops.inputs)]
        for node, (label, _) in list(zip(applied, ops.labels, strict=True))[start : start + size]:
            assert node.result is not None
            part.apply(node.name, node.args, node.result.type, label)
        yield part


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
    covered = {row.name for row in (*PURE, *CASTS)}
    assert covered | {"tid", "param", "shape", "thread"} == {name for name, row in OPS.items() if row.effect == "pure"}
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
