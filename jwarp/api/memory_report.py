"""Reports of the memory of arrays: `wp.ScopedMemoryTracker`, `wp.print_memory_report`."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

from jwarp.arrays import allocation_counts
from jwarp.errors import LaunchError


class ScopedMemoryTracker:
    """A context manager that counts the memory of new arrays, by device and scope. Scopes may be nested.

    It counts arrays on the host and on GPUs, but not JAX's values or internal memory of trees, meshes and grids. While
    any tracker is open, arrays of all threads are counted.

    Args:
        name: The name of the scope. A nested scope has the path "outer/inner".
        active: If False, the context has no effect.
        print: Whether to print the report when the scope ends.
        report_func: A function that gets the report, instead of standard output.

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
        """Show the counts so far, in all scopes.

        Args:
            file: A text file to write to. Default: `report_func`, or standard output.
            sort: The order of allocations that are alive: "size", the largest first, or "chronological", the oldest
                first.
            max_items: The number of allocations to list for each device.

        Raises:
            LaunchError: `sort` has another value.
        """
        text = _text(sort, max_items)
        if self.report_func is not None and file is None:
            self.report_func(text)
        else:
            builtins.print(text, file=file or sys.stdout, end="")

    def clear(self) -> None:
        """Reset all counts."""
        allocation_counts.clear()


def print_memory_report(file: Any = None, sort: str = "size", max_items: int = 10) -> None:
    """Show the memory of arrays that `wp.ScopedMemoryTracker` or `wp.config.track_memory` has counted.

    Args:
        file: A text file to write to. Default: standard output.
        sort: The order of allocations that are alive: "size", the largest first, or "chronological", the oldest first.
        max_items: The number of allocations to list for each device.

    Raises:
        LaunchError: Nothing is counted, or `sort` has another value.
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
