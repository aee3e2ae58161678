"""Parameters that are variables of the caller: `wp.ref[T]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reference:
    """The annotation of a parameter of a function that is a place of its caller's: what it assigns is left there."""

    value: Any  # the annotation of what is there
    takes_values: bool = False  # whether other values are taken too, which are changed to no effect

    @property
    def dtype(self) -> Any:
        """The annotation of what is there, as Warp names it."""
        return self.value

    @property
    def value_type(self) -> Any:
        """The same by Warp's other name."""
        return self.value

    def __repr__(self) -> str:
        return f"wp.ref[{getattr(self.value, '__name__', self.value)}]"


class ref:
    """Annotation `wp.ref[T]` of a parameter of a `@wp.func`: assignments to it change the caller's variable."""

    def __class_getitem__(cls, value: Any) -> Reference:
        return Reference(value)
