"""Launches of handwritten kernels as a JAX primitive: the GPU runs the kernel, the CPU what computes the same."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jwarp.bind import compat
from jwarp.bind.primitive import (
    Shapes,
    add_batching,
    core_extents,
    is_empty,
    launch_p,
    lower_cuda,
    lower_nothing,
    refuse_long,
    result_avals,
    run_eagerly,
)
from jwarp.compiler.handwritten_program import HandwrittenProgram
from jwarp.compiler.program import program_of
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching.arguments import refuse_written_inputs
from jwarp.launching.batch import Batch
from jwarp.launching.descriptor import Descriptor, descriptor_of
from jwarp.launching.geometry import fold
from jwarp.launching.handwritten import configuration
from jwarp.launching.sizes import refuse_symbolic
from jwarp.wire import Role

Launch = Descriptor[HandwrittenProgram]

# Parameters as those of a launch of a generated kernel: `launch`, `zeros`, `batch`, `side_effect`.
# Every result has all batch axes.
handwritten_p = compat.Primitive("jwarp_handwritten")
handwritten_p.multiple_results = True


def unbatched(launch: Launch, zeros: Shapes, side_effect: bool) -> dict[str, Any]:
    """The parameters of a launch without batch axes."""
    batch = Batch.none(len(launch.operands), len(launch.results))
    return {"launch": launch, "zeros": zeros, "batch": batch, "side_effect": side_effect}


@handwritten_p.def_impl
def _run_eagerly(*operands: Any, **params: Any) -> list[Any]:
    return run_eagerly(handwritten_p, operands, params)


@handwritten_p.def_abstract_eval
def _abstract_eval(*avals: Any, launch: Launch, zeros: Shapes, batch: Batch, **_: Any) -> list[Any]:
    program = launch.program
    shapes = (launch.geometry.dims, *zeros, *(aval.shape for aval in avals))
    refuse_symbolic(program.name, shapes, "which handwritten kernels do not take")
    extents = core_extents(avals, launch, zeros, batch)
    refuse_long(program, extents)
    configuration(program.definition, dims_of(launch), launch.block_dim)
    return result_avals(avals, launch, extents, batch)


def dims_of(launch: Launch) -> tuple[int, ...]:
    """The launch dimensions, as many as were given."""
    return launch.geometry.dims[: launch.program.kernel.tid_dims]


add_batching(handwritten_p)


# On the CPU


def _lower_cpu(ctx: Any, *operands: Any, launch: Launch, zeros: Shapes, batch: Batch, side_effect: bool) -> Any:
    definition = launch.program.definition
    if is_empty(launch, batch):
        return lower_nothing(ctx, *operands, launch=launch)
    if definition.cpu is None:
        raise LaunchError(
            f"kernel '{definition.name}' is written in CUDA C++, and nothing computes the same on the CPU",
            definition.span,
            "give cpu= to wp.cuda_kernel: a @wp.kernel with the same parameters, or a JAX function of the inputs",
        )
    if isinstance(definition.cpu, Kernel):
        compute = _of_kernel(definition.cpu, launch, zeros, batch, side_effect)
    else:
        compute = _of_function(definition.cpu, launch, zeros, batch)
    return compat.mlir.lower_fun(compute, multiple_results=True)(ctx, *operands)


def _of_kernel(
    kernel: Kernel, launch: Launch, zeros: Shapes, batch: Batch, side_effect: bool
) -> Callable[..., list[Any]]:
    """The launch of a generated kernel in the place of a handwritten one."""
    program, roles = program_of(kernel, launch.program.settings), list(launch.roles)
    refuse_written_inputs(program.name, program.params, program.written, roles)
    # Checks of debug mode note what they find in arrays of their own.
    roles += [Role.ZEROS] * len(program.shadowed)
    fresh = dict(zip((p for p, role in enumerate(launch.roles) if role is Role.ZEROS), zeros, strict=True))

    def compute(*operands: Any) -> list[Any]:
        given = [x.shape[sum(mask) :] for x, mask in zip(operands, batch.operands, strict=True)]
        whole = dict(zip(launch.operands, given, strict=True)) | fresh
        own = (*zeros, *(whole[p] for p in program.shadowed))
        geometry = fold(dims_of(launch), program.kernel.tid_dims, program.name)
        made = descriptor_of(program, geometry, tuple(roles))
        axes = dataclasses.replace(batch, results=(batch.all,) * len(made.results))
        results = launch_p.bind(
            *operands, launch=made, zeros=own, batch=axes,
            differentiable=False, side_effect=side_effect or program.lasts,
        )  # fmt: skip
        return results[: len(launch.results)]

    return compute


def _of_function(function: Callable, launch: Launch, zeros: Shapes, batch: Batch) -> Callable[..., list[Any]]:
    """The author's JAX function in the place of the launch, once for each batch element."""
    program = launch.program
    inputs = program.definition.inputs
    fresh = dict(zip((p for p, role in enumerate(launch.roles) if role is Role.ZEROS), zeros, strict=True))

    def one(*operands: Any) -> tuple[Any, ...]:
        given = dict(zip(launch.operands, operands, strict=True))
        # Arrays that the kernel changes may start as zeros.
        given |= {p: jnp.zeros(shape, program.dtypes[p]) for p, shape in fresh.items() if p in inputs}
        shapes = {p: fresh[p] if p in fresh else given[p].shape for p in launch.results}
        call = with_keywords(function, dim=dims_of(launch), output_shapes=tuple(shapes.values()))
        found = call(*(given[p] for p in inputs))
        return _checked(program, found, shapes)

    for axis, size in reversed(list(enumerate(batch.extents))):
        one = jax.vmap(one, tuple(0 if mask[axis] else None for mask in batch.operands), axis_size=size)
    return lambda *operands: list(one(*operands))


def _checked(program: HandwrittenProgram, found: Any, shapes: Mapping[int, tuple[int, ...]]) -> tuple[Any, ...]:
    """The results of the function for the CPU, one for each output."""
    results = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    names = ", ".join(program.params[p].name for p in shapes)
    if len(results) != len(shapes):
        raise LaunchError(
            f"kernel '{program.name}': its function for the CPU returned {len(results)} arrays, and there are "
            f"{len(shapes)} outputs ({names})"
        )
    for (p, shape), result in zip(shapes.items(), results, strict=True):
        expected, got = (shape, program.dtypes[p]), (jnp.shape(result), jnp.result_type(result))
        if expected != got:
            raise KernelTypeError(
                f"kernel '{program.name}': its function for the CPU returned {got[1]}{list(got[0])} for output "
                f"'{program.params[p].name}', expected {expected[1]}{list(expected[0])}"
            )
    return tuple(map(jnp.asarray, results))


def keywords_of(function: Callable) -> frozenset[str]:
    """The names of the arguments that a function takes by keyword only."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of those that are not written in Python
        return frozenset()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def with_keywords(function: Callable, **offered: Any) -> Callable:
    """The function with those of the offered keywords that it has."""
    known = keywords_of(function)
    return functools.partial(function, **{name: value for name, value in offered.items() if name in known})


compat.mlir.register_lowering(handwritten_p, _lower_cpu, platform="cpu")
compat.mlir.register_lowering(handwritten_p, lower_cuda, platform="cuda", inline=False)
