"""The directive `functions`: signatures and texts of the functions that kernels may call, from their rows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import jwarp
from jwarp.frontend.builtins.signatures import Described

# By the module that has the row of a function: the heading that it stands under.
HEADINGS = {
    "control": "Threads and loops",
    "scalar": "Scalars",
    "vector": "Vectors and matrices",
    "decompositions": "Vectors and matrices",
    "norms": "Vectors and matrices",
    "quaternion": "Quaternions and transforms",
    "rotations": "Quaternions and transforms",
    "transforms": "Quaternions and transforms",
    "spatial": "Spatial vectors",
    "random": "Random numbers",
    "noise": "Noise",
    "memory": "Arrays",
    "search": "Arrays",
    "segments": "Arrays",
    "atomic": "Atomics",
    "calls": "Tiles",
    "tile_random": "Tiles",
    "checks": "Checks and printing",
    "prints": "Checks and printing",
}


def known() -> dict[str, Described]:
    """All functions that kernels may call, by name."""
    found = {name: getattr(jwarp, name) for name in dir(jwarp) if not name.startswith("_")}
    return {name: value for name, value in found.items() if isinstance(value, Described)}


def heading(function: Described) -> str:
    """The heading of a function: that of the module where it is defined."""
    places = (getattr(function, name, None) for name in ("lower", "function", "of"))
    modules = [getattr(place, "__module__", "") or "" for place in places if place is not None]
    return next((HEADINGS[m.rpartition(".")[2]] for m in modules if m.rpartition(".")[2] in HEADINGS), "Others")


def lines(function: Described) -> Iterator[str]:
    """A function as reStructuredText."""
    for k, form in enumerate(function.each_form):
        prefix = ".. py:function:: " if k == 0 else "                 "
        yield f"{prefix}{form.text}"
    yield ""
    yield from (f"   {line}" for line in inspect.cleandoc(function.doc).splitlines())
    yield ""


class Functions(SphinxDirective):
    """`.. functions::` lists all functions, under their headings."""

    def run(self) -> list[nodes.Node]:
        """The sections of the page."""
        groups: dict[str, list[Described]] = {title: [] for title in [*dict.fromkeys(HEADINGS.values()), "Others"]}
        for _, function in sorted(known().items()):
            groups[heading(function)].append(function)
        sections: list[nodes.Node] = []
        for title, functions in groups.items():
            if functions:
                section = nodes.section(ids=[nodes.make_id(title)])
                section += nodes.title(text=title)
                text = [line for function in functions for line in lines(function)]
                self.state.nested_parse(StringList(text, "functions"), 0, section)
                sections.append(section)
        return sections


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("functions", Functions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
