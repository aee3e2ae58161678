"""`warp._src.types`: the families of arrays, and the types that arguments of generic kernels have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.fabric import fabricarray, indexedfabricarray
from jwarp.arrays.subclasses import type_of_value
from jwarp.programs.type_codes import get_type_code
from jwarp.types import (
    PYTHON_SCALARS,
    CompositeValue,
    StructType,
    as_type,
    element_of,
    from_dtype,
    indexedarray,
    wanted_type,
)
from jwarp.types.array_annotations import ArrayAnnotation
from jwarp.types.indexed import IndexedAnnotation
from jwarp.types.patterns import fits

# Each one before the one that it is derived from.
FAMILIES: tuple[type, ...] = (fabricarray, indexedfabricarray, array, indexedarray)


def family_of(value: Any) -> type | None:
    """The class of arrays that the class of a value is, or is derived from; None for other values.

    Raises:
        TypeError: it is derived from arrays and from indexed arrays.
    """
    kind = type(value)
    if issubclass(kind, array) and issubclass(kind, indexedarray):
        raise TypeError(f"{kind.__name__} is derived from more than one native array family")
    return next((family for family in FAMILIES if issubclass(kind, family)), None)


def normalized(value: Any) -> Any:
    """The annotation for an array; other values are what they are."""
    if family_of(value) is None:
        return value
    found = _of_array(value)
    return value if found is None else found


def infer_argument_types(values: Sequence[Any], templates: Sequence[Any], names: Sequence[str] | None = None) -> list:
    """The types of arguments for parameters with these annotations; where an argument is None, of the annotation.

    Raises:
        TypeError: an argument does not tell its type, or does not fit its annotation.
    """
    found = []
    for k, (value, template) in enumerate(zip(values, templates, strict=True)):
        name = names[k] if names is not None else f"{k}"
        kind = normalized(template) if value is None else _inferred(value, name)
        if value is not None and not type_matches_template(kind, template):
            raise TypeError(f"argument '{name}': type mismatch, {kind!r} does not fit {template!r}")
        found.append(kind)
    return found


def _inferred(value: Any, name: str) -> Any:
    kind = _of_array(value) if family_of(value) is not None else None
    if kind is None and isinstance(value, CompositeValue):
        dtype = from_dtype(value.dtype)
        kind = None if dtype is None else value.type_in_kernels(dtype)
    elif kind is None and isinstance(type(value), StructType):
        kind = type(value)
    elif kind is None:
        kind = from_dtype(value.dtype) if isinstance(value, np.generic) else PYTHON_SCALARS.get(type(value))
    if kind is None:
        raise TypeError(f"Unable to infer the type of argument '{name}' from {type(value).__name__}")
    return kind


def _of_array(value: Any) -> Any:
    """The annotation that an array fits; None for an array that is an annotation itself."""
    kind = type_of_value(value)
    if kind is None:
        return None
    if (of_data := getattr(kind, "indexed", None)) is not None:
        return IndexedAnnotation(element_of(of_data), of_data.dims)
    return ArrayAnnotation(element_of(kind), kind.dims)


def get_signature(kinds: Sequence[Any]) -> str:
    """A text for the types of all parameters, which distinguishes the instances of a generic kernel."""
    return "_".join(map(get_type_code, kinds))


def type_matches_template(kind: Any, template: Any) -> bool:
    """True if a type, or that of an array, is one that an annotation stands for."""
    if template is Any:
        return True
    given, wanted = (as_type(x) or wanted_type(x) for x in map(normalized, (kind, template)))
    return given is not None and wanted is not None and (given == wanted or fits(given, wanted, {}))


MEMBERS = {
    "_resolve_array_family": family_of,
    "_normalize_array_argument_type": normalized,
    "infer_argument_types": infer_argument_types,
    "get_signature": get_signature,
    "type_matches_template": type_matches_template,
}
