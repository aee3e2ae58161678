"""Adjoint launches on host arrays: gradients are added to arrays in place, those that have none are new arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import may_share_memory

from jwarp import _native
from jwarp.autodiff.custom_gradients import changed_by_gradients
from jwarp.bind import compat, values
from jwarp.bind.compat import is_not_tracing
from jwarp.compiler.derivative_steps import adjoint_steps, integers_of
from jwarp.compiler.derive import switched_off
from jwarp.compiler.write_conflicts import depends_on_integers
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.checks import Convert, Place, Use, converter, read_contents, read_gradient
from jwarp.dispatch.executables.host import prepare, refuse_shared, without_aliases
from jwarp.dispatch.executables.table import Ready
from jwarp.dispatch.steps.host_executor import HostSteps, Recorded, Scratch, native_steps
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Fault
from jwarp.launching.steps import Add, Allocate, Copy, Slot, Steps


class Adjoint(Ready):
    """The adjoint of a launch.

    Attributes:
        by_slot: The arrays of the slots of `steps`.
        starts: The values that gradients without an array of the caller's start from, by parameter.

    Raises:
        NotDifferentiableError: there is no exact rule for a gradient that is wanted.
        KernelTypeError, LaunchError: an argument does not fit, a gradient overlaps another array, or an output of the
            launch shares its memory with an input.
    """

    def __init__(self, call: Call):
        super().__init__(call)
        plain = call.program.on_host(adjoint=True)
        self.contents, self.extents = read_contents(plain, call.matched)
        self.program, threads = plain.arranged(call.dims, call.block_dim)
        self._read_gradients(call)
        outputs, contents = call.matched.outputs, self.contents
        # Custom gradients write to the caller's arrays, where these may be written.
        self.changed = tuple(
            p
            for p in sorted(changed_by_gradients(self.program.differentiated))
            if (x := contents[p]) is not None and x.flags.writeable
        )
        refuse_shared(self.program, contents, outputs, self.changed)
        self.steps = adjoint_steps(
            self.program,
            threads,
            self.extents,
            self.wanted,
            self.cotangents,
            outputs,
            call.block_dim,
            integers=integers_of(self.program, contents),
            fresh=tuple(p for p in outputs if contents[p] is None),
            changed=self.changed,
        )
        by_slot: dict[Slot, np.ndarray] = {Slot("primal", p): x for p, x in enumerate(contents) if x is not None}
        by_slot |= {Slot("given", p): x for p, x in self.cotangents.items()}
        by_slot |= {Slot("gradient", p): x for p, x in self.wanted.items()}
        _refuse_overlaps(self.steps, by_slot)
        for step in self.steps.launches:
            prepare(step.launch, step.shapes)
        self.by_slot = by_slot
        self._run = HostSteps(self.steps.steps, {slot: k for k, slot in enumerate(by_slot)}, len(by_slot))
        self._native: _native.HostGraph | None = None
        self._has_run = False
        self._turn = threading.Lock()

    def _read_gradients(self, call: Call) -> None:
        program, request, extents = self.program, call.gradients, self.extents
        if request.wanted and not call.differentiable:
            raise switched_off(program, next(iter(request.wanted)))
        faults: list[Fault] = []
        self.cotangents: dict[int, np.ndarray] = {}
        self.wanted: dict[int, np.ndarray] = {}
        self.starts: dict[int, Any] = {}
        for p, given in (request.cotangents or {}).items():
            if given is not None:
                found = read_gradient(program.params[p], extents[p] or (), given, changes=False)
                faults.append(found) if isinstance(found, Fault) else self.cotangents.setdefault(p, found)
        for p, given in request.wanted.items():
            if given is True or type(given) in (int, float):
                self.starts[p] = 0.0 if given is True else given
                given = np.zeros(extents[p] or () if given is True else (), program.dtypes[p])
            found = read_gradient(program.params[p], extents[p] or (), given, changes=True)
            faults.append(found) if isinstance(found, Fault) else self.wanted.setdefault(p, found)
        arguments.raise_faults(program.name, faults)

    def __call__(self) -> Any:
        for p, start in self.starts.items():
            self.wanted[p][...] = start
        try:
            self._add()
        except ValueError as error:
            raise LaunchError(f"kernel '{self.program.name}': {error}", hint="make the record anew") from None
        wanted = self.call.gradients.wanted
        return self.call.results({p: self.wanted[p].copy() if p in self.starts else x for p, x in wanted.items()})

    def _add(self) -> None:
        """Add the gradients: from the second time on by one native call, which keeps its memory."""
        if not self._has_run:
            self._has_run = True
            self._run(list(self.by_slot.values()))
            return
        with self._turn:
            if self._native is None:
                bound = native_steps([Recorded(self.steps.steps, self.by_slot)], Scratch())
                assert bound is not None  # gradients have the type of their parameters
                self._native = _native.HostGraph(bound, self._watched())
            self._native()

    def _watched(self) -> list[tuple[np.ndarray, bool]]:
        """The caller's arrays of copies and sums, and whether each is written."""
        moves = [step for step in self.steps.steps if isinstance(step, (Add, Copy))]
        slots = dict.fromkeys(slot for step in moves for slot in (step.source, step.target))
        return [(self.by_slot[slot], slot.kind == "gradient") for slot in slots if slot in self.by_slot]

    def change(self, given: Mapping[int, Any]) -> bool:
        changes: list[tuple[np.ndarray, np.ndarray]] = []
        for p, value in given.items():
            param, array = self.call.program.params[p], self.contents[p]
            # The values of integers decide how gradients are gathered.
            if param.is_array or not param.dtype.is_float or array is None or isinstance(value, compat.Tracer):
                return False
            changes.append((array, arguments.to_scalar(param.dtype, values.describe(value, param))))
        for array, number in changes:
            array[...] = number
        return True

    def executable(self, values: Sequence[Any]) -> AdjointPlan | None:
        params, call = self.program.params, self.call
        converts = _converts(params, values, self.contents)
        if converts is None or any(start != 0.0 for start in self.starts.values()):
            return None
        if depends_on_integers(self.program):
            converts = tuple(
                (p, _only_equal(values[p], convert) if not params[p].is_array and params[p].dtype.is_int else convert)
                for p, convert in converts
            )
        # The values are those of the parameters, then all cotangents, then all gradients that are wanted.
        count = len(call.matched.values)
        asked = list(call.gradients.cotangents or {})
        cotangents = {p: count + k for k, p in enumerate(asked)}
        after = count + len(asked)
        gradients = {p: after + k for k, p in enumerate(self.wanted) if p not in self.starts}
        borrowed = (place for p, place in cotangents.items() if p in self.cotangents)
        converts += tuple((place, np.asarray) for place in borrowed if type(values[place]) is compat.Array)
        slots = {Slot("primal", p): p for p in range(count)}
        slots |= {Slot("given", p): place for p, place in cotangents.items()}
        slots |= {Slot("gradient", p): place for p, place in gradients.items()}
        new = [Allocate(Slot("gradient", p), self.extents[p] or (), self.program.dtypes[p], 0) for p in self.starts]
        run = HostSteps((*new, *self.steps.steps), slots, len(values))
        results = tuple(run.place(Slot("gradient", p)) for p in self.wanted)
        written = (*gradients.values(), *self.changed)
        apart = self._apart([cotangents[p] for p in self.cotangents], written)
        return AdjointPlan(converts, written, apart, call.names, run.code, results)

    def _apart(self, cotangents: Sequence[int], written: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The values that must have no memory in common: arrays that are written with all, outputs with inputs."""
        params = self.program.params
        contents = [p for p, x in enumerate(self.contents) if x is not None and params[p].is_array]
        others = [*contents, *cotangents, *written]
        pairs = {(min(a, b), max(a, b)) for a in written for b in others if a != b}
        outputs = self.call.matched.outputs
        pairs |= {(min(q, p), max(q, p)) for q in outputs for p in contents if p != q and q in contents}
        return tuple(sorted(pairs))


@dataclass(frozen=True, slots=True)
class AdjointPlan:
    """An adjoint launch that is repeated: `code` runs on the arrays of the values, and arrays come back as `results`.

    `names` are those of the results, if they have any. `converts` are the values that are no arrays of NumPy, and what
    makes arrays of them. Those that are `written` are contiguous, and arrays that are `apart` share no memory, in
    which calls of the same shapes can differ.
    """

    converts: tuple[tuple[int, Convert], ...]
    written: tuple[int, ...]
    apart: tuple[tuple[int, int], ...]
    names: tuple[str, ...] | None
    code: Sequence[Callable[[list[Any]], None]]
    results: tuple[int, ...]

    def call(self, values: Sequence[Any]) -> Any:
        """The gradients; None on the slow path, where the checks have to look at the values."""
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
        for run in self.code:
            run(arrays)
        results = tuple([arrays[k] for k in self.results])
        return results if self.names is None else dict(zip(self.names, results, strict=True))


def _converts(
    params: Sequence[Param], values: Sequence[Any], arrays: Sequence[np.ndarray | None]
) -> tuple[tuple[int, Convert], ...] | None:
    """The cheapest conversions to arrays of the values that are none; None for the slow path."""
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


def _only_equal(known: Any, convert: Convert) -> Convert:
    """The conversion of a number that is known, and of no other."""
    return lambda x: convert(x) if x == known else None


def _refuse_overlaps(steps: Steps, arrays: Mapping[Slot, np.ndarray]) -> None:
    """Refuse gradients that are added to and share memory with another array of a launch.

    Raises:
        LaunchError: there is such a gradient, or it is read-only.
    """
    copied = {step.target: step.source for step in steps.steps if isinstance(step, Copy)}
    targets = {step.source: step.target for step in steps.steps if isinstance(step, Add) if step.source not in copied}
    for step in steps.launches:
        program = step.launch.program
        places = []
        for slot, shape in zip(step.slots, step.shapes, strict=True):
            if slot in targets:
                places.append(Place(arrays[targets[slot]].reshape(shape), Use.ADD))
            elif slot.kind == "primal" and slot in step.written:
                places.append(Place(arrays[slot], Use.IN_OUT))
            elif slot in copied and copied[slot] in arrays:
                places.append(Place(arrays[copied[slot]], Use.COPY))
            else:
                places.append(Place(arrays.get(slot, _NOTHING)))
        without_aliases(program, places[: len(program.params)], shared=False)


_NOTHING = np.empty(0)  # in the place of memory that nobody else has
