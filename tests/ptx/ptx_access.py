"""Instructions of the PTX machine that reach memory: loads, stores, atomics, copies, and what functions print."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ptx_code import Address, Imm, Node, Place, Reg
from ptx_memory import WINDOW_BITS, WINDOWS, Fault, Misaligned, OutOfBounds
from ptx_values import TYPES, UNSIGNED, Array, bits_of

SPACES = ("global", "shared", "local", "param", "const")
STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})
GENERIC_NAMES = {np.uint64(w): name for name, w in WINDOWS.items()}


def space_of(form: Any, base: Any) -> str:
    """Which space an instruction names: parameters of calls are the thread's own."""
    named = next((s for s in form.suffixes if s in SPACES), "generic")
    if named == "param" and isinstance(base, Place) and base.space == "call":
        return "call"
    return "global" if named == "const" else named


def address_of(machine: Any, operand: Address) -> Callable[[Any, Any], Array]:
    """Addresses in 64 bits, one for each thread."""
    base, offset = operand.base, np.int64(operand.offset)
    if isinstance(base, Reg):
        narrow = machine.code.registers[base.number] in ("b32", "u32", "s32")
        read = machine.reader(base, TYPES["u32" if narrow else "u64"])

        def addresses(run: Any, g: Any) -> Array:
            found = (read(run, g).astype(np.int64) + offset).view(np.uint64)
            return found & np.uint64(0xFFFFFFFF) if narrow else found

        return addresses
    assert isinstance(base, (Place, Imm))
    read = machine.reader(base, TYPES["u64"])
    return lambda run, g: np.broadcast_to((read(run, g).astype(np.int64) + offset).view(np.uint64), len(g.threads))


def split(space: str, threads: Array, addresses: Array) -> Iterator[tuple[str, Array, Array, Array | slice]]:
    """The accesses by space: (space, threads, offsets there, which they are)."""
    if space != "generic":
        yield space, threads, addresses, slice(None)
        return
    windows = addresses & WINDOW_BITS
    for window in np.unique(windows):
        chosen = np.flatnonzero(windows == window)
        yield GENERIC_NAMES.get(window, "global"), threads[chosen], addresses[chosen] & ~WINDOW_BITS, chosen


@dataclass(frozen=True)
class Access:
    """One instruction's way to memory; knows how to speak of itself."""

    run: Any
    node: Node

    def _rows(self, space: str, threads: Array) -> Array:
        """Whose memory it is: a block's, the launch's, or a thread's own."""
        if space == "shared":
            return self.run.row[threads]
        return np.zeros(len(threads), np.int64) if space == "param" else threads

    def fail(self, threads: Array, error: OutOfBounds) -> Fault:
        kind = "alignment" if isinstance(error, Misaligned) else "bounds"
        what = f"line {self.node.statement.line}: {self.node.statement.text}"
        return Fault(kind, f"{self.run.thread(threads[error.which])}: {error}; {what}")

    def load(
        self, space: str, threads: Array, addresses: Array, dtype: np.dtype, count: int = 1, constant: bool = False
    ) -> list[Array]:
        """Neighbours for each thread."""
        out = [np.empty(len(threads), dtype) for _ in range(count)]
        for own, ids, places, chosen in split(space, threads, addresses):
            self._note("load", own, ids, places, dtype.itemsize * count)
            try:
                for k in range(count):
                    at = places + np.uint64(k * dtype.itemsize)
                    if own == "global":
                        out[k][chosen] = self.run.memory.load(at, dtype, constant)
                    else:
                        out[k][chosen] = self.run.spaces[own].load(self._rows(own, ids), at, dtype)
            except OutOfBounds as error:
                raise self.fail(ids, error) from None
            if own == "shared" and self.run.races is not None:
                self._race(ids, places, dtype.itemsize * count, False)
            elif own == "global" and self.run.global_races is not None and not constant and not self.is_strong:
                self._race_globally(ids, places, dtype.itemsize * count, False)
        return out

    def store(self, space: str, threads: Array, addresses: Array, found: Sequence[Array]) -> None:
        width = found[0].itemsize
        for own, ids, places, chosen in split(space, threads, addresses):
            self._note("store", own, ids, places, width * len(found))
            for k, element in enumerate(found):
                part = np.broadcast_to(element, len(threads))[chosen]
                at = places + np.uint64(k * width)
                try:
                    if own == "global":
                        self._store_globally(ids, at, part)
                    elif own == "shared" and self.run.races is not None:
                        self._store_shared(ids, at, part)
                    else:
                        self.run.spaces[own].store(self._rows(own, ids), at, part)
                except OutOfBounds as error:
                    raise self.fail(ids, error) from None

    def _store_shared(self, threads: Array, at: Array, part: Array) -> None:
        memory, rows = self.run.spaces["shared"], self.run.row[threads]
        before = bits_of(memory.load(rows, at, part.dtype)) == bits_of(part)
        memory.store(rows, at, part)
        after = bits_of(memory.load(rows, at, part.dtype)) == bits_of(part)
        self._race(threads, at, part.itemsize, True, before, after)

    def _store_globally(self, threads: Array, at: Array, part: Array) -> None:
        memory = self.run.memory
        if self.run.global_races is None or self.is_strong:
            memory.store(at, part)
            return
        before = bits_of(memory.load(at, part.dtype)) == bits_of(part)
        memory.store(at, part)
        after = bits_of(memory.load(at, part.dtype)) == bits_of(part)
        self._race_globally(threads, at, part.itemsize, True, before, after)

    @property
    def is_strong(self) -> bool:
        """True if the instruction can synchronise threads, as at a lock."""
        return not STRONG.isdisjoint(self.node.statement.suffixes)

    def _race_globally(self, threads: Array, addresses: Array, width: int, write: bool, *same: Array) -> None:
        for piece, chosen in self.run.memory.parts(addresses, 1, False):
            own = (x[chosen] for x in same)
            self.run.global_races.note(
                piece, threads[chosen], addresses[chosen], width, write, self.node.statement.text, *own
            )

    def _race(self, threads: Array, offsets: Array, width: int, write: bool, *same: Array) -> None:
        memory = self.run.spaces["shared"]
        places = self.run.row[threads] * memory.step + offsets.astype(np.int64)
        self.run.races.note(threads, places, width, write, self.node.statement.text, *same)

    def _note(self, kind: str, space: str, threads: Array, addresses: Array, width: int) -> None:
        if (wrong := addresses & np.uint64(width - 1) != 0).any():
            which = int(np.argmax(wrong))
            error = Misaligned(which, int(addresses[which]), width, f"which is no multiple of {width}")
            raise self.fail(threads, error)
        counts = self.run.counts
        if counts is not None and space == "global":
            counts.global_access(kind, threads, addresses, width)
        elif counts is not None and space == "shared":
            counts.shared_by_threads(kind, threads, addresses, width)

    # ---- atomics, one after the other

    def change(
        self, space: str, threads: Array, addresses: Array, dtype: np.dtype, change: Callable[..., Array], *given: Array
    ) -> Array:
        """Replaces elements by change(old, *given), thread after thread where several have one; gives the old ones."""
        out = np.empty(len(threads), dtype)
        given = tuple(np.broadcast_to(x, len(threads)) for x in given)
        for own, ids, places, chosen in split(space, threads, addresses):
            self._note("atomic", own, ids, places, dtype.itemsize)
            where = np.arange(len(threads))[chosen]
            left = self._in_order(len(where))
            while len(left):
                _, first = np.unique(places[left], return_index=True)
                now = left[np.sort(first)]
                try:
                    old = self._old(own, ids[now], places[now], dtype)
                    new = change(old, *(x[where[now]] for x in given)).astype(dtype)
                    if own == "global":
                        self.run.memory.store(places[now], new)
                    else:
                        self.run.spaces[own].store(self._rows(own, ids[now]), places[now], new)
                except OutOfBounds as error:
                    raise self.fail(ids[now], error) from None
                out[where[now]] = old
                kept = np.ones(len(left), bool)
                kept[first] = False
                left = left[kept]
        return out

    def _old(self, space: str, threads: Array, places: Array, dtype: np.dtype) -> Array:
        if space == "global":
            return self.run.memory.load(places, dtype)
        return self.run.spaces[space].load(self._rows(space, threads), places, dtype)

    def _in_order(self, count: int) -> Array:
        order, numbers = self.run.order, np.arange(count)
        if order == 0:
            return numbers
        return numbers[::-1] if order < 0 else np.random.default_rng(order).permutation(count)


def _elements(form: Any) -> int:
    return 2 if form.has("v2") else 4 if form.has("v4") else 1


def _load(machine: Any, node: Node, form: Any) -> Any:
    target, source = node.operands[:2]
    assert isinstance(source, Address)
    read, space = address_of(machine, source), space_of(form, source.base)
    dtype, constant = TYPES[form.type], form.has("nc")
    writers = [machine.writer(o) for o in machine.parts(target)]

    def load(run: Any, g: Any) -> None:
        found = Access(run, node).load(space, g.threads, read(run, g), dtype, len(writers), constant)
        for write, values in zip(writers, found, strict=True):
            write(run, g, values)

    return load


def _store(machine: Any, node: Node, form: Any) -> Any:
    target, source = node.operands
    assert isinstance(target, Address)
    read, space = address_of(machine, target), space_of(form, target.base)
    dtype = UNSIGNED[TYPES[form.type].itemsize]
    readers = [machine.reader(o, TYPES[form.type]) for o in machine.parts(source)]

    def store(run: Any, g: Any) -> None:
        values = [np.broadcast_to(bits_of(r(run, g)), len(g.threads)) for r in readers]
        assert values[0].dtype == dtype
        Access(run, node).store(space, g.threads, read(run, g), values)

    return store


CHANGES: dict[str, Callable[..., Array]] = {
    "add": lambda old, x: old + x,
    "min": lambda old, x: np.minimum(old, x),
    "max": lambda old, x: np.maximum(old, x),
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "exch": lambda old, x: x,
    "cas": lambda old, expected, x: np.where(old == expected, x, old),
    "inc": lambda old, x: np.where(old >= x, 0, old + 1),
    "dec": lambda old, x: np.where((old == 0) | (old > x), x, old - 1),
}


def _atomic(machine: Any, node: Node, form: Any) -> Any:
    returns = form.opcode == "atom"
    target = node.operands[0] if returns else None
    address, *given = node.operands[1:] if returns else node.operands
    assert isinstance(address, Address)
    read, space = address_of(machine, address), space_of(form, address.base)
    change = next(f for name, f in CHANGES.items() if name in form.suffixes)
    packed = {"f16x2": TYPES["f16"], "bf16x2": TYPES["bf16"]}.get(form.suffixes[-1])
    dtype = packed or TYPES[form.type]
    if packed is not None:
        return _atomic_halves(machine, node, read, space, change, packed, given, target)
    columns = [[machine.reader(o, dtype) for o in machine.parts(x)] for x in given]
    writers = [machine.writer(o) for o in machine.parts(target)]

    def atomic(run: Any, g: Any) -> None:
        access, at = Access(run, node), read(run, g)
        with _as_one(access, space, g.threads, at, len(columns[0]) * dtype.itemsize):
            for k, readers in enumerate(zip(*columns, strict=True)):
                values = [r(run, g) for r in readers]
                old = access.change(space, g.threads, at + np.uint64(k * dtype.itemsize), dtype, change, *values)
                if returns:
                    writers[k](run, g, old)

    return atomic


def _atomic_halves(
    machine: Any, node: Node, read: Any, space: str, change: Any, dtype: np.dtype, given: Any, target: Any
) -> Any:
    """Two neighbours of 16 bits in one register, or several such pairs."""
    pairs = [machine.reader(o, TYPES["u32"]) for o in machine.parts(given[0])]
    writers = [] if target is None else [machine.writer(o) for o in machine.parts(target)]

    def atomic(run: Any, g: Any) -> None:
        access, at = Access(run, node), read(run, g)
        with _as_one(access, space, g.threads, at, 4 * len(pairs)):
            for number, pair in enumerate(pairs):
                both, old = np.broadcast_to(pair(run, g), len(g.threads)), np.zeros(len(g.threads), np.uint32)
                for k in (0, 1):
                    half = (both >> np.uint32(16 * k)).astype(np.uint16).view(dtype)
                    was = access.change(space, g.threads, at + np.uint64(4 * number + 2 * k), dtype, change, half)
                    old |= was.view(np.uint16).astype(np.uint32) << np.uint32(16 * k)
                if writers:
                    writers[number](run, g, old)

    return atomic


@contextlib.contextmanager
def _as_one(access: Access, space: str, threads: Array, at: Array, width: int) -> Iterator[None]:
    """Neighbours are changed by one access, which begins at a multiple of their width."""
    for own, ids, places, _ in split(space, threads, at):
        access._note("atomic", own, ids, places, width)
    run, counts = access.run, access.run.counts
    run.counts = None
    yield
    run.counts = counts


# ---- copies that go on beside the threads


class Copies:
    """Copies to shared memory that threads have begun: they arrive when these wait for them, and not before."""

    def __init__(self, threads: int):
        self.group = np.zeros(threads, np.int64)
        self.pending: list[tuple[Array, Array, Array, Array, Access]] = []  # threads, places, words, groups

    def begin(self, access: Access, threads: Array, places: Array, words: Array) -> None:
        self.pending.append((threads, places, words, self.group[threads], access))

    def commit(self, threads: Array) -> None:
        self.group[threads] += 1

    def wait(self, threads: Array, newest: int | None) -> None:
        """Finish the copies of threads: those of all groups but the newest, or all that were begun."""
        limit = np.full(len(self.group), -1, np.int64)
        limit[threads] = np.iinfo(np.int64).max if newest is None else self.group[threads] - newest
        left = []
        for ids, places, words, groups, access in self.pending:
            done = groups < limit[ids]
            if done.any():
                run, counts = access.run, access.run.counts
                if counts is not None:
                    counts.shared_by_threads("store", ids[done], places[done], 4 * words.shape[1])
                run.counts = None
                for k in range(words.shape[1]):
                    at = places[done] + np.uint64(4 * k)
                    access.store("shared", ids[done], at, [np.ascontiguousarray(words[done, k])])
                run.counts = counts
            if not done.all():
                kept = ~done
                left.append((ids[kept], places[kept], words[kept], groups[kept], access))
        self.pending = left


def _copy(machine: Any, node: Node, form: Any) -> Any:
    if form.has("commit_group"):
        return lambda run, g: run.copies.commit(g.threads)
    if form.has("wait_all") or form.has("wait_group"):
        newest = None
        if form.has("wait_group"):
            (number,) = node.operands
            assert isinstance(number, Imm)
            newest = int(number.text, 0)
        return lambda run, g: run.copies.wait(g.threads, newest)
    if not form.has("async") or form.has("bulk"):
        raise NotImplementedError(node.statement.text)
    to, source, size = node.operands[:3]
    assert isinstance(to, Address) and isinstance(source, Address) and isinstance(size, Imm)
    target, read, width = address_of(machine, to), address_of(machine, source), int(size.text)

    def copy(run: Any, g: Any) -> None:
        access, places, at = Access(run, node), target(run, g), read(run, g)
        words = access.load("global", g.threads, at, TYPES["u32"], width // 4)
        # Until the copy is there, nobody finds what was there before, nor anything of use.
        poison = np.full(len(g.threads), 0xFFC1FFC1, np.uint32)
        if (misplaced := places & np.uint64(width - 1) != 0).any():
            which = int(np.argmax(misplaced))
            raise access.fail(g.threads, Misaligned(which, int(places[which]), width, f"no multiple of {width}"))
        silent, run.counts = run.counts, None
        for k in range(width // 4):
            access.store("shared", g.threads, places + np.uint64(4 * k), [poison])
        run.counts = silent
        run.copies.begin(access, g.threads, places, np.stack(words, axis=1))

    return copy


# ---- addresses


def _convert_address(machine: Any, node: Node, form: Any) -> Any:
    space = next(s for s in form.suffixes if s in SPACES)
    window = np.uint64(WINDOWS.get(space, 0))
    read, write = machine.reader(node.operands[1], TYPES[form.type]), machine.writer(node.operands[0])
    if form.has("to"):
        return lambda run, g: write(run, g, read(run, g) & ~WINDOW_BITS if window else read(run, g))
    return lambda run, g: write(run, g, read(run, g) | window)


def _is_space(machine: Any, node: Node, form: Any) -> Any:
    space = next(s for s in form.suffixes if s in SPACES)
    window = np.uint64(WINDOWS.get(space, 0))
    read, write = machine.reader(node.operands[1], TYPES["u64"]), machine.writer(node.operands[0])
    return lambda run, g: write(run, g, (read(run, g) & WINDOW_BITS) == window)


# ---- functions that the driver has


def _call(machine: Any, node: Node, form: Any) -> Any:
    name = node.statement.suffixes[0]
    places = [p for p in node.operands if isinstance(p, Place)]
    if name == "__assertfail":

        def failed(run: Any, g: Any) -> None:
            raise Fault("assert", f"{run.thread(g.threads[0])}: {_text(run, g, node, places[0], 0)}")

        return failed
    if name == "vprintf":

        def printing(run: Any, g: Any) -> None:
            access = Access(run, node)
            (values,) = access.load("call", g.threads, _at(places[2], g), TYPES["u64"])
            for k in range(len(g.threads)):
                run.printed.append(
                    _formatted(access, g.threads[k : k + 1], _text(run, g, node, places[1], k), values[k])
                )

        return printing
    if name in ("malloc", "free"):

        def heap(run: Any, g: Any) -> None:
            access = Access(run, node)
            (values,) = access.load("call", g.threads, _at(places[-1], g), TYPES["u64"])
            if name == "free":
                for address in values:
                    run.memory.free(int(address))
                    if run.global_races is not None:
                        run.global_races.forget(int(address))
            else:
                made = np.array([run.memory.allocate(int(size)) for size in values], np.uint64)
                access.store("call", g.threads, _at(places[0], g), [made])

        return heap
    raise NotImplementedError(f"calls of {name}")


def _at(place: Place, g: Any) -> Array:
    return np.full(len(g.threads), place.offset, np.uint64)


def _text(run: Any, g: Any, node: Node, place: Place, k: int) -> str:
    access = Access(run, node)
    (pointers,) = access.load("call", g.threads, _at(place, g), TYPES["u64"])
    one, at, found = g.threads[k : k + 1], pointers[k : k + 1], bytearray()
    while not found.endswith(b"\0"):
        found.append(int(access.load("generic", one, at + np.uint64(len(found)), TYPES["u8"])[0][0]))
    return found[:-1].decode()


def _formatted(access: Access, thread: Array, text: str, address: Any) -> str:
    """The output of printf for a text: each value is at a multiple of its width."""
    at, values = int(address), []
    for length, kind in re.findall(r"%[-+ #0]*\d*(?:\.\d+)?(hh|h|ll|l)?([diouxXeEfFgGcsp%])", text):
        if kind == "%":
            continue
        is_float = kind in "eEfFgG"
        width = 8 if is_float or length in ("l", "ll") or kind in "sp" else 4
        at = -(-at // width) * width
        dtype = TYPES["f64"] if is_float else TYPES[f"{'s' if kind in 'di' else 'u'}{8 * width}"]
        values.append(access.load("generic", thread, np.array([at], np.uint64), dtype)[0][0].item())
        at += width
    return re.sub(r"(%[-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l)([diouxX])", r"\1\2", text) % tuple(values)


EFFECTS: dict[str, Any] = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
    "cp": _copy,
    "cvta": _convert_address,
    "isspacep": _is_space,
    "call": _call,
}
