"""Variables of many components that are indexed by values: their components are in a local array.

Taken apart into scalars, each index that varies would become one choice for every component, and each branch and loop
would carry them all. Such a variable is still a value: who reads its name gets what the array holds then, and an
assignment copies. One array is a variable's own, in all of its function. Only where a statement gives a variable to a
function and assigns what that returns, `v = f(v)`, or returns it, both have one array.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from jwarp.errors import Span
from jwarp.frontend.context import Context
from jwarp.frontend.func import Func
from jwarp.frontend.syntax.nodes import nodes_in
from jwarp.frontend.syntax.source import count_loads
from jwarp.frontend.values import array_views, composites, structs
from jwarp.frontend.values.bindings import ArrayRef, Binding, Composite, OneOf, Referenced, Stored, StructArray
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Node, Op, Operand, Value
from jwarp.types import ArrayType, CompositeType, int32

# Variables of up to so many components, a matrix of 6 rows and columns, stay scalars.
MAX_SCALARS = 36


# -- which variables


def in_memory(ctx: Context, name: str, binding: Binding, span: Span) -> Binding:
    """The binding of a variable that `binding` is assigned to: the array of its components, if it is to have one."""
    owner = ctx.frame.env.get(name)
    if isinstance(owner, Referenced) and not isinstance(binding, Referenced):
        write(ctx, owner, binding)
        return owner
    if not isinstance(binding, Composite) or not _is_wanted(ctx, name, binding):
        return binding
    frame = ctx.frame
    kind, is_new = ArrayType(binding.type, 0), not isinstance(frame.env.get(name), Stored)
    array = frame.memory.get(name)
    if array is None or array.type != kind:
        array = ctx.array_of_components(name, binding.type)
        if array is None:
            return binding
        frame.memory[name] = array
    elif is_new:
        ctx.builder.effect("clear", attr=array.index)
    write(ctx, Stored(array), binding, is_new)
    return Stored(array)


def _is_wanted(ctx: Context, name: str, value: Composite) -> bool:
    if value.type.size <= MAX_SCALARS or ctx.only_scalars or ctx.debug or ctx.in_gradient:
        return False
    is_reference = bool(ctx.stack) and name in ctx.stack[-1].references
    return name in ctx.frame.indexed and not is_reference


@contextlib.contextmanager
def scalars_only(ctx: Context) -> Iterator[None]:
    """Read functions whose nodes must be free of local arrays."""
    before, ctx.only_scalars = ctx.only_scalars, True
    try:
        yield
    finally:
        ctx.only_scalars = before


# -- what they hold


def variable(ctx: Context, node: ast.expr) -> Stored | None:
    """The variable of components that `node` names, if they are in an array."""
    if not isinstance(node, ast.Name) or node.id in ctx.frame.unset:
        return None
    found = ctx.frame.env.get(node.id)
    return found if isinstance(found, Stored) and isinstance(found.type, CompositeType) else None


def read(ctx: Context, owner: Stored, selectors: tuple[composites.Selector, ...], span: Span) -> Binding:
    """Read the selected components."""
    if isinstance(owner, Referenced):
        return composites.read(ctx, as_value(ctx, owner, span), selectors, span)
    kind = composites.selected_type(owner.type, selectors)
    axes: list[list[Operand]] = []
    for selector in composites.axes_of(owner.type.shape, selectors):
        if isinstance(selector, (range, int)):
            axes.append([Const(int32, k) for k in (selector if isinstance(selector, range) else (selector,))])
        else:
            axes.append([ctx.as_index(selector, owner.array, span)])
    items = tuple(_load(ctx, owner, place, span) for place in itertools.product(*axes))
    return Composite(kind, items) if isinstance(kind, CompositeType) else items[0]


def _load(ctx: Context, owner: Stored, place: tuple[Operand, ...], span: Span) -> Operand:
    result = Value(owner.type.dtype)
    ctx.builder.append(Op("load", place, owner.array.index, result, span))
    return result


def write(ctx: Context, owner: Stored, value: Any, is_clear: bool = False) -> None:
    """Let the array hold `value`; `is_clear` if it holds zeros."""
    _store(ctx, owner.array, value, is_clear)


def _store(ctx: Context, array: ArrayRef | StructArray, value: Any, is_clear: bool = False) -> Binding:
    span = ctx.builder.span
    if isinstance(array, StructArray):
        structs.refuse_array_fields(array.type.struct, span)
        for leaf, part in structs.leaves(array, value):
            _store(ctx, leaf, part)
    elif isinstance(array, OneOf):
        ctx.of_options(array, lambda one: _store(ctx, one, value), span)
    elif array.is_missing:
        ctx.check_given(array, span)
    else:
        nothing, element = zero(array.type.dtype), array_views.place(ctx, array, (), span)
        items = zip(composites.component_indices(array.type.components), ctx.scalars(value, span), strict=True)
        for place, item in items:
            if not is_clear or item != nothing:
                at = array_views.component_place(ctx, array, element, place, span)
                ctx.builder.effect("store", *at, item, attr=array.index)
    return ()


def holds_stored(binding: Binding | None) -> bool:
    """True if `binding` is a variable with components in memory, or a tuple with one in it."""
    return isinstance(binding, Stored) or (isinstance(binding, tuple) and any(map(holds_stored, binding)))


def as_value(ctx: Context, binding: Any, span: Span) -> Any:
    """`binding` with what such variables in it hold now."""
    if isinstance(binding, Stored):
        array: Any = binding.array
        whole = isinstance(array, StructArray)
        return array_views.element(ctx, array, (), span) if whole else ctx.load(array, (), span)
    return tuple(as_value(ctx, item, span) for item in binding) if isinstance(binding, tuple) else binding


def value_after(ctx: Context, binding: Any, nodes: list[Node], span: Span) -> Any:
    """`binding` with what such variables in it hold behind `nodes`, which get what reads them."""
    with ctx.builder.block() as reads:
        found = as_value(ctx, binding, span)
    nodes.extend(reads)
    return found


# -- variables that a call changes in place


def borrowed_by_assignment(ctx: Context, targets: list[ast.expr], value: ast.expr) -> frozenset[ast.Name]:
    """The arguments of the call `value` that are variables which the statement then assigns to."""
    names = _names_of(targets[0]) if len(targets) == 1 else []
    if None in names or not isinstance(value, ast.Call):
        return frozenset()
    return _borrowed(ctx, value, set(names))


def borrowed_by_return(ctx: Context, value: ast.Call) -> frozenset[ast.Name]:
    """The arguments of the call `value` that are variables, all of which end with a `return`."""
    return _borrowed(ctx, value, set(ctx.frame.env))


def _borrowed(ctx: Context, call: ast.Call, names: set[Any]) -> frozenset[ast.Name]:
    given = [*call.args, *(k.value for k in call.keywords)]
    found = [n for n in given if isinstance(n, ast.Name) and n.id in names and _is_own(variable(ctx, n))]
    loads = count_loads([call]) if found else {}
    return frozenset(n for n in found if loads[n.id] == 1)


def _is_own(owner: Stored | None) -> bool:
    return owner is not None and not isinstance(owner, Referenced)


def left(ctx: Context, binding: Any, span: Span) -> Any:
    """The result of a call in a `return`: of variables in memory, only the caller's keep their identity."""
    if isinstance(binding, tuple):
        return tuple(left(ctx, item, span) for item in binding)
    return as_value(ctx, binding, span) if isinstance(binding, Stored) and not _is_borrowed(ctx, binding) else binding


def _is_borrowed(ctx: Context, owner: Stored) -> bool:
    return _is_own(owner) and owner.array.index in ctx.frame.borrowed


def _names_of(target: ast.expr) -> list[str | None]:
    items = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return [item.id if isinstance(item, ast.Name) else None for item in items]


def borrowed(ctx: Context, function: Func, arguments: dict[str, Binding], span: Span) -> dict[str, Binding]:
    """The arguments of a call, of which those that stay as they are in memory are variables that it may change."""
    takes_none = ctx.only_scalars or function.gradient is not None or function.replay is not None
    return {
        name: as_value(ctx, binding, span) if takes_none or name in function.references else binding
        for name, binding in arguments.items()
    }


def assigned(ctx: Context, targets: list[ast.expr], binding: Binding, span: Span) -> Binding:
    """The result of a call in an assignment: a variable that was changed in place keeps its identity."""
    if not holds_stored(binding):
        return binding
    names = _names_of(targets[0]) if len(targets) == 1 else []
    if isinstance(targets[0], ast.Name) or not isinstance(binding, tuple) or len(names) != len(binding):
        return _kept(ctx, names[0] if len(names) == 1 else None, binding, span)
    return tuple(_kept(ctx, name, part, span) for name, part in zip(names, binding, strict=True))


def _kept(ctx: Context, name: str | None, binding: Binding, span: Span) -> Binding:
    same = isinstance(binding, Stored) and name is not None and ctx.frame.env.get(name) == binding
    return binding if same else as_value(ctx, binding, span)


def returned(ctx: Context, node: ast.Return) -> list[str]:
    """The variables that `return` gives back as they are in memory, since they are the caller's."""
    assert node.value is not None
    every = [n for n in nodes_in(ctx.frame.source.tree) if isinstance(n, ast.Return)]
    names = _names_of(node.value)
    loads = count_loads([node])
    found = [
        name
        for name in names
        if name is not None
        and loads[name] == 1
        and isinstance(owner := ctx.frame.env.get(name), Stored)
        and _is_borrowed(ctx, owner)
    ]
    if not returns_in_loops(ctx):
        return found
    # A loop carries one array, whichever return is taken.
    return [n for n in found if all(r.value is not None and _names_of(r.value) == names_at(r, n, names) for r in every)]


def names_at(node: ast.Return, name: str, names: list[str | None]) -> list[str | None] | None:
    """The names that are returned, if `name` is where it is in `names`; else None."""
    assert node.value is not None
    given, at = _names_of(node.value), names.index(name)
    return given if len(given) == len(names) and given[at] == name else None


def returns_in_loops(ctx: Context) -> bool:
    """True if the function returns from within a loop."""
    return ctx.frame.source.returns_in_loops
