"""The derivatives that calls bring with them: kernels that their authors wrote, built into the adjoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

from jwarp.errors import NotDifferentiableError
from jwarp.ir.attributes import Extent, Origin
from jwarp.ir.builder import Builder, make_block, zero
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Block, Const, Gradient, Kernel, Node, Op, Operand, Value, is_plain, walk, with_bodies
from jwarp.passes.liveness import drop_unused
from jwarp.types import int32


def plain(kernel: Kernel) -> Kernel:
    """`kernel` as it runs: without what only its derivatives need."""
    if is_plain(kernel):
        return kernel
    # Not simplified: checks are put around operations where they are written.
    made = with_bodies(with_bodies(kernel, _Plain().block), drop_unused)
    return dataclasses.replace(made, gradients=())


class _Plain(Cloner):
    def nodes(self, node: Node) -> list[Node]:
        if not isinstance(node, Op) or not node.row.derivative.only:
            return [self.node(node)]
        if node.row.uses.reads_final:  # which nothing needs that is left
            self.known[_result(node)] = zero(_result(node).type)
        elif node.result is not None:
            self.known[node.result] = self.operand(node.values[0] if node.row.derivative.is_given else node.args[0])
        return []


def _result(node: Op) -> Value:
    assert node.result is not None
    return node.result


def loaded_by_gradients(kernel: Kernel) -> frozenset[int]:
    """The arrays that gradients of calls read."""
    found = set()
    for gradient in kernel.gradients:
        for node in walk(gradient.kernel.body):
            if isinstance(node, Op) and node.row.is_load and gradient.feeds[node.array][0] == "array":
                found.add(gradient.feeds[node.array][1])
    return frozenset(found)


def changed_by_gradients(kernel: Kernel) -> frozenset[int]:
    """The arrays that gradients of calls write to, besides those of gradients."""
    return frozenset(
        gradient.feeds[node.array][1]
        for gradient in kernel.gradients
        for node in walk(gradient.kernel.body)
        if isinstance(node, Op) and node.row.is_write and gradient.feeds[node.array][0] == "array"
    )


class Memory(Protocol):
    """The accesses of a custom gradient in an adjoint to arrays of the caller, by their numbers."""

    def origin(self, array: int) -> Origin:
        """Which array of the adjoint holds what one of the caller does."""

    def cotangent(self, array: int) -> Origin | None:
        """The array of its gradient; None if nothing asks for that."""

    def add_to(self, array: int, indices: tuple[Operand, ...], g: Operand, own: bool) -> None:
        """Add to the gradient of an element."""


class Inlined(Cloner):
    """Builds the kernel of a gradient into an adjoint.

    `args` are the operands of the rule in the adjoint, `cotangents` those of its results. Contributions go to `add`
    (position of the operand, value) and to `memory`.
    """

    def __init__(
        self,
        builder: Builder,
        caller: Kernel,
        gradient: Gradient,
        args: tuple[Operand, ...],
        cotangents: tuple[Operand, ...],
        memory: Memory,
        add: Callable[[int, Operand], None],
    ):
        super().__init__()
        self.builder = builder
        self.caller, self.gradient, self.args, self.cotangents = caller, gradient, args, cotangents
        self.memory, self.add = memory, add

    def run(self) -> None:
        """Build it where the builder is."""
        for node in self.gradient.kernel.body.nodes:
            self.builder.span = node.span
            self.build(node)

    def block(self, block: Block) -> Block:
        with self.builder.block() as made:
            for node in block.nodes:
                self.builder.span = node.span
                self.build(node)
        return make_block(made, self.operands(block.yields))

    def build(self, node: Node) -> None:
        if not isinstance(node, Op):
            self.builder.append(self.node(node))
        elif node.row.is_parameter:
            assert node.result is not None
            self.known[node.result] = self.component(node.array, 0)
        elif node.row.is_load:
            self.load(node)
        elif node.row.is_write:
            self.write(node)
        elif node.row.is_extent:
            self.shape(node)
        else:
            self.builder.append(self.node(node))

    def component(self, param: int, k: int) -> Operand:
        """Component `k` of what a parameter by value is given."""
        kind, _, position = self.gradient.feeds[param]
        return (self.cotangents if kind == "cotangent" else self.args)[position + k]

    def row(self, param: int) -> tuple[int, tuple[Operand, ...]]:
        """The caller's array that an array parameter, or what it is the gradient of, is; and the indices of the row."""
        kind, number, position = self.gradient.feeds[param]
        if kind == "gradient":
            return self.row(number)
        rank = getattr(self.caller.array(number).type, "ndim", 0) - self.gradient.kernel.params[param].type.ndim  # type: ignore[union-attr]
        return number, self.args[position : position + rank]

    def load(self, node: Op) -> None:
        assert node.result is not None
        kind = self.gradient.feeds[node.array][0]
        if kind not in ("array", "gradient"):
            self.known[node.result] = self.component(node.array, self.flat(node.array, node))
            return
        number, prefix = self.row(node.array)
        indices = (*prefix, *self.operands(node.args))
        origin = self.memory.origin(number) if kind == "array" else self.memory.cotangent(number)
        if origin is None:
            self.known[node.result] = zero(node.result.type)
        else:
            self.builder.append(Op("load", indices, origin, self.fresh(node.result), node.span))

    def flat(self, param: int, node: Op) -> int:
        """Which component of the parameter by value, or of its gradient, an access means."""
        shape = getattr(self.gradient.kernel.params[param].type, "components", ())
        k = 0
        for x, extent in zip(node.args, shape, strict=False):  # what comes after is what is added
            assert isinstance(x, Const)
            k = k * extent + x.value
        return k

    def write(self, node: Op) -> None:
        value = self.operand(node.args[-1])
        kind, of, _ = self.gradient.feeds[node.array]
        if kind == "gradient" and self.gradient.feeds[of][0] == "value":
            self.add(self.gradient.feeds[of][2] + self.flat(of, node), value)
            return
        number, prefix = self.row(node.array)
        args = (*prefix, *self.operands(node.args))
        origin = self.memory.origin(number) if kind == "array" else self.memory.cotangent(number)
        if kind == "array" or (origin is not None and node.row.is_store):
            made = None if node.result is None else self.fresh(node.result)
            self.builder.append(Op(node.name, args, origin, made, node.span))
        elif origin is not None:
            self.memory.add_to(number, args[:-1], value, number >= len(self.caller.params))

    def shape(self, node: Op) -> None:
        assert node.result is not None
        extent = node.attr_as(Extent)
        number, prefix = self.row(extent.array)
        local = self.caller.local(number)
        if local is not None:
            self.known[node.result] = Const(int32, local.shape[extent.axis + len(prefix)])
            return
        result = self.fresh(node.result)
        self.builder.append(Op("shape", (), Extent(number, extent.axis + len(prefix)), result, node.span))


def authored_refusal(kernel: Kernel, node: Op, what: str) -> NotDifferentiableError:
    """A derivative that a gradient written for reverse mode does not give."""
    return NotDifferentiableError(
        f"kernel `{kernel.name}`: {what} was asked for through a function with a gradient of its own (wp.func_grad, "
        "jax.custom_vjp), which is known for reverse mode alone",
        node.span,
        "take the derivative in reverse mode (jax.grad, jax.vjp, jax.jacrev) and once, or call the function "
        "without wp.func_grad",
    )


def scratch_refusal(kernel: Kernel, array: int) -> NotDifferentiableError:
    """A gradient of a call that writes to what the kernel works on."""
    return NotDifferentiableError(
        f"kernel `{kernel.name}`: the gradient of a function (wp.func_grad) writes to `{kernel.array(array).name}`, "
        "which the kernel itself works on",
        kernel.span,
        "give the function another array for it",
    )


def given_twice(gradient: Gradient) -> frozenset[int]:
    """The arrays that a call has for several of its parameters."""
    given = [number for kind, number, _ in gradient.feeds if kind == "array"]
    return frozenset(number for number in given if given.count(number) > 1)


def twice_refusal(kernel: Kernel, node: Op, array: int) -> NotDifferentiableError:
    """A gradient of a call that writes to an array which it has by two names."""
    return NotDifferentiableError(
        f"kernel `{kernel.name}`: a function with a gradient of its own (wp.func_grad) is given "
        f"`{kernel.array(array).name}` for two of its parameters, and writes to it: its gradient would be changed by "
        "one name while it is read by the other",
        node.span,
        "give it two arrays, or write a function that has the array once",
    )


def counter_refusal(kernel: Kernel, node: Op, array: int) -> NotDifferentiableError:
    """A gradient of a call that reads what threads count in."""
    return NotDifferentiableError(
        f"kernel `{kernel.name}`: the gradient of a function (wp.func_grad) reads `{kernel.array(array).name}`, in "
        "which this kernel counts",
        node.span,
        "give the function what the counter gave, as an argument",
    )
