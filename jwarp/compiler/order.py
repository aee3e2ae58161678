"""The order of a launch's threads, and exact rounding, where settings or derivatives need them."""

from __future__ import annotations

import dataclasses
from typing import Any

from jwarp.analysis.thread_order import awaited, depends_on_order, locked, rounds_by_order
from jwarp.config import Settings
from jwarp.ir.nodes import Kernel, Order, rounds_as_written


def by_settings(kernel: Kernel, settings: Settings) -> Kernel:
    """The kernel with the order that the user asks for, where it shows."""
    known = kernel.order in (Order.NUMBERS, Order.APART)
    asked = settings.deterministic and not known and depends_on_order(kernel)
    return dataclasses.replace(kernel, order=Order.NUMBERS) if asked else kernel


def by_settings_on_gpu(kernel: Kernel, settings: Settings) -> Kernel:
    """The same on a GPU, where sums of floats have that order, too, and threads that wait for others always.

    Nothing else would make what a thread writes while it holds a lock known to the one that takes the lock next.
    """
    if kernel.order:
        return kernel
    asked = settings.deterministic and rounds_by_order(kernel)
    asked = asked or awaited(kernel) is not None or locked(kernel) is not None
    return dataclasses.replace(kernel, order=Order.NUMBERS) if asked else kernel


# The rules below give the fields of a kernel that change, for `GeneratedProgram.running`.


def in_one_order(kernel: Kernel) -> dict[str, Any]:
    """An order that the derivatives of the kernel have, too: they read what atomic operations found."""
    return {} if kernel.order else {"order": Order.STEPS}


def as_written(kernel: Kernel) -> dict[str, Any]:
    """Results of the bits that a derivative computes itself, which looks at what the launch left."""
    return {} if rounds_as_written(kernel) else {"exact": True}
