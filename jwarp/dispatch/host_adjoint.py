"""Adjoint launches on NumPy arrays: gradients are added to arrays in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jwarp.analysis.affine import Extents
from jwarp.dispatch.host_arrays import InPlace, Place, Use, refuse_shared
from jwarp.launching.arguments import Role
from jwarp.launching.derive import Feed, Variant, derive, gatherable
from jwarp.launching.descriptor import Program
from jwarp.launching.geometry import Geometry


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
        program: Program,
        geometry: Geometry,
        contents: Sequence[np.ndarray | None],
        extents: Extents,
        outputs: Sequence[int],
        wanted: Mapping[int, np.ndarray],
        cotangents: Mapping[int, np.ndarray],
        block_dim: int | None = None,
    ):
        self.contents, self.extents, self.wanted, self.cotangents = contents, extents, wanted, cotangents
        params = program.params
        refuse_shared(program, contents, outputs)
        self._before: list[Callable[[], None]] = []
        self._after: list[Callable[[], None]] = []
        repeated = geometry.may_repeat
        numbers = {
            p: int(x)
            for p, x in enumerate(contents)
            if x is not None and not params[p].is_array and x.dtype.kind in "iu"
        }
        known = gatherable(program, geometry, extents, numbers)
        variant = Variant(
            "adjoint",
            tuple(wanted),
            tuple(cotangents),
            fresh=tuple(p for p in outputs if contents[p] is None),
            gathered=tuple(p for p in known if p in wanted),
            gatherable=known,
            repeated=repeated,
        )
        derived = derive(program, variant)
        self.finals = self._forward(program, geometry, outputs, block_dim) if _reads_finals(derived.feeds) else {}
        places = [self._place(feed, k, derived.program, geometry) for k, feed in enumerate(derived.feeds)]
        self.run: Callable[[], None] | None = None
        if derived.has_results:
            self.run = InPlace(derived.program, derived.covering(geometry, extents), places, block_dim)
        for p in derived.same:
            self._after.append(_adding(cotangents[p], wanted[p]))

    def __call__(self) -> None:
        """Add the gradients once more."""
        for step in self._before:
            step()
        if self.run is not None:
            self.run()
        for step in self._after:
            step()

    def _forward(
        self, program: Program, geometry: Geometry, outputs: Sequence[int], block_dim: int | None
    ) -> dict[int, np.ndarray]:
        """What the launch leaves in its outputs, computed before each replay."""
        finals, places = {}, []
        for p, content in enumerate(self.contents):
            if p in outputs:
                finals[p] = np.empty(self.extents[p] or (), program.dtypes[p])
                self._before.append(_copying(content, finals[p]))
                places.append(Place(finals[p], Use.IN_OUT))
            else:
                assert content is not None
                places.append(Place(content))
        self._before.append(InPlace(program, geometry, places, block_dim))
        return finals

    def _place(self, feed: Feed, k: int, program: Program, geometry: Geometry) -> Place:
        """The array for parameter `k` of the adjoint's kernel."""
        kind, p = feed.source
        param = program.params[k]
        if kind == "dim":
            return Place(np.asarray(geometry.dims[p], np.int32))
        if kind == "final":
            return Place(self.finals[p])
        if kind == "primal":
            content = self.contents[p]
            assert content is not None
            return Place(content, Use.READ if feed.role is Role.READ else Use.COPY)
        if kind == "given":
            if feed.role is Role.READ:
                return Place(self.cotangents[p])
            if feed.result is None:
                return Place(self.cotangents[p], Use.COPY)
            # It becomes the gradient of the initial content, which goes to another array.
            work = np.empty_like(self.cotangents[p])
            self._before.append(_copying(self.cotangents[p], work))
            self._after.append(_adding(work, self.wanted[feed.result]))
            return Place(work, Use.IN_OUT)
        extents = self.extents[p]
        shape = extents if extents is not None else (1,) if param.is_array else ()
        if feed.role is Role.READ:
            return Place(np.zeros(shape, param.dtype.dtype))
        if feed.result is None:
            return Place(np.empty(shape, param.dtype.dtype), Use.SCRATCH)
        return Place(self.wanted[feed.result].reshape(shape), Use.ADD)


def _reads_finals(feeds: Sequence[Feed]) -> bool:
    return any(feed.source.kind == "final" for feed in feeds)


def _copying(source: np.ndarray | None, target: np.ndarray) -> Callable[[], None]:
    return lambda: target.fill(0) if source is None else np.copyto(target, source)


def _adding(source: np.ndarray, target: np.ndarray) -> Callable[[], None]:
    return lambda: np.add(target, source, out=target, casting="unsafe")
