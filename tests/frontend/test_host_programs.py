"""Calls outside kernels on values that are not constants when they are read give the bits of calls that are."""

import numpy as np
import pytest

import jwarp as wp
from jwarp.frontend.lowering import host_calls, host_programs

V, Q, T, M, D = wp.vec3, wp.quat, wp.transform, wp.mat33, wp.types.vector(4, wp.float64)
CALLS = [
    *(("normalize", (k,)) for k in (V, Q, D)),
    *(("length", (k,)) for k in (V, Q, D)),
    *(("dot", (k, k)) for k in (V, Q, D)),
    ("cross", (V, V)), ("outer", (V, V)), ("min", (V, V)), ("lerp", (V, V, np.float32)), ("cw_mul", (V, V)),
    ("transpose", (M,)), ("determinant", (M,)), ("inverse", (M,)), ("trace", (M,)), ("ddot", (M, M)),
    ("mul", (M, M)), ("mul", (M, V)), ("mul", (T, T)), ("mul", (Q, Q)),
    ("quat_rotate", (Q, V)), ("quat_rotate_inv", (Q, V)), ("quat_inverse", (Q,)), ("quat_to_matrix", (Q,)),
    ("quat_rpy", (np.float32,) * 3), ("quat_from_axis_angle", (V, np.float32)),
    ("transform_point", (T, V)), ("transform_vector", (T, V)), ("transform_inverse", (T,)),
]  # fmt: skip
# These have branches, or several results: what they do is read with their numbers each time.
READ = [("quat_from_matrix", (M,)), ("quat_slerp", (Q, Q, np.float32)), ("quat_to_axis_angle", (Q,))]


def _value(kind, rng):
    numbers = rng.choice([1.0, 1e-30, 1e30], p=[0.8, 0.1, 0.1]) * rng.normal(size=getattr(kind, "_shape_", ()))
    if rng.random() < 0.1:
        numbers = numbers * np.nan
    return kind(*map(float, numbers.ravel()))


def _bits(value):
    return [np.asarray(x).tobytes() for x in (value if isinstance(value, tuple) else (value,))]


@pytest.mark.parametrize("name, kinds", CALLS + READ)
def test_calls_have_the_bits_of_calls_on_constants(name, kinds, monkeypatch):
    rng, call = np.random.default_rng(len(name)), getattr(wp, name)
    for _ in range(8):
        args = [_value(kind, rng) for kind in kinds]
        before = [x.tobytes() for x in args]
        with monkeypatch.context() as patched:
            patched.setattr(host_calls, "program_for", lambda *given: None)
            expected = call(*args)
        result = call(*args)
        assert type(result) is type(expected)
        assert _bits(result) == _bits(expected)
        assert [x.tobytes() for x in args] == before


@pytest.mark.parametrize("name, kinds", CALLS)
def test_a_call_of_known_types_is_not_read_again(name, kinds, monkeypatch):
    rng, call = np.random.default_rng(1), getattr(wp, name)
    call(*(_value(kind, rng) for kind in kinds))
    monkeypatch.setattr(host_calls, "_applied", lambda *given: pytest.fail("it is read"))
    monkeypatch.setattr(host_programs, "_recorded", lambda *given: pytest.fail("it is recorded"))
    call(*(_value(kind, rng) for kind in kinds))


def test_errors_are_those_of_the_numbers():
    with pytest.raises(wp.KernelTypeError, match="wp.quat_rotate"):
        wp.quat_rotate(V(1.0, 2.0, 3.0), V(1.0, 2.0, 3.0))
    with pytest.raises(wp.KernelTypeError, match="wp.quat_rotate"):  # and so again
        wp.quat_rotate(V(1.0, 2.0, 3.0), V(1.0, 2.0, 3.0))


def test_a_view_with_other_components_is_no_value_of_its_class():
    v = V(3.0, 4.0, 0.0)
    assert wp.length(v) == 5.0
    with pytest.raises(wp.KernelTypeError):
        wp.length(v.view(np.int32))
