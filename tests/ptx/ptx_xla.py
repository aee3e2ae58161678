"""XLA:CPU runs programs that were lowered for CUDA: through the library's own handlers, a stand-in for the driver, and
the PTX machine, which runs each launch on XLA's buffers.

For a process of its own (`own_process`), since the library keeps the driver that it has found.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from fake_xla import (
    EXECUTE,
    INSTANTIATE,
    STAGES,
    Error,
    Frame,
    Handler,
    Metadata,
    MetadataExtension,
    Xla,
    XlaError,
    new_capsule,
)
from mock_driver import driver
from ptx_checks import Counts
from ptx_machine import Machine
from ptx_memory import GlobalMemory
from ptx_running import ARCHITECTURE, ptx_of

import jwarp as wp
from jwarp import _native
from jwarp.backend.cuda.shared import room_of
from jwarp.backend.cuda.warpgroups import SM_90
from jwarp.compiler.cuda import CudaKernel
from jwarp.compiler.handwritten import Handwritten

STREAM = 0x101
WIDTHS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 2, 8: 4, 9: 8, 10: 2, 11: 4, 12: 8, 16: 2}  # of XLA's types, in bytes
TARGETS = {"jwarp_cuda_v1": False, "jwarp_cuda_debug_v1": True}


class Device:
    """The buffers of the call that is running, and what went wrong in it."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, int, str, bool]] = []
        self.fault: Exception | None = None
        self.launches: list[str] = []
        self.counts: list[Counts] = []  # of each launch
        self.lock = threading.Lock()

    def memory(self) -> GlobalMemory:
        memory = GlobalMemory()
        for address, size, name, writable in self.pieces:
            if size and not any(p.base == address for p in memory.pieces):
                memory.add_address(address, size, name, writable)
        for address, size in driver().pieces():
            memory.add_address(address, size, "memory of the launcher")
        return memory


DEVICE = Device()


@functools.cache
def _worker() -> ThreadPoolExecutor:
    """A thread whose arithmetic is that of the one that asks first."""
    made = ThreadPoolExecutor(1)
    made.submit(int).result()
    return made


def images_are_stubs(patch: Any) -> None:
    """From here on, code is compiled to PTX alone, and each entry is run by the machine wherever it is launched."""
    _worker()
    compiled, own_compiled = CudaKernel.image, Handwritten.image

    def image(kernel: CudaKernel, version: str, architectures: Any, block_dim: int | None = None) -> Any:
        made, room = compiled(kernel, version, architectures, block_dim), room_of(architectures)
        version, name = kernel.variants(version, architectures, room).get(SM_90, (version, SM_90))
        return _registered(made, kernel.unit(version, made.block, room), name.replace("sm_", "compute_"))

    def own_image(kernel: Handwritten, architectures: Any, blocks: Any) -> Any:
        return _registered(own_compiled(kernel, architectures, blocks), kernel.unit(blocks))

    stub = b"\x7fELF\x02\x01".ljust(64, b"\0")
    patch.setattr(CudaKernel, "_compiled", lambda *_: stub)
    patch.setattr(Handwritten, "_compiled", lambda *_: stub)
    patch.setattr(CudaKernel, "image", image)
    patch.setattr(Handwritten, "image", own_image)


def _registered(made: Any, unit: Any, architecture: str = ARCHITECTURE) -> Any:
    entry = f"{made.entry}_{hashlib.sha256(unit.text.encode()).hexdigest()[:12]}"
    machine = Machine(ptx_of(unit, architecture), made.entry)

    def kernel(words: Any, shape: Any) -> None:
        try:
            params = np.ctypeslib.as_array(words, (machine.code.param_size // 8,)).tobytes()
            DEVICE.launches.append(made.entry)
            DEVICE.counts.append(counts := Counts())
            grid, block, shared = tuple(shape[:3]), tuple(shape[3:6]), shape[6]
            # Threads of XLA take subnormal numbers for zeros, which parts of functions are.
            _worker().submit(machine.launch, DEVICE.memory(), params, grid, block, shared, 0, counts).result()
        except Exception as error:  # which cannot pass through the driver
            DEVICE.fault = error

    driver().register(entry, kernel)
    return dataclasses.replace(made, entry=entry)


@functools.cache
def register_on_cpu() -> None:
    """The handlers for CUDA serve XLA:CPU too."""
    import jax

    for target, checks in TARGETS.items():
        xla = Xla(_native.cuda_handlers(checks))
        handler = Handler(functools.partial(_handle, xla))
        _kept.append(handler)
        _registries.append(xla)
        capsule = new_capsule(ctypes.cast(handler, ctypes.c_void_p), None, None)
        jax.ffi.register_ffi_target(target, capsule, platform="cpu")


_kept: list[Any] = []
_registries: list[Xla] = []


def _handle(xla: Xla, pointer: Any) -> int | None:
    """All stages of a call at once: XLA:CPU knows the last one only, and may run calls side by side."""
    with DEVICE.lock:
        return _run(xla, pointer)


def _run(xla: Xla, pointer: Any) -> int | None:
    given = pointer[0]
    if given.extension:
        extension = ctypes.cast(given.extension, ctypes.POINTER(MetadataExtension))[0]
        if extension.type == 1:
            metadata: Metadata = extension.metadata[0]
            metadata.version.major, metadata.version.minor = given.api[0].version.major, given.api[0].version.minor
            metadata.traits = 0
            return None
    frame, context = Frame.from_buffer_copy(given), next(xla.numbers)
    frame.api, frame.context, frame.extension = ctypes.pointer(xla.api), context, None
    xla.streams[context] = STREAM
    # A result that is an operand's memory may be written.
    DEVICE.pieces = [*_buffers(frame.rets, "a result", True), *_buffers(frame.args, "an operand", False)]
    DEVICE.fault = None
    try:
        for number in range(INSTANTIATE, EXECUTE + 1):
            frame.stage = number
            error = xla.handlers[STAGES[number]](ctypes.byref(frame))
            if error:
                raise xla.errors.pop(error)
        if DEVICE.fault is not None:
            raise DEVICE.fault
    except Exception as error:
        return _error(given, f"{type(error).__name__}: {error}", error.code if isinstance(error, XlaError) else 13)
    finally:
        if context in xla.states:
            # The native module told its type to one of them only.
            next(x.deleter for x in _registries if hasattr(x, "deleter"))(xla.states.pop(context))
    return None


def _error(given: Frame, message: str, code: int) -> int:
    text = message.encode()
    made = Error(struct_size=ctypes.sizeof(Error), message=text, code=code)
    create = ctypes.cast(given.api[0].Error_Create, ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Error)))
    return create(ctypes.byref(made))


def _buffers(arguments: Any, name: str, writable: bool) -> list[tuple[int, int, str, bool]]:
    from fake_xla import Buffer

    found = []
    for k in range(arguments.size):
        buffer = ctypes.cast(arguments.values[k], ctypes.POINTER(Buffer))[0]
        count = int(np.prod([buffer.dims[axis] for axis in range(buffer.rank)], dtype=np.int64))
        # XLA's buffers end at words.
        found.append((buffer.data or 0, -(-count * WIDTHS[buffer.dtype] // 4) * 4, f"{name} {k}", writable))
    return found


def on_cuda(function: Callable[..., Any], *args: Any) -> Any:
    """The result of a function whose launches are lowered for CUDA and run by the machine."""
    import jax
    import jax.export
    import pytest

    register_on_cpu()
    skipped = [jax.export.DisabledSafetyCheck.custom_call(target) for target in TARGETS]
    skipped.append(jax.export.DisabledSafetyCheck.platform())
    with pytest.MonkeyPatch.context() as patch, wp.config(cuda_arch="sm_90", cache_dir=""):
        images_are_stubs(patch)
        exported = jax.export.export(jax.jit(function), platforms=["cuda"], disabled_checks=skipped)(*args)
        return jax.tree.map(np.asarray, jax.jit(exported.call)(*args))
