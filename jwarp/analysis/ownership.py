"""Finds how threads share arrays: elements of a thread's own, and those of its neighbours too."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from jwarp.analysis.intervals import Intervals, upward_loops
from jwarp.ir.attributes import Iota
from jwarp.ir.contents import Definitions, contents_of, definitions_of, native_arrays
from jwarp.ir.nodes import Const, Kernel, Node, Op, Operand, Value, is_found, touched_by_gradients
from jwarp.types import int32, int64, scalar_of, shape_of

# An index that is one coordinate of the thread, shifted by a constant: (axis, constant). For a block (axis, step,
# constant): a multiple of the coordinate, plus a constant, plus less than the step.
Shifted = tuple[int, ...]

MAX_OFFSET = 1 << 16


def shifted_of(index: Operand, definitions: Definitions) -> Shifted | None:
    """Which coordinate `index` is, and what is added to it; None for anything else."""
    if isinstance(index, Const) or index.type not in (int32, int64) or index not in definitions:
        return None
    node = definitions[index]
    if node.row.is_coordinate:
        return node.array, 0
    if node.row.transfer.converts:
        return shifted_of(node.args[0], definitions)
    added = added_to(node)
    if added is None or abs(added[1]) > MAX_OFFSET:
        return None
    inner = shifted_of(added[0], definitions)
    return None if inner is None else (inner[0], inner[1] + added[1])


def added_to(node: Op) -> tuple[Operand, int] | None:
    """The operand of an addition or subtraction, and the number that it adds; None for anything else."""
    if not node.row.numeric.signs:
        return None
    (x, y), (_, second) = node.args, node.row.numeric.signs
    if isinstance(y, Const):
        return x, second * y.value
    return (y, x.value) if isinstance(x, Const) and second > 0 else None


class ThreadIndices:
    """The indices of a kernel as linear forms of the coordinates of its threads, or of its blocks and their tiles."""

    def __init__(self, kernel: Kernel):
        self.is_blocked = kernel.block_dim > 0
        self.body = kernel.body
        self.definitions = definitions_of(kernel.body)

    @functools.cached_property
    def intervals(self) -> Intervals:
        """The intervals of integers."""
        return Intervals(self.definitions, upward_loops(self.body), assumes_exact=True)

    def shifted(self, index: Operand) -> Shifted | None:
        """The launch axis that `index` tells, and what else it must agree in with other indices to tell it."""
        if not self.is_blocked:
            return shifted_of(index, self.definitions)
        form = self.form(index)
        if form is None:
            return None
        axes = [(atom, c) for atom, c in form.terms.items() if isinstance(atom, int)]
        if len(axes) != 1 or any(isinstance(atom, Value) for atom in form.terms):
            return None
        (axis, step), others = axes[0], sum(c * (n - 1) for c, n in form.inner.values())
        inside = all(c >= 0 for c, _ in form.inner.values()) and form.constant >= 0 and form.constant + others < step
        if inside:
            return axis, step, 0
        return (axis, 1, form.constant) if step == 1 and not form.inner else None

    def differ(self, indices: tuple[Operand, ...]) -> bool:
        """True if the elements that one operation touches are all different, as a single one is."""
        shape = shape_of(indices[0].type) if indices else ()
        if math.prod(shape) == 1:
            return True
        known: set[int] = set()
        for index in indices:
            form = self.form(index)
            # An index that may be negative counts from the end, where another one may count to.
            if form is None or form.constant < 0 or not all(self.is_positive(x, c) for x, c in form.terms.items()):
                return False
            reach = 0
            for c, extent in sorted(form.inner.values()):
                if c <= reach:
                    break
                reach += c * (extent - 1)
            else:
                known.update(form.inner)
        return known >= {axis for axis, n in enumerate(shape) if n > 1}

    def is_positive(self, atom: int | Value, factor: int) -> bool:
        """True if a multiple of a coordinate, or of another value, is not negative."""
        return factor >= 0 and (isinstance(atom, int) or self.intervals.is_count(atom))

    def form(self, index: Operand) -> Form | None:
        """An index as a linear form; None for what is none. Where it wraps, it is another number: see `reaches`."""
        kind = scalar_of(index.type)
        if kind not in (int32, int64):
            return None
        if isinstance(index, Const):
            return Form({}, {}, index.value)
        node = self.definitions.get(index)
        rule = _FORMS.get(node.name) if node is not None else None
        if node is not None and rule is not None:
            return rule(self, node)
        return Form({index: 1}, {}, 0) if not shape_of(index.type) else None

    def counted(self, node: Op) -> Form:
        """The form of an index into a tile."""
        iota = node.attr_as(Iota)
        return Form({}, {iota.axis: (1, iota.shape[iota.axis])}, 0)

    def total(self, node: Op, sign: int) -> Form | None:
        """The form of a sum or difference."""
        x, y = (self.form(a) for a in node.args)
        return None if x is None or y is None else x.plus(y, sign)

    def product(self, node: Op) -> Form | None:
        """The form of a product, where one of the factors is a constant."""
        x, y = (self.form(a) for a in node.args)
        return None if x is None or y is None else x.times(y)


_FORMS: Mapping[str, Callable[[ThreadIndices, Op], Form | None]] = {
    "tid": lambda indices, node: Form({node.number: 1}, {}, 0),
    "iota": ThreadIndices.counted,
    "fill": lambda indices, node: indices.form(node.args[0]),
    "cast": lambda indices, node: indices.form(node.args[0]),
    "add": lambda indices, node: indices.total(node, 1),
    "sub": lambda indices, node: indices.total(node, -1),
    "mul": ThreadIndices.product,
}


@dataclass(frozen=True)
class Form:
    """A sum of multiples of launch coordinates (by axis) and other values, of indices into a tile, and a constant.

    `inner` has for an axis of the tile the factor of its index, and its extent.
    """

    terms: Mapping[int | Value, int]
    inner: Mapping[int, tuple[int, int]]
    constant: int

    def plus(self, other: Form, sign: int) -> Form:
        """The sum with another form, or the difference for the sign -1."""
        terms, inner = dict(self.terms), dict(self.inner)
        for atom, c in other.terms.items():
            terms[atom] = terms.get(atom, 0) + sign * c
        for axis, (c, extent) in other.inner.items():
            inner[axis] = (inner.get(axis, (0, extent))[0] + sign * c, extent)
        terms = {atom: c for atom, c in terms.items() if c}
        return Form(
            terms, {axis: pair for axis, pair in inner.items() if pair[0]}, self.constant + sign * other.constant
        )

    def times(self, other: Form) -> Form | None:
        """The product, where one of the forms is a constant."""
        form, number = (other, self) if not (self.terms or self.inner) else (self, other)
        if number.terms or number.inner:
            return None
        factor = number.constant
        terms = {atom: c * factor for atom, c in form.terms.items() if factor}
        inner = {axis: (c * factor, n) for axis, (c, n) in form.inner.items() if factor}
        return Form(terms, inner, form.constant * factor)


def accesses(nodes: Iterable[Node]) -> Iterable[Op]:
    """The loads, stores and atomic operations among `nodes`."""
    return (n for n in nodes if isinstance(n, Op) and n.row.is_access)


def owned_arrays(kernel: Kernel, single: Iterable[int] = ()) -> frozenset[int]:
    """The array parameters no element of which two threads of a launch over `tid_dims` axes can touch.

    All accesses to such an array agree, for every launch axis, in one index that is the thread's
    coordinate plus a constant that is not negative: a negative index would count from the end. For a block, it
    may be a multiple of the coordinate plus less than that. Along the axes `single` there is one thread or block.
    """
    indices = ThreadIndices(kernel)
    common: dict[int, list[Shifted | None]] = {}
    for node in contents_of(kernel.body).accesses:
        found = [indices.shifted(i) for i in node.indices]
        known = common.setdefault(node.array, found)
        common[node.array] = [x if x == y else None for x, y in zip(known, found, strict=True)]
    axes = set(range(kernel.tid_dims)) - set(single)
    elsewhere = touched_by_gradients(kernel) | native_arrays(kernel.body)
    return frozenset(
        p for p, shifted in common.items()
        if {i[0] for i in shifted if i and i[-1] >= 0} >= axes and p not in elsewhere and not is_found(kernel, p)
    )  # fmt: skip


def are_apart(kernel: Kernel, stores: Sequence[Op], indices: ThreadIndices, single: Iterable[int] = ()) -> bool:
    """True if stores to an array have indices that are multiples of the coordinates plus smaller constants.

    They are at `3 * i`, `3 * i + 1` and `3 * i + 2`. Such an index is not negative, so it does not count from the end.
    """
    if kernel.block_dim:
        return False
    proved = set[int]()
    for place in zip(*(node.indices for node in stores), strict=True):
        forms = [indices.form(index) for index in place]
        terms = {tuple(form.terms.items()) if form is not None else () for form in forms}
        constants = [form.constant for form in forms if form is not None]
        (first,) = terms if len(terms) == 1 else ((),)
        if len(first) == 1:
            ((axis, step),) = first
            if isinstance(axis, int) and min(constants) >= 0 and max(constants) - min(constants) < step:
                proved.add(axis)
    return proved >= set(range(kernel.tid_dims)) - set(single)


@dataclass(frozen=True)
class Reach:
    """The greatest magnitude of an integer that indices are computed from: multiples of coordinates, and a constant.

    It wraps where that is past `most`.
    """

    factors: tuple[tuple[int, int], ...]  # by launch axis
    constant: int
    most: int

    def wraps(self, dims: Sequence[int]) -> bool:
        """True if the index wraps in a launch over `dims`."""
        return self.constant + sum(c * (dims[axis] - 1) for axis, c in self.factors) > self.most


def reaches(kernel: Kernel) -> frozenset[Reach]:
    """The integers, of those that linear forms of indices are computed from, that wrap where a launch is large.

    Coordinates plus small constants are left out: arrays are not that long.
    """
    indices, found = ThreadIndices(kernel), set[Reach]()
    pending = {i for node in contents_of(kernel.body).accesses for i in node.indices if isinstance(i, Value)}
    seen = set[Value]()
    while pending:
        index = pending.pop()
        node = indices.definitions.get(index)
        if index in seen or node is None or node.name not in _FORMS:
            continue
        seen.add(index)
        pending |= {x for x in node.args if isinstance(x, Value)}
        form, kind = indices.form(index), scalar_of(index.type)
        if form is None:
            continue
        factors = tuple(sorted((axis, abs(c)) for axis, c in form.terms.items() if isinstance(axis, int)))
        constant = abs(form.constant) + sum(abs(c) * (n - 1) for c, n in form.inner.values())
        if any(c > 1 for _, c in factors) or (factors and constant > MAX_OFFSET):
            found.add(Reach(factors, constant, kind.max))
    return frozenset(found)
