"""Every planted mutant has its place. `mutant_search.py` looks whether the quick tests find them."""

from __future__ import annotations

import ast
from pathlib import Path

from mutant_search import place_of
from planted_mutants import MUTANTS

import jwarp

PACKAGE = Path(jwarp.__file__).parent
AREAS = {"frontend", "passes", "autodiff", "tiling", "backend"}


def test_every_mutant_has_its_place():
    assert len(MUTANTS) == len({m.name for m in MUTANTS}) == 30
    assert {m.area for m in MUTANTS} == AREAS
    for mutant in MUTANTS:
        file = place_of(mutant, PACKAGE)
        ast.parse(file.read_text().replace(mutant.old, mutant.new))  # a fault, but no fault of syntax
