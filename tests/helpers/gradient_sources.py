"""Writes random differentiable kernels as Python source: loops, jumps, memory, vectors, matrices, functions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

FUNCTIONS = """\
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
def pick(p: F, q: F, v: wp.vec3d):
    if p < q:
        return wp.tanh(p * q), v
    c = int(0)
    r = q
    while c < 4:
        c += 1
        if c == 2:
            continue
        r = wp.sin(r + p)
        if r > F(0.5):
            return r, v * wp.tanh(p)
    return r, wp.vec3d(r, v[0], p)


@wp.func
def settle(t: wp.array[F], p: F):
    t[0] = t[0] * p + F(0.1)
    return t[0] * t[1]


@wp.func
def blend(row: wp.array[F], p: F):
    total = F(0.0)
    for m in range(row.shape[0]):
        total = total * wp.sin(p) + row[m]
    return wp.tanh(total)


"""
OWN = {1: ("i",), 2: ("i, j", "j, i")}
# For each parameter its type, where `own` stands for the axes of the launch; those that derivatives are taken by
# and of are marked so.
PARAMS = {
    "x": ("own F", "in"),
    "z": ("array[F]", "in"),
    "u": ("own wp.vec3d", "in"),
    "q": ("array[wp.mat22d]", "in"),
    "a": ("F", "in"),
    "d": ("wp.vec3d", "in"),
    "b": ("wp.mat22d", "in"),
    "h": ("float", "in"),
    "g": ("array2d[F]", "in"),
    "n": ("int", ""),
    "at": ("own int", ""),
    "w": ("own+1 F", "in out"),
    "r": ("own wp.vec3d", "in out"),
    "y": ("own F", "in out"),
    "s": ("array[F]", "in out"),
    "low": ("array[F]", "in out"),
    "high": ("array[F]", "in out"),
}
INPUTS = tuple(k for k, (_, use) in enumerate(PARAMS.values()) if "in" in use)
OUTPUTS = tuple(k for k, (_, use) in enumerate(PARAMS.values()) if "out" in use)


def annotation(type: str, rank: int) -> str:
    array, _, dtype = type.rpartition(" ")
    if not array:
        return f"wp.{dtype}" if dtype.startswith("array") else dtype
    dims = rank + array.endswith("+1")
    return f"wp.array{f'{dims}d' if dims > 1 else ''}[{dtype}]"


def header(rank: int) -> str:
    params = "".join(f"    {name}: {annotation(type, rank)},\n" for name, (type, _) in PARAMS.items())
    coordinates = {1: "i = wp.tid()", 2: "i, j = wp.tid()"}[rank]
    return f"{FUNCTIONS}@wp.kernel\ndef kernel(\n{params}):\n    {coordinates}\n    t = wp.zeros(shape=4, dtype=F)\n"


@dataclass
class Writer:
    """Draws a kernel from `rng`. Each thread stores to elements of its own, `own`; with `mixed`, floats are rounded."""

    rng: random.Random
    mixed: bool = False
    rank: int = 1
    own: str = "i"
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    names: int = 0
    floats: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)
    matrices: list[str] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    loops: int = 0

    def source(self) -> str:
        self.rank = self.rng.choice([1, 1, 1, 2])
        self.own = self.rng.choice(OWN[self.rank])
        self.put(f"v0 = x[{self.own}] * F(0.7)")
        self.floats.append("v0")
        self.block(self.rng.randint(3, 8), 0)
        if self.rng.random() < 0.9:
            self.put(f"y[{self.own}] = {self.expression(2)}")
        if self.rng.random() < 0.3:
            self.put(f"y[{self.own}] = y[{self.own}] * {self.expression(1)}")
        return header(self.rank) + "\n".join(self.lines) + "\n"

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    @contextmanager
    def inside(self) -> Iterator[None]:
        scopes = [list(names) for names in (self.floats, self.vectors, self.matrices, self.counters)]
        self.indent += 1
        yield
        self.indent -= 1
        self.floats, self.vectors, self.matrices, self.counters = scopes

    def block(self, count: int, depth: int) -> None:
        for _ in range(count):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        choices = [self.new] * 3 + [self.change] * 5 + [self.store] * 4 + [self.vector] * 2 + [self.matrix]
        choices += [self.call, self.call, self.add, self.extremum, self.element, self.exchange, self.exchange]
        if depth < 3:
            choices += [self.branch] * 3 + [self.counted] * 3 + [self.conditional] * 2
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

    def exchange(self, depth: int) -> None:
        """Values that only move from name to name."""
        p, q = self.rng.choice(self.floats), self.rng.choice(self.floats)
        if p != q:
            self.put(self.rng.choice([f"{p} = {q}", f"{p}, {q} = {q}, {p}"]))
        else:
            self.put(f"{p} = {self.rng.choice(['F(0.25)', 'a', f'x[{self.own}]'])}")

    def store(self, depth: int) -> None:
        if self.rng.random() < 0.1:
            name = self.fresh("v")
            self.put(f"{name} = wp.{self.rng.choice(['atomic_add', 'atomic_exch'])}(w, {self.own}, "
                     f"{self.column(3)}, {self.bounded()})")  # fmt: skip
            self.floats.append(name)
            return
        place = f"w[{self.own}, {self.column(3)}]" if self.rng.random() < 0.45 else f"t[{self.column(4)}]"
        operator = self.rng.choice(["=", "=", "+=", "-=", "*="])
        self.put(f"{place} {operator} {self.bounded()}")

    def element(self, depth: int) -> None:
        """Change a vector in memory, whole or by component."""
        place, value = f"r[{self.own}]", self.vector_expression()
        component = self.rng.choice(["[0]", ".y", f"[{self.column(3)}]"])
        self.put(self.rng.choice([
            f"{place} = {value}", f"{place} += {value}", f"{place}{component} = {self.bounded()}",
            f"{place}{component} += {self.bounded()}", f"{place} = {place} * {self.bounded()}",
        ]))  # fmt: skip

    def vector(self, depth: int) -> None:
        result = self.fresh("v")
        if not self.vectors or self.rng.random() < 0.4:
            name = self.fresh("g")
            self.put(f"{name} = {self.vector_expression()}")
            self.vectors.append(name)
        name = self.rng.choice(self.vectors)
        if self.rng.random() < 0.4:
            self.put(f"{name}[{self.column(3)}] = {name}[{self.rng.randint(0, 2)}] * {self.bounded()}")
        elif self.rng.random() < 0.5:
            value = self.rng.choice([f"F(0.5) * ({name} + {self.vector_expression()})", self.vector_expression()])
            self.put(f"{name} = {value}")
        self.put(f"{result} = wp.tanh(wp.dot({name}, {self.vector_expression()}) + wp.length({name}))")
        self.floats.append(result)

    def matrix(self, depth: int) -> None:
        if not self.matrices or self.rng.random() < 0.4:
            name, numbers = self.fresh("m"), ", ".join(self.leaf() for _ in range(4))
            self.put(f"{name} = {self.rng.choice([f'wp.mat22d({numbers})', 'q[i]', 'b'])}")
            self.matrices.append(name)
        name, other = self.rng.choice(self.matrices), self.rng.choice([*self.matrices, "b", "q[i]", "q[i + 1]"])
        self.put(self.rng.choice([
            f"{name}[{self.column(2)}, {self.rng.randint(0, 1)}] = {self.bounded()}",
            f"{name} = F(0.3) * {name} @ {other}",
            f"{name} = wp.transpose({name}) - F(0.2) * {other}",
            f"{name}[1] = wp.vec2d({self.leaf()}, {self.leaf()})",
            f"{name} = wp.inverse(wp.mat22d(F(1.5) + {name}[0, 0] * {name}[0, 0], a, -a, F(1.5)))",
        ]))  # fmt: skip
        result = self.fresh("v")
        value = self.rng.choice([
            f"wp.determinant({name})", f"wp.trace({name} @ {other})", f"wp.ddot({name}, {other})",
            f"wp.length({name} * wp.vec2d({self.leaf()}, {self.leaf()}))", f"{name}[0][1]",
        ])  # fmt: skip
        self.put(f"{result} = wp.tanh({value})")
        self.floats.append(result)

    def call(self, depth: int) -> None:
        first, second = self.fresh("v"), self.fresh("v")
        kind = self.rng.random()
        if kind < 0.3:
            self.put(f"{first}, {second} = spin({self.bounded()}, {self.bounded()})")
            self.floats += [first, second]
        elif kind < 0.6:
            name = self.fresh("g")
            self.put(f"{first}, {name} = pick({self.bounded()}, {self.bounded()}, {self.vector_expression()})")
            self.floats.append(first)
            self.vectors.append(name)
        else:
            row = self.rng.choice(["g[i]", f"w[{self.own}]", "g[at[" + self.own + "]]", "t"])
            value = f"settle(t, {self.bounded()})" if kind < 0.75 else f"blend({row}, {self.bounded()})"
            self.put(f"{first} = wp.sin({value})")
            self.floats.append(first)

    def add(self, depth: int) -> None:
        place = self.rng.choice([f"at[{self.own}]", self.column(4)])
        self.put(self.rng.choice([
            f"wp.atomic_add(s, {place}, {self.bounded()})", f"wp.atomic_sub(s, {place}, {self.bounded()})",
            f"s[{place}] += {self.bounded()}",
        ]))  # fmt: skip

    def extremum(self, depth: int) -> None:
        name, scale = self.rng.choice([("min", "low"), ("max", "high")])
        self.put(f"wp.atomic_{name}({scale}, at[{self.own}], {self.rng.choice(['', 'F(0.8) * '])}{self.bounded()})")

    def branch(self, depth: int) -> None:
        self.put(f"if {self.condition()}:")
        with self.inside():
            self.block(self.rng.randint(1, 3), depth + 1)
        if self.rng.random() < 0.5:
            self.put("else:")
            with self.inside():
                self.block(self.rng.randint(1, 2), depth + 1)

    def counted(self, depth: int) -> None:
        name, own = self.fresh("k"), f"at[{self.own}]"
        limits = self.rng.choice([
            "n", "i % 3 + 1", "4", "n - i % 2", own, "n, 0, -1", "0, n + 2, 2", f"{own}, -1, -2", "1, n + 1",
            "0, 5, i % 3 + 1", "3, -2, -1 - n", "0, 5, n", f"{own}, n",
        ])  # fmt: skip
        self.put(f"for {name} in range({limits}):")
        self.loop(depth, name)

    def conditional(self, depth: int) -> None:
        name = self.fresh("c")
        self.put(f"{name} = int(0)")
        level = self.rng.choice(self.floats)
        if self.rng.random() < 0.3:
            self.put(f"while {name} < 5:")
        else:
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

    def vector_expression(self) -> str:
        name = self.rng.choice([*self.vectors, "d", f"u[{self.own}]", f"r[{self.own}]"])
        p, q = self.leaf(), self.leaf()
        return self.rng.choice([
            name, name, f"wp.vec3d({p}, {q}, {name}[0])", f"wp.cross({name}, d)", f"wp.normalize({name})",
            f"wp.tanh({p}) * {name}", f"wp.lerp({name}, d, {p})", f"wp.min({name}, u[{self.own}])",
            f"wp.smooth_normalize({name}, F(0.7))", f"wp.cw_mul({name}, d)", f"({name} - d)",
        ])  # fmt: skip

    def leaf(self) -> str:
        pick = self.rng.random()
        if pick < 0.42:
            return self.rng.choice(self.floats)
        if pick < 0.55:
            places = ["z[i]", "z[i + 1]", "z[i - 1]", f"z[at[{self.own}]]", "g[i, 1]", "g[i, 0]", "q[i][1, 0]"]
            places += ["z[j]", "g[j, i % 4]"] if self.rank == 2 else []
            return self.rng.choice([f"x[{self.own}]", f"u[{self.own}][1]", *places])
        if pick < 0.7:
            return self.rng.choice(["a", "d[0]", "d[2]", "b[0, 1]", "F(h)" if self.mixed else "a"])
        if pick < 0.8:
            return self.rng.choice([f"w[{self.own}, {self.column(3)}]", f"r[{self.own}][{self.column(3)}]"])
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
        rounded = ["F(wp.float32({p}) * h)", "F(wp.sin(wp.float32({p})))"] if self.mixed else []
        form = self.rng.choice(
            [
                "({p} + {q})", "({p} - {q})", "{p} * {q}", "wp.sin({p})", "wp.exp(-{p} * {p})", "wp.tanh({p})",
                "wp.sqrt(F(1.1) + {p} * {p})", "{p} / (F(1.0) + {q} * {q})", "wp.min({p}, {q})", "wp.max({p}, {q})",
                "wp.abs({p})", "wp.where({p} < {q}, {q}, {p} * {p})", "wp.atan2({p}, F(1.3) + {q} * {q})",
                "wp.log(F(1.2) + {p} * {p})", "wp.pow(F(1.5) + {p} * {p}, wp.tanh({q}))",
                "wp.clamp({p}, F(-0.7), {q} * {q})", "({p} if {p} > F(0.1) else {q})", "wp.acos(F(0.6) * wp.tanh({p}))",
                *rounded,
            ]
        )  # fmt: skip
        return form.format(p=p, q=q)


def arguments(seed: int, dims: tuple[int, ...], own: str) -> list:
    """Random arguments, one for each parameter, for a launch over `dims`."""
    rng = np.random.default_rng(seed)
    shape = dims[::-1] if own == "j, i" else dims

    def random_array(*shape: int) -> np.ndarray:
        return rng.uniform(-1.2, 1.2, shape)

    made = {
        "x": random_array(*shape), "z": random_array(dims[0]), "u": random_array(*shape, 3),
        "q": random_array(dims[0], 2, 2), "a": float(rng.uniform(0.2, 1)), "d": random_array(3),
        "b": random_array(2, 2), "h": float(rng.uniform(-1, 1)), "g": random_array(dims[0], 4),
        "n": int(rng.integers(0, 5)), "at": rng.integers(0, 4, shape).astype(np.int32),
        "w": random_array(*shape, 3), "r": random_array(*shape, 3), "y": random_array(*shape),
        "s": random_array(4), "low": 0.4 * random_array(4), "high": 0.4 * random_array(4),
    }  # fmt: skip
    return [made[name] for name in PARAMS]
