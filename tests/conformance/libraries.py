"""The libraries whose kernels are tried: where their kernels and their tests are, and how they are installed."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
INSTALL = "pip install -e '.[conformance]'"


@dataclass(frozen=True)
class Library:
    """A package whose kernels are found by running its tests, those that `reaching` lists."""

    name: str
    package: str
    tests: str  # a glob, from the folder of the package
    apart: tuple[str, ...] = ()  # parts of the names of modules that are no part of the library proper

    @property
    def root(self) -> Path:
        """The folder of the package."""
        specification = importlib.util.find_spec(self.package)
        assert specification is not None and specification.origin is not None
        return Path(specification.origin).parent

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None

    @property
    def reaching(self) -> Path:
        """The file that lists tests which together launch all kernels."""
        return HERE / f"reaching_{self.package}.txt"

    def test_modules(self) -> list[str]:
        """The modules of the tests, by name."""
        paths = sorted(self.root.glob(self.tests))
        return [".".join((self.package, *p.relative_to(self.root).with_suffix("").parts)) for p in paths]

    def reached(self) -> dict[str, list[str]]:
        """The tests that are listed, by module."""
        modules = sorted(self.test_modules(), key=len, reverse=True)
        found: dict[str, list[str]] = {}
        for test in self.reaching.read_text().splitlines():
            module = next((m for m in modules if test.startswith(f"{m}.")), None)
            if module is not None:
                found.setdefault(module, []).append(test)
        return found

    def import_all(self) -> None:
        """Import every module that can be, except tests and examples."""
        for info in pkgutil.walk_packages([str(self.root)], f"{self.package}.", onerror=lambda name: None):
            if not any(part in info.name for part in (".tests", "_test", ".examples", "__main__", *self.apart)):
                with contextlib.suppress(Exception, SystemExit):
                    importlib.import_module(info.name)


MUJOCO_WARP = Library("mujoco_warp", "mujoco_warp", "_src/*_test.py", ("collision_sdf.",))
NEWTON = Library("Newton", "newton", "tests/**/test_*.py")
LIBRARIES = (MUJOCO_WARP, NEWTON)


def definitions(root: Path, pattern: str = "**/*.py") -> set[tuple[str, int]]:
    """File and line of every function in the text of a package that is decorated as a kernel."""
    found = set()
    for path in root.glob(pattern):
        text = path.read_text(errors="replace")
        if ".kernel" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef) and any(map(_is_kernel, node.decorator_list)):
                    found.add((str(path), node.lineno))
    return found


def _is_kernel(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(function, ast.Attribute) and function.attr == "kernel"
