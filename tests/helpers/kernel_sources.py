"""Writes random kernels as Python source, without races and with loops that end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from jwarp.types import SCALARS, ScalarType

COMMON = ["int32"] * 5 + ["float32"] * 5
TYPES = COMMON + ["int64", "float64", "uint8", "int8", "uint32", "uint64", "int16", "float16", "bfloat16"]
INTS = ["int32"] * 5 + ["int64", "uint8", "int8", "uint32", "uint64", "int16", "uint16"]
COMPARISONS = ["<", "<=", ">", ">=", "==", "!="]
COORDINATES = ("i", "j", "k")
MAX_DEPTH = 3


def scalar(name: str) -> ScalarType:
    return SCALARS[name]


@dataclass(frozen=True)
class Array:
    """An array. `own` is the index that belongs to one thread alone; "" for inputs, local arrays and rows."""

    name: str
    type: str
    ndim: int
    own: str = ""
    counts: bool = False
    is_local: bool = False
    whole: str = ""  # the array that it is a row of
    loops: int = 0  # how many loops are around what makes it


@dataclass(frozen=True)
class Generated:
    """A kernel's source, and how to launch it."""

    source: str
    dims: tuple[int, ...]
    arguments: tuple
    zeros: tuple[int, ...]
    is_elementary: bool  # whether functions such as exp occur, which are not exact


@dataclass
class Writer:
    """Draws a kernel from `rng`, which may be any source of choices."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    names: int = 0
    variables: list[tuple[str, str]] = field(default_factory=list)  # name and type
    constants: list[tuple[str, str]] = field(default_factory=list)  # not assigned to
    arrays: list[Array] = field(default_factory=list)
    views: list[Array] = field(default_factory=list)  # local arrays, which are written too, and rows
    local_in_loop: bool = False
    functions: list[tuple[str, list[str], list[str]]] = field(default_factory=list)
    loops: int = 0
    budget: int = 0
    first_input: str = "int32"  # the element type of x0, a 1-D array
    results: list[str] = field(default_factory=list)  # types that the function at hand returns
    in_loop: bool = False
    is_elementary: bool = False

    # -- choices

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, options):
        return options[self.rng.randrange(len(options))]

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, prefix: str = "v") -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    # -- expressions

    def literal(self, type_: str, bare: bool = False) -> str:
        kind = scalar(type_)
        if type_ == "bool":
            return self.pick(["True", "False"]) if bare else f"wp.bool({self.pick(['True', 'False'])})"
        if kind.is_float:
            text = self.pick(["0.0", "1.0", "0.5", "-2.0", "3.25", "0.1", "1e6", "-1e-3"])
            return text if bare and type_ == "float32" else f"wp.{type_}({text})"
        value = self.pick([0, 1, 2, 3, 4, 5, 7, 8, 31, 100, -1, -2, -5])
        if self.chance(0.1):
            value = self.pick([kind.max, kind.min + 1, kind.max // 2])
        return str(value) if bare and type_ == "int32" else f"wp.{type_}({value})"

    def named(self, type_: str) -> list[str]:
        return [n for n, t in self.variables + self.constants if t == type_]

    def leaf(self, type_: str) -> str:
        choices = self.named(type_) * 2
        loadable = [a for a in (*self.arrays, *self.views * 2) if a.type == type_ and not a.counts]
        if loadable and self.chance(0.35):
            return self.load(self.pick(loadable))
        if type_ == "int32" and self.arrays and self.chance(0.05):
            array = self.pick(self.arrays)
            return f"{array.name}.shape[{self.rng.randrange(array.ndim)}]"
        if choices and self.chance(0.85):
            return self.pick(choices)
        others = self.variables + self.constants
        if type_ != "bool" and others and self.chance(0.5):
            return f"wp.{type_}({self.pick(others)[0]})"
        return self.literal(type_)

    def load(self, array: Array) -> str:
        if array.own:
            return f"{array.name}[{array.own}]"
        if array.ndim > 1 and self.chance(0.2):
            return f"{array.name}{''.join(f'[{self.index()}]' for _ in range(array.ndim))}"
        if array.is_local and self.chance(0.5):  # places that may become registers
            return f"{array.name}[{', '.join(str(self.rng.randrange(-1, 3)) for _ in range(array.ndim))}]"
        return f"{array.name}[{', '.join(self.index() for _ in range(array.ndim))}]"

    def index(self) -> str:
        coordinates = [n for n, t in self.constants if n in COORDINATES] or ["3"]
        last = coordinates[-1]
        form = self.rng.randrange(10)
        if form < 2:
            return last
        if form < 4:
            return f"{self.pick(coordinates)} {self.pick('+-')} {self.rng.randrange(4)}"
        if form == 4:
            return f"{self.rng.randrange(8)} - {last}"
        if form == 5:
            return f"{last} * {self.pick([2, 3, -1])} + {self.rng.randrange(3)}"
        if form == 6:
            return f"{self.pick(coordinates)} + {self.expression('int32', 2)} % 5"
        return self.expression(self.pick(INTS), 2)

    def operand_pair(self, type_: str, depth: int) -> tuple[str, str]:
        x, y = self.expression(type_, depth), self.expression(type_, depth)
        if type_ in ("int32", "float32") and self.chance(0.3):
            y = self.literal(type_, bare=True)
        return (y, x) if self.chance(0.2) else (x, y)

    def expression(self, type_: str, depth: int = 0) -> str:
        """An expression of the type, in brackets where that matters."""
        depth += 1
        if depth > MAX_DEPTH or self.chance(0.2):
            return self.leaf(type_)
        if type_ == "bool":
            return self.condition(depth)
        form = self.rng.randrange(12)
        if form == 0:
            source = self.pick([*TYPES, "bool"])
            return f"wp.{type_}({self.expression(source, depth)})"
        if form == 1:
            x, y = self.expression(type_, depth), self.expression(type_, depth)
            return f"({x} if {self.expression('bool', depth)} else {y})"
        if form == 2:
            x, y = self.expression(type_, depth), self.expression(type_, depth)
            return f"wp.where({self.expression('bool', depth)}, {x}, {y})"
        if form == 3:
            return f"{self.pick(['min', 'max', 'wp.min', 'wp.max'])}({', '.join(self.pair(type_, depth))})"
        if form == 4:
            return self.unary(type_, depth)
        if form == 5 and self.functions:
            calls = [f for f in self.callable if f[2] == [type_]]
            if calls:
                return self.call(self.pick(calls), depth)
        return self.binary(type_, depth)

    def pair(self, type_: str, depth: int) -> tuple[str, str]:
        return self.expression(type_, depth), self.expression(type_, depth)

    def unary(self, type_: str, depth: int) -> str:
        x = self.expression(type_, depth)
        if self.is_elementary and type_ == "float32" and self.chance(0.7):
            name = self.pick(["sin", "cos", "tan", "exp", "log", "tanh", "pow", "atan2", "fma"])
            more = {"pow": 1, "atan2": 1, "fma": 2}.get(name, 0)
            return f"wp.{name}({', '.join([x, *(self.expression(type_, depth) for _ in range(more))])})"
        if scalar(type_).is_float:
            name = self.pick(["-", "abs", "wp.sqrt", "wp.floor", "wp.ceil", "wp.trunc", "wp.round", "wp.rint"])
        else:
            name = self.pick(["-", "~", "abs"])
        if name in "-~":
            return f"({name}({x}))"
        return f"{name}({x})"

    def binary(self, type_: str, depth: int) -> str:
        x, y = self.operand_pair(type_, depth)
        if scalar(type_).is_float:
            operator = self.pick(["+", "-", "*", "+", "-", "*", "/", "//", "%"])
        else:
            operator = self.pick(["+", "-", "*", "+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>"])
        return f"({x} {operator} {y})"

    def condition(self, depth: int) -> str:
        form = self.rng.randrange(8)
        if form == 0:
            return f"(not {self.expression('bool', depth)})"
        if form in (1, 2):
            parts = [self.expression("bool", depth) for _ in range(self.pick([2, 2, 3]))]
            return "(" + self.pick([" and ", " or "]).join(parts) + ")"
        if form == 3:
            x, y, z = (self.expression("int32", depth) for _ in range(3))
            return f"({x} <= {y} < {z})"
        if form == 4:
            return self.leaf("bool")
        x, y = self.operand_pair(self.pick(TYPES), depth)
        return f"({x} {self.pick(COMPARISONS)} {y})"

    @property
    def callable(self) -> list[tuple[str, list[str], list[str]]]:
        """The functions whose arguments are at hand: some take the array x0."""
        has_array = any(a.name == "x0" for a in self.arrays)
        return [f for f in self.functions if has_array or "x0" not in f[1]]

    def call(self, function: tuple[str, list[str], list[str]], depth: int) -> str:
        name, params, _ = function
        fitting = [a.name for a in self.views if a.type == self.first_input and a.ndim == 1]
        args = (self.pick(["x0", *fitting]) if t == "x0" else self.expression(t, depth) for t in params)
        return f"{name}({', '.join(args)})"

    # -- statements

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names that are first assigned inside are not read outside."""
        known, views, indent = len(self.variables), len(self.views), self.indent
        self.indent += 1
        yield
        del self.variables[known:]
        del self.views[views:]
        self.indent = indent

    def block(self, count: int) -> None:
        for _ in range(count):
            if self.budget <= 0:
                break
            self.statement()
        self.line("pass")

    def statement(self) -> None:
        self.budget -= 1
        makers = [self.assign] * 4 + [self.reassign] * 5 + [self.branch] * 4 + [self.guarded_load] * 2
        makers += [self.swap, self.jump, self.jump]
        if self.loops < 2:
            makers += [self.counted] * 3 + [self.conditional]
        if self.functions:
            makers += [self.several]
        if self.arrays and not self.results:
            makers += [self.store] * 5 + [self.count] * 2 + [self.make_local, self.make_row, self.change_row]
            makers += [self.store_local] * (3 if self.views else 0)
        self.pick(makers)()

    def assign(self) -> None:
        type_ = self.pick([*TYPES, "bool"])
        value = self.expression(type_)
        self.variables.append((self.fresh(), type_))
        self.line(f"{self.variables[-1][0]} = {value}")

    def reassign(self) -> None:
        if not self.variables:
            return self.assign()
        name, type_ = self.pick(self.variables)
        if type_ != "bool" and self.chance(0.4):
            operator = self.pick(["+", "-", "*"])
            return self.line(f"{name} {operator}= {self.expression(type_)}")
        return self.line(f"{name} = {self.expression(type_)}")

    def swap(self) -> None:
        type_ = self.pick(TYPES)
        names = [n for n, t in self.variables if t == type_]
        if len(names) < 2:
            return self.assign()
        x, y = self.pick(names), self.pick(names)
        return self.line(f"{x}, {y} = {self.pick([y, self.expression(type_)])}, {x}")

    def several(self) -> None:
        functions = [f for f in self.callable if len(f[2]) > 1]
        if not functions:
            return self.assign()
        function = self.pick(functions)
        call = self.call(function, 1)
        made = [(self.fresh(), t) for t in function[2]]
        self.variables += made
        return self.line(f"{', '.join(n for n, _ in made)} = {call}")

    def branch(self) -> None:
        test = self.expression(self.pick(["bool", "bool", "bool", "int32"]))
        self.line(f"if {test}:")
        with self.scope():
            self.block(self.rng.randrange(1, 4))
        if self.chance(0.3):
            self.line(f"elif {self.expression('bool')}:")
            with self.scope():
                self.block(self.rng.randrange(1, 3))
        if self.chance(0.5):
            self.line("else:")
            with self.scope():
                self.block(self.rng.randrange(1, 3))

    def guarded_load(self) -> None:
        """An access under the conditions that keep it inside its array."""
        arrays = [a for a in self.arrays if not a.own and not a.counts and a.ndim == 1]
        if not arrays or not self.variables:
            return self.assign()
        array = self.pick(arrays)
        offset = self.rng.randrange(-3, 4)
        base = self.pick(self.named("int32") or ["2"])
        index = f"{base} + {offset}" if offset >= 0 else f"{base} - {-offset}"
        last = self.pick([f"{array.name}.shape[0]", f"len({array.name})"])
        low = self.pick([f"{base} >= {-offset}", f"{index} >= 0", f"not {base} < {-offset}"])
        high = self.pick([f"{index} < {last}", f"{base} < {last} - {offset}", f"not {last} <= {index}"])
        targets = [n for n, t in self.variables if t == array.type]
        use = f"{self.pick(targets)} = " if targets else f"{self.fresh('u')} = "
        return self.line(f"if {low} and {high}: {use}{array.name}[{index}]")

    def bound(self, type_: str) -> str:
        form = self.rng.randrange(4)
        if form == 0 and type_ == "int32":
            return str(self.rng.randrange(-2, 7))
        if form == 1:
            return f"wp.{type_}({self.rng.randrange(0, 6)})"
        return f"(({self.expression(type_, 1)}) & wp.{type_}({self.pick([3, 5, 7])}))"

    def counted(self) -> None:
        type_ = self.pick(["int32"] * 6 + ["int64", "uint8", "uint32", "int8"])
        lo, hi = self.bound(type_), self.bound(type_)
        form = self.rng.randrange(5)
        bounds = {0: hi, 1: f"{lo}, {hi}"}.get(form)
        if bounds is None:
            step = str(self.pick([1, 2, 3, -1, -2, -3]))
            if self.chance(0.2) and type_ == "int32":
                # Not what may turn out to be a constant: a constant step of zero is refused.
                known = [n for n, t in self.constants if t == type_ and not self.results]
                step = f"({self.pick(known)} % 4)" if known else "2"
            bounds = f"{lo}, {hi}, {step}"
        index = self.fresh("n")
        self.line(f"for {index} in range({bounds}):")
        self.body((index, type_))

    def body(self, index: tuple[str, str] | None, first: str = "") -> None:
        loops, before, constants = self.loops, self.in_loop, list(self.constants)
        self.loops, self.in_loop = loops + 1, True
        with self.scope():
            if first:
                self.line(first)
            if index:
                self.constants.append(index)
            self.block(self.rng.randrange(1, 4))
        self.loops, self.in_loop, self.constants = loops, before, constants

    def conditional(self) -> None:
        counter = self.fresh("c")
        self.line(f"{counter} = int(0)")
        test = f"{counter} < {self.rng.randrange(1, 7)}"
        if self.chance(0.6):
            test = self.pick([f"{test} and {self.expression('bool')}", f"{self.expression('bool')} and {test}"])
        self.line(f"while {test}:")
        before = list(self.constants)
        self.constants.append((counter, "int32"))
        self.body(None, f"{counter} += 1")
        self.constants = before

    def jump(self) -> None:
        options = ["break", "continue"] * 2 if self.in_loop else []
        if self.chance(0.5) or not options:
            if self.results:
                options = [f"return {', '.join(self.expression(t) for t in self.results)}"]
            elif self.chance(0.5):
                options.append("return")
        if not options:
            return self.reassign()
        self.line(f"if {self.expression('bool')}:")
        with self.scope():
            self.block(self.rng.randrange(0, 2))
            self.lines.pop()
            self.line(self.pick(options))
        return None

    def store(self) -> None:
        arrays = [a for a in self.arrays if a.own]
        if not arrays:
            return self.assign()
        array = self.pick(arrays)
        element, value = f"{array.name}[{array.own}]", self.expression(array.type)
        may_add = array.type not in ("bool", "float16", "bfloat16")
        operator = self.pick(["+=", "-=", "*="]) if may_add and self.chance(0.4) else "="
        return self.line(f"{element} {operator} {value}")

    def make_local(self) -> None:
        if len([a for a in self.views if a.is_local]) > 2 or (self.loops and self.local_in_loop):
            return self.store_local()
        # Unrolled loops have one for each trip, and there is not much room.
        self.local_in_loop |= self.loops > 0
        shape = [self.rng.randrange(1, 3 if self.loops else 6) for _ in range(self.pick([1, 1, 2]))]
        made = Array(
            self.fresh("t"), self.pick([*TYPES, self.first_input, "bool"]), len(shape), is_local=True, loops=self.loops
        )
        written = str(shape[0]) if len(shape) == 1 else f"({', '.join(map(str, shape))})"
        self.line(f"{made.name} = wp.{self.pick(['zeros', 'zeros', 'empty'])}(shape={written}, dtype=wp.{made.type})")
        return self.views.append(made)

    def store_local(self) -> None:
        arrays = [a for a in self.views if a.is_local]
        if not arrays:
            return self.assign()
        array = self.pick(arrays)
        operator = self.pick(["+=", "-=", "*=", "="]) if array.type != "bool" else "="
        return self.line(f"{self.load(array)} {operator} {self.expression(array.type)}")

    def slice_bound(self) -> str:
        """A bound of a slice, often left out."""
        form = self.rng.randrange(5)
        return "" if form < 2 else str(self.rng.randrange(-4, 7)) if form < 4 else self.expression("int32", 2)

    def make_slice(self) -> None:
        arrays = [a for a in (*self.arrays, *self.views) if not a.own and not a.counts]
        if not arrays:
            return self.make_local()
        array = self.pick(arrays)
        made = Array(self.fresh("r"), array.type, array.ndim, is_local=array.is_local, loops=self.loops)
        coordinates = [n for n, t in self.constants if n in COORDINATES]  # no step is known to be zero
        steps = ["", "", ":2", ":-1", ":-2", *(f":{n} - {self.rng.randrange(1, 4)}" for n in coordinates)]
        step = self.pick(steps)
        slices = [f"{self.slice_bound()}:{self.slice_bound()}{step}", *[":"] * (array.ndim - 1)]
        self.rng.shuffle(slices)
        self.line(f"{made.name} = {array.name}[{', '.join(slices)}]")
        return self.views.append(made)

    def make_row(self) -> None:
        if self.chance(0.4):
            return self.make_slice()
        arrays = [a for a in (*self.arrays, *self.views) if a.ndim > 1 and not a.own and not a.counts]
        if not arrays:
            return self.make_local()
        array = self.pick(arrays)
        row = Array(
            self.fresh("r"), array.type, array.ndim - 1, is_local=array.is_local, whole=array.name, loops=self.loops
        )
        self.line(f"{row.name} = {array.name}[{self.expression('int32')}]")
        return self.views.append(row)

    def change_row(self) -> None:
        """Let a name stand for another row of the same array, or for another array."""
        if self.chance(0.6):
            return self.change_view()
        rows = [a for a in self.views if a.whole]
        if not rows:
            return self.make_row()
        row = self.pick(rows)
        return self.line(f"{row.name} = {row.whole}[{self.expression('int32')}]")

    def change_view(self) -> None:
        """Let a name stand for another array that is there in the next iteration, too."""
        views = [a for a in self.views if a.name.startswith("r")]
        if not views:
            return self.make_row()
        view = self.pick(views)
        alike = [
            a for a in (*self.arrays, *self.views)
            if (a.type, a.ndim, a.is_local) == (view.type, view.ndim, view.is_local) and not a.own and not a.counts
        ]  # fmt: skip
        others = [a for a in alike if a.loops <= view.loops]
        other = self.pick(others)
        form = self.rng.randrange(4)
        if form == 0 and other in views and view.loops <= other.loops:
            return self.line(f"{view.name}, {other.name} = {other.name}, {view.name}")
        shown = f"{other.name}[{self.slice_bound()}:]" if view.ndim == 1 and form == 1 else other.name
        if form == 2:
            shown = f"{shown} if {self.expression('bool')} else {view.name}"
        return self.line(f"{view.name} = {shown}")

    def count(self) -> None:
        arrays = [a for a in self.arrays if a.counts]
        if not arrays:
            return self.store()
        array = self.pick(arrays)
        index = ", ".join(self.index() for _ in range(array.ndim))
        return self.line(f"{array.name}[{index}] {self.pick(['+=', '+=', '-='])} {self.expression(array.type)}")

    # -- functions and kernels

    def function(self) -> None:
        name = f"f{len(self.functions)}"
        params = [(f"p{k}", self.pick(TYPES)) for k in range(self.rng.randrange(1, 4))]
        self.results = [self.pick(TYPES) for _ in range(self.pick([1, 1, 2]))]
        self.lines.append("@wp.func")
        header = [f"{n}: wp.{t}" for n, t in params]
        takes_array = self.chance(0.4)
        if takes_array:
            self.arrays = [Array("x0", self.first_input, 1)]
            header.append(f"x0: wp.array[wp.{self.first_input}]")
        self.lines.append(f"def {name}({', '.join(header)}):")
        self.variables, self.budget = list(params), 5
        self.block(self.rng.randrange(0, 4))
        self.line(f"return {', '.join(self.expression(t) for t in self.results)}")
        self.lines.append("")
        types = [t for _, t in params]
        self.functions.append((name, [*types, "x0"] if takes_array else types, self.results))
        self.results, self.variables, self.arrays = [], [], []

    def kernel(self) -> Generated:
        self.lines = ["from __future__ import annotations", "import jwarp as wp", ""]
        self.is_elementary = self.chance(0.1)
        self.first_input = self.pick([*TYPES, "int32", "bool"])
        for _ in range(self.rng.randrange(0, 3)):
            self.function()
        rank = self.pick([1, 1, 1, 2, 2, 3])
        dims = tuple(self.rng.randrange(1, [[70], [5, 36], [3, 3, 20]][rank - 1][axis] + 1) for axis in range(rank))
        values: dict[str, object] = {}
        scalars = [(f"s{k}", self.pick([*TYPES, "bool"])) for k in range(self.rng.randrange(0, 3))]
        scalars += [("n", "int32"), ("width", "int32")]
        own = COORDINATES[:rank]
        self.arrays = [Array("x0", self.first_input, 1)]
        self.arrays += [
            Array(f"x{k}", self.pick([*TYPES, "int32", "bool"]), self.pick([1, 1, 1, 2, 3]))
            for k in range(1, self.rng.randrange(1, 4))
        ]
        self.arrays += [self.owned(f"y{k}", own) for k in range(self.rng.randrange(1, 4))]
        self.arrays += [Array("a", self.pick(INTS), self.pick([1, 1, 2]), counts=True)] * self.chance(0.6)
        written = [f"{a.name}: wp.array{a.ndim}d[wp.{a.type}]" for a in self.arrays]
        header = ", ".join([*written, *(f"{n}: wp.{t}" for n, t in scalars)])
        self.lines += ["@wp.kernel", f"def kernel({header}):", f"    {', '.join(own)} = wp.tid()"]
        self.constants = [(n, "int32") for n in own] + scalars
        self.budget = self.rng.randrange(4, 16)
        self.block(self.budget)
        for array in self.arrays:
            if array.own and self.chance(0.6):
                self.line(f"{array.name}[{array.own}] = {self.expression(array.type)}")
        for array in self.arrays:
            shape = [self.extent(dims, axis, array.ndim) for axis in range(array.ndim)]
            values[array.name] = random_array(self.rng, array.type, tuple(shape))
        for name, type_ in scalars:
            values[name] = random_array(self.rng, type_, (1,))[0]
        values["n"], values["width"] = np.int32(max(0, self.near(dims[-1]))), np.int32(dims[-1] + self.pick([0, 1, 5]))
        zeros = [p for p, a in enumerate(self.arrays) if a.own and self.chance(0.4)]
        for p in zeros:
            values[self.arrays[p].name] = np.zeros_like(values[self.arrays[p].name])
        return Generated("\n".join(self.lines) + "\n", dims, tuple(values.values()), tuple(zeros), self.is_elementary)

    def owned(self, name: str, own: tuple[str, ...]) -> Array:
        """An in-out array with an index that no other thread has."""
        type_ = self.pick([*TYPES, "bool"])
        if len(own) == 1:
            return Array(name, type_, 1, self.pick(["i"] * 4 + ["i + 1", "2 * i", "2 * i + 1", "wp.int64(i)"]))
        if len(own) == 2 and self.chance(0.3):
            return Array(name, type_, 1, "i * width + j")
        index = list(own)
        if self.chance(0.2):
            index = index[::-1]
        return Array(name, type_, len(own), ", ".join(index))

    def near(self, n: int) -> int:
        return n + self.pick([0, 0, 0, 0, 1, -1, 3, -3, 9, -9])

    def extent(self, dims: tuple[int, ...], axis: int, ndim: int) -> int:
        n = dims[len(dims) - ndim + axis] if ndim <= len(dims) else dims[-1]
        n = int(np.prod(dims)) if ndim == 1 and self.chance(0.3) else n
        return 0 if self.chance(0.03) else max(0, self.near(n))


def random_array(rng: random.Random, type_: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small values mostly, some at the ends of the type, some not finite."""
    kind = scalar(type_)
    made = np.random.default_rng(rng.randrange(1 << 30))
    if type_ == "bool":
        return made.random(shape) < 0.5
    if kind.is_int:
        small = made.integers(0 if kind.kind == "uint" else -9, 20, shape)
        ends = made.choice(np.array([kind.min, kind.max, kind.max - 1], kind.dtype), shape)
        return np.where(made.random(shape) < 0.9, small.astype(kind.dtype), ends)
    whole, real = made.integers(-9, 10, shape).astype(float), made.normal(0, 3, shape)
    odd = made.choice([np.nan, np.inf, -np.inf, -0.0, 1e30, 1e-40], shape)
    chosen = np.where(made.random(shape) < 0.5, whole, np.where(made.random(shape) < 0.9, real, odd))
    with np.errstate(all="ignore"):
        return chosen.astype(kind.dtype)


def load(source: str, folder: Path) -> Any:
    """The kernel that `source` defines, read from a file, as kernels are."""
    path = folder / f"fuzz_{abs(hash(source)):x}.py"
    path.write_text(source)
    code: CodeType = compile(source, str(path), "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    return names["kernel"]
