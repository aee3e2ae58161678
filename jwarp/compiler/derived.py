"""Derivatives of launches as data: which one is meant, and the launch that computes it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from jwarp.compiler.program import GeneratedProgram
from jwarp.ir import nodes
from jwarp.launching.geometry import Geometry
from jwarp.launching.steps import Slot
from jwarp.types.arrays import Extents
from jwarp.wire import Role


@dataclass(frozen=True)
class Variant:
    """A derivative of a kernel. All numbers are parameters of the kernel itself.

    `given` are what v or w is for, `along` what u is for, and `wanted` the results. Parameters `shared` are
    the same for a whole batch, so that their gradients are summed over it, `fresh` start as zeros, the
    gradients of `gathered`, some of those that are `gatherable`, are stored by element, and `repeated` says
    that several threads have the same coordinates, `alone` that a launch has one thread, and
    `single` along which axes it has one. With `for_gpu` a GPU
    may run it: what needs a tape then has a second form that needs none.
    """

    kind: str
    wanted: tuple[int, ...]
    given: tuple[int, ...]
    along: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()
    fresh: tuple[int, ...] = ()
    gathered: tuple[int, ...] = ()
    gatherable: tuple[int, ...] = ()
    repeated: bool = False
    alone: bool = False
    single: tuple[int, ...] = ()
    for_gpu: bool = False

    def __repr__(self) -> str:
        """Short, as it is shown with each derivative of a jaxpr."""
        inputs = " ".join(map(str, self.given)) + (f" along {' '.join(map(str, self.along))}" if self.along else "")
        return f"{self.kind}({inputs} -> {' '.join(map(str, self.wanted))})"

    @property
    def is_adjoint(self) -> bool:
        return self.kind.startswith("adjoint")

    def describe(self, kernel: nodes.Kernel) -> str:
        """The name of the variant in compile events."""

        def names(numbers: tuple[int, ...]) -> str:
            return ", ".join(kernel.params[p].name for p in numbers)

        first = f"adjoint({names(self.wanted)})" if self.is_adjoint else f"tangent({names(self.given)})"
        return f"tangent({names(self.along)}) of {first}" if self.along else first


# What a parameter is given: a slot `primal`, `final`, `given` or `along`, `zeros`, or `dim`: an extent of the original
# launch, where the derived one has more threads.
Source = Slot


@dataclass(frozen=True)
class Feed:
    """One parameter of a derived kernel: its source, its role, and what its final content is the result for.

    The kernel only adds to one that is a `sum`, so a whole batch may share it.
    """

    source: Source
    role: Role
    result: int | None
    is_sum: bool


@dataclass(frozen=True)
class DerivedLaunch:
    """A program and its feeds. To those of `wanted` in `same` what was given for them is added, as nothing changes it.

    `gathered` has arrays and the launch axis of each of their indices: the launch covers their elements.
    """

    program: GeneratedProgram
    feeds: tuple[Feed, ...]
    same: frozenset[int]
    gathered: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources of the launch's operands, without zeros."""
        return tuple(dict.fromkeys(feed.source for feed in self.feeds if feed.source.kind not in ("zeros", "dim")))

    @property
    def has_results(self) -> bool:
        """True if its kernel computes anything."""
        return any(feed.result is not None for feed in self.feeds)

    def covering(self, geometry: Geometry, extents: Extents) -> Geometry:
        """The geometry with as many threads as the arrays that are gathered have elements."""
        dims = list(geometry.dims)
        for p, axes in self.gathered:
            for axis, extent in zip(axes, extents[p] or (), strict=False):
                dims[axis] = max(dims[axis], extent)
        return dataclasses.replace(geometry, dims=tuple(dims))
