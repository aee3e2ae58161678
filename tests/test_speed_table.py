"""The speed tables are made of measured figures, and have their places in the texts."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield {name: importlib.import_module(name) for name in ("figures", "timing", "speed_table")}
    for name in ("figures", "timing", "speed_table"):
        del sys.modules[name]


def test_texts_get_tables_of_what_was_measured(modules, monkeypatch, tmp_path):
    table, figures, timing = modules["speed_table"], modules["figures"], modules["timing"]
    pytest.importorskip("matplotlib")
    for name in ("README", "PAGE"):
        copy = tmp_path / getattr(table, name).name
        copy.write_text(getattr(table, name).read_text())
        monkeypatch.setattr(table, name, copy)
    monkeypatch.setattr(table, "IMAGES", tmp_path)
    times = {who: timing.Time(1e-3 * (k + 1), 1.0) for k, who in enumerate(table.BOTH.values())}
    large = figures.Figure("saxpy of 2^24", times)
    small = figures.Figure("a launch", {"jwarp": timing.Time(1.8e-7, 1.0), "warp": timing.Time(1.57e-5, 1.0)})
    machine = {"processor": "a processor", "threads": 2, "python": "3", "date": "today", "load": 0.1, "packages": {}}
    groups = {
        "throughput": [large],
        "launches": [small],
        "tiles": [large],
        "gradients": [large, figures.Figure("peak memory", {})],
    }
    for _ in range(2):  # what is there is replaced
        table.write(groups, machine)
    readme, page = table.README.read_text(), table.PAGE.read_text()
    assert (
        readme.count("|saxpy of 2²⁴|1.0|2.0|3.0|4.0|5.0|6.0|7.0|8.0|9.0|") == 1
        and "a processor, 2 threads, today" in readme
        and "Measured on today" in page
    )
    assert len(readme.split()) <= 700 and page.count("|a launch|0.18|15.7|-|") == 1
    assert "peak memory" not in page
    assert (tmp_path / "speed.png").exists() and (tmp_path / "speed.svg").exists()


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 700
