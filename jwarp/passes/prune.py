"""Drops what a generated kernel computes, keeps in memory or writes to its tape and nothing needs.

Other than `simplify`, it knows which arrays are scratch: a store to one matters only if a load comes after
it, and a field of a record only if it is read back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container

from jwarp.ir.attributes import ArrayName, RecordField, RecordFields
from jwarp.ir.nodes import Block, If, Node, Op, arrays_changed, arrays_read, blocks
from jwarp.passes.liveness import Liveness, Sweep, at


def prune(body: Block, returned: Container[ArrayName], shared: Container[ArrayName] = ()) -> Block:
    """`body` reduced to what its yields and the final contents of the arrays `returned` need.

    All other arrays are scratch. What one thread leaves in those that are `shared`, the next one finds.
    """
    liveness = _Liveness(body, returned, shared)
    liveness.settle(body)
    return _Sweep(liveness).block(body)


class _Liveness(Liveness):
    """Also which fields of records are needed, and which arrays are read where."""

    def __init__(self, body: Block, returned: Container[ArrayName], shared: Container[ArrayName]):
        super().__init__()
        self.returned, self.shared = returned, shared
        self.fields: set[RecordField] = set()
        self.tapes: set[int] = set()
        self.undone: set[ArrayName] = set()
        self.noted: set[ArrayName] = set()
        self.last_read: dict[ArrayName, int] = {}
        self.reading_loops: set[tuple[ArrayName, Node]] = set()
        self.pushes: dict[int, list[Op]] = {}
        self.place: dict[Op, tuple[int, tuple[Node, ...]]] = {}  # of an operation: position, loops around it
        self.number(body, ())

    @property
    def size(self) -> int:
        readers = len(self.reading_loops) + sum(self.last_read.values())
        return len(self.values) + len(self.fields) + len(self.undone) + len(self.noted) + readers

    def number(self, block: Block, loops: tuple[Node, ...]) -> None:
        for node in block.nodes:
            if isinstance(node, Op):
                self.place[node] = (len(self.place), loops)
                if node.row.adds_to_tape:
                    self.pushes.setdefault(node.attr_as(RecordFields).tape, []).append(node)
            inner = loops if isinstance(node, (Op, If)) else (*loops, node)
            for owned in blocks(node):
                self.number(owned, inner)

    def lasts(self, node: Op) -> bool:
        row = node.row
        if row.changes_elements:
            return any(array in self.returned or self.is_read_after(node, array) for array in arrays_changed(node))
        if node.row.adds_to_log:
            return node.attr in self.undone
        if row.uses_notes:
            return row.is_lasting and node.attr in self.noted
        if row.uses_tape:
            return (node.attr_as(RecordFields).tape if node.row.adds_to_tape else node.attr) in self.tapes
        return row.is_lasting

    def is_read_after(self, node: Op, array: ArrayName) -> bool:
        position, loops = self.place[node]
        if array in self.shared and array in self.last_read:
            return True
        return self.last_read.get(array, -1) > position or any((array, l) in self.reading_loops for l in loops)

    def mark_op(self, node: Op) -> None:
        if node.row.adds_to_tape:
            tape = node.attr_as(RecordFields).tape
            self.need(x for k, x in enumerate(node.args) if RecordField(tape, k) in self.fields)
            return
        self.need(node.args)
        row = node.row
        if node.row.reads_tape:
            field = node.attr_as(RecordField)
            self.fields.add(field)
            self.tapes.add(field.tape)
        elif row.reads_notes:
            self.noted.add(node.array_name)
        elif row.uses_log and row.changes_elements:
            self.undone.add(node.array_name)
        elif (row.is_access and (not row.is_write or node.result in self.values)) or row.is_native:
            position, loops = self.place[node]
            for array in (node.array_name,) if row.is_access else arrays_read(node):
                self.last_read[array] = max(position, self.last_read.get(array, 0))
                self.reading_loops.update((array, loop) for loop in loops)

    def kept_fields(self, tape: int) -> list[int]:
        """The fields of a tape's records that something reads."""
        count = max(len(push.args) for push in self.pushes[tape])
        return [k for k in range(count) if RecordField(tape, k) in self.fields]


class _Sweep(Sweep):
    """Also leaves out fields of records."""

    liveness: _Liveness

    def op(self, node: Op) -> Op:
        if node.row.adds_to_tape:
            record = node.attr_as(RecordFields)
            tape = record.tape
            kept = self.liveness.kept_fields(tape)
            return dataclasses.replace(
                node, args=at(node.args, kept), attr=RecordFields(tape, at(record.uniform, kept))
            )
        if node.row.reads_tape:
            field = node.attr_as(RecordField)
            left = self.liveness.kept_fields(field.tape).index(field.field)
            return dataclasses.replace(node, attr=RecordField(field.tape, left))
        return node
