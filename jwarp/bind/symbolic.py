"""Sizes of launches that are symbolic while a function is exported, and how they reach the native module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jwarp.bind import compat
from jwarp.errors import LaunchError
from jwarp.launching.descriptor import Descriptor, variables_of
from jwarp.launching.sizes import Symbolic

Symbolic.register(compat.SymbolicSize)


def refuse_other_scopes(kernel_name: str, shapes: Iterable[Sequence[Any]]) -> None:
    """Raise LaunchError where sizes of one launch are of two scopes: variables of one name are not the same there."""
    scopes = {id(n.scope): str(n) for shape in shapes for n in shape if isinstance(n, Symbolic)}  # type: ignore[attr-defined]
    if len(scopes) > 1:
        first, second, *_ = scopes.values()
        raise LaunchError(
            f"kernel '{kernel_name}': the symbolic sizes {first} and {second} are of different scopes",
            hint="make all of them with one jax.export.symbolic_shape, or with its scope=",
        )


def lower_variables(
    ctx: Any, operands: Sequence[Any], launch: Descriptor, batch: Sequence[int]
) -> tuple[Any, tuple[Any, ...]]:
    """The context and operands of a launch, with one more operand where its sizes depend on dimension variables.

    That one is an array of extents 0 and then the variables: XLA knows them when it compiles, and no
    processor has to read them from memory. Formulas over them are the native module's, in numbers of 64
    bits; JAX's own are of 32 where `jax_enable_x64` is off, and would wrap.
    """
    names = variables_of(launch, batch)
    if not names:
        return ctx, tuple(operands)
    unknown = sorted(set(names) - set(compat.dimension_variables(ctx)))
    if unknown:
        raise LaunchError(
            f"kernel '{launch.program.name}': the sizes of the launch depend on the dimension variable {unknown[0]}, "
            "which no argument of an exported function has",
            hint="symbolic sizes are for jax.export.export: take them from the shapes of the function's arguments",
        )
    sizes = (*launch.geometry.dims, launch.geometry.repeat, *batch)
    scope = next(size.scope for size in sizes if isinstance(size, Symbolic))  # type: ignore[attr-defined]
    shape = (0, *compat.symbolic_shape(", ".join(names), scope=scope))
    aval = compat.ShapedArray(shape, np.dtype(bool))
    make = compat.mlir.lower_fun(lambda: jnp.zeros(shape, bool), multiple_results=False)
    made = make(ctx.replace(primitive=None, avals_in=(), avals_out=(aval,)))
    return ctx.replace(avals_in=(*ctx.avals_in, aval)), (*operands, *made)
