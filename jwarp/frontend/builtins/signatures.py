"""The signatures of builtins, written as in Python: `lerp(a: Float, b: Float, t: Float) -> Float`."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.frontend.by_name import ByName

# Defaults other than constants: the types of arrays and tiles if none is given.
_NAMES = {"float": float}


class Annotation(str):
    """A type as it is written in a signature. `help` shows it without quotes."""

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Form:
    """One way to call a function. The names of its types are those of `annotations.pyi`."""

    text: str

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The parameters and the result, with types as texts."""
        (function,) = ast.parse(f"def {self.text}: ...").body
        assert isinstance(function, ast.FunctionDef)
        given, kinds = function.args, inspect.Parameter
        positional = [*given.posonlyargs, *given.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
        found = [
            _parameter(arg, kinds.POSITIONAL_ONLY if arg in given.posonlyargs else kinds.POSITIONAL_OR_KEYWORD, default)
            for arg, default in zip(positional, defaults, strict=True)
        ]
        if given.vararg is not None:
            found.append(_parameter(given.vararg, kinds.VAR_POSITIONAL, None))
        pairs = zip(given.kwonlyargs, given.kw_defaults, strict=True)
        found += [_parameter(arg, kinds.KEYWORD_ONLY, default) for arg, default in pairs]
        returned = inspect.Signature.empty if function.returns is None else Annotation(ast.unparse(function.returns))
        return inspect.Signature(found, return_annotation=returned)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, where calls may use them."""
        kinds = {p.kind for p in self.signature.parameters.values()}
        return tuple(self.signature.parameters) if kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD} else ()


def _parameter(arg: ast.arg, kind: Any, default: ast.expr | None) -> inspect.Parameter:
    empty: Any = inspect.Parameter.empty
    if default is None:
        value = empty
    else:
        value = _NAMES[default.id] if isinstance(default, ast.Name) else ast.literal_eval(default)
    annotation = empty if arg.annotation is None else Annotation(ast.unparse(arg.annotation))
    return inspect.Parameter(arg.arg, kind, default=value, annotation=annotation)


@dataclass(frozen=True, eq=False, repr=False)
class Described(ByName):
    """A function as its users see it: `forms`, one in each line, and what it does."""

    forms: str
    doc: str | None

    def __post_init__(self) -> None:
        # Attributes that `help` and `inspect.signature` ask for.
        names = dict.fromkeys(("__name__", "__qualname__"), self.name)
        # `python -OO` leaves no docstrings of functions of the library.
        text = "\n".join(self._lines) + f"\n\n{inspect.cleandoc(self.doc or '')}"
        for attribute, value in {**names, "__module__": "jwarp", "__doc__": text}.items():
            object.__setattr__(self, attribute, value)

    @functools.cached_property
    def name(self) -> str:
        """The function's name, with which each form begins."""
        return self._lines[0].partition("(")[0]

    @property
    def key(self) -> str:
        """The name, as Warp has it."""
        return self.name

    @functools.cached_property
    def _lines(self) -> list[str]:
        return [" ".join(line.split()) for line in self.forms.strip().splitlines()]

    @functools.cached_property
    def each_form(self) -> tuple[Form, ...]:
        """The ways to call it, in the order in which type checkers try them."""
        return tuple(map(Form, self._lines))

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature for `inspect.signature`: the names of the first form, with the most defaults."""
        signatures = [form.signature for form in self.each_form]
        alike = [s for s in signatures if list(s.parameters) == list(signatures[0].parameters)]
        return max(alike, key=lambda s: sum(p.default is not p.empty for p in s.parameters.values()))

    @functools.cached_property
    def named_forms(self) -> tuple[tuple[str, ...], ...]:
        """The names of the parameters of each form that calls may use them in, without repetition."""
        return tuple(dict.fromkeys(form.names for form in self.each_form if form.names))

    def __repr__(self) -> str:
        return f"wp.{self.name}"


def indexed(form: str, ranks: Iterable[int] = (1, 2, 3, 4), letters: str = "ijkl") -> str:
    """The forms of a function of an array or tile with so many dimensions.

    In `form`, `*index` stands for one index for each dimension, and `array` for the array's type.
    """
    forms = []
    for rank in ranks:
        indices = ", ".join(f"{letter}: Index" for letter in letters[:rank])
        forms.append(form.replace("*index", indices).replace("array[", f"array{rank}d[" if rank > 1 else "array["))
    return "\n".join(forms)


# The names of types of 32-bit floats that have others next to them, if no parameter has that name.
_TYPES = re.compile(r"\b(mat\d\d|vec\d|quat|transform|spatial_vector|spatial_matrix)\b(?!:)")


def of_floats(*forms: str) -> str:
    """The forms, written for float32, for each type of floats with names of its own."""
    numbers = {"": "float", "d": "float64", "h": "float16"}
    return "\n".join(
        re.sub(r"\bfloat\b(?!:)", number, _TYPES.sub(rf"\1{suffix}", form))
        for suffix, number in numbers.items()
        for form in forms
    )


def first_fitting(forms: Sequence[Form], args: Sequence[Any], named: dict[str, Any]) -> inspect.BoundArguments:
    """The arguments by the names of the parameters, of the first form that they fit.

    Raises:
        TypeError: they fit none; the text is about the last.
    """
    for form in forms:
        with contextlib.suppress(TypeError):
            return form.signature.bind(*args, **named)
    return forms[-1].signature.bind(*args, **named)
