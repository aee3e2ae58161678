"""The directive `functions`: signatures and texts of the functions that kernels may call, from their rows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import numpy as np
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import jwarp
from jwarp.autodiff.scalar_rules import DERIVATIVES, Applied
from jwarp.frontend.builtins.signatures import Described
from jwarp.frontend.builtins.table import BUILTINS, LIBRARY

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
    "geometry": "Geometry",
    "textures": "Textures",
    "calls": "Tiles",
    "tile_random": "Tiles",
    "checks": "Checks and printing",
    "prints": "Checks and printing",
}


def known() -> dict[str, Described]:
    """All functions that kernels may call, by name."""
    dir(jwarp)  # fills the tables
    return {name: row for name, row in (BUILTINS | LIBRARY).items() if hasattr(jwarp, name)}


def heading(function: Described) -> str:
    """The heading of a function: that of the module where it is defined."""
    places = [getattr(function, name, None) for name in ("lower", "function", "of")]
    places += [getattr(place, "function", None) for place in places]
    modules = [getattr(place, "__module__", "") or "" for place in places if place is not None]
    if any(".geometry" in module for module in modules):
        return "Geometry"
    return next((HEADINGS[m.rpartition(".")[2]] for m in modules if m.rpartition(".")[2] in HEADINGS), "Others")


# -- derivatives, as text

SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "and": "and",
}


class Written:
    """A value that is known by its formula."""

    def __init__(self, text: str, whole: bool = True) -> None:
        self.text, self.whole, self.type = text, whole, jwarp.float32

    @property
    def inner(self) -> str:
        """The formula as a part of another."""
        return self.text if self.whole else f"({self.text})"


def told(x: object) -> Written:
    """A number or a value as a formula."""
    if isinstance(x, Written):
        return x
    return Written(f"{float(getattr(x, 'value', x)):.6g}")


class Steps:
    """In the place of a builder: writes operations as formulas."""

    def op(self, name: str, *args: object, **more: object) -> Written:
        """The formula of an operation."""
        x = [told(arg) for arg in args]
        if name in ("neg", "not"):
            return Written(f"{'-' if name == 'neg' else 'not '}{x[0].inner}", False)
        if name == "select":
            return Written(f"{x[1].inner} if {x[0].text} else {x[2].inner}", False)
        if name in SIGNS:
            return Written(f"{x[0].inner} {SIGNS[name]} {x[1].inner}", False)
        return Written(f"{name}({', '.join(each.text for each in x)})")


class WrittenApplied(Applied):
    """An operation whose arguments and result are formulas."""

    def do(self, name: str, *args: object) -> Written:
        """The formula of an operation."""
        return Steps().op(name, *args)

    def unless_zero(self, x: object, value: object) -> object:
        """The formula, without the point that it leaves out."""
        return value


def derivatives(function: Described) -> Iterator[str]:
    """What is said of the derivatives of a function that is one operation on floats."""
    rules = DERIVATIVES.get(getattr(function, "operation", None) or "")
    names = list(function.each_form[0].signature.parameters)
    if not rules or not ("Float" in function.forms or "Number" in function.forms):
        return
    args = tuple(Written(name) for name in names)
    applied = WrittenApplied(Steps(), args, Written("result"))
    for name, rule in zip(names, rules, strict=False):
        try:
            text = "0" if rule is None else told(rule(applied, Written("g"))).text
        except Exception:  # a rule that asks for more than a formula has
            continue
        yield f"By {name}: ``{text}``." if len(text) < 90 else ""


# -- examples: some are written here, others are computed

WRITTEN = {
    "tid": "i, j = wp.tid()  # in a kernel that is launched over two dimensions",
    "range": "for i in range(n):  # in a kernel",
    "breakpoint": "wp.breakpoint()  # in a kernel",
    "matrix_from_cols": "m = wp.matrix_from_cols(u, v)  # in a kernel",
    "matrix_from_rows": "m = wp.matrix_from_rows(u, v)  # in a kernel",
    "vector": "v = wp.vector(x, y, z)  # in a kernel",
    "matrix": "m = wp.matrix(1.0, 2.0, 3.0, 4.0, shape=(2, 2))  # in a kernel",
    "printf": 'wp.printf("%d: %f\\n", i, x[i])  # in a kernel',
    "print": 'print("x is", x[i])  # in a kernel',
}
VALUES = {
    "Float": (0.5, 0.25, 2.0), "Number": (0.5, 2.0, 0.25), "Scalar": (0.5, 2.0, 0.25), "Int": (6, 4), "int": (6, 4),
    "bool": (True,), "float": (0.5, 0.25), "uint32": (42, 7),
    "vec3": (jwarp.vec3(1.0, 2.0, 2.0), jwarp.vec3(0.0, 1.0, 0.0)),
    "vec2": (jwarp.vec2(1.0, 2.0), jwarp.vec2(0.0, 1.0)), "quat": (jwarp.quat(0.0, 0.0, 0.6, 0.8),) * 2,
    "transform": (jwarp.transform(jwarp.vec3(1.0, 2.0, 3.0), jwarp.quat(0.0, 0.0, 0.6, 0.8)),) * 2,
    "mat33": (jwarp.mat33(2.0, 0.0, 0.0, 0.0, 3.0, 1.0, 0.0, 1.0, 4.0),) * 2,
    "mat22": (jwarp.mat22(2.0, 1.0, 1.0, 3.0),) * 2,
    "spatial_vector": (jwarp.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0),) * 2,
    "AnyVector": (jwarp.vec3(1.0, 2.0, 2.0),), "AnyMatrix": (jwarp.mat22(2.0, 1.0, 1.0, 3.0),),
    "Composite": (jwarp.vec3(1.0, 2.0, 2.0), jwarp.vec3(0.0, 1.0, 0.0)),
}  # fmt: skip
VALUES["Vector"], VALUES["Matrix"] = VALUES["vec3"], VALUES["AnyMatrix"]


def shown(value: object) -> str:
    """A value as one writes it."""
    if isinstance(value, (bool, int, np.bool_, np.integer)):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    numbers = np.asarray(value, np.float64).ravel()
    text = ", ".join(f"{x:.6g}" if not np.isfinite(x) or x % 1 or abs(x) > 1e6 else f"{x:.1f}" for x in numbers)
    kind = repr(value).partition("(")[0]  # CompositeValue says itself what it is
    return text if np.ndim(value) == 0 else f"wp.{kind}({text})"


def example(function: Described) -> tuple[str, str] | None:
    """A call outside of kernels, and what it gives; none for functions that only kernels call."""
    given: list[object] = []
    counts: dict[str, int] = {}
    for parameter in function.each_form[0].signature.parameters.values():
        kind = str(parameter.annotation).partition("[")[0]
        if parameter.default is not parameter.empty:
            break
        if kind not in VALUES or parameter.kind is parameter.VAR_POSITIONAL:
            return None
        number = counts[kind] = counts.get(kind, -1) + 1
        given.append(VALUES[kind][number % len(VALUES[kind])])
    try:
        result = getattr(jwarp, function.name)(*given)
        return f"wp.{function.name}({', '.join(map(shown, given))})", shown(result)
    except Exception:  # not callable outside of kernels, or not with these
        return None


def call(function: Described) -> str:
    """A call with the parameters that it has to have, by their names."""
    signature = function.each_form[0].signature
    names = [p.name for p in signature.parameters.values() if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]
    keywords = [
        f"{p.name}={p.name}" for p in signature.parameters.values() if p.default is p.empty and p.kind is p.KEYWORD_ONLY
    ]
    text = f"wp.{function.name}({', '.join(names + keywords)})"
    return text if str(signature.return_annotation) == "None" else f"result = {text}"


def lines(function: Described) -> Iterator[str]:
    """A function as reStructuredText."""
    for k, form in enumerate(function.each_form):
        prefix = ".. py:function:: " if k == 0 else "                 "
        yield f"{prefix}{form.text}"
    yield ""
    text = inspect.cleandoc(function.doc).replace("|", r"\|")  # bars would name substitutions
    yield from (f"   {line}" for line in text.splitlines())
    yield ""
    if told_of := " ".join(filter(None, derivatives(function))):
        yield from (f"   **Derivative.** {told_of}", "")
    if function.name in WRITTEN:
        yield from ("   .. code-block:: python", "", f"      {WRITTEN[function.name]}", "")
    elif (found := example(function)) is not None:
        yield from ("   .. code-block:: pycon", "", f"      >>> {found[0]}", f"      {found[1]}", "")
    else:
        yield from ("   .. code-block:: python", "", f"      {call(function)}  # in a kernel", "")


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
