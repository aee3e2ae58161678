"""Code for launches whose threads and elements 32 bits number: places in arrays that share what they have in common."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

from jwarp.analysis.ownership import added_to
from jwarp.backend.cuda.emit import BodyEmitter
from jwarp.backend.cuda.staged import Staged, component_of
from jwarp.ir.nodes import Kernel, Node, Op, Operand, Value
from jwarp.types import ArrayType, int32
from jwarp.types.arrays import Extents

# An index is a value plus a number up to this, so that neighbours' places are a common one plus multiples of strides.
REACH = 8
# Threads and elements; the last threads of a grid have numbers beyond those of the launch.
MOST = (1 << 31) - (1 << 17)


def per_thread_arrays(kernel: Kernel, dims: tuple[object, ...], extents: Extents) -> tuple[int, ...]:
    """The arrays of a narrow launch that have one element for each thread: its number is that of the thread."""
    own = dims[: kernel.tid_dims]
    # Along one axis, an index is the number of the element already.
    return tuple(
        p
        for p, param in enumerate(kernel.params)
        if isinstance(param.type, ArrayType)
        and param.type.dims == len(own) > 1
        and (extents[p] or ())[: len(own)] == own
    )


def is_narrow(kernel: Kernel, dims: tuple[object, ...], batch: tuple[object, ...], extents: Extents) -> bool:
    """True if 32 bits number the threads of a launch and all places that are reckoned with in arrays."""
    if kernel.block_dim or kernel.order or not _fit((*dims[: kernel.tid_dims], *batch)):
        return False
    for param, shape in zip(kernel.params, extents, strict=True):
        if param.is_array and shape is not None:
            axes = getattr(param.type, "dims", len(shape))
            if not _fit([*(n + 2 * REACH if isinstance(n, int) else n for n in shape[:axes]), *shape[axes:]]):
                return False
    return True


def _fit(extents: Sequence[object]) -> bool:
    known = [n for n in extents if isinstance(n, int)]
    return len(known) == len(extents) and math.prod(known) <= MOST


class NarrowEmitter(BodyEmitter):
    """Places of elements are ints, and those of neighbours have the strides of their array for a distance.

    The arrays `per_thread` have an element for each thread, whose number is called `thread`.
    """

    place_type = "int"

    def __init__(
        self,
        kernel: Kernel,
        trusted: Container[Node],
        failures: Sequence[str],
        sums: Sequence[tuple],
        *,
        per_thread: Container[int],
        thread: str,
        item: str,
        staged: Staged,
    ):
        super().__init__(kernel, trusted, failures, sums, f"((long long){thread})", item)
        self.per_thread, self.thread_name, self.staged = per_thread, thread, staged

    def element(self, node: Op) -> tuple[str, str | None]:
        component = self.staged_component(node)
        return super().element(node) if component is None else (f"{self.names[node.array]}_own[{component}]", None)

    def is_constant(self, node: Op) -> bool:
        return super().is_constant(node) and self.staged_component(node) is None

    def staged_component(self, node: Op) -> int | None:
        """The number of the component, where the thread has the element already, or still."""
        type = self.kernel.array(node.array).type if self.staged.has(node.array) else None
        if not isinstance(type, ArrayType) or not self.is_own(node.indices[0], 0) or not node.row.is_access:
            return None
        return component_of(node, type)

    def known_place(self, node: Op) -> str:
        type = self.kernel.array(node.array).type
        if self.kernel.local(node.array) is not None or not isinstance(type, ArrayType):
            return super().known_place(node)
        bases, texts, shift = [], [], []
        for axis, index in enumerate(node.indices):
            base, distance = self.peeled(index)
            text = self.text(base)
            # Along the only axis, pointers go on by constants.
            wide = len(node.indices) > 1 and type.dims == 1 and axis == 0
            bases.append(base)
            texts.append(f"(long long){text}" if wide else text if base.type is int32 else f"(int){text}")
            if distance:
                stride = "".join(f" * {self.extent(node.array, k)}" for k in range(axis + 1, type.ndim))
                shift.append(f"{distance}{stride}")
        if node.array not in self.per_thread or not all(map(self.is_own, bases[: type.dims], range(type.dims))):
            return " + ".join([self.offset(node.array, texts), *shift])
        total = f"(int){self.thread_name}"
        for text, extent in zip(texts[type.dims :], type.components, strict=True):
            total = f"({total}) * {extent} + {text}"
        return " + ".join([total, *shift])

    def is_own(self, index: Operand, axis: int) -> bool:
        """True if an index is the thread's coordinate along an axis."""
        node = self.definitions.get(index) if isinstance(index, Value) else None
        return node is not None and node.row.is_coordinate and node.number == axis

    def peeled(self, index: Operand) -> tuple[Operand, int]:
        """A value and a small number that are the index together."""
        node = self.definitions.get(index) if isinstance(index, Value) and index.type is int32 else None
        added = None if node is None else added_to(node)
        if added is not None and isinstance(added[0], Value) and abs(added[1]) <= REACH:
            return added
        return index, 0


def split(axes: int, start: str) -> list[str]:
    """Declarations of the coordinates of thread number `start` of a launch."""
    if axes == 1:
        return [f"const int i0 = (int){start};"]
    lines, at = [], start
    for axis in range(axes - 1, 0, -1):
        lines.append(f"const unsigned before{axis} = {at} / (unsigned)args.symbols[{axis}];")
        lines.append(f"const int i{axis} = (int)({at} - before{axis} * (unsigned)args.symbols[{axis}]);")
        at = f"before{axis}"
    return [*lines, f"const int i0 = (int){at};"]


def loop(block: int, *, in_step: bool) -> list[str]:
    """The head of the loop over threads, and of the condition inside it under which there is a thread number `n`.

    Where they go `in_step`, all threads of a warp take as many steps, of which the grid makes some. Else it has all.
    """
    if in_step:
        return [
            f"  const unsigned jw_total = (unsigned)args.total, step = gridDim.x * {block}u;",
            "  // All threads of a warp take as many steps, so that they can add up together what they have.",
            f"  for (unsigned first = blockIdx.x * {block}u; first < jw_total; first += step) {{",
            "    const unsigned n = first + threadIdx.x;",
            "    if (n < jw_total) {",
        ]
    return [
        "  {",
        f"    const unsigned n = blockIdx.x * {block}u + threadIdx.x;",
        "    if (n < (unsigned)args.total) {",
    ]


def batch_element() -> list[str]:
    """Declarations of the batch element of thread number `n`, and of the thread's number in it."""
    return [
        "const unsigned item = n / (unsigned)args.threads, at = n - item * (unsigned)args.threads;",
        "jw_place place = {at, at, item, args.items != args.batch[3]};",
    ]
