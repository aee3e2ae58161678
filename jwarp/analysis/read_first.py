"""Tests if threads read all of one array before they change another one, which may alias it."""

from __future__ import annotations

from jwarp.ir.nodes import Block, Kernel, Node, Op, While, arrays_changed, arrays_read, blocks, walk_node


def reads_first(kernel: Kernel, read: int, changed: int) -> bool:
    """True if no thread reads array parameter `read` after it has changed array parameter `changed`.

    Then threads may as well read a copy of `read` that was made before the launch: what other threads change meanwhile
    is not promised to be seen. The order is that of the nodes, so `kernel` is as it was written.
    """
    return _after(kernel.body, False, read, changed) is not None


def _after(block: Block, is_changed: bool, read: int, changed: int) -> bool | None:
    """True if the block may leave `changed` changed; None where `read` may be read after a change."""
    for node in block.nodes:
        if isinstance(node, Op):
            if is_changed and read in arrays_read(node):
                return None
            is_changed = is_changed or changed in arrays_changed(node)
            continue
        before = is_changed or (_is_loop(node) and _changes(node, changed))  # in an iteration before
        for inner in blocks(node):
            after = _after(inner, before, read, changed)
            if after is None:
                return None
            is_changed = is_changed or after
            if isinstance(node, While):
                before = before or after
    return is_changed


def _is_loop(node: Node) -> bool:
    return len(blocks(node)) == 1 or isinstance(node, While)


def _changes(node: Node, changed: int) -> bool:
    return any(isinstance(n, Op) and changed in arrays_changed(n) for n in walk_node(node))
