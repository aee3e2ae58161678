"""The comparison of contenders on a GPU leaves out those that compute something else, and says so."""

import importlib
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

NAMES = ("timing", "gpu_cases", "gpu")


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    for name in ("XLA_FLAGS", "XLA_PYTHON_CLIENT_MEM_FRACTION"):  # which the command sets
        monkeypatch.setenv(name, "")
    yield {name: importlib.import_module(name) for name in NAMES}
    for name in NAMES:
        del sys.modules[name]


@pytest.fixture
def x():
    return jnp.asarray(np.random.default_rng(0).uniform(1.0, 2.0, 50), jnp.float32)


def case_of(modules, x, **tolerance):
    cases = modules["gpu_cases"]
    case = cases.Case("doubled", cases.Effort(rounds=2, seconds=1e-4, dry=True), **tolerance)
    case.add_jax("first", lambda x: 2.0 * x, (x,), (x + 1,))
    return case


def test_contenders_that_differ_are_left_out_and_named(modules, x):
    case = case_of(modules, x)
    case.add_donated("in place", lambda a, y: y + a, x, x)
    case.add_jax("one is off", lambda x: (2.0 * x).at[7].add(1.0), (x,))
    case.add_jax("not a number", lambda x: (2.0 * x).at[7].set(jnp.nan), (x,))
    case.add_jax("shorter", lambda x: 2.0 * x[1:], (x,))
    case.guarded("refused", case.add_jax, "refused", lambda x: 1 / 0, ())
    times = case.measure()
    assert list(times) == ["first", "in place"]
    assert [text.split(":")[0] for text in case.failed] == ["one is off", "not a number", "shorter", "refused"]
    assert "2.00% of the elements" in case.failed[0]
    assert all(0 < t.least <= t.median for t in times.values())


def test_some_elements_may_differ(modules, x):
    case = case_of(modules, x, differing=0.02)
    case.add_jax("one is off", lambda x: (2.0 * x).at[7].add(1.0), (x,))
    case.add_jax("two are off", lambda x: (2.0 * x).at[7:9].add(1.0), (x,))
    assert list(case.measure()) == ["first", "one is off"]


def test_the_report_has_rows_and_failures(modules, x, tmp_path):
    cases, times = modules["gpu_cases"], modules["timing"]
    machine = {"gpu": "a GPU", "date": "today", "python": "3", "packages": {"jax": "1", "warp-lang": None}}
    report = modules["gpu"].Report(tmp_path, machine)
    report.begin("bandwidth")
    report.add(cases.Row("a row", {"jwarp": times.Time(1e-3, 2e-3)}, ("a fact",)))
    report.add(cases.Row("other", {"Warp": times.Time(3e-6, 4e-6)}))
    assert modules["gpu"].guarded("broken", lambda: 1 // 0, report) is None
    text = (tmp_path / "gpu.md").read_text()
    assert "a GPU; Python 3, jax 1\n" in text
    assert "| median time | jwarp | Warp | |" in text
    assert "| a row | 2 ms | - | a fact |" in text and "| other | - | 4 us |  |" in text
    assert "- bandwidth: broken: ZeroDivisionError" in text
    assert '"median": 0.002' in (tmp_path / "gpu.json").read_text()
