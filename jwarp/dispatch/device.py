"""`wp.launch` on arrays of other libraries in the memory of NVIDIA GPUs, which are written in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp import _native
from jwarp.bind import values
from jwarp.dispatch import cuda_arrays
from jwarp.dispatch.device_launch import Placed, put
from jwarp.dispatch.device_memory import Work
from jwarp.dispatch.host_arguments import refuse_tracing
from jwarp.dispatch.host_arrays import Place, Use, without_aliases
from jwarp.dispatch.ready import Ready
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Argument, Fault, Matched
from jwarp.launching.descriptor import descriptor_of
from jwarp.launching.geometry import BlockDim
from jwarp.launching.program import Program
from jwarp.types import ArrayType
from jwarp.wire import DTYPES


@dataclass(frozen=True)
class Given:
    """An argument: its outline in memory, and what the native module takes. `lent` is None for a value."""

    place: Place
    placed: Placed
    lent: _native.DeviceArray | None = None

    @classmethod
    def of(cls, param: Param, found: cuda_arrays.Borrowed, *, changes: bool) -> Given:
        """An array that lies on a GPU."""
        placed = (found.lent.address, DTYPES[param.dtype.name], found.outline.shape)
        return cls(Place(found.outline, Use.IN_OUT if changes else Use.READ), placed, found.lent)


class Forward(Ready):
    """A launch. Its arguments are looked at anew each time: they are lent by libraries that may still change them."""

    def __call__(self) -> Any:
        return self.on_stream(None)

    def on_stream(self, stream: Any) -> Any:
        call = self.call
        run(call.program, call.dims, call.matched, call.block_dim, stream)
        return call.results(dict(enumerate(call.matched.values)))


def run(program: Program, dims: tuple[int, ...], matched: Matched, block_dim: BlockDim | None, stream: Any) -> None:
    """Check the arguments and put the launch on the stream.

    With None for the stream it is CUDA's default stream, and the end of the launch is waited for: what stream the
    caller's library works on is not known.

    Raises:
        KernelTypeError, LaunchError: an argument or the stream does not fit, or outputs share memory.
        CompileError: the kernel cannot be compiled.
        RuntimeError: there is no usable driver, the launch failed or, where that is waited for, a check did.
    """
    refuse_tracing(program, matched, "outputs on a GPU are")
    handle = cuda_arrays.read_stream(program.name, stream)
    given = _read(program, matched, handle)
    device = device_of(program, given)
    program, threads = program.arranged(dims, block_dim)
    program, _ = without_aliases(program, [g.place for g in given], shared=False)
    shadows = [shadow(program, p, given[p].place.array.shape) for p in program.shadowed]
    work = Work(program.name, handle, device, [g.lent for g in given])
    placed = [*(contiguous(g, work) for g in given), *shadows]
    uses = [*(g.place.use for g in given), *(Use.SCRATCH for _ in shadows)]
    launch = descriptor_of(program, threads, tuple(use.role for use in uses), block_dim)
    back = [(at[0], g.place.array) for at, g in zip(placed, given, strict=False) if g.place.use.changes and moved(g)]
    put(launch, placed, handle, device, None if stream is None and not back else work.kept)
    for address, array in back:
        assert isinstance(address, int)
        work.unpack(address, array)
    if stream is None and back:
        work.wait()


def moved(given: Given) -> bool:
    """Whether kernels work on a copy of the array, since it is not contiguous."""
    return given.lent is not None and not given.place.array.flags.c_contiguous


def contiguous(given: Given, work: Work) -> Placed:
    """What the native module takes for an argument: an array that is not contiguous is copied."""
    if not moved(given):
        return given.placed
    return work.packed(given.place.array), *given.placed[1:]


def _read(program: Program, matched: Matched, stream: int) -> list[Given]:
    given, faults = [], []
    for p, (param, value) in enumerate(zip(program.params, matched.values, strict=True)):
        read = _read_output if p in matched.outputs else read_input
        found = read(param, value, stream)
        if isinstance(found, Fault):
            faults.append(found)
        else:
            given.append(found)
    arguments.raise_faults(program.name, faults)
    return given


def _read_output(param: Param, value: Any, stream: int) -> Given | Fault:
    if isinstance(value, jax.Array) or not cuda_arrays.is_cuda_array(value):
        return Fault(
            LaunchError,
            f"output '{param.name}' is no array on a GPU that can be written in place, and another output is;"
            " all outputs of one launch must be of one kind",
            "pass arrays of one library for all outputs",
        )
    found = borrowed(f"output '{param.name}'", value, stream)
    if isinstance(found, Fault):
        return found
    described = Argument(found.outline, "cuda", found.outline.shape, found.outline.dtype)
    return arguments.check_in_place(param, described) or Given.of(param, found, changes=True)


def read_input(param: Param, value: Any, stream: int) -> Given | Fault:
    """The argument for a parameter that is read, or what is wrong with it."""
    where = f"parameter '{param.name}'"
    if not cuda_arrays.is_cuda_array(value):
        return _read_value(where, param, value)
    found = borrowed(where, value, stream)
    if isinstance(found, Fault):
        return found
    # Nobody has read it yet, so nothing can be converted: a scalar has exactly the type, too.
    described = Argument(found.outline, "cuda", found.outline.shape, found.outline.dtype)
    shape = param.type.components if param.is_value and isinstance(param.type, ArrayType) else ()
    if isinstance(param.type, ArrayType) and not param.is_value:
        fault = arguments.check_input(param, described, x64=True)
    elif (described.shape, described.dtype) != (shape, param.dtype.dtype):
        fault = Fault(KernelTypeError, f"{where}: expected {param.type!r}, got {described}")
    else:
        fault = None
    return fault or Given.of(param, found, changes=False)


def _read_value(where: str, param: Param, value: Any) -> Given | Fault:
    """A number or a vector by value, which the launch takes to the GPU."""
    described = values.describe(value, param)
    fault = arguments.check_input(param, described, x64=True)
    if fault is not None:
        return fault
    if not isinstance(param.type, ArrayType):
        array = np.asarray(arguments.to_scalar(param.type, described))
    elif param.is_value:
        array = np.asarray(described.value).astype(param.type.dtype.dtype)
    else:
        return Fault(
            LaunchError, f"{where} is not on the GPU that the outputs are on", "pass an array of the same library"
        )
    return Given(Place(array), (array.tobytes(), DTYPES[param.dtype.name], array.shape))


def borrowed(where: str, value: Any, stream: int) -> cuda_arrays.Borrowed | Fault:
    """The array that another library lends, or why not."""
    try:
        found = cuda_arrays.borrow(value, stream)
    # Foreign code: an array that is deleted, on another stream's graph, or described wrongly.
    except Exception as error:
        return Fault(KernelTypeError, f"{where}: the array cannot be borrowed, {type(error).__name__}: {error}")
    if found is None:
        return Fault(KernelTypeError, f"{where}: the array has a dtype that kernels do not have")
    return found


def device_of(program: Program, given: Sequence[Given]) -> int:
    """The GPU that all arrays are on."""
    devices = {g.lent.device for g in given if g.lent is not None}
    if len(devices) > 1:
        raise LaunchError(
            f"kernel '{program.name}': the arrays are on several GPUs, {', '.join(map(str, sorted(devices)))}",
            hint="copy them to one",
        )
    return devices.pop()


def shadow(program: Program, p: int, shape: tuple[int, ...]) -> Placed:
    """The memory in which checks of races note who was where."""
    (param,) = (
        program.kernel.params[len(program.params) + k] for k, shadowed in enumerate(program.shadowed) if shadowed == p
    )
    return None, DTYPES[param.dtype.name], shape
