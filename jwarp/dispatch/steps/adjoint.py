"""Adjoint launches on arrays of the host or a GPU: gradients are added in place, those without an array are new."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jwarp import _native
from jwarp.arrays.cuda_arrays import read_stream
from jwarp.autodiff.custom_gradients import changed_by_gradients
from jwarp.bind import compat, values
from jwarp.compiler.derivative_steps import adjoint_steps, integers_of
from jwarp.compiler.derive import switched_off
from jwarp.compiler.program import GeneratedProgram, on_host
from jwarp.compiler.program_base import Program
from jwarp.compiler.write_conflicts import depends_on_integers
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.checks import ON_HOST, Convert, DeviceReader, Place, Reader, Use, converter, read_contents
from jwarp.dispatch.executables.host import refuse_shared, without_aliases
from jwarp.dispatch.executables.table import Plan, Ready, outdated, places_of_gradients
from jwarp.dispatch.steps.executors import DeviceSteps, HostSteps, Recorded, Scratch, native_steps
from jwarp.errors import LaunchError
from jwarp.launching import arguments
from jwarp.launching.arguments import Fault
from jwarp.launching.steps import Add, Allocate, Copy, Slot, Steps


class _Adjoint:
    """The steps of an adjoint launch on the arrays that a reader finds.

    Attributes:
        contents: What each parameter is given, None for an output that starts as zeros.
        cotangents, wanted: The arrays that are given for parameters, and those that gradients are added to.
        starts: The values that gradients without an array of the caller's start from, by parameter.
        changed: The parameters whose arrays custom gradients write to.
        by_slot: The arrays of the slots of `steps`.

    Raises:
        NotDifferentiableError: there is no exact rule for a gradient that is wanted.
        KernelTypeError, LaunchError: an argument does not fit, an output of the launch shares its memory with an
            input, or a gradient overlaps another array or itself.
    """

    def __init__(self, call: Call, program: GeneratedProgram, reader: Reader):
        self.contents, self.extents = read_contents(program, call.matched, reader)
        self.program, threads = program.arranged(call.dims, call.block_dim)
        self._read_gradients(call, reader)
        outputs, contents = call.matched.outputs, [None if x is None else x.array for x in self.contents]
        # Custom gradients write to the caller's arrays, where these may be written.
        self.changed = tuple(
            p
            for p in sorted(changed_by_gradients(self.program.differentiated))
            if (x := contents[p]) is not None and x.flags.writeable
        )
        refuse_shared(self.program, contents, outputs, self.changed)
        # Of a number in the memory of a GPU nobody knows the value.
        numbers = [None if x is None or x.owner is not None else x.array for x in self.contents]
        _, self.steps = adjoint_steps(
            self.program,
            threads,
            self.extents,
            self.wanted,
            self.cotangents,
            outputs,
            call.block_dim,
            integers=integers_of(self.program, numbers),
            fresh=tuple(p for p in outputs if contents[p] is None),
            changed=self.changed,
            for_gpu=reader.for_gpu,
        )
        self.by_slot = {Slot("primal", p): x for p, x in enumerate(self.contents) if x is not None}
        self.by_slot |= {Slot("given", p): x for p, x in self.cotangents.items()}
        self.by_slot |= {Slot("gradient", p): x for p, x in self.wanted.items()}
        _refuse_overlaps(self.steps, {slot: x.array for slot, x in self.by_slot.items()})

    def _read_gradients(self, call: Call, reader: Reader) -> None:
        program, request, extents = self.program, call.gradients, self.extents
        if request.wanted and not call.differentiable:
            raise switched_off(program, next(iter(request.wanted)))
        faults: list[Fault] = []
        self.cotangents: dict[int, Place] = {}
        self.wanted: dict[int, Place] = {}
        self.starts: dict[int, Any] = {}
        given = {p: x for p, x in (request.cotangents or {}).items() if x is not None}
        for into, of in ((self.cotangents, given), (self.wanted, request.wanted)):
            for p, x in of.items():
                changes = into is self.wanted
                if changes and not reader.for_gpu and (x is True or type(x) in (int, float)):
                    self.starts[p] = 0.0 if x is True else x
                    x = np.zeros(extents[p] or () if x is True else (), program.dtypes[p])
                found = reader.gradient(program.params[p], extents[p] or (), x, changes=changes)
                faults.append(found) if isinstance(found, Fault) else into.setdefault(p, found)
        arguments.raise_faults(program.name, faults)


class DeviceAdjoint(Ready):
    """The adjoint of a launch on arrays of a GPU. Its arguments are read each time, as those of a launch."""

    def __call__(self, stream: Any = None) -> Any:
        program = generated(self.call.program)
        handle = read_stream(program.name, stream)
        made = _Adjoint(self.call, program, DeviceReader(handle))
        DeviceSteps(program, made.steps)(made.by_slot, handle, waits=stream is None)
        return self.call.results(dict(self.call.gradients.wanted))


def generated(program: Program) -> GeneratedProgram:
    """The program of a kernel that has an adjoint to be launched on a GPU in place.

    Raises:
        LaunchError: it is written in CUDA C++.
    """
    if isinstance(program, GeneratedProgram):
        return program
    raise LaunchError(
        f"kernel '{program.name}': the adjoint of a kernel written in CUDA C++ is not added to arrays in place",
        hint="launch the kernel that is its adjoint, or pass JAX arrays, for example jax.dlpack.from_dlpack(array)",
    )


class HostAdjoint(Ready):
    """The adjoint of a launch on host arrays.

    Raises what `_Adjoint` raises.
    """

    def __init__(self, call: Call):
        super().__init__(call)
        self.made = made = _Adjoint(call, on_host(call.program, adjoint=True), ON_HOST)
        self.by_slot = {slot: x.array for slot, x in made.by_slot.items()}
        self._run = HostSteps(made.steps)
        self._native: _native.HostGraph | None = None
        self._has_run = False
        self._turn = threading.Lock()

    def __call__(self, stream: Any = None) -> Any:
        made = self.made
        for p, start in made.starts.items():
            made.wanted[p].array[...] = start
        try:
            self._add()
        except ValueError as error:
            raise outdated(made.program.name, error) from None
        wanted = self.call.gradients.wanted
        return self.call.results({p: made.wanted[p].array.copy() if p in made.starts else x for p, x in wanted.items()})

    def _add(self) -> None:
        """Add the gradients: from the second time on by one native call, which keeps its memory."""
        if not self._has_run:
            self._has_run = True
            self._run(self.by_slot)
            return
        with self._turn:
            if self._native is None:
                bound = native_steps([Recorded(self.made.steps, self.by_slot)], Scratch())
                assert bound is not None  # gradients have the type of their parameters
                self._native = _native.HostGraph(bound, self._watched())
            self._native()

    def _watched(self) -> list[tuple[np.ndarray, bool]]:
        """The caller's arrays of copies and sums, and whether each is written."""
        moves = [step for step in self.made.steps.steps if isinstance(step, (Add, Copy))]
        slots = dict.fromkeys(slot for step in moves for slot in step.slots)
        return [(self.by_slot[slot], slot.kind == "gradient") for slot in slots if slot in self.by_slot]

    def change(self, given: Mapping[int, Any]) -> bool:
        changes: list[tuple[np.ndarray, np.ndarray]] = []
        for p, value in given.items():
            param, place = self.call.program.params[p], self.made.contents[p]
            # The values of integers decide how gradients are gathered.
            if param.is_array or not param.dtype.is_float or place is None or isinstance(value, compat.Tracer):
                return False
            changes.append((place.array, arguments.to_scalar(param.dtype, values.describe(value, param))))
        for array, number in changes:
            array[...] = number
        return True

    def executable(self, values: Sequence[Any]) -> Plan | None:
        made, call = self.made, self.call
        converts = self._converts(values)
        if converts is None or any(start != 0.0 for start in made.starts.values()):
            return None
        cotangents, gradients = places_of_gradients(call)
        slots: list[Slot | None] = [Slot("primal", p) for p in range(len(call.matched.values))]
        slots += [Slot("given", p) for p in cotangents]
        slots += [None if p in made.starts else Slot("gradient", p) for p in gradients]
        if len(slots) != len(values):
            return None
        borrowed = (cotangents[p] for p in made.cotangents)
        converts |= {place: np.asarray for place in borrowed if type(values[place]) is compat.Array}
        new = [Allocate(Slot("gradient", p), made.extents[p] or (), made.program.dtypes[p], 0) for p in made.starts]
        run = HostSteps(Steps((*new, *made.steps.steps)), slots)
        # JAX's memory may be memory that is written, and is not in the key of the call.
        outputs = (q for q in call.matched.outputs if made.contents[q] is not None)
        written = {*(place for p, place in gradients.items() if p not in made.starts), *made.changed, *outputs}
        others = [k for k, value in enumerate(values) if type(value) is compat.Array]
        return Plan(
            run.run,
            tuple((k, converts.get(k)) for k in range(len(values))),
            tuple(run.place(Slot("gradient", p)) for p in made.wanted),
            call.names,
            tuple((p, q) for p in others for q in written if p != q),
            in_place=True,
        )

    def _converts(self, values: Sequence[Any]) -> dict[int, Convert] | None:
        """The cheapest conversions to arrays of the values that are none; None for the slow path."""
        made, converts = self.made, dict[int, Convert]()
        is_known = depends_on_integers(made.program)
        for p, (param, place) in enumerate(zip(made.program.params, made.contents, strict=True)):
            if place is None or place.array is values[p]:
                continue
            is_view = param.is_array and not param.is_value and type(values[p]) is compat.Array
            convert = np.asarray if is_view else converter(param, type(values[p]))
            if convert is None:
                return None
            if is_known and not param.is_array and param.dtype.is_int:
                convert = _only_equal(values[p], convert)
            converts[p] = convert if is_view else _as_array(convert)
        return converts


def _only_equal(known: Any, convert: Convert) -> Convert:
    """The conversion of a number that is known, and of no other."""
    return lambda x: convert(x) if x == known else None


def _as_array(convert: Convert) -> Convert:
    """The conversion of a number to an array."""

    def made(x: Any) -> np.ndarray | None:
        number = convert(x)
        return None if number is None else np.asarray(number)

    return made


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
                places.append(Place(arrays[targets[slot]].reshape(shape), Use.IN_OUT))
            elif slot.kind == "primal" and slot in step.written:
                places.append(Place(arrays[slot], Use.IN_OUT))
            elif slot in copied and copied[slot] in arrays:
                places.append(Place(arrays[copied[slot]], Use.COPY))
            else:
                places.append(Place(arrays.get(slot, _NOTHING)))
        without_aliases(program, places[: len(program.params)], shared=False)


_NOTHING = np.empty(0)  # in the place of memory that nobody else has
