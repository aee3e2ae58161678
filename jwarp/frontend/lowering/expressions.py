"""Lowers Python expressions to IR."""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
from collections.abc import Callable, Iterator

from jwarp.errors import CompileError, JwarpError, KernelTypeError, Span
from jwarp.frontend.builtins.table import BUILTINS
from jwarp.frontend.context import Context
from jwarp.frontend.syntax.constructs import CONSTRUCTS, DEFAULT_WAY_OUT
from jwarp.frontend.syntax.operators import BINARY_OPERATORS, COMPARISONS
from jwarp.frontend.tiles import operators
from jwarp.frontend.values import composites, structs
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    Number,
    PythonRef,
    Shape,
    StructArray,
    StructValue,
    TileRef,
    Unusable,
    bind_python,
    describe,
    holds_array,
    layout,
    rebuild,
)
from jwarp.frontend.values.cells import with_origins
from jwarp.ir.builder import FALSE, TRUE, make_block
from jwarp.ir.lift import effect_of
from jwarp.ir.nodes import Const, If, Node, Op, Operand, Value
from jwarp.types import CompositeType, ScalarType, bool_, int32

# A branch of at most this many pure operations is computed without a branch.
MAX_EAGER_OPS = 8


# In debug mode `x` has a companion of this name, a bool that is true where `x` has been set.
SET = "$set "


class ExpressionLowering(Context):
    """The part of a lowering that deals with expressions; statements are in the subclass."""

    def expression(self, node: ast.expr) -> Binding:
        method = getattr(self, f"lower_{type(node).__name__}", None)
        if method is None:
            raise self.unsupported(node)
        # As `at` does, which takes longer than lowering most expressions.
        before = self.builder.span
        self.builder.span = self.span(node)
        try:
            return method(node)
        finally:
            self.builder.span = before

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
            "kernels compute with numbers and bools; write math.inf for infinity, math.nan for NaN",
        )

    def lower_Name(self, node: ast.Name) -> Binding:
        name, span = node.id, self.span(node)
        if name in self.frame.env:
            if name in self.frame.unset:
                self.warnings[(span, name)] = None
                if self.debug:
                    self.builder.check(self.is_set(name, span), f"`{name}` has no value here")
            binding = self.frame.env[name]
            if isinstance(binding, Unusable):
                raise binding.error(span)
            return binding
        code = self.frame.source.function.__code__
        if name in code.co_varnames or name in code.co_cellvars:
            raise CompileError(f"`{name}` has no value yet at this point", span, "assign to it before it is read")
        try:
            found = self.frame.source.lookup(name)
        except KeyError:
            raise CompileError(f"`{name}` is not defined", span, _suggestion(name)) from None
        return bind_python(found, name, span)

    def is_set(self, name: str, span: Span) -> Operand:
        """Whether this thread has given the variable a value; only debug mode keeps that."""
        return self.scalar(self.frame.env.get(SET + name, FALSE), span)

    def lower_Attribute(self, node: ast.Attribute) -> Binding:
        span = self.span(node)
        if node.attr == "value" and (member := self.enum_member(node.value)) is not None:
            return bind_python(member.value, ast.unparse(node), span)
        owner = self.expression(node.value)
        if isinstance(owner, StructArray):
            return Shape(owner.first) if node.attr == "shape" else structs.field(owner, node.attr, span)
        if isinstance(owner, StructValue):
            return structs.field(owner, node.attr, span)
        if isinstance(owner, ArrayRef):
            if node.attr == "shape":
                return Shape(owner)
            if node.attr == "dtype":
                return PythonRef(owner.type.element)
            raise CompileError(
                f"arrays have no attribute `{node.attr}` in kernels", span, "there are `shape` and `dtype`"
            )
        if isinstance(owner, TileRef) and node.attr in ("shape", "dtype"):
            return tuple(Number(n) for n in owner.shape) if node.attr == "shape" else PythonRef(owner.dtype)
        if isinstance(owner, PythonRef):
            if isinstance(owner.object, CompositeType) and node.attr == "length" and len(owner.object.shape) == 1:
                return Number(owner.object.shape[0])
            try:
                return bind_python(getattr(owner.object, node.attr), ast.unparse(node), span)
            except AttributeError as error:
                if str(error).endswith("not available yet"):
                    raise CompileError(str(error), span) from None
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
            if node.attr == "length" and len(owner.type.shape) == 1:
                return Number(owner.type.size)
            return owner.items[composites.named(owner.type, node.attr, span)]
        raise CompileError(f"{describe(owner)} has no attribute `{node.attr}`", span)

    def enum_member(self, node: ast.expr) -> enum.Enum | None:
        """The member that `Color.RED` is, which stands for its value everywhere else."""
        owner = self.expression(node.value) if isinstance(node, ast.Attribute) else None
        if not isinstance(owner, PythonRef) or not isinstance(owner.object, type):
            return None
        member = getattr(owner.object, node.attr, None) if isinstance(node, ast.Attribute) else None
        return member if isinstance(member, enum.Enum) else None

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
        if isinstance(operand, TileRef) and isinstance(node.op, ast.USub):
            return operators.negated(self, operand, span)
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
        if isinstance(left, TileRef) or isinstance(right, TileRef):
            return operators.binary(self, symbol, name, left, right, span)
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
        if x.type is y.type is bool_ and name not in ("eq", "ne"):  # False is less than True
            x, y = (self.emit("cast", operand, span=span, type=int32) for operand in (x, y))
            return self.emit(name, x, y, span=span)
        common = common_type(x.type, y.type)
        if common is None:
            return self.emit(name, x, y, span=span)
        return self.emit(name, self.convert(left, common, span), self.convert(right, common, span), span=span)

    def lower_BoolOp(self, node: ast.BoolOp) -> Binding:
        is_and, result = isinstance(node.op, ast.And), self.truth(node.values[0])
        for item in node.values[1:]:
            result = self.logical(is_and, result, functools.partial(self.truth, item), self.span(node))
        return result

    def logical(self, is_and: bool, first: Operand, second: Callable[[], Operand], span: Span) -> Operand:
        """`first and second()` (or `or`), where the second is evaluated only if the first leaves it open."""
        if isinstance(first, Const) and first.value is not is_and:
            return first
        with self.unchanged_tiles(span), self.builder.block() as nodes:
            operand = second()
        if self.is_eager(nodes):
            self.builder.extend(nodes)
            return self.emit("and" if is_and else "or", first, operand, span=span)
        then, orelse = make_block(nodes, (operand,)), make_block([], (FALSE if is_and else TRUE,))
        merged = Value(bool_)
        self.builder.append(If(first, *((then, orelse) if is_and else (orelse, then)), (merged,), span))
        return merged

    def is_eager(self, nodes: list[Node]) -> bool:
        """Whether running `nodes` where they are not needed costs little and does nothing."""
        pure = all(isinstance(n, Op) and effect_of(n) == "pure" for n in nodes)
        return pure and len(nodes) <= (0 if self.debug else MAX_EAGER_OPS)

    def lower_IfExp(self, node: ast.IfExp) -> Binding:
        cond, span = self.truth(node.test), self.span(node)
        if isinstance(cond, Const):
            chosen = self.tiles.loose(self.expression(node.body if cond.value else node.orelse), span)
            return self.tiles.settled(chosen, span)
        with self.unchanged_tiles(span):
            with self.builder.block() as then:
                x = self.tiles.loose(self.expression(node.body), span)
                xs = self.scalars(x, self.span(node.body))
            with self.builder.block() as orelse:
                y = self.tiles.loose(self.expression(node.orelse), span)
                ys = self.scalars(y, self.span(node.orelse))
        if layout(x, span) != layout(y, span):
            raise KernelTypeError(
                f"the two values have types {describe(x)} and {describe(y)}",
                span,
                "write an if statement that uses each array" if holds_array(x) else "convert one of them",
            )
        if not then and not orelse:
            merged = [self.emit("select", cond, *pair, span=span) for pair in zip(xs, ys, strict=True)]
        else:
            results = tuple(Value(v.type) for v in xs)
            self.builder.append(If(cond, make_block(then, xs), make_block(orelse, ys), results, span))
            merged = list(results)
        return self.tiles.settled(with_origins(rebuild(x, merged), x, y), span)

    @contextlib.contextmanager
    def unchanged_tiles(self, span: Span) -> Iterator[None]:
        """Refuse changes of tiles in a part of an expression that a condition may skip."""
        before = dict(self.tiles.cells)
        yield
        if any(self.tiles.cells[cell] is not held for cell, held in before.items()):
            raise CompileError(
                "a tile is changed in a part of an expression that depends on a condition",
                span,
                "write an if statement",
            )


def common_type(x: ScalarType, y: ScalarType) -> ScalarType | None:
    """The type in which numbers of two types are compared, as in C++; None where that could change an integer."""
    floats = [t for t in (x, y) if t.is_float]
    if bool_ in (x, y) or (len(floats) == 2 and x.bits == y.bits):
        return None
    if len(floats) == 1:
        return floats[0]
    narrow, wide = sorted((x, y), key=lambda t: t.bits)
    return wide if narrow.kind in (wide.kind, "uint") and (narrow.bits < wide.bits) else None


def _suggestion(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, BUILTINS, 1)
    return f"did you mean wp.{close[0]}?" if close else ""
