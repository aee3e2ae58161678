"""Compiles kernels to images that a CUDA driver loads, for given architectures, and keeps them on disk."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from jwarp import forks
from jwarp.backend.cuda.accumulators import has_float_products
from jwarp.backend.cuda.entry import (
    GROUP_HEADER,
    HEADER,
    TILE_HEADER,
    accumulators_of,
    generate,
    headers_of,
    shared_of,
    sums_in_registers,
)
from jwarp.backend.cuda.narrow import is_narrow, per_thread_arrays
from jwarp.backend.cuda.native import NATIVE_HEADER
from jwarp.backend.cuda.nvrtc import (
    Rejected,
    Unit,
    as_compile_error,
    bundle,
    compile_unit,
    device_headers,
    ends,
    require,
    toolchain,
    virtual,
)
from jwarp.backend.cuda.records import BLOCKS_PER_SM as BLOCKS_THAT_REMEMBER
from jwarp.backend.cuda.records import HEAP, grows, texts_on_gpu
from jwarp.backend.cuda.shared import LEAST_ROOM, refuse_large, room_of
from jwarp.backend.cuda.version import Access, Version
from jwarp.backend.cuda.warpgroups import SM_90, SM_90A
from jwarp.backend.events import CompileEvent, announce
from jwarp.backend.generator import identity
from jwarp.caches import MAX_KERNELS, Cache
from jwarp.compiler import pipeline
from jwarp.compiler.analysed import VERSIONS, AnalysedKernel
from jwarp.config import CODE_SETTINGS, Settings
from jwarp.ir.nodes import Kernel, Op, has_native_code, rounds_as_written, walk
from jwarp.store import key_of
from jwarp.tiling.whole import request_of
from jwarp.types.arrays import Extents

BLOCK = 256
MAX_BLOCK = 1024
WARP = 32
# Threads that sum up in registers should be few and have much to do each.
BLOCKS_PER_SM = 8
# The grid of kernels with tiles: a block for each one "thread" of the launch.
BLOCK_FOR_EACH = (1,)
# A version like most: shared memory is the same for all, but where products differ.
ANY = Version("fast")


@dataclass(frozen=True)
class Image:
    """A file that a driver loads, and the kernel in it: `entry` is its symbol, `per_sm` the most blocks that pay.

    `block` is the number of threads of a block, which needs `shared` bytes; `grid` says what a block has to do, if that
    is not a thread of the launch for each of its own.
    """

    content: bytes
    entry: str
    block: int
    per_sm: int
    shared: int = 0
    grid: tuple[int, ...] = ()
    heap: int = 0  # bytes that its threads may want of the device's heap


@dataclass(frozen=True)
class Needs:
    """The needs of a kernel with tiles: bytes of shared memory, and products of matrices."""

    shared: int = 0
    products: tuple[str, ...] = ()
    by_groups: bool = False  # whether warpgroups make some of them

    def to_bytes(self) -> bytes:
        return json.dumps([self.shared, self.by_groups, *self.products]).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Needs:
        shared, by_groups, *products = json.loads(data)
        return Needs(shared, tuple(products), by_groups)


class CudaKernel(AnalysedKernel):
    """A kernel for NVIDIA GPUs. It needs none to be compiled, only NVRTC."""

    generator = "cuda"
    passes = pipeline.CUDA

    @property
    def is_fast(self) -> bool:
        """True if quotients and roots may be rounded otherwise than as written."""
        return pipeline.is_fast(self.kernel, self.context)

    def version(
        self, dims: tuple[int, ...], extents: Extents, *, batch: tuple[int, ...] = (), repeat: int | None = 1,
        tf32: bool = False,
    ) -> Version:  # fmt: skip
        """The version that a launch runs; with `tf32`, factors of products of float32 need not be exact."""
        needed = self.needed(self.symbol_values(dims, extents))
        access: Access = "either" if needed == VERSIONS else "fast" if needed == VERSIONS[:1] else "checked"
        narrow = repeat == 1 and is_narrow(self.kernel, dims, batch, extents)
        return Version(
            access,
            is_flat=not batch and repeat == 1,
            is_narrow=narrow,
            per_thread=per_thread_arrays(self.kernel, dims, extents) if narrow else (),
            tf32=tf32 and has_float_products(self.proofs.kernel),
        )

    def unit(self, version: Version, block: int, room: int = LEAST_ROOM) -> Unit:
        """The text of a version and what it is compiled with; blocks can have `room` bytes of shared memory."""
        text = generate(
            self.proofs, self.entry, version, bounds=self.bounds, block=block, failures=texts_on_gpu(self.kernel),
            room=room,
        )  # fmt: skip
        options = ["--fmad=false"] if rounds_as_written(self.kernel) else []
        if self.is_fast:
            options += ["--prec-div=false", "--prec-sqrt=false", "-DJW_FAST"]
        if version.access == "either":
            options.append("--device-int128")
        headers = device_headers(headers_of(self.proofs.kernel, version.wgmma))
        whose = f"kernel '{self.kernel.name}'"
        return Unit(text, f"{self.entry}.cu", tuple(options), headers, whose, self.kernel.span)

    @functools.cached_property
    def needs(self) -> Needs:
        """The needs of a kernel with tiles on any GPU."""
        return self.needs_in(LEAST_ROOM)

    def needs_in(self, room: int, version: Version = ANY) -> Needs:
        """The needs of a kernel with tiles where a block can have `room` bytes of shared memory, in a version.

        It is from disk if it is there: to find it out, tiles have to be lowered.
        """
        if not self.kernel.block_dim:
            return Needs()
        how = version.tf32, version.wgmma
        key = key_of("tiles", "cuda", identity() or "", self.fingerprint, repr(self.bounds), str(room), repr(how))
        known = self._store.load(key)
        if known is not None:
            return Needs.from_bytes(known)
        lowered = self.proofs.kernel
        products = [n for n in walk(lowered.body) if isinstance(n, Op) and n.row.is_product]
        made = Needs(
            shared_of(self.proofs, self.bounds, room, *how).size,
            tuple(dict.fromkeys(request_of(lowered, n).key for n in products)),
            bool(accumulators_of(self.proofs, self.bounds, *how).by_groups),
        )
        self._store.save(key, made.to_bytes())
        return made

    def image(self, version: Version, architectures: Sequence[str], block_dim: int | None = None) -> Image:
        """The compiled version for the architectures, from memory, disk or NVRTC.

        Raises:
            LaunchError: there is no NVRTC, or it does not know an architecture.
        """
        require(f"kernel '{self.kernel.name}'")
        room = room_of(architectures)
        needs = self.needs_in(room, version)
        if self.kernel.block_dim:
            refuse_large(self.kernel, needs.shared, architectures)
        variants = self.variants(version, architectures, room)
        shared = max([needs.shared, *(self.needs_in(room, own).shared for own, _ in variants.values())])
        start, block = time.perf_counter(), self.kernel.block_dim or block_size(block_dim)
        options = [str(getattr(self.settings, name)) for name in CODE_SETTINGS]
        parts = ("cuda", identity() or "", toolchain(), self.fingerprint, repr(version), repr(self.bounds), *options)
        headers = device_headers([TILE_HEADER if self.kernel.block_dim else HEADER])
        if variants:
            headers |= device_headers([GROUP_HEADER])
        if has_native_code(self.kernel.body):
            headers |= device_headers([NATIVE_HEADER])
        texts = itertools.chain.from_iterable(sorted(headers.items()))
        key = key_of(*parts, *architectures, repr(variants), str(block), *texts, self.summary.to_bytes())
        with lock_of(key):
            content, source = _images.get(key), "memory"
            if content is None:
                content, source = self._store.load(key), "disk"
            if content is None:
                content, source = self._compiled(version, architectures, block), "compiled"
                self._store.save(key, content)
            _images.keep(key, content)
        name, variant = self.kernel.name, self.kernel.variant
        announce(CompileEvent(name, variant, "cuda", time.perf_counter() - start, source, len(content)))
        for product in needs.products:
            # Its time and code are parts of the kernel's, in which the compiler has made it.
            announce(CompileEvent(name, f"tile_matmul[{product}]", "cuda", 0.0, source, 0))
        if self.kernel.block_dim:
            heap, most = (HEAP, BLOCKS_THAT_REMEMBER) if grows(self.kernel) else (0, 0)
            return Image(content, self.entry, block, most, shared, BLOCK_FOR_EACH, heap)
        if grows(self.kernel):
            return Image(content, self.entry, block, BLOCKS_THAT_REMEMBER, heap=HEAP)
        return Image(content, self.entry, block, BLOCKS_PER_SM if sums_in_registers(self.proofs.kernel) else 0)

    def variants(self, version: Version, architectures: Sequence[str], room: int) -> dict[str, tuple[Version, str]]:
        """For which architectures machine code is made of another version, and as code for which: by warpgroups."""
        by_groups = dataclasses.replace(version, wgmma=True)
        found = {a: (by_groups, SM_90A) for a in (SM_90, SM_90A) if a in architectures}
        if self.settings.matrix_instructions != "wgmma" or not self.kernel.block_dim or not found:
            return {}
        needs = self.needs_in(room, by_groups)
        return found if needs.by_groups and needs.shared <= room else {}

    def _compiled(self, version: Version, architectures: Sequence[str], block: int) -> bytes:
        room = room_of(architectures)
        unit = self.unit(version, block, room)
        try:
            variants = self.variants(version, architectures, room)
            made = {a: (name, compile_unit(self.unit(own, block, room), name)) for a, (own, name) in variants.items()}
            # An architecture without its own machine code needs PTX alone, if anything.
            names = {
                a: a if a not in made else virtual(a)
                for a in architectures
                if a not in made or a in ends(architectures)
            }
            return bundle(architectures, {a: compile_unit(unit, name) for a, name in names.items()}, made)
        except Rejected as rejected:
            raise as_compile_error(rejected, f"kernel '{self.kernel.name}'", self.kernel.span) from None

    @property
    def failure_texts(self) -> tuple[str, ...]:
        """The texts of checks, one of which a launch may end with, so that somebody has to wait for it."""
        return texts_on_gpu(self.kernel)

    def ptx(self, version: Version, architecture: str) -> str:
        """The assembly for CUDA's virtual machine."""
        return compile_unit(self.unit(version, BLOCK), architecture).ptx

    def cubin(self, version: Version, architecture: str) -> bytes:
        """The machine code for one architecture."""
        return compile_unit(self.unit(version, BLOCK), architecture).cubin


def block_size(block_dim: int | None) -> int:
    """Threads of a block: whole warps."""
    asked = BLOCK if block_dim is None else min(block_dim, MAX_BLOCK)
    return -(-asked // WARP) * WARP


# Launches that are made refer to images, and images of many architectures are large: what is forgotten is on disk.
IMAGES = 1024
_images: Cache[str, bytes] = Cache("images for GPUs", IMAGES)
_kernels: Cache[tuple, CudaKernel] = Cache("kernels for GPUs", MAX_KERNELS)
_locks: Cache[str, forks.Lock] = Cache("locks of images", "images compiled in this process")


def lock_of(key: str) -> forks.Lock:
    """So that threads that need one image at a time compile it once."""
    return _locks.made(key, forks.Lock)


def lower_kernel(kernel: Kernel, settings: Settings) -> CudaKernel:
    """The kernel prepared for GPUs; the same object for the same kernel and settings."""
    options = (getattr(settings, name) for name in (*CODE_SETTINGS, "matrix_instructions"))
    key = (kernel, settings.cache_dir, *options)
    return _kernels.made(key, lambda: CudaKernel(kernel, settings))
