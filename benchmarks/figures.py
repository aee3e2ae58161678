"""What a benchmark results in: figures with a column for each contender, and the targets they are held against."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from timing import Time

# Columns by their headings. In place, results are written into arrays that exist; otherwise new ones are made.
CONTENDERS = {
    "jwarp": "jwarp", "in place": "jwarp, in place", "fast": "jwarp fast", "in place ": "jwarp fast, in place",
    "warp": "warp", "in place  ": "warp, in place", "numba": "numba", "in place   ": "numba, in place",
    "jax": "jax", "numpy": "numpy, in place", "scipy": "scipy",
}  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A bound on one number of a figure. `at_least` says on which side of the bound it must be."""

    what: str
    value: float
    bound: float
    unit: str
    at_least: bool

    @property
    def met(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "met" if self.met else "NOT MET"
        return f"{self.what} {self.value:.3g}{self.unit}, target {sign} {self.bound:g}{self.unit}: {verdict}"


@dataclass(frozen=True)
class Figure:
    """One row of the table: times by contender, and the targets that follow from them."""

    name: str
    times: dict[str, Time]
    targets: tuple[Target, ...] = ()
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "note": self.note,
            "seconds": {who: dataclasses.asdict(time) for who, time in self.times.items()},
            "targets": [dataclasses.asdict(target) | {"met": target.met} for target in self.targets],
        }


def faster(times: dict[str, Time], other: str, bound: float) -> tuple[Target, ...]:
    """The target to be `bound` times as fast as `other`; none where that was not measured."""
    if other not in times:
        return ()
    ratio = times[other].least / times["jwarp"].least
    return (Target(f"faster than {other}", ratio, bound, "x", at_least=True),)


def at_most(what: str, seconds: float, bound: float, unit: str) -> tuple[Target, ...]:
    """The target to stay below a time, both given in seconds and shown in `unit`."""
    scale = UNITS[unit]
    return (Target(what, seconds / scale, bound / scale, f" {unit}", at_least=False),)


UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def format_time(time: Time | None) -> str:
    """The least time with a unit that suits it."""
    if time is None:
        return "-"
    unit = next(u for u in ("s", "ms", "us") if abs(time.least) >= UNITS[u] or u == "us")
    return f"{time.least / UNITS[unit]:.3g} {unit}"


def format_figure(figure: Figure) -> str:
    """The row of `figure`, with its targets below."""
    cells = [f"{figure.name:<40}", *(f"{format_time(figure.times.get(who)):>10}" for who in CONTENDERS.values())]
    lines = ["".join(cells)]
    lines += [f"    {target}" for target in figure.targets]
    if figure.note:
        lines.append(f"    {figure.note}")
    return "\n".join(lines)


def format_header() -> str:
    return "".join([f"{'least time of one run':<40}", *(f"{heading.strip():>10}" for heading in CONTENDERS)])


def format_verdict(figures: Iterable[Figure]) -> str:
    """How many targets are met, and which are not."""
    all_targets = [(figure.name, target) for figure in figures for target in figure.targets]
    missed = [f"    {name}: {target}" for name, target in all_targets if not target.met]
    head = f"{len(all_targets) - len(missed)} of {len(all_targets)} targets met"
    return "\n".join([head + (", not met:" if missed else ""), *missed])
