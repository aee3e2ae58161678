"""Errors that are of one of the four classes, and of the class that Warp raises for the same fault."""

import copy
import pickle

import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface
from jwarp.errors import CompileError, JwarpError, LaunchError, Span

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


@pytest.mark.parametrize("error", [CompileError, LaunchError, wp.KernelTypeError, wp.NotDifferentiableError])
def test_all_errors_are_of_the_class_that_warp_raises_for_most_faults(error):
    assert issubclass(error, RuntimeError) and issubclass(error, wp.WarpCodegenError)
    assert str(error("a fault")) == "a fault"
    assert str(pickle.loads(pickle.dumps(error("a fault")))) == "a fault"
    assert CompileError("a fault").msg == "a fault"


def test_programs_find_the_reason_at_the_end(monkeypatch):
    span = Span("nowhere.py", 3)
    assert str(CompileError("a fault", span, "a way out")) == "a fault\n  --> nowhere.py:3\n  help: a way out"
    monkeypatch.setattr(surface, "is_warps", True)
    assert str(CompileError("a fault", span, "a way out")) == "  --> nowhere.py:3\n  help: a way out\na fault"
    error = LaunchError("a fault", hint="a way out")
    assert (str(error), error.__notes__) == ("a fault", ["  help: a way out"])


def test_programs_are_refused_the_atomics_that_warp_lacks(monkeypatch):
    def lowest(x: wp.array[wp.int16]):
        wp.atomic_min(x, 0, wp.int16(wp.tid()) - wp.int16(3))

    x = wp.array(np.array([2], np.int16))
    wp.launch(wp.kernel(lowest), 2, [x])
    assert x.numpy().tolist() == [-3]
    monkeypatch.setattr(surface, "is_warps", True)
    with pytest.raises(RuntimeError, match=r"atomic_min\(\) operations only work on arrays .* but got int16"):
        wp.launch(wp.kernel(lowest), 2, [x])


@pytest.mark.parametrize("values", [(wp.int16(3), 4), (wp.vec3(1.0), wp.vec3d(1.0))])
def test_a_call_outside_kernels_that_fits_no_overload(values):
    names = ", ".join("vec3f" if type(v) is wp.vec3 else type(v).__name__ for v in values)
    with pytest.raises(RuntimeError, match=f"Couldn't find a function 'min' compatible with the arguments '{names}'"):
        wp.min(*values)


def test_a_call_in_a_kernel_that_fits_no_overload():
    @wp.kernel
    def count(x: wp.array[float]):
        x[0] = float(wp.bit_count(x[0]))

    with pytest.raises(
        RuntimeError, match=r"function overload for 'bit_count' that .* types: \[float32\]\n  -->"
    ) as found:
        wp.launch(count, 1, [wp.zeros(1, dtype=float)])
    assert isinstance(found.value, wp.KernelTypeError)


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
