"""Writes what was measured into the README and the page on performance, as tables, and draws a chart of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from figures import UNITS, Figure

ROOT = Path(__file__).parent.parent
README, PAGE, IMAGES = ROOT / "README.md", ROOT / "docs" / "performance.md", ROOT / "docs" / "images"
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

# Headings of columns, and the contender of each.
IN_PLACE = {
    "jwarp": "jwarp, in place",
    "`fast_math`": "jwarp fast, in place",
    "warp-lang": "warp, in place",
    "numba": "numba, in place",
}
NEW = {"jwarp": "jwarp", "`fast_math`": "jwarp fast", "warp-lang": "warp", "numba": "numba", "jax.jit": "jax"}
BOTH = IN_PLACE | {f"{heading}, new": who for heading, who in NEW.items()}


def table(figures: Iterable[Figure], columns: dict[str, str], unit: str) -> str:
    """A table of least times with two or three digits; a dash where nothing was measured, no row without any time."""

    def cell(figure: Figure, who: str) -> str:
        time = figure.times.get(who)
        if time is None:
            return "-"
        value = time.least / UNITS[unit]
        return f"{value:.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"

    head = ["ms" if unit == "ms" else "µs", *columns]
    timed = [figure for figure in figures if not figure.times.keys().isdisjoint(columns.values())]
    rows = [[named(figure.name), *(cell(figure, who) for who in columns.values())] for figure in timed]
    return "\n".join("|" + "|".join(row) + "|" for row in [head, ["---", *["--:"] * len(columns)], *rows])


def named(text: str) -> str:
    """The name of a figure with raised exponents."""
    return re.sub(r"\^(\d+)", lambda m: m[1].translate(SUPERSCRIPTS), text)


def machine_line(machine: dict[str, Any]) -> str:
    """Where, when and with what it was measured."""
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items() if number)
    load = f" Other programs ran meanwhile (load {machine['load']})." if machine["load"] > 0.5 else ""
    return (
        f"Measured on {machine['date']} on {machine['processor']} with {machine['threads']} threads; "
        f"Python {machine['python']}, {packages}.{load}"
    )


def replaced(text: str, mark: str, content: str) -> str:
    """A text with `content` between the comments that a mark stands in."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    head, found, rest = text.partition(begin)
    if not found or end not in rest:
        raise ValueError(f"no place for {mark}")
    return f"{head}{begin}\n{content}\n{end}{rest.partition(end)[2]}"


def write(groups: dict[str, list[Figure]], machine: dict[str, Any]) -> None:
    """Renew the tables of both texts, and the chart."""
    large = table(groups["throughput"], BOTH, "ms")
    load = f"; other programs ran, load {machine['load']}" if machine["load"] > 0.5 else ""
    where = f"*{machine['processor']}, {machine['threads']} threads, {machine['date']}{load}*"
    README.write_text(replaced(README.read_text(), "speed", f"{large}\n\n{where}"))
    page = PAGE.read_text()
    launches = {"jwarp": "jwarp", "warp-lang": "warp", "jax.jit": "jax"}
    tiles = {"jwarp": "jwarp", "warp-lang": "warp", "NumPy": "numpy", "jax.jit": "jax"}
    page = replaced(page, "machine", machine_line(machine))
    page = replaced(page, "launches", table(groups["launches"], launches, "us"))
    page = replaced(page, "throughput", table(groups["throughput"], BOTH | {"NumPy's copy": "numpy, in place"}, "ms"))
    page = replaced(page, "others", table([*groups["tiles"], *groups["gradients"]], tiles, "ms"))
    PAGE.write_text(page)
    draw(groups["throughput"])


COLOURS = {
    "jwarp": "#20304f",
    "`fast_math`": "#6d8fc7",
    "warp-lang": "#5aa469",
    "numba": "#e8a33b",
    "jax.jit": "#c95d63",
}


def draw(figures: list[Figure]) -> None:
    """A bar chart of times over jwarp's: in place at the left, with new arrays at the right."""
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import FuncFormatter

    canvas = Canvas(figsize=(13.0, 0.62 * len(figures) + 1.6), layout="constrained")
    for axes, columns, title in zip(
        canvas.subplots(1, 2, sharey=True, width_ratios=[4, 5]),
        (IN_PLACE, NEW),
        ("Into arrays that exist", "With new arrays"),
        strict=True,
    ):
        base = columns["jwarp"]
        thick = 0.8 / len(columns)
        for k, (heading, who) in enumerate(columns.items()):
            places, ratios = [], []
            for row, figure in enumerate(figures):
                if who in figure.times:
                    places.append(row + (k + 0.5) * thick - 0.4)
                    ratios.append(figure.times[who].least / figure.times[base].least)
            lengths, label = [r - 0.1 for r in ratios], heading.strip("`")
            axes.barh(places, lengths, 0.92 * thick, left=0.1, color=COLOURS[heading], label=label)
        axes.axvline(1.0, color="#20304f", linewidth=0.8, zorder=0)
        axes.set(xscale="log", xlim=(0.1, 300.0), xlabel="time, over jwarp's (less is better)")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.set_title(title, loc="left", fontweight="bold")
        axes.spines[["top", "right"]].set_visible(False)
    canvas.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=5, frameon=False)
    axes.set_yticks(range(len(figures)), [named(figure.name) for figure in figures])
    axes.set_ylim(len(figures) - 0.4, -0.6)
    for kind in ("png", "svg"):
        canvas.savefig(IMAGES / f"speed.{kind}", dpi=110, metadata={"Date": None} if kind == "svg" else None)
