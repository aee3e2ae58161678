"""Facts that follow from the fields of rows are true of the operations that they are meant for, and of no others."""

from operator import attrgetter

import pytest

from jwarp.ir.ops import OPS
from jwarp.lib.expansions import PAIRED

pytestmark = pytest.mark.quick

FACTS = {
    "adds_to_tile": {"put_add", "spread_add"},
    "is_barrier": {"barrier"},
    "is_coordinate": {"tid"},
    "is_decomposed": {"symmetric"},
    "is_element_of_thread": {"own"},
    "is_exchange": {"atomic_exch"},
    "is_native_part": {"native_part"},
    "is_part": {"call_part", "native_part"},
    "is_product": {"tile_matmul"},
    "is_reduction": {"reduce"},
    "is_separation": {"separation"},
    "is_slope": {"slope"},
    "is_thread_number": {"thread"},
    "reads_notes": {"noted"},
    "restores": {"undo", "rollback"},
    "restores_until": {"rollback"},
    "numeric.signs": {"add", "sub"},
    "takes_element": {"take"},
}


def test_facts_are_true_of_the_operations_that_they_are_meant_for():
    found = {fact: {name for name, row in OPS.items() if attrgetter(fact)(row)} for fact in FACTS}
    assert found == FACTS


def test_comparisons_say_if_they_hold_for_equal_operands():
    rows = [row for row in OPS.values() if row.is_comparison]
    assert len(rows) == 6
    for row in rows:
        facts = row.comparison
        opposite, swapped = OPS[facts.opposite].comparison, OPS[facts.swapped].comparison
        assert facts.holds_for_equal is not None
        assert (
            opposite.holds_for_equal is not facts.holds_for_equal and swapped.holds_for_equal is facts.holds_for_equal
        )
    assert {row.name: row.equality for row in rows if row.equality is not None} == {"eq": True, "ne": False}


def test_partners_are_those_that_the_library_computes_together():
    partners = {name: row.numeric.partner for name, row in OPS.items() if row.numeric.partner}
    assert partners == {partner: name for name, partner in partners.items()}
    assert {name for name, _ in PAIRED} == set(partners)
