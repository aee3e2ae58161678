"""The content of traced values that no argument of the traced function decides on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jwarp.bind import compat
from jwarp.bind.dependences import part_for
from jwarp.bind.primitive import LAUNCHES

# Values up to this size are kept for later questions in the same trace.
SMALL = 1 << 20

# Values found so far, by the ids of traced ones: the traced value itself, which keeps its id, and its content.
Known = dict[int, tuple[Any, Any]]


def known_value(value: Any, known: Known) -> jax.Array | None:
    """Compute a traced value that is the same in every call of the function; None if arguments decide, or effects.

    The operations that make it run once more, outside of the trace. So a program may read the number of elements of a
    matrix, if its structure is that of a fixed mesh. What is found is added to `known`.
    """
    found: dict[int, Any] = {}  # by the id of a value, all of which the trace keeps
    tracers: list[Any] = []
    results: dict[Any, Sequence[Any]] = {}  # of a step, by the sources that decide
    waiting = [value]
    with jax.ensure_compile_time_eval():
        while waiting:
            wanted = waiting[-1]
            if id(wanted) not in found:
                if not isinstance(wanted, compat.Tracer):
                    found[id(wanted)] = wanted
                    continue
                if id(wanted) in known:
                    found[id(wanted)] = known[id(wanted)][1]
                    continue
                step = compat.step_of(wanted)
                if step is None:
                    return None
                needed, step = _reduced(step)
                missing = [s for k, s in enumerate(step.sources) if k in needed and id(s) not in found]
                if missing:
                    waiting += missing
                    continue
                key = (id(step.equation), step.params.get("launch"), *sorted(needed))
                if key not in results:
                    given = [found[id(s)] if k in needed else _any_value(s) for k, s in enumerate(step.sources)]
                    results[key] = step.run(given)
                found[id(wanted)] = results[key][step.number]
                tracers.append(wanted)
            waiting.pop()
    known.update((id(t), (t, found[id(t)])) for t in tracers if found[id(t)].nbytes <= SMALL)
    return found[id(value)]


def _reduced(step: compat.Step) -> tuple[frozenset[int], compat.Step]:
    """The part of a step that makes its result, with the numbers of the sources that it needs."""
    if step.primitive in LAUNCHES and not step.params["batch"].extents:
        part = part_for(step.params["launch"], step.number)
        if part is not None:
            return part.operands, step._replace(params={**step.params, "launch": part.launch})
    return frozenset(range(len(step.sources))), step


def _any_value(source: Any) -> jax.Array:
    """A value of the type of one that does not decide on what is asked for."""
    return jnp.zeros(source.shape, source.dtype)
