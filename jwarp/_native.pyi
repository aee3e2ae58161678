"""Types of the native module."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from typing_extensions import Buffer

def handlers() -> dict[Literal["instantiate", "execute"], Any]: ...
def cuda_handlers(checks: bool) -> dict[Literal["instantiate", "prepare", "initialize", "execute"], Any]: ...
def register_kernel(fingerprint: str, plan: Buffer, fast: int, checked: int, failures: Sequence[str] = ()) -> None: ...
def known_versions(fingerprint: str) -> tuple[bool, bool]: ...
def set_compiler(callback: Callable[[str, bytes, str], None] | None) -> None: ...
def set_thread_limit(limit: int, *, eager: bool = False) -> None: ...
def ffi_api_version() -> tuple[int, int]: ...
def wire_format() -> dict[str, dict[str, int]]: ...
def run_launch(fingerprint: str, launch: Buffer, operands: Sequence[np.ndarray], threads: int = 1) -> None: ...

class HostLaunch:
    def __init__(
        self,
        fingerprint: str,
        program: bytes,
        launch: Buffer | np.ndarray,
        operands: Sequence[int],
        results: Sequence[int],
    ) -> None: ...
    def __call__(self, arrays: list[np.ndarray]) -> None: ...

class ArrayLaunches:
    def add(
        self,
        dim: object,
        block_dim: object,
        inputs: object,
        outputs: object,
        launch: HostLaunch,
        arrays: list[np.ndarray],
        written: Sequence[int],
        settings: object,
        changes: int,
        tag: object,
    ) -> None: ...

def run_array_launch(
    launches: ArrayLaunches, dim: Any, block_dim: Any, inputs: Any, outputs: Any, tell: Callable[..., Any] | None, /
) -> Any: ...
def set_array_classes(classes: dict[str, Any]) -> None: ...

class HostGraph:
    def __init__(self, steps: Sequence[object]) -> None: ...
    def __call__(self) -> None: ...

class BoundHostLaunch:
    def __init__(
        self,
        fingerprint: str,
        program: bytes,
        launch: Buffer | np.ndarray,
        arrays: Sequence[np.ndarray],
        operands: Sequence[int],
        results: Sequence[int],
        added: Sequence[tuple[int, int]] = (),
    ) -> None: ...
    def __call__(self) -> None: ...
    @property
    def replay(self) -> Callable[[], None]: ...
    def replace(self, arrays: Sequence[tuple[int, np.ndarray]], launch: Buffer | np.ndarray | None = None) -> None: ...

class DeviceLaunch:
    def __init__(
        self,
        *,
        kernel: str,
        entry: str,
        image: bytes,
        plan: Buffer | np.ndarray,
        launch: Buffer | np.ndarray,
        block: int,
        shared: int = 0,
        per_sm: int = 0,
        grid: Sequence[int] = (),
        failures: str = "",
        heap: int = 0,
    ) -> None: ...
    def run(
        self,
        arguments: Sequence[tuple[int | bytes | None, int, Sequence[int]]],
        stream: int = 0,
        device: int = -1,
        keep: object = None,
    ) -> None: ...

class DeviceMemory:
    def __init__(self, bytes: int, stream: int, device: int, name: str) -> None: ...
    @property
    def address(self) -> int: ...
    def fill(self, target: int, source: int, bytes: int) -> None: ...
    def wait(self) -> None: ...

class DeviceArray:
    def __init__(self, capsule: object) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def device(self) -> int: ...
    @property
    def dtype(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def read_only(self) -> bool: ...

def cuda_capability(device: int) -> tuple[int, int]: ...
