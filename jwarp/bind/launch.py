"""`wp.launch`: one launch of a kernel on JAX values, whose outputs are returned."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from jwarp.bind import compat, in_place, values
from jwarp.bind.primitive import bind
from jwarp.config import config
from jwarp.errors import KernelTypeError, LaunchError, NotDifferentiableError
from jwarp.frontend.function import Kernel
from jwarp.launch import arguments, geometry
from jwarp.launch.arguments import Argument, Fault, Matched, Role
from jwarp.launch.descriptor import Program, descriptor_of, program_of
from jwarp.launch.keywords import refuse_keywords


def launch(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any] | Mapping[str, Any] = (),
    outputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    adjoint: bool = False,
    adj_inputs: Any = None,
    adj_outputs: Any = None,
    block_dim: int | None = None,
    record_cmd: bool = False,
    stream: Any = None,
    **unknown: Any,
) -> tuple[Any, ...] | dict[str, Any]:
    """Run `kernel` with `dim` threads and return its outputs: new JAX arrays, or the NumPy arrays it wrote to.

    Works on concrete arrays and inside `jax.jit`, `jax.vmap`, `jax.lax.scan` and `jax.shard_map`.
    JAX arrays never change: what a kernel writes comes back as a new array. NumPy arrays given as outputs
    are written in place, without JAX and outside its transformations.

    Args:
        kernel: A function decorated with `@wp.kernel`.
        dim: Number of threads, an int or up to four ints. Fewer than the kernel's `wp.tid()` reads are
            padded with 1; with more, the extra ones run each thread that many times. 0 is allowed.
        inputs: Values for the first parameters in order, or a dict by parameter name. An array
            parameter takes a JAX or NumPy array of exactly its dtype and rank. A scalar parameter takes
            a Python or NumPy number, or an array of shape () which may be traced: any number for a
            float, an integer that fits for an integer (a traced one wraps), a bool or 0 or 1 for a bool.
        outputs: One entry for each remaining parameter, or a dict by name. A `jax.ShapeDtypeStruct` or a
            shape (int, tuple or list) is an array that starts as zeros; a JAX array is the content that
            the output starts from. Elements that no thread writes keep zero or that content. NumPy arrays,
            and other arrays in this computer's memory that have `__dlpack__`, are written in place, if all
            outputs are such; strides may be any. One that is also given as an input, as the same view, is
            one array to the kernel.
            Without `outputs`, `inputs` fill all parameters, and each array that the kernel writes starts
            from the one that was passed.
        block_dim: Threads in a block, for kernels with tiles.
        adjoint, adj_inputs, adj_outputs, record_cmd: not available yet; anything but the default is refused.
        stream: must be None, as XLA chooses the stream.
        unknown: Any other keyword is refused, with what to do instead.

    Returns:
        A tuple with one array for each entry of `outputs`; a dict by name where `outputs` is a dict, and
        where it is left out (then of the parameters that the kernel writes). Arrays written in place are
        the objects that were given.

    Raises:
        KernelTypeError: An argument has another kind, dtype or rank than its parameter; also for 64-bit
            parameters while `jax_enable_x64` is off.
        LaunchError: Counts, names, shapes or `dim` do not fit, an input is written by the kernel, an array
            is provably accessed outside its extents, some outputs are NumPy arrays and some are not, or
            one of them is read-only, overlaps another argument or is given in a JAX transformation.
        CompileError: The kernel is not written in the kernel language.
        NotDifferentiableError: A gradient is asked for along a path that has no exact rule.

    Example:
        >>> (y,) = wp.launch(scale, dim=4, inputs=[jnp.arange(4.0), 2.0], outputs=[4])
    """
    check_kernel(kernel, "wp.launch")
    refuse_keywords(f"kernel '{kernel.name}': wp.launch", unknown, _KEYWORDS)
    _refuse_unavailable(kernel.name, adjoint, adj_inputs, adj_outputs, record_cmd, stream)
    dims = geometry.read_dim(dim, kernel.name)
    program = program_of(kernel, config.settings)
    matched = arguments.match(program.name, kernel.params, program.written, inputs, outputs)
    block_dim = read_block_dim(block_dim, kernel.name)
    if in_place.is_wanted(matched):
        by_index = in_place.run(program, dims, matched, block_dim)
    else:
        by_index = run(program, dims, matched, block_dim=block_dim, differentiable=kernel.enable_backward)
    if outputs is None or isinstance(outputs, dict):
        return {kernel.params[index].name: by_index[index] for index in matched.outputs}
    return tuple(by_index[index] for index in matched.outputs)


_KEYWORDS = (
    "inputs", "outputs", "adjoint", "adj_inputs", "adj_outputs", "block_dim", "record_cmd", "stream"
)  # fmt: skip


def run(
    program: Program,
    dims: tuple[int, ...],
    matched: Matched,
    *,
    block_dim: int | None = None,
    differentiable: bool = True,
    side_effect: bool = False,
) -> dict[int, Any]:
    """Check the arguments and launch; the results by parameter index."""
    threads = geometry.fold(dims, program.kernel.tid_dims, program.name)
    roles, operands, zeros = _prepare(program, matched)
    launched = descriptor_of(program, threads, roles, block_dim)
    if not launched.results and not program.lasts:
        # Such a kernel computes nothing that anyone could see.
        return {}
    side_effect = side_effect or program.lasts
    results = bind(operands, launched, zeros, differentiable=differentiable, side_effect=side_effect)
    return dict(zip(launched.results, results, strict=True))


def _prepare(program: Program, matched: Matched) -> tuple[tuple[Role, ...], list[Any], tuple[tuple[int, ...], ...]]:
    """Final roles, operands in order, and shapes of the outputs that start as zeros."""
    x64 = compat.x64_enabled()
    roles, operands, zeros = list(matched.roles), [], []
    faults: list[Fault] = []
    shapes: list[tuple[int, ...]] = []
    for index, (param, value) in enumerate(zip(program.params, matched.values, strict=True)):
        given = values.describe(value, param)
        if roles[index] is Role.ZEROS:
            start = arguments.read_output(param, value, given, x64)
        else:
            start = arguments.check_input(param, given, x64) or given
        match start:
            case Fault():
                faults.append(start)
            case Argument() if not faults:
                operands.append(values.to_operand(param, start))
                roles[index] = Role.IN_OUT if roles[index] is Role.ZEROS else roles[index]
            case tuple():
                zeros.append(start)
        shapes.append(start if isinstance(start, tuple) else given.shape or ())
    arguments.raise_faults(program.name, faults)
    roles += [Role.ZEROS] * len(program.shadowed)
    zeros += [shapes[index] for index in program.shadowed]
    return tuple(roles), operands, tuple(zeros)


def check_kernel(kernel: Any, caller: str) -> None:
    """Raise KernelTypeError unless `kernel` is one."""
    if not isinstance(kernel, Kernel):
        name = getattr(kernel, "__name__", None)
        raise KernelTypeError(
            f"{caller}: expected a kernel, got {type(kernel).__name__}{f' {name!r}' if name else ''}",
            hint="decorate the function with @wp.kernel",
        )


def read_block_dim(block_dim: Any, kernel_name: str) -> int | None:
    """`block_dim` as a positive int, or None."""
    if block_dim is None:
        return None
    try:
        size = 0 if isinstance(block_dim, bool) else operator.index(block_dim)
    except TypeError:
        size = 0
    if size < 1:
        raise LaunchError(f"kernel '{kernel_name}': block_dim must be a positive int, got {block_dim!r}")
    return size


def _refuse_unavailable(
    name: str, adjoint: Any, adj_inputs: Any, adj_outputs: Any, record_cmd: Any, stream: Any
) -> None:
    if adjoint or adj_inputs is not None or adj_outputs is not None:
        raise NotDifferentiableError(
            f"kernel '{name}': adjoint launches are not available yet",
            hint="write the adjoint as a kernel of its own and launch that",
        )
    if record_cmd:
        raise LaunchError(
            f"kernel '{name}': launch records (record_cmd) are not available yet",
            hint="jax.jit a function that calls wp.launch: calling it again replays the launch",
        )
    if stream is not None:
        raise LaunchError(
            f"kernel '{name}': stream must be None for JAX values, got {type(stream).__name__}",
            hint="leave it out: XLA chooses the stream",
        )
