"""Textures, which jwarp does not have: their names, for annotations, and what says so when one is made."""

from __future__ import annotations

import enum
from typing import Any, Never

from jwarp.errors import KernelTypeError
from jwarp.types.scalars import uint64
from jwarp.types.structs import struct


class TextureFilterMode(enum.IntEnum):
    """How textures are read between their elements."""

    CLOSEST = 0
    LINEAR = 1


class TextureAddressMode(enum.IntEnum):
    """Values of a texture outside of its elements."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


class TextureResourceFlags(enum.IntFlag):
    """How textures are used by graphics."""

    NONE = 0
    READ_ONLY = 1
    WRITE_DISCARD = 2
    SURFACE_LDST = 4
    TEXTURE_GATHER = 8


WAYS_OUT = {
    "Texture": "interpolate between the elements of an array",
}


def _refuse(name: str) -> Never:
    kind = name.rstrip("123D")
    raise KernelTypeError(f"wp.{name}: jwarp has no {kind.lower()}s", hint=WAYS_OUT[kind])


def _texture(name: str) -> Any:
    """A type that parameters can be annotated with; of values, there is the empty one, which structs begin with."""

    def made_of(self: Any, *given: Any, **named: Any) -> None:
        if given or named:
            _refuse(name)
        nothing(self)

    about = {"__module__": __name__, "__qualname__": name, "__annotations__": {"id": uint64}}
    made: Any = struct(type(name, (), about))
    nothing = made.__init__
    made.__init__ = made_of
    made.__doc__ = (
        "A texture of CUDA's, as the type of a parameter. There is none but the empty one: others are refused."
    )
    return made


Texture1D, Texture2D, Texture3D = _texture("Texture1D"), _texture("Texture2D"), _texture("Texture3D")
TEXTURES = (Texture1D, Texture2D, Texture3D)
