"""Writes random differentiable kernels in float64 as Python source: loops, jumps, memory, vectors, functions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

HEADER = """\
import jwarp as wp

F = wp.float64


@wp.func
def spin(p: F, q: F):
    r = p
    for m in range(3):
        if m == 2 and q > F(0.4):
            break
        r = wp.sin(r) * q + F(0.3) * r
    return r, p * q


@wp.func
def settle(t: wp.array[F], p: F):
    t[0] = t[0] * p + F(0.1)
    return t[0] * t[1]


@wp.kernel
def kernel(
    x: wp.array[F],
    z: wp.array[F],
    u: wp.array[wp.vec3d],
    a: F,
    d: wp.vec3d,
    n: int,
    at: wp.array[int],
    w: wp.array2d[F],
    y: wp.array[F],
    s: wp.array[F],
):
    i = wp.tid()
    t = wp.zeros(shape=4, dtype=F)
"""
PARAMS = ("x", "z", "u", "a", "d", "n", "at", "w", "y", "s")
# By number of the parameter: those that derivatives are taken by, and of.
INPUTS, OUTPUTS = (0, 1, 2, 3, 4, 7), (7, 8, 9)


@dataclass
class Writer:
    """Draws a kernel from `rng`."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    names: int = 0
    floats: list[str] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    loops: int = 0

    def source(self) -> str:
        self.put("v0 = x[i] * F(0.7)")
        self.floats.append("v0")
        self.block(self.rng.randint(3, 7), 0)
        self.put(f"y[i] = {self.expression(2)}")
        if self.rng.random() < 0.3:
            self.put(f"y[i] = y[i] * {self.expression(1)}")
        return HEADER + "\n".join(self.lines) + "\n"

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    @contextmanager
    def inside(self) -> Iterator[None]:
        floats, counters = list(self.floats), list(self.counters)
        self.indent += 1
        yield
        self.indent -= 1
        self.floats, self.counters = floats, counters

    def block(self, count: int, depth: int) -> None:
        for _ in range(count):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        choices = [self.new] * 3 + [self.change] * 5 + [self.store] * 4 + [self.vector, self.call, self.add]
        if depth < 3:
            choices += [self.branch] * 3 + [self.counted] * 3 + [self.conditional]
        if self.loops:
            choices += [self.jump]
        elif depth and self.rng.random() < 0.05:
            self.put("return")
            return
        self.rng.choice(choices)(depth)

    def new(self, depth: int) -> None:
        name = self.fresh("v")
        self.put(f"{name} = {self.expression(2)}")
        self.floats.append(name)

    def change(self, depth: int) -> None:
        name = self.rng.choice(self.floats)
        operator = self.rng.choice(["=", "=", "+=", "*=", "-="])
        value = f"F(0.9) * wp.sin({self.expression(1)})" if operator == "*=" else self.bounded()
        self.put(f"{name} {operator} {value}")

    def store(self, depth: int) -> None:
        kind = self.rng.random()
        if kind < 0.45:
            place = f"w[i, {self.column(3)}]"
        else:
            place = f"t[{self.column(4)}]"
        self.put(f"{place} {self.rng.choice(['=', '=', '+=', '-='])} {self.bounded()}")

    def vector(self, depth: int) -> None:
        name, result = self.fresh("g"), self.fresh("v")
        self.put(f"{name} = wp.vec3d({self.expression(1)}, {self.expression(1)}, {self.expression(1)})")
        if self.rng.random() < 0.5:
            self.put(f"{name}[{self.rng.randint(0, 2)}] = {name}[{self.rng.randint(0, 2)}] * {self.bounded()}")
        other = self.rng.choice([f"wp.cross({name}, d)", "u[i]", "d", f"wp.normalize({name})"])
        self.put(f"{result} = wp.tanh(wp.dot({name}, {other}) + wp.length({name}))")
        self.floats.append(result)

    def call(self, depth: int) -> None:
        first, second = self.fresh("v"), self.fresh("v")
        if self.rng.random() < 0.6:
            self.put(f"{first}, {second} = spin({self.bounded()}, {self.bounded()})")
            self.floats += [first, second]
        else:
            self.put(f"{first} = wp.sin(settle(t, {self.bounded()}))")
            self.floats.append(first)

    def add(self, depth: int) -> None:
        self.put(f"wp.atomic_add(s, at[i], {self.bounded()})")

    def branch(self, depth: int) -> None:
        self.put(f"if {self.condition()}:")
        with self.inside():
            self.block(self.rng.randint(1, 3), depth + 1)
        if self.rng.random() < 0.5:
            self.put("else:")
            with self.inside():
                self.block(self.rng.randint(1, 2), depth + 1)

    def counted(self, depth: int) -> None:
        name = self.fresh("k")
        stop = self.rng.choice(["n", "i % 3 + 1", "4", "n - i % 2", "at[i]"])
        self.put(f"for {name} in range({stop}):")
        self.loop(depth, name)

    def conditional(self, depth: int) -> None:
        name, level = self.fresh("c"), self.rng.choice(self.floats)
        self.put(f"{name} = int(0)")
        self.put(f"while {name} < 5 and {level} < F({self.rng.uniform(0.5, 3):.3f}):")
        with self.inside():
            self.put(f"{name} += 1")
            self.put(f"{level} += F({self.rng.uniform(0.1, 0.6):.3f}) + F(0.1) * wp.sin({self.expression(1)})")
        self.loop(depth, name)

    def loop(self, depth: int, name: str) -> None:
        with self.inside():
            self.counters.append(name)
            self.loops += 1
            self.block(self.rng.randint(1, 3), depth + 1)
            self.loops -= 1

    def jump(self, depth: int) -> None:
        self.put(f"if {self.condition()}:")
        self.indent += 1
        self.put(self.rng.choice(["break", "continue"]))
        self.indent -= 1

    def fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def column(self, extent: int) -> str:
        if self.counters and self.rng.random() < 0.6:
            return f"({self.rng.choice(self.counters)} + {self.rng.randint(0, 2)}) % {extent}"
        return str(self.rng.randrange(extent))

    def condition(self) -> str:
        if self.counters and self.rng.random() < 0.4:
            return f"{self.rng.choice(self.counters)} % {self.rng.randint(2, 3)} == 1"
        return f"{self.expression(1)} {self.rng.choice(['<', '>'])} {self.expression(1)}"

    def leaf(self) -> str:
        pick = self.rng.random()
        if pick < 0.45:
            return self.rng.choice(self.floats)
        if pick < 0.55:
            return self.rng.choice(["x[i]", "z[i]", "z[i + 1]", "z[i - 1]", "z[at[i]]", "u[i][1]"])
        if pick < 0.7:
            return self.rng.choice(["a", "d[0]", "d[2]"])
        if pick < 0.8:
            return f"w[i, {self.column(3)}]"
        if pick < 0.9:
            return f"t[{self.column(4)}]"
        if self.counters and pick < 0.93:
            return f"F({self.rng.choice(self.counters)})"
        return f"F({self.rng.uniform(-1.5, 1.5):.3f})"

    def bounded(self) -> str:
        """An expression of moderate size, so that loops do not run away."""
        return f"{self.rng.choice(['wp.sin', 'wp.tanh', 'wp.cos'])}({self.expression(2)})"

    def expression(self, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.2:
            return self.leaf()
        p, q = self.expression(depth - 1), self.expression(depth - 1)
        form = self.rng.choice(
            [
                "({p} + {q})", "({p} - {q})", "{p} * {q}", "wp.sin({p})", "wp.exp(-{p} * {p})", "wp.tanh({p})",
                "wp.sqrt(F(1.1) + {p} * {p})", "{p} / (F(1.0) + {q} * {q})", "wp.min({p}, {q})", "wp.max({p}, {q})",
                "wp.abs({p})", "wp.where({p} < {q}, {q}, {p} * {p})", "wp.atan2({p}, F(1.3) + {q} * {q})",
                "wp.log(F(1.2) + {p} * {p})", "wp.pow(F(1.5) + {p} * {p}, wp.tanh({q}))",
            ]
        )  # fmt: skip
        return form.format(p=p, q=q)


def arguments(seed: int, threads: int) -> list:
    """Random arguments, one for each parameter, for that many threads."""
    rng = np.random.default_rng(seed)

    def random_array(*shape: int) -> np.ndarray:
        return rng.uniform(-1.2, 1.2, shape)

    at = rng.integers(0, 4, threads).astype(np.int32)
    return [
        random_array(threads), random_array(threads), random_array(threads, 3), float(rng.uniform(0.2, 1)),
        random_array(3), int(rng.integers(0, 5)), at, random_array(threads, 3), random_array(threads), random_array(4),
    ]  # fmt: skip
