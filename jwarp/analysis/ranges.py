"""Bounds proofs: accesses that stay inside their arrays, under conditions known at launch.

An integer value is written as a linear form of thread coordinates, loop indices, launch symbols and other values,
of which the interval analysis knows bounds. `a = form` holds modulo 2^bits, as integers wrap; where the form is proved
to lie inside an array the two are equal. Conditions of branches and loops bound the atoms.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from jwarp.analysis.affine import (
    ALWAYS,
    CLAUSES_OF_A_SYMBOL,
    MAX_CLAUSES,
    UNKNOWN,
    Affine,
    Condition,
    Symbol,
    Symbols,
    at_least_zero,
    both,
    either,
    symbols_of,
)
from jwarp.analysis.intervals import Intervals
from jwarp.analysis.ownership import added_to
from jwarp.errors import Span
from jwarp.ir.attributes import Extent
from jwarp.ir.nodes import Const, For, If, Kernel, Node, Op, Operand, Value, While
from jwarp.ir.operation import Operation
from jwarp.ir.visit import Visitor
from jwarp.types import ArrayType, ScalarType
from jwarp.wire import Cover

# A proof tries at most so many bounds of one atom, replaces so many atoms in turn, and takes so many steps.
MAX_BOUNDS = 3
MAX_DEPTH = 8
MAX_STEPS = 300
# The largest number for which launches are asked a condition that follows from a value's interval alone.
LARGE = 1 << 24


@dataclass(frozen=True)
class UnconditionalAccess:
    """An access that every thread makes to an array: its indices, to be compared with the extents at launch."""

    array: int
    indices: tuple[Affine | None, ...]
    span: Span


@dataclass(frozen=True)
class Proofs:
    """The proofs about a kernel's accesses.

    `proven` maps accesses, and `inside` nodes, to the condition under which they are in range,
    and `condition` is all of these together. `always` are the accesses that every thread makes, `covers` is
    known of each parameter, and `coordinates` maps values to the launch axes that they count along.
    """

    kernel: Kernel
    symbols: Symbols
    condition: Condition
    proven: Mapping[Node, Condition]
    always: tuple[UnconditionalAccess, ...]
    covers: tuple[Cover, ...]
    coordinates: Mapping[Value, int]

    def axis_of(self, atom: Hashable) -> int:
        """The launch axis that a coordinate counts along."""
        assert isinstance(atom, Value)
        return self.coordinates[atom]


@dataclass(frozen=True)
class Number:
    """An integer value: equal to `form` modulo 2^bits where `side` holds."""

    form: Affine
    side: Condition = ALWAYS


@dataclass(frozen=True)
class Bound:
    """An atom is at least (at most) `form / divisor`, where `side` holds."""

    form: Affine
    side: Condition = ALWAYS
    divisor: int = 1


@dataclass(frozen=True)
class _Touch:
    """An access by an operation: whether to the thread's own element, if all threads make it, and which component."""

    row: Operation
    own: bool
    certain: bool
    components: tuple[int | None, ...]


@dataclass
class Facts:
    """Bounds of one atom, the latest last. A choice is an atom that equals one of several forms."""

    lower: list[Bound] = field(default_factory=list)
    upper: list[Bound] = field(default_factory=list)
    choice: tuple[Number, ...] = ()
    kind: str = ""


def prove(kernel: Kernel, unmoved: Kernel | None = None) -> Proofs:
    """Analyse `kernel`.

    `unmoved` is the kernel before operations were moved out of loops: what such a loop holds is not
    certain to run.
    """
    analysis = _Analysis(kernel, unmoved or kernel)
    for function in kernel.functions:
        analysis.block(function.body)
    analysis.block(kernel.body)
    return Proofs(
        kernel,
        analysis.symbols,
        frozenset(analysis.condition),
        analysis.proven,
        tuple(analysis.always),
        tuple(analysis.cover(p) for p in range(len(kernel.params))),
        analysis.coordinates,
    )


def components_fit(kernel: Kernel, symbols: Symbols) -> Condition:
    """The condition that elements have the shape that the kernel was compiled for."""
    conditions = []
    for p, param in enumerate(kernel.params):
        if isinstance(param.type, ArrayType):
            for axis, extent in enumerate(param.type.components, param.type.dims):
                form = Affine.of(symbols.extents[p, axis]) - extent
                conditions += [at_least_zero(form), at_least_zero(-form)]
    return frozenset().union(*conditions)


class _Analysis(Visitor):
    def __init__(self, kernel: Kernel, unmoved: Kernel):
        self.kernel = kernel
        # Nodes that every thread runs: those outside branches and loops, where they were written.
        self.certain = frozenset(unmoved.body.nodes)
        self.symbols = symbols_of(kernel)
        self.numbers: dict[Value, Number] = {}
        self.facts: dict[Value, Facts] = {}
        self.definitions: dict[Value, Node] = {}
        self.loops: dict[Value, For] = {}
        self.intervals = Intervals(self.definitions, self.loops)
        self.coordinates: dict[Value, int] = {}
        self.condition = set(components_fit(kernel, self.symbols))
        self.most_clauses = MAX_CLAUSES + CLAUSES_OF_A_SYMBOL * self.symbols.count
        self.steps = 0  # of the proof at hand
        self.proven: dict[Node, Condition] = {}
        self.always: list[UnconditionalAccess] = []
        self.touched: dict[int, list[_Touch]] = {}

    # -- the walk

    def branch(self, node: If) -> None:
        for inner, holds in ((node.then, True), (node.orelse, False)):
            added = self.assume(node.cond, holds)
            self.block(inner)
            self.forget(added)
        for k, result in enumerate(node.results):
            self.definitions[result] = node
            self.choose(result, (node.then.yields[k], node.orelse.yields[k]), "select")

    def loop(self, node: For | While) -> None:
        if isinstance(node, For):
            self.counted(node)
        else:
            self.conditional(node)

    def op(self, node: Op) -> None:
        if node.row.is_access:
            self.access(node)
        elif node.row.is_bounds_test:
            self.prove_inside(node)
        if node.result is None:
            return
        self.definitions[node.result] = node
        if not node.result.type.is_int:
            return
        rule = _FORMS.get(node.name)
        number = rule(self, node) if rule else None
        if number is not None:
            self.numbers[node.result] = number
        else:
            self.facts.setdefault(node.result, Facts())

    def counted(self, node: For) -> None:
        facts = Facts()
        lo, hi = self.number(node.lo), self.number(node.hi)
        kind = node.index.type
        first = Bound(lo.form, both(lo.side, self.exact(lo, kind)))
        last = Bound(hi.form - (1 if node.step > 0 else -1), both(hi.side, self.exact(hi, kind)))
        (facts.lower if node.step > 0 else facts.upper).append(first)
        (facts.upper if node.step > 0 else facts.lower).append(last)
        self.facts[node.index], self.loops[node.index] = facts, node
        self.block(node.body)

    def conditional(self, node: While) -> None:
        self.block(node.cond)
        added = self.assume(node.cond.yields[0], True)
        steps = {n.result: n for n in node.body.nodes if isinstance(n, Op) and n.row.numeric.signs}
        for param, init, following in zip(node.params, node.init, node.body.yields, strict=True):
            step = steps.get(following) if isinstance(following, Value) else None
            added_up = added_to(step) if step is not None and param.type.is_int else None
            if added_up is None or added_up[0] is not param or (amount := added_up[1]) <= 0:
                continue
            # Grows from its first value, as long as the sum cannot wrap under the loop's condition.
            start = self.number(init)
            grows = self.prove(Affine.number(param.type.max - amount) - Affine.of(param))
            side = both(start.side, self.exact(start, param.type), grows)
            added.append((param, "lower", self.bound(param, "lower", Bound(start.form, side))))
        self.block(node.body)
        self.forget(added)

    # -- numbers

    def number(self, x: Operand) -> Number:
        """The linear form of an integer operand."""
        if isinstance(x, Const):
            return Number(Affine.number(x.value))
        return self.numbers.get(x) or Number(Affine.of(x))

    def exact(self, number: Number, kind: ScalarType) -> Condition:
        """The condition that the form's value fits `kind`, so that nothing has wrapped."""
        terms = number.form.terms
        if len(terms) == 1 and terms[0][1] == 1 and number.form.constant == 0:
            atom = terms[0][0]
            limits = atom.type if isinstance(atom, Value) else atom
            assert isinstance(limits, (Symbol, ScalarType))
            low, high = limits.min, limits.max
            if kind.min <= low and high <= kind.max:
                return number.side
        return both(
            number.side,
            self.prove(number.form - kind.min),
            self.prove(Affine.number(kind.max) - number.form),
        )

    def choose(self, result: Value, options: tuple[Operand, ...], kind: str) -> None:
        """`result` is one of `options`: any of them, the smallest, or the largest."""
        if not result.type.is_int:
            return
        numbers = tuple(self.number(x) for x in options)
        sides = both(*(both(n.side, self.exact(n, result.type)) for n in numbers))
        facts = self.facts.setdefault(result, Facts())
        if sides != UNKNOWN:
            facts.choice, facts.kind = tuple(Number(n.form, sides) for n in numbers), kind

    # -- facts

    def bound(self, atom: Value, side: str, bound: Bound) -> Bound:
        facts = self.facts.setdefault(atom, Facts())
        getattr(facts, side).append(bound)
        return bound

    def assume(self, cond: Operand, holds: bool) -> list[tuple[Value, str, Bound]]:
        """Add what `cond` being true (false) says of atoms; what was added is for `forget`."""
        node = self.definitions.get(cond) if isinstance(cond, Value) else None
        added: list[tuple[Value, str, Bound]] = []
        if isinstance(node, If):
            k = node.results.index(cond)
            then, orelse = node.then.yields[k], node.orelse.yields[k]
            if holds and isinstance(orelse, Const) and not orelse.value:  # a and b
                added = self.assume(node.cond, True) + self.assume(then, True)
            elif not holds and isinstance(then, Const) and then.value:  # not (a or b)
                added = self.assume(node.cond, False) + self.assume(orelse, False)
        elif isinstance(node, Op):
            if node.row.is_complement:
                return self.assume(node.args[0], not holds)
            if node.row.numeric.absorbs is (not holds):
                for arg in node.args:
                    added += self.assume(arg, holds)
            elif node.row.is_comparison and node.args[0].type.is_int:
                added = self.compare(node, holds)
        return added

    def forget(self, added: list[tuple[Value, str, Bound]]) -> None:
        for atom, side, bound in added:
            getattr(self.facts[atom], side).remove(bound)

    def compare(self, node: Op, holds: bool) -> list[tuple[Value, str, Bound]]:
        name = node.name if holds else node.row.comparison.opposite
        kind = node.args[0].type
        x, y = (self.number(a) for a in node.args)
        side = both(x.side, y.side, self.exact(x, kind), self.exact(y, kind))
        if side == UNKNOWN:
            return []
        added: list[tuple[Value, str, Bound]] = []
        for sign, slack in _COMPARISONS[name]:
            form = (y.form - x.form) * sign - slack  # not negative
            for atom, c in form.terms:
                if isinstance(atom, Value) and abs(c) == 1:
                    rest = (form - Affine(((atom, c),), 0)) * -c
                    added.append((atom, "lower" if c > 0 else "upper", Bound(rest, side)))
        for atom, direction, bound in added:
            self.bound(atom, direction, bound)
        return added

    # -- proofs

    def prove(self, form: Affine, depth: int = 0) -> Condition:
        """A condition under which `form` is never negative."""
        atoms = [(a, c) for a, c in form.terms if isinstance(a, Value)]
        if not atoms:
            return at_least_zero(form)
        self.steps = self.steps + 1 if depth else 0
        if depth > MAX_DEPTH or self.steps > MAX_STEPS:
            return UNKNOWN
        atom, c = atoms[-1]
        rest = form - Affine(((atom, c),), 0)
        facts = self.facts.get(atom, Facts())
        result = UNKNOWN
        if facts.choice:
            parts = [both(n.side, self.prove(rest + n.form * c, depth + 1)) for n in facts.choice]
            one_suffices = (facts.kind == "max" and c > 0) or (facts.kind == "min" and c < 0)
            result = either(*parts) if one_suffices else both(*parts)
        interval = self.intervals.of(atom)
        end = interval.low if c > 0 else interval.high
        natural = Bound(Affine.number(end))
        known = (facts.lower if c > 0 else facts.upper)[-MAX_BOUNDS:]
        for bound in [*reversed(known), natural]:
            if result == ALWAYS:
                break
            # `form` is an integer: above -1 is not negative.
            scaled = rest * bound.divisor + bound.form * c + (bound.divisor - 1)
            found = both(bound.side, self.prove(scaled, depth + 1))
            if bound is natural and found != ALWAYS and abs(end) >= LARGE:
                break  # as good as no launch has extents that large
            result = either(result, found)
        return result

    def prove_inside(self, node: Op) -> list[Number]:
        """Note under which condition the indices of an operation are in range; their numbers."""
        numbers = [self.index(i) for i in node.indices]
        extents = [self.extent(node.array, axis) for axis in range(len(numbers))]
        conditions = []
        for number, extent in zip(numbers, extents, strict=True):
            conditions += [number.side, self.prove(number.form), self.prove(extent - 1 - number.form)]
            if conditions[-1] == UNKNOWN:
                break
        condition = both(*conditions)
        more = condition - self.condition
        if condition != UNKNOWN and len(self.condition) + len(more) <= self.most_clauses:
            self.condition |= more
            self.proven[node] = condition
        return numbers

    def access(self, node: Op) -> None:
        numbers = self.prove_inside(node)
        dims = self.kernel.tid_dims
        place, components = numbers[:dims], [n.form.constant if n.form.is_number else None for n in numbers[dims:]]
        own = all(
            n.side == ALWAYS and n.form.constant == 0 and [(self.axis(a), c) for a, c in n.form.terms] == [(k, 1)]
            for k, n in enumerate(place)
        )
        own = own and len(numbers) >= dims == getattr(self.kernel.array(node.array).type, "dims", len(numbers))
        local = self.kernel.local(node.array)
        certain = node in self.certain and not (local is not None and local.shared)
        self.touched.setdefault(node.array, []).append(_Touch(node.row, own, certain, tuple(components)))
        if certain:
            forms = tuple(n.form if n.side == ALWAYS and self.is_plain(n.form) else None for n in numbers)
            self.always.append(UnconditionalAccess(node.array, forms, node.span))

    def extent(self, array: int, axis: int) -> Affine:
        local = self.kernel.local(array)
        return Affine.of(self.symbols.extents[array, axis]) if local is None else Affine.number(local.shape[axis])

    def index(self, x: Operand) -> Number:
        """The number of an index; extents fit 32 bits, so that a wide one inside an array has not wrapped."""
        number = self.number(x)
        if x.type.bits >= 32:
            return number
        return Number(number.form, both(number.side, self.exact(number, x.type)))

    def axis(self, atom: Hashable) -> int | None:
        """The launch axis that an atom is the coordinate of."""
        return self.coordinates.get(atom) if isinstance(atom, Value) else None

    def is_plain(self, form: Affine) -> bool:
        """True if `form` takes all the values that its coordinates allow."""
        return all(isinstance(a, Symbol) or a in self.coordinates for a, _ in form.terms)

    def cover(self, param: int) -> Cover:
        touched = self.touched.get(param, [])
        if not all(touch.own for touch in touched) or not any(touch.row.changes_elements for touch in touched):
            return Cover.UNKNOWN  # what no thread changes needs no care by any
        type = self.kernel.params[param].type
        shape = type.components if isinstance(type, ArrayType) else ()
        only_stored = all(touch.row.is_store for touch in touched)
        stored = {touch.components for touch in touched if touch.certain}
        if only_stored and stored >= set(itertools.product(*map(range, shape))):
            return Cover.STORED
        # Who fills elements with zeros before fills scalars.
        return Cover.UNKNOWN if shape else Cover.OWN


_COMPARISONS: Mapping[str, tuple[tuple[int, int], ...]] = {
    # (sign, slack): sign * (y - x) - slack is not negative
    "lt": ((1, 1),),
    "le": ((1, 0),),
    "gt": ((-1, 1),),
    "ge": ((-1, 0),),
    "eq": ((1, 0), (-1, 0)),
    "ne": (),
}


# -- the forms of operations: one row each; an operation without a row gives an atom


def _tid(a: _Analysis, node: Op) -> None:
    assert node.result is not None
    last = Affine.of(a.symbols.dims[node.array]) - 1
    a.facts[node.result] = Facts([Bound(Affine.number(0))], [Bound(last)])
    a.coordinates[node.result] = node.array


def _add(a: _Analysis, node: Op) -> Number:
    x, y = (a.number(arg) for arg in node.args)
    return Number(x.form + y.form, both(x.side, y.side))


def _sub(a: _Analysis, node: Op) -> Number:
    x, y = (a.number(arg) for arg in node.args)
    return Number(x.form - y.form, both(x.side, y.side))


def _mul(a: _Analysis, node: Op) -> Number | None:
    x, y = (a.number(arg) for arg in node.args)
    if not y.form.is_number:
        x, y = y, x
    return Number(x.form * y.form.constant, both(x.side, y.side)) if y.form.is_number else None


def _neg(a: _Analysis, node: Op) -> Number:
    x = a.number(node.args[0])
    return Number(-x.form, x.side)


def _cast(a: _Analysis, node: Op) -> Number | None:
    source, result = node.args[0], node.result
    assert result is not None
    if not source.type.is_int:
        return None
    x = a.number(source)
    # Narrowing keeps equality modulo the narrower width; widening needs that nothing wrapped before.
    side = ALWAYS if result.type.bits <= source.type.bits else a.exact(x, source.type)
    return Number(x.form, both(x.side, side)) if both(x.side, side) != UNKNOWN else None


def _extreme(a: _Analysis, node: Op) -> None:
    assert node.result is not None
    a.choose(node.result, node.args, node.name)


def _select(a: _Analysis, node: Op) -> None:
    assert node.result is not None
    a.choose(node.result, node.args[1:], "select")


def _quotient(a: _Analysis, node: Op) -> None:
    x, divisor = a.number(node.args[0]), node.args[1]
    assert node.result is not None
    facts = a.facts.setdefault(node.result, Facts())
    if isinstance(divisor, Const) and divisor.value >= 1:
        side = both(a.exact(x, node.result.type), a.prove(x.form))
        facts.lower.append(Bound(x.form - (divisor.value - 1), side, divisor.value))
        facts.lower.append(Bound(Affine.number(0), side))
        facts.upper.append(Bound(x.form, side, divisor.value))


def _remainder(a: _Analysis, node: Op) -> None:
    assert node.result is not None
    x, y = (a.number(arg) for arg in node.args)
    kind = node.result.type
    positive = both(a.exact(y, kind), a.prove(y.form - 1))
    facts = a.facts.setdefault(node.result, Facts())
    facts.lower.append(Bound(Affine.number(0), both(positive, a.exact(x, kind), a.prove(x.form))))
    facts.upper.append(Bound(y.form - 1, positive))


def _param(a: _Analysis, node: Op) -> Number | None:
    symbol = a.symbols.scalars.get(node.array)
    return None if symbol is None else Number(Affine.of(symbol))


def _shape(a: _Analysis, node: Op) -> Number:
    extent = node.attr_as(Extent)
    return Number(Affine.of(a.symbols.extents[extent.array, extent.axis]))


_FORMS = {
    "tid": _tid,
    "param": _param,
    "shape": _shape,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "neg": _neg,
    "cast": _cast,
    "min": _extreme,
    "max": _extreme,
    "select": _select,
    "div": _quotient,
    "floordiv": _quotient,
    "mod": _remainder,
}
