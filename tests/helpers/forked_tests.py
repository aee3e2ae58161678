"""Tests of the launcher for CUDA, each in a process of its own with a stand-in for the driver.

The stand-in must not share a process with NVRTC, and the native module keeps the driver that it has found.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from forks import OF_NATIVE, WITH_JWARP, server

TESTS = Path(__file__).parents[1]
NATIVE = "JWARP_TEST_NATIVE"  # names the native module to the process


def build_mock(*defines: str) -> Path:
    """The stand-in as a library, built once for each content."""
    source = TESTS / "cuda" / "mock" / "mock_cuda.cc"
    name = hashlib.sha256(source.read_bytes() + " ".join(defines).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"jwarp-mock-{os.getuid()}-{name}"
    library = folder / "libcuda.so.1"
    if not library.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        own = folder / f"{os.getpid()}.so"
        subprocess.run(
            ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", *defines, str(source), "-o", str(own)], check=True
        )
        own.replace(library)
    return library


def own_process(
    test: Callable[..., None] | None = None, *, defines: Sequence[str] = (), driver: str = "", seconds: int = 120
) -> Any:
    """Runs the test in a process of its own, with the stand-in for the driver or the library `driver`.

    It has imported jwarp, unless the file of the test imports `native`.
    """
    if test is None:
        return functools.partial(own_process, defines=defines, driver=driver, seconds=seconds)

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        if shutil.which("g++") is None:
            pytest.skip("needs g++")
        library = driver or str(build_mock(*defines))
        from jwarp import _native

        file = test.__code__.co_filename
        code = f"from forked_tests import call; call({file!r}, {test.__name__!r}, {arguments!r})"
        modules = OF_NATIVE if "native" in test.__globals__ else WITH_JWARP  # see `native`
        found, text = server(*modules).run(code, {"JWARP_LIBCUDA": library, NATIVE: _native.__file__}, seconds)
        if found:
            pytest.fail(f"the process ended with {found}\n{text}", pytrace=False)

    return run


def call(file: str, name: str, arguments: dict[str, Any]) -> None:
    """Runs test `name` of a file, in the process that was started for it."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    getattr(module, name).__wrapped__(**arguments)


@functools.cache
def native() -> ModuleType:
    """The native module, without the package around it and without JAX."""
    spec = importlib.util.spec_from_file_location("_native", os.environ[NATIVE])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
