"""Adjoint launches on arrays in the memory of a GPU: gradients are added to arrays in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp.bind import values
from jwarp.compiler.derive import derive, rounding_as, switched_off
from jwarp.compiler.derived import Feed, Variant
from jwarp.compiler.program import GeneratedProgram, Program
from jwarp.compiler.write_conflicts import gatherable, is_alone, may_coincide, refuse_race, single_axes
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.host_arguments import refuse_tracing
from jwarp.dispatch.executables.host_arrays import refuse_shared
from jwarp.dispatch.executables.ready import Ready
from jwarp.dispatch.gpu import cuda_arrays
from jwarp.dispatch.gpu.device import Given, borrowed, contiguous, device_of, read_input, shadow
from jwarp.dispatch.gpu.device_launch import Placed, put
from jwarp.dispatch.gpu.device_memory import Work
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Argument, Fault
from jwarp.launching.descriptor import descriptor_of
from jwarp.types.arrays import Extents
from jwarp.wire import DTYPES, Role


class Adjoint(Ready):
    """The adjoint of a launch. Its arguments are looked at anew each time, as those of a launch."""

    def __call__(self) -> Any:
        return self.on_stream(None)

    def on_stream(self, stream: Any) -> Any:
        call = self.call
        program = generated(call.program)
        refuse_tracing(program, call.matched, "gradients on a GPU are")
        handle = cuda_arrays.read_stream(program.name, stream)
        _Run(call, program, handle).put(stream is None)
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
    """What was given by parameter: contents (None for an output that starts as zeros), cotangents, gradients."""

    contents: list[Given | None]
    extents: Extents
    cotangents: dict[int, Given]
    wanted: dict[int, Given]

    @property
    def all(self) -> list[Given]:
        return [g for g in (*self.contents, *self.cotangents.values(), *self.wanted.values()) if g is not None]


class _Run:
    """One adjoint on a stream."""

    def __init__(self, call: Call, program: GeneratedProgram, stream: int):
        self.arrays = given = _read(call, program, stream)
        self.stream, self.device, self.outputs = stream, device_of(program, given.all), call.matched.outputs
        self.program, self.geometry = program.arranged(call.dims, call.block_dim)
        if given.wanted and not call.differentiable:
            raise switched_off(program, next(iter(given.wanted)))
        refuse_race(self.program, self.geometry, given.extents)
        refuse_shared(program, [None if g is None else g.place.array for g in given.contents], self.outputs)
        self.block_dim = call.block_dim
        self.derived = derive(self.program, self._variant())
        self.work = Work(f"kernel '{program.name}'", stream, self.device, [g.lent for g in given.all], program.span)
        self.sums: list[tuple[int, np.ndarray]] = []  # what is added in the end to arrays of the caller

    def put(self, waits: bool) -> None:
        """Put all of it on the stream."""
        derived, program = self.derived, self.derived.program
        if derived.has_results:
            finals = self._finals() if any(feed.source.kind == "final" for feed in derived.feeds) else {}
            placed = [
                self._placed(feed, param, finals) for feed, param in zip(derived.feeds, program.params, strict=True)
            ]
            roles = tuple(feed.role for feed in derived.feeds)
            over = derived.covering(self.geometry, self.arrays.extents)
            put(descriptor_of(program, over, roles, self.block_dim), placed, self.stream, self.device, self.work.kept)
        for p in derived.same:
            cotangent, _, _ = contiguous(self.arrays.cotangents[p], self.work)
            assert isinstance(cotangent, int)
            self.sums.append((cotangent, self.arrays.wanted[p].place.array))
        for packed, array in self.sums:
            self.work.add(packed, array)
        if waits:
            self.work.wait()

    def _variant(self) -> Variant:
        given, params = self.arrays, self.program.params
        numbers = {
            p: int(np.frombuffer(g.placed[0], params[p].dtype.dtype)[0])
            for p, g in enumerate(given.contents)
            if g is not None and isinstance(g.placed[0], bytes) and g.place.array.dtype.kind in "iu"
            and not params[p].is_array
        }  # fmt: skip
        known = gatherable(self.program, self.geometry, given.extents, numbers)
        return Variant(
            "adjoint",
            tuple(given.wanted),
            tuple(given.cotangents),
            fresh=tuple(p for p in self.outputs if given.contents[p] is None),
            gathered=tuple(p for p in known if p in given.wanted),
            gatherable=known,
            repeated=may_coincide(self.program, self.geometry),
            alone=is_alone(self.program, self.geometry),
            single=single_axes(self.program, self.geometry),
            for_gpu=True,
        )

    def _finals(self) -> dict[int, Placed]:
        """What the launch leaves in its outputs: it runs once more, on copies."""
        exact, placed, roles = rounding_as(self.program, self.derived.sources), list[Placed](), []
        for p, param in enumerate(exact.params):
            roles.append(Role.IN_OUT if p in self.outputs else Role.READ)
            placed.append(self._copy(p, param) if p in self.outputs else self._content(p))
        for p in exact.shadowed:
            roles.append(Role.ZEROS)
            placed.append(shadow(exact, p, self.arrays.extents[p] or ()))
        put(descriptor_of(exact, self.geometry, tuple(roles), self.block_dim), placed, self.stream, self.device,
            self.work.kept)  # fmt: skip
        return {p: placed[p] for p in self.outputs}

    def _content(self, p: int) -> Placed:
        content = self.arrays.contents[p]
        assert content is not None
        return contiguous(content, self.work)

    def _copy(self, p: int, param: Param) -> Placed:
        """A copy of what a parameter starts as, which the launch may write to."""
        content, shape = self.arrays.contents[p], self.arrays.extents[p] or ()
        if content is None:
            return self.work.zeros(shape, param.dtype.dtype), DTYPES[param.dtype.name], shape
        return self.work.packed(content.place.array), *content.placed[1:]

    def _placed(self, feed: Feed, param: Param, finals: Mapping[int, Placed]) -> Placed:
        (kind, p), given = feed.source, self.arrays
        code = DTYPES[param.dtype.name]
        if kind == "dim":
            return np.int32(self.geometry.dims[p]).tobytes(), code, ()
        if kind == "final":
            return finals[p]
        if kind == "primal":
            return self._content(p) if feed.role is Role.READ else self._copy(p, param)
        if kind == "given":
            cotangent = given.cotangents[p]
            if feed.role is Role.READ:
                return contiguous(cotangent, self.work)
            address = self.work.packed(cotangent.place.array)
            if feed.result is not None:
                self.sums.append((address, given.wanted[feed.result].place.array))
            return address, *cotangent.placed[1:]
        extents = given.extents[p]
        shape = extents if extents is not None else (1,) if param.is_array else ()
        if feed.role is Role.READ:
            return self.work.zeros(shape, param.dtype.dtype), code, shape
        if feed.result is None:
            return None, code, shape
        address = self.work.memory(shape, param.dtype.dtype)
        self.sums.append((address, given.wanted[feed.result].place.array))
        return address, code, shape


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
