"""Tapes of a program that comes again: their backward passes are run natively, and what differs is no repetition."""

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tape_programs import loss_of, numbers, scale, square, weighted, without

import jwarp as wp
from jwarp.dispatch.tape import tape as tape_entries


def went_back(monkeypatch):
    """How often Python went back through a launch."""
    calls, back = [], tape_entries.LaunchEntry.go_back
    monkeypatch.setattr(tape_entries.LaunchEntry, "go_back", lambda *args: calls.append(args) or back(*args))
    return calls


def test_a_program_that_is_taped_again_goes_back_natively(monkeypatch):
    calls = went_back(monkeypatch)
    x, loss = numbers(0, 3, requires_grad=True), loss_of()
    y, z = (wp.zeros(3, dtype=float, requires_grad=True) for _ in "yz")
    for k in range(6):
        x.assign(np.random.default_rng(k).normal(size=3))
        with wp.Tape() as tape:
            wp.launch(square, dim=3, inputs=[x], outputs=[y])
            wp.copy(z, y)
            wp.launch(weighted, dim=3, inputs=[y, z, loss])
        tape.backward(loss)
        assert_allclose(x.grad.numpy(), 4.0 * x.numpy() ** 3, rtol=1e-5)
        tape.zero()
    assert len(calls) == 4


def test_what_differs_is_no_repetition():
    """Numbers, gradients, contents that were overwritten, and arrays that now have gradients."""
    x, y, z = (numbers(k, 3, requires_grad=True) for k in range(3))
    w, seed = numbers(4, 3), wp.ones(3, dtype=float)
    for k in range(24):
        factor = (2.0, 3.0, -0.0, 0.0)[k // 6]
        with wp.Tape() as tape:
            wp.launch(scale, dim=3, inputs=[x, factor], outputs=[y])
            wp.launch(square, dim=3, inputs=[x], outputs=[z])
        first = x.numpy().copy()
        if k % 6 == 3:
            x.fill_(7.0)
        if k % 6 == 4:
            y.grad = wp.zeros(3, dtype=float)
        if k == 11:
            x.grad = wp.ones(3, dtype=float)
        x.grad.zero_()
        tape.backward(grads={y: seed, z: w})
        assert_allclose(x.grad.numpy(), factor + 2 * first * w.numpy(), rtol=1e-5)
        if k % 6 == 3:
            x.assign(first)


def test_repetitions_keep_no_arrays():
    x, y = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    for _ in range(4):
        with wp.Tape() as tape:
            wp.launch(square, dim=3, inputs=[x], outputs=[y])
        tape.backward(grads={y: wp.ones(3, dtype=float)})
    held = weakref.ref(x.memory.buffer.base)
    del x, y, tape
    gc.collect()
    assert held() is None


def test_kernels_without_a_gradient_are_no_repetition():
    x, y = numbers(0, 3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    for _ in range(4):
        with wp.Tape() as tape:
            wp.launch(without, dim=3, inputs=[x], outputs=[y])
        with pytest.warns(wp.KernelWarning, match="enable_backward=False"):
            tape.backward(grads={y: wp.ones(3, dtype=float)})
