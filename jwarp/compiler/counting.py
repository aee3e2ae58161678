"""Launches whose threads count, without an order of the threads: a slice, a scan, and the kernel with given values."""

from __future__ import annotations

from dataclasses import dataclass

from jwarp.analysis.counter_events import Counter
from jwarp.analysis.ownership import ThreadIndices, are_apart, owned_arrays
from jwarp.analysis.thread_order import awaited, locked
from jwarp.analysis.write_conflicts import conflicting_stores
from jwarp.caches import Cache, PerOwner
from jwarp.compiler import pipeline
from jwarp.compiler.passes import note, run
from jwarp.compiler.program import GeneratedProgram
from jwarp.config import Settings
from jwarp.ir.builder import Builder, make_block
from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import Block, Const, If, Kernel, Op, Order, Param, Value
from jwarp.passes.given_counts import taken_apart
from jwarp.types import ArrayType, ScalarType, int32


@dataclass(frozen=True, eq=False)
class CountedLaunch:
    """The programs that do together what a launch does whose threads count one after the other.

    `slice` takes the parameters `kept` of the launch, and has the outputs of `passes.given_counts.Counted`; `given`
    takes all, and what the operations find. Where `given` counts itself, it is taken apart again.
    """

    counters: tuple[Counter, ...]
    slice: GeneratedProgram
    kept: tuple[int, ...]
    given: GeneratedProgram


_COUNTED: PerOwner[GeneratedProgram, str, CountedLaunch | None] = PerOwner(
    "programs that are given counts", "one for a program"
)


def without_order(program: GeneratedProgram) -> CountedLaunch | None:
    """The programs that need no order of the threads; None if there are none. Checks need the launch as it is."""
    context = program.context
    if context.checks_bounds or context.checks_values or program.kernel.order not in (Order.ANY, Order.NUMBERS):
        return None
    return _COUNTED.of(program).made("counted", lambda: _without_order(program))


def _without_order(program: GeneratedProgram) -> CountedLaunch | None:
    kernel = program.simplified
    if awaited(kernel) is not None or locked(kernel) is not None:
        return None
    if program.addressed:  # by the numbers of parameters, of which the slice has others
        return None
    if program.settings.deterministic and _stores_meet(kernel):
        return None
    found = taken_apart(kernel)
    if found is None:
        return None
    context = program.context
    note("find operations on counters", found.slice)
    note("be given what they find", found.given)
    cut = GeneratedProgram(run((pipeline.PLAIN,), found.slice, context), program.settings, program.owner)
    given = GeneratedProgram(run(pipeline.PROGRAM, found.given, context), program.settings, program.owner, found.given)
    if given.counters and without_order(given) is None:
        return None
    return CountedLaunch(found.counters, cut, found.kept, given)


def _stores_meet(kernel: Kernel) -> bool:
    """True if the order of threads may decide which of two stores to one element is the last one."""
    conflicts, owned, indices = conflicting_stores(kernel), owned_arrays(kernel), ThreadIndices(kernel)
    stores = dict[int, list[Op]]()
    for node in contents_of(kernel.body).accesses:
        if node.row.is_write and not node.row.is_atomic and node.array < len(kernel.params):
            stores.setdefault(node.array, []).append(node)
    apart = owned | conflicts.slots.keys()
    return any(p not in apart and not are_apart(kernel, found, indices) for p, found in stores.items())


_ORDERED: Cache[tuple[str, int | None, ScalarType], GeneratedProgram] = Cache("programs of operations in order", 64)


def ordered_operations(operation: str, expected: int | None, dtype: ScalarType) -> GeneratedProgram:
    """The program of operations on one counter, one after the other.

    Its parameters are the element that each is on, from 1 on (0: none), its value, what it finds, and the counter.
    """
    key = operation, expected, dtype
    return _ORDERED.made(key, lambda: GeneratedProgram(_ordered(*key), Settings()))


def _ordered(operation: str, expected: int | None, dtype: ScalarType) -> Kernel:
    array, builder = ArrayType(dtype, 1), Builder()
    thread, element, value, found = (Value(kind) for kind in (int32, int32, dtype, dtype))
    builder.append(Op("tid", (), 0, thread))
    builder.append(Op("load", (thread,), 0, element))
    with builder.block() as nodes:
        builder.append(Op("load", (thread,), 1, value))
        place = builder.op("sub", element, Const(int32, 1))
        values = (value,) if expected is None else (Const(dtype, expected), value)
        name = operation or ("exch" if expected is None else "cas")
        builder.append(Op(f"atomic_{name}", (place, *values), 3, found))
        builder.effect("store", thread, found, attr=2)
    builder.append(If(builder.op("gt", element, Const(int32, 0)), make_block(nodes), Block(), ()))
    params = (Param("element", ArrayType(int32, 1)), *(Param(n, array) for n in ("value", "found", "counter")))
    return Kernel(f"counts_{name}", params, 1, make_block(builder.nodes), order=Order.NUMBERS)


__all__ = ["CountedLaunch", "ordered_operations", "without_order"]
