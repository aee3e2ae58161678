"""Derivatives of launches as data: the one that is meant, the launch that computes it, and its entry on disk."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jwarp.compiler.derivation_cache import DerivationCache
from jwarp.compiler.program import GeneratedProgram
from jwarp.errors import NotDifferentiableError, Span
from jwarp.ir import nodes
from jwarp.ir.printing import short_file
from jwarp.ir.serialize import from_entry, known, to_entry
from jwarp.launching.geometry import Geometry
from jwarp.launching.steps import Slot
from jwarp.types.arrays import Extents
from jwarp.wire import Role


@dataclass(frozen=True)
class Variant:
    """A derivative of a kernel. All numbers are parameters of the kernel itself.

    `given` are what v or w is for, `along` what u is for, and `wanted` the results. Parameters `shared` are
    the same for a whole batch, so that their gradients are summed over it, `fresh` start as zeros, the
    gradients of `gathered`, some of those that are `gatherable`, are stored by element, those of `exceeded` by
    fewer threads than the launch that gathers them has, and `repeated` says that several threads have the same
    coordinates, `alone` that a launch has one thread, and `single` along which axes it has one. With `for_gpu` a GPU
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
    exceeded: tuple[int, ...] = ()
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


# The source of a parameter: a slot `primal`, `final`, `given` or `along`, `zeros`, or `dim`: an extent of the original
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


Refusal = NotDifferentiableError


def write_entry(derived: DerivedLaunch | Refusal) -> bytes | None:
    """A line that says how to launch it, then the kernels; None where a kernel has no entry."""
    if isinstance(derived, Refusal):
        return json.dumps({"refusal": _written(derived)}).encode()
    program, on_gpu = derived.program, derived.program.on_gpu
    kernels = [program.kernel, *([] if on_gpu is None or on_gpu is program.kernel else [on_gpu])]
    entries = [to_entry(known(kernel)) for kernel in kernels]
    head = {
        "sizes": [len(entry or b"") for entry in entries],
        "feeds": [[*feed.source, feed.role, feed.result, feed.is_sum] for feed in derived.feeds],
        "same": sorted(derived.same),
        "gathered": derived.gathered,
    }
    return json.dumps(head).encode() + b"\n" + b"".join(e for e in entries if e) if all(entries) else None


def read_entry(entry: bytes, of: GeneratedProgram, cache: DerivationCache) -> DerivedLaunch | Refusal:
    """Read back what `write_entry` wrote for a derivative of a program, whose own cache is given."""
    header, _, content = entry.partition(b"\n")
    head: dict[str, Any] = json.loads(header)
    paths = dict(cache.files)
    if "refusal" in head:
        return _refusal(head["refusal"], paths)
    size = head["sizes"][0]
    other = from_entry(content[size:], paths) if head["sizes"][1:] else None
    kernel = from_entry(content[:size], paths)
    program = of.of_derived(kernel, on_gpu=other, cache=cache)
    feeds = (Feed(Source(kind, p), Role(role), result, is_sum) for kind, p, role, result, is_sum in head["feeds"])
    gathered = ((p, tuple(axes)) for p, axes in head["gathered"])
    return DerivedLaunch(program, tuple(feeds), frozenset(head["same"]), tuple(gathered))


def _written(error: Refusal) -> list[Any]:
    written = error.diagnostic
    span = written.span
    return [written.message, written.hint, short_file(span), span.file, span.line, span.col, span.end_col]


def _refusal(written: list[Any], paths: Mapping[str, str]) -> Refusal:
    message, hint, name, path, *place = written
    return Refusal(message, Span(paths.get(name, path), *place), hint)
