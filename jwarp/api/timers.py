"""Reports of running programs: `wp.ScopedTimer`, the logger that it and others write to, CUDA's activities."""

from __future__ import annotations

import builtins
import cProfile
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Protocol, runtime_checkable

from jwarp.config import config, surface
from jwarp.devices import Device

LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR = 10, 20, 30, 40

# The values of `cuda_filter` of timers: kinds of activities of CUDA.
TIMING_KERNEL, TIMING_KERNEL_BUILTIN, TIMING_MEMCPY, TIMING_MEMSET, TIMING_GRAPH = 1, 2, 4, 8, 16
TIMING_ALL = 0xFFFFFFFF


@runtime_checkable
class Logger(Protocol):
    """The argument of `wp.set_logger`: an object with these four methods.

    With `stacklevel`, `warnings.warn` in the method itself names the line that the warning is about.
    """

    def debug(self, message: str) -> None: ...

    def info(self, message: str) -> None: ...

    def warning(self, message: str, category: type[Warning] | None = None, stacklevel: int = 1) -> None: ...

    def error(self, message: str) -> None: ...


class _Printer:
    """The logger that there is at first: standard output, and warnings as Python shows them."""

    def debug(self, message: str) -> None:
        print(message)

    def info(self, message: str) -> None:
        print(message)

    def warning(self, message: str, category: type[Warning] | None = None, stacklevel: int = 1) -> None:
        if not surface.is_warps:
            warnings.warn(message, category, stacklevel=stacklevel)
            return
        with warnings.catch_warnings():  # which has each shown, as far as filters let it
            warnings.showwarning = _show_as_warp
            warnings.warn(message, category, stacklevel=stacklevel)

    def error(self, message: str) -> None:
        print(f"Warp Error: {message}" if surface.is_warps else message, file=sys.stderr)


def _show_as_warp(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *more: Any, **named: Any
) -> None:
    place = f" ({filename}:{lineno})" if config.of_warp["verbose_warnings"] else ""
    print(f"Warp {category.__name__}: {message}{place}", file=sys.stderr)


_printer = _Printer()
_logger: Logger = _printer


def get_logger() -> Logger:
    """The current logger."""
    return _logger


def set_logger(logger: Logger | None) -> None:
    """Set the logger; None for the default one, which prints.

    Raises:
        TypeError: The object lacks one of the methods debug, info, warning and error.
    """
    global _logger
    methods = ("debug", "info", "warning", "error")
    if logger is not None and not all(callable(getattr(logger, name, None)) for name in methods):
        raise TypeError(f"wp.set_logger: a logger has the methods {', '.join(methods)}; {type(logger)!r} does not")
    _logger = _printer if logger is None else logger


class ScopedLogger:
    """`with wp.ScopedLogger(logger):` uses another logger; a TypeError if it is not a logger."""

    def __init__(self, logger: Logger | None) -> None:
        self.logger = logger

    def __enter__(self) -> ScopedLogger:
        self._before = get_logger()
        set_logger(self.logger)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        global _logger
        _logger = self._before


class ScopedLogLevel:
    """`with wp.ScopedLogLevel(wp.LOG_WARNING):` sets `wp.config.log_level` inside the block."""

    def __init__(self, log_level: int) -> None:
        self.log_level = log_level

    def __enter__(self) -> ScopedLogLevel:
        self._before = config.log_level
        config.log_level = self.log_level
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        config.log_level = self._before


@dataclass(frozen=True)
class TimingResult:
    """The duration of an activity on a CUDA device, in milliseconds."""

    device: Device
    name: str
    filter: int
    elapsed: float


def timing_begin(cuda_filter: int = TIMING_ALL, synchronize: bool = True) -> None:
    """Start to collect activities of CUDA devices. The host has none."""


def timing_end(synchronize: bool = True) -> list[TimingResult]:
    """The activities of CUDA devices since `timing_begin`: none."""
    return []


def timing_print(results: list[TimingResult], indent: str = "") -> None:
    """Print activities, one per line."""
    if not results:
        print(f"{indent}No activity")
    for result in results:
        print(f"{indent}{result.elapsed:12.6f} ms  {result.device}  {result.name}")


class ScopedTimer:
    """`with wp.ScopedTimer(name):` prints and records the time of the block, in milliseconds.

    The time is in `elapsed`, and is appended to `dict[name]` if `dict` is given. `extra_msg` is printed after it. With
    `detailed`, cProfile times the functions. Inside a tape, the block is a scope of the tape, unless `skip_tape`.
    """

    enabled: ClassVar[bool] = True
    _depth: ClassVar[Any] = threading.local()

    def __init__(
        self,
        name: str,
        active: bool = True,
        print: bool = True,
        detailed: bool = False,
        dict: builtins.dict[str, list[float]] | None = None,
        use_nvtx: bool = False,
        color: int | str = "rapids",
        synchronize: bool = False,
        cuda_filter: int = 0,
        report_func: Callable[[list[TimingResult], str], None] | None = None,
        skip_tape: bool = False,
    ) -> None:
        self.name = name
        self.active = active and self.enabled
        self.print, self.detailed, self.dict = print, detailed, dict
        self.use_nvtx, self.color = use_nvtx, color
        self.synchronize, self.cuda_filter, self.skip_tape = synchronize, cuda_filter, skip_tape
        self.report_func = report_func or timing_print
        self.elapsed = 0.0
        self.extra_msg = ""
        self.timing_results: list[TimingResult] = []
        if dict is not None:
            dict.setdefault(name, [])

    def __enter__(self) -> ScopedTimer:
        if self.active:
            if self.detailed:
                self._profile = cProfile.Profile()
                self._profile.enable()
            if self.print:
                ScopedTimer._depth.value = getattr(ScopedTimer._depth, "value", -1) + 1
                if config.log_level <= LOG_DEBUG:
                    get_logger().debug(f"{self._indent}{self.name} ...")
            self._start = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if not self.active:
            return
        self.elapsed = (time.perf_counter_ns() - self._start) / 1e6
        if self.detailed:
            self._profile.disable()
            self._profile.print_stats(sort="tottime")
        if self.dict is not None:
            self.dict[self.name].append(self.elapsed)
        if self.print:
            behind = f" {self.extra_msg}" if self.extra_msg else ""
            get_logger().info(f"{self._indent}{self.name} took {self.elapsed:.2f} ms{behind}")
            ScopedTimer._depth.value -= 1

    @property
    def _indent(self) -> str:
        return "    " * ScopedTimer._depth.value
