"""The types of the kernel language: scalars, vectors, matrices, and arrays of them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from jwarp.errors import KernelTypeError


class ScalarType(type):
    """Metaclass of the scalar types, so that `wp.float32` is a class, as in Warp."""

    name: str
    kind: str
    bits: int
    dtype: np.dtype

    def __new__(mcs, name: str, bases: tuple, fields: dict, **details: Any) -> ScalarType:
        made = super().__new__(mcs, name, bases, fields)
        made.name = name.rstrip("_")
        made.kind, made.bits = details.get("kind", ""), details.get("bits", 0)
        made.dtype = np.dtype(details.get("dtype", np.void))
        return made

    def __init__(cls, name: str, bases: tuple, fields: dict, **details: Any):
        super().__init__(name, bases, fields)

    def __repr__(cls) -> str:
        return cls.name

    @property
    def is_float(cls) -> bool:
        return cls.kind == "float"

    @property
    def is_int(cls) -> bool:
        return cls.kind in ("int", "uint")

    @property
    def min(cls) -> int:
        """Smallest value of an integer type."""
        return -(1 << (cls.bits - 1)) if cls.kind == "int" else 0

    @property
    def max(cls) -> int:
        """Largest value of an integer type."""
        return (1 << (cls.bits - (cls.kind == "int"))) - 1


class Scalar(metaclass=ScalarType):
    """Base of the scalar types. Called outside kernels, `wp.float32(x)` gives a NumPy scalar."""

    def __new__(cls, value: Any = 0) -> Any:
        try:
            return cls.dtype.type(value)
        except (TypeError, ValueError, OverflowError):
            raise KernelTypeError(f"wp.{cls.name}: {value!r} is no value of this type", hint=_range_of(cls)) from None


def _range_of(type_: ScalarType) -> str:
    return f"its values are {type_.min} to {type_.max}" if type_.is_int else ""


class int8(Scalar, kind="int", bits=8, dtype=np.int8):
    """8-bit signed integer."""


class int16(Scalar, kind="int", bits=16, dtype=np.int16):
    """16-bit signed integer."""


class int32(Scalar, kind="int", bits=32, dtype=np.int32):
    """32-bit signed integer; `int` in kernels."""


class int64(Scalar, kind="int", bits=64, dtype=np.int64):
    """64-bit signed integer."""


class uint8(Scalar, kind="uint", bits=8, dtype=np.uint8):
    """8-bit unsigned integer."""


class uint16(Scalar, kind="uint", bits=16, dtype=np.uint16):
    """16-bit unsigned integer."""


class uint32(Scalar, kind="uint", bits=32, dtype=np.uint32):
    """32-bit unsigned integer."""


class uint64(Scalar, kind="uint", bits=64, dtype=np.uint64):
    """64-bit unsigned integer."""


class float16(Scalar, kind="float", bits=16, dtype=np.float16):
    """IEEE 754 half precision."""


class bfloat16(Scalar, kind="float", bits=16, dtype=ml_dtypes.bfloat16):
    """The upper half of a float32."""


class float32(Scalar, kind="float", bits=32, dtype=np.float32):
    """IEEE 754 single precision; `float` in kernels."""


class float64(Scalar, kind="float", bits=64, dtype=np.float64):
    """IEEE 754 double precision."""


class bool_(Scalar, kind="bool", bits=8, dtype=np.bool_):
    """Truth value, one byte in memory; `bool` in kernels."""


SCALARS: dict[str, ScalarType] = {
    t.name: t
    for t in (int8, int16, int32, int64, uint8, uint16, uint32, uint64) + (float16, bfloat16, float32, float64, bool_)
}
SIGNED_INTS = (int8, int16, int32, int64)
UNSIGNED_INTS = (uint8, uint16, uint32, uint64)
INTS = SIGNED_INTS + UNSIGNED_INTS
FLOATS = (float16, bfloat16, float32, float64)

# The Python types that stand for a scalar type in annotations and conversions.
PYTHON_SCALARS: dict[type, ScalarType] = {int: int32, float: float32, bool: bool_}

MAX_DIMS = 4


MAX_TILE_ELEMENTS = 1 << 20


class TileType(ScalarType):
    """Metaclass of the types of tiles: scalars of one type in a block of static shape.

    What is asked of a scalar type is answered for the elements.
    """

    scalar: ScalarType
    shape: tuple[int, ...]

    @property
    def size(cls) -> int:
        """Number of elements."""
        return math.prod(cls.shape)


@functools.cache
def tile_type(scalar: ScalarType, shape: tuple[int, ...]) -> TileType:
    """The type of tiles of `shape`, of one to four extents. There is one for each scalar type and shape."""
    assert 1 <= len(shape) <= MAX_DIMS and all(n >= 1 for n in shape)
    name = f"{scalar.name}[{'x'.join(map(str, shape))}]"
    fields = {"scalar": scalar, "shape": shape, "__module__": "jwarp"}
    return TileType(name, (Scalar,), fields, kind=scalar.kind, bits=scalar.bits, dtype=scalar.dtype)


# What a value of the IR may be: a scalar type, or the type of tiles of one.
ValueType = ScalarType


def scalar_of(type_: ValueType) -> ScalarType:
    """The type of the elements of a tile; a scalar type itself."""
    return type_.scalar if isinstance(type_, TileType) else type_


def shape_of(type_: ValueType) -> tuple[int, ...]:
    """The shape of a tile; () for a scalar."""
    return type_.shape if isinstance(type_, TileType) else ()


def with_shape(scalar: ScalarType, shape: tuple[int, ...]) -> ValueType:
    """The type of tiles of `shape`; for () the scalar type."""
    return tile_type(scalar, shape) if shape else scalar


class CompositeType(type):
    """Metaclass of the vector and matrix types: component type, and shape of one or two extents."""

    name: str
    dtype: ScalarType
    shape: tuple[int, ...]

    def __repr__(cls) -> str:
        return cls.name

    @property
    def size(cls) -> int:
        """Number of components."""
        return int(np.prod(cls.shape))

    @property
    def is_vector(cls) -> bool:
        return len(cls.shape) == 1

    @property
    def transposed(cls) -> CompositeType:
        """The matrix type with rows and columns exchanged."""
        return matrix((cls.shape[1], cls.shape[0]), cls.dtype)


class Composite(metaclass=CompositeType):
    """Base of the vector and matrix types. Called outside kernels, `wp.vec3(…)` gives a NumPy array."""

    def __new__(cls, *components: Any) -> Any:
        values = _components(cls, components)
        if values.size not in (0, 1, cls.size):
            raise KernelTypeError(f"{cls.name} has {cls.size} components, {values.size} values given")
        whole = np.broadcast_to(values if values.size else 0, cls.size).reshape(cls.shape)
        return whole.astype(cls.dtype.dtype).view(CompositeValue)


def _components(type_: CompositeType, components: tuple) -> np.ndarray:
    """The numbers that a vector or matrix is made of outside kernels."""
    scalar = type_.dtype
    try:
        given = np.asarray(components)
        values = np.asarray(components, scalar.dtype).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise KernelTypeError(
            f"{type_.name}{components!r}: these are no components of type {scalar}", hint=_range_of(scalar)
        ) from None
    if scalar.is_int and given.size and given.dtype.kind not in "biu":
        raise KernelTypeError(f"{type_.name}{components!r}: these are no integers", hint="round them first")
    return values


class CompositeValue(np.ndarray):
    """A vector or matrix outside kernels: a NumPy array that kernels may refer to by name."""


# The suffixes of Warp's names: vec3d, mat33h.
_SUFFIXES = {
    "b": int8, "ub": uint8, "s": int16, "us": uint16, "i": int32, "ui": uint32, "l": int64, "ul": uint64,
    "h": float16, "f": float32, "d": float64,
}  # fmt: skip
_SHORT: dict[ScalarType, str] = {dtype: suffix for suffix, dtype in _SUFFIXES.items()}


@functools.cache
def _composite(shape: tuple[int, ...], dtype: ScalarType) -> CompositeType:
    square = len(shape) == 1 or shape[0] == shape[1]
    suffix = "" if dtype is float32 else _SHORT.get(dtype)
    if suffix is not None and square and 2 <= shape[0] <= 4:
        name = f"{'vec' if len(shape) == 1 else 'mat'}{''.join(map(str, shape))}{suffix}"
    elif len(shape) == 1:
        name = f"vector({shape[0]}, {dtype})"
    else:
        name = f"matrix({shape}, {dtype})"
    fields = {"name": name, "dtype": dtype, "shape": shape, "__doc__": f"{name} of {dtype}.", "__module__": "jwarp"}
    return CompositeType(name, (Composite,), fields)


def _extents(what: str, extents: tuple) -> tuple[int, ...]:
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in extents):
        raise KernelTypeError(f"{what}: extents must be positive integers, not {extents}")
    return extents


def vector(length: int, dtype: Any) -> CompositeType:
    """The type of vectors of `length` components of scalar type `dtype`."""
    scalar = as_scalar(dtype)
    if scalar is None:
        raise KernelTypeError(f"wp.types.vector: the component type must be a scalar type, not {dtype!r}")
    return _composite(_extents("wp.types.vector", (length,)), scalar)


def matrix(shape: tuple[int, int], dtype: Any) -> CompositeType:
    """The type of matrices of `shape` (rows, columns) with components of scalar type `dtype`."""
    scalar = as_scalar(dtype)
    if scalar is None or not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise KernelTypeError(f"wp.types.matrix: needs (rows, columns) and a scalar type, not {shape!r}, {dtype!r}")
    return _composite(_extents("wp.types.matrix", tuple(shape)), scalar)


@dataclass(frozen=True)
class ArrayType:
    """An array parameter as JAX sees it: component type, and number of axes.

    `element` is the shape of a vector or matrix element, whose axes are the last of the `ndim`. Where
    there are no others, the parameter is one vector or matrix, passed by value.
    """

    dtype: ScalarType
    ndim: int
    element: tuple[int, ...] = ()

    @property
    def dims(self) -> int:
        """Number of axes that a kernel's indices run over."""
        return self.ndim - len(self.element)

    @property
    def element_type(self) -> ScalarType | CompositeType:
        """What one element is."""
        return _composite(self.element, self.dtype) if self.element else self.dtype

    def __repr__(self) -> str:
        dims = self.dims
        return f"array{f'{dims}d' if dims > 1 else ''}[{self.element_type!r}]" if dims else repr(self.element_type)


class StructType(type):
    """Metaclass of the structs, which `jwarp.structs` makes: the names and types of the fields, in order."""

    fields: dict[str, Any]

    def __repr__(cls) -> str:
        return cls.__name__


@dataclass(frozen=True)
class StructArrayType:
    """An array of structs: on the JAX side one struct, all of whose leaves have the array's axes in front."""

    struct: StructType
    dims: int

    def __repr__(self) -> str:
        return f"array{f'{self.dims}d' if self.dims > 1 else ''}[{self.struct!r}]"


Type = ScalarType | ArrayType
# What is taken apart into parameters of a `Type` each.
AnyType = Type | StructType | StructArrayType


def as_scalar(annotation: Any) -> ScalarType | None:
    """The scalar type that `annotation` stands for, or None."""
    if isinstance(annotation, ScalarType) and annotation is not Scalar and not isinstance(annotation, TileType):
        return annotation
    if isinstance(annotation, type) and annotation in PYTHON_SCALARS:
        return PYTHON_SCALARS[annotation]
    if isinstance(annotation, np.dtype) or (
        isinstance(annotation, type) and issubclass(annotation, (np.generic, ml_dtypes.bfloat16))
    ):
        return from_dtype(annotation)
    return None


def from_dtype(dtype: Any) -> ScalarType | None:
    """The scalar type whose NumPy dtype is `dtype` (native byte order), or None."""
    dtype = np.dtype(dtype)
    return next((t for t in SCALARS.values() if t.dtype == dtype and dtype.isnative), None)


@dataclass(frozen=True)
class FloatMatrix:
    """Stands for the matrix types of one shape with components of any float type, where a function takes any."""

    shape: tuple[int, int]

    def fits(self, type: Any) -> bool:
        return isinstance(type, CompositeType) and type.shape == self.shape and type.dtype.is_float

    def __str__(self) -> str:
        return f"a {self.shape[0]} by {self.shape[1]} matrix of floats"


@dataclass(frozen=True)
class TileKind:
    """The type of a tile in kernel code: what its elements are, and its shape. None stands for any."""

    dtype: ScalarType | CompositeType | None
    shape: tuple[int, ...] | None

    @property
    def scalar(self) -> ScalarType:
        """The scalar type of the elements, or of their components."""
        assert self.dtype is not None
        return self.dtype.dtype if isinstance(self.dtype, CompositeType) else self.dtype

    def fits(self, type: Any) -> bool:
        """Whether a tile of kind `type` may stand where this one is asked for."""
        return (
            isinstance(type, TileKind)
            and self.dtype in (None, type.dtype)
            and (self.shape is None or self.shape == type.shape)
        )

    def __repr__(self) -> str:
        dtype = "Any" if self.dtype is None else repr(self.dtype)
        return f"tile({dtype}, shape={'Any' if self.shape is None else self.shape})"


def _tile_kind(dtype: Any, shape: Any) -> TileKind:
    element = dtype if isinstance(dtype, CompositeType) and dtype is not Composite else as_scalar(dtype)
    if element is None and dtype is not Any:
        raise KernelTypeError(
            f"wp.tile: the dtype of a tile must be a scalar, vector or matrix type, not {dtype!r}",
            hint="write wp.tile(dtype=float, shape=(8, 8)) or wp.tile[float, 8, 8]",
        )
    if shape is Any:
        return TileKind(element, None)
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    good = all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in extents)
    if not good or not 1 <= len(extents) <= MAX_DIMS:
        raise KernelTypeError(f"wp.tile: the shape of a tile is 1 to {MAX_DIMS} positive integers, not {shape!r}")
    return TileKind(element, extents)


class tile:
    """Annotation of a tile parameter of a `@wp.func`: `wp.tile(dtype=float, shape=(8, 8))`, `wp.tile[float, 8, 8]`.

    In kernels `wp.tile(x)` makes a tile of the values that the threads of a block have.
    """

    def __class_getitem__(cls, given: Any) -> Any:
        dtype, *extents = given if isinstance(given, tuple) else (given,)
        if len(extents) == 1 and isinstance(extents[0], tuple):
            (extents,) = extents
        return _tile_kind(dtype, tuple(extents) if extents else Any)

    def __new__(cls, dtype: Any, shape: Any = Any) -> Any:
        return _tile_kind(dtype, shape)


def as_type(annotation: Any) -> AnyType | None:
    """The type of a parameter annotated with `annotation`, or None."""
    if isinstance(annotation, (StructType, StructArrayType)):
        return annotation
    if isinstance(annotation, CompositeType) and annotation is not Composite:
        return ArrayType(annotation.dtype, len(annotation.shape), annotation.shape)
    return annotation if isinstance(annotation, ArrayType) else as_scalar(annotation)


def _array_type(dtype: Any, ndim: Any) -> ArrayType | StructArrayType:
    element = dtype if isinstance(dtype, CompositeType) and dtype is not Composite else None
    scalar = element.dtype if element else as_scalar(dtype)
    if scalar is None and not isinstance(dtype, StructType):
        raise KernelTypeError(
            f"wp.array: element type must be a scalar, vector, matrix or struct type, not {dtype!r}",
            hint="write wp.array[float], or wp.array(dtype=float)",
        )
    if not isinstance(ndim, int) or not 1 <= ndim <= MAX_DIMS:
        raise KernelTypeError(f"wp.array: ndim must be 1 to {MAX_DIMS}, not {ndim!r}")
    if scalar is None:
        return StructArrayType(dtype, ndim)
    shape = element.shape if element else ()
    return ArrayType(scalar, ndim + len(shape), shape)


class array:
    """Annotation of an array parameter: `wp.array[float]` or `wp.array(dtype=float, ndim=2)`."""

    _ndim = 1

    def __class_getitem__(cls, dtype: Any) -> Any:
        return _array_type(dtype, cls._ndim)

    def __new__(cls, *given: Any, dtype: Any = None, ndim: int | None = None, **other: Any) -> Any:
        # In Warp this also makes arrays: wp.array(data, dtype=float, device="cpu").
        is_data = bool(given) and as_type(given[0]) is None and not isinstance(given[0], type)
        if is_data or other or len(given) > 1 or (given and dtype is not None):
            raise KernelTypeError(
                "wp.array is only the type of a parameter: it makes no arrays",
                hint="give NumPy or JAX arrays to wp.launch and to JAX functions as they are",
            )
        return _array_type(given[0] if given else dtype, cls._ndim if ndim is None else ndim)


class array1d(array):
    """Annotation of a 1-D array parameter."""


class array2d(array):
    """Annotation of a 2-D array parameter."""

    _ndim = 2


class array3d(array):
    """Annotation of a 3-D array parameter."""

    _ndim = 3


class array4d(array):
    """Annotation of a 4-D array parameter."""

    _ndim = 4


vec2, vec3, vec4 = (vector(n, float32) for n in (2, 3, 4))
vec2b, vec3b, vec4b = (vector(n, int8) for n in (2, 3, 4))
vec2ub, vec3ub, vec4ub = (vector(n, uint8) for n in (2, 3, 4))
vec2s, vec3s, vec4s = (vector(n, int16) for n in (2, 3, 4))
vec2us, vec3us, vec4us = (vector(n, uint16) for n in (2, 3, 4))
vec2i, vec3i, vec4i = (vector(n, int32) for n in (2, 3, 4))
vec2ui, vec3ui, vec4ui = (vector(n, uint32) for n in (2, 3, 4))
vec2l, vec3l, vec4l = (vector(n, int64) for n in (2, 3, 4))
vec2ul, vec3ul, vec4ul = (vector(n, uint64) for n in (2, 3, 4))
vec2h, vec3h, vec4h = (vector(n, float16) for n in (2, 3, 4))
vec2f, vec3f, vec4f = (vector(n, float32) for n in (2, 3, 4))
vec2d, vec3d, vec4d = (vector(n, float64) for n in (2, 3, 4))
mat22, mat33, mat44 = (matrix((n, n), float32) for n in (2, 3, 4))
mat22h, mat33h, mat44h = (matrix((n, n), float16) for n in (2, 3, 4))
mat22f, mat33f, mat44f = (matrix((n, n), float32) for n in (2, 3, 4))
mat22d, mat33d, mat44d = (matrix((n, n), float64) for n in (2, 3, 4))
