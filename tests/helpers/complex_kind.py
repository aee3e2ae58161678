"""A kind of composites that only tests have: complex numbers, which are no vectors of two components.

It is all that a composite type takes: the row of the kind, and the rules of its operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jwarp as wp
from jwarp.frontend.values import composites, operator_table
from jwarp.frontend.values.bindings import Composite
from jwarp.types import KINDS, CompositeKind, composite

COMPLEX = CompositeKind(
    "complex", "complex numbers", "cplx", ((2,),), ("", "d"),
    shape=(2,), components=("re", "im"), repeats=False, by_component=(),
)  # fmt: skip

cplx = composite(COMPLEX, (2,), wp.float32)


def product(e, symbol, name, x, y, span):
    """`x * y` of complex numbers."""
    composites.check_alike(symbol, (x, y), span)
    (a, b), (c, d) = x.items, y.items

    def mul(p, q):
        return e.emit("mul", p, q, span=span)

    real = e.emit("sub", mul(a, c), mul(b, d), span=span)
    return Composite(x.type, (real, e.emit("add", mul(a, d), mul(b, c), span=span)))


@contextmanager
def complex_numbers() -> Iterator[None]:
    """The kind is in the tables."""
    tables = (KINDS, operator_table.CONSTRUCTORS, operator_table.OPERATORS)
    before = [dict(table) for table in tables]
    KINDS["complex"] = COMPLEX
    operator_table.CONSTRUCTORS[COMPLEX] = composites.from_components
    operator_table.OPERATORS.update({**operator_table.linear(COMPLEX), ("mul", COMPLEX, COMPLEX): product})
    try:
        yield
    finally:
        for table, rows in zip(tables, before, strict=True):
            table.clear()
            table.update(rows)
