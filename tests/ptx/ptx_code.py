"""Makes one list of instructions of an entry: calls in their places, and registers and memory instead of names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ptx_text import Function, Label, Program, Registers, Scope, Statement, Targets, Variable, split_operands

MAX_DEPTH = 20
IMMEDIATE = re.compile(r"-?\d|0[fdxX]")
ADDRESS = re.compile(r"\[\s*([%\w$.]+)\s*(?:\+\s*(-?\w+))?\s*\]")


@dataclass(frozen=True)
class Reg:
    number: int


@dataclass(frozen=True)
class Imm:
    text: str


@dataclass(frozen=True)
class Special:
    """A register that the hardware fills, such as %tid.x."""

    name: str


@dataclass(frozen=True)
class Place:
    """Memory with a name, by its space: an offset there, or of variables in global memory their name."""

    space: str
    offset: int = 0
    name: str = ""


@dataclass(frozen=True)
class Address:
    base: Reg | Place | Imm
    offset: int


@dataclass(frozen=True)
class Vector:
    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Target:
    """Where a branch goes: a label, or several for an indexed one."""

    labels: tuple[str, ...]


Operand = Reg | Imm | Special | Place | Address | Vector | Target | None  # None: "_"


@dataclass(frozen=True)
class Node:
    """An instruction with what its operands stand for."""

    statement: Statement
    operands: tuple[Operand, ...]
    guard: Reg | None = None

    @property
    def opcode(self) -> str:
        return self.statement.opcode


@dataclass(frozen=True)
class Mark:
    """The place of a label."""

    label: str


@dataclass
class Code:
    """An entry in one piece."""

    entry: str
    nodes: list[Node | Mark]
    registers: list[str]  # their types
    param_size: int  # bytes of the entry's parameters
    param_offsets: list[int]
    call_size: int  # bytes of a thread for parameters of functions
    local_size: int
    shared_size: int  # bytes of a block beside those that a launch asks for
    variables: dict[str, Variable]  # in global and constant memory
    max_threads: int


@dataclass
class _Names:
    """The names of one set of braces: registers by their name in it, and memory."""

    number: int
    declared: list[Registers] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)


class _Flattener:
    def __init__(self, program: Program):
        self.program = program
        self.nodes: list[Node | Mark] = []
        self.registers: list[str] = []
        self.known: dict[tuple[int, str], int] = {}
        self.numbers = itertools.count()
        self.local_size = self.call_size = self.depth = 0
        self.shared_size, self.places = self._module()

    def _module(self) -> tuple[int, dict[str, Place]]:
        """Variables outside of functions, and all shared ones: each exists once."""
        inside = [v for f in self.program.functions.values() for v in f.items if isinstance(v, Variable)]
        variables = [*self.program.variables, *(v for v in inside if v.space in ("shared", "global", "const"))]
        places, size = {}, 0
        for v in variables:
            if v.space == "shared" and v.size:
                size = _aligned(size, v.align)
                places[v.name] = Place("shared", size)
                size += v.size
            elif v.space in ("global", "const"):
                places[v.name] = Place("global", name=v.name)
        self.variables = {v.name: v for v in variables if v.space in ("global", "const")}
        size = _aligned(size, max((v.align for v in variables if v.space == "shared" and not v.size), default=1))
        places |= {v.name: Place("shared", size) for v in variables if v.space == "shared" and not v.size}
        return size, places

    def code(self, entry: str) -> Code:
        function = self.program.functions[entry]
        params, offset, offsets = {}, 0, []
        for v in function.params:
            offset = _aligned(offset, v.align)
            params[v.name] = Place("param", offset)
            offsets.append(offset)
            offset += v.size
        self._body(function, params, end=None)
        return Code(
            entry, self.nodes, self.registers, offset, offsets, self.call_size, self.local_size, self.shared_size,
            self.variables, function.max_threads,
        )  # fmt: skip

    def _body(self, function: Function, params: dict[str, Place], end: str | None) -> None:
        """The instructions of a function; `end` is the label to which a called one returns."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ValueError(f"{function.name} calls itself")
        own = next(self.numbers)
        scopes = [_Names(own, places={**self.places, **params})]
        targets = {}
        for before, item in itertools.pairwise(function.items):
            if isinstance(before, Label) and isinstance(item, Targets):
                targets[before.name] = Target(tuple(f"{label}#{own}" for label in item.labels))
        for item in function.items:
            if isinstance(item, Scope):
                scopes = [*scopes, _Names(next(self.numbers))] if item.opens else scopes[:-1]
            elif isinstance(item, Registers):
                scopes[-1].declared.append(item)
            elif isinstance(item, Variable):
                self._variable(item, scopes[-1])
            elif isinstance(item, Label):
                self.nodes.append(Mark(f"{item.name}#{own}"))
            elif isinstance(item, Statement):
                self._statement(item, scopes, own, targets, end)
        if end is not None:
            self.nodes.append(Mark(end))
        self.depth -= 1

    def _variable(self, v: Variable, scope: _Names) -> None:
        if v.space == "local":
            self.local_size = _aligned(self.local_size, v.align)
            scope.places[v.name] = Place("local", self.local_size)
            self.local_size += v.size
        elif v.space == "param":
            scope.places[v.name] = self._call_place(v)

    def _call_place(self, v: Variable) -> Place:
        self.call_size = _aligned(self.call_size, max(8, v.align))
        place = Place("call", self.call_size)
        self.call_size += v.size
        return place

    def _statement(
        self, s: Statement, scopes: list[_Names], own: int, targets: dict[str, Target], end: str | None
    ) -> None:
        guard = self._operand(s.guard, scopes) if s.guard else None
        assert guard is None or isinstance(guard, Reg)
        if s.opcode == "call":
            self._call(s, guard, scopes)
        elif s.opcode == "ret" and end is not None:
            self.nodes.append(Node(s, (Target((end,)),), guard))
        elif s.opcode == "bra":
            self.nodes.append(Node(s, (Target((f"{s.operands[0]}#{own}",)),), guard))
        elif s.opcode == "brx":
            self.nodes.append(Node(s, (self._operand(s.operands[0], scopes), targets[s.operands[1]]), guard))
        else:
            self.nodes.append(Node(s, tuple(self._operand(o, scopes) for o in _spread(s.operands)), guard))

    def _call(self, s: Statement, guard: Reg | None, scopes: list[_Names]) -> None:
        lists = [o for o in s.operands if o.startswith("(")]
        name = next(o for o in s.operands if not o.startswith("("))
        before = s.operands.index(name)
        results = split_operands(s.operands[0][1:-1]) if before else []
        arguments = split_operands(lists[-1][1:-1]) if len(lists) > (1 if before else 0) else []
        function = self.program.functions.get(name)
        if function is None:
            raise ValueError(f"calls through registers are not known: {s.text}")
        places = [self._operand(o, scopes) for o in (*results, *arguments)]
        if function.is_declared:
            named = Statement("call", (name,), (), s.guard, s.negated, s.line, s.text)
            self.nodes.append(Node(named, tuple(places), guard))
            return
        formal = (*function.results, *function.params)
        params = {v.name: p for v, p in zip(formal, places, strict=True) if isinstance(p, Place)}
        end = f"after {name}#{next(self.numbers)}"
        self.nodes.append(Node(s, (Target((end,)),), guard))
        self._body(function, params, end)

    # ---- names

    def _operand(self, text: str, scopes: list[_Names]) -> Operand:
        text = text.strip().removeprefix("!")  # which the instructions that have it look for themselves
        if text == "_":
            return None
        if text.startswith("{"):
            return Vector(tuple(self._operand(part, scopes) for part in split_operands(text[1:-1])))
        if text.startswith("["):
            found = ADDRESS.fullmatch(text)
            if found is None:
                raise ValueError(f"no address: {text}")
            base = self._operand(found[1], scopes)
            assert isinstance(base, (Reg, Place, Imm)), text
            return Address(base, int(found[2] or "0", 0))
        if IMMEDIATE.match(text):
            return Imm(text)
        for scope in reversed(scopes):
            if text in scope.places:
                return scope.places[text]
            kind = next((r.type for r in scope.declared if r.has(text)), None)
            if kind is not None:
                key = scope.number, text
                if key not in self.known:
                    self.known[key] = len(self.registers)
                    self.registers.append(kind)
                return Reg(self.known[key])
        if text.startswith("%") or text in ("WARP_SZ",):
            return Special(text)
        if "+" in text:
            name, _, offset = text.partition("+")
            place = self._operand(name, scopes)
            assert isinstance(place, Place) and place.space != "global", text
            return Place(place.space, place.offset + int(offset, 0))
        raise ValueError(f"{text} is not declared")


def _spread(operands: tuple[str, ...]) -> Iterator[str]:
    """Two destinations are written with a bar between them."""
    for k, operand in enumerate(operands):
        if k == 0 and "|" in operand:
            yield from operand.split("|")
        else:
            yield operand


def _aligned(offset: int, align: int) -> int:
    return -(-offset // align) * align


def flatten(program: Program, entry: str) -> Code:
    """The code of an entry."""
    return _Flattener(program).code(entry)
