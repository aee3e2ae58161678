"""The content of traced values that no argument of the traced function decides on."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jwarp.bind import compat
from jwarp.bind.dependences import part_for
from jwarp.bind.primitive import LAUNCHES

# Values up to this size are kept for later questions in the same trace.
SMALL = 1 << 20

# Values found so far, by the ids of traced ones: the traced value itself, which keeps its id, and its content.
Known = dict[int, tuple[Any, Any]]


class _Run(NamedTuple):
    """One run of a step: the operands that decide on the results that are wanted, and the numbers of these."""

    step: compat.Step
    needed: frozenset[int]
    wanted: set[int]

    def now(self, found: dict[int, Any]) -> dict[int, Any]:
        """Run it on the values that were found: the results that are wanted."""
        sources = self.step.sources
        given = [found[id(s)] if k in self.needed else _any_value(s) for k, s in enumerate(sources)]
        # Runs that were only begun would have memory for the results of all of them.
        results = jax.block_until_ready(self.step.run(given))
        return {number: results[number] for number in self.wanted}


def known_value(value: Any, known: Known) -> jax.Array | None:
    """Compute a traced value that is the same in every call of the function; None if arguments decide, or effects.

    The operations that make it run once more, outside of the trace. So a program may read the number of elements of a
    matrix, if its structure is that of a fixed mesh. What is found is added to `known`. A value in between lives until
    the last operation that needs it has run.
    """
    found: dict[int, Any] = {}  # by the id of a value, all of which the trace keeps
    made: list[tuple[Any, Any, int]] = []  # traced values, after all that they are made of: the run and number of each
    runs: dict[Any, _Run] = {}  # by the step and the sources that decide
    placed: set[int] = set()
    waiting = [value]
    while waiting:
        wanted = waiting[-1]
        if id(wanted) not in found and id(wanted) not in placed:
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
            sources = [s for k, s in enumerate(step.sources) if k in needed]
            missing = [s for s in sources if id(s) not in found and id(s) not in placed]
            if missing:
                waiting += missing
                continue
            key = (id(step.equation), step.params.get("launch"), *sorted(needed))
            runs.setdefault(key, _Run(step, needed, set())).wanted.add(step.number)
            made.append((wanted, key, step.number))
            placed.add(id(wanted))
        waiting.pop()
    return _Results(found, runs, {id(t): (t, key, number) for t, key, number in made}, known).of(value)


class _Results:
    """Runs steps, each once its operands are there, and frees what no other step needs."""

    def __init__(
        self, found: dict[int, Any], runs: dict[Any, _Run], made: dict[int, tuple[Any, Any, int]], known: Known
    ):
        self.found, self.runs, self.made, self.known = found, runs, made, known
        self.results: dict[Any, dict[int, Any]] = {}
        self.uses = Counter(source for key in runs for source in self._sources(key))
        self.heights: dict[int, int] = {}  # how many steps come one after the other, `made` being in their order
        for place, (_, key, _) in made.items():
            self.heights[place] = 1 + max((self.heights.get(s, 0) for s in self._sources(key)), default=0)

    def _sources(self, key: Any) -> list[int]:
        run = self.runs[key]
        return [id(run.step.sources[k]) for k in run.needed]

    def of(self, value: Any) -> Any:
        """A value that is traced, of those whose steps are known, or a constant."""
        self.uses[id(value)] += 1
        done, waiting = {*self.found}, [id(value)]
        with jax.ensure_compile_time_eval():
            while waiting:
                place = waiting[-1]
                missing = [] if place in done else [s for s in self._sources(self.made[place][1]) if s not in done]
                if missing:  # the longest way first: what is made of little, such as zeros, is made where it is needed
                    waiting += sorted(missing, key=self.heights.__getitem__)
                    continue
                if place not in done:
                    self._make(place)
                    done.add(place)
                waiting.pop()
        return self.found[id(value)]

    def _make(self, place: int) -> None:
        wanted, key, number = self.made[place]
        if key not in self.results:
            self.results[key] = self.runs[key].now(self.found)
            for source in self._sources(key):
                self.uses[source] -= 1
                if not self.uses[source]:
                    del self.found[source]
        found = self.found[place] = self.results[key].pop(number)
        if found.nbytes <= SMALL:
            self.known[place] = wanted, found


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
