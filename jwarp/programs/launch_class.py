"""`wp.Launch(kernel, device, …)`: empty records of launches on arrays, as programs make them."""

from __future__ import annotations

from typing import Any

from jwarp.api import record
from jwarp.devices import get_device
from jwarp.errors import LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching.geometry import BlockDim, block_of_program


class _AllRecords(type):
    """Have all records be instances, those of `wp.launch(…, record_cmd=True)` too."""

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, record.Launch)


class Launch(record.Launch, metaclass=_AllRecords):
    """An empty record of a launch on arrays, which the setters fill.

    Args:
        kernel: The kernel.
        device: Where it runs. Its arrays must be there. None: where they are.
        block_dim: Threads in a block, for kernels with tiles.
        adjoint: Whether it runs the adjoint.
        max_blocks: Accepted and without effect, as in `wp.launch`.
        others: What Warp fills by itself (`hooks`, `params`, `bounds`, …): None only.

    Raises:
        KernelTypeError: `kernel` is none.
        LaunchError: there is no such device, or something else is given.
    """

    def __init__(
        self,
        kernel: Kernel,
        device: Any = None,
        *,
        block_dim: BlockDim | None = None,
        adjoint: bool = False,
        max_blocks: int = 0,
        **others: None,
    ):
        given = [name for name, value in others.items() if value is not None]
        if given:
            raise LaunchError(f"wp.Launch: {given[0]} is of Warp's own compiled code; set what it holds by the setters")
        name = getattr(kernel, "name", "")
        super().__init__(kernel, adjoint, block_dim=block_of_program(block_dim, device, name))
        self._device = None if device is None else get_device(device)
        self._is_in_place = True
