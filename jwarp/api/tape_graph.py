"""The text of a graph of what a tape has recorded, in the DOT language of GraphViz (https://graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

import collections
import json
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jwarp.arrays.array import array
from jwarp.arrays.subclasses import plain
from jwarp.dispatch.tape.entries import (
    ComputationEntry,
    CopyEntry,
    Entry,
    FillEntry,
    FunctionEntry,
    SecondOrderEntry,
)
from jwarp.dispatch.tape.launch_entry import LaunchEntry
from jwarp.types.queries import type_repr

# The most operations that are looked for as one repetition.
MAX_REPEATED = 1000
# Operations other than launches, by their entries.
_TITLES = {CopyEntry: "copy", FillEntry: "fill", FunctionEntry: "function", SecondOrderEntry: "gradients"}


@dataclass(frozen=True)
class _Operation:
    """The effect of one entry: its name, the arrays that it reads and writes with their names, and a text about it."""

    title: str
    reads: tuple[tuple[str, array], ...]
    writes: tuple[tuple[str, array], ...]
    about: str

    @property
    def key(self) -> Hashable:
        """Equal for operations that are a repetition of each other."""
        return self.title, *(id(a) for _, a in (*self.reads, *self.writes)), len(self.reads)


@dataclass(frozen=True)
class _Scope:
    """A group of operations, with what was said of it."""

    title: str
    about: str
    items: tuple[Any, ...]

    @property
    def key(self) -> Hashable:
        return self.title, *(item.key for item in self.items)


@dataclass(frozen=True)
class Choices:
    """The choices of `Tape.visualize`."""

    simplify: bool = True
    hide_readonly: bool = False
    labels: Mapping[array, str] | None = None
    longest: bool = True
    ignore_scopes: bool = False
    inputs: tuple[Sequence[array], Sequence[str]] = ((), ())
    outputs: tuple[Sequence[array], Sequence[str]] = ((), ())
    direction: str = "LR"


def text_of(entries: Sequence[Entry], scopes: Sequence[tuple[int, str | None, Any]], choices: Choices) -> str:
    """The text of the graph of `entries`; `scopes` are the places where groups begin, and without a name, end."""
    operations = list(map(_operation, entries))
    places = [] if choices.ignore_scopes else list(scopes)
    graph = _Graph(choices, _names(operations, choices), {id(a) for o in operations for _, a in o.writes})
    graph.lines += ["digraph {", f"  rankdir={json.dumps(choices.direction)};", "  node [style=filled];"]
    for arrays, _ in (choices.inputs, choices.outputs):
        for a in arrays:
            graph.show(a)
    graph.items(_tree(operations, places), "  ")
    return "\n".join([*graph.lines, *graph.nodes, *graph.edges, "}", ""])


def write(path: str | Path, text: str) -> None:
    """Write the text to a file."""
    Path(path).write_text(text, encoding="utf-8")


def _operation(entry: Entry) -> _Operation:
    if isinstance(entry, LaunchEntry):
        named = [(p.name, value) for p, value in zip(entry.kernel.params, entry.values, strict=True)]
        arrays = [(p, name, a) for p, (name, a) in enumerate(named) if isinstance(a, array)]
        others = [f"{name} = {value!r}"[:80] for name, value in named if not isinstance(value, array)]
        about = "\n".join([f"dim: {entry.dims}", *others])
        reads = tuple((name, a) for p, name, a in arrays if p not in entry.changed)
        return _Operation(entry.kernel.name, reads, tuple((n, a) for p, n, a in arrays if p in entry.changed), about)
    title = entry.command.name if isinstance(entry, ComputationEntry) else _TITLES.get(type(entry), "change")
    written = {id(a) for a in entry.written}
    reads = tuple(("", a) for a in entry.arrays if id(a) not in written)
    return _Operation(title, reads, tuple(("", a) for a in entry.written), title)


def _tree(operations: Sequence[_Operation], scopes: Sequence[tuple[int, str | None, Any]]) -> tuple[Any, ...]:
    """The operations in their groups."""
    open_scopes: list[tuple[str, str, list[Any]]] = [("", "", [])]

    def close() -> None:
        title, about, items = open_scopes.pop()
        open_scopes[-1][2].append(_Scope(title, about, tuple(items)))

    done = 0
    for place, name, metadata in scopes:
        open_scopes[-1][2].extend(operations[done:place])
        done = place
        if name is not None:
            about = "\n".join(f"{key}: {value}" for key, value in (metadata or {}).items())
            open_scopes.append((name, about, []))
        elif len(open_scopes) > 1:
            close()
    open_scopes[-1][2].extend(operations[done:])
    while len(open_scopes) > 1:
        close()
    return tuple(open_scopes[0][2])


def runs(keys: Sequence[Hashable]) -> Iterator[tuple[int, int, int]]:
    """The repetitions in a sequence: where each begins, how many items repeat, and how often; 1 and once for others.

    The longest repetition from each place on is taken, and of equally long ones that of the fewest items.
    """
    at = 0
    while at < len(keys):
        best = (1, 1)
        for length in range(1, min(MAX_REPEATED, (len(keys) - at) // 2) + 1):
            if keys[at + length] != keys[at]:
                continue
            count, block = 1, keys[at : at + length]
            while keys[at + count * length : at + (count + 1) * length] == block:
                count += 1
            if count > 1 and count * length > best[0] * best[1]:
                best = length, count
        yield at, *best
        at += best[0] * best[1]


def _names(operations: Sequence[_Operation], choices: Choices) -> dict[int, str]:
    """The label of each array: the one that was given, or of the names of parameters the longest or the first."""
    found: dict[int, list[str]] = collections.defaultdict(list)
    for operation in operations:
        for name, a in (*operation.reads, *operation.writes):
            found[id(a)] += [name] if name else []
    names = {key: (max(all_, key=len) if choices.longest else all_[0]) for key, all_ in found.items() if all_}
    names |= {id(plain(a)): label for a, label in (choices.labels or {}).items()}
    for arrays, labels in (choices.inputs, choices.outputs):
        names |= {id(plain(a)): label for a, label in zip(arrays, labels, strict=False)}
    return names


class _Graph:
    """The lines of a graph, as they come."""

    def __init__(self, choices: Choices, names: Mapping[int, str], written: Collection[int]):
        self.choices, self.names, self.written = choices, names, written
        self.lines: list[str] = []
        self.nodes: dict[str, None] = {}  # of arrays, in order
        self.edges: dict[str, None] = {}
        self.shown: dict[int, str] = {}
        self.count = 0

    def next(self, stem: str) -> str:
        """A name for a node or a group."""
        self.count += 1
        return f"{stem}{self.count}"

    def show(self, a: array) -> str:
        """The node of an array."""
        if id(a) not in self.shown:
            name = self.shown[id(a)] = self.next("array")
            about = f"array: dtype={type_repr(a.dtype)}, shape={a.shape}, requires_grad={a.requires_grad}"
            given = {"label": self.names.get(id(a), type_repr(a.dtype)), "tooltip": about, "shape": "ellipse"}
            color = "lightgreen" if a.requires_grad else "lightgray"
            self.nodes[f"  {name} [{_attributes(given | {'fillcolor': color})}];"] = None
        return self.shown[id(a)]

    def items(self, items: Sequence[Any], indent: str) -> None:
        """Add operations and groups; what is repeated once, with how often."""
        keys = [item.key for item in items]
        found = runs(keys) if self.choices.simplify else ((k, 1, 1) for k in range(len(keys)))
        for at, length, count in found:
            part = items[at : at + length]
            if count == 1:
                self.item(part[0], indent)
                continue
            self.group(f"repeated {count}x", "", part, indent)

    def group(self, title: str, about: str, items: Sequence[Any], indent: str) -> None:
        """Add a group."""
        self.lines.append(f"{indent}subgraph {self.next('cluster')} {{")
        self.lines += [
            f"{indent}  {_attributes({name: x})};" for name, x in (("label", title), ("tooltip", about)) if x
        ]
        if title.startswith("repeated "):
            for item in items:
                self.item(item, indent + "  ")
        else:
            self.items(items, indent + "  ")
        self.lines.append(f"{indent}}}")

    def item(self, item: _Operation | _Scope, indent: str) -> None:
        """Add an operation with its edges, or a group."""
        if isinstance(item, _Scope):
            return self.group(item.title, item.about, item.items, indent)
        node = self.next("operation")
        given = {"label": item.title, "tooltip": item.about, "shape": "box", "fillcolor": "lightblue"}
        self.lines.append(f"{indent}{node} [{_attributes(given)}];")
        for name, a in item.reads:
            if not self.choices.hide_readonly or id(a) in self.written or id(a) in self.shown:
                self.edges[f"  {self.show(a)} -> {node} [{_attributes({'tooltip': name or 'read'})}];"] = None
        for name, a in item.writes:
            self.edges[f"  {node} -> {self.show(a)} [{_attributes({'tooltip': name or 'written'})}];"] = None
        return None


def _attributes(given: Mapping[str, str]) -> str:
    """Attributes as the language has them: texts in double quotes, with escaped quotes and line ends."""
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
