"""The descriptor of an access: the facts about one access of a vector of threads that the choice of a strategy asks."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from jwarp.analysis.uniformity import Shape
from jwarp.backend.cpu.access.patterns import Pattern, pattern_of, stride_of
from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.target import Target
from jwarp.ir.nodes import Const, Op
from jwarp.types import ArrayType, ScalarType
from jwarp.wire import Cover


class Mask(enum.Enum):
    """Which lanes are active."""

    FULL = "all lanes"
    LEADING = "the lanes that have a thread, which are the first ones, where the processor has masked accesses"
    PARTIAL = "any lanes"


class Space(enum.Enum):
    """Whose memory an array is in."""

    LAUNCH = "all threads"
    BLOCK = "the threads of a block"
    THREAD = "one thread"


@dataclass(frozen=True)
class Access:
    """One access of a vector of threads: an operation, or several to components of the same elements (`nodes`).

    `components` are the positions of these in an element of `size` numbers; None if a position is not known.
    Accesses may also be a `run`: loads of numbers next to each other in a row, one for each iteration of a loop.
    """

    nodes: tuple[Op, ...]
    kind: str  # load, store or atomic
    space: Space
    type: ScalarType
    size: int
    components: tuple[int, ...] | None
    elements: Pattern  # of elements, whatever component is accessed
    numbers: Pattern  # of what is accessed of them, if it is one number for each lane
    stride: int | None  # of these along the last axis, if the other indices are uniform; None also if it is not known
    mask: Mask
    never_full: bool  # some lane is known not to be active
    proved: bool  # inside the array, by the proofs that this version of the code trusts
    exclusive: bool  # without write conflicts: no other thread on the processor looks at the elements meanwhile
    stored_once: bool  # the launch stores each element once, and does nothing else with the array
    uniform_value: bool  # all lanes store the same
    wanted: bool  # what an atomic operation finds is used
    uniform_if: tuple[str, ...]  # conditions in the code under which all lanes load one element
    row_length: int | None  # the numbers in the row of the elements, if they are known
    run: bool
    short_kernel: bool
    long_kernel: bool
    target: Target

    @property
    def alignment(self) -> int:
        """The bytes that each number is known to be aligned to; that of a vector is known only when it runs."""
        return self.type.bits // 8

    @property
    def one(self) -> bool:
        """True if the access is a single operation."""
        return len(self.nodes) == 1 and not self.run

    @property
    def covers_element(self) -> bool:
        """True if enough components are accessed to read or write whole elements."""
        return len(self.nodes) * (1 if self.kind == "store" else 2) >= self.size

    @property
    def shuffles(self) -> bool:
        """True if blocks of four lanes can be transposed: numbers of 32 bits, in vectors of several blocks."""
        return self.type.bits == 32 and self.target.width % 4 == 0


def component_of(node: Op, array: ArrayType) -> int | None:
    """The position of the component that an access is to, if that is known and there is such a component."""
    position = 0
    for index, extent in zip(node.indices[array.dims :], array.components, strict=True):
        if not isinstance(index, Const) or not 0 <= index.value < extent:
            return None
        position = position * extent + index.value
    return position


def elements_of(body: Body, node: Op) -> Pattern:
    """The pattern of the elements that a node accesses, which need not have been reached."""
    indices = node.args[: body.memory.arrays[node.array].dims]
    return pattern_of([body.shape_of(i) for i in indices], [i.type for i in indices])


def describe(body: Body, nodes: Sequence[Op], run: bool = False) -> Access:
    """The descriptor of the access that `nodes` are, at the place where code is being written."""
    first, target = nodes[0], body.code.options.target
    array = body.memory.arrays[first.array]
    indices = first.indices
    shapes, types = [body.shape_of(i) for i in indices], [i.type for i in indices]
    positions = [component_of(node, array) for node in nodes]
    known = tuple(p for p in positions if p is not None)
    kind = "atomic" if first.row.is_atomic else first.name
    dims = array.dims
    elements = pattern_of(shapes[:dims], types[:dims])
    return Access(
        nodes=tuple(nodes),
        kind=kind,
        space=(
            Space.THREAD
            if first.array in body.private.arrays
            else Space.BLOCK if first.array in body.blocks.arrays else Space.LAUNCH
        ),
        type=array.dtype,
        size=math.prod(array.components),
        components=known if len(known) == len(nodes) else None,
        elements=elements,
        numbers=pattern_of(shapes, types) if len(shapes) > dims else elements,
        stride=stride_of(shapes, types),
        mask=Mask.FULL if body.mask is None else Mask.LEADING if body.first_lanes_active else Mask.PARTIAL,
        never_full=body.is_partial,
        proved=all(node in body.trusted for node in nodes),
        exclusive=kind == "atomic" and all(_is_exclusive(body, node) for node in nodes),
        stored_once=kind == "store" and first.array in body.nontemporal.arrays,
        uniform_value=kind == "store" and body.lanes(first.args[-1]).shape.is_uniform,
        wanted=any(node.result in body.used for node in nodes),
        uniform_if=_uniform_if(body, nodes) if kind == "load" else (),
        row_length=_row_length(body, first, array) if kind == "load" else None,
        run=run,
        short_kernel=body.is_short,
        long_kernel=body.is_long,
        target=target,
    )  # fmt: skip


def expected(node: Op, array: ArrayType, space: Space, shapes: Sequence[Shape], same: bool, target: Target) -> Access:
    """The descriptor that an access to an array probably has, before any code is written.

    Indices have the `shapes`. All lanes access the `same` element where remainders among the indices are zero. Accesses
    are proved, all lanes are active, and components are accessed together with the others of their element. Where an
    operation is atomic, nothing is known of the elements: whether threads get copies is decided later.
    """
    position, size = component_of(node, array), math.prod(array.components)
    is_atomic, types, dims = node.row.is_atomic, [i.type for i in node.indices], array.dims
    elements = pattern_of(shapes[:dims], types[:dims])
    numbers = pattern_of(shapes, types) if len(shapes) > dims else elements
    return Access(
        nodes=(node,) if position is None else (node,) * size,
        kind="atomic" if is_atomic else node.name,
        space=space,
        type=array.dtype,
        size=size,
        components=None if position is None else tuple(range(size)),
        elements=Pattern.ARBITRARY if is_atomic else elements,
        numbers=Pattern.ARBITRARY if is_atomic else numbers,
        stride=stride_of(shapes, types),
        mask=Mask.FULL,
        never_full=False,
        proved=True,
        exclusive=False,
        stored_once=False,
        uniform_value=True,
        wanted=True,
        uniform_if=("remainders are zero",) if same and node.row.is_load else (),
        row_length=None,
        run=False,
        short_kernel=False,
        long_kernel=False,
        target=target,
    )


def _is_exclusive(body: Body, node: Op) -> bool:
    """True if an operation adds to elements that no other thread on the processor looks at meanwhile.

    Those are in arrays of a block, in copies, or thread-private: launches run threads that repeat one after the other.
    """
    array, covers = node.array, body.proofs.covers
    if array in body.sums or array in body.blocks.arrays:
        return True
    is_own = array < len(covers) and covers[array] is Cover.OWN
    return is_own and node.row.is_addition and node.result not in body.used


def _uniform_if(body: Body, nodes: Sequence[Op]) -> tuple[str, ...]:
    """The conditions under which the remainders among the indices are zero, if all other indices are uniform."""
    known = {i: body.zero_if[i] for i in nodes[0].args if i in body.zero_if}
    others = (i for node in nodes for i in node.args if i not in known)
    return tuple(known.values()) if all(body.shape_of(i).is_uniform for i in others) else ()


def _row_length(body: Body, node: Op, array: ArrayType) -> int | None:
    """The numbers of a local array from the first axis on whose index is not uniform."""
    local = body.memory.kernel.local(node.array)
    leading = [body.shape_of(i).is_uniform for i in node.args[: array.dims]]
    if local is None or all(leading):
        return None
    return math.prod(local.shape[leading.index(False) : array.dims]) * math.prod(array.components)
