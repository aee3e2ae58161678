"""Launches in place that are repeated: the checks of the first hold for every call of the same kinds and shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import may_share_memory

from jwarp import _native
from jwarp.bind import compat
from jwarp.bind.compat import is_not_tracing
from jwarp.dispatch.call.numbers import converter
from jwarp.dispatch.executables.host_arrays import InPlace, Use
from jwarp.dispatch.steps.host_adjoint import InPlaceAdjoint, Need
from jwarp.ir.nodes import Param

Convert = Callable[[Any], Any]
Make = Callable[[list[Any]], np.ndarray]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the values of a repeated call have to be, and the `names` under which its results come back, if any.

    `converts` are those that are no arrays of NumPy, and what makes arrays of them. Those that are `written` must
    have no memory in common with the others, which calls with the same shapes can differ in.
    """

    converts: tuple[tuple[int, Convert], ...]
    written: tuple[int, ...]
    apart: tuple[tuple[int, int], ...]
    names: tuple[str, ...] | None

    def read(self, values: Sequence[Any]) -> list[Any] | None:
        """The arrays; None where the checks have to look at the values anew."""
        if not is_not_tracing():
            return None
        arrays = list(values)
        for place, convert in self.converts:
            made = convert(arrays[place])
            if made is None:
                return None
            arrays[place] = np.asarray(made)
        for p in self.written:
            flags = arrays[p].flags
            if not (flags.c_contiguous and flags.writeable):
                return None
        for p, q in self.apart:
            if may_share_memory(arrays[p], arrays[q]):
                return None
        return arrays


@dataclass(frozen=True, slots=True)
class AdjointPlan(_Plan):
    """An adjoint launch: `makes` are arrays of its own, which come after those of the values.

    `launches` are run on the arrays of these numbers; then arrays are `added` to others, and come back as `results`.
    """

    makes: tuple[Make, ...]
    launches: tuple[tuple[_native.HostLaunch, tuple[int, ...]], ...]
    added: tuple[tuple[int, int], ...]
    results: tuple[int, ...]

    def call(self, values: Sequence[Any]) -> Any:
        """The gradients; None where the checks have to look at the values anew."""
        arrays = self.read(values)
        if arrays is None:
            return None
        for make in self.makes:
            arrays.append(make(arrays))
        for native, places in self.launches:
            native([arrays[k] for k in places])
        for source, target in self.added:
            into = arrays[target]
            np.add(into, arrays[source], out=into, casting="unsafe")
        results = tuple([arrays[k] for k in self.results])
        return results if self.names is None else dict(zip(self.names, results, strict=True))


def adjoint_plan(
    run: InPlaceAdjoint,
    values: Sequence[Any],
    cotangents: Mapping[int, int],
    gradients: Mapping[int, int | None],
    names: tuple[str, ...] | None,
) -> AdjointPlan | None:
    """What repeats an adjoint launch.

    `cotangents` and `gradients` say where those of each parameter are among the values; a gradient that has no array
    of the caller's, and so is nowhere, comes back as a new one.
    """
    launches = [made for made in (run.forward, run.run) if made is not None]
    converts = _converts(run.program.params, values, run.contents)
    if converts is None or not all(map(_is_plain, launches)):
        return None
    if run.depends_on_integers:
        params = run.program.params
        converts = tuple(
            (p, _same(values[p], convert) if not params[p].is_array and params[p].dtype.is_int else convert)
            for p, convert in converts
        )
    lent = (place for p, place in cotangents.items() if p in run.cotangents)
    converts += tuple((place, np.asarray) for place in lent if type(values[place]) is compat.Array)
    return _AdjointBuilder(run, len(values), cotangents, gradients).plan(converts, names)


class _AdjointBuilder:
    """Numbers the arrays of an adjoint launch: those of the values come first, those it makes after them."""

    def __init__(
        self, run: InPlaceAdjoint, count: int, cotangents: Mapping[int, int], gradients: Mapping[int, int | None]
    ):
        self.run, self.count, self.cotangents = run, count, cotangents
        self.makes: list[Make] = []
        self.added: list[tuple[int, int]] = []
        program, extents = run.program, run.extents
        self.given = {p: place for p, place in gradients.items() if place is not None}
        self.gradients = {
            p: self.made(_zeros(extents[p] or (), program.dtypes[p])) if place is None else place
            for p, place in gradients.items()
        }

    def made(self, make: Make) -> int:
        """The number of a new array."""
        self.makes.append(make)
        return self.count + len(self.makes) - 1

    def plan(self, converts: tuple[tuple[int, Convert], ...], names: tuple[str, ...] | None) -> AdjointPlan:
        run, launches = self.run, []
        finals: dict[int, int] = {}
        if run.forward is not None:
            for p in run.outputs:
                fresh = _zeros(run.extents[p] or (), run.program.dtypes[p])
                finals[p] = self.made(fresh if run.contents[p] is None else _copy(p))
            places = tuple(finals.get(p, p) for p in range(len(run.contents)))
            launches.append((run.forward.one_call(), places))
        if run.run is not None:
            dtypes = run.run.program.dtypes
            places = tuple(self.place(need, dtype, finals) for need, dtype in zip(run.needs, dtypes, strict=True))
            launches.append((run.run.one_call(), places))
        self.added += [(self.cotangents[p], self.gradients[p]) for p in run.same]
        return AdjointPlan(
            converts,
            tuple(self.given.values()),
            self.apart(),
            names,
            tuple(self.makes),
            tuple(launches),
            tuple(self.added),
            tuple(self.gradients.values()),
        )

    def place(self, need: Need, dtype: np.dtype, finals: Mapping[int, int]) -> int:
        """The number of the array that a parameter of the adjoint's kernel is given."""
        p = need.param
        if need.kind == "final":
            return finals[p]
        if need.kind in ("content", "cotangent"):
            place = p if need.kind == "content" else self.cotangents[p]
            if need.use is Use.READ:
                return place
            work = self.made(_copy(place))
            if need.result is not None:
                self.added.append((work, self.gradients[need.result]))
            return work
        if need.kind == "wanted":
            made = self.made(_empty(need.shape, dtype))
            target = self.gradients[p]
            if need.shape != (self.run.extents[p] or ()):
                target = self.made(_reshaped(target, need.shape))
            self.added.append((made, target))
            return made
        if need.use is Use.SCRATCH:
            return self.made(_empty(need.shape, dtype))
        fixed = np.asarray(self.run.geometry.dims[p], dtype) if need.kind == "dim" else np.zeros(need.shape, dtype)
        return self.made(lambda _: fixed)

    def apart(self) -> tuple[tuple[int, int], ...]:
        """The values that must have no memory in common: arrays that are added to with all, outputs with inputs."""
        run, added = self.run, list(self.given.values())
        params = run.program.params
        contents = [p for p, x in enumerate(run.contents) if x is not None and params[p].is_array]
        others = [*contents, *(self.cotangents[p] for p in run.cotangents), *added]
        pairs = {(min(a, b), max(a, b)) for a in added for b in others if a != b}
        pairs |= {(min(q, p), max(q, p)) for q in run.outputs for p in contents if p != q and q in contents}
        return tuple(sorted(pairs))


def _is_plain(run: InPlace) -> bool:
    """Whether a launch has no arrays but those it is given, each for a parameter of its own."""
    return run.launch.program is run.program and not run.program.shadowed


def _converts(
    params: Sequence[Param], values: Sequence[Any], arrays: Sequence[np.ndarray | None]
) -> tuple[tuple[int, Convert], ...] | None:
    """What makes the arrays of the values that are none, as cheap as it gets; None where a closer look is needed."""
    converts: list[tuple[int, Convert]] = []
    for p, (param, array) in enumerate(zip(params, arrays, strict=True)):
        if array is None or array is values[p]:
            continue
        is_view = param.is_array and not param.is_value and type(values[p]) is compat.Array
        convert = np.asarray if is_view else converter(param, type(values[p]))
        if convert is None:
            return None
        converts.append((p, convert))
    return tuple(converts)


def _same(known: Any, convert: Convert) -> Convert:
    """The conversion of the number that was known, and of no other."""
    return lambda x: convert(x) if x == known else None


def _empty(shape: tuple[int, ...], dtype: np.dtype) -> Make:
    return lambda _: np.empty(shape, dtype)


def _zeros(shape: tuple[int, ...], dtype: np.dtype) -> Make:
    return lambda _: np.zeros(shape, dtype)


def _copy(place: int) -> Make:
    return lambda arrays: arrays[place].copy()


def _reshaped(place: int, shape: tuple[int, ...]) -> Make:
    return lambda arrays: arrays[place].reshape(shape)
