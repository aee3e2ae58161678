"""`verify_autograd_array_access` of programs: reads on tapes are noted, and writes to what was read are warned of."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest

import jwarp as wp
from jwarp.api import array_access
from jwarp.config import surface


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)
    wp.config.verify_autograd_array_access = True
    yield
    wp.config.verify_autograd_array_access = False


@wp.func
def taken(x: wp.array[float], i: int):
    return x[i]


@wp.kernel
def squares(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = taken(x, i) * x[i]


@wp.kernel
def added(x: wp.array[float]):
    x[wp.tid()] += 1.0


def ones(n=3):
    return wp.array(np.random.default_rng(n).normal(size=n).astype(np.float32), requires_grad=True)


def warned(capsys, run):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        run()
    return capsys.readouterr().err


def test_reads_are_noted_until_the_tape_goes_back(capsys):
    x, y = ones(), ones()
    with wp.Tape() as tape:
        wp.launch(squares, 3, inputs=[x], outputs=[y])
    assert array_access.is_read(x) and array_access.is_read(x[1:]) and not array_access.is_read(y)
    with wp.Tape() as other:
        assert "by an array copy at " + __file__ in warned(capsys, lambda: wp.copy(x, y))
        said = warned(capsys, lambda: wp.launch(added, 3, inputs=[x]))
    assert "parameter x in kernel added is being written to but has already been read" in said
    other.reset()
    assert array_access.is_read(x)  # by the first one
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    assert not array_access.is_read(x)


def test_what_is_no_read_and_what_is_not_on_a_tape(capsys):
    x, y = ones(), ones(6)
    wp.launch(squares, 3, inputs=[x], outputs=[y])
    assert not array_access.is_read(x)
    with wp.Tape():
        wp.launch(added, 3, inputs=[x])
        wp.copy(y[3:], x)
        assert array_access.is_read(x) and not array_access.is_read(y)
        array_access.set_read(y[:3])
        assert warned(capsys, lambda x=x, y=y: wp.copy(y[3:], x)) == "" and array_access.is_read(y)
        array_access.set_read(y, False)
        assert not array_access.is_read(y)
    del x, y
    gc.collect()


def test_without_the_setting_nothing_is_noted():
    wp.config.verify_autograd_array_access = False
    x, y = ones(), ones()
    with wp.Tape():
        wp.launch(squares, 3, inputs=[x], outputs=[y])
    assert not array_access.is_read(x)
