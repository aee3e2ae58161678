"""A launch that is checked and compiled: what every way to run one offers."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from jwarp.dispatch.call.call import Call
from jwarp.dispatch.executables.table import Executable
from jwarp.errors import LaunchError


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
