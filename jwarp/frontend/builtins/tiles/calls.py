"""Calls of the functions on tiles: what their arguments must be, said in the user's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins.signatures import first_fitting
from jwarp.frontend.builtins.table import Builtin, Reading, added
from jwarp.frontend.context import Context
from jwarp.frontend.values.bindings import ArrayRef, Binding, Number, PythonRef, TileRef, describe, flatten, holds_array
from jwarp.frontend.values.cells import TileMemory
from jwarp.frontend.values.structs import nothing
from jwarp.ir.nodes import Const, Operand
from jwarp.types import MAX_DIMS, ElementType, ScalarType, StructType, TileKind, as_element, float32, int32

STORAGES = ("register", "shared")
FILL_MODES = ("lower", "upper")
NO_INDEX = int32.max  # outside of any array and tile


@dataclass(frozen=True)
class Given:
    """The arguments of one call by name, and where each is written."""

    name: str
    e: Context
    values: dict[str, Any]
    spans: dict[str, Any]
    span: Span

    @property
    def memory(self) -> TileMemory:
        return self.e.tiles

    def __contains__(self, name: str) -> bool:
        """True if the argument exists and is not left out."""
        value = self.values.get(name)
        return value is not None and not (isinstance(value, PythonRef) and value.object is None)

    def where(self, name: str) -> Span:
        found = self.spans.get(name, self.span)
        return found if isinstance(found, Span) else self.span

    def type_error(self, name: str, expected: str, hint: str = "") -> KernelTypeError:
        value = self.values[name]
        shown = describe(value) if value is not None else "nothing"
        kind = value.object if isinstance(value, PythonRef) else getattr(value, "dtype", None)
        if isinstance(kind, StructType):
            shown += f", {'a' if isinstance(value, PythonRef) else 'of a'} Warp struct"
        return KernelTypeError(f"wp.{self.name}: `{name}` must be {expected}, not {shown}", self.where(name), hint)

    def error(
        self, text: str, hint: str = "", name: str = "", *, also: type[Exception] | None = None
    ) -> KernelTypeError:
        return KernelTypeError(f"wp.{self.name}: {text}", self.where(name), hint, also=also)

    # -- tiles

    def ref(self, name: str) -> TileRef:
        value = self.values[name]
        if not isinstance(value, TileRef):
            hint = "wp.tile_load makes a tile of a part of an array" if isinstance(value, ArrayRef) else ""
            raise self.type_error(name, "a tile", hint)
        return value

    def tile(self, name: str) -> tuple[TileKind, tuple[Operand, ...]]:
        """A tile: its type and its components."""
        ref = self.ref(name)
        return ref.type, self.memory.read(ref, self.where(name))

    def scalar_tile(self, name: str) -> tuple[TileKind, Operand]:
        """A tile of scalars: its type and itself."""
        kind, items = self.tile(name)
        if not isinstance(kind.dtype, ScalarType):
            raise self.type_error(name, "a tile of scalars")
        return kind, items[0]

    def matrix(self, name: str) -> tuple[TileKind, Operand]:
        """A tile of scalars with two axes."""
        kind, item = self.scalar_tile(name)
        if len(kind.shape or ()) != 2:
            raise self.type_error(name, "a tile of two dimensions")
        return kind, item

    # -- constants

    def text(self, name: str, allowed: Sequence[str]) -> str:
        value = self.values[name]
        value = value.object if isinstance(value, PythonRef) else value
        if value not in allowed:
            raise self.error(f"`{name}` must be {' or '.join(map(repr, allowed))}", name=name)
        return value

    def flag(self, name: str) -> bool:
        value = self.values[name]
        value = value.value if isinstance(value, (Number, Const)) else value
        if not isinstance(value, bool):
            raise self.type_error(name, "True or False, known when the kernel is built")
        return value

    def constant(self, name: str, value: Any) -> int:
        """A constant integer."""
        value = value.value if isinstance(value, (Number, Const)) else value
        if not isinstance(value, int) or isinstance(value, bool):
            raise CompileError(
                f"wp.{self.name}: `{name}` must be made of constant integers",
                self.where(name),
                "write a number, a captured constant or wp.static(…)",
            )
        return value

    def shape(self, name: str = "shape") -> tuple[int, ...]:
        value = self.values[name]
        extents = tuple(self.constant(name, n) for n in (value if isinstance(value, tuple) else (value,)))
        return self.checked_shape(extents, name)

    def checked_shape(self, extents: tuple[int, ...], name: str = "shape") -> tuple[int, ...]:
        if not 1 <= len(extents) <= MAX_DIMS:
            limit = f"{self.name}() output must have between one and four dimensions, got {len(extents)}"
            raise self.error(f"a tile has 1 to {MAX_DIMS} dimensions: {limit}", name=name, also=ValueError)
        if min(extents) < 1:
            raise self.error(f"the extents of a tile are positive, not {extents}", name=name)
        return extents

    def axis(self, name: str, dims: int) -> int:
        axis = self.constant(name, self.values[name])
        if not 0 <= axis < dims:
            raise self.error(f"there is no axis {axis} of {dims}", name=name)
        return axis

    def dtype(self, name: str = "dtype", default: Any = float32) -> ElementType:
        if name not in self:
            return default
        value = self.values[name]
        wanted = value.object if isinstance(value, PythonRef) else value
        element = as_element(wanted)
        if element is None:
            hint = "write dtype=float, or dtype=wp.vec3"
            raise self.type_error(name, "a scalar, vector, matrix or struct type", hint)
        return element

    def scalars_of(self, dtype: ElementType, name: str) -> list[ScalarType]:
        """The types of the scalars that an element is made of."""
        whole = nothing(dtype, "")
        scalars = flatten(whole, self.span)
        if scalars is None or holds_array(whole):
            raise self.error(f"{dtype!r} has arrays, which elements of tiles cannot hold", name=name)
        return [scalar.type for scalar in scalars]

    # -- offsets

    def offset(self, dims: int, what: str, name: str = "offset") -> tuple[Binding, ...]:
        """One binding for each dimension of `what`; zeros if it is left out."""
        if name not in self:
            return (Number(0),) * dims
        value = self.values[name]
        parts = value if isinstance(value, tuple) else (value,)
        if len(parts) != dims:
            raise self.error(f"`{name}` has {len(parts)} number(s), {what} has {dims} dimension(s)", name=name)
        return parts


Rule = Callable[[Given], Binding]
# Which of the forms a call has, where their names alone do not say it: a tile takes an index for each dimension.
Choice = Callable[[list[Binding], dict[str, Binding]], int]


_WITH_TEXTS = Reading(constants=(str, NoneType))


@dataclass(frozen=True, eq=False, repr=False)
class TileBuiltin(Builtin):
    """A function on tiles, whose rule gets its arguments by name."""

    rule: Rule = lambda given: ()
    choice: Choice | None = None
    reading: Reading = _WITH_TEXTS

    def call(
        self,
        e: Context,
        args: list[Binding],
        spans: list[Span],
        named: dict[str, Binding],
        named_spans: dict[str, Span],
        span: Span,
    ) -> Binding:
        e.require_tiles()
        forms = self.each_form if self.choice is None else [self.each_form[self.choice(args, named)]]
        try:
            bound = first_fitting(forms, args, named)
            places = bound.signature.bind(*spans, **named_spans).arguments
        except TypeError as error:
            raise KernelTypeError(f"wp.{self.name}: {error}", span) from None
        bound.apply_defaults()
        given = Given(self.name, e, dict(bound.arguments), places, span)
        if "storage" in given:
            given.text("storage", STORAGES)
        for flag in ("bounds_check", "aligned"):
            if flag in given:
                given.flag(flag)
        return self.rule(given)


def _not_called(ctx: Any, args: list[Any], spans: list[Span], span: Span) -> Binding:
    raise AssertionError("functions on tiles get their arguments by name")


def define(forms: str, doc: str, rule: Rule, choice: Choice | None = None) -> TileBuiltin:
    """A row of the table: a function on tiles."""
    return added(TileBuiltin(forms, doc, _not_called, rule=rule, choice=choice))
