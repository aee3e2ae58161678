"""Finds the kernels of a Python module of warp-lang's, and launches for them to be tried with."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import importlib
import inspect
import io
import os
import signal
import sys
import unittest
import unittest.mock
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import warp
from arguments import changed, kept, randomized, sizes
from warp._src import types as warp_types
from warp._src.codegen import Struct

MAX_SIGNATURES = 8  # launches kept of one kernel, each with other argument types
MAX_SIZE = 1 << 18  # threads, and elements of an array
TEST_SECONDS = 30
MAX_TRIPS = 20
MAX_LOOKS = 64  # launches of a kernel that are looked at until one changes an array
LAUNCH = inspect.signature(warp.launch)  # before anything stands in for it


class OverLimit(BaseException):
    """Something takes too long. What is under way does not catch it as an error of its own."""


@dataclass
class Launch:
    """One launch of a kernel: what `warp.launch` was given, with arrays as copies of their own."""

    kernel: Any
    dims: tuple[int, ...]
    args: list[Any]
    made_up: bool = False
    blocks: int = 0  # threads of a block of `warp.launch_tiled`: `dims` are then those of the blocks

    @property
    def name(self) -> str:
        return name_of(self.kernel)

    @property
    def threads(self) -> tuple[int, ...]:
        """The threads of jwarp's launch."""
        return (*self.dims, self.blocks) if self.blocks else self.dims

    @property
    def block_dim(self) -> int:
        """Threads of a block in jwarp. Those of other launches have one, as Warp's on processors."""
        return self.blocks or 1

    @property
    def threads_of_warp(self) -> tuple[int, ...]:
        """The threads of Warp's launch."""
        return (*self.dims, 1) if self.blocks else self.dims

    @property
    def too_large(self) -> bool:
        elements = [size for a in self.args for size in sizes(a)]
        return max([int(np.prod(self.dims)), *elements]) > MAX_SIZE


def name_of(kernel: Any) -> str:
    """A kernel of Warp's by the module and the name of its function."""
    return f"{kernel.func.__module__.removeprefix('warp.')}:{kernel.func.__qualname__}"


class Watch(Protocol):
    """The observer of tests that run, and of their launches."""

    def begin_test(self, name: str) -> bool: ...
    def end_test(self, name: str, reason: str) -> None: ...
    def stand_in(self, launch: Launch, given: list[Any]) -> None: ...


class Recorder:
    """Stands in for `warp.launch` while the tests of a module run."""

    def __init__(self, stand_in: Any, key: Any = None, most: int = MAX_SIGNATURES):
        self.most = most  # launches kept of one kernel
        self.key = key or _signature  # launches that have it in common are alike: one is kept
        self.launches: dict[tuple, Launch] = {}  # the first of each key
        self.later: dict[tuple, Launch] = {}  # one more: by then, arrays may hold more than zeros
        self.telling: dict[tuple, Launch] = {}  # the first that changes an array
        self.counts: collections.Counter = collections.Counter()
        self.stand_in = stand_in  # what a launch does instead, so that a test can go on

    def launch(self, kernel: Any, dim: Any = 0, inputs: Any = (), outputs: Any = (), *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("record_cmd"):
            return _Command(self, kernel, dim, inputs, outputs)
        if kwargs.get("adjoint") or not isinstance(kernel, warp.Kernel):
            return None
        self._launch(kernel, _dims(dim), [*inputs, *outputs], 0)
        return None

    def launch_tiled(self, *args: Any, **kwargs: Any) -> Any:
        given = LAUNCH.bind(*args, **kwargs).arguments
        if not given.get("adjoint") and isinstance(given["kernel"], warp.Kernel):
            arrays = [*given.get("inputs", ()), *given.get("outputs", ())]
            self._launch(given["kernel"], _dims(given["dim"]), arrays, max(1, given.get("block_dim") or 256))

    def _launch(self, kernel: Any, dims: tuple[int, ...], given: list[Any], blocks: int) -> None:
        if kernel.is_generic:
            kernel = kernel.add_overload(kernel.infer_argument_types(given))
        launch = Launch(kernel, dims, given, blocks=blocks)
        key = (launch.name, *self.key(kernel))
        before = sum(k[0] == launch.name for k in self.launches)
        self.counts[key] += 1
        wanted = key in self.launches or before < self.most
        number = self.counts[key]
        looked_at = key not in self.telling and number <= MAX_LOOKS
        if not wanted or launch.too_large or 0 in dims or not (looked_at or number.bit_count() == 1):
            self.stand_in(launch, given)
            return
        launch = dataclasses.replace(launch, args=[kept(a) for a in given])
        if number.bit_count() == 1:
            kept_here = self.later if key in self.launches else self.launches
            kept_here[key] = launch
        self.stand_in(dataclasses.replace(launch, args=given), given)
        if looked_at and any(map(changed, launch.args, given)):
            self.telling[key] = launch

    def of(self, key: tuple) -> list[Launch]:
        """The launches that are kept of those that have `key` in common."""
        found = [group.get(key) for group in (self.launches, self.later, self.telling)]
        return [x for n, x in enumerate(found) if x is not None and not any(x is y for y in found[:n])]

    def patched(self) -> contextlib.ExitStack:
        """While it is entered, launches come here, and what would be captured happens at once."""
        stack = contextlib.ExitStack()
        instead = {
            "launch": self.launch,
            "launch_tiled": self.launch_tiled,
            "capture_begin": _nothing,
            "capture_end": _nothing,
            "capture_launch": _nothing,
            "capture_while": _few_trips,
        }
        for module in (warp, warp._src.context):
            for name, made in instead.items():
                stack.enter_context(unittest.mock.patch.object(module, name, made))
        return stack


def _nothing(*args: Any, **kwargs: Any) -> None: ...


def _few_trips(condition: Any, while_body: Any, stream: Any = None, **kwargs: Any) -> None:
    """A loop of launches: at least one iteration, and at most a few, as its launches may not change the condition."""
    for trip in range(MAX_TRIPS):
        if trip and not condition.numpy()[0]:
            break
        while_body(**kwargs)


class _Command:
    """The result of a launch that is only recorded; its method `launch` runs it."""

    def __init__(self, recorder: Recorder, *launched: Any):
        self.recorder, self.launched = recorder, launched

    def launch(self, *args: Any) -> None:
        self.recorder.launch(*self.launched)

    def __getattr__(self, name: str) -> Any:
        raise unittest.SkipTest(f"a recorded launch that is changed by {name}")


def _dims(dim: Any) -> tuple[int, ...]:
    return (int(dim),) if np.ndim(dim) == 0 else tuple(int(d) for d in dim)


def _signature(kernel: Any) -> tuple:
    return tuple(str(t) for t in kernel.adj.arg_types.values())


def record(name: str, watch: Watch) -> tuple[list[Any], list[Launch]]:
    """The kernels of the module `name`, and the launches that its unit tests make."""
    recorder = Recorder(watch.stand_in)
    record_tests(name, None, recorder, watch)
    return kernels_of(name), list(recorder.launches.values())


def record_tests(module: str, names: list[str] | None, recorder: Recorder, watch: Watch) -> None:
    """Run tests of a module, those of `names` or all, with launches as the recorder has them."""
    with _lenient(), _quiet():
        importlib.import_module(module)
        with _nothing_compiled(), recorder.patched():
            for test in _each(unittest.TestLoader().loadTestsFromModule(sys.modules[module])):
                name = test_name(test)
                if (names is None or name in names) and watch.begin_test(name):
                    watch.end_test(name, _try_test(test))


def test_name(test: Any) -> str:
    """The name of a unit test, without the parameters that absl adds."""
    return test.id().split()[0]


def _try_test(test: Any) -> str:
    """Run a test; why it did not come to its end, or nothing. A failure is none."""
    with contextlib.suppress(Exception, SystemExit):
        try:
            with time_limit(TEST_SECONDS):
                test.setUpClass()
                test.setUp()
                getattr(test, test._testMethodName)()
        except OverLimit:
            return f"is cut off after {TEST_SECONDS} s"
    return ""


def kernels_of(name: str) -> list[Any]:
    """The kernels that the module `name` has made."""
    modules = list(warp._src.context.user_modules.values())
    kernels = [k for module in modules for k in list(module._get_live_kernels()) if _is_in(k, name)]
    return sorted(kernels, key=lambda k: (k.func.__qualname__, k.func.__code__.co_firstlineno))


def _is_in(kernel: Any, name: str) -> bool:
    """True if a kernel belongs to the module `name`, or to one in the package of that name."""
    return f"{kernel.func.__module__}.".startswith(f"{name}.")


def _each(suite: Any) -> Iterator[Any]:
    for item in suite:
        yield from _each(item) if isinstance(item, unittest.TestSuite) else (item,)


@contextlib.contextmanager
def _lenient() -> Iterator[None]:
    """Assertions let everything pass: only the launches count here."""
    from warp.tests import unittest_utils

    def passes(*args: Any, **kwargs: Any) -> None: ...

    cases = [
        n
        for n in dir(unittest.TestCase)
        if n.startswith("assert") and not n.startswith(("assertRaises", "assertWarns"))
    ]
    cases = [n for n in cases if n not in ("assertLogs", "assertNoLogs")]
    with contextlib.ExitStack() as stack:
        for owner, names in [
            (unittest.TestCase, cases),
            (np.testing, [n for n in dir(np.testing) if n.startswith("assert_") and n != "assert_raises"]),
            (unittest_utils, [n for n in dir(unittest_utils) if n.startswith("assert_")]),
        ]:
            for name in names:
                stack.enter_context(unittest.mock.patch.object(owner, name, passes))
        yield


@contextlib.contextmanager
def _nothing_compiled() -> Iterator[None]:
    """Warp compiles and differentiates nothing: its own launches do nothing."""

    with (
        unittest.mock.patch.object(warp._src.context.Module, "load", _nothing),
        unittest.mock.patch.object(warp.Tape, "backward", _nothing),
    ):
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    # A real file, as the tests that look at what is printed ask for its number.
    with contextlib.ExitStack() as stack:
        nowhere = stack.enter_context(Path(os.devnull).open("w"))
        stack.enter_context(contextlib.redirect_stdout(nowhere))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        yield


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OverLimit in what takes more seconds of the processor: the machine may be busy with other things."""

    is_over = False

    def stop(*args: Any) -> None:
        nonlocal is_over
        is_over = True
        raise OverLimit

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except Exception:
        if is_over:  # NumPy makes errors of its own of what is raised in a comparison
            raise OverLimit from None
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# -- arguments made up


@dataclass(frozen=True)
class Sizes:
    """Extents of the arrays that are made up, those of one dimension and the others, and of the launch."""

    line: int
    grid: int
    threads: int
    largest: int  # integer among the arguments


# Tried in this order until no index is outside and no two threads meet in one element.
SIZES = (Sizes(7, 7, 7, 6), Sizes(16, 8, 4, 3), Sizes(160, 10, 5, 2), Sizes(16, 8, 1, 3), Sizes(160, 10, 1, 1))


def made_up(kernel: Any, tid_dims: int, extents: Sizes, rng: np.random.Generator) -> Launch:
    """A launch with random arguments."""
    args = [_made_up(t, extents, rng) for t in kernel.adj.arg_types.values()]
    return Launch(kernel, (extents.threads,) * tid_dims, args, made_up=True)


def _made_up(kind: Any, extents: Sizes, rng: np.random.Generator) -> Any:
    whole = int(rng.integers(1, extents.largest + 1))
    if isinstance(kind, Struct):
        made = kind()
        for name, var in kind.vars.items():
            setattr(made, name, _made_up(var.type, extents, rng))
        return made
    if isinstance(kind, (warp_types.indexedarray, warp_types._IndexedArrayAnnotation)):
        data = _made_up(warp.array(dtype=kind.dtype, ndim=kind.ndim), extents, rng)
        rows = [warp.array(rng.permutation(n), dtype=warp.int32, device="cpu") for n in data.shape]
        return warp.indexedarray(data, rows)
    if isinstance(kind, (warp_types.array, warp_types._ArrayAnnotation)):
        shape = (extents.line,) if kind.ndim == 1 else (extents.grid,) * kind.ndim
        return randomized(warp.zeros(shape, dtype=kind.dtype, device="cpu"), rng, extents.largest)
    if kind in (bool, warp_types.bool):
        return True
    if hasattr(kind, "_shape_"):
        floating = kind._wp_scalar_type_ in warp_types.float_types
        count = int(np.prod(kind._shape_))
        return kind(
            *(rng.uniform(0.2, 2.0, count) if floating else rng.integers(1, extents.largest + 1, count)).tolist()
        )
    return kind(float(rng.uniform(0.2, 2.0)) if kind in (float, *warp_types.float_types) else whole)
