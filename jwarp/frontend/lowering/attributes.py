"""Lowers attributes: one rule for each kind of thing that has some."""

from __future__ import annotations

import ast
import contextlib
import enum
import inspect
from collections.abc import Callable
from typing import Any

from jwarp.errors import CompileError, JwarpError, Span, no_attribute
from jwarp.frontend.builtins.table import BUILTINS
from jwarp.frontend.context import Context
from jwarp.frontend.lowering.names import suggestion
from jwarp.frontend.lowering.rules import expression, lower
from jwarp.frontend.values import addresses, composites, structs
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    Number,
    OneOf,
    PythonRef,
    Shape,
    StructArray,
    StructValue,
    TileRef,
    bind_python,
    describe,
)
from jwarp.ir.nodes import Const, Operand, Value
from jwarp.types import ArrayType, CompositeType, ScalarType, StructArrayType, element_of


@expression(ast.Attribute)
def attribute(ctx: Context, node: ast.Attribute) -> Binding:
    """`x.name`."""
    span = ctx.span(node)
    if node.attr == "value" and (member := _enum_member(ctx, node.value)) is not None:
        return bind_python(member.value, ast.unparse(node), span)
    owner = lower(ctx, node.value)
    if isinstance(owner, PythonRef) and _is_given(ctx, node.value):
        # Of what it is given, a function has other attributes than those that its caller names.
        module = getattr(owner.object, "__module__", None) or ""
        ctx.is_counted &= module.startswith("jwarp.") or isinstance(owner.object, (CompositeType, ScalarType))
    rule = _ATTRIBUTES.get(type(owner))
    if rule is None:
        raise _missing(owner, node.attr, span)
    return rule(ctx, owner, node, span)


def _is_given(ctx: Context, node: ast.expr) -> bool:
    """True unless the object certainly comes from an outer name."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return not isinstance(node, ast.Name) or node.id in ctx.frame.env


def _enum_member(ctx: Context, node: ast.expr) -> enum.Enum | None:
    """The member that `Color.RED` is, which stands for its value everywhere else."""
    owner = lower(ctx, node.value) if isinstance(node, ast.Attribute) else None
    if not isinstance(owner, PythonRef) or not isinstance(owner.object, type):
        return None
    member = getattr(owner.object, node.attr, None) if isinstance(node, ast.Attribute) else None
    return member if isinstance(member, enum.Enum) else None


def _missing(owner: Binding, name: str, span: Span) -> JwarpError:
    return no_attribute(name, describe(owner), span)


def _of_array(ctx: Context, owner: ArrayRef, node: ast.Attribute, span: Span) -> Binding:
    if node.attr == "shape":
        return Shape(owner)
    if node.attr == "dtype":
        return PythonRef(owner.type.element)
    if node.attr == "ndim":
        return Number(owner.type.dims)
    if node.attr == "ptr":
        return addresses.address(owner, span) if owner.is_local else ctx.words_of(owner, span).items[0]
    raise no_attribute(node.attr, "arrays in kernels", span, "there are `shape`, `ndim` and `dtype`")


def _of_struct_array(ctx: Context, owner: StructArray, node: ast.Attribute, span: Span) -> Binding:
    if node.attr == "dtype" and "dtype" not in owner.type.struct.fields:
        return PythonRef(owner.type.struct)
    return Shape(owner.first) if node.attr == "shape" else structs.field(owner, node.attr, span)


def _of_struct(ctx: Context, owner: StructValue, node: ast.Attribute, span: Span) -> Binding:
    return structs.field(owner, node.attr, span, ast.unparse(node.value))


def _of_tile(ctx: Context, owner: TileRef, node: ast.Attribute, span: Span) -> Binding:
    if node.attr == "shape":
        return tuple(Number(n) for n in owner.shape)
    if node.attr == "dtype":
        return PythonRef(owner.dtype)
    raise _missing(owner, node.attr, span)


def _of_composite(ctx: Context, owner: Composite, node: ast.Attribute, span: Span) -> Binding:
    if node.attr == "dtype":
        return PythonRef(owner.type.dtype)
    if node.attr == "length" and len(owner.type.shape) == 1:
        return Number(owner.type.size)
    hint = {"hint": f"write wp.{node.attr}({ast.unparse(node.value)}, …)"} if node.attr in BUILTINS else {}
    selected = composites.named(owner.type, node.attr, span, **hint)
    if isinstance(selected, composites.Part):
        return Composite(selected.type, tuple(owner.items[k] for k in selected.positions))
    return owner.items[selected]


def _of_scalar(ctx: Context, owner: Operand | Number, node: ast.Attribute, span: Span) -> Binding:
    if node.attr == "dtype":
        return PythonRef(owner.type)
    raise _missing(owner, node.attr, span)


# As Warp has them among its functions: `wp.float(x)` is `float(x)`.
_PYTHON_TYPES: dict[str, type] = {"int": int, "float": float}
# Programs have it under its own name.
_NAMES_OF_WARP = ("jwarp", "warp")


def _of_python(ctx: Context, owner: PythonRef, node: ast.Attribute, span: Span) -> Binding:
    if isinstance(owner.object, (ArrayType, StructArrayType)) and node.attr == "dtype":
        return PythonRef(element_of(owner.object))
    if isinstance(owner.object, CompositeType) and node.attr == "length" and len(owner.object.shape) == 1:
        return Number(owner.object.shape[0])
    if inspect.ismodule(owner.object) and owner.object.__name__ in _NAMES_OF_WARP and node.attr in _PYTHON_TYPES:
        return PythonRef(_PYTHON_TYPES[node.attr])
    if inspect.ismodule(owner.object) and not owner.object.__name__.startswith("jwarp"):
        ctx.modules.setdefault(owner.object, getattr(owner.object, "__spec__", None))
    if isinstance(owner.object, CompositeType) and (found := _of_subclass(ctx, node)) is not None:
        return bind_python(found, ast.unparse(node), span)
    try:
        return bind_python(getattr(owner.object, node.attr), ast.unparse(node), span)
    except AttributeError as error:
        if str(error).endswith("not available yet"):
            raise CompileError(str(error), span) from None
        what = ast.unparse(node.value)
        raise no_attribute(node.attr, f"`{what}`", span, suggestion(node.attr)) from None
    except JwarpError:
        raise
    except Exception as error:
        raise CompileError(f"reading `{ast.unparse(node)}` failed: {type(error).__name__}: {error}", span) from error


def _of_subclass(ctx: Context, node: ast.Attribute) -> Any:
    """The attribute that a program's subclass of a vector or matrix type defines; None if there is none."""
    made: Any = None
    if isinstance(node.value, ast.Name) and node.value.id not in ctx.frame.env:
        with contextlib.suppress(KeyError):
            made = ctx.frame.source.found(node.value.id)
    elif isinstance(node.value, ast.Attribute):
        owner = lower(ctx, node.value.value)
        made = getattr(owner.object, node.value.attr, None) if isinstance(owner, PythonRef) else None
    found = vars(made).get(node.attr) if isinstance(made, type) else None
    ctx.is_counted &= found is None  # which the function's code does not name
    return found.__func__ if isinstance(found, staticmethod) else found


_ATTRIBUTES: dict[type, Callable[[Context, Any, ast.Attribute, Span], Binding]] = {
    ArrayRef: _of_array,
    OneOf: _of_array,
    StructArray: _of_struct_array,
    StructValue: _of_struct,
    TileRef: _of_tile,
    Composite: _of_composite,
    PythonRef: _of_python,
    **dict.fromkeys((Value, Const, Number), _of_scalar),
}
