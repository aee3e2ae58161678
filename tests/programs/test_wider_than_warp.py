"""Programs may write some things that Warp refuses, with the meaning they have in Python; others are refused."""

from __future__ import annotations

import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface


@pytest.fixture(autouse=True)
def late(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)


@wp.func
def larger(x: float):
    return x + 1.5


@wp.func
def doubled(x: float):
    return x * 2.0


@wp.func
def raised(x: wp.ref[wp.float32], by: wp.float32):
    x += by * by


@wp.kernel
def change_constants(n: int, out: wp.array[float]):
    c = 1.0
    k = 3
    for i in range(n):
        c += 0.5 * float(i)
        k = k * 2 - i
    while c < 40.0:
        c = c * 1.5
    out[0] = c
    out[1] = float(k)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_constant_changed_in_a_loop_is_what_python_makes_of_it(n):
    out = wp.zeros(2, dtype=float)
    wp.launch(change_constants, 1, inputs=[n, out])
    wanted = [None, None]
    change_constants.func(n, wanted)
    assert out.numpy().tolist() == wanted


@wp.kernel
def change_functions(x: float, out: wp.array[float]):
    f = larger
    out[0] = f(x)
    f = doubled
    out[1] = f(x)


def test_a_name_of_a_function_may_be_set_to_another_one():
    out = wp.zeros(2, dtype=float)
    wp.launch(change_functions, 1, inputs=[2.25, out])
    assert out.numpy().tolist() == [3.75, 4.5]


@wp.kernel
def choose(n: int, out: wp.array[float]):
    f = larger
    if n > 3:
        f = doubled
    out[0] = f(3.0)


def test_a_function_that_depends_on_a_condition_is_refused():
    with pytest.raises(wp.CompileError, match="different things depending on a condition"):
        wp.launch(choose, 1, inputs=[5, wp.zeros(1, dtype=float)])


@wp.kernel
def refer(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    c = 3.0
    raised(c, x[i])
    y[i] = c * x[i]


def test_a_number_of_the_source_is_a_variable_for_a_reference_and_has_its_derivative():
    values = np.random.default_rng(5).normal(size=6).astype(np.float32)
    x = wp.array(values, dtype=float, requires_grad=True)
    y = wp.zeros(6, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(refer, 6, inputs=[x], outputs=[y])
    np.testing.assert_allclose(y.numpy(), (3 + values**2) * values, rtol=1e-6)
    tape.backward(grads={y: wp.ones(6, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 3 + 3 * values**2, rtol=1e-6)


def of_both_kinds(written=wp.ref[wp.int32]):
    def same(x):
        return x

    def by_reference(x):
        x += 1

    by_reference.__name__, by_reference.__qualname__ = same.__name__, same.__qualname__
    same.__annotations__ = {"x": wp.int32}
    by_reference.__annotations__ = {"x": written}
    same = wp.func(same)
    same = wp.func(by_reference)
    return same


def test_functions_that_differ_in_references_alone_are_refused(monkeypatch):
    for written in (wp.ref[wp.int32], "wp.ref[wp.int32]"):  # as `from __future__ import annotations` has it
        with pytest.raises(RuntimeError, match=r"`same` differ only by wp\.ref"):
            of_both_kinds(written)
    monkeypatch.setattr(surface, "is_warps", False)
    assert len(of_both_kinds().defined) == 2


def test_a_tape_inside_of_a_tape_records_too():
    values = np.random.default_rng(6).normal(size=4).astype(np.float32)
    x = wp.array(values, dtype=float, requires_grad=True)
    y, z = (wp.zeros(4, dtype=float, requires_grad=True) for _ in range(2))
    with wp.Tape() as outer:
        wp.launch(refer, 4, inputs=[x], outputs=[y])
        with wp.Tape() as inner:
            wp.launch(refer, 4, inputs=[y], outputs=[z])
    results = y.numpy()
    inner.backward(grads={z: wp.ones(4, dtype=float)})
    np.testing.assert_allclose(y.grad.numpy(), 3 + 3 * results**2, rtol=1e-6)
    inner.zero()
    outer.backward(grads={z: wp.ones(4, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), (3 + 3 * results**2) * (3 + 3 * values**2), rtol=1e-5)


def test_captures_record_copies_of_arrays_that_are_not_contiguous():
    values = np.random.default_rng(7).normal(size=(4, 3)).astype(np.float32)
    source, target = wp.array(values, dtype=float), wp.zeros((3, 4), dtype=float)
    with wp.ScopedCapture() as capture:
        wp.copy(target, source.transpose())
        target[0].fill_(2.0)
    later = values * 3.0 + 1.0
    source.assign(later)
    target.zero_()
    wp.capture_launch(capture.graph)
    wanted = later.T.copy()
    wanted[0] = 2.0
    np.testing.assert_array_equal(target.numpy(), wanted)
