"""Annotations of arrays, which are objects of their own."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from jwarp.errors import KernelTypeError


class Written:
    """An object that stands for the type `array_type` where a type is asked for; for none where that is None."""

    __slots__ = ()
    array_type: Any = None

    def __or__(self, other: Any) -> Any:
        """The annotation of a value of this type or another one, as `wp.array[float] | None` is."""
        return typing.Union[self, other] if self._joins(other) else NotImplemented  # noqa: UP007 of no classes

    def __ror__(self, other: Any) -> Any:
        return typing.Union[other, self] if self._joins(other) else NotImplemented  # noqa: UP007 of no classes

    def _joins(self, other: Any) -> bool:
        return self.array_type is not None and (other is None or isinstance(other, (type, Written)))


def is_derived(family: type) -> bool:
    """True for a class that a program derives from one of arrays: its objects are arrays, and it is no annotation."""
    return not family.__module__.startswith("jwarp.")


def refuse_derived(family: type) -> None:
    """Refuse an annotation by a class that a program derives from one of arrays.

    Raises:
        KernelTypeError: it is such a class.
    """
    if is_derived(family):
        base = next(b for b in family.__mro__ if not is_derived(b)).__name__
        raise KernelTypeError(
            f"Subscript syntax not supported for {family.__name__}, a class derived from wp.{base}",
            hint=f"annotate with wp.{base}[…]: parameters of that type take objects of derived classes, too",
        )


def meant(annotation: Any) -> Any:
    """The type or pattern that an annotation stands for; other objects are what they are."""
    if isinstance(annotation, Written):
        found = annotation.array_type
        return annotation if found is None else found
    return annotation


def annotations_of(func: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function or class by name; as they are written where their names mean nothing here."""
    try:
        return typing.get_type_hints(func)
    except Exception:
        module = sys.modules.get(getattr(func, "__module__", None) or "")
        names = getattr(func, "__globals__", None) or vars(module or typing)
        return {name: _evaluated(hint, names) for name, hint in getattr(func, "__annotations__", {}).items()}


def _evaluated(hint: Any, names: dict[str, Any]) -> Any:
    """The value of an annotation that was written as text; the text itself where its names are undefined."""
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, names)  # the module's own text, as typing does it
    except Exception:
        return hint


def refuse_unions(function: Callable[..., Any], what: str) -> None:
    """Refuse a function of the kernel language that has a parameter of several types.

    Raises:
        KernelTypeError: there is one.
    """
    for name, hint in function.__annotations__.items():
        if is_union(hint):
            raise KernelTypeError(f"{what}: `{name}` of `{function.__name__}` {NO_UNIONS}", hint=in_place_of(hint))


# The words after the name of something that is annotated with several types.
NO_UNIONS = "has several types: Union type annotations are only supported at Python scope"


def is_union(annotation: Any) -> bool:
    """True for an annotation of several types, `None` among them."""
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def in_place_of(annotation: Any) -> str:
    """A hint: the annotation to write in place of one of several types."""
    one = without_none(annotation)
    if one is annotation:
        return "annotate it `Any` in a generic kernel or function, which is read anew for each type"
    is_array = not isinstance(one, type) or hasattr(one, "plain_class")
    shown = "`wp.array[…]`" if is_array else "the type"
    return f"write {shown} alone" + (
        ": None may be given for an array, and `if x:` in the kernel tells the two apart" if is_array else ""
    )


def without_none(annotation: Any) -> Any:
    """Of an annotation of a value or None, that of the value; others are what they are."""
    if not is_union(annotation):
        return annotation
    kinds = [kind for kind in typing.get_args(annotation) if kind is not types.NoneType]
    return kinds[0] if len(kinds) == 1 else annotation
