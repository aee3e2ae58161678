"""Lowers Python expressions to IR."""

from __future__ import annotations

import ast
import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jwarp.errors import CompileError, JwarpError, KernelTypeError, Span
from jwarp.frontend import composites
from jwarp.frontend.bindings import (
    ArrayRef,
    Binding,
    Composite,
    Number,
    PythonRef,
    Shape,
    Unusable,
    as_operand,
    bind_python,
    describe,
    flatten,
    layout,
    rebuild,
)
from jwarp.frontend.builtins import BUILTINS, PYTHON_BUILTINS, Builtin, static
from jwarp.frontend.constructs import CONSTRUCTS, DEFAULT_WAY_OUT
from jwarp.frontend.func import Func
from jwarp.frontend.source import Source
from jwarp.ir.builder import FALSE, TRUE, Builder, finish, zero
from jwarp.ir.nodes import Const, If, Node, Op, Operand, Value
from jwarp.ir.ops import OPS
from jwarp.types import CompositeType, ScalarType, as_scalar, bool_, int32, int64, uint32, uint64

BINARY_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "add"),
    ast.Sub: ("-", "sub"),
    ast.Mult: ("*", "mul"),
    ast.Div: ("/", "div"),
    ast.FloorDiv: ("//", "floordiv"),
    ast.Mod: ("%", "mod"),
    ast.Pow: ("**", "pow"),
    ast.MatMult: ("@", "matmul"),
    ast.BitAnd: ("&", "and"),
    ast.BitOr: ("|", "or"),
    ast.BitXor: ("^", "xor"),
    ast.LShift: ("<<", "shl"),
    ast.RShift: (">>", "shr"),
}
COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "lt"),
    ast.LtE: ("<=", "le"),
    ast.Gt: (">", "gt"),
    ast.GtE: (">=", "ge"),
    ast.Eq: ("==", "eq"),
    ast.NotEq: ("!=", "ne"),
}

_SYMBOLS = {op: symbol for symbol, op in [*BINARY_OPERATORS.values(), *COMPARISONS.values()]}
_SYMBOLS |= {"neg": "-", "not": "~"}

# A branch of at most this many pure operations is computed without a branch.
MAX_EAGER_OPS = 8


@dataclass
class Frame:
    """One function being read: the kernel itself, or a function that is read where it is called."""

    source: Source
    is_kernel: bool
    env: dict[str, Binding] = field(default_factory=dict)
    unset: set[str] = field(default_factory=set)  # names that some path leaves without a value
    statics: dict[str, Any] = field(default_factory=dict)  # variables of unrolled loops
    loads: dict[str, int] = field(default_factory=dict)


class ExpressionLowering:
    """The part of a lowering that deals with expressions; statements are in the subclass."""

    def __init__(self, frame: Frame, max_unroll: int):
        self.builder = Builder()
        self.frame = frame
        self.max_unroll = max_unroll
        self.tid_arity = 0
        self.warnings: dict[tuple[Span, str], None] = {}

    # -- spans and errors

    def span(self, node: ast.AST) -> Span:
        return self.frame.source.span(node)

    @contextlib.contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Stamp what is built inside with the place of `node`."""
        before = self.builder.span
        self.builder.span = self.span(node)
        try:
            yield
        finally:
            self.builder.span = before

    def emit(self, name: str, *args: Operand, span: Span, attr: Any = None, type: ScalarType | None = None) -> Operand:
        """Append an operation of the language, checking what it takes in the user's words."""
        row = OPS[name]
        types_ = tuple(a.type for a in args)
        shown = _SYMBOLS.get(name, f"wp.{name}")
        if row.typed_by == "" and len(set(types_)) > 1 and name != "select":
            raise KernelTypeError(
                f"`{shown}` needs arguments of one type, got {', '.join(t.name for t in types_)}",
                span,
                f"convert one of them, for example {_spelling(types_[0])}(…); write 2.0 for a float, 2 for an int",
            )
        if any(t.kind not in row.kinds for t in types_) or (row.result and type is None and row.result(types_) is None):
            raise KernelTypeError(
                f"`{shown}` does not take ({', '.join(t.name for t in types_)})", span, _kind_hint(name, types_)
            )
        before, self.builder.span = self.builder.span, span
        try:
            return self.builder.op(name, *args, attr=attr, type=type)
        finally:
            self.builder.span = before

    # -- what builtins use

    def scalar(self, binding: Binding, span: Span, role: str = "value") -> Operand:
        """`binding` as a scalar, or a KernelTypeError."""
        if isinstance(binding, Unusable):
            raise CompileError(binding.reason, span)
        operand = as_operand(binding, span)
        if operand is None:
            raise KernelTypeError(f"{role} must be a scalar, not {describe(binding)}", span, _scalar_hint(binding))
        return operand

    def condition(self, binding: Binding, span: Span) -> Operand:
        """The truth of a bool or a number."""
        operand = self.scalar(binding, span, "condition")
        return operand if operand.type is bool_ else self.emit("ne", operand, zero(operand.type), span=span)

    def convert(self, binding: Binding, type: ScalarType, span: Span) -> Operand:
        """`type(binding)`: a value conversion."""
        if isinstance(binding, Number):
            return binding.as_type(type, span)
        return self.emit("cast", self.scalar(binding, span), span=span, type=type)

    def tid(self, arity: int, span: Span) -> Binding:
        if not self.frame.is_kernel:
            raise CompileError("wp.tid() can only be called in kernels", span, "pass the coordinates as arguments")
        if not 1 <= arity <= 4:
            raise CompileError(f"wp.tid() has 1 to 4 coordinates, not {arity}", span)
        if self.tid_arity not in (0, arity):
            raise CompileError(
                f"wp.tid() is read with {arity} coordinate(s) here and with {self.tid_arity} elsewhere",
                span,
                "read it once, into as many names as the launch has dimensions",
            )
        self.tid_arity = arity
        axes = tuple(self._thread_coordinate(axis, span) for axis in range(arity))
        return axes if arity > 1 else axes[0]

    def _thread_coordinate(self, axis: int, span: Span) -> Operand:
        # Not through `op`: an operation without arguments has nothing to fold.
        result = Value(int32)
        self.builder.append(Op("tid", (), axis, result, span))
        return result

    # -- expressions

    def expression(self, node: ast.expr) -> Binding:
        method = getattr(self, f"lower_{type(node).__name__}", None)
        if method is None:
            raise self.unsupported(node)
        with self.at(node):
            return method(node)

    def unsupported(self, node: ast.AST, construct: type[ast.AST] | None = None) -> CompileError:
        """The error for a Python construct, met at `node`, that kernels do not have."""
        word = (construct or type(node)).__name__
        name, way_out = CONSTRUCTS.get(word, (word, DEFAULT_WAY_OUT))
        return CompileError(f"{name} is not part of the kernel language", self.span(node), way_out)

    def value(self, node: ast.expr, role: str = "value") -> Operand:
        return self.scalar(self.expression(node), self.span(node), role)

    def truth(self, node: ast.expr) -> Operand:
        return self.condition(self.expression(node), self.span(node))

    def lower_Constant(self, node: ast.Constant) -> Binding:
        if isinstance(node.value, (bool, int, float)):
            return Number(node.value)
        raise CompileError(
            f"the constant {node.value!r} has no meaning in a kernel",
            self.span(node),
            "kernels compute with numbers and bools; infinity is math.inf, not a number math.nan",
        )

    def lower_Name(self, node: ast.Name) -> Binding:
        name, span = node.id, self.span(node)
        if name in self.frame.env:
            if name in self.frame.unset:
                self.warnings[(span, name)] = None
            binding = self.frame.env[name]
            if isinstance(binding, Unusable):
                raise CompileError(binding.reason, span)
            return binding
        code = self.frame.source.function.__code__
        if name in code.co_varnames or name in code.co_cellvars:
            raise CompileError(f"`{name}` has no value yet at this point", span, "assign to it before it is read")
        try:
            found = self.frame.source.lookup(name)
        except KeyError:
            raise CompileError(f"`{name}` is not defined", span, _suggestion(name)) from None
        return bind_python(found, name, span)

    def lower_Attribute(self, node: ast.Attribute) -> Binding:
        owner = self.expression(node.value)
        span = self.span(node)
        if isinstance(owner, ArrayRef):
            if node.attr == "shape":
                return Shape(owner)
            raise CompileError(f"arrays have no attribute `{node.attr}` in kernels", span, "there is `shape`")
        if isinstance(owner, PythonRef):
            try:
                return bind_python(getattr(owner.object, node.attr), ast.unparse(node), span)
            except AttributeError:
                what = ast.unparse(node.value)
                raise CompileError(f"`{what}` has no attribute `{node.attr}`", span, _suggestion(node.attr)) from None
            except JwarpError:
                raise
            except Exception as error:
                raise CompileError(
                    f"reading `{ast.unparse(node)}` failed: {type(error).__name__}: {error}", span
                ) from error
        if isinstance(owner, Composite):
            if node.attr == "dtype":
                return PythonRef(owner.type.dtype)
            return owner.items[composites.named(owner.type, node.attr, span)]
        raise CompileError(f"{describe(owner)} has no attribute `{node.attr}`", span)

    def lower_Tuple(self, node: ast.Tuple) -> Binding:
        return tuple(self.expression(item) for item in node.elts)

    def lower_UnaryOp(self, node: ast.UnaryOp) -> Binding:
        span = self.span(node)
        operand = self.expression(node.operand)
        if isinstance(node.op, ast.Not):
            return self.emit("not", self.condition(operand, span), span=span)
        if isinstance(operand, Number) and not isinstance(operand.value, bool):
            if isinstance(node.op, ast.USub):
                return Number(-operand.value)  # keeps the full precision for a conversion around it
            if isinstance(node.op, ast.UAdd):
                return operand
        if isinstance(operand, Composite):
            name = {ast.USub: "neg", ast.Invert: "not"}.get(type(node.op))
            return composites.elementwise(self, name, (operand,), span) if name else operand
        scalar = self.scalar(operand, span)
        if isinstance(node.op, ast.UAdd):
            return scalar
        if isinstance(node.op, ast.Invert) and scalar.type is bool_:
            raise KernelTypeError("`~` needs an integer, got bool", span, "write `not x`")
        return self.emit("neg" if isinstance(node.op, ast.USub) else "not", scalar, span=span)

    def lower_BinOp(self, node: ast.BinOp) -> Binding:
        return self.binary(node.op, self.expression(node.left), self.expression(node.right), node)

    def binary(self, operator: ast.operator, left: Binding, right: Binding, node: ast.BinOp | ast.AugAssign) -> Binding:
        span = self.span(node)
        symbol, name = BINARY_OPERATORS[type(operator)]
        if isinstance(left, Composite) or isinstance(right, Composite):
            return composites.binary(self, symbol, name, left, right, span)
        sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
        x = self.scalar(left, self.span(sides[0]), "left operand")
        y = self.scalar(right, self.span(sides[1]), "right operand")
        if name == "matmul":
            raise KernelTypeError(f"`@` does not take ({x.type}, {y.type})", span, "use `*` for numbers")
        return self.emit(name, x, y, span=span)

    def lower_Compare(self, node: ast.Compare) -> Binding:
        for operator in node.ops:
            if type(operator) not in COMPARISONS:
                raise self.unsupported(node, type(operator))
        return self.compare_chain(node, self.expression(node.left), 0)

    def compare_chain(self, node: ast.Compare, left: Binding, position: int) -> Operand:
        """The comparisons of `node` from `position` on; a later operand counts only where those before hold."""
        right = self.expression(node.comparators[position])
        holds = self.compare(node.ops[position], left, right, node)
        if position == len(node.ops) - 1:
            return holds
        return self.logical(True, holds, lambda: self.compare_chain(node, right, position + 1), self.span(node))

    def compare(self, operator: ast.cmpop, left: Binding, right: Binding, node: ast.Compare) -> Operand:
        span, (symbol, name) = self.span(node), COMPARISONS[type(operator)]
        if isinstance(left, Composite) or isinstance(right, Composite):
            same = composites.equal(self, symbol, left, right, span)
            return same if name == "eq" else self.emit("not", same, span=span)
        x, y = self.scalar(left, self.span(node.left)), self.scalar(right, span)
        return self.emit(name, x, y, span=span)

    def lower_BoolOp(self, node: ast.BoolOp) -> Binding:
        is_and, result = isinstance(node.op, ast.And), self.truth(node.values[0])
        for item in node.values[1:]:
            result = self.logical(is_and, result, lambda item=item: self.truth(item), self.span(node))  # type: ignore[misc]
        return result

    def logical(self, is_and: bool, first: Operand, second: Callable[[], Operand], span: Span) -> Operand:
        """`first and second()` (or `or`), where the second is evaluated only if the first leaves it open."""
        if isinstance(first, Const) and first.value is not is_and:
            return first
        with self.builder.block() as nodes:
            operand = second()
        if is_eager(nodes):
            self.builder.extend(nodes)
            return self.emit("and" if is_and else "or", first, operand, span=span)
        then, orelse = finish(nodes, (operand,)), finish([], (FALSE if is_and else TRUE,))
        merged = Value(bool_)
        self.builder.append(If(first, *((then, orelse) if is_and else (orelse, then)), (merged,), span))
        return merged

    def lower_IfExp(self, node: ast.IfExp) -> Binding:
        cond, span = self.truth(node.test), self.span(node)
        if isinstance(cond, Const):
            return self.expression(node.body if cond.value else node.orelse)
        with self.builder.block() as then:
            x = self.expression(node.body)
            xs = flatten(x, self.span(node.body)) or [self.scalar(x, self.span(node.body))]
        with self.builder.block() as orelse:
            y = self.expression(node.orelse)
            ys = flatten(y, self.span(node.orelse)) or [self.scalar(y, self.span(node.orelse))]
        if layout(x, span) != layout(y, span):
            raise KernelTypeError(
                f"the two values have types {describe(x)} and {describe(y)}", span, "convert one of them"
            )
        if not then and not orelse:
            return rebuild(x, [self.emit("select", cond, *pair, span=span) for pair in zip(xs, ys, strict=True)])
        merged = tuple(Value(v.type) for v in xs)
        self.builder.append(If(cond, finish(then, xs), finish(orelse, ys), merged, span))
        return rebuild(x, list(merged))

    # -- subscripts

    def lower_Subscript(self, node: ast.Subscript) -> Binding:
        owner, span = self.expression(node.value), self.span(node)
        if isinstance(owner, ArrayRef):
            return self.load(owner, self.indices(owner, node), span)
        if isinstance(owner, Composite):
            return composites.read(self, owner, self.selectors(owner.type, node), span)
        if isinstance(owner, (Shape, tuple)):
            length = owner.array.type.dims if isinstance(owner, Shape) else len(owner)
            k = self.static_index(node.slice, length)
            if isinstance(owner, tuple):
                return owner[k]
            result = Value(int32)
            self.builder.append(Op("shape", (), (owner.array.index, k), result, span))
            return result
        raise KernelTypeError(f"{describe(owner)} cannot be indexed", span, _scalar_hint(owner))

    def load(self, array: ArrayRef, indices: tuple[Operand, ...], span: Span) -> Binding:
        """The element of `array` at `indices`."""
        items = []
        for component in component_indices(array.type.element):
            result = Value(array.type.dtype)
            self.builder.append(Op("load", (*indices, *component), array.index, result, span))
            items.append(result)
        kind = array.type.element_type
        return Composite(kind, tuple(items)) if isinstance(kind, CompositeType) else items[0]

    def atomic(
        self, name: str, array: ArrayRef, indices: list[Binding], values: list[Binding], spans: list[Span], span: Span
    ) -> Binding:
        """An atomic operation on an element, component by component; what was there before."""
        kind = array.type.element_type
        for value, value_span in zip(values, spans[len(indices) :], strict=True):
            if layout(value, value_span) is not kind:
                raise KernelTypeError(
                    f"`{array.name}` holds {kind}, the value is {describe(value)}", value_span, "convert it"
                )
        if array.type.dtype.kind not in OPS[f"atomic_{name}"].kinds:
            raise KernelTypeError(f"wp.atomic_{name} does not take {array.type.dtype}", span)
        place = tuple(self.as_index(i, array, s) for i, s in zip(indices, spans, strict=False))
        before = []
        parts = zip(*(flatten(v, span) or () for v in values), strict=True)
        for component, scalars in zip(component_indices(array.type.element), parts, strict=True):
            result = Value(array.type.dtype)
            self.builder.append(Op(f"atomic_{name}", (*place, *component, *scalars), array.index, result, span))
            before.append(result)
        return Composite(kind, tuple(before)) if isinstance(kind, CompositeType) else before[0]

    def selectors(self, type: CompositeType, node: ast.Subscript) -> tuple[composites.Selector, ...]:
        """What the indices and slices of `v[…]` or `m[…]` select."""
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) > len(type.shape):
            raise KernelTypeError(f"{type} takes {len(type.shape)} index(es), {len(items)} given", self.span(node))
        return tuple(self.selector(item, extent) for item, extent in zip(items, type.shape, strict=False))

    def selector(self, node: ast.expr, extent: int) -> composites.Selector:
        if not isinstance(node, ast.Slice):
            return composites.index_of(self.expression(node), extent, self.span(node))
        parts = (node.lower, node.upper, node.step)
        bounds = [None if part is None else self.constant_integer(part) for part in parts]
        positions = range(extent)[slice(*bounds)] if bounds[2] != 0 else ()
        if not isinstance(positions, range) or not positions:
            raise CompileError("this slice has no components", self.span(node))
        return positions

    def static_index(self, node: ast.expr, length: int) -> int:
        """An index that must be known when the kernel is built."""
        value = self.constant_integer(node)
        if not -length <= value < length:
            raise CompileError(f"index {value} is outside 0 to {length - 1}", self.span(node))
        return value % length

    def constant_integer(self, node: ast.expr) -> int:
        binding = self.expression(node)
        value = binding.value if isinstance(binding, (Number, Const)) else None
        if not isinstance(value, int) or isinstance(value, bool):
            raise CompileError(
                "this index must be a constant integer", self.span(node), "for an index that varies, use an array"
            )
        return value

    def indices(self, array: ArrayRef, node: ast.Subscript) -> tuple[Operand, ...]:
        """The indices of an element access, as int32 or int64."""
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for item in items:
            if not isinstance(item, ast.Slice):
                continue
            raise CompileError(
                "array slices are not part of the kernel language yet",
                self.span(item),
                "loop over the elements and index each",
            )
        if len(items) != array.type.dims:
            raise KernelTypeError(
                f"`{array.name}` has {array.type.dims} dimension(s), {len(items)} index(es) given",
                self.span(node),
                "give one index for each dimension: a[i], b[i, j]",
            )
        return tuple(self.index(item, array) for item in items)

    def index(self, node: ast.expr, array: ArrayRef) -> Operand:
        return self.as_index(self.expression(node), array, self.span(node))

    def as_index(self, binding: Binding, array: ArrayRef, span: Span) -> Operand:
        """`binding` as an index of `array`, int32 or int64."""
        operand = self.scalar(binding, span, "array index")
        if not operand.type.is_int:
            raise KernelTypeError(
                f"index of `{array.name}` must be an integer, not {operand.type}", span, "convert it: int(x)"
            )
        if operand.type is uint64:  # beyond int64 it must stay outside of any array, not turn negative
            operand = self.emit("min", operand, Const(uint64, int64.max), span=span)
        wide = operand.type in (int64, uint64, uint32)
        return self.emit("cast", operand, span=span, type=int64 if wide else int32)

    # -- calls

    def lower_Call(self, node: ast.Call) -> Binding:
        span = self.span(node)
        callee = self.expression(node.func)
        if not isinstance(callee, PythonRef):
            raise CompileError(f"{describe(callee)} cannot be called", span, "multiplication is written with `*`")
        function = callee.object
        if function is static:
            return self.static_expression(node)
        with contextlib.suppress(TypeError):  # not hashable: not one of Python's own functions
            function = PYTHON_BUILTINS.get(function, function)
        starred = next((a for a in [*node.args, *node.keywords] if isinstance(a, ast.Starred) or _is_double(a)), None)
        if starred is not None:
            raise self.unsupported(starred, ast.Starred)
        is_type = as_scalar(function) is not None or isinstance(function, CompositeType)
        if not isinstance(function, (Builtin, Func)) and not is_type:
            raise self.not_callable(function, span)
        args = [self.expression(a) for a in node.args]
        spans = [self.span(a) for a in node.args]
        target = as_scalar(function)
        if target is not None:
            return self.conversion(target, args, span, bool(node.keywords))
        if isinstance(function, CompositeType):
            if node.keywords:
                raise CompileError(f"{function.name}() takes no keyword arguments", span)
            return composites.construct(self, function, args, span)
        if isinstance(function, Builtin):
            if node.keywords and function.signature is None:
                raise CompileError(
                    f"wp.{function.name} takes no keyword arguments",
                    self.span(node.keywords[0]),
                    "give the arguments in order",
                )
            named = {str(k.arg): self.expression(k.value) for k in node.keywords}
            return function.lower(self, function.arguments(args, named, span), spans, span)
        keywords = {k.arg: self.expression(k.value) for k in node.keywords}
        return self.call_function(function, args, keywords, node)

    def not_callable(self, function: Any, span: Span) -> CompileError:
        """The error for a call of a Python object that kernels cannot call."""
        name = getattr(function, "__name__", getattr(function, "name", repr(function)))
        hint = ""
        if hasattr(function, "enable_backward"):  # a kernel: its class is defined on top of this one
            return CompileError(
                f"`{name}` is a kernel, which only a launch can run", span, "make what both need a @wp.func"
            )
        if inspect.isfunction(function) and not (function.__module__ or "").startswith("jwarp."):
            hint = f"decorate it: @wp.func above `def {name}`"
        elif name in BUILTINS:
            hint = f"write wp.{name}"
        return CompileError(f"`{name}` is not a function of the kernel language", span, hint)

    def call_function(self, function: Func, args: list[Binding], keywords: dict, node: ast.Call) -> Binding:
        raise NotImplementedError  # in the subclass: a function's body is statements

    def conversion(self, target: ScalarType, args: list[Binding], span: Span, keywords: bool) -> Binding:
        if len(args) > 1 or keywords:
            raise KernelTypeError(f"{_spelling(target)}() converts one value", span)
        return self.convert(args[0], target, span) if args else zero(target)

    def static_expression(self, node: ast.Call) -> Binding:
        """`wp.static(expression)`: evaluated by Python itself, with the captured names."""
        if len(node.args) != 1 or node.keywords:
            raise CompileError("wp.static takes one expression", self.span(node))
        source = self.frame.source
        expression = ast.Expression(node.args[0])
        namespace = {**source.namespace, **self.frame.statics}
        try:
            result = eval(compile(expression, source.file, "eval"), namespace)
        except Exception as error:
            names = sorted({n.id for n in ast.walk(expression) if isinstance(n, ast.Name)} & set(self.frame.env))
            hint = f"`{names[0]}` is a variable of the kernel, unknown when it is built" if names else ""
            raise CompileError(f"wp.static: {type(error).__name__}: {error}", self.span(node.args[0]), hint) from error
        return bind_python(result, "wp.static(…)", self.span(node))


def component_indices(element: tuple[int, ...]) -> list[tuple[Const, ...]]:
    """The indices of all components of an element of shape `element`, row by row."""
    return [tuple(Const(int32, k) for k in place) for place in itertools.product(*map(range, element))]


def is_eager(nodes: list[Node]) -> bool:
    """Whether running `nodes` where they are not needed costs little and does nothing."""
    pure = all(isinstance(n, Op) and OPS[n.name].effect == "pure" for n in nodes)
    return pure and len(nodes) <= MAX_EAGER_OPS


def _spelling(type: ScalarType) -> str:
    return {"int32": "int", "float32": "float", "bool": "bool"}.get(type.name, f"wp.{type.name}")


def _is_double(node: ast.AST) -> bool:
    """Whether `node` is a `**` argument of a call."""
    return isinstance(node, ast.keyword) and node.arg is None


def _scalar_hint(binding: Binding) -> str:
    """How to get a scalar from `binding`."""
    if isinstance(binding, ArrayRef):
        return f"read an element: {binding.name}[{', '.join('ijkl'[: binding.type.dims])}]"
    if isinstance(binding, Shape):
        return "read an extent: a.shape[0]"
    if isinstance(binding, PythonRef) and not callable(binding.object):
        return "arrays are parameters of the kernel; from outside it can use numbers and tuples of them"
    return ""


def _kind_hint(name: str, args: tuple[ScalarType, ...]) -> str:
    kinds = OPS[name].kinds
    if kinds == {"float"} and any(t.is_int for t in args):
        return "it is for floats: convert with float(x)"
    if any(t is bool_ for t in args):
        return "bool is not a number in kernels: convert with int(x)"
    return ""


def _suggestion(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, BUILTINS, 1)
    return f"did you mean wp.{close[0]}?" if close else ""
