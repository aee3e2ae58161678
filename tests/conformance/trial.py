"""Tries every kernel of one module of warp-lang's, and says what came of it."""

from __future__ import annotations

import collections
import dataclasses
import importlib.machinery
import importlib.util
import json
import signal
import sys
import time
import unittest.mock
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ids
import numpy as np
import warp
from arguments import assign, kept, randomized
from comparing import (
    Outcome,
    Refused,
    WarpSide,
    arguments,
    compare,
    read,
    run_in_blocks,
    run_in_place,
    run_jwarp,
    unmet_expectation,
    warp_refuses,
    wrote_nothing,
)
from compiling import Compiled, adjoint, forward
from recording import SIZES, TEST_SECONDS, Launch, OverLimit, made_up, name_of, record, time_limit
from strict import Undefined, run_strictly

import jwarp
from jwarp.compiler.program import program_of
from jwarp.config import config
from jwarp.frontend.kernel_base import Kernel

STEPS = ("forward", "adjoint", "launch")
INSTANCES = 2  # of a kernel that a factory makes, each with other values; of a generic one of Warp's, more
# Seconds of the processor. Past the second limit, the process ends: it may be in code that no exception gets out of.
COMPILE_SECONDS, HARD_COMPILE_SECONDS = 60, 180
RUN_SECONDS = 120
WARP_COMPILE_SECONDS = 1200
DEFINED_SECONDS = 60
ORACLE_SECONDS = 10
ORACLE_THREADS = 1 << 14
ABSENT = ("pxr", "torch", "cupy", "mpi4py", "nccl", "nvshmem")  # what examples import and their kernels do not need


def undefined(kernel: Kernel, launch: Launch) -> str:
    """Why Warp need not survive the launch, or what it gives depends on the order of the threads; or nothing."""
    if any(ids.kinds_of(launch.args)) and not launch.made_up:
        return ""  # searches take the interpreter long, and Warp's tests run such launches
    if np.prod(launch.dims) > ORACLE_THREADS:
        return "too many threads to be sure" if launch.made_up else ""
    args = [np.asarray(a) for a in arguments(kernel, launch)]
    args = [a if p.is_array else a.astype(p.dtype.dtype) for p, a in zip(kernel.params, args, strict=False)]
    try:
        with time_limit(ORACLE_SECONDS), np.errstate(all="ignore"):
            program, geometry = program_of(kernel, config.settings).arranged(launch.threads, launch.block_dim)
            run_strictly(program.kernel, geometry.dims, args)
    except Undefined as error:
        return str(error)
    except OverLimit:
        return "the launch does not end"
    return ""


def variants(launch: Launch) -> Iterator[Launch]:
    """The launch as it is, and with other numbers."""
    yield launch
    rng = np.random.default_rng(zlib.crc32(launch.name.encode()))
    args = [randomized(a, rng) for a in launch.args]
    if not launch.made_up:
        yield dataclasses.replace(launch, args=args, made_up=True)


@dataclass(frozen=True)
class Past:
    """The findings of other processes: names of tests and kernels to skip.

    `broken` are those of kernels and tests at which a process ended, `done` those of kernels with nothing left to do,
    `compiled` those of kernels that have yet to be compared.
    """

    broken: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()
    compiled: frozenset[str] = frozenset()

    def after(self, rows: list[dict], job: str, steps: tuple[str, ...]) -> Past:
        """With what `rows` say: of kernels that other jobs have tried, and of what this one did before it ended."""
        elsewhere = collections.Counter(r["name"] for r in rows if r["job"] != job and r["step"] == "forward")
        most = 1 if job.endswith("(rest)") else INSTANCES
        untold = _untold(rows) if "launch" in steps else set()
        done = {name for name, count in elsewhere.items() if count >= most} - untold
        own = [r for r in rows if r["job"] == job]
        seen = {r["name"] for r in own if r["step"] == "forward"}
        bad = {r["name"] for r in own if r["step"] == "forward" and r["verdict"] != "compiled"}
        compared = {r["name"] for r in own if r["step"] == "launch"}
        finished = bad | compared if "launch" in steps else seen
        compiled = (seen | untold) - finished
        return dataclasses.replace(self, done=self.done | done | finished, compiled=frozenset(compiled))


def _untold(rows: list[dict]) -> set[str]:
    """The names of kernels whose launches, all that were compared, changed no array: one may that is yet to come."""
    compared = [(r["name"], r["verdict"] == "vacuous") for r in rows if r["step"] == "launch"]
    return {name for name, vacuous in compared if vacuous} - {name for name, vacuous in compared if not vacuous}


@dataclass(frozen=True)
class Options:
    """Which steps to do with which kernels: `share` (k, n) means every n-th by a hash of the name, beginning with k."""

    library: str = "Warp"
    steps: tuple[str, ...] = STEPS
    share: tuple[int, int] = (0, 1)
    past: Past = Past()

    def wants(self, name: str) -> bool:
        which, count = self.share
        left = self.past.broken | self.past.done
        return name not in left and zlib.crc32(name.encode()) % count == which


class Trial:
    """The kernels of one module. What came of each step with a kernel goes to `log` as soon as it is known.

    Steps are `forward` and `adjoint`, which compile, and `launch`, which compares.
    """

    def __init__(self, module: str, log: Path, options: Options):
        self.module, self.options = module, options
        self.log = log.open("a")
        self.read: dict[Any, Kernel | Outcome] = {}
        self.compiles: dict[Any, bool] = {}

    def begin(self, name: str, step: str, limit: float, reason: str = "") -> None:
        """Say what is done now, as the last word of a process that ends; it ends when that takes too long."""
        signal.setitimer(signal.ITIMER_VIRTUAL, limit)
        self.write({"name": name, "step": step, "verdict": "begun", "reason": reason, "limit": limit})

    def begin_test(self, name: str) -> bool:
        """Note the beginning of a test; True if it is to be run."""
        if name not in self.options.past.broken:
            self.begin(name, "test", 3 * TEST_SECONDS)
        return name not in self.options.past.broken

    def end_test(self, name: str, reason: str) -> None:
        if reason:
            self.write({"name": name, "step": "test", "verdict": "warp", "reason": reason})

    def say(self, name: str, outcome: Outcome, **more: Any) -> None:
        self.write({"name": name, "step": "launch", **dataclasses.asdict(outcome), **more})

    def failed(self, error: Exception) -> None:
        """Say that the module cannot be tried further."""
        self.write(
            {"name": self.module, "step": "test", "verdict": "warp", "reason": f"{type(error).__name__}: {error}"}
        )

    def note(self, kernel: Any, step: str, found: Compiled) -> None:
        line = kernel.func.__code__.co_firstlineno
        self.write({"name": name_of(kernel), "line": line, "step": step, **dataclasses.asdict(found)})

    def write(self, row: dict) -> None:
        self.log.write(json.dumps({"library": self.options.library, **row}) + "\n")
        self.log.flush()

    def compiled(self, kernel: Any, launch: Launch | None) -> bool:
        """Compile the kernel and its adjoint, once per kernel, and note the outcomes; True if the kernel compiles."""
        if kernel not in self.compiles:
            before = name_of(kernel) in self.options.past.compiled
            self.compiles[kernel] = before or self.compile(kernel, launch, self.named(kernel, launch))
        return self.compiles[kernel]

    def named(self, kernel: Any, launch: Launch | None) -> list[Any]:
        """The arguments of a launch; where there is none, numbers of meshes, trees and grids that the kernel takes."""
        if launch is not None:
            return launch.args
        if not kernel.is_generic and isinstance(self.kernel(kernel), Outcome):
            for args in ids.candidates(kernel):
                if not isinstance(self.kernel(kernel, args), Outcome):
                    return args
        return []

    def compile(self, kernel: Any, launch: Launch | None, args: list[Any]) -> bool:
        dims, block_dim = (launch.threads, launch.block_dim) if launch is not None else ((), None)
        if kernel.is_generic:
            self.note(kernel, "forward", Compiled("warp", "generic, and not launched", 0.0))
            return False

        def first() -> Compiled:
            start = time.process_time()
            made = self.kernel(kernel, args)
            reading = time.process_time() - start
            if isinstance(made, Outcome):
                return Compiled(made.verdict, made.reason, reading)
            found = forward(made, dims, block_dim)
            return dataclasses.replace(found, seconds=found.seconds + reading)

        found = self.limited(kernel, "forward", first)
        if found.verdict == "compiled" and "adjoint" in self.options.steps:
            made = self.kernel(kernel, args)
            assert not isinstance(made, Outcome)
            self.limited(kernel, "adjoint", lambda: adjoint(made, dims, block_dim))
        return found.verdict == "compiled"

    def limited(self, kernel: Any, step: str, made: Callable[[], Compiled]) -> Compiled:
        """Compile and note the outcome; `over limit` where it takes too long."""
        self.begin(name_of(kernel), step, HARD_COMPILE_SECONDS)
        try:
            with time_limit(COMPILE_SECONDS):
                found = made()
        except OverLimit:
            found = Compiled("over limit", f"takes more than {COMPILE_SECONDS} s", COMPILE_SECONDS)
        self.note(kernel, step, found)
        return found

    def kernel(self, kernel: Any, args: Sequence[Any] = ()) -> Kernel | Outcome:
        """jwarp's kernel, for the meshes, trees and grids among the arguments."""
        key = (kernel, ids.kinds_of(args))
        if key not in self.read:
            made = read(*key)
            if isinstance(made, Outcome) and ": " in made.reason and not kernel.is_generic and warp_refuses(kernel):
                made = Outcome("warp", "Warp refuses it, too")
            self.read[key] = made
        return self.read[key]

    def stand_in(self, launch: Launch, given: list[Any]) -> None:
        """Give a launch jwarp's results while the module's tests run, so that they go on."""
        if "launch" not in self.options.steps or launch.name in self.options.past.broken:
            return
        self.begin(launch.name, "launch", RUN_SECONDS, "in jwarp")
        kernel = self.kernel(launch.kernel, launch.args)
        if isinstance(kernel, Outcome) or run_in_place(kernel, launch):
            return
        # Arrays that share memory in part: copies have the results.
        copies = dataclasses.replace(launch, args=[kept(a) for a in given])
        results = run_jwarp(kernel, copies)
        if not isinstance(results, Outcome):
            for argument, group, target in zip(kernel.signature, kernel.groups, given, strict=False):
                if not results.keys().isdisjoint(group):
                    assign(argument.type, target, map(results.get, group))

    def run(self) -> None:
        kernels, launches = record(self.module, self)
        launched = {launch.name for launch in launches}
        rng = np.random.default_rng(zlib.crc32(self.module.encode()))
        launches = [x for x in launches if self.options.wants(x.name) and self.compiled(x.kernel, x)]
        for kernel in kernels:
            if name_of(kernel) not in launched and self.options.wants(name_of(kernel)):
                launched.add(name_of(kernel))
                launches += self.alone(kernel, rng)
        if "launch" in self.options.steps:
            self.compare_all(launches)

    def alone(self, kernel: Any, rng: np.random.Generator) -> list[Launch]:
        """A launch with arguments made up of a kernel that no test launches, if there is one."""
        if not self.compiled(kernel, None) or "launch" not in self.options.steps:
            return []
        args = self.named(kernel, None)
        made = self.kernel(kernel, args)
        assert not isinstance(made, Outcome)
        self.begin(name_of(kernel), "launch", RUN_SECONDS, "in the interpreter")
        try:
            with time_limit(DEFINED_SECONDS):
                return [self.defined(kernel, made, rng, args)]
        except (Exception, OverLimit) as error:
            self.say(name_of(kernel), Outcome("warp", f"no arguments: {error}"))
            return []

    def defined(self, kernel: Any, made: Kernel, rng: np.random.Generator, args: list[Any]) -> Launch:
        """A launch with made up arguments that has one result, if one is found."""
        for sizes in SIZES:
            launch = made_up(kernel, made.ir().tid_dims, sizes, rng)
            for place in [u for u, value in enumerate(args) if value is not None]:
                launch.args[place] = args[place]
            if not undefined(made, launch):
                break
        return launch

    def compare_all(self, launches: list[Launch]) -> None:
        ready = []
        for launch in launches:
            kernel = self.kernel(launch.kernel, launch.args)
            if isinstance(kernel, Outcome):
                self.say(launch.name, kernel)
                continue
            ready.append((launch, kernel))
        self.begin(f"{self.module}, compiled by Warp", "test", WARP_COMPILE_SECONDS)
        together = WarpSide(list(dict.fromkeys(x.kernel for x, _ in ready)), f"conformance_{self.module}")
        agreed: set[Any] = set()
        for launch, kernel in ready:
            if launch.kernel in agreed:
                continue
            side = together
            if together.failure:
                self.begin(launch.name, "launch", WARP_COMPILE_SECONDS, "compiled by Warp")
                side = WarpSide([launch.kernel], f"conformance_{self.module}_{len(self.read)}_{id(launch)}")
            if side.failure:
                self.say(launch.name, Outcome("warp", side.failure))
                continue
            outcome = self.tried(kernel, launch, side)
            if outcome.verdict == "agree":
                agreed.add(launch.kernel)
            self.say(launch.name, outcome, made_up=launch.made_up, generic=_is_generic(launch))

    def tried(self, kernel: Kernel, launch: Launch, side: WarpSide) -> Outcome:
        """The outcome of all variants of one launch: the first that does not agree, or agreement."""
        best = Outcome("warp", "never tried")
        for variant in variants(launch):
            self.begin(launch.name, "launch", RUN_SECONDS, "in the interpreter")
            try:
                if reason := undefined(kernel, variant):
                    best = Outcome("warp", reason) if best.verdict == "warp" else best
                    continue
            except Refused as error:
                return Outcome("refused", str(error))
            except Exception as error:
                if not isinstance(run_jwarp(kernel, variant), Outcome):
                    return Outcome("fault", f"interpreter: {type(error).__name__}: {error}")
            self.begin(launch.name, "launch", RUN_SECONDS, "in jwarp")
            got = run_jwarp(kernel, variant)
            if isinstance(got, Outcome):
                if got.verdict == "warp" and best.verdict != "warp":
                    continue
                return got
            self.begin(launch.name, "launch", RUN_SECONDS, "in Warp")
            expected = side.run(variant)
            if isinstance(expected, Outcome):
                return expected
            self.begin(launch.name, "launch", RUN_SECONDS, "in jwarp")
            outcome = compare(kernel, variant, expected, got)
            if outcome.verdict == "disagree" and variant.blocks > 1:  # on processors, Warp's blocks have one lane
                expected = run_in_blocks(variant)
                outcome = expected if isinstance(expected, Outcome) else compare(kernel, variant, expected, got)
            if outcome.verdict == "disagree" and self.agrees_in_order(kernel, variant, expected):
                best = Outcome("order", "agrees where threads take places in the order of their numbers")
                continue
            if outcome.verdict != "agree":
                return outcome
            expects = "expect_" in launch.kernel.adj.source and not variant.made_up
            if expects and (reason := unmet_expectation(kernel, variant)):
                return Outcome("disagree", reason)
            if expects or not wrote_nothing(kernel, variant, expected):
                best = outcome
            elif best.verdict == "warp":
                best = Outcome("vacuous", "no array changes")
        return best

    def agrees_in_order(self, kernel: Kernel, launch: Launch, expected: list[Any]) -> bool:
        """True if jwarp agrees with Warp where both run the threads one after the other.

        Places in a counter go to threads in no order that either side promises.
        """
        with jwarp.config(deterministic=True):
            got = run_jwarp(kernel, launch)
        return not isinstance(got, Outcome) and compare(kernel, launch, expected, got).verdict == "agree"


def _is_generic(launch: Launch) -> bool:
    return launch.kernel.generic_parent is not None


def run_trial(module: str, log: Path, options: Options) -> None:
    """Try all kernels of `module` in this process."""
    import jax

    jax.config.update("jax_enable_x64", True)
    warp.config.enable_backward = False
    ids.watch()
    if module.startswith("warp.examples."):
        for name in ABSENT:
            if importlib.util.find_spec(name) is None:
                specification = importlib.machinery.ModuleSpec(name, None)
                sys.modules[name] = unittest.mock.MagicMock(__spec__=specification)
    trial = Trial(module, log, options)
    try:
        trial.run()
    except Exception as error:
        trial.failed(error)
