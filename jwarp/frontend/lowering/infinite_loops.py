"""Refuses `while` statements that never end: nothing in them changes what their condition says."""

from __future__ import annotations

from jwarp.errors import CompileError, Span
from jwarp.ir.builder import FALSE, TRUE
from jwarp.ir.nodes import Op, While, used_values, walk, walk_node


def refuse_endless(loop: While, test: Span) -> None:
    """Refuse a loop that threads never leave, once they are in it. `test` is where its condition stands.

    Raises:
        CompileError: its condition is the same in every iteration.
    """
    (holds,) = loop.cond.yields
    if holds == TRUE:
        raise CompileError(
            "this loop never ends: no `break` or `return` leaves it", test, "leave it with `if …: break`"
        )
    if holds != FALSE and _is_the_same(loop):
        raise CompileError(
            "this loop never ends once it has begun: nothing in it changes what its condition reads, and nothing else"
            " leaves it",
            test,
            "change a variable of the condition in the loop; to wait for other threads, read by an atomic function, as"
            " wp.atomic_add(a, i, 0)",
        )


def _is_the_same(loop: While) -> bool:
    """True if no iteration changes the condition. Arrays may alias, so a changed array counts as all of them."""
    if not used_values(loop.cond).isdisjoint(loop.params):
        return False
    tested = [node.row for node in walk(loop.cond) if isinstance(node, Op)]
    if all(row.is_pure for row in tested):
        return True
    is_changed = any(node.row.changes_elements for node in walk_node(loop) if isinstance(node, Op))
    return not is_changed and all(row.is_pure or row.only_reads for row in tested)
