"""The devices that arrays are on."""

from __future__ import annotations

from typing import Any

from jwarp.errors import LaunchError


class Device:
    """A place where arrays are and kernels run: this computer's processor, or a GPU.

    Attributes:
        alias: Its name, "cpu" or "cuda:0".
        ordinal: The number of a GPU, -1 for the processor.
    """

    def __init__(self, alias: str, ordinal: int = -1):
        self.alias, self.ordinal = alias, ordinal

    @property
    def is_cpu(self) -> bool:
        """Whether it is this computer's processor."""
        return self.ordinal < 0

    @property
    def is_cuda(self) -> bool:
        """Whether it is an NVIDIA GPU."""
        return self.ordinal >= 0

    def __repr__(self) -> str:
        return f"'{self.alias}'"

    def __str__(self) -> str:
        return self.alias

    def __eq__(self, other: object) -> bool:
        return other is self or other == self.alias if isinstance(other, (Device, str)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.alias)

    def __reduce__(self) -> Any:
        return device_of, (self.alias,)


CPU = Device("cpu")


def device_of(given: Any) -> Device:
    """The device that a program names: None for the one that is used where nothing is said.

    Raises:
        LaunchError: there is no such device, or arrays cannot be made there.
    """
    if given is None or given is CPU:
        return CPU
    alias = given if isinstance(given, str) else getattr(given, "alias", None)
    if alias == "cpu":
        return CPU
    raise LaunchError(
        f"device {given!r}: wp.arrays are made in this computer's memory only",
        hint="leave device= out; kernels run on GPUs on JAX arrays, and on CuPy's or PyTorch's arrays in place",
    )
