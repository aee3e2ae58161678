"""Tries the kernels that some tests of a library launch: compiles them and their adjoints, and compares with Warp."""

from __future__ import annotations

import dataclasses
import json
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import trial
import warp
from comparing import Outcome, WarpSide, read
from compiling import Compiled, adjoint, forward
from libraries import Library
from recording import Launch, Recorder, kernels_of, name_of, record_tests, time_limit

INSTANCES = 4  # of a kernel that a factory makes, each with other values
TEST_SECONDS = 10
COMPILE_SECONDS = 120
COMPARE_SECONDS = 60


class LibraryTrial(trial.Trial):
    """The kernels that the tests `names` of a module launch; without a module, those that no test has launched.

    Kernels in `known` have been tried enough. With `launches` false they are only compiled.
    """

    def __init__(self, library: Library, module: str, names: list[str], log: Path, known: frozenset[str], launches: bool):
        super().__init__(module, log, known)
        self.library, self.names, self.launches = library, names, launches

    def run(self) -> None:
        recorder = Recorder(self.stand_in if self.launches else _nothing, key=lambda kernel: (kernel,), most=INSTANCES)
        if self.names:
            record_tests(self.module, self.names, recorder, TEST_SECONDS)
        else:
            self.library.import_all()
        ours = f"{self.library.package}."
        launches = [x for x in recorder.launches.values() if f"{x.kernel.func.__module__}.".startswith(ours)]
        launches = [x for x in launches if x.name not in self.skipped]
        ready = [x for x in launches if self.compiled(x.kernel, x)]
        if not self.names:
            for kernel in kernels_of(self.library.package):
                if name_of(kernel) not in self.skipped:
                    self.alone(kernel, ready)
        if self.launches:
            self.compare_all(ready)

    def alone(self, kernel: Any, ready: list[Launch]) -> None:
        """A kernel that no test launches, with arguments made up."""
        if kernel.is_generic:
            self.note(kernel, "forward", Compiled("refused", "generic, and not launched", 0.0))
            return
        if not self.compiled(kernel, None) or not self.launches:
            return
        made = self.kernel(kernel)
        assert not isinstance(made, Outcome)
        try:
            with time_limit(COMPARE_SECONDS):
                ready.append(self.defined(kernel, made, np.random.default_rng(zlib.crc32(made.name.encode()))))
        except Exception as error:
            self.say(name_of(kernel), Outcome("warp", f"no arguments: {error}"), step="launch")

    def compiled(self, kernel: Any, launch: Launch | None) -> bool:
        """Whether the kernel compiles, which is noted, and whether its adjoint does."""
        self.say(name_of(kernel), Outcome("begun", "compiling"))
        dims, block_dim = (launch.threads, launch.block_dim) if launch is not None else ((), None)
        try:
            with time_limit(COMPILE_SECONDS):
                start = time.process_time()
                made = self.kernel(kernel)
                reading = time.process_time() - start
                if isinstance(made, Outcome):
                    self.note(kernel, "forward", Compiled(made.verdict, made.reason, 0.0))
                    return False
                first = forward(made, dims, block_dim)
                first = dataclasses.replace(first, seconds=first.seconds + reading)
                self.note(kernel, "forward", first)
                if first.verdict != "compiled":
                    return False
                self.note(kernel, "adjoint", adjoint(made, dims, block_dim))
        except TimeoutError:
            self.note(kernel, "adjoint", Compiled("fault", f"takes more than {COMPILE_SECONDS} s", 0.0))
        return True

    def kernel(self, kernel: Any) -> Any:
        if kernel not in self.read:
            self.read[kernel] = read(kernel)
        return self.read[kernel]

    def note(self, kernel: Any, step: str, found: Compiled) -> None:
        row = {"name": name_of(kernel), "line": kernel.func.__code__.co_firstlineno, "library": self.library.name}
        self.log.write(json.dumps({**row, "step": step, **dataclasses.asdict(found)}) + "\n")
        self.log.flush()

    def say(self, name: str, outcome: Outcome, **more: Any) -> None:
        super().say(name, outcome, **{"library": self.library.name, "step": "launch", **more})

    def side(self, kernels: list[Any], name: str) -> WarpSide:
        return WarpSide(kernels, name)


def _nothing(launch: Launch, given: list[Any]) -> None: ...


def run_library_trial(
    library: Library, module: str, names: list[str], log: Path, known: frozenset[str], launches: bool
) -> None:
    """Try the kernels in this process."""
    import jax

    jax.config.update("jax_enable_x64", True)
    warp.config.enable_backward = False
    made = LibraryTrial(library, module, names, log, known, launches)
    try:
        made.run()
    except Exception as error:
        made.say(f"{module}:", Outcome("warp", f"{type(error).__name__}: {error}"))
