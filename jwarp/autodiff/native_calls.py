"""Derivatives of native code: the call of what its author wrote for them, or of what stands for it elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from jwarp.analysis.write_conflicts import conflicting_stores
from jwarp.errors import NotDifferentiableError
from jwarp.frontend.syntax.snippets import named_in
from jwarp.ir.attributes import NativeCall, NativeParam, Origin
from jwarp.ir.builder import Builder, zero
from jwarp.ir.clone import Cloner
from jwarp.ir.contents import contents_of
from jwarp.ir.native import BY_SCALARS, element_of, parts_of
from jwarp.ir.nodes import (
    Block,
    For,
    If,
    Kernel,
    Op,
    Operand,
    Value,
    While,
    arrays_changed,
    arrays_read,
    blocks,
    changed_arrays,
    walk,
)
from jwarp.ir.visit import Rebuilder
from jwarp.types import int32


def for_derivatives(kernel: Kernel, *, reverse: bool) -> Kernel:
    """The kernel that derivatives are taken of: native code without an adjoint has the derivative of its substitute.

    Raises:
        NotDifferentiableError: nothing is, or what the code leaves in memory cannot be had again.
    """
    calls = [n for n in contents_of(kernel.body).ops if n.row.is_native]
    if not calls:
        return kernel
    for node in calls:
        refuse_order_of(kernel, node)
    refusals = {n: refusal_of(kernel, n) for n in calls} if reverse else {}
    without = {n for n in calls if not reverse or not n.attr_as(NativeCall).adjoint or refusals[n]}
    tests = {n.result for n in walk(kernel.body) if isinstance(n, Op) and n.row.threads.is_target}
    chosen = _Chosen(tests, without)
    made = dataclasses.replace(kernel, body=chosen.block(kernel.body))
    _refuse_comparisons(made, chosen.left_out)
    for left in walk(made.body) if reverse else ():
        refusal = refusal_of(made, left) if isinstance(left, Op) and left.row.is_native else None
        if refusal is not None:
            raise refusal
    return made


class _Chosen(Rebuilder):
    """Gives the calls `without` the derivative of their substitutes, with their own values.

    What writes to arrays is left out instead.
    """

    def __init__(self, tests: set[Value | None], without: set[Op]):
        super().__init__()
        self.tests, self.without = tests, without
        self.left_out: list[tuple[Op, Block]] = []  # with what is there now

    def branch(self, node: If) -> None:
        calls = [n for n in walk(node.then) if isinstance(n, Op) and n in self.without]
        if node.cond not in self.tests or not calls:
            self.keep(node)
            return
        if changed_arrays(node):
            self.left_out.append((calls[0], node.orelse))
            self.nodes(node.orelse)
            self.known.update(zip(node.results, self.operands(node.orelse.yields), strict=True))
            return
        self.keep(node)
        other = Cloner(dict(self.known)).block(node.orelse)
        self.builder.extend(other.nodes)
        for result, y in zip(node.results, other.yields, strict=True):
            self.known[result] = self.builder.op("follow", result, y) if result.type.is_float else result


def _refuse_comparisons(kernel: Kernel, left_out: Sequence[tuple[Op, Block]]) -> None:
    """Refuse what derivatives find out by computing once more, bit by bit, what native code has computed."""
    conflicts = conflicting_stores(kernel)
    for call, block in left_out:
        for node in walk(block):
            if not isinstance(node, Op) or not node.row.is_write:
                continue
            if node.row.is_extremum or node.array in conflicts.arrays:
                raise _refusal(
                    kernel, call, f"writes to `{kernel.array(node.array).name}` what several threads may",
                    "let it return what it computes, and write that outside of it",
                )  # fmt: skip


def refuse_order_of(kernel: Kernel, node: Op) -> None:
    """Refuse a call whose text finds by atomic operations what it would find otherwise another time."""
    call = node.attr_as(NativeCall)
    if call.replay or not any("atomic" in name for name in named_in(call.text)):
        return
    changed = set(call.changes)
    uses = [n for n in walk(kernel.body) if isinstance(n, Op) and n is not node and not changed.isdisjoint(_touched(n))]
    is_read = any(not set(arrays_read(n)).isdisjoint(changed) and not _is_substitute(kernel, node, n) for n in uses)
    if is_read or any(isinstance(n, Op) and node.result in n.args for n in walk(kernel.body)):
        raise _refusal(
            kernel, node, "finds by atomic operations what depends on the order of the threads",
            "say what derivatives run in its place: @wp.func_native(snippet, replay_snippet=…)",
        )  # fmt: skip


def _is_substitute(kernel: Kernel, call: Op, other: Op) -> bool:
    """True if an operation belongs to the substitute for native code on other devices."""
    branches = (n for n in walk(kernel.body) if isinstance(n, If) and any(x is call for x in walk(n.then)))
    return any(x is other for branch in branches for x in walk(branch.orelse))


def refusal_of(kernel: Kernel, node: Op) -> NotDifferentiableError | None:
    """Why a derivative cannot make a call of native code once more, or its author's adjoint; None where it can."""
    call = node.attr_as(NativeCall)
    named = named_in(*call.adjoint)
    read = [p.name for p in call.params if p.kind == "reference" and p.name in named]
    if read:
        return _refusal(kernel, node, f"has an adjoint that reads its reference `{read[0]}`", "pass it by value, too")
    hint = "say what derivatives run in its place: @wp.func_native(snippet, replay_snippet=…), or let it return values"
    position = {n: k for k, n in enumerate(walk(kernel.body))}
    for array, param in zip(call.changes, (p for p in call.params if p.kind == "changed"), strict=True):
        others = [n for n in walk(kernel.body) if isinstance(n, Op) and n is not node and array in _touched(n)]
        others = [n for n in others if not _is_substitute(kernel, node, n)]
        if not others and param.name not in named:
            continue  # nothing depends on when it is written
        name = kernel.array(array).name
        if any(n.row.is_native or array in arrays_changed(n) for n in others):
            return _refusal(kernel, node, f"writes to `{name}`, to which other code writes as well", hint)
        is_left = array in left_as_found(kernel)
        if _in_loops(kernel.body, [node, *([] if is_left else others)]):
            return _refusal(kernel, node, f"writes to `{name}`, which is read in a loop", hint)
        if is_left and any(position[n] < position[node] for n in others):
            return _refusal(kernel, node, f"writes to `{name}` after it was read", hint)
    return None


def left_as_found(kernel: Kernel) -> frozenset[int]:
    """The arrays that native code changes and its replay does not name: derivatives read what the launch left there."""
    found = set()
    for node in walk(kernel.body):
        if isinstance(node, Op) and node.row.is_native and (call := node.attr_as(NativeCall)).replay:
            found |= {a for a, name in _changed_by_name(call) if name not in named_in(*call.replay)}
    return frozenset(found)


def _changed_by_name(call: NativeCall) -> list[tuple[int, str]]:
    return list(zip(call.changes, (p.name for p in call.params if p.kind == "changed"), strict=True))


def no_adjoint(kernel: Kernel, node: Op) -> NotDifferentiableError:
    """Native code on the way of a derivative, without an adjoint."""
    return _refusal(
        kernel, node, "has no adjoint", "give it one: @wp.func_native(snippet, adj_snippet), or the same as `cpu=`"
    )


def forward_refusal(kernel: Kernel, node: Op) -> NotDifferentiableError:
    """Native code on the way of a derivative in forward mode, or of a second one."""
    return _refusal(
        kernel, node, "is known in reverse mode at most, and once", "take the derivative by jax.grad, or give it `cpu=`"
    )


def sharing_refusal(kernel: Kernel, node: Op) -> NotDifferentiableError:
    """An adjoint that may add to one element for several elements of a batch, or repeated threads, at a time."""
    return _refusal(
        kernel, node, "adds to gradients that a batch or several threads share",
        "batch all of the arguments, or launch over the dimensions that the kernel reads",
    )  # fmt: skip


def _refusal(kernel: Kernel, node: Op, why: str, hint: str) -> NotDifferentiableError:
    function = node.attr_as(NativeCall).function
    return NotDifferentiableError(
        f"kernel `{kernel.name}`: a derivative was asked for through `{function}`, native code that {why}",
        node.span,
        hint,
    )


def _touched(node: Op) -> tuple:
    return (*arrays_read(node), *arrays_changed(node))


def _array_of(call: NativeCall, param: NativeParam) -> int:
    """The array of the caller's that a parameter is."""
    same = [p for p in call.params if p.kind == param.kind]
    return (call.reads if param.kind == "read" else call.changes)[same.index(param)]


def _in_loops(body: Block, ops: Sequence[Op]) -> bool:
    """True if some of `ops` are in a loop."""
    wanted = frozenset(ops)
    loops = [n for n in walk(body) if isinstance(n, For | While)]
    inside = (n for loop in loops for block in blocks(loop) for n in walk(block))
    return any(n in wanted for n in inside)


def made_again(call: NativeCall, origin: Callable[[int], Origin]) -> NativeCall:
    """The call as a derivative repeats it, on the derivative's arrays."""
    text = call.replay[0] if call.replay else call.text
    gone = {name for array, name in _changed_by_name(call) if origin(array).kind == "final"}
    params = tuple(p for p in call.params if p.name not in gone)
    reads = tuple(map(origin, call.reads))
    changes = tuple(origin(array) for array, name in _changed_by_name(call) if name not in gone)
    return dataclasses.replace(call, text=text, params=params, reads=reads, changes=changes, adjoint=(), replay=())  # type: ignore[arg-type]


def build_adjoint(
    builder: Builder,
    call: NativeCall,
    args: Sequence[Operand],
    cotangents: Mapping[int, Operand],
    origin: Callable[[int], Origin],
    adjoint_origin: Callable[[int], Origin],
) -> list[Operand | None]:
    """Append the call of the author's adjoint; what it adds to the gradients of `args`, None for integers.

    `cotangents` are those of the parts of the result and of the references that have one.
    """
    (text,) = call.adjoint
    named = named_in(text)
    params, operands = list[NativeParam](), list[Operand]()
    adjoints, starts = list[NativeParam](), list[Operand]()
    places: list[tuple[int, int]] = []  # of the operands that have a gradient: where they begin, and how many there are
    reads, changes = list[Origin](), list[Origin]()
    types = parts_of(call)
    flowing = [cotangents.get(k) or zero(type_) for k, type_ in enumerate(types)]
    taken, part = 0, element_of(call.result).size if call.result else 0
    for param in call.params:
        kind, name = element_of(param.element), f"adj_{param.name}"
        if param.kind not in BY_SCALARS:
            array = _array_of(call, param)
            if param.name in named:
                params.append(dataclasses.replace(param, kind="read"))
                reads.append(origin(array))
            if name in named and kind.scalar.is_float:
                adjoints.append(NativeParam(name, "changed", param.element))
                changes.append(adjoint_origin(array))
            continue
        values = args[taken : taken + kind.size]
        if param.name in named:
            params.append(dataclasses.replace(param, kind="value"))
            operands += values
        if kind.scalar.is_float:
            before: list[Operand] = [zero(kind.scalar)] * kind.size
            if param.kind == "reference":
                before = flowing[part : part + kind.size]
            adjoints.append(NativeParam(name, "reference", param.element))
            starts += before
            places.append((taken, kind.size))
        taken += kind.size
        part += kind.size if param.kind == "reference" else 0
    if call.result and element_of(call.result).scalar.is_float:
        size = element_of(call.result).size
        params.append(NativeParam("adj_ret", "value", call.result))
        operands += flowing[:size]
    made = NativeCall(f"adj_{call.function}", text, "", (*params, *adjoints), tuple(reads), tuple(changes), (), ())  # type: ignore[arg-type]
    token = Value(int32) if places else None
    builder.append(Op("native", (*operands, *starts), made, token, builder.span))
    found: list[Operand | None] = [None] * len(args)
    number = 0
    for first, size in places:
        for k in range(first, first + size):
            assert token is not None
            value = Value(args[k].type)
            builder.append(Op("native_part", (token,), number, value, builder.span))
            found[k], number = value, number + 1
    return found
