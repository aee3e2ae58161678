"""Joins of array bindings, where branches or iterations end: one binding for an array that depends on the path.

Views of one array that differ only in numbers, the row or the elements, become one view. Different arrays become a
choice among them by a number, each with numbers of its own. A missing array becomes an empty view of the other one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jwarp.errors import NO_SPAN, Span
from jwarp.frontend.values.array_views import ONE, Emitter
from jwarp.frontend.values.bindings import (
    NO_ARRAY,
    ONE_OF_SEVERAL,
    ArrayRef,
    Axis,
    Chosen,
    OneOf,
    Part,
    Referenced,
    StructArray,
    StructValue,
    flatten,
    holds_array,
    rebuild,
)
from jwarp.frontend.values.located import Located
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Operand
from jwarp.types import int32

# True if a scalar is computed before the current branches or loop.
IsKnown = Callable[[Operand], bool]
NOTHING = Part(zero(int32), zero(int32), ONE)


def common(x: Any, y: Any, is_known: IsKnown) -> Any:
    """The common form of two bindings with arrays in them; None if their types differ.

    Its scalars are those of either that are known, and else zeros: what stands there where a side has none.
    """
    if isinstance(x, ArrayRef) and isinstance(y, ArrayRef):
        return _common_array(x, y, is_known) if x.type == y.type else None
    if type(x) is not type(y) or not isinstance(x, (StructValue, StructArray, tuple)):
        return None if holds_array(x) or holds_array(y) else y
    if isinstance(x, tuple):
        parts = tuple(common(a, b, is_known) for a, b in zip(x, y, strict=True)) if len(x) == len(y) else (None,)
        return None if None in parts else parts
    items = common(x.items, y.items, is_known) if x.type == y.type else None
    return None if items is None else dataclasses.replace(y, items=items)


def fitted(e: Emitter, x: Any, form: Any, span: Span) -> Any:
    """`x` written as `form`, which `common` has made of it and of others."""
    if isinstance(form, OneOf):
        return _among(e, x, form, span)
    if isinstance(form, ArrayRef):
        return _as_view(e, x, form, span)
    if isinstance(form, tuple):
        return tuple(fitted(e, *pair, span) for pair in zip(x, form, strict=True))
    if isinstance(form, (StructValue, StructArray)):
        return dataclasses.replace(x, items=fitted(e, x.items, form.items, span))
    return x


def absent(binding: Any) -> Any:
    """A placeholder of the type of `binding`: zeros, and missing arrays; None if there is no such thing."""
    if isinstance(binding, ArrayRef):
        return ArrayRef(NO_ARRAY, binding.name, binding.type, extents=(0,) * binding.type.dims)
    if isinstance(binding, tuple):
        parts = tuple(map(absent, binding))
        return None if None in parts else parts
    if isinstance(binding, (StructValue, StructArray)):
        items = absent(binding.items)
        return None if items is None else dataclasses.replace(binding, items=items)
    scalars = flatten(binding, NO_SPAN)
    return None if scalars is None else rebuild(binding, [zero(x.type) for x in scalars])


def arrays_of(binding: Any) -> set[int]:
    """The numbers of the arrays in a binding."""
    if isinstance(binding, OneOf):
        return set().union(*map(arrays_of, binding.options))
    if isinstance(binding, ArrayRef):
        chosen = (arrays_of(axis.indices) for axis in binding.axes if isinstance(axis, Chosen))
        return {binding.index}.union(*chosen) - {NO_ARRAY}
    if isinstance(binding, Referenced):
        return arrays_of(binding.array)
    whole = isinstance(binding, (StructValue, StructArray))
    items = binding.items if whole else binding if isinstance(binding, tuple) else ()
    return set().union(*map(arrays_of, items))


def is_made_since(binding: Any, first: int) -> bool:
    """True if a binding contains a local array with the number `first` or a later one."""
    return any(number >= first for number in arrays_of(binding))


# -- which arrays meet


def _common_array(x: ArrayRef, y: ArrayRef, is_known: IsKnown) -> ArrayRef:
    found: dict[Any, ArrayRef] = {}
    for option in (*_options(x), *_options(y)):
        family = _family(option)
        found[family] = _with_parts(found[family], option) if family in found else option
    missing = found.pop((NO_ARRAY,), None)
    options = [_blank(option, is_known) for option in found.values()]
    if missing is not None and len(options) == 1 and (narrowed := _narrowable(options[0])) is not None:
        options = [narrowed]
    elif missing is not None:
        options.append(missing)
    if len(options) == 1:
        return options[0]
    name = " or ".join(dict.fromkeys(option.name for option in options))
    return OneOf(ONE_OF_SEVERAL, name, x.type, options=tuple(options))


def _options(array: ArrayRef) -> tuple[ArrayRef, ...]:
    return array.options if isinstance(array, OneOf) else (array,)


def _family(array: ArrayRef) -> tuple:
    """The part of a view's form that remains if its numbers differ, or if one slice shows a whole axis."""
    axes = [_axis_family(axis) for axis in array.axes]
    while axes and axes[-1] is None:
        axes.pop()
    return (array.index, *axes)


def _axis_family(axis: Axis) -> Any:
    if axis is None or isinstance(axis, Part):
        return None
    if isinstance(axis, Located):
        return axis.family
    return _family(axis.indices) if isinstance(axis, Chosen) else axis.type


def _with_parts(array: ArrayRef, other: ArrayRef) -> ArrayRef:
    """A view with those axes as parts that another view of its family shows parts of."""
    axes = list(array.axes) + [None] * (len(other.axes) - len(array.axes))
    for number, shown in enumerate(other.axes):
        mine = axes[number]
        if isinstance(shown, Part) and mine is None:
            axes[number] = NOTHING
        elif isinstance(shown, Chosen) and isinstance(mine, Chosen):
            axes[number] = Chosen(_with_parts(mine.indices, shown.indices))
    return dataclasses.replace(array, axes=tuple(axes))


def _blank(array: ArrayRef, is_known: IsKnown) -> ArrayRef:
    """A view with zeros for what is not known."""
    made = rebuild(array, [x if is_known(x) else zero(x.type) for x in flatten(array, NO_SPAN) or ()])
    assert isinstance(made, ArrayRef)
    return made


def _narrowable(array: ArrayRef) -> ArrayRef | None:
    """The view with its first axis as a part, which may have no elements; None where an array names those."""
    if array.located is not None:
        return array
    first, shown = array.shown[0]
    return None if isinstance(shown, Chosen) else _with_axis(array, first, shown or NOTHING)


def _with_axis(array: ArrayRef, number: int, axis: Axis) -> ArrayRef:
    axes = list(array.axes) + [None] * (number + 1 - len(array.axes))
    axes[number] = axis
    return dataclasses.replace(array, axes=tuple(axes))


# -- one of them in the common form


def _as_view(e: Emitter, array: ArrayRef, form: ArrayRef, span: Span) -> ArrayRef:
    """A view with those axes as parts that `form`, of its family, has as parts."""
    if array.is_missing and form.located is not None:
        return dataclasses.replace(form, axes=(form.located.without_elements,))
    if array.is_missing:
        first, shown = form.shown[0]
        return form if not isinstance(shown, Part) else _with_axis(form, first, NOTHING)
    positions = {number: k for k, (number, _) in enumerate(array.shown)}
    axes: list[Axis] = []
    for number, wanted in enumerate(form.axes):
        axis = array.axes[number] if number < len(array.axes) else None
        if isinstance(wanted, Part) and axis is None:
            axis = Part(zero(int32), e.extent(array, positions[number], span), ONE)
        elif isinstance(wanted, Chosen) and isinstance(axis, Chosen):
            axis = Chosen(_as_view(e, axis.indices, wanted.indices, span))
        axes.append(axis)
    return dataclasses.replace(array, axes=tuple(axes))


def _among(e: Emitter, array: ArrayRef, form: OneOf, span: Span) -> OneOf:
    """An array as one of those of `form`."""
    options = list(form.options)
    families = [_family(option) for option in options]
    numbers = []
    for option in _options(array):
        number = families.index(_family(option))
        options[number] = _as_view(e, option, options[number], span)
        numbers.append(number)
    which = _renumbered(e, array.which, numbers, span) if isinstance(array, OneOf) else Const(int32, numbers[0])
    return dataclasses.replace(form, options=tuple(options), which=which)


def _renumbered(e: Emitter, which: Operand, numbers: Sequence[int], span: Span) -> Operand:
    """The number in place of the k-th for k."""
    if list(numbers) == list(range(len(numbers))):
        return which
    found: Operand = Const(int32, numbers[-1])
    for k, number in reversed(list(enumerate(numbers[:-1]))):
        hit = e.emit("eq", which, Const(int32, k), span=span)
        found = e.emit("select", hit, Const(int32, number), found, span=span)
    return found
