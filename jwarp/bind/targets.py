"""Registers the native module with XLA, so that its custom calls run in any process that imports jwarp."""

from __future__ import annotations

import jax

import jwarp._native as _native

TARGET = "jwarp_launch_v1"
CUDA_TARGET = "jwarp_cuda_v1"
CUDA_DEBUG_TARGET = "jwarp_cuda_debug_v1"


def _compile(fingerprint: str, program: bytes, version: str) -> None:
    """Compiles a kernel that came with a custom call."""
    from jwarp.compiler.cpu import compile_program  # half of jwarp, which this import must not wait for

    compile_program(fingerprint, program, version)


def register() -> None:
    """Make the call targets and the compiler known. Only queues work; no backend of JAX is started."""
    _native.set_compiler(_compile)
    jax.ffi.register_ffi_target(TARGET, _native.handlers(), platform="cpu")
    # Spelled as JAX's plugin asks for them. Without a GPU nobody does, and the NVIDIA driver is not looked for.
    jax.ffi.register_ffi_target(CUDA_TARGET, _native.cuda_handlers(checks=False), platform="CUDA")
    jax.ffi.register_ffi_target(CUDA_DEBUG_TARGET, _native.cuda_handlers(checks=True), platform="CUDA")


def note_place(image: bytes, entry: str, place: str) -> None:
    """Where the kernel of a CUDA image is written, for what the driver may say of its launches."""
    _native.note_place(image, entry, place)


# At import and not at first use: an executable loaded from a cache or a file reaches XLA without any launch.
register()
