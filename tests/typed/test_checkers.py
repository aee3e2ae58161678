"""Type checkers on users' programs: they find nothing in what is right, and the mistakes in what is not."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_profiles import needs_all

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = {name: (Path(__file__).parent / f"{name}.py").read_text() for name in ("kernels", "structures", "mistakes")}
PROGRAMS["readme"] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]

# Kernels return nothing, so that few of them say so: of `--strict` only this is left out, where they do not.
MYPY = """
[mypy]
strict = true
follow_imports = silent
[mypy-readme]
disallow_untyped_defs = false
disallow_incomplete_defs = false
"""


def run_checker(folder: Path, *command: str) -> str:
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def found_by_mypy(tmp_path_factory):
    """The errors that mypy finds, as (file, line, text)."""
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text(MYPY)
    output = run_checker(folder, "mypy", "--config-file", "mypy.ini", *(f"{name}.py" for name in PROGRAMS))
    found = re.findall(r"^(\w+)\.py:(\d+): error: (.*)$", output, re.MULTILINE)
    return [(file, int(line), text) for file, line, text in found]


@pytest.fixture(scope="module")
def found_by_pyright(tmp_path_factory):
    """The errors that pyright finds, in the same form."""
    folder = tmp_path_factory.mktemp("pyright")
    settings = {"include": ["."], "extraPaths": [str(ROOT)], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    report = json.loads(run_checker(folder, "pyright", "--pythonpath", sys.executable, "--outputjson"))
    assert report["summary"]["filesAnalyzed"] == len(PROGRAMS)
    return [
        (Path(found["file"]).stem, found["range"]["start"]["line"] + 1, found["message"])
        for found in report["generalDiagnostics"]
    ]


@pytest.fixture(params=[pytest.param(name, marks=needs_all) for name in ("mypy", "pyright")])
def found(request):
    return request.getfixturevalue(f"found_by_{request.param}")


@pytest.mark.parametrize("name", ["kernels", "structures", "readme"])
def test_a_program_that_is_right_has_no_errors(found, name):
    assert [entry for entry in found if entry[0] == name] == []


def test_mistakes_are_found_where_they_are(found):
    lines = PROGRAMS["mistakes"].splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if "  # wrong" in line}
    assert {line for file, line, _ in found if file == "mistakes"} == wrong


@pytest.mark.parametrize("name", ["kernels", "structures"])
def test_a_program_that_is_right_runs(name, tmp_path, capsys):
    (tmp_path / f"{name}.py").write_text(PROGRAMS[name])
    runpy.run_path(str(tmp_path / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out
