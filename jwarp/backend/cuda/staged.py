"""Vectors and matrices of a warp's threads, which lie one after the other: moved together, by way of shared memory."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from jwarp.analysis.ownership import shifted_of
from jwarp.backend.cuda.rules import memory_type
from jwarp.ir.contents import definitions_of
from jwarp.ir.nodes import Const, Kernel, Node, Op, walk, written_params
from jwarp.types import ArrayType, bool_

# Elements of fewer scalars are little more to move by themselves.
LEAST = 3
# Of the elements of a block, in bytes; there are 48 KiB without asking.
MOST_BYTES = 40 << 10
WARP = 32


@dataclass(frozen=True)
class Staged:
    """The arrays whose elements a warp loads together before its threads run, and those that it stores together after.

    For each how many scalars an element has.
    """

    loaded: Mapping[int, int] = field(default_factory=dict)
    stored: Mapping[int, int] = field(default_factory=dict)

    def has(self, array: int) -> bool:
        return array in self.loaded or array in self.stored


def staged_arrays(kernel: Kernel, trusted: Container[Node], block: int) -> Staged:
    """The arrays of a launch over one axis of whose elements every thread loads its own, or stores it whole."""
    if (
        kernel.tid_dims != 1
        or kernel.block_dim
        or any(isinstance(n, Op) and n.row.is_native for n in walk(kernel.body))
    ):
        return Staged()
    definitions = definitions_of(kernel.body)
    written = frozenset(written_params(kernel))
    accesses = [n for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_access]
    certain = frozenset(kernel.body.nodes)
    loaded, stored = {}, {}
    for p, param in enumerate(kernel.params):
        type = param.type
        if not isinstance(type, ArrayType) or type.dims != 1 or type.dtype is bool_:
            continue
        size = math.prod(type.components)
        if size < LEAST or (size | 1) * type.dtype.bits // 8 * block > MOST_BYTES:
            continue
        touching = [n for n in accesses if n.array == p]
        own = [
            n
            for n in touching
            if shifted_of(n.indices[0], definitions) == (0, 0) and component_of(n, type) is not None and n in trusted
        ]
        every = {
            component_of(n, type) for n in own if n in certain and (n.row.is_store if p in written else n.row.is_load)
        }
        if len(every) != size:
            continue
        if p not in written:
            loaded[p] = size
        elif len(own) == len(touching) and all(n.row.is_store for n in touching):
            stored[p] = size
    return Staged(loaded, stored)


def component_of(node: Op, type: ArrayType) -> int | None:
    """The number of the component that an access is to, in the order of memory; None where nobody knows before."""
    place = 0
    for index, extent in zip(node.indices[type.dims :], type.components, strict=True):
        if not isinstance(index, Const) or not 0 <= index.value < extent:
            return None
        place = place * extent + index.value
    return place


def declaration(kernel: Kernel, staged: Staged, block: int) -> list[str]:
    """The shared memory of a block, which has a part for each of its warps."""
    sizes = {**staged.loaded, **staged.stored}
    if not sizes:
        return []
    words = max(-(-(n | 1) * kernel.params[p].dtype.bits * WARP // 64) for p, n in sizes.items())
    return [f"__shared__ unsigned long long jw_staged[{-(-block // WARP)}][{words}];"]


def before(kernel: Kernel, staged: Staged, names: Mapping[int, str]) -> list[str]:
    """Declarations of the elements of the thread: those that are loaded."""
    made = []
    for p, n in sorted({**staged.loaded, **staged.stored}.items()):
        type, name = memory_type(kernel.params[p].dtype), names[p]
        made.append(f"{type} {name}_own[{n}];")
        if p in staged.loaded:
            made.append(f"jw_take({name}, n, (unsigned)args.total, ({type}*)jw_staged[threadIdx.x / 32], {name}_own);")
    return made


def after(kernel: Kernel, staged: Staged, names: Mapping[int, str]) -> list[str]:
    """The code that stores the elements of the thread."""
    return [
        f"jw_give({names[p]}, n, (unsigned)args.total, ({memory_type(kernel.params[p].dtype)}*)"
        f"jw_staged[threadIdx.x / 32], {names[p]}_own);"
        for p in sorted(staged.stored)
    ]
