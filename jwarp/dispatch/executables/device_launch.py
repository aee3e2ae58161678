"""Launches compiled for a GPU, copies and sums of its arrays, put on a stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import jwarp.compiler.handwritten_program  # noqa: F401 the programs of the kernels below
from jwarp import _native
from jwarp.arrays.cuda_memory import STREAM, CudaMemory, copy_strided, outline
from jwarp.arrays.view import View
from jwarp.backend.cuda.nvrtc import device_header, read_architectures
from jwarp.bind import compat
from jwarp.caches import MAX_SHAPES, PerOwner, cached
from jwarp.compiler.program import program_of
from jwarp.compiler.program_base import Program
from jwarp.config import config
from jwarp.devices import DeviceError, KernelAt, at_kernel
from jwarp.dispatch.call.checks import Place, Use
from jwarp.errors import NO_SPAN, CompileError, LaunchError, Span
from jwarp.frontend.cuda_kernel import Blocks, Definition, HandwrittenKernel
from jwarp.ir.nodes import Param
from jwarp.launching.descriptor import Descriptor, descriptor_of, extents_of
from jwarp.types import ArrayType, ScalarType, from_dtype, int64, vector
from jwarp.wire import DTYPES, Role

# The content of an argument: an address, the bytes of a value, or None for memory of the launch itself.
Content = int | bytes | None
# The native module's form of an argument: content, dtype code, shape.
Placed = tuple[Content, int, tuple[int, ...]]

_COMPILED: PerOwner[Program, tuple, _native.DeviceLaunch] = PerOwner("launches on GPUs in place", MAX_SHAPES)


@dataclass(frozen=True)
class Settled:
    """A launch with its parameters, as the native module takes them."""

    name: str
    span: Span
    native: _native.DeviceLaunch
    placed: Sequence[Placed]

    def run(self, stream: int, device: int, keep: Any) -> None:
        """Put it on the stream; what is in `keep` lives until it has ended. The end is waited for if that is None.

        Raises:
            LaunchError: the stream is one of another device, there is no usable driver, or the launch failed.
            CompileError: the driver refuses the code.
            RuntimeError: a check failed, where that is waited for.
        """
        try:
            self.native.run(self.placed, stream, device, keep)
        except (CompileError, DeviceError) as error:
            raise at_kernel(error, self.span) from None
        except ValueError as error:
            raise LaunchError(f"kernel '{self.name}': {error}") from None


def device_of(program: Program, places: Iterable[Place]) -> int:
    """The GPU that all arrays are on."""
    devices = {x.owner.device for x in places if x.owner is not None}
    if len(devices) > 1:
        raise LaunchError(
            f"kernel '{program.name}': the arrays are on several GPUs, {', '.join(map(str, sorted(devices)))}",
            hint="copy them to one",
        )
    return devices.pop()


def settle(launch: Descriptor, placed: Sequence[Placed], device: int) -> Settled:
    """The launch for these parameters on that device, compiled once for their shapes.

    Raises:
        CompileError: the kernel cannot be compiled.
        LaunchError: there is no usable driver.
    """
    with KernelAt(launch.program.span):
        native = _compiled(launch, [shape for _, _, shape in placed], device)
    return Settled(
        launch.program.name, launch.program.span, native, [placed[p] for p in (*launch.operands, *launch.results)]
    )


def _compiled(launch: Descriptor, shapes: Sequence[tuple[int, ...]], device: int) -> _native.DeviceLaunch:
    """The launch for arrays of these shapes on that device, compiled once."""
    program, geometry = launch.program, launch.geometry
    names = program.settings.cuda_arch or "sm_{}{}".format(*_native.cuda_capability(device))
    architectures = read_architectures(names)
    extents = extents_of(program.kernel.params, shapes)
    version = program.gpu_version(geometry, extents, tf32=compat.allows_tf32())

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
            **({"heap": code.image.heap} if code.image.heap else {}),
        )

    return _COMPILED.of(program).made((launch, version, architectures), made)


# Copies look at widths alone.
_WIDTHS: dict[int, np.dtype] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}
_MAX_BLOCKS = 1 << 16


class Work:
    """Memory of one call on a stream, and what is done with it in the order of the stream.

    `kept` is what has to live until that has ended. Errors speak of `who` needs it, a kernel at `span`.
    """

    def __init__(self, who: str, stream: int, device: int, kept: Sequence[Any], span: Span = NO_SPAN):
        self.stream, self.device, self.kept = stream, device, list(kept)
        self._who, self._span = who, span
        self._memory: list[_native.DeviceMemory] = []

    def memory(self, shape: Sequence[int], dtype: np.dtype) -> int:
        """The address of memory for an array, whose content is of no account."""
        made = self._piece(math.prod(shape) * dtype.itemsize)
        self._memory.append(made)
        return made.address

    def zeros(self, shape: Sequence[int], dtype: np.dtype) -> int:
        """The address of an array of zeros."""
        address = self.memory(shape, dtype)
        with KernelAt(self._span):
            self._memory[-1].fill(address, 0, math.prod(shape) * dtype.itemsize)
        return address

    def packed(self, array: np.ndarray) -> int:
        """The address of a contiguous copy of an array, of which NumPy knows where it lies."""
        address = self.memory(array.shape, array.dtype)
        if array.flags.c_contiguous:
            with KernelAt(self._span):
                self._memory[-1].fill(address, array.ctypes.data, array.nbytes)
        else:
            self._move("gather", _bits(array), address)
        return address

    def unpack(self, packed: int, array: np.ndarray) -> None:
        """Copy what is packed to the array."""
        if array.flags.c_contiguous:
            # The copy needs no memory of its own.
            with KernelAt(self._span):
                self._piece(0).fill(array.ctypes.data, packed, array.nbytes)
        else:
            self._move("scatter", _bits(array), packed)

    def content(self, place: Place) -> Content:
        """The content of an argument; an array that is not contiguous is copied."""
        if place.owner is None:
            return place.array.tobytes() if place.array.size and place.use is not Use.SCRATCH else None
        return self.packed(place.array) if place.is_moved or place.use is Use.COPY else place.owner.address

    def launch(
        self,
        launch: Descriptor,
        contents: Sequence[Content],
        shapes: Sequence[tuple[int, ...]],
        written: Sequence[Place | None],
        *,
        waits: bool = False,
    ) -> Settled:
        """Put a launch on the stream, and for parameters in copies of arrays `written` what it leaves into these.

        Raises what `settle` and `Settled.run` raise.
        """
        codes = [DTYPES[param.dtype.name] for param in launch.program.kernel.params]
        settled = settle(launch, list(zip(contents, codes, shapes, strict=True)), self.device)
        back = [
            (x, place.array) for x, place in zip(contents, written, strict=True) if place is not None and place.is_moved
        ]
        settled.run(self.stream, self.device, None if waits and not back else self.kept)
        for address, target in back:
            assert isinstance(address, int)
            self.unpack(address, target)
        if waits and back:
            self.wait()
        return settled

    def add(self, packed: int, array: np.ndarray) -> None:
        """Add what is packed, numbers of the array's dtype, to the array."""
        self._move("add", array, packed)

    def wait(self) -> None:
        """Wait for the end of all that is on the stream."""
        with KernelAt(self._span):
            self._piece(0).wait()

    def _piece(self, nbytes: int) -> _native.DeviceMemory:
        with KernelAt(self._span):
            return _native.DeviceMemory(nbytes, self.stream, self.device, self._who)

    def _move(self, how: str, array: np.ndarray, packed: int) -> None:
        if array.size == 0:
            return
        low, high = np.lib.array_utils.byte_bounds(array)
        extents, strides = _merged(array)
        steps = [stride // array.itemsize for stride in strides]
        kernel = _moving(how, array.dtype, len(extents))
        program, geometry = program_of(kernel, config.settings).arranged((array.size,), None)
        writes_packed = how == "gather"
        roles = [Role.READ if writes_packed else Role.IN_OUT, Role.IN_OUT if writes_packed else Role.READ]
        launch = descriptor_of(program, geometry, (*roles, *[Role.READ] * 4))
        code, number = DTYPES[array.dtype.name], DTYPES["int64"]
        first = (array.ctypes.data - low) // array.itemsize

        def numbers(*values: int) -> bytes:
            return np.array(values, np.int64).tobytes()

        placed: list[Placed] = [
            (int(low), code, ((high - low) // array.itemsize,)),
            (packed, code, (array.size,)),
            (numbers(first), number, ()),
            (numbers(*extents), number, (len(extents),)),
            (numbers(*steps), number, (len(steps),)),
            (numbers(array.size), number, ()),
        ]
        with KernelAt(self._span):
            settle(launch, placed, self.device).run(self.stream, self.device, self.kept)


def _bits(array: np.ndarray) -> np.ndarray:
    """The array as unsigned integers of its width."""
    return array.view(dtype=_WIDTHS[array.itemsize])


def _merged(array: np.ndarray) -> tuple[list[int], list[int]]:
    """Extents and strides of an array with as few axes as address its elements in the same order."""
    extents, strides = [1], [array.itemsize]
    for extent, stride in zip(array.shape, array.strides, strict=True):
        if extent == 1:
            continue
        if extents[-1] == 1:
            extents[-1], strides[-1] = extent, stride
        elif strides[-1] == stride * extent:
            extents[-1], strides[-1] = extents[-1] * extent, stride
        else:
            extents.append(extent)
            strides.append(stride)
    return extents, strides


@cached("two for each width, one for each type of floats, for each number of axes")
def _moving(how: str, dtype: np.dtype, axes: int) -> HandwrittenKernel:
    """The kernel that copies or adds between an array with so many axes and a contiguous one."""
    from jwarp.compiler.handwritten import element_type

    kind = from_dtype(dtype)
    assert kind is not None
    numbers, array = ArrayType(vector(axes, int64), 0), ArrayType(kind, 1)
    signature: tuple[tuple[str, ArrayType | ScalarType], ...] = (
        ("strided", array), ("packed", array), ("first", int64), ("extents", numbers), ("steps", numbers),
        ("count", int64),
    )  # fmt: skip
    params = tuple(Param(*parameter) for parameter in signature)
    written = (1,) if how == "gather" else (0,)
    definition = Definition(
        f"jw::{how}<{element_type(params[0])}, {axes}>", device_header("moves.cuh"), "<moves.cuh>", params, written,
        written, blocks=Blocks(256), grid=lambda dims: min(-(-dims[0] // 256), _MAX_BLOCKS), span=NO_SPAN,
    )  # fmt: skip
    return HandwrittenKernel(definition, signature)


def _copy_strided(memory: CudaMemory, view: View, source: CudaMemory, shown: View) -> None:
    """Copy elements between arrays of one GPU."""
    work = Work(f"arrays on {memory.device}", STREAM, memory.device.ordinal, [source, memory])
    work.unpack(work.packed(outline(source, shown)), outline(memory, view))


copy_strided.append(_copy_strided)
