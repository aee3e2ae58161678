"""Reports of programs: warnings and errors as Warp shows them, launches, and diagnostics by Warp's keys."""

from __future__ import annotations

import importlib.metadata
import warnings

import pytest

import jwarp as wp
from jwarp.config import surface
from jwarp.programs import internals
from jwarp.programs.diagnostics import print_diagnostics


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)
    monkeypatch.setattr(internals, "_warnings_seen", set())


@wp.kernel
def nothing_much(x: wp.array[float]):
    x[wp.tid()] = 1.0


def test_warnings_and_errors_are_shown_as_in_warp(program, capsys):
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for _ in range(2):
            internals.log_warning("hello", category=UserWarning)
            internals.log_warning("old", category=DeprecationWarning)
        wp.get_logger().error("broken")
    shown = capsys.readouterr().err.splitlines()
    assert shown == [*("Warp UserWarning: hello", "Warp DeprecationWarning: old", "Warp UserWarning: hello")] + [
        "Warp Error: broken"
    ]


def test_a_logger_of_the_program_names_the_line_of_the_caller(program):
    class Logger:
        def debug(self, message): ...

        def warning(self, message, category=None, stacklevel=1):
            warnings.warn(message, category, stacklevel=stacklevel)

        info = error = debug

    mine, outer = Logger(), Logger()
    wp.set_logger(outer)
    try:
        with pytest.warns(UserWarning, match="from here") as seen, wp.ScopedLogger(mine):
            internals.log_warning("from here", category=UserWarning)
            outer.debug = None  # is restored all the same
        assert seen[0].filename == __file__ and wp.get_logger() is outer
    finally:
        wp.set_logger(None)


def test_launches_are_told(program, capsys):
    wp.config.print_launches = True
    try:
        wp.launch(nothing_much, dim=2, inputs=[wp.zeros(2, dtype=float)])
    finally:
        wp.config.print_launches = False
    wp.launch(nothing_much, dim=2, inputs=[wp.zeros(2, dtype=float)])
    assert capsys.readouterr().out.splitlines()[0].startswith("kernel: nothing_much dim: 2 inputs: [")


def test_diagnostics(capsys):
    found = print_diagnostics()
    assert "Versions" in capsys.readouterr().out
    assert found["warp_python"] == wp.config.version and found["devices"][0]["alias"] == "cpu"
    assert found["jax"] == importlib.metadata.version("jax") and found["debug"] is wp.config.debug
