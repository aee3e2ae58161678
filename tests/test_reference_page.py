"""The page of functions has all that kernels may call, with their derivatives and examples."""

import importlib
from pathlib import Path

import pytest

import jwarp as wp
from jwarp.frontend.builtins.table import BUILTINS, LIBRARY

pytest.importorskip("sphinx")


@pytest.fixture
def functions(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "docs" / "extensions"))
    return importlib.import_module("functions")


def test_every_function_has_a_heading_and_an_example(functions):
    known = functions.known()
    assert set(known) == {name for name in BUILTINS | LIBRARY if hasattr(wp, name)}
    for function in known.values():
        assert functions.heading(function) != "Others"
        assert any("code-block" in line for line in functions.lines(function))


def test_derivatives_are_written_out(functions):
    text = {name: "\n".join(functions.lines(functions.known()[name])) for name in ("sin", "min", "quat_rotate")}
    assert "By x: ``g * cos(x)``." in text["sin"] and ">>> wp.sin(0.5)\n      0.479426" in text["sin"]
    assert "By a: ``g if (not (b <= a)) and (a == a) else 0``." in text["min"]
    assert "wp.vec3(-1.64, 1.52, 2.0)" in text["quat_rotate"] or "wp.vec3(-1.64, 1.52, 2)" in text["quat_rotate"]
