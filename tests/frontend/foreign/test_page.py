"""The code in docs/warp_kernels.md runs."""

import importlib.util
import re
from pathlib import Path

import pytest

warp = pytest.importorskip("warp")
PAGE = Path(__file__).parents[3] / "docs" / "warp_kernels.md"


def test_the_example_of_the_page_runs(tmp_path):
    warp.config.quiet = True
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    path = tmp_path / "example_of_the_page.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert [float(e) for e in module.batch] == [3.0, 6.0, 9.0, 12.0]
    assert float(module.gradient[0]) == 3.0
