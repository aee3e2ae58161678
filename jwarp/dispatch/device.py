"""`wp.launch` on arrays of other libraries in the memory of NVIDIA GPUs, which are written in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp import _native
from jwarp.backend.cuda.nvrtc import read_architectures
from jwarp.bind import values
from jwarp.caches import MAX_SHAPES, PerOwner
from jwarp.dispatch import cuda_arrays
from jwarp.dispatch.call import Call
from jwarp.dispatch.host_arguments import refuse_tracing
from jwarp.dispatch.host_arrays import Place, Use, without_aliases
from jwarp.dispatch.ready import Ready
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Argument, Fault, Matched
from jwarp.launching.descriptor import Descriptor, descriptor_of, extents_of
from jwarp.launching.geometry import BlockDim
from jwarp.launching.program import Program
from jwarp.types import ArrayType
from jwarp.wire import DTYPES

# What the native module takes for a parameter: an address, the bytes of a value or None; dtype code; shape.
Placed = tuple[int | bytes | None, int, tuple[int, ...]]


@dataclass(frozen=True)
class _Given:
    """An argument: its outline in memory, and what the native module takes. `lent` is None for a value."""

    place: Place
    placed: Placed
    lent: _native.DeviceArray | None = None


class Forward(Ready):
    """A launch. Its arguments are looked at anew each time: they are lent by libraries that may still change them."""

    def __call__(self) -> Any:
        return self.on_stream(None)

    def on_stream(self, stream: Any) -> Any:
        call = self.call
        run(call.program, call.dims, call.matched, call.block_dim, stream)
        return call.results(dict(enumerate(call.matched.values)))


def refuse_adjoint(call: Call) -> Ready:
    """Raise LaunchError: there is none."""
    raise LaunchError(
        f"kernel '{call.kernel.name}': an adjoint does not run in place on arrays on a GPU",
        hint="pass JAX arrays, for example jax.dlpack.from_dlpack(array)",
    )


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
    device = _device_of(program, given)
    program, threads = program.arranged(dims, block_dim)
    program, _ = without_aliases(program, [g.place for g in given], shared=False)
    shadows = [_shadow(program, p, given[p]) for p in program.shadowed]
    placed = [*(g.placed for g in given), *shadows]
    uses = [*(g.place.use for g in given), *(Use.SCRATCH for _ in shadows)]
    launch = descriptor_of(program, threads, tuple(use.role for use in uses), block_dim)
    native = _compiled(launch, [shape for _, _, shape in placed], device)
    in_order = [placed[p] for p in (*launch.operands, *launch.results)]
    keep = None if stream is None else [g.lent for g in given]
    try:
        native.run(in_order, handle, device, keep)
    except ValueError as error:
        raise LaunchError(f"kernel '{program.name}': {error}") from None


def _read(program: Program, matched: Matched, stream: int) -> list[_Given]:
    given, faults = [], []
    for p, (param, value) in enumerate(zip(program.params, matched.values, strict=True)):
        read = _read_output if p in matched.outputs else _read_input
        found = read(param, value, stream)
        if isinstance(found, Fault):
            faults.append(found)
        else:
            given.append(found)
    arguments.raise_faults(program.name, faults)
    return given


def _read_output(param: Param, value: Any, stream: int) -> _Given | Fault:
    if isinstance(value, jax.Array) or not cuda_arrays.is_cuda_array(value):
        return Fault(
            LaunchError,
            f"output '{param.name}' is no array on a GPU that can be written in place, and another output is;"
            " all outputs of one launch must be of one kind",
            "pass arrays of one library for all outputs",
        )
    found = _borrowed(f"output '{param.name}'", value, stream)
    if isinstance(found, Fault):
        return found
    described = Argument(found.outline, "cuda", found.outline.shape, found.outline.dtype)
    return arguments.check_in_place(param, described) or _lying(param, found, Use.IN_OUT)


def _read_input(param: Param, value: Any, stream: int) -> _Given | Fault:
    where = f"parameter '{param.name}'"
    if not cuda_arrays.is_cuda_array(value):
        return _read_value(where, param, value)
    found = _borrowed(where, value, stream)
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
    return fault or _lying(param, found, Use.READ)


def _read_value(where: str, param: Param, value: Any) -> _Given | Fault:
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
    return _Given(Place(array), (array.tobytes(), DTYPES[param.dtype.name], array.shape))


def _borrowed(where: str, value: Any, stream: int) -> cuda_arrays.Borrowed | Fault:
    try:
        found = cuda_arrays.borrow(value, stream)
    # Foreign code: an array that is deleted, on another stream's graph, or described wrongly.
    except Exception as error:
        return Fault(KernelTypeError, f"{where}: the array cannot be borrowed, {type(error).__name__}: {error}")
    if found is None:
        return Fault(KernelTypeError, f"{where}: the array has a dtype that kernels do not have")
    if not found.outline.flags.c_contiguous:
        return Fault(
            LaunchError, f"{where}: arrays on a GPU must be contiguous, in row-major order", "pass a contiguous copy"
        )
    return found


def _lying(param: Param, found: cuda_arrays.Borrowed, use: Use) -> _Given:
    placed = (found.lent.address, DTYPES[param.dtype.name], found.outline.shape)
    return _Given(Place(found.outline, use), placed, found.lent)


def _device_of(program: Program, given: Sequence[_Given]) -> int:
    devices = {g.lent.device for g in given if g.lent is not None}
    if len(devices) > 1:
        raise LaunchError(
            f"kernel '{program.name}': the arrays are on several GPUs, {', '.join(map(str, sorted(devices)))}",
            hint="copy them to one",
        )
    return devices.pop()


def _shadow(program: Program, p: int, of: _Given) -> Placed:
    """The memory in which checks of races note who was where."""
    (param,) = (
        program.kernel.params[len(program.params) + k] for k, shadowed in enumerate(program.shadowed) if shadowed == p
    )
    return None, DTYPES[param.dtype.name], of.place.array.shape


_COMPILED: PerOwner[Program, tuple, _native.DeviceLaunch] = PerOwner("launches on GPUs in place", MAX_SHAPES)


def _compiled(launch: Descriptor, shapes: Sequence[tuple[int, ...]], device: int) -> _native.DeviceLaunch:
    """The launch for arrays of these shapes on that device, compiled once."""
    program, geometry = launch.program, launch.geometry
    names = program.settings.cuda_arch or "sm_{}{}".format(*_native.cuda_capability(device))
    architectures = read_architectures(names)
    extents = extents_of(program.kernel.params, shapes)
    version = program.gpu_version(geometry, extents)

    def made() -> _native.DeviceLaunch:
        code = program.gpu_code(version, geometry, launch.block_dim, architectures)
        return _native.DeviceLaunch(
            kernel=program.name,
            entry=code.image.entry,
            image=code.image.content,
            plan=code.plan,
            launch=launch.numbers,
            block=code.image.block,
            shared=code.shared,
            per_sm=code.image.per_sm,
            grid=list(code.grid),
            failures=code.failure_text,
        )

    return _COMPILED.of(program).made((launch, version, architectures), made)
