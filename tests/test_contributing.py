"""The worked differences of docs/contributing.md fit the package as it is, and do what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jwarp import _native

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/contributing.md").read_text()
# How many files each extension may touch, by what its heading begins with.
LIMITS = {
    "A function of numbers": 4,
    "An operation on tiles": 6,
    "A strategy of access": 2,
    "A statement": 1,
    "A pass": 2,
    "A composite type": 2,
}

# A finder of an editable installation would find the package as it is.
START = """import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if finder.__module__.startswith("_frozen_importlib")]
"""


def difference(heading: str) -> str:
    """The difference in the section with this heading."""
    (section,) = re.findall(rf"^## {heading}.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return "".join(re.findall(r"^```diff\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("heading", LIMITS)
def test_an_extension_touches_few_files(heading):
    files = set(re.findall(r"^\+\+\+ b/(\S+)$", difference(heading), re.MULTILINE))
    assert 1 <= len(files) <= LIMITS[heading]
    made = set(re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)$", difference(heading), re.MULTILINE))
    assert all((ROOT / file).is_file() is (file not in made) and file.startswith(("jwarp/", "cuda/")) for file in files)


def test_the_extensions_work(tmp_path):
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git, which applies the differences")
    environment = {
        **os.environ,
        "GIT_CEILING_DIRECTORIES": str(tmp_path.parent),
        "JWARP_CACHE_DIR": str(tmp_path / "cache"),
    }

    def run(*command: str, text: str = "") -> None:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, input=text, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"

    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "jwarp", tmp_path / "jwarp", ignore=ignored)
    shutil.copy(_native.__file__, tmp_path / "jwarp")
    for heading in LIMITS:
        run(git, "apply", "-", text=difference(heading))
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    (tmp_path / "extended.py").write_text(f"{START}\n{code}\nassert wp.__file__.startswith({str(tmp_path)!r})\n")
    run(sys.executable, "extended.py")
