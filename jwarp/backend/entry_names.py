"""The names of entries in generated code."""

from __future__ import annotations

from jwarp.ir.nodes import Kernel


def entry_name(kernel: Kernel) -> str:
    """The symbol of a kernel's entry; ASCII for every name of a kernel."""
    safe = "".join(c if c.isascii() and c.isalnum() else "_" for c in kernel.name)
    return f"jwarp_{safe}"
