"""`@wp.func_grad`: a function that says the gradient of another one, and what its body becomes."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.context import Frame
from jwarp.frontend.func import Func
from jwarp.frontend.syntax.source import Source, check_function, count_loads
from jwarp.frontend.values.bindings import ArrayRef, Binding, Composite, StructArray, StructValue, flatten
from jwarp.frontend.values.composites import component_indices
from jwarp.ir.builder import make_block, zero
from jwarp.ir.nodes import (
    WRITES,
    Const,
    Gradient,
    Kernel,
    Node,
    Op,
    Operand,
    Param,
    Value,
    used_values,
    walk,
    walk_node,
)
from jwarp.types import ArrayType, CompositeType, ScalarType, int32

if TYPE_CHECKING:
    from jwarp.frontend.lowering.inlining import InliningLowering


class Adjoint:
    """`wp.adjoint[x]` in a function under `@wp.func_grad`: the gradient of `x`, to be added to."""

    def __getitem__(self, name: Any) -> Any:
        raise KernelTypeError("wp.adjoint[…] can only be used in a function under @wp.func_grad")

    def __repr__(self) -> str:
        return "wp.adjoint"


adjoint = Adjoint()


def func_grad(function: Any) -> Callable[[Callable], Func]:
    """Give `function`, a `@wp.func`, a gradient of its own for reverse mode.

    The decorated function takes the arguments of `function` and then one cotangent for each of its results,
    and adds to the gradients of the arguments: `wp.adjoint[x] += …` for a scalar, vector or matrix `x`,
    `wp.adjoint[a][i] += …` for an element of an array. It reads arrays and writes none. Arguments that it does
    not mention have gradient zero. It is used wherever `function` is called from now on; of several overloads
    it belongs to the one with the same annotations.

    Forward mode and second derivatives through such a call raise NotDifferentiableError.

    Raises:
        KernelTypeError: `function` is no `@wp.func`, or none of its overloads has these parameters.
    """
    if not isinstance(function, Func):
        raise KernelTypeError(
            f"@wp.func_grad needs a function under @wp.func, not {getattr(function, '__name__', function)!r}",
            hint="write @wp.func_grad(f) above the gradient of f",
        )

    def decorate(gradient: Callable) -> Func:
        check_function(gradient, "@wp.func_grad")
        made = Func(gradient)
        fitting = [f for f in function.overloads if _belongs(made, f)]
        if not fitting:
            raise KernelTypeError(
                f"`{made.name}` is no gradient of `{function.name}`: its first parameters must be those of "
                f"{'; '.join(f.heading for f in function.overloads)}",
                hint="after them comes one cotangent for each result",
            )
        fitting[-1].gradient = made
        return made

    return decorate


def _belongs(gradient: Func, function: Func) -> bool:
    count = len(function.wanted)
    first = gradient.wanted[:count]
    return len(gradient.wanted) >= count and all(
        x is None or y is None or x == y for x, y in zip(first, function.wanted, strict=True)
    )


def with_gradient(
    e: InliningLowering,
    function: Func,
    arguments: dict[str, Binding],
    result: Binding,
    body: Sequence[Node],
    span: Span,
) -> Binding:
    """The result of a call, with the derivative that `function.gradient` says. `body` is what was called."""
    assert function.gradient is not None
    if result == ():
        raise CompileError(
            f"`{function.name}` has a gradient of its own and returns nothing",
            span,
            "return the results: a gradient function cannot know the gradients of arrays that were written",
        )
    made = _Call(e, function.gradient, span)
    for name, binding in arguments.items():
        made.argument(name, binding)
    made.results(result)
    gradient, sums = made.lower()
    scalars = flatten(result, span)
    assert scalars is not None
    number = len(e.gradients)
    e.gradients.append(gradient)
    first = e.first_local
    written = {n.attr for node in body for n in walk_node(node) if isinstance(n, Op) and n.name in WRITES}
    e.builder.effect("rule", *made.operands, attr=(number, *sorted(a for a in written if a < first)))
    sources = [x for x in made.operands if isinstance(x, Value) and x.type.is_float]
    detached: list[Operand] = []
    for j, x in enumerate(scalars):
        if not x.type.is_float:
            detached.append(x)
            continue
        value = Value(x.type)
        e.builder.append(Op("detach", (x, *sources), (number, j, *sums), value, span))
        detached.append(value)
    return made.rebuilt(result, detached)


class _Call:
    """The kernel that the gradient of one call is, as its parameters are found."""

    def __init__(self, e: InliningLowering, gradient: Func, span: Span):
        self.e, self.gradient, self.span = e, gradient, span
        self.names = list(gradient.signature.parameters)
        self.params: list[Param] = []
        self.feeds: list[tuple[str, int, int]] = []
        self.operands: list[Operand] = []
        self.env: dict[str, Binding] = {}
        self.kinds: dict[str, Any] = {}  # of the parameters by value
        self.arrays: dict[str, ArrayRef] = {}
        self.positions: dict[str, int] = {}

    def param(self, name: str, kind: Any, feed: tuple[str, int, int]) -> int:
        if isinstance(kind, CompositeType):
            kind = ArrayType(kind, 0)
        elif feed[0] == "gradient" and not isinstance(kind, ArrayType):
            kind = ArrayType(kind, 1)  # of one element
        self.params.append(Param(name, kind))
        self.feeds.append(feed)
        return len(self.params) - 1

    def next_name(self, after: str) -> str:
        if not self.names:
            raise KernelTypeError(f"`{self.gradient.name}` has too few parameters", self.span, f"it needs one {after}")
        return self.names.pop(0)

    def argument(self, name: str, binding: Binding) -> None:
        own = self.next_name(f"for `{name}`")
        position = len(self.operands)
        if isinstance(binding, ArrayRef):
            self.operands += binding.prefix
            self.arrays[own] = binding
            self.positions[own] = self.param(own, binding.type, ("array", binding.index, position))
            return
        if isinstance(binding, (StructValue, StructArray)):
            raise KernelTypeError(
                f"`{self.gradient.name}` is a gradient of a function of structs, of which there are none",
                self.span,
                "let the function take the fields that it needs",
            )
        scalars = flatten(binding, self.span) if not isinstance(binding, tuple) else None
        if scalars is None:  # a function, or a type
            self.env[own] = binding
            return
        self.operands += scalars
        kind = binding.type if isinstance(binding, Composite) else scalars[0].type
        self.kinds[own] = kind
        self.positions[own] = self.param(own, kind, ("value", 0, position))

    def results(self, result: Binding) -> None:
        position = 0
        for k, part in enumerate(result if isinstance(result, tuple) else (result,)):
            own = self.next_name(f"for the cotangent of result {k}")
            scalars = flatten(part, self.span) or []
            kind = part.type if isinstance(part, Composite) else scalars[0].type
            self.param(own, kind, ("cotangent", k, position))
            self.kinds[own] = kind
            self.positions[own] = len(self.params) - 1
            position += len(scalars)
        if self.names:
            raise KernelTypeError(
                f"`{self.gradient.name}` has more parameters than arguments and results: `{self.names[0]}`", self.span
            )

    def rebuilt(self, result: Binding, scalars: list[Operand]) -> Binding:
        if isinstance(result, tuple):
            return tuple(self.rebuilt(part, scalars) for part in result)
        if isinstance(result, Composite):
            return Composite(result.type, tuple(scalars.pop(0) for _ in result.items))
        return scalars.pop(0)

    def lower(self) -> tuple[Gradient, list[int]]:
        """The gradient, and the arrays that it adds to."""
        source = self.gradient.source
        rewritten = rewrite_adjoints(self.gradient)
        mentioned = rewritten.found
        for name, span in mentioned.items():
            if name in self.arrays:
                array = self.arrays[name]
                index = self.param(spelled(name), array.type, ("gradient", self.positions[name], 0))
                self.env[spelled(name)] = ArrayRef(index, spelled(name), array.type)
                dtype = array.type.dtype
            elif name in self.kinds and spelled(name) in rewritten.passed:
                raise CompileError("a gradient can only be added to", span, "write wp.adjoint[x] += …, or -= …")
            elif name in self.kinds:
                kind = self.kinds[name]
                self.env[spelled(name)] = _zeros(kind)
                dtype = kind.dtype if isinstance(kind, CompositeType) else kind
            else:
                raise CompileError(f"`{name}` is no parameter of `{self.gradient.name}` that has a gradient", span)
            if not dtype.is_float:
                raise KernelTypeError(f"`{name}` is {dtype}, which has no gradient", span)
        totals = {
            name: self.param(spelled(name), self.kinds[name], ("gradient", self.positions[name], 0))
            for name in mentioned if name in self.kinds
        }  # fmt: skip
        whole: Any = type(self.e)  # the subclass that reads whole functions
        e = whole(source, self.e.max_unroll, len(self.params))
        e.in_gradient = True
        e.frame = Frame(source, is_kernel=False, loads=count_loads(source.tree.body))
        e.stack.extend([*self.e.stack, self.gradient])
        e.tid_arity = self.e.tid_arity
        span = source.span(source.tree)
        for index, (param, (kind, _, _)) in enumerate(zip(self.params, self.feeds, strict=True)):
            if kind == "gradient":
                continue
            if kind == "array":
                self.env[param.name] = ArrayRef(index, param.name, param.type)  # type: ignore[arg-type]
            elif isinstance(param.type, ArrayType):
                self.env[param.name] = e.load(ArrayRef(index, param.name, param.type), (), span)
            else:
                value = Value(param.type, param.name)
                e.builder.append(Op("param", (), index, value, span))
                self.env[param.name] = value
        e.frame.env.update(self.env)
        e.lower_statements(source.tree.body)
        if "$result" in e.frame.env:
            raise CompileError(f"`{self.gradient.name}` returns a value", span, "add to wp.adjoint[…] instead")
        for name, index in totals.items():
            self.add_total(e, e.frame.env[spelled(name)], index, span)
        self.e.tid_arity = e.tid_arity
        kernel = Kernel(source.name, tuple(self.params), max(1, e.tid_arity), make_block(e.builder.nodes), span)
        if e.locals:
            raise CompileError(f"`{source.name}` has a local array, which a gradient function cannot have", span)
        self.check(kernel)
        return Gradient(kernel, tuple(self.feeds)), [
            self.arrays[name].index for name in mentioned if name in self.arrays
        ]

    def add_total(self, e: InliningLowering, total: Binding, index: int, span: Span) -> None:
        scalars = flatten(total, span) or []
        if isinstance(total, Composite):
            places: Sequence[tuple[Operand, ...]] = component_indices(total.type.shape)
        else:
            places = [(Const(int32, 0),)]
        for place, value in zip(places, scalars, strict=True):
            e.builder.effect("atomic_add", *place, value, attr=index)

    def check(self, kernel: Kernel) -> None:
        """Refuse what a gradient may not do: it adds to gradients and does nothing else."""
        used = used_values(kernel.body)
        for node in walk(kernel.body):
            if not isinstance(node, Op):
                continue
            to_gradient = node.name in (*WRITES, "load") and self.feeds[node.attr][0] == "gradient"
            if node.name == "print":
                raise CompileError(f"`{kernel.name}` prints, which a gradient function cannot", node.span)
            if to_gradient and (node.name != "atomic_add" or node.result in used):
                raise CompileError(
                    "what has been added up for a gradient so far can neither be read nor replaced", node.span,
                    "add to it: wp.adjoint[x] += …",
                )  # fmt: skip
            if node.name in WRITES and not to_gradient:
                raise CompileError(
                    f"a gradient function cannot write to `{kernel.params[node.attr].name}`", node.span,
                    "it adds to wp.adjoint[…] and writes no arrays",
                )  # fmt: skip


def _zeros(kind: ScalarType | CompositeType) -> Binding:
    if isinstance(kind, CompositeType):
        return Composite(kind, tuple(zero(kind.dtype) for _ in range(kind.size)))
    return zero(kind)


def spelled(name: str) -> str:
    """How `wp.adjoint[name]` is named as a variable and in messages."""
    return f"wp.adjoint[{name}]"


def rewrite_adjoints(gradient: Func) -> _Rewriter:
    """Make each `wp.adjoint[x]` in the body of `gradient` a variable, once."""
    known = _REWRITTEN.get(gradient)
    if known is None:
        known = _Rewriter(gradient.source)
        tree = gradient.source.tree
        tree.body = [known.visit(statement) for statement in tree.body]
        _REWRITTEN[gradient] = known
    return known


_REWRITTEN: weakref.WeakKeyDictionary[Func, _Rewriter] = weakref.WeakKeyDictionary()


class _Rewriter(ast.NodeTransformer):
    """Finds `wp.adjoint[x]` where something is added to it, or where an array of gradients is passed on."""

    def __init__(self, source: Source):
        self.source = source
        self.found: dict[str, Span] = {}
        self.passed: set[str] = set()

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        node.value = self.visit(node.value)
        node.target = self.target(node.target, isinstance(node.op, (ast.Add, ast.Sub)))
        return node

    def target(self, node: Any, adds: bool) -> Any:
        """The target of an assignment with the `wp.adjoint[x]` that it starts with made a variable."""
        if self.is_adjoint(node):
            if not adds:
                raise self.refusal(node)
            return self.variable(node, ast.Store())
        if isinstance(node, (ast.Subscript, ast.Attribute)):
            if isinstance(node, ast.Subscript):
                node.slice = self.visit(node.slice)
            owner = node.value
            node.value = (
                self.variable(owner, ast.Load()) if adds and self.is_adjoint(owner) else self.target(owner, adds)
            )
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        for k, arg in enumerate(node.args):
            if self.is_adjoint(arg):
                node.args[k] = self.variable(arg, ast.Load())
                self.passed.add(node.args[k].id)  # type: ignore[attr-defined]
            else:
                node.args[k] = self.visit(arg)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if self.is_adjoint(node):
            raise self.refusal(node)
        return self.generic_visit(node)

    def is_adjoint(self, node: ast.AST) -> TypeGuard[ast.Subscript]:
        if not isinstance(node, ast.Subscript):
            return False
        owner, names = node.value, []
        while isinstance(owner, ast.Attribute):
            names.append(owner.attr)
            owner = owner.value
        if not isinstance(owner, ast.Name):
            return False
        try:
            found = self.source.lookup(owner.id)
        except KeyError:
            return False
        for name in reversed(names):
            found = getattr(found, name, None)
        return found is adjoint

    def variable(self, node: ast.Subscript, context: ast.expr_context) -> ast.Name:
        if not isinstance(node.slice, ast.Name):
            raise CompileError(
                "wp.adjoint[…] takes the name of a parameter", self.source.span(node),
                "index behind it: wp.adjoint[a][i]",
            )  # fmt: skip
        self.found.setdefault(node.slice.id, self.source.span(node))
        return ast.copy_location(ast.Name(spelled(node.slice.id), context), node)

    def refusal(self, node: ast.AST) -> CompileError:
        return CompileError(
            "a gradient can only be added to", self.source.span(node), "write wp.adjoint[x] += …, or -= …"
        )
