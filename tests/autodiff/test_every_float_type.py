"""The derivative of every operation in every float type, compiled, against differences in float64."""

import re
import runpy
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from compiled_variants import Compiled, Variant
from versions import read_version

from jwarp.autodiff.derived_parameters import Derived
from jwarp.autodiff.forward import jvp
from jwarp.autodiff.reverse import vjp
from jwarp.autodiff.scalar_rules import DERIVATIVES
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cuda import CudaKernel
from jwarp.config import Settings
from jwarp.frontend.builtins.table import BUILTINS
from jwarp.ir.builder import Builder, make_block, zero
from jwarp.ir.evaluate import evaluate
from jwarp.ir.nodes import Const, Kernel, Op, Param, Value
from jwarp.ir.ops import OPS
from jwarp.ir.verify import verify
from jwarp.types import FLOATS, ArrayType, ScalarType, float32, float64, int32

NAMES = sorted(
    (set(DERIVATIVES) | {name for name, row in OPS.items() if row.numeric.is_step}) - {"barred", "over"}
)  # of unrelated operands, `over` is no quotient
# The arguments of an operation lie between these limits, the usual ones for those without an entry.
LIMITS = {
    "asin": (-0.9, 0.9),
    "acos": (-0.9, 0.9),
    "erfinv": (-0.9, 0.9),
    "erfcinv": (0.1, 1.9),
    "sqrt": (0.2, 2.0),
    "log": (0.2, 2.0),
    "log2": (0.2, 2.0),
    "log10": (0.2, 2.0),
    "pow": (0.2, 2.0),
}
USUAL = (-2.0, 2.0)
SAMPLES = 16
ARITY = 3
SLOPE = 0.75
# Of the largest slope at a sample: some roundings of the type, and none closer than differences are.
TOLERANCES = {"float16": 1e-2, "bfloat16": 8e-2, "float32": 2e-6, "float64": 1e-7}


def applied(name: str, args: np.ndarray) -> np.ndarray:
    """The result of an operation on float64; for `follow` and `slope`, the function whose derivative it has."""
    if name == "select":
        return np.where(args[2] < 0, *args[:2])
    if name in ("follow", "cast"):
        return args[1 if name == "follow" else 0]
    if name == "slope":
        return args[0] + SLOPE * args[1]
    return evaluate(name, tuple(args[: OPS[name].arity]), float64)


def difference(name: str, args: np.ndarray, k: int, left: float, right: float) -> np.ndarray:
    moved = np.eye(ARITY)[k][:, None]
    return (applied(name, args + right * moved) - applied(name, args + left * moved)) / (right - left)


@cache
def samples(name: str, type: ScalarType) -> tuple[np.ndarray, np.ndarray]:
    """Arguments that the type has, away from kinks and jumps, and the derivatives by each of them."""
    rng = np.random.default_rng(len(name) + ord(name[0]))
    args = rng.uniform(*LIMITS.get(name, USUAL), (ARITY, 40 * SAMPLES)).astype(type.dtype).astype(np.float64)
    slopes = np.array([difference(name, args, k, -1e-5, 1e-5) for k in range(ARITY)])
    smooth = np.isfinite(slopes).all(0)
    for k in range(ARITY):
        for ends in ((-0.02, 0.0), (0.0, 0.02)):
            smooth &= abs(difference(name, args, k, *ends) - slopes[k]) < 0.5 * (1 + abs(slopes[k]))
    chosen = np.flatnonzero(smooth & (abs(slopes) < 20).all(0))[:SAMPLES]
    assert len(chosen) == SAMPLES, name
    return args[:, chosen], slopes[:, chosen]


def kernel_of(type: ScalarType) -> Kernel:
    """Every operation, each on columns of its own of three arrays of arguments."""
    matrix, other = ArrayType(type, 2), float32 if type is float64 else float64
    builder, thread = Builder(), Value(int32)
    builder.append(Op("tid", (), 0, thread))
    for column, name in enumerate(NAMES):
        place = (thread, Const(int32, column))
        loaded = [Value(type) for _ in range(ARITY)]
        for p, value in enumerate(loaded):
            builder.append(Op("load", place, p, value))
        if name == "select":
            made = builder.op("select", builder.op("lt", loaded[2], zero(type)), *loaded[:2])
        elif name == "cast":
            made = builder.op("cast", builder.op("cast", loaded[0], type=other), type=type)
        elif name == "slope":
            made = builder.op("slope", *loaded[:2], Const(type, SLOPE))
        else:
            made = builder.op(name, *loaded[: OPS[name].arity])
        builder.effect("store", *place, made, attr=ARITY)
    params = (*(Param(n, matrix) for n in "xyz"), Param("result", matrix))
    return Kernel("everything", params, 1, make_block(builder.nodes))


class Made:
    """A derivative, compiled."""

    def __init__(self, derived: Derived, count: int = SAMPLES):
        self.count = count
        verify(derived.kernel)
        assert CudaKernel(derived.kernel, Settings(cache_dir="")).unit(read_version("checked"), 256).text
        self.keys = [(slot.kind, slot.param) for slot in derived.origins]
        self.compiled = Compiled(derived.kernel, Variant("4", "fast"))

    def __call__(self, given: dict[tuple[str, int], np.ndarray], *wanted: tuple[str, int]) -> np.ndarray:
        """The wanted results for arrays that are given by kind and parameter."""
        left = self.compiled.run((self.count,), [given[key] for key in self.keys])
        return np.array([dict(zip(self.keys, left, strict=True))[key] for key in wanted], np.float64)


def agree(found: np.ndarray, slopes: np.ndarray, type: ScalarType) -> None:
    """Compare derivatives by argument, sample and operation."""
    limits = TOLERANCES[type.name] * np.maximum(1, abs(slopes).max(0))
    for column, name in enumerate(NAMES):
        wrong = ~(abs(found - slopes)[..., column] <= limits[..., column])
        assert not wrong.any(), f"{name}: {found[..., column][wrong]} for {slopes[..., column][wrong]}"


@pytest.mark.parametrize("type", FLOATS, ids=str)
def test_derivatives(type):
    made = [samples(name, type) for name in NAMES]
    args, slopes = (np.stack([m[k] for m in made], -1) for k in range(2))
    kernel = kernel_of(type)
    zeros, ones = (np.full((SAMPLES, len(NAMES)), fill, type.dtype) for fill in (0, 1))
    given = {(kind, p): x.astype(type.dtype) for kind in ("primal", "work") for p, x in enumerate(args)}
    given |= {("work", ARITY): zeros, ("cotangent", ARITY): ones}
    given |= {("gradient", p): zeros for p in range(ARITY)}
    reverse, forward = Made(vjp(kernel, range(ARITY), [ARITY])), Made(jvp(kernel, range(ARITY)))
    agree(reverse(given, *(("gradient", p) for p in range(ARITY))), slopes, type)
    found = []
    for k in range(ARITY):
        given |= {("tangent", p): ones if p == k else zeros for p in range(ARITY + 1)}
        found.append(forward(given, ("tangent", ARITY))[0])
    agree(np.array(found), slopes, type)


# Numbers that every float type has, where every function is smooth; in this order those of `clamp` and `smoothstep`.
POINT = (0.40625, 0.703125, 0.5625)
FORM = re.compile(r"(\w+)\((\w+: (?:Float|Number)(?:, \w+: (?:Float|Number))*)\) -> (?:Float|Number)")


def calls() -> dict[str, int]:
    """The builtins of numbers, and how many arguments they take."""
    forms = (FORM.fullmatch(line.strip()) for row in BUILTINS.values() for line in row.forms.splitlines())
    return {form[1]: form[2].count(":") for form in forms if form}


def builtins_kernel(type: ScalarType, folder: Path) -> Kernel:
    """Every builtin of numbers, each on a row of its own."""
    lines = ["import jwarp as wp", "@wp.kernel", f"def every(x: wp.array2d[wp.{type}], y: wp.array[wp.{type}]):"]
    lines.append("    i = wp.tid()")
    for k, (name, count) in enumerate(calls().items()):
        lines.append(f"    y[{k}] = wp.{name}({', '.join(f'x[{k}, {j}]' for j in range(count))})")
    path = folder / f"every_{type}.py"
    path.write_text("\n".join(lines) + "\n")
    return runpy.run_path(str(path))["every"].ir()


@pytest.mark.parametrize("type", FLOATS, ids=str)
def test_derivatives_of_builtins(type, tmp_path):
    names = list(calls())
    assert {"erf", "log2", "degrees", "smoothstep", "clamp"} <= set(names)
    x, y = np.array([POINT] * len(names)), np.zeros(len(names))
    exact = builtins_kernel(float64, tmp_path)
    steps = 1e-5 * np.eye(ARITY)
    high, low = (np.array([run(exact, (1,), [x + sign * h, y.copy()])[1] for h in steps]) for sign in (1, -1))
    slopes = (high - low).T / 2e-5
    made = Made(vjp(builtins_kernel(type, tmp_path), [0], [1], alone=True), count=1)
    numbers, zeros = x.astype(type.dtype), np.zeros_like(x, type.dtype)
    given = {("primal", 0): numbers, ("gradient", 0): zeros, ("cotangent", 1): np.ones(len(names), type.dtype)}
    given["work", 1] = np.zeros(len(names), type.dtype)
    (found,) = made(given, ("gradient", 0))
    for name, expected, row in zip(names, slopes, found, strict=True):
        limit = TOLERANCES[type.name] * max(1, abs(expected).max())
        np.testing.assert_allclose(row, expected, rtol=0, atol=limit, err_msg=name)
