"""Tries the kernels that some tests of a library launch: compiles them and their adjoints, and compares with Warp."""

from __future__ import annotations

import collections
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ids
import numpy as np
import trial
import warp
from comparing import read
from libraries import Library
from recording import Launch, Recorder, kernels_of, name_of, record_tests
from trial import INSTANCES


class LibraryTrial(trial.Trial):
    """The kernels that `tests` launch, by module, and with `rest` those that no test has launched."""

    def __init__(self, library: Library, tests: dict[str, list[str]], rest: bool, *args: Any):
        super().__init__(*args)
        self.package, self.tests, self.rest = library, tests, rest

    def run(self) -> None:
        launches: list[Launch] = []
        tried: collections.Counter = collections.Counter()
        for module, names in self.tests.items():
            recorder = Recorder(self.stand_in, key=lambda kernel: (kernel,), most=INSTANCES)
            record_tests(module, names, recorder, self)
            for key, launch in recorder.launches.items():
                wanted = launch.name.startswith(f"{self.package.package}.") and self.options.wants(launch.name)
                if wanted and launch.kernel not in self.compiles and tried[launch.name] < INSTANCES:
                    tried[launch.name] += 1
                    launches += recorder.of(key) if self.compiled(launch.kernel, launch) else []
        if self.rest:
            self.package.import_all()
            for kernel in kernels_of(self.package.package):
                if self.options.wants(name_of(kernel)) and name_of(kernel) not in tried:
                    tried[name_of(kernel)] += 1
                    launches += self.alone(kernel, np.random.default_rng(zlib.crc32(name_of(kernel).encode())))
        if "launch" in self.options.steps:
            self.compare_all(launches)

    def kernel(self, kernel: Any, args: Sequence[Any] = ()) -> Any:
        key = (kernel, ids.kinds_of(args))
        if key not in self.read:
            self.read[key] = read(*key)
        return self.read[key]


def run_library_trial(
    library: Library,
    module: str,
    tests: dict[str, list[str]],
    rest: bool,
    log: Path,
    options: trial.Options,
) -> None:
    """Try the kernels in this process."""
    import jax

    jax.config.update("jax_enable_x64", True)
    warp.config.enable_backward = False
    ids.watch()
    made = LibraryTrial(library, tests, rest, module, log, options)
    try:
        made.run()
    except Exception as error:
        made.failed(error)
