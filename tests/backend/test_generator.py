"""The identity of the code generator: it changes with the sources, and is missing where they are unsure."""

import ast
import shutil
import time
from pathlib import Path

import pytest

import jwarp
from jwarp import sources
from jwarp.backend import generator

pytestmark = pytest.mark.quick

PACKAGE = Path(jwarp.__file__).parent
identity = generator.identity.__wrapped__


@pytest.fixture(autouse=True)
def looked_at_each_time(monkeypatch):
    monkeypatch.setattr(generator, "sources", sources.sources.__wrapped__)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package that counts as imported a little later than now."""
    copy = tmp_path / "jwarp"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "_PACKAGE", copy)
    monkeypatch.setattr(sources, "_imported", time.time() + 60)
    return copy


@pytest.mark.parametrize("name", ["types/scalars.py", "ir/ops.py", "lib/trig.py", "backend/cpu/entry.py"])
def test_any_edit_makes_another_generator(package, name):
    before = identity()
    assert before == identity() is not None
    path = package / name
    path.write_text(path.read_text() + "\n")
    assert identity() not in (before, None)


def test_a_new_file_makes_another_generator(package):
    before = identity()
    (package / "passes" / "new.py").touch()
    assert identity() not in (before, None)


def test_sources_edited_after_the_import_are_not_trusted(package, monkeypatch):
    monkeypatch.setattr(sources, "_imported", time.time() - 60)
    assert identity() is None


@pytest.mark.parametrize("part", ["lib", "types"])
def test_without_sources_there_is_no_identity(package, part):
    path = package / part
    path.unlink() if path.is_file() else shutil.rmtree(path)
    assert identity() is None


def test_versions_of_what_it_is_built_on_count(package, monkeypatch):
    before = identity()
    monkeypatch.setattr(generator.llvmlite, "__version__", "0.0")
    assert identity() != before


def imported(path):
    """The modules of jwarp that a source file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            path = PACKAGE.parent / Path(*name.split("."))
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if name.startswith("jwarp.") and file.exists():
                    yield file


def test_everything_that_makes_code_is_counted():
    reached = set()
    waiting = [PACKAGE / "compiler" / "cpu.py", PACKAGE / "compiler" / "derive.py"]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            waiting += imported(path)
    parts = {path.relative_to(PACKAGE).parts[0] for path in reached}
    # Settings count by their values, errors only end a compilation, caches and files give what was made, locks say
    # when, and devices where it runs.
    others = {"caches.py", "collector.py", "config.py", "devices.py", "errors.py", "forks.py", "sources.py", "store.py"}
    assert parts - others == set(sources.PARTS)
