"""Adjoint launches on arrays of a GPU: gradients are added to arrays in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from jwarp.arrays import cuda_arrays
from jwarp.arrays.cuda_arrays import Borrowed
from jwarp.autodiff.custom_gradients import changed_by_gradients
from jwarp.bind import values
from jwarp.compiler.derivative_steps import adjoint_steps, integers_of
from jwarp.compiler.derive import switched_off
from jwarp.compiler.program import GeneratedProgram, Program
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.checks import refuse_tracing
from jwarp.dispatch.executables.device import Given, borrowed, read_input
from jwarp.dispatch.executables.host import refuse_shared
from jwarp.dispatch.executables.table import Ready
from jwarp.dispatch.steps.device_executor import DeviceSteps
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Argument, Fault
from jwarp.launching.steps import Slot
from jwarp.types.arrays import Extents


class Adjoint(Ready):
    """The adjoint of a launch. Its arguments are read each time, as those of a launch."""

    def __call__(self) -> Any:
        return self.on_stream(None)

    def on_stream(self, stream: Any) -> Any:
        call = self.call
        program = generated(call.program)
        refuse_tracing(program, call.matched, "gradients on a GPU are")
        handle = cuda_arrays.read_stream(program.name, stream)
        _put(call, program, handle, waits=stream is None)
        return call.results(dict(call.gradients.wanted))


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


@dataclass(frozen=True)
class _Arrays:
    """The arguments by parameter: contents (None for an output that starts as zeros), cotangents, gradients."""

    contents: list[Given | None]
    extents: Extents
    cotangents: dict[int, Given]
    wanted: dict[int, Given]

    @property
    def by_slot(self) -> dict[Slot, Given]:
        """The arguments by slot of the steps."""
        found = {Slot("primal", p): x for p, x in enumerate(self.contents) if x is not None}
        found |= {Slot("given", p): x for p, x in self.cotangents.items()}
        return found | {Slot("gradient", p): x for p, x in self.wanted.items()}


def _put(call: Call, program: GeneratedProgram, stream: int, *, waits: bool) -> None:
    """Put an adjoint on a stream."""
    given = _read(call, program, stream)
    outputs, block_dim = call.matched.outputs, call.block_dim
    arranged, geometry = program.arranged(call.dims, block_dim)
    if given.wanted and not call.differentiable:
        raise switched_off(program, next(iter(given.wanted)))
    contents = [None if g is None else g.place.array for g in given.contents]
    changed = tuple(
        p
        for p in sorted(changed_by_gradients(arranged.differentiated))
        if (g := given.contents[p]) is not None and g.owner is not None and g.place.array.flags.writeable
    )
    refuse_shared(program, contents, outputs, changed)
    fresh = tuple(p for p in outputs if given.contents[p] is None)
    # Of a number in the memory of a GPU nobody knows the value.
    numbers = [None if g is None or g.owner is not None else g.place.array for g in given.contents]
    steps = adjoint_steps(
        arranged, geometry, given.extents, given.wanted, given.cotangents, outputs, block_dim,
        integers=integers_of(arranged, numbers), fresh=fresh, changed=changed, for_gpu=True,
    )  # fmt: skip
    slots = given.by_slot
    arrays = [x.place.array if x.owner is None else Borrowed(x.owner, x.place.array) for x in slots.values()]
    run = DeviceSteps(program, steps.steps, {slot: k for k, slot in enumerate(slots)})
    run(arrays, stream, waits=waits)


def _read(call: Call, program: GeneratedProgram, stream: int) -> _Arrays:
    faults: list[Fault] = []
    contents: list[Given | None] = []
    extents: list[tuple[int, ...] | None] = []
    for p, (param, value) in enumerate(zip(program.params, call.matched.values, strict=True)):
        if p in call.matched.outputs and not cuda_arrays.is_cuda_array(value) and not isinstance(value, jax.Array):
            shape = arguments.read_output(param, value, values.describe(value, param), x64=True)
            if isinstance(shape, tuple):
                extents.append(shape)
                contents.append(None)
            elif isinstance(shape, Fault):
                faults.append(shape)
            continue
        found = read_input(param, value, stream)
        if isinstance(found, Fault):
            faults.append(found)
            continue
        contents.append(found)
        extents.append(found.placed[2] if param.is_array else None)
    arguments.raise_faults(program.name, faults)
    request = call.gradients
    cotangents = {p: _gradient(program.params[p], extents[p] or (), x, stream, changes=False)
                  for p, x in (request.cotangents or {}).items() if x is not None}  # fmt: skip
    wanted = {p: _gradient(program.params[p], extents[p] or (), x, stream, changes=True)
              for p, x in request.wanted.items()}  # fmt: skip
    arguments.raise_faults(program.name, [x for x in (*cotangents.values(), *wanted.values()) if isinstance(x, Fault)])
    return _Arrays(
        contents, tuple(extents),
        {p: x for p, x in cotangents.items() if isinstance(x, Given)},
        {p: x for p, x in wanted.items() if isinstance(x, Given)},
    )  # fmt: skip


def _gradient(param: Param, shape: tuple[int, ...], value: Any, stream: int, *, changes: bool) -> Given | Fault:
    where = f"adjoint of '{param.name}'"
    if not cuda_arrays.is_cuda_array(value) or (changes and isinstance(value, jax.Array)):
        return Fault(
            LaunchError,
            f"{where}: must be an array on the GPU that the others are on, got {type(value).__name__}",
            "pass an array of the same library" + (", to which the gradient is added" if changes else ""),
        )
    found = borrowed(where, value, stream)
    if isinstance(found, Fault):
        return found
    described = Argument(found.outline, "cuda", found.outline.shape, found.outline.dtype)
    fault = arguments.check_gradient(where, param, shape, described)
    if fault is not None:
        return fault
    if changes and not found.outline.flags.writeable:
        return Fault(LaunchError, f"{where}: the array is read-only", "pass one that may be written")
    return Given.of(param, found, changes=changes)
