"""Writes random differentiable kernels whose threads store to elements of each other."""

from __future__ import annotations

from dataclasses import dataclass

import gradient_sources
import numpy as np
from gradient_sources import FUNCTIONS, annotation

# Beside those of other kernels: places, and arrays that only get stores there; `e` is read too, at places apart.
PARAMS = gradient_sources.PARAMS | {
    "to": ("own+1 int", ""),
    "apart": ("own int", ""),
    "c": ("array[F]", "in out"),
    "cv": ("array[wp.vec3d]", "in out"),
    "cm": ("array2d[F]", "in out"),
    "e": ("array[F]", "in out"),
    "count": ("array[int]", ""),
    "sl": ("array[F]", "in out"),
    "cs": ("array2d[F]", "in out"),
}
NUMBERS = {name: k for k, name in enumerate(PARAMS)}
INPUTS = tuple(k for k, (_, use) in enumerate(PARAMS.values()) if "in" in use)
TOLD = tuple(NUMBERS[name] for name in ("c", "cv", "cm", "sl", "cs"))
UNTOLD = NUMBERS["e"]
NAMES = tuple(PARAMS)


@dataclass
class Writer(gradient_sources.Writer):
    """Also stores to places that many threads have, now and then of `e`. A `small` kernel has few statements.

    Where it `counts`, threads take numbers of counters, and go by them.
    """

    small: bool = False
    counts: bool = False

    def source(self) -> str:
        source = super().source()
        head = gradient_sources.header(self.rank)
        assert source.startswith(head)
        params = "".join(f"    {name}: {annotation(type, self.rank)},\n" for name, (type, _) in PARAMS.items())
        coordinates = {1: "i = wp.tid()", 2: "i, j = wp.tid()"}[self.rank]
        start = (
            f"{FUNCTIONS}@wp.kernel\ndef kernel(\n{params}):\n    {coordinates}\n    t = wp.zeros(shape=4, dtype=F)\n"
        )
        body = source[len(head) :]
        self.lines = []
        for _ in range(self.rng.randint(1, 3)):
            self.meet()
        if self.rng.random() < 0.2:
            self.read_too()
        if self.counts:
            self.count()
            self.take_slots()
        return start + body + "".join(f"{line}\n" for line in self.lines)

    def block(self, count: int, depth: int) -> None:
        super().block(min(count, 2) if self.small else count, depth)

    def statement(self, depth: int) -> None:
        if self.rng.random() < 0.3:
            self.meet()
        elif self.counts and self.rng.random() < 0.3:
            self.count()
        else:
            super().statement(depth)

    def place(self, extent: int) -> str:
        """An index that other threads have too."""
        return self.rng.choice([
            f"to[{self.own}, {self.column(3)}]", f"to[{self.own}, {self.column(3)}]", f"at[{self.own}]", "i // 2",
            f"(i * {self.rng.randint(1, 3)} + {self.column(3)}) % {extent}", str(self.rng.randrange(extent)),
            "-1 - i % 2",
        ])  # fmt: skip

    def value(self) -> str:
        """Often one that other threads have too."""
        pick = self.rng.random()
        if pick < 0.1:
            return f"wp.max({self.bounded()}, F(0.3))"
        if pick < 0.15:
            return "F(0.25)"
        if pick < 0.2:
            return f"wp.clamp({self.leaf()}, F(-0.5), F(0.5))"
        return self.bounded() if pick < 0.6 else self.expression(2)

    def meet(self) -> None:
        self.put(self.rng.choice([
            f"c[{self.place(5)}] = {self.value()}", f"c[{self.place(5)}] = {self.value()}",
            f"wp.atomic_exch(c, {self.place(5)}, {self.value()})",
            f"cv[{self.place(4)}] = {self.vector_expression()}",
            f"cv[{self.place(4)}][{self.column(3)}] = {self.value()}",
            f"cm[{self.place(3)}, {self.place(4)}] = {self.value()}",
        ]))  # fmt: skip

    def count(self) -> None:
        """A number that depends on the threads before this one."""
        name, place = (
            self.fresh("k"),
            self.rng.choice(["0", "1", f"at[{self.own}]", f"to[{self.own}, {self.column(3)}]"]),
        )
        self.put(self.rng.choice([
            f"{name} = wp.atomic_add(count, {place}, 1)", f"{name} = wp.atomic_add(count, {place}, 1 + i % 2)",
            f"{name} = wp.atomic_sub(count, {place}, 1)", f"{name} = wp.atomic_exch(count, {place}, i + 1)",
            f"{name} = wp.atomic_max(count, {place}, i % 3 + 1)", f"{name} = wp.atomic_cas(count, {place}, 0, i + 2)",
        ]))  # fmt: skip
        self.counters.append(name)

    def take_slots(self) -> None:
        """Places that only one thread has, if nothing else has changed the counters."""
        name = self.fresh("k")
        if self.rng.random() < 0.5:
            self.put(f"{name} = wp.atomic_add(count, 4, 1)")
            self.put(f"sl[{name}] = {self.value()}")
        else:
            place = self.fresh("k")
            self.put(f"{place} = {self.place(5)}")
            self.put(f"if {place} >= 0 and {place} < count.shape[0]:")
            self.put(f"    {name} = wp.atomic_add(count, {place}, {self.rng.randint(1, 2)})")
            self.put(f"    cs[{place}, {name}] = {self.value()}")

    def read_too(self) -> None:
        place = self.rng.choice([f"apart[{self.own}]"] * 3 + [self.place(5)] * 2)
        self.put(f"e[{place}] = e[{place}] * {self.bounded()}")


def arguments(seed: int, dims: tuple[int, ...], own: str) -> list:
    """Random arguments, one for each parameter, for a launch over `dims`."""
    rng = np.random.default_rng(seed + 1)
    shape = dims[::-1] if own == "j, i" else dims
    count = int(np.prod(dims))
    made = {
        "to": rng.integers(0, 4, (*shape, 3)).astype(np.int32),
        "apart": rng.permutation(count).reshape(shape).astype(np.int32),
        "c": rng.uniform(-1.2, 1.2, 5), "cv": rng.uniform(-1.2, 1.2, (4, 3)), "cm": rng.uniform(-1.2, 1.2, (3, 4)),
        "e": rng.uniform(-1.2, 1.2, max(5, count)), "count": rng.integers(0, 3, 5).astype(np.int32),
        "sl": rng.uniform(-1.2, 1.2, 9), "cs": rng.uniform(-1.2, 1.2, (5, 6)),
    }  # fmt: skip
    return [*gradient_sources.arguments(seed, dims, own), *made.values()]
