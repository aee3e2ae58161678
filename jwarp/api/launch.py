"""`wp.launch`: one launch of a kernel on JAX values, whose outputs are returned."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from jwarp.api.record import record
from jwarp.bind.calls import bind
from jwarp.bind.prepare import Prepared, check_kernel, prepare, read_block_dim, stream_refusal
from jwarp.config import config
from jwarp.dispatch import eager, in_place, on_device
from jwarp.errors import LaunchError
from jwarp.frontend.kernel import Kernel
from jwarp.launching import geometry, grouping
from jwarp.launching.descriptor import program_of
from jwarp.launching.keywords import refuse_keywords
from jwarp.types import MAX_DIMS


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
) -> Any:
    """Run `kernel` with `dim` threads and return its outputs: new JAX arrays, or the NumPy arrays it wrote to.

    Works on concrete arrays and inside `jax.jit`, `jax.vmap`, `jax.lax.scan` and `jax.shard_map`.
    JAX arrays never change: what a kernel writes comes back as a new array. NumPy arrays given as outputs
    are written in place, without JAX and outside its transformations.

    Args:
        kernel: A function decorated with `@wp.kernel`, or what `wp.cuda_kernel` makes.
        dim: Number of threads, an int or up to four ints. Fewer than the kernel's `wp.tid()` reads are
            padded with 1; with more, the extra ones run each thread that many times. 0 is allowed. In a
            function that is exported with symbolic shapes, sizes here and in `outputs` may be symbolic.
        inputs: Values for the first parameters in order, or a dict by parameter name. An array
            parameter takes a JAX or NumPy array of exactly its dtype and rank. A scalar parameter takes
            a Python or NumPy number, or an array of shape () which may be traced: any number for a
            float, an integer that fits for an integer (a traced one wraps), a bool or 0 or 1 for a bool.
        outputs: One entry for each remaining parameter, or a dict by name. A `jax.ShapeDtypeStruct` or a
            shape (int, tuple or list) is an array that starts as zeros; a JAX array is the content that
            the output starts from. Elements that no thread writes keep zero or that content. NumPy arrays,
            and other arrays in this computer's memory that have `__dlpack__`, are written in place, if all
            outputs are such; strides may be any. So are contiguous arrays of CuPy, PyTorch and others in the memory
            of an NVIDIA GPU. One that is also given as an input, as the same view, is
            one array to the kernel.
            Without `outputs`, `inputs` fill all parameters, and each array that the kernel writes starts
            from the one that was passed.
        block_dim: Threads in a block, for kernels with tiles.
        adjoint: Run the adjoint instead: gradients of inputs from cotangents of outputs. `outputs` are given as for
            the forward launch.
        adj_outputs: One cotangent for each output, None for zeros, or a dict by name.
        adj_inputs: One entry for each input: None for a gradient that is not wanted, True for one that is, an
            array (or number) for one that is wanted and added to it; or a dict by name. After them there may be
            one entry for each output with an initial content, for the gradient of that content. Left out,
            every differentiable input is wanted.
        record_cmd: Return a `wp.Launch` that runs this launch, and run nothing now.
        stream: The CUDA stream of a launch in place on a GPU: its handle, or an object with `__cuda_stream__`.
            Without one it is CUDA's default stream, and the call returns when the launch has ended. For JAX and
            NumPy arrays it must be None, as XLA chooses the stream.
        unknown: Any other keyword is refused, with what to do instead.

    Returns:
        A tuple with one array for each entry of `outputs`; a dict by name where `outputs` is a dict, and
        where it is left out (then of the parameters that the kernel writes). Arrays written in place are
        the objects that were given. With `adjoint`, the wanted gradients in order; a dict by name where
        `adj_inputs` is a dict, or `outputs` is left out.

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
    if unknown:
        refuse_keywords(f"kernel '{kernel.name}': wp.launch", unknown, _KEYWORDS)
    if adjoint or record_cmd or adj_inputs is not None or adj_outputs is not None:
        recorded = record(
            kernel,
            dim,
            inputs,
            outputs,
            adjoint=adjoint,
            adj_inputs=adj_inputs,
            adj_outputs=adj_outputs,
            block_dim=block_dim,
        )
        if record_cmd and stream is not None:
            raise LaunchError(
                f"kernel '{kernel.name}': a record has no stream", hint="pass it to launch(stream=...) of the record"
            )
        return recorded if record_cmd else recorded.launch(stream)
    values, key = _repeatable(kernel, dim, inputs, outputs, block_dim)
    plan = eager.find(kernel, key)
    if plan is not None and stream is None:
        results = plan.call(values)
        if results is not None:
            return results
    dims = geometry.read_dim(dim, kernel.name)
    program = program_of(kernel, config.settings)
    matched = grouping.match_call(kernel, program.written, inputs, outputs)
    block_dim = read_block_dim(block_dim, kernel.name)
    is_named = outputs is None or isinstance(outputs, dict)
    names = [kernel.params[index].name for index in matched.outputs] if is_named else None
    if on_device.is_wanted(matched):
        by_index = on_device.run(program, dims, matched, block_dim, stream)
    elif stream is not None:
        raise stream_refusal(kernel.name, stream)
    elif in_place.is_wanted(matched):
        own = in_place.host_program(program)
        by_index, made_in_place = in_place.run(own, dims, matched, block_dim)
        in_place.keep(kernel, key, made_in_place, matched, names)
    else:
        made = prepare(program, dims, matched, block_dim)
        by_index = run(made, differentiable=kernel.enable_backward)
        eager.keep(
            kernel, key, made, values, matched.outputs,
            names=names, differentiable=kernel.enable_backward, side_effect=program.lasts,
        )  # fmt: skip
    return grouping.results(kernel, matched, by_index, is_named=is_named)


def launch_tiled(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any] | Mapping[str, Any] = (),
    outputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    block_dim: int,
    **more: Any,
) -> Any:
    """Run `kernel`, which has tiles, with `dim` blocks of `block_dim` threads: `wp.launch` over `(*dim, block_dim)`.

    Args:
        kernel: A function decorated with `@wp.kernel`. Its `wp.tid()` reads the coordinates of the block and,
            if it has one more name, the number of the lane in the block.
        dim: Number of blocks, an int or up to three ints.
        inputs, outputs: As for `wp.launch`, and so are the results.
        block_dim: Threads of a block, 1 to 1024.
        more: Further keywords of `wp.launch`.

    Raises:
        LaunchError: `dim` has more than three entries; and what `wp.launch` raises.

    Example:
        >>> (sums,) = wp.launch_tiled(row_sums, dim=[rows], inputs=[x], outputs=[rows], block_dim=64)
    """
    check_kernel(kernel, "wp.launch_tiled")
    size = read_block_dim(block_dim, kernel.name)
    if size is None:
        raise LaunchError(f"kernel '{kernel.name}': wp.launch_tiled needs block_dim, the threads of a block")
    dims = geometry.read_dim(dim, kernel.name)
    if len(dims) >= MAX_DIMS:
        raise LaunchError(
            f"kernel '{kernel.name}': dim has {len(dims)} entries, and the lanes of a block are one more: at most "
            f"{MAX_DIMS - 1} are possible"
        )
    return launch(kernel, (*dims, size), inputs, outputs, block_dim=size, **more)


def _repeatable(
    kernel: Kernel, dim: Any, inputs: Any, outputs: Any, block_dim: Any
) -> tuple[Sequence[Any], Hashable | None]:
    """The values of a call in order of the parameters, and the key under which it may be repeated."""
    if type(inputs) not in (list, tuple) or type(block_dim) not in (type(None), int):
        return (), None
    if kernel.has_structs:
        inputs = None if outputs is None else grouping.plain_parts(kernel, inputs)
        if inputs is None:
            return (), None
    dims = tuple(dim) if type(dim) is list else dim
    if type(dims) is not int and not (type(dims) is tuple and all(type(n) is int for n in dims)):
        return (), None
    if outputs is None:
        return inputs, eager.key_of(inputs, (dims, block_dim))
    if type(outputs) not in (list, tuple):
        return (), None
    shapes = tuple([eager.shape_key(value) for value in outputs])
    if None in shapes:
        return (), None
    return (*inputs, *outputs), eager.key_of(inputs, (dims, block_dim), shapes)


_KEYWORDS = (
    "inputs", "outputs", "adjoint", "adj_inputs", "adj_outputs", "block_dim", "record_cmd", "stream"
)  # fmt: skip


def run(made: Prepared, *, differentiable: bool = True, side_effect: bool = False) -> dict[int, Any]:
    """Launch; the results by parameter index."""
    launched = made.launch
    if not launched.results and not launched.program.lasts:
        # Such a kernel computes nothing that anyone could see.
        return {}
    side_effect = side_effect or launched.program.lasts
    results = bind(made.operands, launched, made.zeros, differentiable=differentiable, side_effect=side_effect)
    return dict(zip(launched.results, results, strict=True))
