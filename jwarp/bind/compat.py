"""Every name of JAX that moves between releases, under one name here (0.10.2 to 0.12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src.array import ArrayImpl as Array
from jax._src.core import get_opaque_trace_state as trace_state
from jax._src.core import trace_state_clean as is_not_tracing
from jax._src.debugging import debug_effect as print_effect
from jax.core import ShapedArray, Tracer
from jax.export import DisabledSafetyCheck, symbolic_shape
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

__all__ = [
    "JIT",
    "Array",
    "DisabledSafetyCheck",
    "Primitive",
    "ShapedArray",
    "SymbolicSize",
    "Tracer",
    "ad",
    "batching",
    "dimension_variables",
    "is_known_zero",
    "is_not_tracing",
    "mlir",
    "named_operation",
    "output_aval",
    "placed_alike",
    "print_effect",
    "register_dce",
    "symbolic_shape",
    "trace_state",
    "x64_enabled",
    "zero_tangent",
]


# The type of what a symbolic shape is made of, which has no public name.
SymbolicSize = type(symbolic_shape("n")[0])
# The primitive of `jax.jit` in a jaxpr.
JIT = "jit"


def register_dce(primitive: Primitive, rule: Callable[[Sequence[bool], Any], tuple[list[bool], Any]]) -> None:
    """Let `rule` drop what is not used of an equation: from 0.12, JAX passes more between its two arguments."""
    pe.dce_rules[primitive] = lambda used, *others: rule(used, others[-1])


def named_operation(name: str) -> Any:
    """A `with` in which a lowering rule makes operations that HLO and profiles call `name`, after where they are."""
    return mlir.ir.Location.name(name, childLoc=mlir.ir.Location.current)


def dimension_variables(ctx: Any) -> tuple[str, ...]:
    """The names that stand for extents in the module that a lowering rule adds to."""
    return tuple(ctx.module_context.shape_poly_state.dim_vars)


def x64_enabled() -> bool:
    """Whether JAX keeps 64-bit types in this thread."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def output_aval(shape: tuple[int, ...], dtype: Any, operands: Sequence[Any]) -> ShapedArray:
    """The type of a result: replicated on the mesh, and varying over the manual axes as the operands do."""
    mesh = jax.sharding.get_abstract_mesh()
    spec = jax.sharding.PartitionSpec(*(None,) * len(shape))
    sharding = None if mesh.empty else jax.sharding.NamedSharding(mesh, spec)
    varying = [aval.mat for aval in operands if aval.mat.varying]
    manual = {"manual_axis_type": varying[0]} if varying else {}
    return ShapedArray(shape, dtype, sharding=sharding, **manual)


def placed_alike(operands: Sequence[Any]) -> list[Any]:
    """The operands as a launch needs them on a mesh, by operations that have transposes.

    Over explicit axes they are gathered, as a launch runs whole on each device. Over the manual axes of
    `shard_map` all vary that any does, as its `check_vma` demands.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.explicit_axes:
        operands = [_gathered(operand) for operand in operands]
    if not mesh.manual_axes:
        return list(operands)
    axes = [jax.typeof(operand).mat.varying for operand in operands]
    union = frozenset().union(*axes)
    return [
        operand if own == union else jax.lax.pcast(operand, tuple(union - own), to="varying")
        for operand, own in zip(operands, axes, strict=True)
    ]


def _gathered(operand: Any) -> Any:
    spec = jax.typeof(operand).sharding.spec
    if all(axis is None for axis in spec):
        return operand
    return jax.reshard(operand, jax.sharding.PartitionSpec(*(None,) * len(spec)))


def is_known_zero(tangent: Any) -> bool:
    """Whether a tangent is zero by construction, as those of integers are."""
    return isinstance(tangent, ad.Zero) or jax.typeof(tangent).dtype == jax.dtypes.float0


def zero_tangent(primal: Any) -> Any:
    """The tangent of a value that depends on nothing differentiated."""
    return ad.Zero(jax.typeof(primal).to_tangent_aval())
