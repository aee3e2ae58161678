"""`warp._src.types`: short texts for types, and the families of arrays."""

from __future__ import annotations

import types
import typing
from typing import Any

from jwarp.arrays.array import array
from jwarp.types import PYTHON_SCALARS, ArrayType, StructArrayType, indexedarray
from jwarp.types.annotations import meant
from jwarp.types.array_annotations import ArrayAnnotation
from jwarp.types.arrays import ArrayPattern, StructType, element_of
from jwarp.types.blocks import TileKind
from jwarp.types.composites import CompositeType
from jwarp.types.indexed import IndexedPattern
from jwarp.types.scalars import ScalarType

_LETTERS = {"bool": "b", "int": "i", "uint": "u", "float": "f", "bfloat": "bf"}
_COMPOSITES = {"quaternion": "q", "transformation": "t"}
REGULAR, INDEXED = 0, 1


def array_type_id(kind: Any) -> int:
    """The number of the family of an array, or of its annotation: 0, or 1 for indexed arrays; of Fabric's, 2 and 3.

    Raises:
        ValueError: it is no array.
    """
    if isinstance(kind, ArrayAnnotation):
        return kind.number
    if isinstance(kind, indexedarray | IndexedPattern) or getattr(kind, "indexed", None) is not None:
        return INDEXED
    if isinstance(kind, array | ArrayType | StructArrayType | ArrayPattern):
        return REGULAR
    raise ValueError("Invalid array type")


def get_type_code(kind: Any) -> str:
    """The text for a type: `f4`, `v3f4`, `a1v3f4`, `tpl2f4i4`; types with equal texts are equal in kernels.

    Raises:
        TypeError: it is no type that kernels know.
    """
    if kind is Any or kind is Ellipsis:
        return "?"
    kind = PYTHON_SCALARS.get(kind, kind) if isinstance(kind, type) else kind
    if isinstance(kind, ScalarType):
        name = kind.__name__.rstrip("_")
        letters = _LETTERS[name.rstrip("0123456789")]
        return letters if letters == "b" else f"{letters}{kind.dtype.itemsize}"
    if isinstance(kind, CompositeType):
        own = _COMPOSITES.get(kind.kind.name)
        extents = "".join(str(n) for n in kind._shape_)
        return (own or f"{'vm'[len(kind._shape_) - 1]}{extents}") + get_type_code(kind._wp_scalar_type_)
    if typing.get_origin(kind) is tuple:
        parts = typing.get_args(kind)
        return f"tpl{len(parts)}{''.join(map(get_type_code, parts))}"
    if typing.get_origin(kind) is typing.Union or isinstance(kind, types.UnionType):
        raise TypeError("Union type annotations are of Python functions, and not of kernels")
    if isinstance(kind, TileKind):
        extents = "?" if kind.shape is None or kind.shape is Any else "x".join(map(str, kind.shape))
        return f"tl{get_type_code(kind.dtype)}{extents}"
    return _array_code(kind)


def _array_code(kind: Any) -> str:
    try:
        kind = meant(kind) if isinstance(kind, ArrayAnnotation) else kind
        family = "ia" if array_type_id(kind) == INDEXED else "a"
    except ValueError:
        if isinstance(kind, StructType):
            return kind.__name__
        raise TypeError(f"Unrecognized type '{kind}'") from None
    of_elements = getattr(kind, "indexed", None) or (kind.array if isinstance(kind, IndexedPattern) else kind)
    if isinstance(of_elements, ArrayType | StructArrayType):
        return f"{family}{of_elements.dims}{get_type_code(element_of(of_elements))}"
    ndim, element = _open_parts(of_elements)
    return f"{family}{'?' if ndim is Any else ndim}{get_type_code(element)}"


def _open_parts(kind: Any) -> tuple[Any, Any]:
    """The number of axes and the type of the elements of an annotation, where Any stands for any."""
    return (kind.dims, Any) if isinstance(kind, ArrayPattern) else (kind.ndim, kind.dtype)
