"""Plants each mutant in a copy of the package, and lets the quick tests look for it.

    python tests/mutants/mutant_search.py                 # all; those of the mutant's folder look first
    python tests/mutants/mutant_search.py passes "lerp"   # those whose folder or name has one of these texts
    python tests/mutants/mutant_search.py --tests tests/passes autodiff  # other tests than `-m quick`

It prints a line for each, with the test that found it, and ends with 1 if fewer than nine of ten are found.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from planted_mutants import MUTANTS, Mutant

ROOT = Path(__file__).parent.parent.parent
FOUND_OF_TEN = 9
SECONDS = 900  # some faults make loops that do not end
# A finder of an editable installation would find the package as it is, also in processes that tests start.
SITE = """import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if finder.__module__.startswith("_frozen_importlib")]
"""
PLUGIN = """import sys


def pytest_collection_finish():
    assert sys.modules["jwarp"].__file__.startswith(__file__.rpartition("/")[0]), sys.modules["jwarp"].__file__
"""


def place_of(mutant: Mutant, package: Path) -> Path:
    """The file that a mutant changes.

    Raises:
        ValueError: its text is in no file of its folder, or not once.
    """
    files = [path for path in sorted((package / mutant.area).rglob("*.py")) if mutant.old in path.read_text()]
    if len(files) != 1 or files[0].read_text().count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.old!r} occurs in {[str(f.relative_to(package)) for f in files]}")
    return files[0]


def copied(folder: Path) -> Path:
    """A copy of the package, with links to all that tests read."""
    shutil.copytree(ROOT / "jwarp", folder / "jwarp", ignore=shutil.ignore_patterns("__pycache__"))
    for module in sorted((ROOT / "jwarp").glob("_native*.so")) or _built():
        shutil.copy(module, folder / "jwarp")
    for name in ("tests", "examples", "docs", "cuda", "benchmarks", "pyproject.toml", "README.md", "CHANGELOG.md"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "sitecustomize.py").write_text(SITE)
    (folder / "of_the_copy.py").write_text(PLUGIN)
    return folder / "jwarp"


def _built() -> list[Path]:
    """The native module of an editable installation."""
    code = "from jwarp import _native; print(_native.__file__)"
    return [
        Path(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
    ]


def look(mutant: Mutant, tests: list[str]) -> str:
    """The test that finds a mutant; "" if none does."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        file = place_of(mutant, copied(folder))
        file.write_text(file.read_text().replace(mutant.old, mutant.new))
        own = [f"tests/{mutant.area}"] if (ROOT / "tests" / mutant.area).is_dir() else []
        # pytest would merge a folder with the one that it is in.
        found = ""
        for chosen in (tests,) if tests else (["-m", "quick", *own], ["-m", "quick", "tests"]):
            found = found or _first_failure(folder, chosen)
        return found


def _first_failure(folder: Path, chosen: list[str]) -> str:
    """The first test that fails of a copy of the package; "" if all pass."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "of_the_copy", "-p", "no:cacheprovider", "-x", "-q"]
    try:
        done = subprocess.run(
            [*command, *chosen], cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"none: the tests do not end within {SECONDS} s"
    found = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if found or done.returncode == 0:
        return found[0] if found else ""
    raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("texts", nargs="*", help="parts of names or folders; all mutants without")
    parser.add_argument("--tests", nargs="+", default=[], help="paths and options of pytest, in place of -m quick")
    arguments = parser.parse_args()
    chosen = [
        m for m in MUTANTS if not arguments.texts or any(t in (m.area, m.name) or t in m.name for t in arguments.texts)
    ]
    found = 0
    for mutant in chosen:
        start = time.monotonic()
        test = look(mutant, arguments.tests)
        found += bool(test)
        print(f"{mutant.area:9} {mutant.name}: {test or 'NOT FOUND'} ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{found} of {len(chosen)} found")
    return 0 if found * 10 >= FOUND_OF_TEN * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
