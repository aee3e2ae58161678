"""`wp.launch` and `wp.launch_tiled`: one launch of a kernel."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, overload

from jwarp.api.launch_arguments import asked_gradients, read_call
from jwarp.api.record import Launch, record, refuse_stream
from jwarp.api.timers import get_logger
from jwarp.api.tracebacks import shorten
from jwarp.arrays.commands import Call, listeners
from jwarp.arrays.subclasses import plain_values
from jwarp.config import config, surface
from jwarp.devices import get_device
from jwarp.dispatch.call.array_arguments import Given, note_look_ups
from jwarp.dispatch.call.call import LaunchRequest, read_kernel
from jwarp.dispatch.call.found import Found
from jwarp.dispatch.call.ids import ON_TAPE
from jwarp.dispatch.call.instances import as_numbers, choose, computes_with_ids, note_ids_as_numbers
from jwarp.dispatch.call.looking_up import looking_up, with_memory
from jwarp.dispatch.executables import route
from jwarp.dispatch.executables.array_launch import launch as launch_arrays
from jwarp.dispatch.executables.table import NO_SLOT, Slot, owner_of, repeat
from jwarp.dispatch.steps.backward import launch_adjoint
from jwarp.errors import CompileError, JwarpError, KernelTypeError, LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import geometry
from jwarp.launching.geometry import BlockDim
from jwarp.launching.keywords import refuse_keywords
from jwarp.types import MAX_DIMS

Values = Sequence[Any] | Mapping[str, Any]


# The result, for type checkers.
@overload
def launch(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Values = (),
    outputs: Mapping[str, Any] | None = None,
    *,
    adjoint: Literal[False] = False,
    block_dim: BlockDim | None = None,
    record_cmd: Literal[False] = False,
    stream: Any = None,
) -> dict[str, Any]: ...
@overload
def launch(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Values = (),
    outputs: Sequence[Any] = (),
    *,
    adjoint: Literal[False] = False,
    block_dim: BlockDim | None = None,
    record_cmd: Literal[False] = False,
    stream: Any = None,
) -> tuple[Any, ...]: ...
@overload
def launch(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Values = (),
    outputs: Values | None = None,
    *,
    adjoint: bool = False,
    adj_inputs: Any = None,
    adj_outputs: Any = None,
    block_dim: BlockDim | None = None,
    record_cmd: Literal[True],
    stream: Any = None,
) -> Launch: ...
@overload
def launch(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Values = (),
    outputs: Values | None = None,
    *,
    adjoint: Literal[True],
    adj_inputs: Any = None,
    adj_outputs: Any = None,
    block_dim: BlockDim | None = None,
    stream: Any = None,
) -> Any: ...
def launch(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Values = (),
    outputs: Values | None = None,
    adj_inputs: Any = None,
    adj_outputs: Any = None,
    device: Any = None,
    stream: Any = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: BlockDim | None = None,
    **unknown: Any,
) -> Any:
    """Run a kernel with `dim` threads and return its outputs: new JAX arrays, or the NumPy arrays written to.

    Works on concrete arrays and inside `jax.jit`, `jax.vmap`, `jax.lax.scan` and `jax.shard_map`.

    JAX arrays never change: each output is a new array. NumPy arrays given as outputs are written in place, without JAX
    and outside its transformations. A launch with a `wp.array` among its arguments may write to any `wp.array` and
    returns None, as in Warp; the arguments after `outputs` may then have Warp's order.

    Args:
        kernel: A function decorated with `@wp.kernel`, or a kernel from `wp.cuda_kernel`.
        dim: Number of threads along each axis, an int or up to four ints. If the kernel's `wp.tid()` reads more
            coordinates, `dim` is padded with 1; if it reads fewer, each thread runs once for each index along the other
            axes. 0 is allowed. In a function that is exported with symbolic shapes, sizes here and in `outputs` may be
            symbolic.
        inputs: Values for the first parameters in order, or a dict by parameter name. An array parameter takes a JAX or
            NumPy array of exactly its dtype and rank; the components of vectors and matrices are the last axes. A
            scalar parameter takes a Python or NumPy number, or an array of shape (), which may be traced: any number
            for a float, an integer in range for an integer (a traced one wraps), a bool, 0 or 1 for a bool.
        outputs: One entry for each remaining parameter, or a dict by name. A shape (int, tuple or list) or a
            `jax.ShapeDtypeStruct` is an array that starts as zeros; a JAX array is the initial content. Elements that
            no thread writes keep zero or this content. NumPy arrays, other arrays in host memory that have
            `__dlpack__`, and arrays of CuPy, PyTorch and others in the memory of an NVIDIA GPU are written in place,
            with any strides, if all outputs are such arrays. If the same view is also an input, the kernel sees one
            array. Without `outputs`, `inputs` fill all parameters, and each array that the kernel writes starts from
            the one that was passed.
        block_dim: Threads in a block, for kernels with tiles; for handwritten kernels also the numbers along (x, y, z).
        adjoint: Run the adjoint instead: compute gradients of inputs from cotangents of outputs. Give `outputs` as for
            the forward launch.
        adj_outputs: One cotangent for each output, None for zeros, or a dict by name.
        adj_inputs: One entry for each input: None for no gradient, True for the gradient, or an array (or number) to
            which the gradient is added; or a dict by name. Further entries, one for each output with an initial
            content, ask for the gradient of this content. Default: the gradients of all differentiable inputs.
        device: The device of a launch on `wp.array`s, such as "cpu" or "cuda:0". It must be that of the arrays. None:
            the device of the arrays.
        record_tape: Whether an open `wp.Tape` records a launch on `wp.array`s.
        record_cmd: Run nothing, and return a `wp.Launch` that runs this launch.
        max_blocks: Has no effect.
        stream: The CUDA stream of a launch in place on a GPU: its handle, or an object with `__cuda_stream__`. None:
            CUDA's default stream, and the call returns when the launch has ended. For JAX and NumPy arrays it must be
            None, because XLA chooses the stream.
        unknown: Any other keyword is an error that says what to do instead.

    Returns:
        A tuple with one array for each entry of `outputs`. A dict by name if `outputs` is a dict, or if it is left out
        (then of the parameters that the kernel writes). Arrays that were written in place are the objects that were
        passed. With `adjoint`, the requested gradients in order; a dict by name if `adj_inputs` is a dict, or `outputs`
        is left out.

    Raises:
        KernelTypeError: An argument has another kind, dtype or rank than its parameter, or a parameter has a 64-bit
            type and `jax_enable_x64` is off.
        LaunchError: Counts, names, shapes or `dim` do not match the kernel; the kernel writes an input; an array is
            provably accessed outside its extents; only some outputs are NumPy arrays; or a NumPy output is read-only,
            overlaps another argument, or is used inside a JAX transformation.
        CompileError: The kernel is not written in the kernel language.
        NotDifferentiableError: A gradient is asked for along a path without an exact derivative.

    Example:
        >>> (y,) = wp.launch(scale, dim=4, inputs=[jnp.arange(4.0), 2.0], outputs=[4])
    """
    owner, slot = None, NO_SLOT
    if surface.is_warps:
        if block_dim is not None:
            block_dim = geometry.block_of_program(block_dim, device, getattr(kernel, "name", "?"))
        if config.of_warp["print_launches"]:
            key = getattr(kernel, "key", kernel)
            arguments = f"inputs: {inputs} outputs: {outputs} device: {get_device(device)}"
            get_logger().info(f"kernel: {key} dim: {dim} {arguments}")
    gradients = (adj_inputs, adj_outputs) if adjoint else None
    has_gradients = not (adjoint or adj_inputs is adj_outputs is None)  # which mean nothing for a launch on arrays
    if device is not None or record_tape is not True or max_blocks or has_gradients:
        owner = owner_of(device, record_tape, max_blocks, has_gradients)
    is_once = record_cmd or unknown or stream is not None or type(adjoint) is not bool
    if not is_once:
        found = repeat(kernel, dim, block_dim, inputs, outputs, gradients, owner, record_tape)
        if type(found) is not Slot:
            return found
        slot = found
    read = read_kernel(kernel, "wp.launch")
    request = LaunchRequest(read, dim, inputs, outputs, adj_inputs, adj_outputs, device, stream, adjoint, record_tape,
                            record_cmd, max_blocks, block_dim)  # fmt: skip
    try:
        return _checked(request, slot, unknown)
    except JwarpError as error:
        shorten(error)
        raise


def _checked(request: LaunchRequest, slot: Slot, unknown: Mapping[str, Any]) -> Any:
    """Make a launch of whose layout nothing is known."""
    if slot.key is None:
        values = {name: getattr(request, name) for name in ("inputs", "outputs", "adj_inputs", "adj_outputs")}
        plain = {name: plain_values(value) for name, value in values.items()}
        if any(plain[name] is not value for name, value in values.items()):
            return _once_more(request, unknown, **plain)
    asked, looks_up, reads_ids = request, False, False
    kernel = request.kernel
    if kernel.handles and computes_with_ids(kernel) and (numbers := as_numbers(request.inputs)) is not request.inputs:
        return _once_more(request, unknown, inputs=numbers)
    try:
        given = Given(request.inputs, request.outputs)
        on_arrays = given.on_arrays
        looks_up = on_arrays and given.may_look_up
        if kernel.handles or kernel.is_generic or kernel.id_lists:
            why_no_ids = _why_no_ids(request) if kernel.id_lists else ""
            kernel, inputs, reads_ids, is_numbered = choose(
                kernel, request.inputs, request.outputs, why_no_ids, reads_ids=not looks_up
            )
            request = replace(request, kernel=kernel, inputs=inputs)
            slot = NO_SLOT if is_numbered or reads_ids else slot  # as other numbers have other layouts
        if looks_up and given.looks_up(kernel):
            return _with_memory(request, unknown)
        on_defaults = request.device is None and request.record_tape is True and not request.max_blocks
        if unknown or not (on_arrays or on_defaults):
            names = () if on_arrays else ("device", "record_tape", "max_blocks")
            others = {name: getattr(request, name) for name in names}
            refuse_keywords(f"kernel '{kernel.name}': wp.launch", {**unknown, **others}, _KEYWORDS)
        if request.record_cmd:
            refuse_stream(kernel, request.stream)
            return record(request, on_arrays=on_arrays)
        if not on_arrays:
            return route.run(read_call(request), request.stream, slot)
        if request.adjoint:
            return launch_adjoint(request, asked_gradients(request))
        return launch_arrays(request, slot, _again(asked) if reads_ids else None)
    except JwarpError as error:
        is_of_kernel = looks_up and isinstance(error, (KernelTypeError, CompileError))
        if not (is_of_kernel and getattr(error, "needs_memory", False)):
            is_of_kernel = is_of_kernel and not getattr(error, "refuses_id", False)
            has_ids = is_of_kernel and asked.kernel.handles and as_numbers(asked.inputs) is not asked.inputs
            if has_ids and not computes_with_ids(asked.kernel):
                return _with_numbers(asked, unknown, error)
            raise
        note_look_ups(kernel)
    return _with_memory(request, unknown)


def _once_more(request: LaunchRequest, unknown: Mapping[str, Any], **changes: Any) -> Any:
    """Make a launch with other values."""
    return launch(**vars(replace(request, **changes)), **unknown)


def _with_numbers(request: LaunchRequest, unknown: Mapping[str, Any], error: JwarpError) -> Any:
    """Make a launch of a kernel that takes ids for numbers, if it does: else the `error` that it had before counts."""
    note_ids_as_numbers(request.kernel)
    try:
        return _once_more(request, unknown)
    except (KernelTypeError, CompileError):
        note_ids_as_numbers(request.kernel, are_numbers=False)
        raise error from None


def _with_memory(request: LaunchRequest, unknown: Mapping[str, Any]) -> Any:
    """Make a launch of a kernel that looks numbers up when it runs."""
    kernel, inputs, outputs = with_memory(request.kernel, request.inputs, request.outputs)
    if request.adjoint:
        Found(kernel).check_no_gradients()
    with looking_up():
        return _once_more(request, unknown, kernel=kernel, inputs=inputs, outputs=outputs)


def _why_no_ids(request: LaunchRequest) -> str:
    """Why a launch reads no arrays of ids, if it does not."""
    if request.record_cmd:
        return "this is a record"
    if request.adjoint:
        return "this is an adjoint"
    return ON_TAPE if listeners.here.recorders and request.record_tape else ""


def _again(request: LaunchRequest) -> Call:
    """The command that makes a launch once more: its arrays of ids may be others when a graph runs."""
    inputs = dict(request.inputs) if isinstance(request.inputs, Mapping) else list(request.inputs)
    return Call(functools.partial(_once_more, request, {}, inputs=inputs))


def launch_tiled(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Values = (),
    outputs: Values | None = None,
    *,
    block_dim: int,
    **more: Any,
) -> Any:
    """Run a kernel with tiles on `dim` blocks of `block_dim` threads: `wp.launch` over `(*dim, block_dim)`.

    Args:
        kernel: A function decorated with `@wp.kernel`. Its `wp.tid()` reads the coordinates of the block and, if it has
            one more name, the index of the lane in the block.
        dim: Number of blocks along each axis, an int or up to three ints.
        inputs, outputs: As for `wp.launch`, with the same results.
        block_dim: Threads in a block, 1 to 1024.
        more: Further keywords of `wp.launch`.

    Raises:
        LaunchError: `dim` has more than three entries. Also everything that `wp.launch` raises.

    Example:
        >>> (sums,) = wp.launch_tiled(row_sums, dim=[rows], inputs=[x], outputs=[rows], block_dim=64)
    """
    kernel = read_kernel(kernel, "wp.launch_tiled")
    if block_dim is not None and surface.is_warps:
        block_dim = geometry.block_of_program(block_dim, more.get("device"), kernel.name)
    # Of a launch that is repeated, all that follows has been looked at.
    if isinstance(dim, (tuple, list)) and type(block_dim) is int and not more:
        threads = (*dim, block_dim)
        found = repeat(kernel, threads, block_dim, inputs, outputs)
        if type(found) is not Slot:
            return found
    size = None if block_dim is None else geometry.one_block_dim(block_dim, kernel.name)
    if size is None:
        raise LaunchError(f"kernel '{kernel.name}': wp.launch_tiled needs block_dim, the threads of a block")
    dims = geometry.read_dim(dim, kernel.name)
    if len(dims) >= MAX_DIMS:
        raise LaunchError(
            f"kernel '{kernel.name}': dim has {len(dims)} entries, and the lanes of a block are one more: at most "
            f"{MAX_DIMS - 1} are possible"
        )
    return launch(kernel, (*dims, size), inputs, outputs, block_dim=size, **more)


_KEYWORDS = (
    "inputs", "outputs", "adjoint", "adj_inputs", "adj_outputs", "block_dim", "record_cmd", "stream"
)  # fmt: skip
