"""The parameters of derived kernels: what each is with respect to the kernel that it was made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jwarp.analysis.thread_order import counters
from jwarp.errors import NotDifferentiableError
from jwarp.ir.attributes import Extent, Origin, origins_in
from jwarp.ir.nodes import Block, Kernel, Local, Op, Order, Param, renumbered, walk, written_params
from jwarp.ir.verify import MAX_LOCAL_BYTES
from jwarp.ir.visit import map_ops
from jwarp.types import ArrayType, int32, uint32

# In the order in which a derived kernel has its parameters; `name` gets the prefix.
KINDS = {
    "primal": "", "work": "", "final": "final_", "cotangent": "adj_", "gradient": "adj_", "tangent": "dot_",
    "claim": "claim_", "dim": "dim", "checkpoint": "checkpoint_",
}  # fmt: skip


@dataclass(frozen=True)
class Derived:
    """A kernel made from another one, and what each of its parameters is."""

    kernel: Kernel
    origins: tuple[Origin, ...]


def derived(kernel: Kernel, body: Block, more: Mapping[Origin, Local] | None = None, *, apart: bool = False) -> Derived:
    """The kernel of `body`, which names arrays of `kernel` by their origins, with the parameters that it uses.

    `more` are local arrays that the kernel does not have. With `apart`, its threads run one after the other.
    """
    more = more or {}
    count = len(kernel.params)
    ops = [n for n in walk(body) if isinstance(n, Op)]
    arrays = {origin for n in ops for origin in origins_in(n.attr)}
    extents: dict[int, Origin] = {}
    for p in sorted({n.attr_as(Extent).array for n in ops if n.row.is_extent}):
        # An extent can be read from whatever array has it.
        same = [Origin(kind, p) for kind in KINDS if Origin(kind, p) in arrays]
        extents[p] = same[0] if same else Origin("work" if p in written_params(kernel) else "primal", p)
        arrays.add(extents[p])
    order = list(KINDS)

    def is_local(origin: Origin) -> bool:
        return origin in more or (origin.kind != "dim" and origin.param >= count)

    in_order = sorted(arrays, key=lambda s: (is_local(s), order.index(s.kind), s.param))
    origins = tuple(s for s in in_order if not is_local(s))
    numbers = {origin: k for k, origin in enumerate(in_order)}

    def renumber(node: Op) -> Op:
        if node.row.is_native or isinstance(node.attr, Origin):
            return renumbered(node, lambda name: numbers[name])  # type: ignore[index]
        if node.row.is_extent:
            extent = node.attr_as(Extent)
            return dataclasses.replace(node, attr=Extent(numbers[extents[extent.array]], extent.axis))
        return node

    params: list[Param] = []
    for origin in origins:
        params.append(_param(kernel, origin, {p.name for p in params}))
    locals_ = tuple(more[s] if s in more else _local(kernel, s) for s in in_order[len(origins) :])
    own = (local for local in locals_ if not local.shared)  # those of blocks are counted with their tiles
    if sum(local.size * local.dtype.bits // 8 for local in own) > MAX_LOCAL_BYTES:
        raise NotDifferentiableError(
            f"kernel `{kernel.name}`: its local arrays and their gradients need more than {MAX_LOCAL_BYTES} bytes "
            "for each thread",
            kernel.span,
            "make the local arrays smaller, or pass arrays as parameters",
        )
    exact = kernel.exact or any(origin.kind == "final" for origin in origins)
    content = map_ops(body, renumber)
    made = Kernel(kernel.name, tuple(params), kernel.tid_dims, content, kernel.span, locals_, exact=exact,
                  block_dim=kernel.block_dim)  # fmt: skip
    if apart or kernel.order == Order.APART:
        made = dataclasses.replace(made, order=Order.APART)
    elif kernel.order and counters(made):
        made = dataclasses.replace(made, order=kernel.order)
    return Derived(made, origins)


def aligned(made: Sequence[Derived]) -> list[Derived]:
    """The same kernels with one list of parameters: what any of them uses."""
    if len({d.origins for d in made}) == 1:
        return list(made)
    order = list(KINDS)
    params = {origin: param for d in made for origin, param in zip(d.origins, d.kernel.params, strict=True)}
    origins = tuple(sorted(params, key=lambda s: (order.index(s.kind), s.param)))
    named: list[Param] = []
    for origin in origins:
        name = params[origin].name
        while name in {p.name for p in named}:
            name += "_"
        named.append(dataclasses.replace(params[origin], name=name))
    found = []
    for d in made:
        numbers = {old: origins.index(origin) for old, origin in enumerate(d.origins)}
        numbers |= {len(d.origins) + k: len(origins) + k for k in range(len(d.kernel.locals))}
        body = map_ops(d.kernel.body, lambda op, numbers=numbers: renumbered(op, numbers.__getitem__))  # type: ignore[misc]
        found.append(Derived(dataclasses.replace(d.kernel, params=tuple(named), body=body), origins))
    return found


def _param(kernel: Kernel, origin: Origin, taken: set[str]) -> Param:
    if origin.kind == "dim":
        return Param(f"dim{origin.param}", int32)
    param = kernel.params[origin.param]
    type = param.type
    if origin.kind == "gradient" and not isinstance(type, ArrayType):
        type = ArrayType(type, 1)
    if origin.kind == "claim":
        assert isinstance(type, ArrayType)
        type = ArrayType(uint32, type.ndim)
    name = KINDS[origin.kind] + param.name
    while name in taken:
        name += "_"
    return Param(name, type)


def _local(kernel: Kernel, origin: Origin) -> Local:
    local = kernel.array(origin.param)
    assert isinstance(local, Local)
    return dataclasses.replace(local, name=KINDS[origin.kind] + local.name)
