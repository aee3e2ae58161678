"""The part of a kernel's analysis that its launches need, in a form that can be kept on disk."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from jwarp.analysis.affine import Affine, Condition, Symbol, symbols_of
from jwarp.analysis.ranges import Proofs, UnconditionalAccess
from jwarp.analysis.sums import apart_of, sums_of, weight_of
from jwarp.analysis.thread_order import awaited
from jwarp.ir.nodes import Kernel
from jwarp.types import int32
from jwarp.wire import Cover

Reach = tuple[int, int]


@dataclass(frozen=True)
class Coordinate:
    """The thread's position along a launch axis."""

    axis: int


@dataclass(frozen=True)
class CertainAccess:
    """An access that every thread makes to an array: its indices over symbols and coordinates, where known."""

    array: int
    indices: tuple[Affine | None, ...]


@dataclass(frozen=True)
class Summary:
    """The facts that launches need; `condition` and `covers` are as in `Proofs`, the rest as in `analysis.sums`.

    `sums` has for each of these parameters how its elements are kept apart.

    Source positions are left out: kernels of the same content share a summary.
    """

    condition: Condition
    covers: tuple[Cover, ...]
    always: tuple[CertainAccess, ...]
    sums: Mapping[int, int]
    weight: int
    waits: bool = False  # whether threads may wait for what others do

    def to_bytes(self) -> bytes:
        """An encoding that depends on nothing but the content."""
        condition = encoded_condition(self.condition)
        always = [[a.array, [None if i is None else _encode(i) for i in a.indices]] for a in self.always]
        parts = [condition, self.covers, always, sorted(self.sums.items()), self.weight, self.waits]
        return json.dumps(parts, separators=(",", ":")).encode()


def summarize(proofs: Proofs, unchanged: Kernel | None = None) -> Summary:
    """The summary of an analysed kernel, which was `unchanged` before it was made ready for code."""
    always = dict.fromkeys(certain_access(access, proofs) for access in proofs.always)
    kernel, waits = proofs.kernel, awaited(unchanged or proofs.kernel) is not None
    sums = {p: apart_of(kernel, p) for p in sorted(sums_of(kernel))}
    return Summary(proofs.condition, proofs.covers, tuple(always), sums, weight_of(kernel), waits)


def certain_access(access: UnconditionalAccess, proofs: Proofs) -> CertainAccess:
    """`access`, found by `proofs`, as a summary has it."""
    return CertainAccess(access.array, tuple(_plain(index, proofs) for index in access.indices))


def summary_from_bytes(data: bytes, kernel: Kernel) -> Summary:
    """The reverse of `to_bytes`, for a summary of `kernel`."""
    atoms = _atoms(kernel)
    condition, covers, always, sums, weight, waits = json.loads(data)

    def access(array: int, indices: list[list[Any] | None]) -> CertainAccess:
        return CertainAccess(array, tuple(None if i is None else _decode(i, atoms) for i in indices))

    certain = tuple(access(*each) for each in always)
    return Summary(_condition(condition, atoms), tuple(map(Cover, covers)), certain, dict(sums), weight, waits)


def encoded_condition(condition: Condition) -> list[list[list[Any]]]:
    """A condition as lists of numbers, which depend on nothing but the content."""
    # Forms have different lengths and kinds of entries; as text they have an order.
    clauses = (sorted((_encode(form) for form in clause), key=str) for clause in condition)
    return sorted(clauses, key=str)


def decoded_condition(content: list[list[list[Any]]], kernel: Kernel) -> Condition:
    """The reverse of `encoded_condition`, for a condition on launches of `kernel`."""
    return _condition(content, _atoms(kernel))


def reach(form: Affine, dims: tuple[int, ...], known: Mapping[int, int | None]) -> Reach | None:
    """Least and greatest value of `form` over all threads, if that is known."""
    low = high = form.constant
    for atom, c in form.terms:
        if isinstance(atom, Coordinate):
            last = c * (dims[atom.axis] - 1)
            low, high = low + min(0, last), high + max(0, last)
        else:
            assert isinstance(atom, Symbol)
            value = known.get(atom.index)
            if value is None:
                return None
            low, high = low + c * value, high + c * value
    return low, high


def outside(index: Reach | None, extent: int) -> int | None:
    """An index that some thread uses and that is outside an axis of `extent`, if that is certain."""
    if index is None or not int32.min <= index[0] <= index[1] <= int32.max:
        return None
    return index[1] if index[1] >= extent else index[0] if index[0] < -extent else None


def _plain(form: Affine | None, proofs: Proofs) -> Affine | None:
    if form is None:
        return None
    atoms = ((a if isinstance(a, Symbol) else Coordinate(proofs.axis_of(a)), c) for a, c in form.terms)
    return Affine(tuple(atoms), form.constant)


def _encode(form: Affine) -> list[Any]:
    """Pairs of atom and coefficient, then the constant; an axis is a number below zero."""
    return [*sorted((_number(atom), c) for atom, c in form.terms), form.constant]


def _decode(form: list[Any], atoms: Mapping[int, Symbol | Coordinate]) -> Affine:
    *terms, constant = form
    return Affine(tuple((atoms[atom], c) for atom, c in terms), constant)


def _condition(content: list[list[list[Any]]], atoms: Mapping[int, Symbol | Coordinate]) -> Condition:
    return frozenset(frozenset(_decode(form, atoms) for form in clause) for clause in content)


def _atoms(kernel: Kernel) -> dict[int, Symbol | Coordinate]:
    """The atoms of a kernel's forms by their numbers."""
    symbols = symbols_of(kernel)
    atoms: dict[int, Symbol | Coordinate] = {
        symbol.index: symbol for symbol in (*symbols.dims, *symbols.extents.values(), *symbols.scalars.values())
    }
    return atoms | {-1 - axis: Coordinate(axis) for axis in range(len(symbols.dims))}


def _number(atom: Hashable) -> int:
    if isinstance(atom, Symbol):
        return atom.index
    assert isinstance(atom, Coordinate)
    return -1 - atom.axis
