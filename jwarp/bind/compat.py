"""Every name of JAX that moves between releases, under one name here (0.10.2 to 0.12)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax._src import config as _config
from jax._src import core as _core
from jax._src import dispatch, source_info_util
from jax._src.array import ArrayImpl as Array
from jax._src.core import get_opaque_trace_state as trace_state
from jax._src.core import trace_state_clean as _is_not_tracing
from jax._src.debugging import DebugEffect
from jax._src.effects import lowerable_effects
from jax._src.lax import special as _special
from jax.core import ShapedArray, Tracer
from jax.export import DisabledSafetyCheck, symbolic_shape
from jax.extend.core import ClosedJaxpr, DebugInfo, DropVar, Jaxpr, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe
from jaxlib.mlir.dialects import stablehlo

__all__ = [
    "JIT",
    "Array",
    "DisabledSafetyCheck",
    "DropVar",
    "Literal",
    "Primitive",
    "ShapedArray",
    "SymbolicSize",
    "Tracer",
    "ad",
    "allows_tf32",
    "batching",
    "computed_in_python",
    "dimension_variables",
    "function_of",
    "higher_primitive",
    "in_library",
    "is_exporting",
    "is_known_zero",
    "is_manual",
    "is_not_tracing",
    "key_implementation",
    "mlir",
    "named_operation",
    "needs_devices",
    "numbers_of_key",
    "outermost",
    "output_aval",
    "partitioned",
    "placed_alike",
    "print_effect",
    "register_dce",
    "single_operation",
    "step_of",
    "symbolic_shape",
    "trace_state",
    "traced_file",
    "traced_name",
    "user_place",
    "wide_types",
    "with_x64",
    "x64_enabled",
    "zero_tangent",
]

_trace, _axes = _core.trace_state_strong_ref, _core.axis_env_state
_outside = _core.eval_trace, _core.top_axis_env
# Where the state of JAX's transformations is kept, and what is there while none is at work.
outermost: tuple[Any, Any, Any, Any] = (_trace, _axes, *_outside)


# Its `value` says whether JAX keeps 64-bit types in this thread.
wide_types: Any = _config.enable_x64


def is_not_tracing() -> bool:
    """True outside of all transformations of JAX. Every launch asks this first; two comparisons usually answer."""
    return (_trace.value is _outside[0] and _axes.value is _outside[1]) or _is_not_tracing()


class Step(NamedTuple):
    """The operation that a traced value is a result of; without a primitive, the value is its only source."""

    equation: Any  # the same object for all of its results
    number: int  # of the value among the results
    primitive: Primitive | None
    params: Mapping[str, Any]
    sources: Sequence[Any]  # traced values and constants

    def run(self, values: Sequence[Any]) -> Sequence[Any]:
        """The results for other values of the sources."""
        if self.primitive is None:
            return values
        results = self.primitive.bind(*values, **self.primitive.get_bind_params(self.params))
        return results if self.primitive.multiple_results else [results]


def step_of(tracer: Any) -> Step | None:
    """How a value that is traced was made; None for arguments, operations with effects and where JAX does not say."""
    equation, variable = getattr(tracer, "parent", None), getattr(tracer, "val", None)
    if equation is None:
        lowered = tracer.full_lower()  # a constant of the function, or a value of a function around it
        return None if lowered is tracer else Step(tracer, 0, None, {}, [lowered])
    index = next((k for k, v in enumerate(equation.outvars) if v is variable), None)
    if index is None or equation.effects:
        return None
    return Step(equation, index, equation.primitive, equation.params, equation.in_tracers)


class PrintEffect(DebugEffect):
    """The effect of a launch that prints: as JAX's own, but all are equal, which an export asks for."""

    def __eq__(self, other: object) -> bool:
        return type(other) is PrintEffect

    def __hash__(self) -> int:
        return hash(PrintEffect)


lowerable_effects.add_type(PrintEffect)  # which is where an import of an export looks for it
print_effect = PrintEffect()

# The type of what a symbolic shape is made of, which has no public name.
SymbolicSize = type(symbolic_shape("n")[0])
# The primitive of `jax.jit` in a jaxpr.
JIT = "jit"


def register_dce(primitive: Primitive, rule: Callable[[Sequence[bool], Any], tuple[list[bool], Any]]) -> None:
    """Let `rule` drop what is not used of an equation: from 0.12, JAX passes more between its two arguments."""
    pe.dce_rules[primitive] = lambda used, *others: rule(used, others[-1])


def needs_devices(primitive: Primitive) -> None:
    """Let the lowering rule of a primitive know the devices that its program is for."""
    dispatch.prim_requires_devices_during_lowering.add(primitive)


def is_exporting(ctx: Any) -> bool:
    """True if a lowering rule runs for `jax.export`."""
    return bool(ctx.module_context.lowering_parameters.for_export)


def is_manual(ctx: Any) -> bool:
    """True if a lowering rule runs inside of shard_map."""
    return bool(getattr(ctx.module_context.axis_context, "manual_axes", ()))


def partitioned(
    function: Callable[..., Any],
    partition: Callable[..., Any],
    inferred: Callable[..., Any],
    operands: Sequence[Sequence[str]],
    results: Sequence[Sequence[str]],
    whole: Sequence[str],
) -> Callable[..., Any]:
    """The function, as what XLA's partitioner asks `partition` for pieces of.

    `operands` and `results` name the factor of each of their axes; those in `whole` are not cut.
    """
    from jax.experimental.custom_partitioning import ArrayMapping, SdyShardingRule, custom_partitioning

    rule = SdyShardingRule(
        tuple(ArrayMapping(*row) for row in operands),
        tuple(ArrayMapping(*row) for row in results),
        need_replication_factors=tuple(whole),
    )
    made = custom_partitioning(function)
    made.def_partition(partition, infer_sharding_from_operands=inferred, sharding_rule=rule)
    return made


def single_operation(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, to be jitted, as one that `jax_debug_nans` and `jax_debug_infs` do not look into for operations.

    They name it in their error. Without this, they would run it again and again.
    """
    function.__qualname__ = name
    function._apply_primitive = True  # type: ignore[attr-defined]
    return function


def named_operation(name: str) -> Any:
    """A `with` in which a lowering rule makes operations that HLO and profiles call `name`, after where they are."""
    return mlir.ir.Location.name(name, childLoc=mlir.ir.Location.current)


def kept_apart(values: Sequence[Any]) -> Sequence[Any]:
    """The results of one call, behind what passes of XLA do not look through.

    Where such a call is all that a loop's body does, XLA simplifies the tuple of its results to the call itself, takes
    the call's operands for the elements of that tuple, and so what the loop changes for what it does not.
    """
    return stablehlo.OptimizationBarrierOp(list(values)).results if len(values) > 1 else values


def scan_counts(params: Any) -> tuple[int, int]:
    """Of what a scan takes, how many constants there are, and how many values it carries."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    constants, carried, _ = (len(list(part.vals)) for part in params["ft_in"].unpack())
    return constants, carried


def dimension_variables(ctx: Any) -> tuple[str, ...]:
    """The names that stand for extents in the module that a lowering rule adds to."""
    return tuple(ctx.module_context.shape_poly_state.dim_vars)


def x64_enabled() -> bool:
    """True if JAX keeps 64-bit types in this thread."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


# The names of precisions of products that a product of float32 with factors of 11 bits is good enough for.
_COARSE = {"default", "high", "bfloat16", "tensorfloat32", "BF16_BF16_F32", "TF32_TF32_F32"}


def allows_tf32() -> bool:
    """True if the precision that JAX is set to in this thread allows products of float32 with fewer digits.

    Where none is set, it is not asked for, though JAX's own products may be coarse then.
    """
    return jax.config.jax_default_matmul_precision in _COARSE  # type: ignore[attr-defined]


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
    return made_varying(operands, varying_axes(operands))


def varying_axes(values: Sequence[Any]) -> frozenset[Any]:
    """The manual axes of `shard_map` that some values vary over."""
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return frozenset()
    return frozenset().union(*(jax.typeof(value).mat.varying for value in values))


def made_varying(values: Sequence[Any], axes: frozenset[Any]) -> list[Any]:
    """The values, which vary over these manual axes of `shard_map` afterwards, besides their own."""
    if not axes:
        return list(values)
    left = [tuple(axes - jax.typeof(value).mat.varying) for value in values]
    return [x if not more else jax.lax.pcast(x, more, to="varying") for x, more in zip(values, left, strict=True)]


def _gathered(operand: Any) -> Any:
    spec = jax.typeof(operand).sharding.spec
    if all(axis is None for axis in spec):
        return operand
    return jax.reshard(operand, jax.sharding.PartitionSpec(*(None,) * len(spec)))


def is_known_zero(tangent: Any) -> bool:
    """True if a tangent is zero by construction, as those of integers are."""
    return isinstance(tangent, ad.Zero) or jax.typeof(tangent).dtype == jax.dtypes.float0


def zero_tangent(primal: Any) -> Any:
    """The tangent of a value that depends on nothing differentiated."""
    return ad.Zero(jax.typeof(primal).to_tangent_aval())


# -- jaxprs of functions that kernels call


def with_x64(enabled: bool) -> Any:
    """A `with` in which JAX keeps 64-bit types, or does not."""
    return jax.enable_x64(enabled)


def function_of(equation: Any, variables: Sequence[Any], results: Sequence[Any]) -> Callable[..., list[Any]]:
    """An equation as a function of its variables, which gives some of its results."""
    info = DebugInfo("jaxpr", equation.primitive.name, ("x",) * len(variables), ("y",) * len(results))
    jaxpr = Jaxpr((), list(variables), list(results), [equation], equation.effects, debug_info=info)
    return jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))


def higher_primitive(equation: Any) -> tuple[Callable[..., list[Any]], bool, Any]:
    """The function of a higher-level primitive, a flag for a rule of reverse mode alone, and the jaxpr of the function.

    From 0.12 on, JAX has such primitives in its own functions; the jaxpr is None for these."""
    own = equation.params["_prim"]
    traced = getattr(own, "traced", None)

    def run(*args: Any) -> list[Any]:
        return jax.tree.leaves(own.expand(*jax.tree.unflatten(own.in_tree, args)))

    return run, hasattr(own, "bwd"), None if traced is None else traced.jaxpr


def user_place(equation: Any) -> tuple[str, int, int, int] | None:
    """The file, line and columns of the user's code that an equation comes from; None if it comes from none."""
    frame = source_info_util.user_frame(equation.source_info.traceback)
    if frame is None:
        return None
    end = frame.end_column if frame.end_line == frame.start_line else frame.start_column + 1
    return frame.file_name, frame.start_line, frame.start_column, end


def traced_file(jaxpr: Any) -> str:
    """The file of the function that a jaxpr was traced from, or nothing."""
    return getattr(getattr(jaxpr, "debug_info", None), "func_filename", None) or ""


def traced_name(jaxpr: Any) -> str:
    """The name of the function that a jaxpr was traced from, or nothing."""
    return getattr(getattr(jaxpr, "debug_info", None), "func_name", None) or ""


def in_library(file: str) -> bool:
    """True if a file belongs to JAX, or to another library that users do not mean by their code."""
    return not source_info_util.is_user_filename(file)


def key_implementation(dtype: Any) -> Any:
    """The generator that keys of this dtype belong to; None for other dtypes."""
    return dtype._impl if dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) else None


def numbers_of_key(key: Any) -> Any:
    """The numbers that keys of random numbers are made of, along a last axis."""
    return jax.random.key_data(key)


def computed_in_python(name: str) -> Callable[..., Any]:
    """The function in jax.numpy by which JAX computes a special function that is a primitive."""
    function = getattr(_special, f"{name}_impl")
    return function if name.startswith("bessel") else _special._up_and_broadcast(function)
