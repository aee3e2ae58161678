"""From a call to its results: the one way of every launch, whatever asked for it and whatever its values are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jwarp.dispatch.call.call import Call, Kind
from jwarp.dispatch.executables import device, functional, host
from jwarp.dispatch.executables.table import NO_SLOT, Ready, Slot
from jwarp.dispatch.steps import adjoint
from jwarp.errors import LaunchError
from jwarp.types import StructArrayType, StructType
from jwarp.wire import Role

# By where the results go, and whether they are gradients.
_WAYS: dict[tuple[Kind, bool], Callable[[Call], Ready]] = {
    (Kind.JAX, False): functional.Forward,
    (Kind.JAX, True): functional.Adjoint,
    (Kind.HOST, False): host.Forward,
    (Kind.HOST, True): adjoint.HostAdjoint,
    (Kind.DEVICE, False): device.Forward,
    (Kind.DEVICE, True): adjoint.DeviceAdjoint,
}


def run(call: Call, stream: Any = None, slot: Slot = NO_SLOT) -> Any:
    """Check the call, compile what it needs, run it and return its results.

    What was found out is kept in the `slot`, for calls of the same layout.

    Raises:
        KernelTypeError, LaunchError: an argument, `dims` or the stream does not fit.
        CompileError: the kernel is not written in the kernel language, or cannot be compiled.
        NotDifferentiableError: a gradient is asked for that has no exact rule.
    """
    check_stream(call, stream)
    made = ready(call)
    results = made(stream)
    if slot.key is not None and stream is None and _are_parts(call, slot.leaves):
        slot.keep(made.executable(slot.leaves))
    return results


def check_stream(call: Call, stream: Any) -> None:
    """Raise LaunchError for a `stream` that means nothing, as that of a launch on JAX values or in host memory."""
    if stream is not None and call.kind is not Kind.DEVICE:
        raise LaunchError(
            f"kernel '{call.kernel.name}': stream must be None for JAX values, got {type(stream).__name__}",
            hint="leave it out: XLA chooses the stream",
        )


def _are_parts(call: Call, leaves: Sequence[Any]) -> bool:
    """True if the leaves of a call are the values of its parameters in order, and no struct comes back."""
    users = call.given.outputs if call.request is None else tuple(call.request.wanted)
    types = [call.kernel.signature[u].type for u in users] if call.kernel.has_structs else []
    if any(isinstance(kind, (StructType, StructArrayType)) for kind in types):
        return False
    # The shapes of outputs are no values where a function of JAX's knows them.
    made = call.given.roles.count(Role.ZEROS) if call.is_functional else 0
    count = len(call.parts.values) - made
    return len(leaves) == count if call.request is None else len(leaves) > count


def ready(call: Call) -> Ready:
    """Prepare the call, to be run again and again. Raises what `run` raises of the call."""
    if call.request is not None and call.request.cotangents is None:
        raise LaunchError(
            f"kernel '{call.kernel.name}': an adjoint launch needs adj_outputs",
            hint="one cotangent for each output, None for zeros",
        )
    return _WAYS[call.kind, call.request is not None](call)
