"""Between what a kernel calls a function with and what JAX traces it with: types, arrays of scalars, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from jwarp.bind.jax_functions.equations import dtype_of
from jwarp.bind.jax_functions.lowering import Lowering, Scalars, filled, one
from jwarp.bind.jax_functions.parts import Complex, Key
from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.context import Context
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    Number,
    PythonRef,
    StructValue,
    Unusable,
    describe,
)
from jwarp.frontend.values.composites import component_indices
from jwarp.ir.nodes import Const, Operand, Value
from jwarp.types import (
    MATRIX,
    VECTOR,
    CompositeType,
    Struct,
    composite,
    unchecked,
)

# The function that makes the Python function's argument from values for the leaves, used up from the front.
Template = Callable[[list[Any]], Any]


class Arguments:
    """The arguments of one call, in parts that are arrays."""

    def __init__(self, ctx: Context, name: str, span: Span):
        self.ctx, self.name, self.span = ctx, name, span
        self.arrays: list[Scalars] = []
        self.key: list[Any] = []  # what the trace depends on

    def specs(self) -> list[jax.ShapeDtypeStruct]:
        """The types of the leaves."""
        return [jax.ShapeDtypeStruct(x.shape, x.flat[0].type.dtype) for x in self.arrays]

    def template(self, name: str, binding: Binding) -> Template:
        """The template that rebuilds the argument `name` from its leaves, which are added to the list.

        Raises:
            KernelTypeError: it is nothing that JAX knows.
            CompileError: it is an array, whose size is not known.
        """
        match binding:
            case Number(value=value):
                self.key.append(("number", repr(value)))
                return lambda leaves: value
            case Value() | Const():
                return self.leaf(filled((), (binding,)))
            case Composite(type=kind, items=items):
                return self.leaf(filled(kind.shape, items))
            case StructValue(type=struct, items=parts):
                self.key.append((struct, len(parts)))
                made = [self.template(f"{name}.{f}", x) for f, x in zip(struct.fields, parts, strict=True)]
                return lambda leaves: unchecked(struct, [part(leaves) for part in made])
            case tuple():
                self.key.append(("tuple", len(binding)))
                inner = [self.template(f"{name}[{k}]", x) for k, x in enumerate(binding)]
                return lambda leaves: tuple(part(leaves) for part in inner)
            case ArrayRef():
                return self.array(name, binding)
            case PythonRef(object=thing):
                self.key.append(binding)
                return lambda leaves: thing
            case Unusable():
                raise binding.error(self.span)
        raise KernelTypeError(
            f"`{name}` of `{self.name}` is {describe(binding)}, which a function of jax.numpy cannot take", self.span,
            "it takes numbers, vectors, matrices, structs and tuples of them",
        )  # fmt: skip

    def leaf(self, array: Scalars) -> Template:
        """An array of JAX's."""
        self.key.append((array.shape, array.flat[0].type if array.size else None))
        if not array.size:
            raise KernelTypeError(f"`{self.name}` is given a vector of no components", self.span)
        self.arrays.append(array)
        return lambda leaves: leaves.pop(0)

    def array(self, name: str, array: ArrayRef) -> Template:
        """An array of the thread's own, whose size is known."""
        if array.extents is None or array.row != ():
            raise CompileError(
                f"`{name}` of `{self.name}` is an array, whose size is not known when the kernel is compiled",
                self.span,
                "give it elements, or a vector or matrix of them: wp.types.vector(8, float), also as a parameter",
            )
        items: list[Operand] = []
        for place in component_indices(array.extents):
            items += self.ctx.scalars(self.ctx.load(array, place, self.span), self.span)
        return self.leaf(filled((*array.extents, *array.type.components), items))


def binding_of(low: Lowering, tree: Any, arrays: list[Scalars], variables: list[Any], wanted: Any) -> Binding:
    """The binding of a function's result, from its tree and its arrays, which are consumed from the front.

    `wanted` is the type that the function is declared to return, or None.
    """
    if isinstance(tree, tuple):
        kinds = wanted if isinstance(wanted, tuple) and len(wanted) == len(tree) else [None] * len(tree)
        return tuple(binding_of(low, part, arrays, variables, kind) for part, kind in zip(tree, kinds, strict=True))
    if isinstance(tree, Struct):
        return _struct(low, tree, arrays, variables)
    if tree is None:
        raise low.error("it returns None", "return a number, a vector, a matrix, a struct or a tuple of them")
    if isinstance(tree, (list, Mapping)) or not hasattr(tree, "shape"):
        raise low.error(
            f"it returns a {type(tree).__name__}, which kernels do not know", "return a tuple, or a @wp.struct"
        )
    return _value(low, arrays.pop(0), variables.pop(0), wanted)


def _struct(low: Lowering, tree: Any, arrays: list[Scalars], variables: list[Any]) -> Binding:
    kind: Any = type(tree)
    items = []
    for name, field in kind.fields.items():
        element = getattr(field, "element", field)
        value = binding_of(low, getattr(tree, name), arrays, variables, element)
        if getattr(value, "type", None) is not element:
            raise low.error(
                f"field `{name}` of the {kind!r} that it returns must be {element!r}, not {describe(value)}"
            )
        items.append(value)
    return StructValue(kind, tuple(items))


def _value(low: Lowering, array: Scalars, variable: Any, wanted: Any) -> Binding:
    if any(isinstance(x, Key) for x in array.flat):
        raise low.error("it returns a key of random numbers", "return jax.random.key_data(key)")
    if any(isinstance(x, Complex) for x in array.flat):
        raise low.error("it returns complex numbers, which kernels do not know", "return z.real and z.imag")
    if array.ndim == 0:
        return one(array)
    if array.ndim > 2 or not array.size:
        raise low.error(
            f"it returns an array of shape {array.shape}, which kernels do not know",
            "return numbers, vectors and matrices, several of them as a tuple",
        )
    if isinstance(wanted, CompositeType) and wanted.shape == array.shape and wanted.dtype is dtype_of(variable):
        return Composite(wanted, tuple(array.flat))
    kind = composite(VECTOR if array.ndim == 1 else MATRIX, array.shape, dtype_of(variable))
    return Composite(kind, tuple(array.flat))
