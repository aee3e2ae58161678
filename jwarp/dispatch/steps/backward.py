"""The way back through a launch that changed arrays in place: its adjoint, in place on their cotangents."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from jwarp import _native
from jwarp.caches import MAX_SHAPES, PerOwner
from jwarp.compiler.cpu import lower_kernel
from jwarp.compiler.derive import derive, in_known_order, rounding_as
from jwarp.compiler.derived import DerivedLaunch, Feed, Variant
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.write_conflicts import (
    depends_on_integers,
    gatherable,
    is_alone,
    may_coincide,
    refuse_race,
    single_axes,
)
from jwarp.dispatch.steps.scratch import Scratch
from jwarp.ir.nodes import Param
from jwarp.launching.descriptor import Descriptor, descriptor_of, extents_of
from jwarp.launching.geometry import BlockDim, Geometry
from jwarp.types.arrays import Extents
from jwarp.wire import Role

# By parameter, None for one that is not needed.
Arrays = Sequence[np.ndarray | None]


@dataclass(frozen=True)
class Launched:
    """A launch that was run: the arrays of its parameters have `extents`, None for numbers.

    The cotangents of the parameters `moving` are followed. Its integer arguments are in `integers` where the adjoint
    may be another one for other values.
    """

    geometry: Geometry
    block_dim: BlockDim | None
    extents: Extents
    moving: tuple[int, ...]
    integers: tuple[tuple[int, int], ...] = ()


_REVERSALS: PerOwner[GeneratedProgram, tuple[Launched, bool], Reversal] = PerOwner(
    "ways back through a launch", MAX_SHAPES
)


def reversal(
    program: GeneratedProgram,
    geometry: Geometry,
    block_dim: BlockDim | None,
    extents: Extents,
    moving: tuple[int, ...],
    contents: Arrays,
    make: type[Reversal],
) -> Reversal:
    """The way back through a launch, on the host or on a GPU as `make` says; made once for launches that are alike.

    Of `contents`, integer arguments are looked at.

    Raises:
        NotDifferentiableError: there is no exact rule on a path from one of `moving` to another one.
    """
    integers: tuple[tuple[int, int], ...] = ()
    if depends_on_integers(program):
        params = program.params
        integers = tuple(
            (p, int(x))
            for p, x in enumerate(contents)
            if x is not None and not params[p].is_array and x.dtype.kind in "iu"
        )
    launched = Launched(geometry, block_dim, extents, moving, integers)
    return _REVERSALS.of(program).made((launched, make.for_gpu), lambda: make(program, launched))


@dataclass
class _Given:
    """What one way back is given, and what it keeps on the way."""

    contents: Arrays
    cotangents: Arrays
    finals: dict[int, np.ndarray] = field(default_factory=dict)

    def content(self, p: int) -> np.ndarray:
        return _there(self.contents[p])

    def cotangent(self, p: int) -> np.ndarray:
        return _there(self.cotangents[p])

    def work(self, p: int) -> np.ndarray:
        """A copy of a content, which the launch itself runs on once more."""
        self.finals[p] = self.copy(self.content(p))
        return self.finals[p]

    def copy(self, array: np.ndarray) -> np.ndarray:
        """A copy for the launch to work on."""
        return array.copy()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array for the launch to write to."""
        return np.empty(shape, dtype)


@dataclass
class _Bound(_Given):
    """The same for steps that run later: copies are steps, too, and what is written to is scratch memory."""

    scratch: Scratch = field(default_factory=Scratch)
    steps: list[Any] = field(default_factory=list)

    def copy(self, array: np.ndarray) -> np.ndarray:
        made = self.scratch.empty(array.shape, array.dtype)
        self.steps.append((made, array))
        return made

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return self.scratch.empty(shape, dtype)


Make = Callable[[_Given], np.ndarray]


class _Step(NamedTuple):
    """A launch of the native module, what makes its arrays, and which of these are added to which cotangents."""

    run: _Launch
    makes: tuple[Make, ...]
    added: tuple[tuple[int, int], ...] = ()


class _Launch:
    """A launch of the native module, on any arrays of its shapes."""

    def __init__(self, program: GeneratedProgram, launch: Descriptor):
        kernel = lower_kernel(program.kernel, program.settings)
        self._code = kernel.fingerprint, kernel.program, launch.numbers
        self._wiring = launch.operands, launch.results
        self.run = _native.HostLaunch(*self._code, *self._wiring)

    def bound(self, arrays: list[np.ndarray]) -> _native.BoundHostLaunch:
        """The launch on these arrays."""
        return _native.BoundHostLaunch(*self._code, arrays, *self._wiring)


class Reversal:
    """Takes the cotangents of what a launch left to those of what it started from.

    Those of the arrays that it wrote to become others, and those of arrays that it only read are added to: then they
    are what they would be without the launch, and before it. `program` is what the launch runs, so that both agree on
    the order of threads that count. `reads` are the parameters whose content before the launch it needs.

    Raises:
        NotDifferentiableError: there is no exact rule for an operation, or two threads store to one element.
    """

    for_gpu = False

    def __init__(self, program: GeneratedProgram, launched: Launched):
        geometry, extents, moving = launched.geometry, launched.extents, launched.moving
        self.launched = launched
        refuse_race(program, geometry, extents)
        known = gatherable(program, geometry, extents, dict(launched.integers))
        self.written = tuple(p for p in program.written if p in moving)
        variant = Variant(
            "adjoint",
            moving,
            self.written,
            gathered=tuple(p for p in known if p in moving),
            gatherable=known,
            repeated=may_coincide(program, geometry) if self.for_gpu else geometry.may_repeat,
            alone=is_alone(program, geometry),
            single=single_axes(program, geometry),
            for_gpu=self.for_gpu,
        )
        self.derived: DerivedLaunch | None = None
        self.finals = False
        if self.written:
            program = in_known_order(program, [variant])
            derived = derive(program, variant)
            self.finals = any(source.kind == "final" for source in derived.sources)
            self.derived = derived if derived.has_results else None
        self.program = rounding_as(program, self.derived.sources) if self.derived else program
        self.reads = frozenset(self._reads())

    def _reads(self) -> list[int]:
        if self.derived is None:
            return []
        if self.finals:
            return list(range(len(self.program.params)))
        return [source.param for source in self.derived.sources if source.kind == "primal"]

    def __call__(self, contents: Arrays, cotangents: Arrays) -> None:
        """Go back through the launch.

        Args:
            contents: The arrays of `reads` as the launch found them. They do not change.
            cotangents: Those of `moving`, which change in place.
        """
        given = _Given(contents, cotangents)
        for step in self._steps:
            arrays = [make(given) for make in step.makes]
            step.run.run(arrays)
            for k, p in step.added:
                into = given.cotangent(p)
                np.add(into, arrays[k].reshape(into.shape), out=into, casting="unsafe")

    def steps(self, contents: Arrays, cotangents: Arrays, scratch: Scratch) -> list[Any] | None:
        """The native steps that do the same each time that they run; None where there are none."""
        given = _Bound(contents, cotangents, scratch=scratch)
        for step in self._steps:
            arrays = [make(given) for make in step.makes]
            given.steps.append(step.run.bound(arrays))
            for k, p in step.added:  # one after the other, as gradients may overlap
                into = given.cotangent(p)
                if into.dtype != arrays[k].dtype:
                    return None
                given.steps.append((into, arrays[k].reshape(into.shape), "add"))
        return given.steps

    @functools.cached_property
    def _steps(self) -> tuple[_Step, ...]:
        """Compiled when the first cotangent comes by."""
        derived, launched = self.derived, self.launched
        if derived is None:
            return ()
        params = derived.program.params
        found = [self._feed(feed, param) for feed, param in zip(derived.feeds, params, strict=True)]
        shapes = [self.shape_of(feed, param) for feed, param in zip(derived.feeds, params, strict=True)]
        over, roles = derived.covering(launched.geometry, launched.extents), [feed.role for feed in derived.feeds]
        last = _Step(
            _compiled(derived.program, over, roles, shapes, None),
            tuple(make for make, _ in found),
            tuple((k, p) for k, (_, p) in enumerate(found) if p is not None),
        )
        return (self._again(), last) if self.finals else (last,)

    def _again(self) -> _Step:
        """The launch once more, on copies of what it writes to, as the adjoint looks at what it left."""
        program, launched = self.program, self.launched
        roles = [Role.IN_OUT if p in program.written else Role.READ for p in range(len(program.params))]
        makes = [_work(p) if role is Role.IN_OUT else _content(p) for p, role in enumerate(roles)]
        shapes = [extents or () for extents in launched.extents]
        return _Step(_compiled(program, launched.geometry, roles, shapes, launched.block_dim), tuple(makes))

    def shape_of(self, feed: Feed, param: Param) -> tuple[int, ...]:
        """The shape of a parameter of the adjoint."""
        if feed.source.kind == "dim":
            return ()
        extents = self.launched.extents[feed.source.param]
        # The gradient of a number is an array of one element.
        return extents if extents is not None else (1,) if param.is_array else ()

    def _feed(self, feed: Feed, param: Param) -> tuple[Make, int | None]:
        """What makes the array of a parameter of the adjoint, and the parameter whose cotangent it is added to."""
        (kind, p), is_read = feed.source, feed.role is Role.READ
        dtype, shape = param.dtype.dtype, self.shape_of(feed, param)
        if kind == "final":
            return (lambda given: given.finals[p]), None
        if kind == "primal":
            return (_content(p) if is_read else lambda given: given.copy(given.content(p))), None
        if kind == "given":
            # One that the kernel works on becomes that of the initial content, or is of no further use to it.
            in_place = is_read or feed.result is not None
            return (lambda given: given.cotangent(p) if in_place else given.copy(given.cotangent(p))), None
        if not is_read:
            return (lambda given: given.empty(shape, dtype)), feed.result
        fixed = np.asarray(self.launched.geometry.dims[p], dtype) if kind == "dim" else np.zeros(shape, dtype)
        return (lambda _: fixed), None


def _content(p: int) -> Make:
    return lambda given: given.content(p)


def _work(p: int) -> Make:
    return lambda given: given.work(p)


def _there(array: np.ndarray | None) -> np.ndarray:
    assert array is not None
    return array


def _compiled(
    program: GeneratedProgram,
    geometry: Geometry,
    roles: Sequence[Role],
    shapes: Sequence[tuple[int, ...]],
    block_dim: BlockDim | None,
) -> _Launch:
    launch = descriptor_of(program, geometry, tuple(roles), block_dim)
    kernel = lower_kernel(program.kernel, program.settings)
    kernel.require(geometry.dims, extents_of(program.kernel.params, shapes))
    return _Launch(program, launch)
