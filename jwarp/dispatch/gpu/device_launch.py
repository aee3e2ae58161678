"""Launches compiled for a GPU, and put on a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jwarp import _native
from jwarp.backend.cuda.nvrtc import read_architectures
from jwarp.bind import compat
from jwarp.caches import MAX_SHAPES, PerOwner
from jwarp.compiler.program import Program
from jwarp.devices import DeviceError, KernelAt, at_kernel
from jwarp.errors import CompileError, LaunchError, Span
from jwarp.launching.descriptor import Descriptor, extents_of

# What the native module takes for a parameter: an address, the bytes of a value or None; dtype code; shape.
Placed = tuple[int | bytes | None, int, tuple[int, ...]]

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


def put(launch: Descriptor, placed: Sequence[Placed], stream: int, device: int, keep: Any) -> None:
    """Put a launch with these parameters on the stream, as `Settled.run` does."""
    settle(launch, placed, device).run(stream, device, keep)


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
