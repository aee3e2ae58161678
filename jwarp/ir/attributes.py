"""Attributes of operations, known when they are compiled: a type for each kind.

Where a number or a text says all, the kind is one of the annotated types; `Role` says what the number is of. Other
kinds are frozen dataclasses, whose fields are annotated in the same way. Printing, serialising, checking and
renumbering follow the annotations, and know no operation by name.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from jwarp.caches import cached


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a number or text in an attribute; for `array` and `tape` it is their number."""

    what: str
    reads: bool = False
    writes: bool = False


# A parameter or local array; what the operation does to it, its row says.
ArrayNumber = Annotated[int, Role("array")]
# One of several arrays, which the operation reads, or changes.
Source = Annotated[int, Role("array", reads=True)]
Target = Annotated[int, Role("array", writes=True)]
# One that may be read and changed.
Changed = Annotated[int, Role("array", reads=True, writes=True)]
# A parameter that is a scalar; parameters and arrays are counted together.
ParamNumber = Annotated[int, Role("parameter")]
TapeNumber = Annotated[int, Role("tape")]
# One of the kernel's functions.
FunctionNumber = Annotated[int, Role("function")]
Axis = Annotated[int, Role("axis")]
Text = Annotated[str, Role("text")]
FormatText = Annotated[str, Role("format")]
# The name of the operation on scalars that combines elements.
Combiner = Annotated[str, Role("operation")]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an array or scalar of an unfinished derivative: its relation to parameter `param` of the kernel.

    It stands where the finished kernel has the number of an array or parameter.

    - `primal`: an argument as it was given
    - `work`: an array that the kernel overwrites, to be overwritten again
    - `final`: what the kernel left in it
    - `cotangent`: the gradient of an output's final content, which becomes that of its initial content
    - `gradient`: a gradient that starts as zeros
    - `tangent`: a tangent
    - `dim`: a dimension of the original launch, where there are more threads now
    - `claim`: an array of the shape of one that the kernel overwrites, for the number of the thread that does
    - `checkpoint`: a local array of the derivative, for the states of a loop
    """

    kind: str
    param: int


# The reference to an array: its number, or its origin while a derivative is made.
ArrayName = int | Origin


@dataclass(frozen=True, slots=True)
class Extent:
    """Of `shape`: the axis of an array."""

    array: ArrayNumber
    axis: Axis


@dataclass(frozen=True, slots=True)
class RecordFields:
    """Of `push`: the tape, and which of the values are the same for all threads that run in step."""

    tape: TapeNumber
    uniform: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class RecordField:
    """Of `top`: one field of the last record of the tape."""

    tape: TapeNumber
    field: int


@dataclass(frozen=True, slots=True)
class Rule:
    """Of `rule`: the gradient of the kernel that is meant, and the arrays that are written on the way."""

    gradient: int
    arrays: tuple[ArrayNumber, ...]


# Of `Detached`: a value that is stored, whose cotangent the rule finds in the array; and one of which the rule itself
# says what the gradient of the element becomes.
STORED, TAKEN_BACK = -1, -2


@dataclass(frozen=True, slots=True)
class Detached:
    """Of `detach`: which result of which rule of the kernel the value is, and the arrays that it comes from."""

    rule: int
    result: int
    arrays: tuple[ArrayNumber, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Of `symmetric`: of the first factor (0), the values (1) or the second factor (2), this scalar of so many rows."""

    factor: int
    number: int
    width: int


@dataclass(frozen=True, slots=True)
class Separation:
    """Of `separation`: how many bits the parts have that it is for, and whether values may have either sign."""

    bits: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Iota:
    """Of `iota`: the shape of the tile, and the axis along which it counts."""

    shape: Shape
    axis: Axis


@dataclass(frozen=True, slots=True)
class Strided:
    """Of `view` and `spread`: a tile of `shape`, and where in another one, flattened, its elements are or come from.

    Element (i, j…) of the view is element offset + i * strides[0] + j * strides[1]… of the other tile.
    """

    shape: Shape
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """Of `reduce`: what combines the elements, along which axes."""

    operation: Combiner
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """Of `scan`: what combines the elements; from the last one on, and without the element itself."""

    operation: Combiner
    reverse: bool
    exclusive: bool


@dataclass(frozen=True, slots=True)
class Transposes:
    """Of `matmul`: which factors are transposed before; whether factors of float32 may be rounded to 11 bits, too."""

    a: bool
    b: bool
    tf32: bool = False


@dataclass(frozen=True, slots=True)
class Triangle:
    """Of `tri_solve`: which triangle is read, and whether its transpose stands in the equation."""

    lower: bool
    transposed: bool


@dataclass(frozen=True, slots=True)
class Fourier:
    """Of `fourier`: whether it is the inverse transform, times the number of elements."""

    inverse: bool


@dataclass(frozen=True, slots=True)
class BlockMatmul:
    """Of `tile_matmul`: the arrays, and the extents of a product of m x k and k x n; whether it is added to c."""

    c: Target
    a: Source
    b: Source
    m: int
    n: int
    k: int
    accumulate: bool
    transposes: Transposes


@dataclass(frozen=True, slots=True)
class BlockScan:
    """Of `tile_scan`: arrays of `size` elements."""

    target: Target
    source: Source
    size: int
    scan: Scan


@dataclass(frozen=True, slots=True)
class BlockCholesky:
    """Of `tile_cholesky`: matrices of n x n elements."""

    target: Target
    source: Source
    n: int


@dataclass(frozen=True, slots=True)
class BlockSolve:
    """Of `tile_solve`: n x m right-hand sides, which become the solutions, and an n x n matrix."""

    target: Target
    triangle: Source
    n: int
    m: int
    system: Triangle


@dataclass(frozen=True, slots=True)
class NativeParam:
    """One parameter of a text in C++: its name there, and what it is.

    It is a `value`, or a `reference` whose value after the call is a part of what comes out of it, and takes as many of
    the operands as its type has scalars. Or it is an array that is `read`, or one that may be `changed`: the next of
    those that the call names. `element` is the type, of an element of an array: `float32`, or `vector 3 float32`.
    """

    name: str
    kind: str
    element: str


@dataclass(frozen=True, slots=True)
class NativeCall:
    """Of `native`: the function of this name, whose body is a text in C++, and the type of its result, or "".

    `adjoint` has the text that its author wrote for its derivative, `replay` the one that derivatives run in its place,
    or nothing.
    """

    function: str
    text: str
    result: str
    params: tuple[NativeParam, ...]
    reads: tuple[Source, ...]
    changes: tuple[Changed, ...]
    adjoint: tuple[str, ...]
    replay: tuple[str, ...]


Attribute = (
    int | str | Shape | Origin | Extent | RecordFields | RecordField | Rule | Detached | Iota | Strided | Reduction
    | Part | Scan | Transposes | Triangle | BlockMatmul | BlockScan | BlockCholesky | BlockSolve | Fourier
    | NativeCall | Separation
)  # fmt: skip


@cached("kinds of attributes")
def fields_of(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The names and kinds of the fields of a dataclass; () of any other kind."""
    if not dataclasses.is_dataclass(kind):
        return ()
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple((f.name, hints[f.name]) for f in dataclasses.fields(kind))


def role_of(kind: Any) -> Role | None:
    """The role of a number or text of this kind; None for other kinds."""
    return next((m for m in getattr(kind, "__metadata__", ()) if isinstance(m, Role)), None)


def item_of(kind: Any) -> Any:
    """The kind of the items of a kind of tuples; None of other kinds."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None


def _kinds(kind: Any) -> tuple[Any, ...]:
    """The kinds of which an attribute may be, None for nothing; () of a kind alone."""
    # `Text | None` is a typing.Union, as Text is annotated.
    is_union = isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union
    return tuple(None if k is types.NoneType else k for k in typing.get_args(kind)) if is_union else ()


def without_none(kind: Any) -> Any:
    """The kind itself, of one that may be left out."""
    return next((k for k in _kinds(kind) if k is not None), kind)


def _plain(kind: Any) -> Any:
    """The type of a number, flag or text."""
    return kind.__origin__ if role_of(kind) is not None else kind


def checker(kind: Any) -> Callable[[Any], bool]:
    """The function that checks an attribute against this kind, down to its parts; numbers of things are at least 0."""
    if kind is None:
        return lambda attr: attr is None
    if kinds := _kinds(kind):
        checks = [checker(k) for k in kinds]
        return lambda attr: any(check(attr) for check in checks)
    if parts := fields_of(kind):
        fields = [(name, checker(part)) for name, part in parts]
        return lambda attr: type(attr) is kind and all(check(getattr(attr, name)) for name, check in fields)
    if item := item_of(kind):
        check = checker(item)
        return lambda attr: type(attr) is tuple and all(map(check, attr))
    plain = _plain(kind)
    if plain is int and role_of(kind) is not None:
        return lambda attr: type(attr) is int and attr >= 0
    return lambda attr: type(attr) is plain


def described(kind: Any) -> str:
    """The description of an attribute of this kind."""
    if kinds := _kinds(kind):
        return " or ".join(map(described, kinds))
    if role := role_of(kind):
        return _WORDS[role.what]
    if parts := fields_of(kind):
        return f"{kind.__name__}({', '.join(name for name, _ in parts)})"
    return "nothing" if kind is None else str(kind)


_WORDS = {
    "array": "the number of an array",
    "parameter": "the number of a parameter",
    "tape": "the number of a tape",
    "function": "the number of a function",
    "axis": "the number of an axis",
    "text": "a text",
    "format": "a format text",
    "operation": "the name of an operation",
}


def encode(attr: object) -> Any:
    """An attribute as numbers, texts, None and lists of such."""
    if isinstance(attr, tuple):
        return [encode(part) for part in attr]
    kind: Any = type(attr)
    parts = fields_of(kind)
    return [encode(getattr(attr, name)) for name, _ in parts] if parts else attr


def decode(content: Any, kind: Any) -> Any:
    """The attribute of a kind that `encode` was given; of damaged content, something that does not pass its check."""
    if not isinstance(content, list):
        return content
    kind = without_none(kind)
    parts = fields_of(kind)
    if parts and len(parts) == len(content):
        return kind(*(decode(x, part) for x, (_, part) in zip(content, parts, strict=True)))
    item = item_of(kind)
    return tuple(decode(x, item) for x in content)


def numbers_in(attr: Any, kind: Any) -> Iterator[tuple[Role, Any]]:
    """The numbers of arrays, parameters and tapes in an attribute, or the origins there, with their roles."""
    if (role := role_of(kind)) is not None:
        yield role, attr
    elif item := item_of(kind):
        for part in attr:
            yield from numbers_in(part, item)
    elif attr is not None:
        made: Any = type(attr)
        for name, part in fields_of(made):
            yield from numbers_in(getattr(attr, name), part)


def origins_in(attr: Any) -> Iterator[Origin]:
    """The origins that stand for arrays and parameters in an attribute, while a derivative is made."""
    if isinstance(attr, Origin):
        yield attr
        return
    made: Any = type(attr)
    parts = attr if isinstance(attr, tuple) else (getattr(attr, name) for name, _ in fields_of(made))
    for part in parts:
        yield from origins_in(part)


def with_numbers(attr: Any, kind: Any, change: Callable[[Any], Any]) -> Any:
    """The attribute with `change` done to every array and parameter that it names, by number or origin."""
    if (role := role_of(kind)) is not None:
        return change(attr) if role.what in ("array", "parameter") else attr
    if item := item_of(kind):
        return tuple(with_numbers(part, item, change) for part in attr)
    made: Any = type(attr)
    if attr is None or not (parts := fields_of(made)):
        return attr
    return made(*(with_numbers(getattr(attr, name), part, change) for name, part in parts))
