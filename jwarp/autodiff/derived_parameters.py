"""The parameters of derived kernels: what each is with respect to the kernel that it was made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jwarp.errors import NotDifferentiableError
from jwarp.ir.attributes import Extent, Origin
from jwarp.ir.nodes import Block, For, If, Kernel, Local, Node, Op, Param, While, renumbered, walk, written_params
from jwarp.ir.verify import MAX_LOCAL_BYTES
from jwarp.types import ArrayType, int32

# In the order in which a derived kernel has its parameters; `name` gets the prefix.
KINDS = {
    "primal": "", "work": "", "final": "final_", "cotangent": "adj_", "gradient": "adj_", "tangent": "dot_",
    "dim": "dim", "slot": "slot_",
}  # fmt: skip


@dataclass(frozen=True)
class Derived:
    """A kernel made from another one, and what each of its parameters is."""

    kernel: Kernel
    slots: tuple[Origin, ...]


def derived(kernel: Kernel, body: Block, more: Mapping[Origin, Local] | None = None) -> Derived:
    """The kernel of `body`, which names arrays of `kernel` by slots, with the parameters that it uses.

    `more` are local arrays that the kernel does not have.
    """
    more = more or {}
    count = len(kernel.params)
    ops = [n for n in walk(body) if isinstance(n, Op)]
    arrays = {n.attr for n in ops if isinstance(n.attr, Origin)}
    extents: dict[int, Origin] = {}
    for p in sorted({n.told(Extent).array for n in ops if n.name == "shape"}):
        # An extent can be read from whatever array has it.
        same = [Origin(kind, p) for kind in KINDS if Origin(kind, p) in arrays]
        extents[p] = same[0] if same else Origin("work" if p in written_params(kernel) else "primal", p)
        arrays.add(extents[p])
    order = list(KINDS)

    def is_local(slot: Origin) -> bool:
        return slot in more or (slot.kind != "dim" and slot.param >= count)

    in_order = sorted(arrays, key=lambda s: (is_local(s), order.index(s.kind), s.param))
    slots = tuple(s for s in in_order if not is_local(s))
    numbers = {slot: k for k, slot in enumerate(in_order)}

    def renumber(node: Op) -> Op:
        if isinstance(node.attr, Origin):
            return dataclasses.replace(node, attr=numbers[node.attr])
        if node.name == "shape":
            extent = node.told(Extent)
            return dataclasses.replace(node, attr=Extent(numbers[extents[extent.array]], extent.axis))
        return node

    params: list[Param] = []
    for slot in slots:
        params.append(_param(kernel, slot, {p.name for p in params}))
    locals_ = tuple(more[s] if s in more else _local(kernel, s) for s in in_order[len(slots) :])
    if sum(local.size * local.dtype.bits // 8 for local in locals_) > MAX_LOCAL_BYTES:
        raise NotDifferentiableError(
            f"kernel `{kernel.name}`: its local arrays and their gradients need more than {MAX_LOCAL_BYTES} bytes "
            "for each thread",
            kernel.span,
            "make the local arrays smaller, or pass arrays as parameters",
        )
    exact = kernel.exact or any(slot.kind == "final" for slot in slots)
    content = map_ops(body, renumber)
    made = Kernel(kernel.name, tuple(params), kernel.tid_dims, content, kernel.span, locals_, exact=exact,
                  block_dim=kernel.block_dim)  # fmt: skip
    return Derived(made, slots)


def aligned(made: Sequence[Derived]) -> list[Derived]:
    """The same kernels with one list of parameters: what any of them uses."""
    if len({d.slots for d in made}) == 1:
        return list(made)
    order = list(KINDS)
    params = {slot: param for d in made for slot, param in zip(d.slots, d.kernel.params, strict=True)}
    slots = tuple(sorted(params, key=lambda s: (order.index(s.kind), s.param)))
    named: list[Param] = []
    for slot in slots:
        name = params[slot].name
        while name in {p.name for p in named}:
            name += "_"
        named.append(dataclasses.replace(params[slot], name=name))
    found = []
    for d in made:
        numbers = {old: slots.index(slot) for old, slot in enumerate(d.slots)}
        numbers |= {len(d.slots) + k: len(slots) + k for k in range(len(d.kernel.locals))}
        body = map_ops(d.kernel.body, lambda op, numbers=numbers: renumbered(op, numbers.__getitem__))  # type: ignore[misc]
        found.append(Derived(dataclasses.replace(d.kernel, params=tuple(named), body=body), slots))
    return found


def _param(kernel: Kernel, slot: Origin, taken: set[str]) -> Param:
    if slot.kind == "dim":
        return Param(f"dim{slot.param}", int32)
    param = kernel.params[slot.param]
    type = param.type
    if slot.kind == "gradient" and not isinstance(type, ArrayType):
        type = ArrayType(type, 1)
    name = KINDS[slot.kind] + param.name
    while name in taken:
        name += "_"
    return Param(name, type)


def _local(kernel: Kernel, slot: Origin) -> Local:
    local = kernel.array(slot.param)
    assert isinstance(local, Local)
    return dataclasses.replace(local, name=KINDS[slot.kind] + local.name)


def map_ops(block: Block, change: Callable[[Op], Op]) -> Block:
    """The block with every operation replaced by what `change` makes of it."""

    def node(n: Node) -> Node:
        match n:
            case Op():
                return change(n)
            case If():
                return dataclasses.replace(n, then=map_ops(n.then, change), orelse=map_ops(n.orelse, change))
            case For():
                return dataclasses.replace(n, body=map_ops(n.body, change))
            case While():
                return dataclasses.replace(n, cond=map_ops(n.cond, change), body=map_ops(n.body, change))

    return Block(tuple(node(n) for n in block.nodes), block.yields)
