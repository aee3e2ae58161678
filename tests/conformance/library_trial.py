"""Tries the kernels that some tests of a library launch: compiles them and their adjoints, and compares with Warp."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import trial
import warp
from comparing import Outcome, read
from libraries import Library
from recording import Launch, Recorder, kernels_of, name_of, record_tests

INSTANCES = 4  # of a kernel that a factory makes, each with other values
TEST_SECONDS = 10


class LibraryTrial(trial.Trial):
    """The kernels that the tests `names` of a module launch; without any, those that no test has launched."""

    def __init__(self, library: Library, names: list[str], *args: Any):
        super().__init__(*args)
        self.package, self.names = library, names

    def run(self) -> None:
        recorder = Recorder(self.stand_in, key=lambda kernel: (kernel,), most=INSTANCES)
        if self.names:
            record_tests(self.module, self.names, recorder, TEST_SECONDS)
        else:
            self.package.import_all()
        ours = f"{self.package.package}."
        launches = [x for x in recorder.launches.values() if x.name.startswith(ours) and x.name not in self.skipped]
        launches = [x for x in launches if self.compiled(x.kernel, x)]
        if not self.names:
            for kernel in kernels_of(self.package.package):
                if name_of(kernel) not in self.skipped:
                    launches += self.alone(kernel, np.random.default_rng(zlib.crc32(name_of(kernel).encode())))
        if "launch" in self.steps:
            self.compare_all(launches)

    def kernel(self, kernel: Any) -> Any:
        if kernel not in self.read:
            self.read[kernel] = read(kernel)
        return self.read[kernel]


def run_library_trial(
    library: Library, module: str, names: list[str], log: Path, skipped: frozenset[str], steps: tuple[str, ...]
) -> None:
    """Try the kernels in this process."""
    import jax

    jax.config.update("jax_enable_x64", True)
    warp.config.enable_backward = False
    made = LibraryTrial(library, names, module, log, skipped, library.name, steps)
    try:
        made.run()
    except Exception as error:
        made.say(f"{module}:", Outcome("warp", f"{type(error).__name__}: {error}"))
