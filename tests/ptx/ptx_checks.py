"""The PTX machine's notes: races of threads of a block, and counts of instructions and accesses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ptx_memory import Fault, Piece
from ptx_values import Array

SECTOR, BANKS, BANK = 32, 32, 4
NOBODY, SEVERAL = -1, -2


class Barriers:
    """How many barriers each block of a run has passed, and each warp. Numbers of blocks are never those of others."""

    def __init__(self, threads: int, block: int):
        self.block = block  # threads of one, with those that fill up the last warp
        self.block_epoch = np.arange(threads // block) << 32
        self.warp_epoch = np.zeros(threads // 32, np.int64)

    def pass_block(self, threads: Array) -> None:
        self.block_epoch[np.unique(threads // self.block)] += 1

    def pass_warp(self, threads: Array) -> None:
        self.warp_epoch[np.unique(threads // 32)] += 1

    def now(self, threads: Array) -> Array:
        return self.block_epoch[threads // self.block]


class Races:
    """Finds two threads of a block at one byte of memory, one of which writes, without a barrier between them.

    Of each byte the last writer and the last reader are known, and when that was: how many barriers its block had
    passed, and how many its warp. Threads of a warp are also in order after a barrier of the warp. Instead of bytes
    they may be larger parts of memory that are only used as a whole.
    """

    def __init__(self, size: int, barriers: Barriers):
        self.proxies: Any = None  # what other proxies read, where there are any
        self.barriers = barriers
        self.writer, self.reader = (np.full(size, NOBODY, np.int64) for _ in range(2))
        self.written, self.read = (np.full((size, 2), -1, np.int64) for _ in range(2))
        self.reader_warp = np.full(size, NOBODY, np.int64)  # of several readers

    def refine(self, parts: int) -> None:
        """Each part of memory that is looked at becomes several."""
        for name in ("writer", "reader", "reader_warp", "written", "read"):
            setattr(self, name, np.repeat(getattr(self, name), parts, axis=0))

    def _unordered(self, threads: Array, other: Array, warps: Array, when: Array) -> Array:
        """The truth values that the other access is by another thread, between the same barriers."""
        now, warp = self.barriers.now(threads), threads // 32
        same_stretch = when[:, 0] == now
        in_warp = warps == warp
        ordered_by_warp = in_warp & (when[:, 1] < self.barriers.warp_epoch[warp])
        return (other != NOBODY) & (other != threads) & same_stretch & ~ordered_by_warp

    def note(
        self, threads: Array, places: Array, width: int, write: bool, what: str,
        before: Array | None = None, after: Array | None = None,
    ) -> None:  # fmt: skip
        """An access of `width` bytes at places in all shared memory.

        Of stores, `before` says which found what they stored, and `after` which left it, so that nobody can tell.
        """
        when = np.stack([self.barriers.now(threads), self.barriers.warp_epoch[threads // 32]], axis=1)
        if write and self.proxies is not None:
            self.proxies.written(threads, places, width, what)
        for at in (places + k for k in range(width)):
            self._check(threads, at, write, before, what)
            if write:
                self.writer[at], self.written[at] = threads, when
                second = self.writer[at] != threads
                if after is not None:
                    second &= ~after
                if second.any():
                    self._fail(what, threads[second][0], self.writer[at][second][0])
                continue
            warps = threads // 32
            earlier = (self.reader_warp[at] == warps) & (self.read[at, 1] < when[:, 1])
            known = (self.read[at, 0] == when[:, 0]) & ~earlier
            self._readers(at, threads, warps, known & (self.reader[at] != threads))
            # Of several in one instruction the last one was noted.
            self._readers(at, threads, warps, self.reader[at] != threads)
            self.read[at] = when

    def _readers(self, at: Array, threads: Array, warps: Array, others: Array) -> None:
        """Notes who reads: several where there are others already."""
        crossing = others & (self.reader_warp[at] != warps)
        self.reader_warp[at] = np.where(crossing, SEVERAL, warps)
        self.reader[at] = np.where(others, SEVERAL, threads)

    def _check(self, threads: Array, at: Array, write: bool, same: Array | None, what: str) -> None:
        writer = self.writer[at]
        clash = self._unordered(threads, writer, writer // 32, self.written[at])
        if write and same is not None:
            clash &= ~same
        if clash.any():
            self._fail(what, threads[clash][0], writer[clash][0])
        if write:
            reader = self.reader[at]
            clash = self._unordered(threads, reader, self.reader_warp[at], self.read[at])
            if same is not None:
                clash &= ~same
            if clash.any():
                self._fail(what, threads[clash][0], reader[clash][0])

    def _fail(self, what: str, thread: int, other: int) -> None:
        block = self.barriers.block
        first = "others" if other == SEVERAL else f"thread {other % block}"
        own = f"thread {thread % block} of block {thread // block}"
        raise Fault("race", f"{own} and {first}, no barrier between: {what}")


class GlobalRaces:
    """The same in the arrays of a launch, a piece of memory at a time: those of threads of one block alone."""

    def __init__(self, barriers: Barriers):
        self.barriers = barriers
        self._known: dict[int, tuple[int, Races]] = {}  # by address: bytes of the parts, and what is known of them

    def note(self, piece: Piece, threads: Array, addresses: Array, width: int, write: bool, what: str,
             *same: Array) -> None:  # fmt: skip
        """An access to a piece; arguments as of `Races.note`."""
        step, races = self._known.get(piece.base) or (piece.step, None)
        if races is None:
            races = Races(-(-len(piece.data) // step), self.barriers)
        offsets = (addresses - np.uint64(piece.base)).astype(np.int64)
        if step > 1 and (width % step or (offsets % step).any()):
            races.refine(step)
            step = 1
        self._known[piece.base] = step, races
        races.note(threads, offsets // step, width // step, write, what, *same)

    def forget(self, address: int) -> None:
        """The piece is given back."""
        self._known.pop(address, None)


@dataclass
class Counts:
    """How much a launch did. An instruction counts once for each thread that runs it."""

    threads: int = 0
    instructions: Counter[str] = field(default_factory=Counter)  # by opcode, of threads
    warp_instructions: int = 0
    busiest: int = 0  # instructions of the thread that runs the most
    sectors: Counter[str] = field(default_factory=Counter)  # of 32 bytes, by "load", "store" and "atomic"
    accesses: Counter[str] = field(default_factory=Counter)  # of threads to global memory
    bytes: Counter[str] = field(default_factory=Counter)  # that threads asked for
    passes: Counter[str] = field(default_factory=Counter)  # over the banks of shared memory
    least: Counter[str] = field(default_factory=Counter)  # passes that as many words need at least
    requests: Counter[str] = field(default_factory=Counter)  # of warps to shared memory

    def global_access(self, kind: str, threads: Array, addresses: Array, width: int) -> None:
        """An element, or neighbours, of `width` bytes for each thread."""
        self.accesses[kind] += len(threads)
        self.bytes[kind] += width * len(threads)
        first = addresses // np.uint64(SECTOR)
        last = (addresses + np.uint64(width - 1)) // np.uint64(SECTOR)
        warps = (threads >> 5).astype(np.uint64) << np.uint64(48)
        found = np.concatenate([warps ^ (first & np.uint64((1 << 48) - 1)), warps ^ (last & np.uint64((1 << 48) - 1))])
        self.sectors[kind] += len(np.unique(found))

    def shared_access(self, kind: str, groups: Array, offsets: Array, width: int) -> None:
        """Accesses of `width` bytes by threads that are served together where their `groups` are the same."""
        words = max(1, width // BANK)
        word = (offsets.astype(np.int64) // BANK)[:, None] + np.arange(words)
        key = np.unique((groups[:, None].astype(np.int64) << 32) + word)
        group, bank = key >> 32, key % BANKS
        _, where = np.unique(group, return_inverse=True)
        by_bank = np.zeros((where.max() + 1, BANKS), np.int64)
        np.add.at(by_bank, (where, bank), 1)
        self.passes[kind] += int(by_bank.max(axis=1).sum())
        self.least[kind] += int((-(-by_bank.sum(axis=1) // BANKS)).sum())
        self.requests[kind] += len(by_bank)

    def shared_by_threads(self, kind: str, threads: Array, offsets: Array, width: int) -> None:
        """Of wide accesses a warp's lanes are served in halves or quarters."""
        lanes = 32 // max(1, width // BANK)
        self.shared_access(kind, threads // lanes, offsets, width)

    @property
    def per_thread(self) -> float:
        return sum(self.instructions.values()) / max(1, self.threads)
