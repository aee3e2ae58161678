"""Reverse mode: from a kernel, the kernel that takes cotangents of its outputs to gradients of its inputs.

The adjoint kernel first runs the kernel again (the forward sweep) and then goes through it backwards.
A loop hands to its reverse what each iteration started with, on the thread's tape; the reverse restores that,
runs the iteration's body again and goes backwards through it, so a loop inside fills the tape anew for each
iteration of the loop around it. An array that the kernel overwrites keeps a log, by which the reverse sweep
restores what was there. Everything is generated as if it were needed; `prune` then drops most of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from jwarp.analysis.activity import activity
from jwarp.analysis.ownership import owned_arrays
from jwarp.analysis.stencils import stencils
from jwarp.analysis.write_conflicts import conflicting_stores
from jwarp.autodiff.checkpoints import LoopOverwrites, Storage
from jwarp.autodiff.custom_gradients import (
    changed_by_gradients,
)
from jwarp.autodiff.derived_parameters import Derived, derived
from jwarp.autodiff.forward import refuse_notes, refuse_order, replayed
from jwarp.autodiff.gather import gather
from jwarp.autodiff.native_calls import for_derivatives
from jwarp.autodiff.reverse_sweep import ReverseSweep
from jwarp.autodiff.tile_rules import carries
from jwarp.autodiff.write_conflicts import marks
from jwarp.ir.attributes import Origin
from jwarp.ir.builder import make_block, zero
from jwarp.ir.nodes import (
    Kernel,
    Node,
    Op,
    Value,
    written_params,
)
from jwarp.passes.dead_stores import drop_dead_stores, drop_unread_stores
from jwarp.passes.hoist import speculate
from jwarp.passes.local_values import local_values
from jwarp.passes.prune import prune
from jwarp.passes.simplify import simplify
from jwarp.types import int64


def vjp(
    kernel: Kernel,
    wanted: Iterable[int],
    given: Iterable[int],
    *,
    shared: Iterable[int] = (),
    repeated: bool = False,
    alone: bool = False,
    single: Iterable[int] = (),
    gathered: Iterable[int] = (),
    exceeded: Iterable[int] = (),
    storage: Storage = Storage.TAPE,
) -> Derived:
    """The adjoint of `kernel`: gradients of the parameters `wanted` from cotangents of the arrays `given`.

    Parameters `shared` are the same for many launches of a batch, and with `repeated` several threads have
    the same coordinates; both make sums of what would else be one thread's own. A thread that is `alone` is the only
    one of the launch, and along the axes `single` there is one. The gradients of parameters `gathered`, which
    `stencils` knows and whose loads are in range, are stored once for each element; those of `exceeded` have fewer
    elements than the launch that gathers them has threads.

    `storage` says where loops keep what their iterations started with.

    Raises:
        NotDifferentiableError: there is no exact rule for an operation on the way; it names the line.
    """
    wants, gives = frozenset(wanted), frozenset(given)
    # Gathering would run the writes of custom gradients once for each element.
    gathered = frozenset() if changed_by_gradients(kernel) else frozenset(gathered)
    single = () if gathered else tuple(single)  # gradients are gathered by threads beyond those of the launch
    kernel = for_derivatives(kernel, reverse=True)

    def of(kernel: Kernel) -> Derived:
        written = frozenset(written_params(kernel))
        kernel = simplify(speculate(simplify(kernel)))
        owned = frozenset() if repeated else owned_arrays(kernel, single) - frozenset(shared)
        active, counters = activity(kernel, wants, gives, carries), replayed(kernel, owned)
        conflicts = conflicting_stores(kernel, repeated=repeated, alone=alone, single=single)
        reverse = _Adjoint(kernel, active, written, counters, owned, conflicts, storage, frozenset(shared),
                           repeated=repeated)  # fmt: skip
        places = {p: axes for p, axes in stencils(kernel).items() if p in gathered - owned}
        return reverse.made(wants, {} if counters else places, frozenset(exceeded))

    try:
        return of(kernel)
    except LoopOverwrites as refused:
        values = local_values(kernel)  # carried by the loops
        if values is kernel:
            raise refused.error from None
    try:
        return of(values)
    except LoopOverwrites as refused:
        raise refused.error from None


class _Adjoint(ReverseSweep):
    """Both sweeps of a kernel, and what is left of them."""

    def made(self, wanted: frozenset[int], gathered: dict[int, tuple[int, ...]], exceeded: frozenset[int]) -> Derived:
        """The kernel that gives the gradients of the parameters `wanted`."""
        kernel = self.kernel
        for k in range(len(kernel.params), len(kernel.params) + len(kernel.locals)):
            for kind in ("work", "gradient"):
                self.builder.effect("clear", attr=Origin(kind, k))
        cleared = self.builder.nodes
        with self.builder.block() as nodes:
            self.numbers = marks(self.builder, kernel, self.conflicts.ambiguous)
            self.run(kernel.body, taped=True)
            self.reverse_block(kernel.body)
            for p, value in self.scalars.items():
                if value in self.gradients:
                    total = self.gradients.total(value)
                    self.builder.effect("atomic_add", zero(int64), total, attr=Origin("gradient", p))
        more = self.checkpoints.locals if self.checkpoints is not None else {}
        body = make_block([*cleared, *(Op("clear", (), array) for array in more), *self.scalar_reads(), *nodes])
        returned = {Origin("gradient", p) for p in wanted} | {Origin("cotangent", p) for p in wanted}
        gradients, shared = frozenset(returned), {Origin("work", p) for p in self.counters}
        returned |= {Origin("work", p) for p in self.scratch if p < len(kernel.params)}
        body = prune(body, returned, shared)
        if self.checkpoints is not None:
            self.checkpoints.refuse_tape(body)
        body = prune(drop_dead_stores(body), returned, shared)
        body = simplify(Kernel(kernel.name, (), kernel.tid_dims, body)).body
        if gathered:
            body = gather(prune(body, returned), gathered, frozenset(returned), exceeded)
            body = simplify(Kernel(kernel.name, (), kernel.tid_dims, body)).body
        own = {Origin("cotangent", p) for p in self.owned} - returned - shared
        body = prune(drop_unread_stores(body, own), returned, shared)
        # Like launches, custom gradients may write to other arrays in any order.
        refuse_order(kernel, prune(body, gradients, shared) if self.scratch else body, self.owned | self.counters)
        if kernel.block_dim:
            refuse_notes(kernel, body)
        return derived(kernel, body, more, apart=not self.conflicts.same_value.isdisjoint(self.active.arrays))

    def scalar_reads(self) -> list[Node]:
        reads: list[Node] = []
        for p, value in self.scalars.items():
            made = self.known[value]
            assert isinstance(made, Value)
            reads.append(Op("param", (), Origin("primal", p), made, self.kernel.span))
        return reads
