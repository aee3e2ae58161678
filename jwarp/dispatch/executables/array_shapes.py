"""Launches on arrays that are new, of shapes that are not: what the first one checked holds for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from jwarp import _native
from jwarp.arrays.array import array
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.struct_array import StructArray
from jwarp.bind import compat
from jwarp.compiler.program import Program
from jwarp.config import config
from jwarp.dispatch.call.held import held
from jwarp.dispatch.executables import eager
from jwarp.dispatch.executables.host import Forward
from jwarp.dispatch.executables.host_arrays import Use
from jwarp.dispatch.executables.ready import Ready
from jwarp.frontend import options
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.nodes import Param
from jwarp.types import CompositeValue, Geometry, Struct
from jwarp.types.handles import Id

Convert = Callable[[Any], Any]

# The key under which a kernel keeps the launches that the native module repeats.
LAUNCHES = "launches"

# The types of NumPy's numbers.
NUMPY_NUMBERS = frozenset(
    {np.float32, np.float64, np.float16, *(np.dtype(f"{sign}{size}").type for sign in "iu" for size in (1, 2, 4, 8))}
)


class Shaped:
    """A launch, ready for any arrays of the shapes that it was made for, and any numbers of the same types.

    Attributes:
        program: What it runs.
        template: What all commands of such launches have in common.
        way: The way back through such launches, once somebody has asked for it.
    """

    __slots__ = ("__weakref__", "_converts", "_native", "_written", "changes", "program", "settings", "template", "way")

    def __init__(self, program: Program, template: dict[str, Any]):
        self.program, self.template = program, template
        self.settings, self.changes = config.settings, options.changes
        self.way: Any = None
        self._native: _native.HostLaunch | None = None
        self._converts: Sequence[tuple[int, Convert]] = ()
        self._written: Sequence[int] = program.written

    def learn(self, leaves: Sequence[Any], made: Ready) -> None:
        """Do from now on what a launch does that is `made`, if that may be repeated."""
        if type(made) is not Forward or len(made.run.places) != len(leaves):
            return
        run = made.run
        if run.program.shadowed or any(place.use not in (Use.READ, Use.IN_OUT) for place in run.places):
            return
        converts: list[tuple[int, Convert]] = []
        for p, (param, place, value) in enumerate(zip(run.program.params, run.places, leaves, strict=True)):
            if type(value) is array:
                continue
            if param.is_array and value is not None:  # of a grid, tree or mesh
                continue
            convert = converter(param, value) if value is not None else _always(place.array)
            if convert is None:
                return
            converts.append((p, convert))
        self._native, self._converts = run.one_call(), tuple(converts)

    def share(self, kernel: Kernel, dim: Any, block_dim: Any, inputs: Any, outputs: Any, made: Ready | None) -> None:
        """Let the native module repeat it for such calls of a kernel; `made` is what it has learnt from."""
        if self._native is not None and type(made) is Forward:
            table = kernel.plans.made(LAUNCHES, _native.ArrayLaunches)
            arrays, written = [place.array for place in made.run.places], self._written
            like = self.settings, self.changes
            table.add(dim, block_dim, inputs, outputs, self._native, arrays, written, *like, self)

    @property
    def holds(self) -> bool:
        """Whether it is still what such a launch does."""
        return self.settings is config.settings and self.changes == options.changes

    def run(self, leaves: Sequence[Any]) -> bool:
        """Run it; False where a closer look is needed, and then nothing has run."""
        if self._native is None:
            return False
        arrays = [x.host() if type(x) is array else x for x in leaves]
        for p, convert in self._converts:
            made = convert(arrays[p])
            if made is None:
                return False
            arrays[p] = np.asarray(made)
        for p in self._written:
            written = leaves[p]
            if written is not None:
                memory = written.memory
                if memory.is_watched:
                    memory.will_write()
        self._native(arrays)
        return True


def read(dim: Any, block_dim: Any, values: Sequence[Any]) -> tuple[Hashable | None, list[Any]]:
    """What must be alike for a launch to be repeated on other arrays, and what it is given, structs taken apart.

    Where a closer look is needed there is no key. It tells arrays apart that share memory in other ways.
    """
    if type(dim) is not int:
        dim = tuple(dim) if type(dim) is list else dim
        if not (type(dim) is tuple and all(type(n) is int for n in dim)):
            return None, []
    parts: list[Any] = ["shapes", dim, block_dim]
    leaves: list[Any] = []
    memories: list[HostMemory] = []
    spans: list[tuple[int, int]] = []
    if not (block_dim is None or type(block_dim) is int) or not _read(values, parts, leaves, memories, spans):
        return None, leaves
    is_exposed = True in [memory.is_exposed for memory in memories]
    if is_exposed or len(set(memories)) < len(memories):
        parts.append(_sharing([x for x in leaves if type(x) is array], spans))
    return tuple(parts), leaves


def _read(
    values: Sequence[Any],
    parts: list[Any],
    leaves: list[Any],
    memories: list[HostMemory],
    spans: list[tuple[int, int]],
) -> bool:
    for value in values:
        kind = type(value)
        if kind is array:
            memory = getattr(value, "memory", None)
            if type(memory) is not HostMemory:
                return False
            # What is no type's own is taken for others, too. It is in memory of others, of which this alone tells.
            parts.append((value.layout.kind,) if value.is_untyped else value.layout.kind)
            memories.append(memory)
            leaves.append(value)
        elif kind is float or kind is int or kind is bool or value is None or kind in NUMPY_NUMBERS:
            parts.append(kind)
            leaves.append(value)
        elif kind is np.ndarray or kind is compat.Array:
            return False
        elif kind is CompositeValue:
            parts += value.kind, value.dtype, value.shape
            leaves.append(value)
        elif kind is Id or isinstance(value, Geometry):
            found = held(value)
            if found is None or not _read(found.arrays, parts, [], memories, spans):
                return False
            spans += found.spans
            parts.append(found.kind)
            leaves += found.leaves
        elif kind is StructArray:
            parts.append(value.dtype)
            if not _read(list(value.leaves()), parts, leaves, memories, spans):
                return False
        elif isinstance(value, Struct):
            parts.append(kind)
            given = [getattr(value, name) for name in kind.fields]
            if kind.table_of is not None and array not in map(type, given):  # whose arrays nobody else has
                parts += [(x.shape, x.dtype) for x in given]
                leaves += given
            elif not _read(given, parts, leaves, memories, spans):
                return False
        else:
            return False
    return True


def _sharing(arrays: Sequence[array], of_geometry: Sequence[tuple[int, int]]) -> tuple[Any, ...]:
    """How arrays share memory: the distance of each two whose bytes overlap, and which are read-only.

    What grids, trees and meshes have is in the memory `of_geometry`.
    """
    found: list[Any] = []
    spans = [(low, high, low) for low, high in of_geometry]
    for k, a in enumerate(arrays):
        memory = a.memory
        assert isinstance(memory, HostMemory)
        low, high = a.layout.bounds
        low, high, first = memory.start + low, memory.start + high, memory.start + a.layout.offset
        for j, (other_low, other_high, other) in enumerate(spans):
            if low < other_high and other_low < high:
                found.append((j, k, first - other))
        spans.append((low, high, first))
        if not memory.buffer.flags.writeable:
            found.append(k)
    return tuple(found)


def known(kernel: Kernel, key: Hashable | None) -> Shaped | None:
    """The launch of a key, if one has been kept."""
    found = None if key is None else kernel.plans.get(key)
    if (
        found is not None and found.template["kernel"] is not kernel
    ):  # for grids, trees and meshes, with plans of its own
        found = found.template["kernel"].plans.get(key)
    return found if found is not None and found.holds else None


def _always(given: np.ndarray) -> Convert:
    return lambda _: given


def converter(param: Param, value: Any) -> Convert | None:
    """What makes the array that a launch reads of a number that is given; None where that needs a closer look."""
    if type(value) in (float, int, bool):
        return eager.converter(param, type(value))
    if type(value) is np.float64 and param.dtype.dtype.kind == "f":
        return eager.converter(param, float)
    is_same = value.dtype == param.dtype.dtype and np.shape(value) == getattr(param.type, "components", ())
    return _itself if is_same else None


def _itself(value: Any) -> Any:
    return value


_native.set_array_classes(
    {
        "array": array,
        "memory": HostMemory,
        "composite": CompositeValue,
        "struct": Struct,
        "id": Id,
        "geometry": Geometry,
        "held": held,
        "config": config,
        "options": options,
        **dict(zip(("trace", "axes", "no_trace", "no_axes"), compat.outermost, strict=True)),
    }
)
