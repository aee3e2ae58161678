"""Lowers a whole function: assignments, stores, calls of other functions."""

from __future__ import annotations

import ast
import inspect
import warnings
from typing import Any

from jwarp.errors import CompileError, JwarpError, KernelTypeError, KernelWarning, Span
from jwarp.frontend import builtins
from jwarp.frontend.bindings import ArrayRef, Binding, PythonRef, Shape, Unusable, bind_python, describe, flatten
from jwarp.frontend.control_flow import ControlFlowLowering
from jwarp.frontend.expressions import Frame
from jwarp.frontend.func import Func
from jwarp.frontend.source import Source, count_loads
from jwarp.ir.builder import TRUE
from jwarp.ir.nodes import Block, Kernel, Op, Operand, Param, Value
from jwarp.types import ArrayType, ScalarType, as_type


class Lowering(ControlFlowLowering):
    """Reads one kernel. The functions it calls are read in place."""

    def __init__(self, source: Source, max_unroll: int):
        super().__init__(Frame(source, is_kernel=True, loads=count_loads(source.tree.body)), max_unroll)
        self.stack: list[Any] = []

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
            case ast.Assert(test=test, msg=message):
                shown = message.value if isinstance(message, ast.Constant) else ast.unparse(test)
                self.builder.effect("assert", self.truth(test), attr=str(shown))
            case ast.Expr():
                raise CompileError("this expression does nothing", span, "assign its value to a name")
            case ast.AnnAssign():
                raise CompileError(
                    "annotated assignments are not part of the kernel language", span, "write x = float(0.0)"
                )
            case _:
                raise CompileError(
                    f"Python's `{type(statement).__name__}` statement is not part of the kernel language",
                    span,
                    "kernels have assignments, if, for, while, break, continue, return, assert and pass",
                )

    # -- assignments

    def lower_assign(self, targets: list[ast.expr], value: ast.expr) -> None:
        if len(targets) == 1 and isinstance(targets[0], ast.Tuple) and self._is_tid(value):
            with self.at(value):
                binding = self.tid(len(targets[0].elts), self.span(value))
        else:
            binding = self.expression(value)
        for target in targets:
            self.store_to(target, binding, self.span(value))

    def _is_tid(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call) or node.args or node.keywords:
            return False
        callee = self.expression(node.func)
        return isinstance(callee, PythonRef) and callee.object is builtins.tid

    def store_to(self, target: ast.expr, binding: Binding, span: Span) -> None:
        match target:
            case ast.Name(id=name):
                self.assign(name, binding, self.span(target))
            case ast.Tuple(elts=items):
                parts = self.unpack(binding, len(items), self.span(target))
                for item, part in zip(items, parts, strict=True):
                    self.store_to(item, part, span)
            case ast.Subscript():
                array = self.written_array(target)
                indices = self.indices(array, target)
                self.builder.effect("store", *indices, self.element(array, binding, span), attr=array.index)
            case _:
                raise CompileError("this cannot be assigned to", self.span(target))

    def unpack(self, binding: Binding, count: int, span: Span) -> tuple:
        if isinstance(binding, Shape):
            ref = binding.array
            binding = tuple(
                self.emit("shape", attr=(ref.index, axis), span=span) for axis in range(ref.type.ndim)
            )
        if not isinstance(binding, tuple):
            raise KernelTypeError(f"{describe(binding)} cannot be unpacked into {count} names", span)
        if len(binding) != count:
            raise CompileError(f"{len(binding)} values cannot be unpacked into {count} names", span)
        return binding

    def assign(self, name: str, binding: Binding, span: Span) -> None:
        """Let `name` stand for `binding`. A name keeps its type."""
        if binding == ():
            raise CompileError("the function returns nothing that could be assigned", span)
        if isinstance(binding, Unusable):
            raise CompileError(binding.reason, span)
        before = self.frame.env.get(name)
        if before is not None and not isinstance(before, Unusable):
            old, new = flatten(before, span), flatten(binding, span)
            if old is not None and (new is None or [v.type for v in old] != [v.type for v in new]):
                raise KernelTypeError(
                    f"`{name}` is {describe(before)} and cannot become {describe(binding)}",
                    span,
                    "convert the value, or use another name",
                )
        self.frame.env[name] = binding
        self.frame.unset.discard(name)

    def written_array(self, target: ast.Subscript) -> ArrayRef:
        owner = self.expression(target.value)
        if isinstance(owner, ArrayRef):
            return owner
        raise KernelTypeError(f"elements of {describe(owner)} cannot be assigned", self.span(target))

    def element(self, array: ArrayRef, binding: Binding, span: Span) -> Operand:
        """`binding` as an element of `array`, whose type it must have."""
        value = self.scalar(binding, span, "the stored value")
        if value.type is not array.type.dtype:
            raise KernelTypeError(
                f"`{array.name}` holds {array.type.dtype}, the value is {value.type}",
                span,
                f"convert it: wp.{array.type.dtype}(…)",
            )
        return value

    def lower_augmented(self, statement: ast.AugAssign) -> None:
        target, operator, span = statement.target, statement.op, self.span(statement)
        if isinstance(target, ast.Name):
            current = self.lower_Name(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            value = self.value(statement.value)
            result = self.binary(operator, self.scalar(current, span), value, span)
            return self.assign(target.id, result, self.span(target))
        if not isinstance(target, ast.Subscript):
            raise CompileError("this cannot be assigned to", self.span(target))
        array = self.written_array(target)
        indices = self.indices(array, target)
        value = self.element(array, self.expression(statement.value), self.span(statement.value))
        if isinstance(operator, (ast.Add, ast.Sub)):  # atomic, as in Warp: threads may share an element
            if isinstance(operator, ast.Sub):
                value = self.emit("neg", value, span=span)
            self.builder.effect("atomic_add", *indices, value, attr=array.index)
            return None
        current = Value(array.type.dtype)
        self.builder.append(Op("load", indices, array.index, current, span))
        self.builder.effect("store", *indices, self.binary(operator, current, value, span), attr=array.index)
        return None

    # -- calls

    def call_function(self, function: Any, args: list[Binding], keywords: dict, node: ast.Call) -> Binding:
        span = self.span(node)
        if not isinstance(function, Func):
            name = getattr(function, "__name__", getattr(function, "name", repr(function)))
            hint = f"decorate it: @wp.func above `def {name}`" if inspect.isfunction(function) else ""
            raise CompileError(f"`{name}` is not a function of the kernel language", span, hint)
        if function in self.stack:
            raise CompileError(f"`{function.name}` calls itself; recursion is not supported", span, "write a loop")
        try:
            bound = function.signature.bind(*args, **keywords)
        except TypeError as error:
            raise KernelTypeError(f"call of `{function.name}`: {error}", span) from None
        for name, parameter in function.signature.parameters.items():
            if name not in bound.arguments:
                bound.arguments[name] = bind_python(parameter.default, name, span)
        frame = Frame(function.source, is_kernel=False, loads=count_loads(function.source.tree.body))
        for name, binding in bound.arguments.items():
            frame.env[name] = self.argument(function, name, binding, span)
        caller, self.frame = self.frame, frame
        self.stack.append(function)
        try:
            self.lower_statements(function.source.tree.body)
            return self.result_of(function, span)
        except JwarpError as error:
            raise _inside(error, function, span) from None
        finally:
            self.stack.pop()
            self.frame = caller

    def argument(self, function: Func, name: str, binding: Binding, span: Span) -> Binding:
        """An argument of a call, checked against the parameter's annotation."""
        expected = as_type(function.annotations.get(name))
        if isinstance(expected, ArrayType):
            fits = isinstance(binding, ArrayRef) and binding.type == expected
        elif expected is not None:
            scalars = flatten(binding, span)
            fits = scalars is not None and not isinstance(binding, tuple) and scalars[0].type is expected
        else:
            fits = True
        if not fits:
            raise KernelTypeError(
                f"`{name}` of `{function.name}` must be {expected}, not {describe(binding)}", span, "convert it"
            )
        return binding

    def result_of(self, function: Func, span: Span) -> Binding:
        env = self.frame.env
        result = env.get("$result")
        if result is None:
            return ()
        if env.get("$return") != TRUE:
            self.warnings[(span, f"the result of {function.name}")] = None
        expected = as_type(function.annotations.get("return"))
        scalars = flatten(result, span)
        if expected is not None and (scalars is None or [s.type for s in scalars] != [expected]):
            raise KernelTypeError(
                f"`{function.name}` is declared to return {expected} and returns {describe(result)}",
                Span(function.source.file, function.source.first_line),
            )
        return result


def _inside(error: JwarpError, function: Func, span: Span) -> JwarpError:
    """The error with a line that says where the function was called from."""
    d = error.diagnostic
    where = f"`{function.name}` was called at {span}"
    return type(error)(d.message, d.span, f"{d.hint}; {where}" if d.hint else where)


def lower_func(function: Func, types: tuple[ScalarType, ...]) -> tuple[tuple[Value, ...], Block]:
    """The IR of a scalar function, as its parameters and the block that yields its result."""
    names = list(function.signature.parameters)
    params = tuple(Value(t, n) for t, n in zip(types, names, strict=True))
    lowering = Lowering(function.source, max_unroll=0)
    lowering.frame = Frame(function.source, is_kernel=False, loads=count_loads(function.source.tree.body))
    lowering.frame.env.update(zip(names, params, strict=True))
    lowering.stack.append(function)
    lowering.lower_statements(function.source.tree.body)
    span = lowering.span(function.source.tree)
    result = lowering.scalar(lowering.result_of(function, span), span)
    return params, Block(tuple(lowering.builder.nodes), (result,))


def lower_function(source: Source, params: tuple[Param, ...], max_unroll: int) -> Kernel:
    """The IR of the kernel that `source` is."""
    lowering = Lowering(source, max_unroll)
    env = lowering.frame.env
    for index, param in enumerate(params):
        if isinstance(param.type, ArrayType):
            env[param.name] = ArrayRef(index, param.name, param.type)
        else:
            value = Value(param.type, param.name)
            lowering.builder.append(Op("param", (), index, value, lowering.span(source.tree)))
            env[param.name] = value
    try:
        lowering.lower_statements(source.tree.body)
    except RecursionError:
        raise CompileError(f"`{source.name}` is nested too deeply", lowering.span(source.tree)) from None
    for span, name in lowering.warnings:
        shown = name if name.startswith("the ") else f"`{name}`"
        message = f"{span}: {shown} may have no value here; it then reads as zero"
        warnings.warn(message, KernelWarning, stacklevel=2)
    body = Block(tuple(lowering.builder.nodes))
    return Kernel(source.name, params, max(1, lowering.tid_arity), body, lowering.span(source.tree))
