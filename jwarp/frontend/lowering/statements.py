"""Lowers a whole function: assignments and stores."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, KernelWarning, Span
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.context import Frame
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.expressions import SET
from jwarp.frontend.lowering.inlining import InliningLowering
from jwarp.frontend.syntax.operators import BINARY_OPERATORS
from jwarp.frontend.syntax.source import Source, count_loads
from jwarp.frontend.tiles import operators, subscripts
from jwarp.frontend.values import composites, structs
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    PythonRef,
    Shape,
    StructArray,
    StructValue,
    TileRef,
    Unusable,
    describe,
    flatten,
    layout,
)
from jwarp.frontend.values.cells import holds_tile
from jwarp.frontend.values.composites import Selector
from jwarp.ir.builder import TRUE
from jwarp.ir.nodes import Block, Const, Kernel, Op, Operand, Param, Value, blocks
from jwarp.ir.ops import OPS
from jwarp.ir.signs import drop_sign_tests
from jwarp.types import ArrayType, CompositeType, ScalarType, bool_, int32

# The augmented assignments that are atomic on elements of arrays, where threads may share one.
ATOMIC_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "add",  # of the negated value
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}

# Loops over the coefficients of a polynomial.
MAX_LIBRARY_UNROLL = 40


# Later stages walk the IR recursively, and Python's stack is shared with whatever calls a launch.
MAX_NESTING = 120


@dataclass(frozen=True)
class Place:
    """What an assignment changes: an element of an array, or a variable; a field, component or row of it."""

    name: str
    array: ArrayRef | StructArray | None
    value: Binding | None
    indices: tuple[Operand, ...] | None = None  # of the element of the array
    selectors: tuple[Selector, ...] = ()  # of components of the element or variable
    root: StructValue | None = None  # the variable, where what is changed is a field of it
    path: tuple[str, ...] = ()  # the field
    variable: str = ""  # the variable's name

    def element(self, indices: tuple[Operand, ...]) -> Place:
        return dataclasses.replace(self, indices=indices)

    def select(self, selectors: tuple[Selector, ...]) -> Place:
        return dataclasses.replace(self, selectors=(*self.selectors, *selectors))

    def field(self, name: str, span: Span) -> Place:
        """The place of a field of a struct, or of a field of all elements of an array of structs."""
        if self.array is not None:
            assert isinstance(self.array, StructArray)
            found = structs.field(self.array, name, span)
            return Place(f"{self.name}.{name}", found, None, self.indices)  # type: ignore[arg-type]
        assert isinstance(self.value, StructValue)
        if name not in self.value.type.fields:
            structs.field(self.value, name, span)  # raises
        found, path, shown = self.value.field(name), (*self.path, name), f"{self.name}.{name}"
        is_array = isinstance(found, (ArrayRef, StructArray))
        array, value = (found, None) if is_array else (None, found)
        variable = self.variable or self.name
        return Place(shown, array, value, root=self.root or self.value, path=path, variable=variable)  # type: ignore[arg-type]

    @property
    def whole(self) -> Any:
        """The type of the element or variable."""
        if isinstance(self.array, StructArray):
            return self.array.type.struct
        if self.array is not None:
            return self.array.type.element
        return self.value.type  # type: ignore[union-attr]

    @property
    def kind(self) -> Any:
        """The type of what is changed."""
        whole = self.whole
        return composites.selected_type(whole, self.selectors) if isinstance(whole, CompositeType) else whole


class Lowering(InliningLowering):
    """Reads one kernel. The functions it calls are read in place."""

    def __init__(self, source: Source, max_unroll: int, params: int = 0, debug: bool = False, block_dim: int = 0):
        """`params` is how many parameters come before the local arrays in the numbering of arrays."""
        frame = Frame(source, is_kernel=True, loads=count_loads(source.tree.body))
        super().__init__(frame, max_unroll, params, debug, block_dim)

    def lower_simple(self, statement: ast.stmt) -> None:
        span = self.span(statement)
        match statement:
            case ast.Assign(targets=targets, value=value):
                self.lower_assign(targets, value)
            case ast.AugAssign():
                self.lower_augmented(statement)
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as call):
                self.expression(call)
            case ast.Expr(value=ast.IfExp(test=test, body=body, orelse=orelse)):  # for what its calls do
                choice = ast.If(test, [ast.Expr(body)], [ast.Expr(orelse)])
                self.lower_statements([ast.fix_missing_locations(ast.copy_location(choice, statement))])
            case ast.Assert(test=test, msg=message):
                shown = str(message.value) if isinstance(message, ast.Constant) else ast.unparse(test)
                holds = self.truth(test)
                if self.debug:
                    self.builder.check(holds, f"assertion failed: {shown}")
            case ast.Expr(value=value):
                if not isinstance(value, ast.Constant):
                    self.expression(value)  # what is wrong inside matters more
                raise CompileError("this expression does nothing", span, "assign its value to a name")
            case _:
                raise self.unsupported(statement)

    def argument(self, index: int, param: Param, span: Span) -> Binding:
        """What parameter `index` is: an array, or the value that was passed."""
        if isinstance(param.type, ArrayType):
            array = ArrayRef(index, param.name, param.type)
            return self.load(array, (), span) if param.type.dims == 0 else array
        value = Value(param.type, param.name)
        self.builder.append(Op("param", (), index, value, span))
        return value

    # -- assignments

    def lower_assign(self, targets: list[ast.expr], value: ast.expr) -> None:
        if len(targets) == 1 and isinstance(targets[0], ast.Tuple) and self._is_tid(value):
            with self.at(value):
                binding = self.tid(len(targets[0].elts), self.span(value))
        else:
            first = targets[0]
            self.assigned_name = first.id if isinstance(first, ast.Name) else ""
            binding = self.expression(value)
            self.assigned_name = ""
            if holds_tile(binding):
                binding = self.assigned_tile(targets, value, binding)
        for target in targets:
            self.store_to(target, binding, self.span(value))

    def assigned_tile(self, targets: list[ast.expr], value: ast.expr, binding: Binding) -> Binding:
        """What an assignment of a tile gives a name: a copy of what another name stands for, else the tile itself."""
        span = self.span(value)
        if len(targets) > 1:
            raise CompileError(
                "a tile is assigned to one name at a time", self.span(targets[1]), "write b = a after it"
            )
        return self.tiles.copied(binding, span) if isinstance(value, (ast.Name, ast.Tuple)) else binding

    def _is_tid(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call) or node.args or node.keywords:
            return False
        callee = self.expression(node.func)
        return isinstance(callee, PythonRef) and callee.object is tid

    def store_to(self, target: ast.expr, binding: Binding, span: Span) -> None:
        match target:
            case ast.Name(id=name):
                self.assign(name, binding, self.span(target))
            case ast.Starred():
                raise self.unsupported(target)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                parts = self.unpack(binding, len(items), self.span(target))
                for item, part in zip(items, parts, strict=True):
                    self.store_to(item, part, span)
            case ast.Subscript() | ast.Attribute() if place := subscripts.place(self, target):
                subscripts.assign(self, place, binding, span)
            case ast.Subscript() | ast.Attribute():
                self.change(self.element_place(target), "store", binding, span)
            case _:
                raise self.not_assignable(target)

    def not_assignable(self, target: ast.expr) -> CompileError:
        return CompileError(
            "this cannot be assigned to", self.span(target), "assign to a name, or to an element of an array: a[i]"
        )

    def unpack(self, binding: Binding, count: int, span: Span) -> tuple:
        if isinstance(binding, Shape):
            ref = binding.array
            binding = tuple(self.extent(ref, axis, span) for axis in range(ref.type.dims))
        if isinstance(binding, Composite):
            binding = tuple(composites.read(self, binding, (k,), span) for k in range(binding.type.shape[0]))
        if not isinstance(binding, tuple):
            raise KernelTypeError(f"{describe(binding)} cannot be unpacked into {count} names", span)
        if len(binding) != count:
            raise CompileError(f"{len(binding)} values cannot be unpacked into {count} names", span)
        return binding

    def assign(self, name: str, binding: Binding, span: Span) -> None:
        """Let `name` stand for `binding`. A name keeps its type."""
        if binding == ():
            raise CompileError("there is no value to assign", span, "a function gives one with `return`")
        if isinstance(binding, Unusable):
            raise binding.error(span)
        self.frame.statics.pop(name, None)
        before = self.frame.env.get(name)
        arrays = isinstance(before, ArrayRef) and isinstance(binding, ArrayRef)
        if before is not None and not isinstance(before, Unusable) and not arrays:
            old, new = layout(before, span), layout(binding, span)
            if old is not None and old != new:
                raise KernelTypeError(
                    f"`{name}` is {describe(before)} and cannot become {describe(binding)}",
                    span,
                    "convert the value, or use another name",
                )
        self.frame.env[name] = binding
        self.frame.unset.discard(name)
        if self.debug:
            self.frame.env[SET + name] = TRUE

    def place(self, target: ast.expr) -> Place:
        """What `a[i]`, `v[i]`, `v.x`, `v[1:3]`, `m[i][j]` or `a[i][j].x` names on the left of an assignment."""
        span = self.span(target)
        if isinstance(target, ast.Name):
            binding = self.lower_Name(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            if isinstance(binding, (ArrayRef, StructArray)):
                return Place(target.id, binding, None)
            if isinstance(binding, (Composite, StructValue)):
                return Place(target.id, None, binding)
        if not isinstance(target, (ast.Subscript, ast.Attribute)):
            raise self.not_assignable(target)
        owner = self.place(target.value)
        is_struct = isinstance(owner.array, StructArray) or isinstance(owner.value, StructValue)
        if isinstance(target, ast.Attribute) and is_struct:
            return owner.field(target.attr, span)
        if owner.array is not None and owner.indices is None:
            if isinstance(target, ast.Attribute):
                raise self.not_assignable(target)
            found = self.element_or_row(owner.array, target)
            return owner.element(found) if isinstance(found, tuple) else Place(owner.name, found, None)
        kind = owner.kind
        if not isinstance(kind, CompositeType):
            raise KernelTypeError(f"{kind} has no components to assign to", span)
        if any(isinstance(s, range) for s in owner.selectors):
            raise CompileError("a slice cannot be indexed where it is assigned to", span, "index the whole vector")
        if isinstance(target, ast.Attribute):
            return owner.select((composites.named(kind, target.attr, span),))
        return owner.select(self.selectors(kind, target))

    def element_place(self, target: ast.expr) -> Place:
        """The place that an assignment changes, which is no whole array."""
        place = self.place(target)
        if place.array is not None and place.indices is None and not place.path:
            raise self.row_error(place, self.span(target))
        return place

    def row_error(self, place: Place, span: Span) -> CompileError:
        return CompileError(
            f"this is a whole row of `{place.name}`, whose elements can only be set one by one",
            span,
            "give an index for each dimension: a[i, j]",
        )

    def change(self, place: Place, operation: str, binding: Binding, span: Span) -> None:
        """Store to a place, or add to it."""
        if place.path and place.indices is None:
            return self.change_field(place, binding, span)
        if isinstance(place.array, StructArray):
            return self.store_struct(place, operation, binding, span)
        wanted = place.kind
        if layout(binding, span) is not wanted:
            raise KernelTypeError(
                f"`{place.name}` holds {wanted}{' there' if place.selectors else ''}, the value is {describe(binding)}",
                span,
                f"convert it: wp.{wanted}(…)" if isinstance(wanted, ScalarType) else "",
            )
        scalars = flatten(binding, span) or []
        if place.array is None:
            assert isinstance(place.value, Composite)
            return self.assign(place.name, composites.replace(self, place.value, place.selectors, scalars, span), span)
        for indices, value in zip(self.element_indices(place, span), scalars, strict=True):
            self.builder.effect(operation, *indices, value, attr=place.array.index)
        return None

    def change_field(self, place: Place, binding: Binding, span: Span) -> None:
        """Let the variable be a struct with another value of a field."""
        assert place.root is not None
        wanted: Any = place.root.type
        for name in place.path:
            wanted = wanted.fields[name]
        if place.selectors:
            assert isinstance(place.value, Composite)
            if layout(binding, span) is not place.kind:
                text = f"`{place.name}` holds {place.kind} there, the value is {describe(binding)}"
                raise KernelTypeError(text, span)
            parts = flatten(binding, span) or []
            binding = composites.replace(self, place.value, place.selectors, parts, span)
        binding = structs.fitted(self, binding, wanted, f"`{place.name}`", span)
        self.frame.env[place.variable] = place.root.with_field(place.path, binding)

    def store_struct(self, place: Place, operation: str, binding: Binding, span: Span) -> None:
        """Store a struct to an element of an array of structs."""
        assert isinstance(place.array, StructArray) and place.indices is not None
        kind = place.array.type.struct
        if not isinstance(binding, StructValue) or binding.type is not kind or operation != "store":
            raise KernelTypeError(f"`{place.name}` holds {kind!r}, the value is {describe(binding)}", span)
        for array, part in structs.leaves(place.array, binding):
            self.change(Place(array.name, array, None, (*array.prefix, *place.indices)), operation, part, span)

    def element_indices(self, place: Place, span: Span) -> list[tuple[Operand, ...]]:
        """The indices of all components that a place in an array has."""
        assert isinstance(place.array, ArrayRef) and place.indices is not None
        axes: list[list[Operand]] = []
        for selector in composites.axes_of(place.array.type.components, place.selectors):
            if isinstance(selector, (range, int)):
                known = selector if isinstance(selector, range) else (selector,)
                axes.append([Const(int32, k) for k in known])
            else:
                axes.append([self.as_index(selector, place.array, span)])
        return [(*place.indices, *component) for component in itertools.product(*axes)]

    def lower_augmented(self, statement: ast.AugAssign) -> None:
        target, operator, span = statement.target, statement.op, self.span(statement)
        if isinstance(target, ast.Name):
            current = self.lower_Name(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            value, (symbol, name) = self.expression(statement.value), BINARY_OPERATORS[type(operator)]
            if isinstance(current, TileRef) and name in operators.IN_PLACE:
                return operators.change(self, symbol, name, current, value, span)
            result = self.binary(operator, current, value, statement)
            return self.assign(target.id, result, self.span(target))
        if not isinstance(target, (ast.Subscript, ast.Attribute)):
            raise self.not_assignable(target)
        if tile_place := subscripts.place(self, target):
            symbol, name = BINARY_OPERATORS[type(operator)]
            return subscripts.augment(self, tile_place, name, symbol, statement)
        place = self.element_place(target)
        value = self.expression(statement.value)
        value_span = self.span(statement.value)
        atomic = self.atomic_operation(place, operator, span)
        if atomic:
            if isinstance(operator, ast.Sub) and layout(value, value_span) is place.kind:
                value = composites.negated(self, value, span)
            return self.change(place, atomic, value, value_span)
        result = self.binary(operator, self.read(place, span), value, statement)
        return self.change(place, "store", result, value_span)

    def atomic_operation(self, place: Place, operator: ast.operator, span: Span) -> str:
        """The atomic operation that `place operator= …` is; empty where it reads, computes and stores."""
        if not isinstance(place.array, ArrayRef) or place.indices is None or type(operator) not in ATOMIC_OPERATORS:
            return ""
        dtype, name = place.array.type.dtype, f"atomic_{ATOMIC_OPERATORS[type(operator)]}"
        if dtype.kind in OPS[name].kinds:
            return name
        if dtype is bool_ and name == "atomic_add":
            hint = "use an int array; on bool there are |=, &= and ^=, which are not atomic"
            raise KernelTypeError(f"`{place.name}` holds bool, which has no arithmetic", span, hint)
        return ""

    def read(self, place: Place, span: Span) -> Binding:
        """What a place holds now."""
        if isinstance(place.array, StructArray):
            kind = place.array.type.struct
            raise KernelTypeError(f"{kind!r} has no arithmetic", span, "change its fields one by one")
        if place.array is not None:
            if place.indices is None:
                raise self.row_error(place, span)
            value = self.load(place.array, place.indices, span)
        else:
            assert place.value is not None
            value = place.value
        if not place.selectors:
            return value
        assert isinstance(value, Composite)
        return composites.read(self, value, place.selectors, span)


def lower_func(function: Func, types: tuple[ScalarType, ...]) -> tuple[tuple[Value, ...], Block]:
    """The IR of a scalar function, as its parameters and the block that yields its result."""
    names = list(function.signature.parameters)
    params = tuple(Value(t, n) for t, n in zip(types, names, strict=True))
    lowering = Lowering(function.source, MAX_LIBRARY_UNROLL)
    lowering.frame = Frame(function.source, is_kernel=False, loads=count_loads(function.source.tree.body))
    lowering.frame.env.update(zip(names, params, strict=True))
    lowering.stack.append(function)
    lowering.lower_statements(function.source.tree.body)
    span = lowering.span(function.source.tree)
    result = lowering.scalar(lowering.result_of(function, span), span)
    assert not lowering.locals  # they would be the kernel's, which is another one for each use
    return params, Block(tuple(lowering.builder.nodes), (result,))


def _check_nesting(block: Block, name: str, left: int) -> None:
    for node in block.nodes:
        for inner in blocks(node):
            if left == 0:
                raise CompileError(
                    f"`{name}` has branches and loops nested more than {MAX_NESTING} deep",
                    node.span,
                    "each elif and each early return or continue nests what follows it: move parts to a @wp.func, "
                    "or look values up in an array",
                )
            _check_nesting(inner, name, left - 1)


def lower_kernel_source(
    source: Source,
    signature: Sequence[Any],
    params: tuple[Param, ...],
    max_unroll: int,
    debug: bool,
    block_dim: int = 0,
) -> Kernel:
    """The IR of the kernel that `source` is, with the parameters `signature`, in the IR `params`.

    With a `block_dim`, it is what one thread of a block does; `blocks.by_blocks` makes IR of that.

    Raises:
        UsesTiles: the kernel uses tiles, and there is no `block_dim`.
    """
    lowering = Lowering(source, max_unroll, len(params), debug, block_dim)
    parts = iter(enumerate(params))
    for argument in signature:
        binding = structs.bind_parameter(lowering.argument, argument.type, parts, lowering.span(source.tree))
        lowering.frame.env[argument.name] = binding
    try:
        lowering.lower_statements(source.tree.body)
    except RecursionError:
        raise CompileError(
            f"`{source.name}` is nested too deeply", lowering.span(source.tree), "move parts of it to a @wp.func"
        ) from None
    for span, name in lowering.warnings:
        shown = name if name.startswith("the ") else f"`{name}`"
        message = f"{span}: {shown} may have no value here; it then reads as zero"
        warnings.warn_explicit(message, KernelWarning, span.file, span.line)
    body = Block(tuple(lowering.builder.nodes))
    _check_nesting(body, source.name, MAX_NESTING)
    span, locals = lowering.span(source.tree), tuple(lowering.locals)
    arity, gradients = max(1, lowering.tid_arity), tuple(lowering.gradients)
    made = Kernel(source.name, params, arity, body, span, locals, gradients=gradients)
    return drop_sign_tests(made, lowering.tiles.sign_tests)
