"""Errors that are of one of the four classes, and of the class that Warp raises for the same fault."""

import copy
import pickle

import numpy as np
import pytest

import jwarp as wp
from jwarp.errors import CompileError, JwarpError, LaunchError

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("also", [RuntimeError, KeyError, IndexError, TypeError])
def test_an_error_is_of_both_classes_and_is_sent_whole(also):
    error = LaunchError("a fault", hint="a way out", also=also)
    assert isinstance(error, LaunchError) and isinstance(error, ValueError) and isinstance(error, also)
    assert str(error) == "a fault\n  help: a way out" and type(error).__name__ == "LaunchError"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error) and str(again) == str(error)
        assert again.diagnostic == error.diagnostic
    assert type(LaunchError("another", also=also)) is type(error)


def test_a_class_that_is_a_base_already_changes_nothing():
    assert type(LaunchError("a fault", also=ValueError)) is LaunchError
    assert type(pickle.loads(pickle.dumps(CompileError("a fault")))) is CompileError


@pytest.mark.parametrize(
    "fault, kind, words",
    [
        (lambda: wp.zeros(6, dtype=int).reshape((4, 2)), RuntimeError, r"cannot reshape array of shape \(6,\)"),
        (lambda: wp.zeros(-1, dtype=int), ValueError, "Array shapes must be non-negative"),
        (lambda: wp.Tape().record_scope_end(), RuntimeError, "ended tape scope, but scope not present"),
        (lambda: wp.HashGrid(1291, 1291, 1291), RuntimeError, "cell count exceeds supported limit"),
        (lambda: wp.optim.Adam().step([]), RuntimeError, r"before calling step\(\), got None"),
        (lambda: wp.copy(wp.zeros(2), wp.zeros(2), src_offset=-1), RuntimeError, "Source offset must be non-negative"),
        (
            lambda: wp.utils.array_sum(wp.array(np.ones((2, 2), np.float32)), axis=2),
            IndexError,
            r"array_sum\(\) axis 2 is out of bounds",
        ),
        (
            lambda: wp.utils.runlength_encode(*(wp.zeros(3, dtype=wp.float32) for _ in range(3))),
            RuntimeError,
            "Unsupported data type: float32$",
        ),
    ],
)
def test_programs_catch_the_class_that_warp_raises(fault, kind, words):
    with pytest.raises(kind, match=words) as found:
        fault()
    assert isinstance(found.value, JwarpError)
