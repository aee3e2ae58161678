"""Kernels of single operations, with values at which operations go wrong, and how results are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from jwarp.ir.nodes import Block, Kernel, Op, Operand, Param, Value
from jwarp.ir.ops import OPS
from jwarp.types import SCALARS, ArrayType, ScalarType, bool_, int32

ULP_LIMIT = {"float16": 1, "bfloat16": 1, "float32": 3, "float64": 3}
# What NVIDIA's table of CUDA's functions says of erfcinv, the least accurate one here.
ULP_LIMIT_OF_CUDA = {**ULP_LIMIT, "float32": 4, "float64": 6}
# What threads that run in step have in common depends on who does.
PURE = [
    row
    for row in OPS.values()
    if row.is_pure and row.arity != 0 and row.is_typed_by_operands and not row.threads.is_common
]
CASTS = [row for row in OPS.values() if row.has_target]
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


def ops_of(type_: ScalarType, as_scalars: bool = False) -> Ops:
    inputs = [Param(n, type_ if as_scalars else ArrayType(type_, 1)) for n in "xyz"]
    conditions = [Param("c", bool_ if as_scalars else ArrayType(bool_, 1))]
    ops = Ops(inputs + conditions)
    for row in PURE:
        if row.name == "select":
            ops.apply("select", (ops.operands[3], *ops.operands[:2]), type_)
        elif type_.kind in row.kinds:
            args = tuple(ops.operands[: row.arity or 3])
            result = row.result(tuple(a.type for a in args))
            assert result is not None
            ops.apply(row.name, args, result)
    return ops


def inputs_of(type_: ScalarType, seed: int) -> list[np.ndarray]:
    x, y, z = operand_sets(type_, 3, seed)
    return [x, y, z, np.random.default_rng(seed).random(len(x)) < 0.5]


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


def casts_of(source: ScalarType) -> Ops:
    """All conversions from a type."""
    ops = Ops([Param("x", ArrayType(source, 1))])
    for result in SCALARS.values():
        ops.apply("cast", tuple(ops.operands), result, f"cast to {result}")
        if result is not bool_ and source is not bool_ and result.bits == source.bits:
            ops.apply("bitcast", tuple(ops.operands), result, f"bitcast to {result}")
    return ops


def close(x: np.ndarray, y: np.ndarray, limits: Mapping[str, int] = ULP_LIMIT) -> np.ndarray:
    """Within the limit of units of the last place: the distance in the order of all floats."""
    limit = limits[{2: "float16", 4: "float32", 8: "float64"}[x.itemsize]]
    places = [v.view(f"i{v.itemsize}").astype(object) for v in (x, y)]
    lowest = -(1 << (8 * x.itemsize - 1))
    a, b = (np.where(p < 0, lowest - p, p) for p in places)
    return agree(x, y) | ((np.abs(a - b) <= limit) & np.isfinite(y.astype(np.float64)))


def same(x: np.ndarray, y: np.ndarray) -> bool:
    """True if two results agree in every bit, except for the bits of NaNs."""
    return x.dtype == y.dtype and x.shape == y.shape and bool(np.all(agree(x, y)))


def agree(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Elementwise: the same bits, or both NaN."""
    unsigned = f"u{x.dtype.itemsize}"
    with np.errstate(invalid="ignore"):  # NaNs that signal
        both_nan = (x != x) & (y != y)
    return (x.view(unsigned) == y.view(unsigned)) | both_nan
