"""`warp._src.codegen.Struct`: structs made without the decorator, and the class of all structs."""

from __future__ import annotations

from typing import Any

from jwarp.types import StructType
from jwarp.types.structs import struct


class _MadeOfClasses(type):
    """Calls make structs; all types of structs are instances."""

    def __call__(self, /, key: str, cls: type, module: Any = None) -> StructType:
        made: Any = struct(cls)
        assert isinstance(made, StructType)
        made.__qualname__ = key
        return made

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, StructType)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, StructType)


class Struct(metaclass=_MadeOfClasses):
    """A struct: `Struct(key, cls, module)` makes one of a class, as `@wp.struct` does, under a name of its own."""
