"""Reports of the memory of arrays: `wp.ScopedMemoryTracker`, `wp.print_memory_report`."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

from jwarp.arrays import allocation_counts
from jwarp.errors import LaunchError


class ScopedMemoryTracker:
    """A context in which the memory of new arrays is counted, by device and scope. Scopes nest.

    What is counted is the memory of arrays on the host and on GPUs: not that of JAX's values, nor that in which trees,
    meshes and grids keep what they find by themselves. While any tracker is open, all threads count.

    Args:
        name: The name of the scope; inside of another one, its path is "outer/inner".
        active: False: the context does nothing.
        print: Whether the report is shown when the scope ends.
        report_func: A function that takes the report, in place of standard output.

    Example:

        with wp.ScopedMemoryTracker("setup"):
            a = wp.zeros(1000, dtype=float)
    """

    def __init__(
        self,
        name: str = "root",
        active: bool = True,
        print: bool = True,
        report_func: Callable[[str], None] | None = None,
    ):
        self.name = name
        self.active = active
        self.print = print
        self.report_func = report_func

    def __enter__(self) -> ScopedMemoryTracker:
        if self.active:
            allocation_counts.enter(self.name)
        return self

    def __exit__(self, *error: Any) -> None:
        if not self.active:
            return
        try:
            if self.print:
                self.report()
        finally:
            allocation_counts.leave()

    def report(self, file: Any = None, sort: str = "size", max_items: int = 10) -> None:
        """Show what has been counted up to now, in all scopes.

        Args:
            file: A text file to write to; None for `report_func`, or for standard output.
            sort: The order of what is alive: "size", the largest first, or "chronological", the oldest first.
            max_items: How many allocations of each device are listed.

        Raises:
            LaunchError: `sort` is neither of these.
        """
        text = _text(sort, max_items)
        if self.report_func is not None and file is None:
            self.report_func(text)
        else:
            builtins.print(text, file=file or sys.stdout, end="")

    def clear(self) -> None:
        """Forget all that has been counted, and go on counting."""
        allocation_counts.clear()


def print_memory_report(file: Any = None, sort: str = "size", max_items: int = 10) -> None:
    """Show the memory of arrays that has been counted: in `wp.ScopedMemoryTracker`, or with `wp.config.track_memory`.

    Args:
        file: A text file to write to; None for standard output.
        sort: The order of what is alive: "size", the largest first, or "chronological", the oldest first.
        max_items: How many allocations of each device are listed.

    Raises:
        LaunchError: nothing is counted, or `sort` is neither of these.
    """
    text = _text(sort, max_items)
    if not allocation_counts.is_counting():
        raise LaunchError(
            "wp.print_memory_report: allocations are not being tracked",
            hint="call it in a `with wp.ScopedMemoryTracker():`, or set wp.config.track_memory",
        )
    print(text, file=file or sys.stdout, end="")


def _text(sort: str, max_items: int) -> str:
    if sort not in ("size", "chronological"):
        raise LaunchError(f"the order of a memory report is 'size' or 'chronological', not {sort!r}")
    return allocation_counts.report(is_chronological=sort == "chronological", max_items=max_items)
