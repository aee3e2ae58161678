"""Adjoint launches on NumPy arrays: gradients are added to arrays in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jwarp.compiler.derive import derive, rounding_as
from jwarp.compiler.derived import DerivedLaunch, Feed, Variant
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.write_conflicts import depends_on_integers, gatherable, is_alone, may_coincide, single_axes
from jwarp.dispatch.executables.host_arrays import InPlace, Place, Use, refuse_shared
from jwarp.launching.geometry import BlockDim, Geometry
from jwarp.types.arrays import Extents
from jwarp.wire import Role


@dataclass(frozen=True)
class Need:
    """The array that a parameter of the adjoint's kernel is given, and what for.

    It is the `content` or the `cotangent` of a parameter of the launch, what the launch leaves in it (`final`),
    the gradient that is `wanted` of it, or an array of zeros that nobody else sees (`own`).
    """

    kind: str
    param: int
    use: Use
    shape: tuple[int, ...] = ()
    # Of a cotangent that is worked on: the parameter that what comes of it is the gradient of.
    result: int | None = None


class InPlaceAdjoint:
    """The adjoint of a launch on arrays, ready to be replayed.

    `contents` has one array for each parameter of `program`, None for an output that starts as zeros; none of
    them changes. `wanted` maps parameters to the arrays that their gradients are added to, `cotangents` outputs
    to theirs.

    Raises:
        NotDifferentiableError: there is no exact rule for a gradient that is wanted.
        LaunchError: as for `InPlace`, or an output of the launch shares its memory with an input.
    """

    def __init__(
        self,
        program: GeneratedProgram,
        geometry: Geometry,
        contents: Sequence[np.ndarray | None],
        extents: Extents,
        outputs: Sequence[int],
        wanted: Mapping[int, np.ndarray],
        cotangents: Mapping[int, np.ndarray],
        block_dim: BlockDim | None = None,
    ):
        self.program, self.outputs, self.geometry = program, outputs, geometry
        self.contents, self.extents, self.wanted, self.cotangents = contents, extents, wanted, cotangents
        refuse_shared(program, contents, outputs)
        derived = derive(program, self._variant())
        self.same = derived.same
        self.needs = self._needs(derived) if derived.has_results else ()
        self.forward: InPlace | None = None
        self.run: InPlace | None = None
        self._before: list[Callable[[], None]] = []
        self._after: list[Callable[[], None]] = []
        self._finals: dict[int, np.ndarray] = {}
        if any(need.kind == "final" for need in self.needs):
            exact = rounding_as(program, derived.sources)
            self.forward = InPlace(exact, geometry, [self._kept(p) for p in range(len(contents))], block_dim)
        if derived.has_results:
            params = derived.program.params
            places = [
                Place(self._array(need, param.dtype.dtype), need.use)
                for need, param in zip(self.needs, params, strict=True)
            ]
            self.run = InPlace(derived.program, derived.covering(geometry, extents), places, block_dim)
        for p in self.same:
            self._after.append(_adding(cotangents[p], wanted[p]))

    def __call__(self) -> None:
        """Add the gradients once more."""
        for step in self._before:
            step()
        if self.forward is not None:
            self.forward()
        if self.run is not None:
            self.run()
        for step in self._after:
            step()

    @property
    def depends_on_integers(self) -> bool:
        """Whether the adjoint may be another one for other values of scalars."""
        return depends_on_integers(self.program)

    def _variant(self) -> Variant:
        params, contents = self.program.params, self.contents
        numbers = {
            p: int(x)
            for p, x in enumerate(contents)
            if x is not None and not params[p].is_array and x.dtype.kind in "iu"
        }
        known = gatherable(self.program, self.geometry, self.extents, numbers)
        return Variant(
            "adjoint",
            tuple(self.wanted),
            tuple(self.cotangents),
            fresh=tuple(p for p in self.outputs if contents[p] is None),
            gathered=tuple(p for p in known if p in self.wanted),
            gatherable=known,
            repeated=may_coincide(self.program, self.geometry),
            alone=is_alone(self.program, self.geometry),
            single=single_axes(self.program, self.geometry),
        )

    def _needs(self, derived: DerivedLaunch) -> tuple[Need, ...]:
        is_arrays = (param.is_array for param in derived.program.params)
        return tuple(self._need(feed, is_array) for feed, is_array in zip(derived.feeds, is_arrays, strict=True))

    def _need(self, feed: Feed, is_array: bool) -> Need:
        kind, p = feed.source
        if kind in ("dim", "final"):
            return Need(kind, p, Use.READ)
        if kind in ("primal", "given"):
            kept = "content" if kind == "primal" else "cotangent"
            if feed.role is Role.READ:
                return Need(kept, p, Use.READ)
            if kind == "primal" or feed.result is None:
                return Need(kept, p, Use.COPY)
            # It becomes the gradient of the initial content, which goes to another array.
            return Need(kept, p, Use.IN_OUT, result=feed.result)
        extents = self.extents[p]
        shape = extents if extents is not None else (1,) if is_array else ()
        if feed.role is Role.READ:
            return Need("own", p, Use.READ, shape)
        if feed.result is None:
            return Need("own", p, Use.SCRATCH, shape)
        return Need("wanted", feed.result, Use.ADD, shape)

    def _array(self, need: Need, dtype: np.dtype) -> np.ndarray:
        p = need.param
        if need.kind == "content":
            content = self.contents[p]
            assert content is not None
            return content
        if need.kind == "cotangent" and need.result is not None:
            work = np.empty_like(self.cotangents[p])
            self._before.append(_copying(self.cotangents[p], work))
            self._after.append(_adding(work, self.wanted[need.result]))
            return work
        if need.kind == "cotangent":
            return self.cotangents[p]
        if need.kind == "final":
            return self._finals[p]
        if need.kind == "wanted":
            return self.wanted[p].reshape(need.shape)
        return np.asarray(self.geometry.dims[p], np.int32) if need.kind == "dim" else np.zeros(need.shape, dtype)

    def _kept(self, p: int) -> Place:
        """The array of a parameter of the launch itself, which is run before each replay."""
        content = self.contents[p]
        if p not in self.outputs:
            assert content is not None
            return Place(content)
        self._finals[p] = np.empty(self.extents[p] or (), self.program.dtypes[p])
        self._before.append(_copying(content, self._finals[p]))
        return Place(self._finals[p], Use.IN_OUT)


def _copying(source: np.ndarray | None, target: np.ndarray) -> Callable[[], None]:
    return lambda: target.fill(0) if source is None else np.copyto(target, source)


def _adding(source: np.ndarray, target: np.ndarray) -> Callable[[], None]:
    return lambda: np.add(target, source, out=target, casting="unsafe")
