"""The code of the README runs as it stands there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import jax
import numpy as np

README = Path(__file__).parent.parent / "README.md"


def test_no_placeholder_is_left():
    assert not re.search(r"^[A-Z]+$", README.read_text(), re.MULTILINE)


def test_the_quickstart_of_the_readme(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(code.strip().splitlines()) <= 18
    file = tmp_path / "quickstart.py"
    file.write_text(code)
    spec = importlib.util.spec_from_file_location("quickstart", file)
    quickstart = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(quickstart)
    y, ys = np.asarray(quickstart.y), np.asarray(quickstart.ys)
    assert isinstance(quickstart.y, jax.Array)
    np.testing.assert_array_equal(y[499:502], [0.25, 0.5, 0.25])
    assert y.sum() == 1.0 and ys.shape == (8, 1000)
    np.testing.assert_allclose(ys[:, 500], 1.0 - 2.0 * np.linspace(0.0, 0.5, 8), rtol=1e-6)
