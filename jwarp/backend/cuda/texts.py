"""Properties of pieces of CUDA text and of kernels: which may stand next to operators, need no name, and such."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from jwarp.backend.cuda.rules import literal
from jwarp.ir.nodes import Block, Const, For, Op, Operand, Value, While, blocks, operands
from jwarp.types import ScalarType, bool_


def constant_place(node: Op) -> tuple:
    """The element of an access with constant indices, as (array, *indices); with others, nothing."""
    indices = node.indices
    if not all(isinstance(i, Const) for i in indices):
        return ()
    return (node.array, *(i.value for i in indices if isinstance(i, Const)))


def certain(indices: Sequence[Operand], shape: Sequence[int]) -> bool:
    """True if constant indices are those of an element, not counted from the end."""
    return all(isinstance(i, Const) and 0 <= i.value < n for i, n in zip(indices, shape, strict=True))


def zero(type: ScalarType) -> str:
    return literal(Const(type, False if type is bool_ else 0.0 if type.is_float else 0))


def quoted(character: str) -> str:
    if character in '"\\?':
        return f"\\{character}"
    if character.isascii() and character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode())


def file(name: str) -> str:
    """The name of a file as a line directive takes it: what would end the line, or is no text, is a question mark."""
    name = "".join(c if c.isprintable() else "?" for c in name)
    return name.replace("\\", "\\\\").replace('"', '\\"')


def is_atom(text: str) -> bool:
    """True if an expression may stand next to any operator: a name, a number, a call, or one in parentheses."""
    return bool(re.fullmatch(r"\w+(\.\w+)?(\(.*\)|<[\w ]+>\(.*\))?", text)) and _closes_last(text)


def _closes_last(text: str) -> bool:
    """True if the first parenthesis of the text is closed by its last character, or there is none."""
    level = 0
    for k, c in enumerate(text):
        level += (c == "(") - (c == ")")
        if c == ")" and level == 0 and k < len(text) - 1:
            return False
    return True


def cannot_overflow(node: For) -> bool:
    """True if the index after the last one fits its type."""
    if abs(node.step) == 1:
        return True
    if not isinstance(node.hi, Const):
        return False
    after = node.hi.value + node.step
    return node.index.type.min <= after <= node.index.type.max


def inlinable_values(body: Block) -> frozenset[Value]:
    """The values that one node of the block that defines them reads, once."""
    count: Counter[Value] = Counter()
    near: set[Value] = set()

    def visit(block: Block) -> None:
        own = {n.result for n in block.nodes if isinstance(n, Op) and n.result is not None}
        for node in block.nodes:
            read = [x for x in operands(node) if isinstance(x, Value)]
            count.update(read)
            # Loop bounds are looked at again and again.
            if not isinstance(node, For | While):
                near.update(own.intersection(read))
            for inner in blocks(node):
                visit(inner)
        read = [x for x in block.yields if isinstance(x, Value)]
        count.update(read)
        near.update(own.intersection(read))

    visit(body)
    return frozenset(v for v in near if count[v] == 1)
