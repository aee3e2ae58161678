"""The bars of the examples: a line a second in a log."""

import importlib
import io
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def drawing(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("drawing")


def test_a_log_gets_a_line_a_second(drawing, monkeypatch):
    log, clock = io.StringIO(), [0.0]
    monkeypatch.setattr(sys, "stderr", log)
    bar = drawing.progress(range(1000), desc="steps")
    monkeypatch.setattr(bar, "_time", lambda: clock[0])
    bar.start_t = bar.last_print_t = 0.0
    for _ in bar:
        clock[0] += 0.0055
        bar.set_postfix(loss="0.5", refresh=False)
    lines = log.getvalue().splitlines()
    assert len(lines) == 1 + 5 + 1  # at first, after each second, and in the end
    assert all(line.startswith("steps: ") and "\r" not in line for line in lines)
    assert "1000/1000" in lines[-1]


def test_a_terminal_draws_in_place(drawing, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for _ in drawing.progress(range(3), desc="steps"):
        pass
    assert "\r" in terminal.getvalue() and "\n" not in terminal.getvalue().strip("\n")
