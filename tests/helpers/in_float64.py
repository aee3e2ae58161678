"""A function of JAX with launches in it, with float64 wherever it has float32: what its derivatives are compared with.

It is traced as it is. Then the operations of JAX are run on float64, and the kernels' IR is given float64 for float32,
numbers and all, so that short differences say what the derivative is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

import jwarp as wp
from jwarp.bind.primitive import LAUNCHES
from jwarp.compiler.program import GeneratedProgram
from jwarp.ir import nodes
from jwarp.types import ArrayType, CompositeType, ScalarType, composite
from jwarp.types.tiles import TileType, tile_type


def in_float64(f: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """`f`, as it is for such arguments, as a function of float64; JAX has to have 64 bits when that is called."""
    traced, shape = jax.make_jaxpr(f, return_shape=True)(*args)
    tree = jax.tree.structure(shape)
    programs: dict[Any, GeneratedProgram] = {}

    def wide(*args: Any) -> Any:
        return jax.tree.unflatten(tree, _Run(programs).closed(traced)(*map(_widened, jax.tree.leaves(args))))

    return wide


def _widened(x: Any) -> Any:
    x = jnp.asarray(x)
    return x.astype(jnp.float64) if x.dtype == jnp.float32 else x


@dataclasses.dataclass
class _Run:
    """Runs the equations of a jaxpr; `programs` are those that were made of others."""

    programs: dict[Any, GeneratedProgram]

    def closed(self, traced: Any) -> Callable[..., list[Any]]:
        return lambda *args: self.equations(traced.jaxpr, traced.consts, args)

    def equations(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        known = dict(zip(jaxpr.constvars, map(_widened, consts), strict=True))
        known |= zip(jaxpr.invars, args, strict=True)

        def read(x: Any) -> Any:
            return _widened(np.asarray(x.val, x.aval.dtype)) if isinstance(x, Literal) else known[x]

        for equation in jaxpr.eqns:
            known |= zip(equation.outvars, self.results(equation, [*map(read, equation.invars)]), strict=True)
        return [*map(read, jaxpr.outvars)]

    def results(self, equation: Any, xs: list[Any]) -> Sequence[Any]:
        primitive, told = equation.primitive, dict(equation.params)
        match primitive.name:
            case "jit" | "pjit":
                return self.closed(told["jaxpr"])(*xs)
            case "custom_jvp_call" | "custom_vjp_call":
                return self.closed(told["call_jaxpr"])(*xs)
            case "cond":
                return jax.lax.switch(xs[0], [self.closed(branch) for branch in told["branches"]], *xs[1:])
            case "while":
                a, b = told["cond_nconsts"], told["cond_nconsts"] + told["body_nconsts"]
                goes_on, trip = self.closed(told["cond_jaxpr"]), self.closed(told["body_jaxpr"])
                return jax.lax.while_loop(lambda s: goes_on(*xs[:a], *s)[0], lambda s: trip(*xs[a:b], *s), xs[b:])
        if primitive in LAUNCHES:
            launch = told["launch"]
            told["launch"] = dataclasses.replace(launch, program=self.program(launch.program))
            return primitive.bind(*xs, **told)
        for name in ("new_dtype", "dtype", "preferred_element_type"):
            if told.get(name) == np.float32:
                told[name] = np.dtype(np.float64)
        if (inner := told.get("update_jaxpr")) is not None:
            number = jnp.zeros((), xs[0].dtype)
            combine = jax.make_jaxpr(lambda x, y: self.equations(inner, told["update_consts"], [x, y])[0])
            told["update_jaxpr"] = combine(number, number).jaxpr
        found = primitive.bind(*xs, **told)
        return found if primitive.multiple_results else [found]

    def program(self, program: Any) -> GeneratedProgram:
        if program not in self.programs:
            kernel = _Wide().of(program.differentiated)
            self.programs[program] = GeneratedProgram(kernel, program.settings, None, kernel)
        return self.programs[program]


class _Wide:
    """Makes float64 of float32 in whatever a kernel consists of."""

    def __init__(self) -> None:
        self.values: dict[nodes.Value, nodes.Value] = {}

    def of(self, x: Any) -> Any:
        if isinstance(x, nodes.Value):
            if x not in self.values:
                self.values[x] = nodes.Value(_type(x.type), x.name)
            return self.values[x]
        if isinstance(x, nodes.Const):
            return nodes.Const(_type(x.type), x.value)
        if isinstance(x, ScalarType | ArrayType):
            return _type(x)
        if isinstance(x, tuple):
            return tuple(map(self.of, x))
        if not dataclasses.is_dataclass(x) or isinstance(x, type):
            return x
        kind = nodes.Kernel if isinstance(x, nodes.Kernel) else type(x)
        return kind(**{field.name: self.of(getattr(x, field.name)) for field in dataclasses.fields(kind) if field.init})


def _type(kind: Any) -> Any:
    if isinstance(kind, TileType):
        return tile_type(_type(kind.scalar), kind.shape)
    if isinstance(kind, ArrayType):
        element = kind.element
        if not isinstance(element, CompositeType):
            return ArrayType(_type(element), kind.dims)
        return ArrayType(composite(element.kind, element.shape, _type(element.dtype)), kind.dims)
    return wp.float64 if kind is wp.float32 else kind
