"""Lowers calls of functions that have a gradient of their own: what `@wp.func_grad` gave them becomes a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.context import Context, Frame, UsesTiles
from jwarp.frontend.func import Func
from jwarp.frontend.func_grad import rewrite_adjoints, spelled
from jwarp.frontend.lowering.control_flow import lower_statements
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    OneOf,
    StructArray,
    StructValue,
    Unusable,
    flatten,
)
from jwarp.frontend.values.composites import component_indices
from jwarp.ir.attributes import STORED, TAKEN_BACK, Detached, Rule
from jwarp.ir.builder import make_block, zero
from jwarp.ir.nodes import (
    Block,
    Const,
    Gradient,
    Kernel,
    Node,
    Op,
    Operand,
    Param,
    Value,
    arrays_changed,
    arrays_read,
    changed_arrays,
    used_values,
    walk,
)
from jwarp.ir.visit import Rewriter, with_args
from jwarp.types import ArrayType, CompositeType, ScalarType, int32


def with_gradient(
    ctx: Context,
    function: Func,
    arguments: dict[str, Binding],
    result: Binding,
    body: Sequence[Node],
    span: Span,
) -> Binding:
    """The result of a call, with the derivative that `function.gradient` says. `body` is what was called.

    It is the last of what the builder has. What it stores has no derivative by itself.
    """
    assert function.gradient is not None
    written = {a for a in set().union(*map(changed_arrays, body)) if isinstance(a, int)}
    made = _Call(ctx, function.gradient, written, span)
    for name, binding in arguments.items():
        made.argument(name, binding)
    made.results(result)
    gradient, sums = made.lower()
    scalars = flatten(result, span)
    assert scalars is not None
    number = len(ctx.gradients)
    ctx.gradients.append(gradient)
    sources = [x for x in made.operands if isinstance(x, Value) and x.type.is_float]
    if written:
        nodes, cut = ctx.builder.nodes, _Cut(number, tuple(sums), sources, changed_gradients(gradient))
        nodes[len(nodes) - len(body) :] = cut.block(Block(tuple(body))).nodes
    rule = Rule(number, tuple(sorted(a for a in written if a < ctx.first_local or a in made.given_arrays)))
    ctx.builder.effect("rule", *(made.operands or [zero(int32)]), attr=rule)
    detached: list[Operand] = []
    for j, x in enumerate(scalars):
        if not x.type.is_float:
            detached.append(x)
            continue
        value = Value(x.type)
        ctx.builder.append(Op("detach", (x, *sources), Detached(number, j, tuple(sums)), value, span))
        detached.append(value)
    return made.rebuilt(result, detached)


class _Cut(Rewriter):
    """Lets what is stored have the derivative that rule `number` says, and not that of how it was computed.

    The rule changes the gradients of arrays `own` by itself.
    """

    def __init__(self, number: int, sums: tuple[int, ...], sources: list[Value], own: frozenset[int]):
        self.number, self.sums, self.sources, self.own = number, sums, sources, own

    def nodes(self, node: Node) -> list[Node]:
        if not isinstance(node, Op):
            return [self.node(node)]
        if node.row.is_rule:
            return []  # of a function that the called one calls
        value = node.args[-1] if node.row.is_access and node.row.is_write and node.args else None
        if value is None or not value.type.is_float:
            return [node]
        cut, what = Value(value.type), TAKEN_BACK if node.array in self.own else STORED
        detach = Op("detach", (value, *self.sources), Detached(self.number, what, self.sums), cut, node.span)
        return [detach, with_args(node, (*node.args[:-1], cut))]


class _Call:
    """The kernel that the gradient of one call is, as its parameters are found; the call writes to arrays `written`."""

    def __init__(self, ctx: Context, gradient: Func, written: set[int], span: Span):
        self.ctx, self.gradient, self.written, self.span = ctx, gradient, written, span
        self.names = list(gradient.signature.parameters)
        self.params: list[Param] = []
        self.feeds: list[tuple[str, int, int]] = []
        self.operands: list[Operand] = []
        self.env: dict[str, Binding] = {}
        self.kinds: dict[str, Any] = {}  # of the parameters by value
        self.arrays: dict[str, ArrayRef] = {}
        self.positions: dict[str, int] = {}
        self.structs: dict[str, StructValue] = {}

    def param(self, name: str, kind: Any, feed: tuple[str, int, int]) -> int:
        """Add a parameter, and say what feeds it; its number."""
        if isinstance(kind, CompositeType):
            kind = ArrayType(kind, 0)
        elif feed[0] == "gradient" and not isinstance(kind, ArrayType):
            kind = ArrayType(kind, 1)  # of one element
        self.params.append(Param(name, kind))
        self.feeds.append(feed)
        return len(self.params) - 1

    @property
    def given_arrays(self) -> set[int]:
        """The numbers of the arrays among the arguments."""
        return {number for kind, number, _ in self.feeds if kind == "array"}

    def next_name(self, after: str) -> str:
        """The name of the gradient function's next parameter."""
        if not self.names:
            raise KernelTypeError(f"`{self.gradient.name}` has too few parameters", self.span, f"it needs one {after}")
        return self.names.pop(0)

    def argument(self, name: str, binding: Binding) -> None:
        """Add the parameters for an argument of the call."""
        self.given(self.next_name(f"for `{name}`"), name, binding)

    def given(self, own: str, name: str, binding: Binding) -> None:
        """Add those for a part of an argument, which the gradient calls `own`; a field of a struct is `s.x` there."""
        position = len(self.operands)
        if isinstance(binding, StructValue):
            self.structs[own] = binding
            for field, part in zip(binding.type.fields, binding.items, strict=True):
                if not isinstance(part, Unusable):
                    self.given(f"{own}.{field}", f"{name}.{field}", part)
            return
        if isinstance(binding, ArrayRef):
            row = binding.row
            if row is None:
                what = "one of several arrays" if isinstance(binding, OneOf) else "a slice of an array"
                raise CompileError(
                    f"`{name}` is {what}, and `{self.gradient.name}` is a gradient of a function of "
                    "whole arrays or rows",
                    self.span,
                    "pass the array, and where its part begins",
                )
            self.operands += row
            self.arrays[own] = binding
            self.positions[own] = self.param(own, binding.type, ("array", binding.index, position))
            return
        if isinstance(binding, StructArray):
            raise KernelTypeError(
                f"`{self.gradient.name}` is a gradient of a function of an array of structs, of which there are none",
                self.span,
                "let the function take the structs, or arrays of the fields that it needs",
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
        """Add the parameters for the cotangents of the results."""
        position = 0
        for k, part in enumerate(result if isinstance(result, tuple) else (result,)):
            position = self.cotangent(self.next_name(f"for the cotangent of result {k}"), k, part, position)
        if self.names:
            raise KernelTypeError(
                f"`{self.gradient.name}` has more parameters than arguments and results: `{self.names[0]}`", self.span
            )

    def cotangent(self, own: str, number: int, part: Binding, position: int) -> int:
        """Add those for the cotangent of a part of result `number`, whose scalars are counted from `position` on."""
        if isinstance(part, StructValue):
            self.structs[own] = part
            for field, item in zip(part.type.fields, part.items, strict=True):
                position = self.cotangent(f"{own}.{field}", number, item, position)
            return position
        scalars = flatten(part, self.span) or []
        kind = part.type if isinstance(part, Composite) else scalars[0].type
        self.kinds[own] = kind
        self.positions[own] = self.param(own, kind, ("cotangent", number, position))
        return position + len(scalars)

    def struct(self, own: str) -> Binding:
        """The binding in the gradient of a name or of a field of a struct."""
        binding = self.structs.get(own)
        if binding is None:
            return self.env[own]
        items = (
            part if isinstance(part, Unusable) else self.struct(f"{own}.{field}")
            for field, part in zip(binding.type.fields, binding.items, strict=True)
        )
        return StructValue(binding.type, tuple(items))

    def rebuilt(self, result: Binding, scalars: list[Operand]) -> Binding:
        """The results made of other scalars, which are used up from the front."""
        if isinstance(result, tuple):
            return tuple(self.rebuilt(part, scalars) for part in result)
        if isinstance(result, Composite):
            return Composite(result.type, tuple(scalars.pop(0) for _ in result.items))
        if isinstance(result, StructValue):
            return StructValue(result.type, tuple(self.rebuilt(part, scalars) for part in result.items))
        return scalars.pop(0)

    def lower(self) -> tuple[Gradient, list[int]]:
        """The gradient, and the arrays that it adds to."""
        source = self.gradient.source
        rewritten = rewrite_adjoints(self.gradient)
        mentioned = rewritten.found
        for name, span in mentioned.items():
            if name in self.arrays:
                if name in rewritten.assigned:
                    raise CompileError(
                        "the gradient of an array is changed by its elements", rewritten.assigned[name],
                        f"write wp.adjoint[{name}][i] += …",
                    )  # fmt: skip
                if name in rewritten.rebound:
                    raise CompileError(
                        f"`{rewritten.by_alias.get(name, name)}` is assigned to: it is not the array that was given "
                        "all along, whose gradient this is",
                        rewritten.rebound[name], "give what is assigned a name of its own",
                    )  # fmt: skip
                array = self.arrays[name]
                index = self.param(spelled(name), array.type, ("gradient", self.positions[name], 0))
                self.env[spelled(name)] = ArrayRef(index, spelled(name), array.type)
                dtype = array.type.dtype
            elif name in self.kinds and name not in rewritten.by_alias:
                kind = self.kinds[name]
                self.env[spelled(name)] = _zeros(kind)
                dtype = kind.dtype if isinstance(kind, CompositeType) else kind
            else:
                what = f"no parameter of `{self.gradient.name}` that has a gradient"
                what = "a struct, whose gradient is that of its fields" if name in self.structs else what
                hint = f"write wp.adjoint[{name}.…] for a field" if name in self.structs else ""
                raise CompileError(f"`{rewritten.by_alias.get(name, name)}` is {what}", span, hint)
            if not dtype.is_float:
                raise KernelTypeError(f"`{name}` is {dtype}, which has no gradient", span)
        totals = {
            name: self.param(spelled(name), self.kinds[name], ("gradient", self.positions[name], 0))
            for name in mentioned if name in self.kinds
        }  # fmt: skip
        caller = self.ctx
        ctx = Context(Frame(source), caller.applied, caller.max_unroll, len(self.params))
        ctx.in_gradient = True
        ctx.stack.extend([*caller.stack, self.gradient])
        ctx.tid_arity = caller.tid_arity
        span = source.span(source.tree)
        for index, (param, (kind, _, _)) in enumerate(zip(self.params, self.feeds, strict=True)):
            if kind == "gradient":
                continue
            if kind == "array":
                self.env[param.name] = ArrayRef(index, param.name, param.type)  # type: ignore[arg-type]
            elif isinstance(param.type, ArrayType):
                self.env[param.name] = ctx.load(ArrayRef(index, param.name, param.type), (), span)
            else:
                value = Value(param.type, param.name)
                ctx.builder.append(Op("param", (), index, value, span))
                self.env[param.name] = value
        ctx.frame.env.update(self.env)
        ctx.frame.env.update({own: self.struct(own) for own in self.structs if "." not in own})
        try:
            lower_statements(ctx, source.tree.body)
        except UsesTiles:
            if not caller.block_dim:  # it is read once more, for blocks
                raise
            raise CompileError(
                f"the gradient function `{self.gradient.name}` uses tiles",
                span,
                "say what one thread adds to gradients",
            ) from None
        if "$result" in ctx.frame.env:
            raise CompileError(f"`{self.gradient.name}` returns a value", span, "add to wp.adjoint[…] instead")
        for name, index in totals.items():
            self.add_total(ctx, ctx.frame.env[spelled(name)], index, span)
        caller.tid_arity = ctx.tid_arity
        kernel = Kernel(source.name, tuple(self.params), max(1, ctx.tid_arity), make_block(ctx.builder.nodes), span)
        if ctx.locals:
            raise CompileError(f"`{source.name}` has a local array, which a gradient function cannot have", span)
        self.check(kernel)
        return Gradient(kernel, tuple(self.feeds)), [
            self.arrays[name].index for name in mentioned if name in self.arrays
        ]

    def add_total(self, ctx: Context, total: Binding, index: int, span: Span) -> None:
        """Add what has come together for a parameter by value to its gradient."""
        scalars = flatten(total, span) or []
        if isinstance(total, Composite):
            places: Sequence[tuple[Operand, ...]] = component_indices(total.type.shape)
        else:
            places = [(Const(int32, 0),)]
        for place, value in zip(places, scalars, strict=True):
            ctx.builder.effect("atomic_add", *place, value, attr=index)

    def check(self, kernel: Kernel) -> None:
        """Refuse what a gradient may not do.

        Of the gradients of arrays that the call only reads, it can only add to.
        """
        used = used_values(kernel.body)
        for node in walk(kernel.body):
            if not isinstance(node, Op):
                continue
            row = node.row
            if row.is_native and (arrays_read(node) or arrays_changed(node)):
                raise CompileError(
                    f"`{kernel.name}` gives arrays to native code, which a gradient function cannot", node.span,
                    "give it what it needs of them by value",
                )  # fmt: skip
            kind, of, _ = self.feeds[node.array] if row.is_access else ("", 0, 0)
            is_written = kind == "gradient" and self.feeds[of][0] == "array" and self.feeds[of][1] in self.written
            if row.prints:
                raise CompileError(f"`{kernel.name}` prints, which a gradient function cannot", node.span)
            if kind == "gradient" and not is_written and (not node.row.is_addition or node.result in used):
                raise CompileError(
                    "what has been added up so far for the gradient of an array that the function does not write to "
                    "can neither be read nor replaced: other threads add to it, too", node.span,
                    "add to it: wp.adjoint[a][i] += …",
                )  # fmt: skip
            if is_written and row.is_atomic and (not node.row.is_addition or node.result in used):
                raise CompileError(
                    "of atomic operations, a gradient takes additions whose result is not used", node.span,
                    "write wp.adjoint[y][i] += …, or read it",
                )  # fmt: skip
            if row.is_write and kind == "array" and of in self.written:
                raise CompileError(
                    f"a gradient function cannot write to `{kernel.params[node.array].name}`, to which the function "
                    "itself does", node.span,
                    "set its gradient, wp.adjoint[…], or write to another array",
                )  # fmt: skip


def changed_gradients(gradient: Gradient) -> frozenset[int]:
    """The arrays of the caller whose gradients a gradient changes."""
    feeds = gradient.feeds
    changed = (feeds[n] for n in set().union(*map(changed_arrays, gradient.kernel.body.nodes)) if isinstance(n, int))
    sources = (feeds[of] for kind, of, _ in changed if kind == "gradient")
    return frozenset(number for kind, number, _ in sources if kind == "array")


def _zeros(kind: ScalarType | CompositeType) -> Binding:
    if isinstance(kind, CompositeType):
        return Composite(kind, tuple(zero(kind.dtype) for _ in range(kind.size)))
    return zero(kind)
