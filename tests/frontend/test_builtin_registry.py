"""The names of Warp's builtins, and calls of their overloads chosen at random, against Warp where it is installed."""

import pytest

import jwarp as wp
from jwarp.frontend.builtins.planned import PLANNED
from jwarp.frontend.builtins.table import BUILTINS, LIBRARY

pytest.importorskip("warp")

import builtin_overloads

# Names that the package has beside the table of builtins.
NO_ROWS = {"array", "spatial_vector", "static"}
SOON = {"transform_set_translation", "transform_set_rotation"}
SAMPLE = 30


def test_every_name_of_warp_is_there_or_refused_by_name():
    known = {*BUILTINS, *LIBRARY, *PLANNED, *NO_ROWS, *SOON}
    assert builtin_overloads.visible().keys() - known == set()
    assert all(hasattr(wp, name) for name in NO_ROWS)


def test_some_overloads_give_the_numbers_of_warp():
    count, _, wrong = builtin_overloads.audit(set(), SAMPLE)
    assert count > SAMPLE // 2
    assert not wrong, "\n".join(f"{call}: {reason}" for call, reason in wrong.items())
