"""`wp.jax_kernel`: a kernel as a JAX function, with the keywords of Warp's wrapper."""

from __future__ import annotations

import operator
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jwarp.bind import compat, values
from jwarp.config import config
from jwarp.dispatch import eager, route
from jwarp.dispatch.call import Call, check_kernel
from jwarp.errors import KernelTypeError, KernelWarning, LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import arguments, geometry, grouping
from jwarp.launching.arguments import Matched
from jwarp.launching.keywords import refuse_keywords
from jwarp.launching.program import program_of
from jwarp.types import ArrayType
from jwarp.wire import Role

Dims = int | Sequence[int]
OutputDims = Dims | Mapping[str, Dims]


def jax_kernel(
    kernel: Kernel,
    num_outputs: int = 1,
    *,
    launch_dims: Dims | None = None,
    output_dims: OutputDims | None = None,
    in_out_argnames: Sequence[str] | None = (),
    block_dim: int | None = None,
    enable_backward: bool = True,
    vmap_method: Any = None,
    module_preload_mode: Any = None,
    has_side_effect: bool = False,
    **unknown: Any,
) -> Callable[..., tuple[Any, ...]]:
    """Make a JAX function that launches `kernel`.

    The last parameters of the kernel are its outputs; the function takes values for the others, and
    returns a tuple of `num_outputs` arrays. It works eagerly and inside `jax.jit`, `jax.vmap` (one
    launch for the whole batch), `jax.lax.scan` and `jax.shard_map`.

    Args:
        kernel: A function decorated with `@wp.kernel`, or what `wp.cuda_kernel` makes, which knows its outputs.
        num_outputs: How many arrays come back, those of `in_out_argnames` included. At least 1.
        launch_dims: Threads of a launch, an int or up to four ints. Default: the shape of the first
            array argument. Batch axes of `vmap` do not count. Symbolic in an export of symbolic shapes.
        output_dims: Shape of every output (int or tuple), or a dict of shapes by parameter name.
            Default: the launch dimensions. Outputs start as zeros.
        in_out_argnames: Array parameters that start from the array passed for them. They are passed as
            inputs, in the kernel's order, and come back first, also in the kernel's order.
        block_dim: Threads in a block, for kernels with tiles.
        enable_backward: False makes every gradient a NotDifferentiableError.
        vmap_method, module_preload_mode: Accepted so that code for Warp runs; they do nothing here, and a
            KernelWarning says so once.
        has_side_effect: XLA keeps the launch where nothing uses its results. (JAX itself still drops a
            launch from a traced function that returns none of its results.)
        unknown: Any other keyword is refused, with what to do instead.

    Returns:
        A function of the input values. `launch_dims=` and `output_dims=` may be given for a single call.
        Arrays must have exactly the dtype and rank of their parameter; scalars may be traced.

    Raises:
        KernelTypeError: `kernel` is none, an output or in-out parameter is a scalar; at a call, an argument
            has another kind, dtype or rank than its parameter.
        LaunchError: Counts or names do not fit the kernel's parameters; at a call, the count of arguments,
            a shape, or an array that the kernel writes though it is an input.
        NotDifferentiableError: A gradient is asked for along a path that has no exact rule.

    Example:
        >>> scale_fn = wp.jax_kernel(scale)
        >>> (y,) = jax.jit(scale_fn)(jnp.arange(4.0), 2.0)
    """
    check_kernel(kernel, "wp.jax_kernel")
    name = kernel.name
    refuse_keywords(f"kernel '{name}': wp.jax_kernel", unknown, _KEYWORDS)
    _warn_without_effect(vmap_method=vmap_method, module_preload_mode=module_preload_mode)
    num_outputs, in_out_argnames = kernel.wrapped_outputs(num_outputs, in_out_argnames)
    in_outs = _read_in_outs(kernel, in_out_argnames)
    count = _read_num_outputs(kernel, num_outputs, len(in_outs))
    first_output = len(kernel.signature) - count + len(in_outs)
    _check_outputs(kernel, in_outs, first_output)
    block = geometry.read_block_dim(block_dim, name)
    if launch_dims is not None:
        geometry.read_dim(launch_dims, name, "launch_dims")
    inputs = kernel.signature[:first_output]
    pure_outputs = range(first_output, len(kernel.signature))
    _check_output_names(kernel, output_dims, pure_outputs)
    first_array = next((i for i, param in enumerate(inputs) if not param.is_value), None)
    roles = [Role.IN_OUT if i in in_outs else Role.READ for i in range(first_output)]
    roles += [Role.ZEROS] * len(pure_outputs)
    outputs = (*sorted(in_outs), *pure_outputs)
    differentiable = enable_backward and kernel.enable_backward
    identity = object()  # of this function among the repeated calls of its kernel
    default_dims, default_output_dims = launch_dims, output_dims

    def call(
        *args: Any,
        launch_dims: Dims | None = None,
        output_dims: OutputDims | None = None,
        vmap_method: Any = None,
        **unknown: Any,
    ) -> tuple[Any, ...]:
        if unknown:
            refuse_keywords(f"kernel '{name}'", unknown, _CALL_KEYWORDS, [param.name for param in kernel.signature])
        _warn_without_effect(vmap_method=vmap_method)
        key = None
        if launch_dims is None and output_dims is None and not kernel.has_structs:
            key = eager.key_of(args, identity)
            plan = eager.find(kernel, key)
            found = None if plan is None else plan.call(args)
            if found is not None:
                return found
        if len(args) != first_output:
            names = ", ".join(param.name for param in inputs)
            raise LaunchError(f"kernel '{name}' takes {first_output} arguments ({names}), got {len(args)}")
        dims = default_dims if launch_dims is None else launch_dims
        if dims is None:
            dims = _dims_from_argument(kernel, first_array, args)
        threads = geometry.read_dim(dims, name, "launch_dims")
        shapes = default_output_dims if output_dims is None else output_dims
        if output_dims is not None:
            _check_output_names(kernel, output_dims, pure_outputs)
        shapes = threads if shapes is None else shapes
        output_values = [_shape_of(kernel, index, shapes) for index in pure_outputs]

        given = Matched(tuple(roles), (*args, *output_values), outputs)
        made = Call(
            kernel,
            program_of(kernel, config.settings),
            threads,
            given,
            block_dim=block,
            differentiable=differentiable,
            side_effect=bool(has_side_effect),
            is_functional=True,
        )
        return route.run(made, None, given.values, key)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Launch kernel '{name}' with ({', '.join(p.name for p in inputs)}) as a JAX function."
    return call


# What is checked when the function is made


_CALL_KEYWORDS = ("launch_dims", "output_dims", "vmap_method")
_KEYWORDS = (
    "num_outputs", "in_out_argnames", "block_dim", "enable_backward", "module_preload_mode", "has_side_effect",
    *_CALL_KEYWORDS,
)  # fmt: skip


def _read_in_outs(kernel: Kernel, names: Sequence[str] | None) -> list[int]:
    known = [param.name for param in kernel.signature]
    where = f"kernel '{kernel.name}': in_out_argnames"
    if isinstance(names, str):
        raise LaunchError(f"{where} must be a sequence of names, got the string {names!r}", hint=f"[{names!r}]")
    if names is not None and not isinstance(names, Iterable):
        raise LaunchError(f"{where} must be a sequence of names, got {names!r}")
    chosen = list(names or ())
    for name in chosen:
        if name not in known:
            raise LaunchError(f"{where} has {name!r}, which is no parameter; there are {', '.join(known)}")
        if chosen.count(name) > 1:
            raise LaunchError(f"{where} has '{name}' twice")
        if kernel.signature[known.index(name)].is_value:
            raise KernelTypeError(f"{where} has '{name}', which is passed by value; only arrays can be written")
    return sorted(known.index(name) for name in chosen)


def _read_num_outputs(kernel: Kernel, num_outputs: Any, in_outs: int) -> int:
    where = f"kernel '{kernel.name}': num_outputs"
    try:
        count = None if isinstance(num_outputs, bool) else operator.index(num_outputs)
    except TypeError:
        count = None
    if count is None:
        raise LaunchError(f"{where} must be an int, got {type(num_outputs).__name__} {num_outputs!r}")
    if not kernel.signature:
        raise LaunchError(
            f"kernel '{kernel.name}' has no parameters, so it has no output that wp.jax_kernel could return",
            hint="give it an array parameter to write to",
        )
    if not 1 <= count <= len(kernel.signature):
        limit = f"1 to {len(kernel.signature)}" if len(kernel.signature) > 1 else "1"
        raise LaunchError(
            f"{where} must be {limit}, its number of parameters, got {count}",
            hint="it counts the parameters that come back, from the last one on, and those of in_out_argnames",
        )
    if count < in_outs:
        raise LaunchError(f"{where} counts the {in_outs} names of in_out_argnames too, got {count}")
    return count


def _check_outputs(kernel: Kernel, in_outs: list[int], first_output: int) -> None:
    for index in in_outs:
        if index >= first_output:
            raise LaunchError(
                f"kernel '{kernel.name}', parameter '{kernel.signature[index].name}': an in-out parameter must"
                f" come before the outputs, which start at '{kernel.signature[first_output].name}'"
            )
    for param in kernel.signature[first_output:]:
        if param.is_value:
            raise KernelTypeError(
                f"kernel '{kernel.name}', parameter '{param.name}': an output must be an array, this is {param.type!r}",
                hint="num_outputs counts parameters from the end",
            )


def _check_output_names(kernel: Kernel, output_dims: Any, outputs: range) -> None:
    if not isinstance(output_dims, Mapping):
        return
    names = [kernel.signature[index].name for index in outputs]
    for name in output_dims:
        if name not in names:
            raise LaunchError(
                f"kernel '{kernel.name}': output_dims has {name!r}, which is no output; there are"
                f" {', '.join(names) or 'none'}"
            )
    missing = [name for name in names if name not in output_dims]
    if missing:
        raise LaunchError(f"kernel '{kernel.name}': output_dims has no shape for output '{missing[0]}'")


_warned: set[str] = set()
_warned_lock = threading.Lock()


def _warn_without_effect(**keywords: Any) -> None:
    for keyword, value in keywords.items():
        if value is None:
            continue
        with _warned_lock:
            first = keyword not in _warned
            _warned.add(keyword)
        if first:
            warnings.warn(
                f"wp.jax_kernel: {keyword} does nothing here; the call works without it",
                KernelWarning,
                stacklevel=3,
            )


# What is worked out at each call


def _dims_from_argument(kernel: Kernel, first_array: int | None, args: Sequence[Any]) -> tuple[int, ...]:
    if first_array is None:
        raise LaunchError(
            f"kernel '{kernel.name}' has no array argument to take launch_dims from", hint="pass launch_dims="
        )
    argument, first = kernel.signature[first_array], kernel.groups[first_array]
    parts = grouping.flatten(kernel.name, argument.name, argument.type, args[first_array])
    place = next(k for k, p in enumerate(first) if not kernel.params[p].is_value)
    given, param = values.describe(parts[place]), kernel.params[first[place]]
    # Checked before its shape is used, so that a wrong rank is not reported as a wrong launch.
    fault = arguments.check_input(param, given, compat.x64_enabled())
    arguments.raise_faults(kernel.name, [fault] if fault else [])
    type_ = param.type
    shape = given.shape or ()
    return shape[: type_.dims] if isinstance(type_, ArrayType) else shape


def _shape_of(kernel: Kernel, index: int, shapes: Any) -> tuple[int, ...]:
    name = kernel.signature[index].name
    shape = shapes[name] if isinstance(shapes, Mapping) else shapes
    return geometry.read_dim(shape, kernel.name, f"output_dims for '{name}'")
