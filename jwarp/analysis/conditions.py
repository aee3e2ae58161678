"""Says in words what a condition asks of a launch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from jwarp.analysis.affine import ALWAYS, Affine, Clause, Condition, Symbol, Symbols, at_least_zero
from jwarp.ir.nodes import Kernel
from jwarp.types import ArrayType


def in_words(condition: Condition, kernel: Kernel, symbols: Symbols) -> str:
    """`condition` in the names of `kernel`, such as `dim[0] <= x.shape[0]`; empty if it always holds.

    That elements have their components is left out, as launches see to it.
    """
    names, components = _names(kernel, symbols)
    clauses = {frozenset(_with_components(form, components) for form in clause) for clause in condition}
    said = [_alternatives(clause, names) for clause in _needed(clauses)]
    return " and ".join(sorted(f"({c})" if len(said) > 1 and " or " in c else c for c in said))


def _needed(clauses: set[Clause]) -> list[Clause]:
    """The clauses that do not follow from another one, nor hold anyway."""
    single = [form for clause in clauses if len(clause) == 1 for form in clause]
    return [
        clause
        for clause in clauses
        if not any(at_least_zero(form) == ALWAYS for form in clause)
        and not any(other not in clause and _implies(other, form) for other in single for form in clause)
    ]


def _alternatives(clause: Clause, names: Mapping[Hashable, str]) -> str:
    widest = [form for form in clause if not any(o is not form and _implies(form, o) for o in clause)]
    return " or ".join(sorted(_inequality(form, names) for form in widest))


def _implies(x: Affine, y: Affine) -> bool:
    """Whether `y` is never below `x`."""
    return at_least_zero(y - x) == ALWAYS


def _names(kernel: Kernel, symbols: Symbols) -> tuple[Mapping[Hashable, str], Mapping[Hashable, int]]:
    """The names of symbols, and the numbers of those that are extents of a vector or matrix."""
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
    known = Affine.number(form.constant)
    for atom, c in form.terms:
        known = known + (components[atom] * c if atom in components else Affine(((atom, c),), 0))
    return known


def _inequality(form: Affine, names: Mapping[Hashable, str]) -> str:
    """`form` >= 0, without minus signs."""
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
