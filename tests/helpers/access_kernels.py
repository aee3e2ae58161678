"""Random kernels that index arrays in hostile ways, and plain Python in which one thread of them runs.

The source text of a kernel is also a Python function. Run with the names of `THREAD_NAMES`, it is one
thread that computes with wrapping integers and notes every array access.
"""

from __future__ import annotations

import importlib.util
import itertools
import operator
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

# Integers that wrap


@dataclass(frozen=True, eq=False)
class Integer:
    """A number of `bits` bits. Arithmetic with a Python int takes that as a literal."""

    value: int
    bits: int = 32
    signed: bool = True

    def like(self, value: int) -> Integer:
        low = -(1 << (self.bits - 1)) if self.signed else 0
        return Integer((value - low) % (1 << self.bits) + low, self.bits, self.signed)

    def __index__(self) -> int:
        return self.value

    def __neg__(self) -> Integer:
        return self.like(-self.value)

    def __abs__(self) -> Integer:
        return self.like(abs(self.value))


def _floordiv(x: int, y: int) -> int:
    return x // y if y else -1


def _remainder(x: int, y: int) -> int:
    return x - y * _quotient(x, y) if y else x


def _quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else -1


def _define_operators() -> None:
    rules = {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "floordiv": _floordiv,
        "mod": _remainder,
        "and": operator.and_,
    }
    for name, rule in rules.items():
        setattr(Integer, f"__{name}__", lambda x, y, rule=rule: x.like(rule(x.value, operator.index(y))))
        setattr(Integer, f"__r{name}__", lambda x, y, rule=rule: x.like(rule(operator.index(y), x.value)))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        rule = getattr(operator, name)
        setattr(Integer, f"__{name}__", lambda x, y, rule=rule: _step() or rule(x.value, operator.index(y)))


_define_operators()


def _typed(bits: int, signed: bool) -> Callable[[Any], Integer]:
    return lambda x: Integer(0, bits, signed).like(operator.index(x))


_int32 = _typed(32, True)


# One thread


@dataclass(frozen=True)
class Touch:
    """An access: its line, the indices as they were, and the extents of the array."""

    line: int
    indices: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def is_inside(self) -> bool:
        return all(0 <= i < n for i, n in zip(self.indices, self.extents, strict=True))

    @property
    def is_outside(self) -> bool:
        """Not even an index that counts from the end."""
        return any(not -n <= i < n for i, n in zip(self.indices, self.extents, strict=True))


class TooLong(Exception):
    """The thread runs longer than a test wants to wait."""


MAX_STEPS = 150


@dataclass
class _State:
    coordinates: tuple[int, ...] = ()
    touches: list[Touch] = field(default_factory=list)
    steps: int = 0


_state = _State()


def _step() -> None:
    _state.steps += 1
    if _state.steps > MAX_STEPS:
        raise TooLong


class FakeArray:
    """An array of `shape` without memory, unless `data` is given; it notes what is accessed."""

    def __init__(self, shape: tuple[int, ...], data: np.ndarray | None = None):
        self.extents, self.data = shape, data

    @property
    def shape(self) -> tuple[Integer, ...]:
        return tuple(Integer(n) for n in self.extents)

    def _touch(self, key: Any) -> Touch:
        indices = tuple(operator.index(k) for k in (key if isinstance(key, tuple) else (key,)))
        touch = Touch(sys._getframe(2).f_lineno, indices, self.extents)
        _state.touches.append(touch)
        return touch

    def __getitem__(self, key: Any) -> float:
        touch = self._touch(key)
        return 0.0 if self.data is None or touch.is_outside else float(self.data[touch.indices])

    def __setitem__(self, key: Any, value: float) -> None:
        touch = self._touch(key)
        if self.data is not None and not touch.is_outside:
            self.data[touch.indices] = value


def _tid() -> Any:
    coordinates = tuple(Integer(c) for c in _state.coordinates)
    return coordinates if len(coordinates) > 1 else coordinates[0]


def _range(*bounds: Any) -> Iterator[Integer]:
    for k in range(*(operator.index(b) for b in bounds)):
        _step()
        yield Integer(k)


def _first_integer(choose: Callable) -> Callable[..., Integer]:
    return lambda *args: _int32(choose(operator.index(a) for a in args))


_TYPES = {f"{'' if s else 'u'}int{b}": _typed(b, s) for b in (8, 16, 32, 64) for s in (True, False)}
THREAD_NAMES: dict[str, Any] = {
    "wp": SimpleNamespace(kernel=lambda function: function, tid=_tid, where=lambda c, x, y: x if c else y, **_TYPES),
    "int": _int32,
    "min": _first_integer(min),
    "max": _first_integer(max),
    "range": _range,
    "len": lambda array: array.shape[0],
}


def run_thread(function: Callable, coordinates: tuple[int, ...], args: list[Any]) -> list[Touch]:
    """The accesses of one thread, in order. Raises TooLong; what came before is in its `args`."""
    _state.coordinates, _state.touches, _state.steps = coordinates, [], 0
    given = [a if isinstance(a, FakeArray) else Integer(a) for a in args]
    try:
        function(*given)
    except TooLong as stop:
        raise TooLong(_state.touches) from stop
    return _state.touches


# Source text

HEADER = "from __future__ import annotations\nimport jwarp as wp\n\n\n"
SMALL = (0, 1, 1, 2, 3, 5, -1, -2)
LARGE = (2147483647, -2147483647, 2147483640, 65536, 1073741824, -1073741824, 268435456, 127, 255)


class Writer:
    """Writes the source of one random kernel over one or two thread dimensions."""

    def __init__(self, seed: int, name: str):
        self.random = random.Random(seed)
        self.rank = self.random.choice((1, 1, 2))
        self.names: list[str] = []
        self.lines: list[str] = []
        self.indent = 1
        self.count = itertools.count()
        self.source = self.kernel(name)

    def pick(self, *options: Callable[[], str] | str) -> str:
        chosen = self.random.choice(options)
        return chosen if isinstance(chosen, str) else chosen()

    def literal(self) -> str:
        return str(self.random.choice(SMALL if self.random.random() < 0.8 else LARGE))

    def extent(self) -> str:
        return self.random.choice(("len(x)", "x.shape[0]", "m.shape[0]", "m.shape[1]", "len(y)", "n"))

    def name(self) -> str:
        return self.random.choice(self.names)

    def atom(self) -> str:
        return self.random.choice((self.name, self.name, self.name, self.literal, self.extent))()

    def expression(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.2:
            return self.atom()
        x, y = self.expression(depth - 1), self.expression(depth - 1)
        kind = self.random.choice(tuple(_TYPES))
        return self.pick(
            f"({x} + {y})",
            f"({x} - {y})",
            f"({x} - {y})",
            f"({self.name()} + {self.literal()})",
            f"({self.name()} * {self.literal()} + {y})",
            f"({self.extent()} - 1 - {x})",
            f"(-int({x}))",
            f"min(int({x}), int({y}))",
            f"max(int({x}), int({y}))",
            f"(int({x}) // {self.random.choice((1, 2, 3, 7, -2, 0))})",
            f"(int({x}) % int({y}))",
            f"(int({x}) // int({y}))",
            f"(int({x}) & {self.random.choice((0, 1, 7, 255))})",
            f"int(wp.{kind}({x}))",
            f"int(wp.{kind}({x}) + wp.{kind}({y}))",
            f"int(wp.{kind}({x}) // wp.{kind}(2))",
            f"int(wp.{kind}({x}) % wp.{kind}(5))",
            lambda: f"(int({x}) if {self.condition(1)} else int({y}))",
            lambda: f"wp.where({self.condition(1)}, int({x}), int({y}))",
        )

    def condition(self, depth: int = 2) -> str:
        x, y = self.expression(1), self.expression(1)
        compared = f"int({x}) {self.random.choice(('<', '<=', '>', '>=', '==', '!=', '<'))} int({y})"
        if depth == 0 or self.random.random() < 0.4:
            return compared
        v, n = self.name(), self.extent()
        return self.pick(
            f"{v} >= 0 and {v} < {n}",
            f"0 <= {v} < {n}",
            f"not ({v} < {self.literal()} or {v} >= {n} - 1)",
            lambda: f"({self.condition(depth - 1)} and {self.condition(depth - 1)})",
            lambda: f"({self.condition(depth - 1)} or {self.condition(depth - 1)})",
            lambda: f"(not ({self.condition(depth - 1)}))",
            compared,
        )

    def index(self, extent: str) -> str:
        x, v = self.expression(), self.name()
        kind = self.random.choice(("int64", "uint32", "uint8", "int8", "int16", "uint16", "uint64"))
        return self.pick(
            v,
            v,
            f"{v} + {self.literal()}",
            f"{v} - {self.literal()}",
            f"{extent} - 1 - {v}",
            f"min(max(int({x}), 0), {extent} - 1)",
            f"max(min(int({x}), {extent} - 1), 0)",
            f"(int({x}) % {extent} + {extent}) % {extent}",
            f"int({x}) % {extent}",
            f"wp.{kind}({v})",
            f"wp.{kind}({v} - {self.literal()})",
            f"wp.{kind}({x})",
            f"wp.int64({v}) + wp.int64({self.expression(1)})",
            x,
        )

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def access(self) -> None:
        x, y = self.index("len(x)"), self.index("len(y)")
        row, column = self.index("m.shape[0]"), self.index("m.shape[1]")
        self.line(
            self.pick(
                f"total = total + x[{x}]",
                f"total = total + x[{x}]",
                f"total = total + m[{row}, {column}]",
                f"y[{y}] = 1.0",
            )
        )

    def block(self, statements: int) -> None:
        """Statements, one level deeper; names made there end there."""
        before = list(self.names)
        self.indent += 1
        for _ in range(statements):
            self.statement()
        self.access()
        self.indent -= 1
        self.names = before

    def assignment(self) -> None:
        name = f"v{next(self.count)}"
        value = self.pick(f"int({self.expression(3)})", f"int({self.index(self.extent())})")
        self.line(f"{name} = {value}")
        self.names.append(name)

    def branch(self) -> None:
        self.line(f"if {self.condition()}:")
        self.block(self.random.randrange(2))
        if self.random.random() < 0.4:
            self.line("else:")
            self.block(0)

    def counted(self) -> None:
        x, y = self.expression(1), self.expression(1)
        bounds = self.pick(
            self.extent(),
            f"int({x})",
            f"int({x}), int({y})",
            f"int({x}), int({y}), {self.random.choice((2, 3, -1, -2, 65536))}",
            f"{self.extent()} - 1, -1, -1",
            f"0, {self.extent()} - {self.literal()}",
        )
        name = f"k{next(self.count)}"
        self.line(f"for {name} in range({bounds}):")
        self.names.append(name)
        self.block(self.random.randrange(2))
        self.names.remove(name)

    def conditional(self) -> None:
        name = f"w{next(self.count)}"
        self.line(f"{name} = int({self.expression(1)})")
        self.names.append(name)
        self.line(f"while {name} < {self.pick(self.extent, self.name, self.literal)}:")
        self.block(self.random.randrange(2))
        self.line(f"    {name} = {name} + {self.random.choice((1, 1, 2, 7, -1, 1073741824))}")

    def reassignment(self) -> None:
        local = [n for n in self.names if n.startswith("v")]
        if local:
            name = self.random.choice(local)
            self.line(f"if {self.condition(1)}:")
            self.line(f"    {name} = int({self.expression()})")

    def statement(self) -> None:
        kinds = (self.access, self.assignment, self.branch, self.branch, self.counted, self.conditional)
        if self.indent > 3:
            kinds = (self.access, self.assignment, self.reassignment)
        self.random.choice((*kinds, self.reassignment))()

    def kernel(self, name: str) -> str:
        rank = self.rank
        z = "wp.array[float]" if rank == 1 else "wp.array2d[float]"
        arrays = f"y: wp.array[float], z: {z}"
        self.lines = [
            "@wp.kernel",
            f"def {name}(x: wp.array[float], m: wp.array2d[float], n: int, s: wp.int8, {arrays}):",
        ]
        self.names = ["i", "n"] if rank == 1 else ["i", "j", "n"]
        self.line("i = wp.tid()" if rank == 1 else "i, j = wp.tid()")
        self.line("total = float(0.0)")
        self.line("v = int(s)")
        self.names.append("v")
        for _ in range(self.random.randint(2, 4)):
            self.statement()
        self.access()
        self.line("z[i] = total" if rank == 1 else "z[i, j] = total")
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Program:
    """A kernel, the same as a function of Python, and the number of thread dimensions."""

    kernel: Any
    thread: Callable
    rank: int


def programs(seeds: range, folder: Path) -> list[Program]:
    """Random kernels, one for each seed."""
    writers = [Writer(seed, f"random_{seed}") for seed in seeds]
    text = HEADER + "\n\n\n".join(w.source for w in writers) + "\n"
    path = folder / f"random_kernels_{seeds.start}_{seeds.stop}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = dict(THREAD_NAMES)
    # A comment keeps the line numbers.
    exec(compile(text.replace("import jwarp", "# import jwarp"), str(path), "exec"), names)
    found = (f"random_{seed}" for seed in seeds)
    return [Program(getattr(module, n), names[n], w.rank) for n, w in zip(found, writers, strict=True)]
