"""The layering of the package, and that its files stay short and say their job."""

from __future__ import annotations

import ast
import functools
import importlib
import logging
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
from importlinter import cli

import jwarp

ROOT = Path(__file__).parent.parent
PYTHON_FILES = sorted((ROOT / "jwarp").rglob("*.py"))
RUNTIME = ROOT / "cuda" / "runtime"
RUNTIME_FILES = sorted(p for p in RUNTIME.rglob("*.[hc]*") if "third_party" not in p.parts)
NATIVE_FILES = sorted([*RUNTIME_FILES, *(ROOT / "cuda" / "device").rglob("*.cuh")])
# Which folders of the native module the files of each may include, besides their own.
INCLUDED = {
    "core": set(),
    "cpu": {"core"},
    "gpu": {"core"},
    "xla": {"core", "cpu", "gpu"},
    "python": {"core", "cpu", "gpu", "xla"},
}


def test_lower_layers_do_not_import_higher_ones(monkeypatch):
    monkeypatch.chdir(ROOT)
    try:
        assert cli.lint_imports(config_filename=str(ROOT / "pyproject.toml")) == cli.EXIT_STATUS_SUCCESS
    finally:
        # It configures logging for itself, which switches off all loggers that there are.
        for logger in logging.Logger.manager.loggerDict.values():
            if isinstance(logger, logging.Logger):
                logger.disabled = False


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_import_is_for_type_checkers_only(path):
    assert "TYPE_CHECKING" not in path.read_text(), "such an import would be one up, or one in a circle"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_python_file_says_its_job_and_is_short(path):
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring, "the first line of a file says what it is for"
    assert len(docstring.splitlines()[0]) > 10
    assert len(text.splitlines()) <= 600


@pytest.mark.parametrize("path", NATIVE_FILES, ids=lambda p: str(p.relative_to(ROOT / "cuda")))
def test_a_native_file_says_its_job_and_is_short(path):
    lines = path.read_text().splitlines()
    assert lines[0].startswith("// ")
    assert len(lines) <= 600


@pytest.mark.parametrize("path", RUNTIME_FILES, ids=lambda p: str(p.relative_to(RUNTIME)))
def test_a_native_file_includes_only_lower_folders(path):
    folder = path.relative_to(RUNTIME).parts[0]
    for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
        if not name.startswith("xla/ffi/api/"):  # XLA's own header
            assert (RUNTIME / name).is_file(), f"paths begin at {RUNTIME.name}/"
            assert name.split("/")[0] in INCLUDED[folder] | {folder}, name


@pytest.mark.parametrize("module", list(pkgutil.walk_packages(jwarp.__path__, "jwarp.")), ids=lambda m: m.name)
def test_no_public_name_hides_a_module(module):
    """`import jwarp.launch.descriptor as d` failed where `jwarp.launch` was the function."""
    if module.name in ("jwarp.__main__", "jwarp.as_warp", "jwarp.config"):
        return  # a program; what has to come before Warp; and a file whose one public name is that of the file
    imported = importlib.import_module(module.name)
    assert functools.reduce(getattr, module.name.split(".")[1:], jwarp) is imported


def test_files_were_found():
    assert len(PYTHON_FILES) > 30
    assert len(RUNTIME_FILES) > 50
    assert len(NATIVE_FILES) > len(RUNTIME_FILES)


def test_patterns_of_the_source_distribution_are_anchored():
    """Without a slash in front, "cuda" took in build/**/cuda with 12 MB of object files."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    patterns = settings["sdist"]["include"] + settings["sdist"]["exclude"]
    assert all(pattern.startswith("/") for pattern in patterns)
    assert not {"/docs", "/tests"} & set(patterns)  # tests read the documentation


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.py")), ids=lambda p: p.name)
def test_an_example_is_a_lesson_of_at_most_200_lines(path):
    assert len(path.read_text().splitlines()) <= 200
