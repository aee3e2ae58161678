"""The layering of the package, and that its files stay short and say their job."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import logging
import pkgutil
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

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


def offenders(paths: list[Path], fault: Callable[[Path], str]) -> str:
    """The files with a fault, one on each line with what is wrong; empty if all are right."""
    return "\n".join(f"{path.relative_to(ROOT)}: {found}" for path in paths if (found := fault(path)))


def test_no_import_is_for_type_checkers_only():
    """Such an import would be one up, or one in a circle."""
    assert not offenders(PYTHON_FILES, lambda p: "TYPE_CHECKING" if "TYPE_CHECKING" in p.read_text() else "")


def test_a_python_file_says_its_job_and_is_short():
    def fault(path: Path) -> str:
        text = path.read_text()
        docstring = ast.get_docstring(ast.parse(text)) or ""
        if len(docstring.partition("\n")[0]) <= 10:
            return "the first line of a file says what it is for"
        lines = len(text.splitlines())
        return f"{lines} lines" if lines > 600 else ""

    assert not offenders(PYTHON_FILES, fault)


def test_a_native_file_says_its_job_and_is_short():
    def fault(path: Path) -> str:
        lines = path.read_text().splitlines()
        if not lines[0].startswith("// "):
            return "the first line of a file says what it is for"
        return f"{len(lines)} lines" if len(lines) > 600 else ""

    assert not offenders(NATIVE_FILES, fault)


def test_a_native_file_includes_only_lower_folders():
    def fault(path: Path) -> str:
        folder = path.relative_to(RUNTIME).parts[0]
        names = re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)
        names = [name for name in names if not name.startswith("xla/ffi/api/")]  # XLA's own header
        missing = [f"{name}: paths begin at {RUNTIME.name}/" for name in names if not (RUNTIME / name).is_file()]
        upward = [name for name in names if name.split("/")[0] not in INCLUDED[folder] | {folder}]
        return ", ".join(missing + upward)

    assert not offenders(RUNTIME_FILES, fault)


def test_no_public_name_hides_a_module():
    """`import jwarp.launch.descriptor as d` failed where `jwarp.launch` was the function."""
    # A program; what has to come before Warp; and a file whose one public name is that of the file.
    excepted = ("jwarp.__main__", "jwarp.as_warp", "jwarp.config")
    names = [module.name for module in pkgutil.walk_packages(jwarp.__path__, "jwarp.")]
    modules = {name: importlib.import_module(name) for name in names if name not in excepted}
    reached = {name: functools.reduce(getattr, name.split(".")[1:], jwarp) for name in modules}
    assert [name for name in modules if reached[name] is not modules[name]] == []
    assert len(names) > 30


# Words that are not used, each with its replacement in docs/glossary.md: as parts of names, and in docstrings.
PRIVATE_NAME = re.compile(
    r"(?:^|_)(?!trip_counts?(?:_|$)|trips$(?<=max_trips))"
    r"(lone|meets|meetings?|told|untold|lent|lend|trips?|shelf|handed|manieth|meaning|reversals?|beside|nearby"
    r"|closer_look|ways?_back|own_(?:elements|arrays|copies))(?=_|$)"
)
PRIVATE_WORD = re.compile(
    r"\b(lone|meets|meetings?|told|untold|lent|lends?|(?<!round )trips?(?! counts?\b)|shelf|manieth|reversals?|beside"
    r"|nearby|ways? back|closer look|own (?:elements|arrays|copies)|(?:be|is|are) alike|put in line|read in line"
    r"|arrays that change|computer's memory)\b",
    re.IGNORECASE,
)
WRITTEN_FILES = [*PYTHON_FILES, *sorted((ROOT / "tests").rglob("*.py"))]


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings of a file, each with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def defined_names(path: Path) -> Iterator[tuple[int, str]]:
    """The names that a file gives to things, each with its line, and that of the file itself."""
    yield 0, path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def test_the_first_line_of_a_docstring_is_a_noun_phrase_or_an_imperative():
    def fault(path: Path) -> str:
        return ", ".join(f"line {line}" for line, text in docstrings(path) if re.match(r"(What|Whether)\b", text))

    assert not offenders(WRITTEN_FILES, fault)


def test_comments_begin_with_a_noun_phrase_or_an_imperative():
    def fault(path: Path) -> str:
        lines = enumerate(path.read_text().splitlines(), 1)
        starts = re.compile(r"\s*(#|//) (What|Whether)\b")
        return ", ".join(f"line {line}" for line, text in lines if starts.match(text))

    assert not offenders([*PYTHON_FILES, *sorted((ROOT / "cuda/device").rglob("*.cuh"))], fault)


def test_names_and_docstrings_use_the_terms_of_the_glossary():
    def fault(path: Path) -> str:
        names = defined_names(path) if path in PYTHON_FILES else [(0, path.stem)]  # names of tests are sentences
        names = ((line, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()) for line, name in names)
        found = [f"{line}: {name}" for line, name in names if PRIVATE_NAME.search(name)]
        found += [f"{line}: '{m[0]}'" for line, text in docstrings(path) if (m := PRIVATE_WORD.search(text))]
        return ", ".join(found)

    assert not offenders(WRITTEN_FILES, fault)
    assert PRIVATE_NAME.search("lone_loops") and PRIVATE_NAME.search("way_back") and not PRIVATE_NAME.search("alone")
    assert PRIVATE_WORD.search("Trips of a loop.") and not PRIVATE_WORD.search("The trip count.")


def test_no_marker_of_a_conflict_is_left():
    files = [*WRITTEN_FILES, *sorted((ROOT / "docs").rglob("*.md")), *ROOT.glob("*.md")]
    markers = re.compile(r"^(<{7}|>{7}) \S", re.MULTILINE)
    assert not offenders(files, lambda path: "a marker" if markers.search(path.read_text()) else "")


def test_no_folder_has_the_name_of_a_public_function():
    folders = {path.parent.name: path.parent for path in PYTHON_FILES if path.parent.name != "jwarp"}
    assert [str(folders[name]) for name in folders if callable(getattr(jwarp, name, None))] == []


def test_no_file_name_occurs_in_more_than_three_folders():
    folders = defaultdict(list)
    for path in PYTHON_FILES:
        folders[path.name].append(str(path.parent.relative_to(ROOT)))
    excepted = ("__init__.py", "__main__.py")
    assert {name: found for name, found in folders.items() if len(found) > 3 and name not in excepted} == {}


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


def test_an_example_is_a_lesson_of_at_most_200_lines():
    def fault(path: Path) -> str:
        lines = len(path.read_text().splitlines())
        return f"{lines} lines" if lines > 200 else ""

    examples = sorted((ROOT / "examples").rglob("*.py"))
    assert len(examples) > 5
    assert not offenders(examples, fault)


def test_what_tests_import_is_there():
    """A file that moved is found here, before any test of it runs."""

    def fault(path: Path) -> str:
        missing = []
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jwarp":
                try:
                    module = importlib.import_module(node.module)
                except ModuleNotFoundError:
                    missing.append(node.module)
                    continue
                names = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                missing += [f"{node.module}.{n}" for n in names if not importlib.util.find_spec(f"{node.module}.{n}")]
        return ", ".join(missing)

    assert not offenders(sorted((ROOT / "tests").rglob("*.py")), fault)
