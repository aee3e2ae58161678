"""The table of a kernel's executables: a repeated call is a look-up of its layout key, a check and a run."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from jwarp import _native
from jwarp.arrays.commands import LISTENING, listeners
from jwarp.caches import Cache
from jwarp.devices import Device
from jwarp.dispatch.call import layout
from jwarp.dispatch.call.call import Call
from jwarp.errors import LaunchError
from jwarp.frontend.foreign.kernels import as_kernel
from jwarp.frontend.kernel_base import Kernel


class Executable(Protocol):
    """The code of all calls of one layout. Those in host memory are a `HostExecutable`, which is native."""

    def call(self, values: Sequence[Any]) -> Any:
        """Run it on the leaves of a call: what comes back, True for nothing.

        It is None for the slow path, and then nothing has run.
        """


class Slot(NamedTuple):
    """The place of a call in a table."""

    table: Cache[Any, Any]
    key: layout.Key
    leaves: list[Any]

    @property
    def known(self) -> Any:
        """The executable that is there, or None."""
        return self.table.get(self.key)

    def keep(self, executable: Any) -> None:
        """Repeat calls of this layout by an executable from now on, if there is one."""
        if executable is not None:
            self.table.replace(self.key, executable)


# A call that has not been repeated.
NOT_REPEATED = NotImplemented


def slot_of(
    kernel: Kernel,
    dim: Any,
    block_dim: Any,
    inputs: Any,
    outputs: Any = None,
    gradients: tuple[Any, Any] | None = None,
    owner: Any = None,
) -> Slot | None:
    """The place of a call in the kernel's table; None where it is checked each time."""
    found = layout.read(owner, dim, block_dim, inputs, outputs, gradients)
    return None if found is None else Slot(kernel.executables, *found)


def repeat(
    kernel: Kernel,
    dim: Any,
    block_dim: Any,
    inputs: Any,
    outputs: Any = None,
    gradients: tuple[Any, Any] | None = None,
    owner: Any = None,
    record_tape: bool = True,
) -> Any:
    """Run a call whose layout is known: what it returns, or `NOT_REPEATED`, and then nothing has run.

    Recorders hear of launches on mutable arrays if `record_tape`. A capture takes launches itself.
    """
    tell = None
    if LISTENING:
        here = listeners.here
        if here.capture is not None:
            return NOT_REPEATED
        tell = _TELL if record_tape and here.recorders else None
    try:
        table = kernel.executables
    except AttributeError:  # no kernel, or one of Warp's
        kernel = as_kernel(kernel)
        if not isinstance(kernel, Kernel):
            return NOT_REPEATED
        table = kernel.executables
    found = _native.repeat(table.recent, owner, dim, block_dim, inputs, outputs, gradients, tell)
    if found is NOT_REPEATED and table.rest:
        slot = slot_of(kernel, dim, block_dim, inputs, outputs, gradients, owner)
        if slot is not None and slot.known is not None:  # and now among those used last
            found = _native.repeat(table.recent, owner, dim, block_dim, inputs, outputs, gradients, tell)
    return found


def _tell_before(executable: Any, leaves: Sequence[Any], inputs: Any, outputs: Any) -> Any:
    return executable.tell(leaves, inputs, outputs)


def _tell_after(command: Any) -> None:
    for recorder in tuple(listeners.here.recorders):
        recorder.after(command)


# Hooks that the native module calls before and after a launch that is recorded.
_TELL = _tell_before, _tell_after

_OWNERS: Cache[tuple[Any, ...], object] = Cache("ways to name a device and a tape", 64)


_ON_HOST = object()


def owner_of(device: Any, record_tape: Any, max_blocks: Any, has_gradients: bool) -> object:
    """The owner of launches that name a device or say more than others, which only those on arrays may do."""
    if device == "cpu" and record_tape is True and not max_blocks and not has_gradients:
        return _ON_HOST
    is_fixed = device is None or isinstance(device, Device) or (isinstance(device, str) and device != "cuda")
    if not is_fixed:  # "cuda" is the GPU in use
        return object()
    return _OWNERS.made((device, bool(record_tape), bool(max_blocks), has_gradients), object)


class Ready(abc.ABC):
    """Runs a launch each time that it is called, and gives its results."""

    def __init__(self, call: Call):
        self.call = call

    @abc.abstractmethod
    def __call__(self) -> Any:
        """Run it; the results as the call returns them."""

    def once(self, stream: Any) -> Any:
        """Run it for the only time."""
        return self() if stream is None else self.on_stream(stream)

    def on_stream(self, stream: Any) -> Any:
        """Run it on a CUDA stream, where it may be chosen."""
        raise stream_refusal(self.call.kernel.name, stream)

    def change(self, given: Mapping[int, Any]) -> bool:
        """Take other values of the same kind and shape for parameters of the IR; False where all is to be made anew.

        What raises changes nothing, and neither does what returns False.
        """
        return False

    def resize(self, dims: tuple[int, ...]) -> bool:
        """Run other threads; False where all is to be made anew. What raises changes nothing."""
        return False

    def executable(self, values: Sequence[Any]) -> Executable | None:
        """The executable that repeats it: `values` are those by parameter, then each cotangent and wanted gradient."""
        return None


def stream_refusal(name: str, stream: Any) -> LaunchError:
    """The error for a `stream` that means nothing here."""
    return LaunchError(
        f"kernel '{name}': stream must be None for JAX values, got {type(stream).__name__}",
        hint="leave it out: XLA chooses the stream",
    )
