"""The text of a condition on launches, in the names of a kernel's parameters."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from jwarp.analysis.affine import ALWAYS, Affine, Clause, Condition, Symbol, Symbols, at_least_zero
from jwarp.ir.nodes import Kernel
from jwarp.types import ArrayType


def condition_text(condition: Condition, kernel: Kernel, symbols: Symbols) -> str:
    """The text of `condition` in the names of `kernel`, such as `dim[0] <= x.shape[0]`; empty if it always holds.

    That elements have as many components as their type says is left out: launches ensure it.
    """
    names, components = _names(kernel, symbols)
    clauses = {frozenset(_with_components(form, components) for form in clause) for clause in condition}
    texts = [_alternatives(clause, names) for clause in _not_implied(clauses)]
    return " and ".join(sorted(f"({text})" if len(texts) > 1 and " or " in text else text for text in texts))


def _not_implied(clauses: set[Clause]) -> list[Clause]:
    """The clauses that neither always hold nor follow from another clause."""
    single = [form for clause in clauses if len(clause) == 1 for form in clause]
    return [
        clause
        for clause in clauses
        if not any(at_least_zero(form) == ALWAYS for form in clause)
        and not any(other not in clause and _implies(other, form) for other in single for form in clause)
    ]


def _alternatives(clause: Clause, names: Mapping[Hashable, str]) -> str:
    """The alternatives of a clause, joined by `or`, without those that imply another one."""
    widest = [form for form in clause if not any(o is not form and _implies(form, o) for o in clause)]
    return " or ".join(sorted(_inequality(form, names) for form in widest))


def _implies(x: Affine, y: Affine) -> bool:
    """True if `x >= 0` implies `y >= 0`, since `y` is never below `x`."""
    return at_least_zero(y - x) == ALWAYS


def _names(kernel: Kernel, symbols: Symbols) -> tuple[Mapping[Hashable, str], Mapping[Hashable, int]]:
    """The name of each symbol, and the value of each one that is an extent of a composite type."""
    names: dict[Hashable, str] = {symbol: f"dim[{axis}]" for axis, symbol in enumerate(symbols.dims)}
    components: dict[Hashable, int] = {}
    for (p, axis), symbol in symbols.extents.items():
        param = kernel.params[p]
        names[symbol] = f"{param.name}.shape[{axis}]"
        if isinstance(param.type, ArrayType) and axis >= param.type.dims:
            components[symbol] = param.type.components[axis - param.type.dims]
    names.update({symbol: kernel.params[p].name for p, symbol in symbols.scalars.items()})
    return names, components


def _with_components(form: Affine, components: Mapping[Hashable, int]) -> Affine:
    """`form` with the extents of composite types replaced by their values."""
    known = Affine.number(form.constant)
    for atom, c in form.terms:
        known = known + (components[atom] * c if atom in components else Affine(((atom, c),), 0))
    return known


def _inequality(form: Affine, names: Mapping[Hashable, str]) -> str:
    """The inequality `form >= 0`, with each term on the side where its factor is positive."""
    constant, sign = form.constant, "<="
    if constant == -1 and any(c < 0 for _, c in form.terms):
        constant, sign = 0, "<"
    terms = sorted(form.terms, key=lambda term: _index(term[0]))
    small = [_term(-c, names[atom]) for atom, c in terms if c < 0] + ([str(-constant)] if constant < 0 else [])
    large = [_term(c, names[atom]) for atom, c in terms if c > 0] + ([str(constant)] if constant > 0 else [])
    return f"{' + '.join(small) or '0'} {sign} {' + '.join(large) or '0'}"


def _term(factor: int, name: str) -> str:
    return name if factor == 1 else f"{factor} * {name}"


def _index(atom: Hashable) -> int:
    assert isinstance(atom, Symbol)
    return atom.index
