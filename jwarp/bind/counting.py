"""Launches whose threads count, on JAX values and in parallel: what operations find comes from a scan over the threads.

In the order of the threads, an operation finds what all earlier ones on that element have made of the counter: a
segmented exclusive scan. So a launch that is differentiated needs no order when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jwarp.analysis.counter_events import Counter
from jwarp.analysis.thread_order import keeps_order
from jwarp.bind.devices import may_have_gpu
from jwarp.bind.primitive import Shapes, launch_primitive
from jwarp.caches import Cache
from jwarp.compiler.counting import CountedLaunch, ordered_operations, without_order
from jwarp.compiler.program import GeneratedProgram
from jwarp.launching.batch import Batch
from jwarp.launching.descriptor import Descriptor, descriptor_of
from jwarp.launching.geometry import fold
from jwarp.launching.sizes import are_known
from jwarp.types.arrays import Extents
from jwarp.types.scalars import from_dtype
from jwarp.wire import Role

Launch = Descriptor[GeneratedProgram]

# Elements of counters and threads are numbered by int32.
MAX_ELEMENTS = 2**31 - 2


def counted(launch: Launch, extents: Extents, batch: Batch) -> CountedLaunch | None:
    """The programs that do what a launch does without an order of its threads; None if it has to have one."""
    geometry = launch.geometry
    sizes = (geometry.dims, (geometry.repeat,), batch.extents, *(shape or () for shape in extents))
    if launch.is_cut or not are_known(sizes) or geometry.may_repeat or 0 in (*geometry.dims, *batch.extents):
        return None
    # One core of a processor goes through such threads vector by vector, sooner than all cores do what follows.
    if not may_have_gpu() and keeps_order(launch.program.kernel):
        return None
    found = without_order(launch.program)
    if found is None:
        return None
    events = math.prod(geometry.dims) * max(len(counter.events) for counter in found.counters)
    counters = [math.prod(extents[counter.array] or ()) for counter in found.counters]
    return found if max(events, *counters) <= MAX_ELEMENTS and min(counters) > 0 else None


def given_launch(
    found: CountedLaunch, operands: Sequence[Any], launch: Launch, zeros: Shapes, batch: Batch
) -> tuple[list[Any], Launch, Shapes, Batch, dict[int, Any]]:
    """The launch that is given what operations find: operands, descriptor, shapes of zeros, and batch.

    The last result has the counters as the launch leaves them, by parameter.
    """
    values = dict(zip(launch.operands, zip(operands, batch.operands, strict=True), strict=True))
    fresh = dict(zip((p for p in launch.results if launch.roles[p] is Role.ZEROS), zeros, strict=True))
    outputs = _run_slice(found, values, launch, fresh, batch)
    inputs: list[Any] = []
    finals: dict[int, Any] = {}
    for counter in found.counters:
        own = [next(outputs) for _ in range(2 * len(counter.events))]
        p = counter.array
        start = values[p][0] if p in values else jnp.zeros(
            (*batch.extents, *fresh[p]), launch.program.dtypes[p]
        )  # fmt: skip
        scan = _scan_of(_operation(counter), counter.is_one, len(batch.extents))
        given, finals[p] = scan(start, tuple(own[::2]), tuple(own[1::2]))
        inputs += given
    roles = list(launch.roles)
    for p in finals:
        roles[p] = Role.READ
        if p not in values:
            values[p] = jnp.zeros(fresh.pop(p), launch.program.dtypes[p]), batch.nothing
    count = len(roles)
    roles += [Role.READ] * len(inputs)
    values |= {count + k: (x, batch.all) for k, x in enumerate(inputs)}
    made = descriptor_of(found.given, launch.geometry, tuple(roles), launch.block_dim)
    masks = tuple(values[p][1] for p in made.operands)
    wider = Batch(batch.extents, masks, (batch.all,) * len(made.results))
    return [values[p][0] for p in made.operands], made, tuple(fresh.values()), wider, finals


def _run_slice(
    found: CountedLaunch, values: dict[int, Any], launch: Launch, fresh: dict[int, tuple[int, ...]], batch: Batch
) -> Any:
    """The outputs of the slice: elements and values, one after the other."""
    kernel = found.slice.kernel
    changed = found.slice.written
    roles, operands, masks, shapes = list[Role](), list[Any](), list[Any](), list[tuple[int, ...]]()
    for k, p in enumerate(found.kept):
        is_written = k in changed
        if p in values:
            x, mask = values[p]
            if is_written and mask != batch.all:
                x, mask = jnp.broadcast_to(x, (*batch.extents, *x.shape)), batch.all
            roles.append(Role.IN_OUT if is_written else Role.READ)
            operands.append(x)
            masks.append(mask)
        elif is_written:
            roles.append(Role.ZEROS)
            shapes.append(fresh[p])
        else:
            roles.append(Role.READ)
            operands.append(jnp.zeros(fresh[p], launch.program.dtypes[p]))
            masks.append(batch.nothing)
    count = len(kernel.params) - len(found.kept)
    roles += [Role.ZEROS] * count
    shapes += [launch.geometry.dims[: kernel.tid_dims]] * count
    made = descriptor_of(found.slice, launch.geometry, tuple(roles))
    results = launch_primitive(made).bind(
        *operands,
        launch=made,
        zeros=tuple(shapes),
        batch=Batch(batch.extents, tuple(masks), (batch.all,) * len(made.results)),
        differentiable=False,
        side_effect=False,
    )
    return iter(results[len(results) - count :])


# Scans

Combine = Callable[[Any, Any], Any]
Operation = tuple[str, int | None]
ADDITION: Operation = ("add", None)

_COMBINE: dict[str, Combine] = {
    "add": jnp.add,
    "min": jnp.minimum,
    "max": jnp.maximum,
    "and": jnp.bitwise_and,
    "or": jnp.bitwise_or,
    "xor": jnp.bitwise_xor,
}


def _operation(counter: Counter) -> Operation:
    return counter.operation, None if counter.expected is None else counter.expected.value


def _combine(operation: Operation) -> Combine:
    """The associative operation that gives an element from what it was and a value."""
    name, expected = operation
    if name:
        return _COMBINE[name]
    if expected is None:
        return lambda before, value: value
    return lambda before, value: jnp.where(before == jnp.asarray(expected, before.dtype), value, before)


Scan = Callable[..., tuple[list[Any], Any]]

_SCANS: Cache[tuple[Operation, bool, int], Scan] = Cache("scans of counters", 64)


def _scan_of(operation: Operation, is_one: bool, axes: int) -> Scan:
    """The compiled scan of one counter for a batch of so many axes."""
    return _SCANS.made((operation, is_one, axes), lambda: _made_scan(operation, is_one, axes))


def _made_scan(operation: Operation, is_one: bool, axes: int) -> Scan:
    def by_sorting(start: Any, element: Any, value: Any) -> tuple[Any, Any]:
        return found_values(operation, is_one, start, element, value)

    for _ in range(axes):
        by_sorting = jax.vmap(by_sorting)

    def in_order(start: Any, element: Any, value: Any) -> tuple[Any, Any]:
        return _in_order(operation, start, element, value, axes)

    def run(start: Any, elements: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[list[Any], Any]:
        shape = elements[0].shape
        element, value, content = (
            x.reshape(*x.shape[:axes], -1) for x in (jnp.stack(elements, -1), jnp.stack(values, -1), start)
        )
        # One core of a processor goes through them faster than all of them sort.
        found, left = jax.lax.platform_dependent(content, element, value, cpu=in_order, default=by_sorting)
        found = found.reshape(*shape, len(elements))
        return [found[..., k] for k in range(len(elements))], left.reshape(start.shape)

    run.__name__ = "jwarp_counts"
    return jax.jit(run)


def _in_order(operation: Operation, start: Any, element: Any, value: Any, axes: int) -> tuple[Any, Any]:
    """The same as `found_values` for a batch, by operations one after the other."""
    kind = from_dtype(start.dtype)
    assert kind is not None
    program = ordered_operations(*operation, kind)
    count = element.shape[-1]
    launch = descriptor_of(program, fold((count,), 1, program.name), (Role.READ, Role.READ, Role.ZEROS, Role.IN_OUT))
    batch = Batch(start.shape[:axes], ((True,) * axes,) * 3, ((True,) * axes,) * 2)
    found, left = launch_primitive(launch).bind(
        element, value, start, launch=launch, zeros=((count,),), batch=batch, differentiable=False, side_effect=False
    )
    return found, left


def found_values(operation: Operation, is_one: bool, content: Any, element: Any, value: Any) -> tuple[Any, Any]:
    """The values that operations find in a counter, in their order, and the counter afterwards.

    Args:
        operation: The name of what combines, or "": an exchange, which may expect the element to have a given value.
        is_one: All operations are on one element.
        content: The elements of the counter before.
        element: The number of the element that each operation is on, from 1 on; 0 for none.
        value: The operand of each operation.
    """
    if is_one:
        found, left = _scan(operation, element, value, content, is_one=True)
    else:
        order = jnp.argsort(element, stable=True)
        found, left = _scan(operation, element[order], value[order], content, is_one=False)
        found = jnp.zeros_like(found).at[order].set(found, unique_indices=True)
    return jnp.where(element > 0, found, jnp.zeros((), found.dtype)), left


def _scan(operation: Operation, element: Any, value: Any, content: Any, *, is_one: bool) -> tuple[Any, Any]:
    """The values that operations find that are sorted by elements, and the content afterwards."""
    combine, exists = _combine(operation), element > 0
    if is_one:
        # Threads that do nothing may be anywhere between the others.
        place = jnp.maximum(jnp.max(element) - 1, 0)
        before, last = content[place], jnp.arange(element.size) == element.size - 1
        some, after = _joined(operation, exists, value)
        place = jnp.where(last & some, place, content.size)
        some_before = jnp.concatenate([jnp.zeros_like(some[:1]), some[:-1]])
    else:
        starts = jnp.concatenate([jnp.ones_like(exists[:1]), element[1:] != element[:-1]])
        place = jnp.maximum(element - 1, 0)
        before, last = content[place], jnp.concatenate([starts[1:], starts[:1]])
        after = _segmented(operation, starts, value)
        place = jnp.where(last & exists, place, content.size)
        some_before = ~starts
    left = content.at[place].set(combine(before, after), mode="drop")
    earlier = jnp.concatenate([value[:1], after[:-1]])
    return jnp.where(some_before, combine(before, earlier), before), left


def _joined(operation: Operation, exists: Any, value: Any) -> tuple[Any, Any]:
    """The truth value that there is an operation up to each place, and the first value after all of these."""
    if operation == ADDITION:
        return jnp.cumsum(exists, dtype=jnp.int32) > 0, jnp.cumsum(jnp.where(exists, value, 0), dtype=value.dtype)
    combine = _combine(operation)

    def join(x: Any, y: Any) -> Any:
        (a, u), (b, v) = x, y
        return a | b, jnp.where(a & b, combine(u, v), jnp.where(b, v, u))

    some, after = jax.lax.associative_scan(join, (exists, value))
    return some, after


def _segmented(operation: Operation, starts: Any, value: Any) -> Any:
    """The first value of each segment after all of its operations up to each place."""
    if operation == ADDITION:
        total = jnp.cumsum(value, dtype=value.dtype)
        first = jax.lax.cummax(jnp.where(starts, jnp.arange(value.size, dtype=jnp.int32), 0))
        return total - (total - value)[first]
    combine = _combine(operation)

    def join(x: Any, y: Any) -> Any:
        (a, u), (b, v) = x, y
        return a | b, jnp.where(b, v, combine(u, v))

    return jax.lax.associative_scan(join, (starts, value))[1]


__all__ = ["counted", "found_values", "given_launch"]
