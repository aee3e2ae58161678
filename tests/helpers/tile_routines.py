"""CUDA texts that call the tile routines of the device library, run on the processor or compiled for GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from cuda_on_host import FORWARD, HostKernel, compile_host

bfloat16 = np.dtype(ml_dtypes.bfloat16)
C_TYPES = {
    np.dtype(name): text
    for name, text in {
        "float16": "jw_half", bfloat16: "jw_bfloat", "float32": "float", "float64": "double", "bool": "bool",
        "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
        "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned", "uint64": "unsigned long long",
    }.items()
}  # fmt: skip
HALVES = (np.dtype(np.float16), bfloat16)
FLOATS = (*HALVES, np.dtype(np.float32), np.dtype(np.float64))
INTEGERS = tuple(np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))
BLOCKS = (1, 32, 64, 96, 128, 256)
GUARD, GUARD_BYTE = 64, 0xA5


def text_of(types: Sequence[np.dtype], block: int, body: str) -> str:
    """A kernel whose parameters are pointers a, b, c and so on; it begins with the barrier that routines ask for."""
    pointers = [
        f"  {C_TYPES[np.dtype(t)]}* {chr(97 + k)} = ({C_TYPES[np.dtype(t)]}*)args.arrays[{k}];"
        for k, t in enumerate(types)
    ]
    head = f'extern "C" __global__ void __launch_bounds__({block})\nkernel(const __grid_constant__ jw_args<4, '
    head += f"{len(types)}> args) {{"
    return "\n".join([head, "  namespace tile = jw::tile;", *pointers, "  __syncthreads();", body, "}\n"])


@dataclass
class TileKernel:
    """A kernel for a block of `block` threads, which is compiled together with the others of its family."""

    block: int
    host: HostKernel | None = None

    def __call__(self, *arrays: np.ndarray, symbols: Sequence[int] = (), order: int = FORWARD) -> list[np.ndarray]:
        """The arrays after a launch of one block."""
        assert self.host is not None, "the family is not compiled"
        held = [_guarded(a) for a in arrays]
        words = [*[0] * 8, *symbols, *[0] * (4 - len(symbols)), *(a.ctypes.data for a in held), *[0] * (4 * len(held))]
        self.host.run(np.array(words, np.int64), (1,), (self.block,), order=order)
        for array in held:
            memory = array.base if array.base.dtype == np.uint8 else array.base.base
            start = array.ctypes.data - memory.ctypes.data
            outside = np.concatenate([memory[:start], memory[start + array.nbytes :]])
            assert np.all(outside == GUARD_BYTE), "a kernel wrote outside an array"
        return held


def _guarded(array: np.ndarray) -> np.ndarray:
    """A copy at a multiple of 16 bytes, not of 32, between bytes that no kernel may touch."""
    memory = np.full(array.nbytes + 2 * GUARD + 64, GUARD_BYTE, np.uint8)
    start = GUARD + (16 - memory.ctypes.data - GUARD) % 32
    inner = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    inner[...] = array
    return inner


@dataclass
class Family:
    """Kernels that are compiled together."""

    texts: list[str] = field(default_factory=list)
    kernels: list[TileKernel] = field(default_factory=list)

    def add(self, types: Sequence[np.dtype], block: int, body: str) -> TileKernel:
        self.texts.append(text_of(types, block, body))
        self.kernels.append(TileKernel(block))
        return self.kernels[-1]

    def compile(self) -> None:
        for kernel, host in zip(self.kernels, compile_host(self.texts, headers=["tile.cuh"]), strict=True):
            kernel.host = host


@dataclass(frozen=True)
class Product:
    """One product: types of the operands and the result, extents, what is stored transposed, what is added to."""

    a: np.dtype
    b: np.dtype
    c: np.dtype
    extents: tuple[int, int, int]
    transposed: tuple[bool, bool] = (False, False)
    added: bool = False
    block: int = 128
    tf32: bool = False
    padding: int = 0  # elements that rows have more

    @property
    def a_shape(self) -> tuple[int, int]:
        m, _, k = self.extents
        return (k, m) if self.transposed[0] else (m, k)

    @property
    def b_shape(self) -> tuple[int, int]:
        _, n, k = self.extents
        return (n, k) if self.transposed[1] else (k, n)

    @property
    def tiles(self) -> list[tuple[tuple[int, int], np.dtype]]:
        """Shape and type of A, B and C, without the padding."""
        return [(self.a_shape, self.a), (self.b_shape, self.b), (self.extents[:2], self.c)]

    def call(self, a: str = "a", b: str = "b", c: str = "c") -> str:
        types = ", ".join(C_TYPES[t] for t in (self.a, self.b, self.c))
        numbers = ", ".join(map(str, self.extents))
        flags = ", ".join(str(int(x)) for x in (*self.transposed, self.added))
        rows = ", ".join(str(s[1] + self.padding) for s in (self.a_shape, self.b_shape, self.extents[:2]))
        return f"tile::gemm<{types}, {numbers}, {flags}, {self.block}, {int(self.tf32)}, {rows}>({a}, {b}, {c});"


def numbers(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Random elements: integers of the whole range, floats around zero."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(np.bool_)
    if dtype in INTEGERS:
        return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return random.normal(size=shape).astype(dtype)
