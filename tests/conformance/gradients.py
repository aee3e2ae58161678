"""Compares jwarp's gradients of warp-lang's kernels with differences of their results, and prints the counts.

Kernels are taken with float64 in the place of smaller floats: then differences are good to six digits. Adjoints are
compiled code, differences those of the interpreter, which also tells whether all points are on one smooth piece.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import trial
from comparing import Outcome, arguments, reason_of
from jobs import Job, run_jobs
from recording import Launch, OverLimit, time_limit

import jwarp
from jwarp.backend.interpreter.machine import run
from jwarp.errors import NotDifferentiableError
from jwarp.frontend.kernel_base import Kernel, Parameter
from jwarp.ir import nodes
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Const, Operand, Value, written_params
from jwarp.ir.verify import verify
from jwarp.types import ArrayType, CompositeType, ScalarType, composite, float64

HERE = Path(__file__).parent
STEP = 1e-6
SECONDS = 30  # for one kernel


class _Widened(Cloner):
    """Copies with float64 in the place of other floats."""

    def fresh(self, value: Value) -> Value:
        self.known[value] = made = Value(wide(value.type), value.name)
        return made

    def operand(self, x: Operand) -> Operand:
        return Const(wide(x.type), x.value) if isinstance(x, Const) else super().operand(x)

    def operands(self, xs: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(map(self.operand, xs))


def wide(type: Any) -> Any:
    if isinstance(type, ArrayType):
        return ArrayType(wide(type.element), type.dims)
    if isinstance(type, CompositeType):
        return composite(type.kind, type.shape, wide(type.dtype))
    return float64 if isinstance(type, ScalarType) and type.is_float else type


class WideKernel(Kernel):
    """A kernel of Warp's in float64, whose parameters are those of the IR."""

    def __init__(self, kernel: Kernel):
        ir = kernel.ir()
        params = tuple(nodes.Param(p.name, wide(p.type)) for p in ir.params)
        made = [dataclasses.replace(local, type=wide(local.type)) for local in ir.locals]
        self.wide = dataclasses.replace(ir, params=params, locals=tuple(made), body=_Widened().block(ir.body))
        verify(self.wide)
        super().__init__(kernel.name, tuple(Parameter(p.name, p.type) for p in params), kernel.span)

    def ir(self, settings: Any = None) -> nodes.Kernel:
        return self.wide

    def outputs(self, settings: Any) -> tuple[int, ...]:
        return nodes.written_params(self.wide)


def check(kernel: Kernel, launch: Launch, rng: np.random.Generator) -> Outcome:
    """The outcome for the gradients of one launch: `agree`, `wrong`, `refused`, `kink`, or `none` if it has none."""
    try:
        made = WideKernel(kernel)
    except Exception as error:
        return Outcome("not widened", reason_of(error))
    values = [np.asarray(a) for a in arguments(kernel, launch)]
    pairs = list(zip(made.params, values, strict=True))
    args = [a.astype(p.dtype.dtype) for p, a in pairs]
    inputs = [i for i, (p, a) in enumerate(pairs) if p.dtype.is_float and a.size]
    outputs = [i for i in written_params(made.wide) if i in inputs]
    if not inputs or not outputs:
        return Outcome("none", "no floats")
    seeds = {i: rng.normal(size=args[i].shape) for i in outputs}

    def forward(given: list[Any]) -> list[Any]:
        full: list[Any] = [jnp.asarray(a) if p.is_array else a[()] for p, a in zip(made.params, args, strict=True)]
        for i, value in zip(inputs, given, strict=True):
            full[i] = value
        written = jwarp.launch(made, launch.dims, full)
        return [written[made.params[i].name] for i in outputs]

    try:
        _, pull = jax.vjp(forward, [jnp.asarray(args[i]) for i in inputs])
        (found,) = pull([jnp.asarray(seeds[i]) for i in outputs])
    except NotDifferentiableError as error:
        return Outcome("refused", reason_of(error))
    for i, gradient in zip(inputs, found, strict=True):
        direction = rng.normal(size=args[i].shape)
        steps = [0.0, STEP, -STEP, 2 * STEP, -2 * STEP]
        traces: list[list] = [[] for _ in steps]
        sums, scale = [], 1.0
        for step, trace in zip(steps, traces, strict=True):
            moved = [a + step * direction if k == i else a for k, a in enumerate(args)]
            scalars = [a if p.is_array else a[()] for p, a in zip(made.params, moved, strict=True)]
            arrays = iter(run(made.wide, launch.dims, scalars, trace))
            after = {k: next(arrays) for k, p in enumerate(made.params) if p.is_array}
            sums.append(sum(float(np.sum(seeds[k] * after[k])) for k in outputs))
            scale = max(scale, *(float(np.abs(after[k]).max(initial=0.0)) for k in outputs))
        if not _same(traces):
            return Outcome("kink", "a step of the differences goes over a kink")
        _, up, down, far_up, far_down = sums
        slope, far = (up - down) / (2 * STEP), (far_up - far_down) / (4 * STEP)
        mine = float(np.sum(np.asarray(gradient) * direction))
        if not np.isfinite(slope):
            return Outcome("kink", "what is differentiated is not finite")
        allowed = abs(slope - far) + 1e-5 * abs(slope) + 1e-8 * scale * sum(s.size for s in seeds.values())
        if not abs(mine - slope) <= allowed + 1e-6:
            return Outcome("wrong", f"{made.params[i].name}: {mine}, by differences {slope} ({far})")
    return Outcome("agree")


def _same(traces: list[list]) -> bool:
    first, *others = traces
    return all(len(t) == len(first) and all(map(np.array_equal, t, first)) for t in others)


class GradientTrial(trial.Trial):
    """The kernels of one module that agree with Warp."""

    def compare_all(self, launches: list[Launch]) -> None:
        names = set((HERE / "agreeing.txt").read_text().split())
        rng = np.random.default_rng(7)
        for launch in launches:
            kernel = self.kernel(launch.kernel, launch.args)
            if launch.name not in names or isinstance(kernel, Outcome):
                continue
            self.begin(launch.name, "launch", trial.RUN_SECONDS, "in jwarp")
            self.say(launch.name, self.checked(kernel, launch, rng))

    def checked(self, kernel: Kernel, launch: Launch, rng: np.random.Generator) -> Outcome:
        *_, variant = trial.variants(launch)
        try:
            with time_limit(SECONDS):
                if reason := trial.undefined(kernel, variant):
                    return Outcome("undefined", reason)
                return check(kernel, variant, rng)
        except OverLimit:
            return Outcome("slow")
        except Exception as error:
            return Outcome("fault", reason_of(error))


ORDER = ("wrong", "fault", "refused", "agree", "kink", "none", "not widened", "undefined", "slow", "warp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="file for one row for each launch tried, as JSON")
    parser.add_argument("modules", nargs="*", help="as warp.tests.test_vec; those of agreeing.txt, if none is given")
    options = parser.parse_args()
    names = set((HERE / "agreeing.txt").read_text().split())
    modules = options.modules or sorted({f"warp.{name.split(':')[0]}" for name in names})
    trial.Trial = GradientTrial
    rows = run_jobs([Job(module, steps=("launch",)) for module in modules], options.rows)
    rows = [row for row in rows if row["name"] in names]
    best: dict[str, dict] = {}
    for row in rows:
        if row["verdict"] in ORDER:
            before = best.setdefault(row["name"], row)
            if ORDER.index(row["verdict"]) < ORDER.index(before["verdict"]):
                best[row["name"]] = row
    counts = collections.Counter(row["verdict"] for row in best.values())
    print(f"{len(best)} kernels: " + ", ".join(f"{counts[v]} {v}" for v in ORDER))
    for name, row in sorted(best.items(), key=lambda item: ORDER.index(item[1]["verdict"])):
        if row["verdict"] not in ("agree", "none"):
            print(f"  {row['verdict']}: {name}: {row['reason']}")


if __name__ == "__main__":
    main()
