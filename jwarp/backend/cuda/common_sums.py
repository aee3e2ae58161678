"""Writes additions to elements that the threads of a warp have in common: one call for several of them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jwarp.analysis.common_sums import CommonSums, common_sums
from jwarp.backend.cuda.rules import C_TYPES, bare
from jwarp.ir.nodes import Kernel, Op, Operand


@dataclass(frozen=True)
class Line:
    """A place that goes along with an index: at * stride + offset, of which the stride and the offset stay the same."""

    at: str
    stride: str
    offset: str


@dataclass(frozen=True)
class Addition:
    """To the element of a number in the array of a name."""

    array: str
    place: str
    value: str
    line: Line | None = None


class Together:
    """The additions of a kernel that wait for the last one of their group.

    `place` is the C type of the numbers of elements, and `item` the number of a thread's batch element, if there are
    several: then threads of a warp may have other arrays, and numbers, than others.
    """

    def __init__(self, kernel: Kernel, apart: Callable[[Op], bool], place: str, item: str):
        self.groups = {node: group for group in common_sums(kernel, apart) for node in group.nodes}
        self.place, self.item = place, item
        self.waiting: dict[CommonSums, list[Addition]] = defaultdict(list)
        self.keep: frozenset[Op] = frozenset()  # nodes after which sums wait for those of the next iteration
        self.before: list[str] = []  # statements that belong before the loop
        self.numbers = itertools.count()
        self.line_of: Callable[[Op], Line | None] = lambda node: None

    def __contains__(self, node: Op) -> bool:
        return node in self.groups

    def at_once(self, node: Op, addition: Addition, text: Callable[[Operand], str]) -> str:
        """The statement of one addition alone."""
        return self.statement(self.groups[node], [addition], text)

    def after(self, node: Op, addition: Addition | None, text: Callable[[Operand], str]) -> str | None:
        """The statement after a node of a group, whose addition may wait: that of all that do, after the last one."""
        group = self.groups[node]
        if addition is not None:
            self.waiting[group].append(addition)
        if node is not group.nodes[-1] or node in self.keep:
            return None
        waiting = self.waiting.pop(group, [])
        return self.statement(group, waiting, text) if waiting else None

    def statement(self, group: CommonSums, additions: Sequence[Addition], text: Callable[[Operand], str]) -> str:
        tested = [*([self.item] if self.item else []), *(bare(text(x)) for x in group.uncertain)]
        whole = " && ".join(["jw_whole_warp()", *(f"jw_alike({x})" for x in tested)])
        # Elements that are adjacent in memory stay so: then lanes find their places in fewer steps.
        additions = sorted(additions, key=lambda a: a.array)
        arrays = ", ".join(a.array for a in additions)
        values = ", ".join(a.value for a in additions)
        kind = C_TYPES[group.type]
        lines = [a.line for a in additions if a.line is not None]
        if len(lines) == len(additions) and len({line.at for line in lines}) == 1:
            strides, offsets = (", ".join(x) for x in zip(*((line.stride, line.offset) for line in lines), strict=True))
            own = f"own_line{next(self.numbers)}"
            types = f"<{kind}, {self.place}>"
            self.before.append(f"const auto {own} = jw_own_line{types}({{{arrays}}}, {{{strides}}}, {{{offsets}}});")
            given = f"{{{arrays}}}, {lines[0].at}, {{{strides}}}, {{{offsets}}}, {{{values}}}"
            return f"jw_add_along{types}({whole}, {own}, {given});"
        places = ", ".join(f"({self.place})({a.place})" for a in additions)
        return f"jw_add_together<{kind}, {self.place}>({whole}, {{{arrays}}}, {{{places}}}, {{{values}}});"
