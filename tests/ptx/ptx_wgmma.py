"""Instructions of the PTX machine by which four warps multiply matrices in shared memory, asynchronously.

After NVIDIA's description of `wgmma`: a product reads shared memory, and adds to registers, at any time until its
warps wait for the group that it belongs to. It reads through the asynchronous proxy, for which what threads have
written needs a fence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from ptx_checks import SEVERAL, Races
from ptx_code import Code, Imm, Node, Reg, Vector
from ptx_memory import Fault
from ptx_values import TYPES, Array

WARPGROUP = 128
UNIT = 16  # bytes, of which descriptors count
# By the number in a descriptor: bytes of a row of the pattern, and how many bits of the place are changed.
SWIZZLES = {0: (16, 0), 1: (128, 7), 2: (64, 3), 3: (32, 1)}
LANES = np.arange(WARPGROUP)
G, T, WARP = LANES % 32 // 4, LANES % 4, LANES // 32


def is_product(node: Any) -> bool:
    return isinstance(node, Node) and node.opcode == "wgmma" and "mma_async" in node.statement.suffixes


def registers_of(node: Node) -> tuple[int, ...]:
    """The registers that a product adds to, or that have its first factor."""
    return tuple(
        r.number for o in node.operands[:2] if isinstance(o, Vector) for r in o.items if isinstance(r, Reg)
    )  # fmt: skip


def watched(code: Code) -> dict[int, int]:
    """The registers that products use besides the threads, each with its place among them."""
    numbers = (number for node in code.nodes if is_product(node) for number in registers_of(node))
    return {number: k for k, number in enumerate(dict.fromkeys(numbers))}


@dataclass
class Product:
    """One that was begun and not waited for, by the threads `ids` of one warpgroup or several."""

    ids: Array
    groups: Array  # the number of each thread's group
    registers: Array
    units: Array  # of shared memory that it reads: warpgroup, unit
    left: Array  # threads that have not waited


class Products:
    """The products in flight, and the registers that other instructions have used since the last fence."""

    def __init__(self, threads: int, registers: dict[int, int], races: Races | None, shared_bytes: int):
        self.registers, self.races = registers, races
        self.group = np.zeros(threads, np.int64)
        # Of each register of each thread: how many products use it, and whether threads have used it themselves.
        self.flying = np.zeros((len(registers), threads), np.int16)
        self.shape = np.zeros((len(registers), threads), np.int16)
        self.touched = np.ones((len(registers), threads), bool)
        self.pending: list[Product] = []
        self.proxies = Proxies(threads, shared_bytes)
        if races is not None:
            races.proxies = self.proxies

    def used(self, run: Any, threads: Array, number: int) -> None:
        """Another instruction reads or writes a register."""
        k = self.registers[number]
        if self.flying[k].any() and (lost := self.flying[k, threads] > 0).any():
            who = run.thread(int(threads[np.argmax(lost)]))
            raise Fault("wgmma", f"{who} uses a register of a product that it has not waited for")
        self.touched[k, threads] = True

    def fence(self, threads: Array) -> None:
        self.touched[:, threads] = False

    def commit(self, threads: Array) -> None:
        self.group[threads] += 1

    def begin(self, run: Any, product: Product, n: int, results: Array, what: str) -> None:
        own = np.ix_(product.registers, product.ids)
        if (early := self.touched[own].any(axis=0)).any():
            who = run.thread(int(product.ids[np.argmax(early)]))
            raise Fault("wgmma", f"{who} has used registers of a product since wgmma.fence: {what}")
        flying = self.flying[own] > 0
        sums = np.isin(product.registers, results)[:, None]
        if (flying & (~sums | (self.shape[own] != n))).any():
            raise Fault("wgmma", f"a product of another shape is not waited for: {what}")
        self.flying[own] += 1
        self.shape[own] = np.where(sums, n, -1)
        if self.races is not None:
            self.proxies.read(self.races, product, what)
        self.pending.append(product)

    def wait(self, threads: Array, newest: int) -> None:
        """End the products of all groups that were made but the newest ones."""
        limit = np.full(len(self.group), -1, np.int64)
        limit[threads] = self.group[threads] - newest
        kept = []
        for product in self.pending:
            done = product.left & (product.groups < limit[product.ids])
            self.flying[np.ix_(product.registers, product.ids[done])] -= 1
            before = product.left.reshape(-1, WARPGROUP).any(axis=1)
            product.left &= ~done
            ended = before & ~product.left.reshape(-1, WARPGROUP).any(axis=1)
            if self.races is not None and ended.any():
                self.proxies.done(self.races, product, ended)
            if product.left.any():
                kept.append(product)
        self.pending = kept


class Proxies:
    """Which bytes of shared memory the asynchronous proxy may read, and when threads have made a fence for it."""

    def __init__(self, threads: int, size: int):
        self.fences = np.zeros(threads, np.int64)
        self.latest = np.full(threads, -1, np.int64)  # in which stretch between barriers the last fence was
        self.when: list[Array] = []  # of each fence of a thread, by its number
        self.before = np.zeros(size, np.int64)  # the fences that a byte's writer had made
        self.reading = np.zeros(-(-size // UNIT), np.int16)

    def fence(self, races: Races, threads: Array) -> None:
        epoch = races.barriers.now(threads)
        while len(self.when) <= int(self.fences[threads].max()):
            self.when.append(np.full(len(self.fences), np.iinfo(np.int64).max))
        for number in np.unique(self.fences[threads]):
            these = self.fences[threads] == number
            self.when[number][threads[these]] = epoch[these]
        self.fences[threads] += 1
        self.latest[threads] = epoch

    def written(self, threads: Array, places: Array, width: int, what: str) -> None:
        if (lost := self.reading[places // UNIT] > 0).any():
            raise Fault("race", f"thread {threads[lost][0]} writes what a product may still read: {what}")
        for k in range(width):
            self.before[places + k] = self.fences[threads]

    def read(self, races: Races, product: Product, what: str) -> None:
        """A product begins to read: what others wrote before a barrier, and a fence after it was written."""
        for ids, units in zip(product.ids.reshape(-1, WARPGROUP), product.units, strict=True):
            at = (units[:, None] * UNIT + np.arange(UNIT)).reshape(-1)
            now, writer, when = races.barriers.now(ids[0]), races.writer[at], races.written[at, 0]
            is_written = writer >= 0
            if (late := is_written & (when == now)).any():
                raise Fault(
                    "race",
                    f"thread {writer[late][0] % races.barriers.block} writes, no barrier, a product reads: {what}",
                )
            first = np.full(len(at), np.iinfo(np.int64).max)
            for number, fences in enumerate(self.when):
                these = is_written & (self.before[at] == number)
                first[these] = fences[writer[these]]
            open_ = is_written & (first >= now) & (self.latest[ids].min() <= when)
            if open_.any():
                who = f"thread {writer[open_][0] % races.barriers.block}"
                raise Fault("proxy", f"no fence.proxy.async after what {who} wrote, which a product reads: {what}")
            self.reading[units] += 1
            self._note(races, at, now)

    def done(self, races: Races, product: Product, ended: Array) -> None:
        for k in np.flatnonzero(ended):
            units = product.units[k]
            self.reading[units] -= 1
            at = (units[:, None] * UNIT + np.arange(UNIT)).reshape(-1)
            self._note(races, at, races.barriers.now(product.ids[k * WARPGROUP]))

    def _note(self, races: Races, at: Array, now: int) -> None:
        races.reader[at] = races.reader_warp[at] = SEVERAL
        races.read[at, 0] = now


# ---- where factors are


@dataclass(frozen=True)
class Descriptor:
    """Where a factor is in shared memory, in bytes."""

    start: int
    leading: int
    stride: int
    mode: int

    @staticmethod
    def of(bits: int) -> Descriptor:
        if bits >> 49 & 7:
            raise NotImplementedError(f"descriptor {bits:#x}: patterns that do not begin at a multiple of their size")
        if bits & ~0xC00E_3FFF_3FFF_3FFF:
            raise Fault("wgmma", f"descriptor {bits:#x} has bits that mean nothing")
        return Descriptor(*((bits >> at & 0x3FFF) * UNIT for at in (0, 16, 32)), bits >> 62)

    def units(self, extent: int, transposed: bool) -> Array:
        """The places of the factor's units of 16 bytes.

        Rows along M or N times the two units of K, or if it is transposed, units along M or N times the 16 of K.
        """
        width, mask = SWIZZLES[self.mode]
        if transposed:
            along, k = np.arange(extent // 8)[:, None], np.arange(16)[None, :]
            if self.mode == 0:
                at = along * self.stride + k % 8 * UNIT + k // 8 * self.leading
            else:
                pieces = width // UNIT
                at = along % pieces * UNIT + along // pieces * self.leading + k % 8 * width + k // 8 * self.stride
        else:
            along, k = np.arange(extent)[:, None], np.arange(2)[None, :]
            at = along % 8 * width + along // 8 * self.stride + k * (self.leading if self.mode == 0 else UNIT)
        at = at + self.start
        return at ^ (at >> 7 & mask) << 4


def _matrix(words: Array, dtype: str, transposed: bool) -> Array:
    """The numbers of units, in bytes: rows along M or N."""
    if dtype == "tf32":
        clear = (np.ascontiguousarray(words).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return clear.reshape(len(words), -1).astype(np.float64)
    found = np.ascontiguousarray(words).view(TYPES[dtype]).astype(np.float64)  # unit along M or N, K, element
    return found.swapaxes(1, 2).reshape(-1, found.shape[1]) if transposed else found.reshape(len(found), -1)


def _from_registers(registers: list[Array], dtype: str) -> Array:
    """The first factor of each warpgroup, of which a lane has row g and g + 8 of its warp's 16 rows."""
    packed = np.stack(registers, axis=-1).reshape(-1, WARPGROUP, 4)
    if dtype == "tf32":
        clear = (packed & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
        made = np.zeros((len(packed), 64, 8))
        for k in range(4):
            made[:, 16 * WARP + G + k % 2 * 8, T + k // 2 * 4] = clear[:, :, k]
        return made
    halves = np.ascontiguousarray(packed).view(TYPES[dtype]).reshape(len(packed), WARPGROUP, 4, 2).astype(np.float64)
    made = np.zeros((len(packed), 64, 16))
    for k in range(4):
        for half in (0, 1):
            made[:, 16 * WARP + G + k % 2 * 8, 2 * T + half + k // 2 * 8] = halves[:, :, k, half]
    return made


# ---- the instructions


def _whole_group(machine: Any, node: Node) -> Any:
    """Threads wait until all of their warpgroup are here."""

    def ready(run: Any, threads: Array) -> Array:
        here = np.zeros(run.size, bool)
        here[threads] = True
        if run.padded % WARPGROUP:
            raise Fault("wgmma", f"blocks of {run.padded} threads have a part of a warpgroup: {node.statement.text}")
        return here.reshape(-1, WARPGROUP).all(axis=1)[threads // WARPGROUP]

    return ready


def waits(machine: Any, node: Node, whole_warp: Any) -> Any:
    return _whole_group(machine, node) if is_product(node) else whole_warp(machine, node)


def effect(machine: Any, node: Node, form: Any) -> Any:
    if form.has("fence"):
        return lambda run, g: run.products.fence(g.threads)
    if form.has("commit_group"):
        return lambda run, g: run.products.commit(g.threads)
    if form.has("wait_group"):
        (number,) = node.operands
        assert isinstance(number, Imm)
        newest = int(number.text, 0)
        return lambda run, g: run.products.wait(g.threads, newest)
    return _product(machine, node, form)


def _same(values: Array, count: int, what: str) -> Iterable[int]:
    """The values that all threads of a warpgroup must agree on, for each warpgroup."""
    given = np.broadcast_to(values, count).reshape(-1, WARPGROUP)
    if (given != given[:, :1]).any():
        raise Fault("wgmma", f"threads of a warpgroup name different matrices: {what}")
    return (int(x) for x in given[:, 0])


def _product(machine: Any, node: Node, form: Any) -> Any:
    """D = A B + D. Of D a lane has rows g and g + 8 of its warp's 16, columns 2t and 2t + 1 of each eight."""
    what = f"line {node.statement.line}: {node.statement.text}"
    shape, (result, left, right) = form.suffixes[3], form.suffixes[4:7]
    depth = {"f16": 16, "bf16": 16, "tf32": 8}.get(left)
    sums, first, second, scale, *immediates = node.operands
    is_known = form.has("sync") and form.has("aligned") and result == "f32" and left == right and depth is not None
    if not is_known or not shape.endswith(f"k{depth}") or not isinstance(sums, Vector) or len(form.suffixes) != 7:
        raise NotImplementedError(what)
    n = int(shape.removeprefix("m64n").removesuffix(f"k{depth}"))
    numbers = [int(x.text, 0) for x in immediates if isinstance(x, Imm)]
    in_registers = isinstance(first, Vector)
    turns = [] if left == "tf32" else [False, *numbers[2:]] if in_registers else numbers[2:]
    turned_a, turned_b = (bool(x) for x in turns) if turns else (False, False)
    assert n % 8 == 0 and 8 <= n <= 256 and len(sums.items) == n // 2 and all(x in (1, -1) for x in numbers[:2]), what
    sign = numbers[0] * numbers[1]
    results = np.array([r.number for r in sums.items if isinstance(r, Reg)])
    places = np.array([machine.watched[number] for number in results])
    own = np.array([machine.watched[number] for number in registers_of(node)])
    factors = [r.number for r in first.items if isinstance(r, Reg)] if isinstance(first, Vector) else []
    read_a = None if in_registers else machine.reader(first, TYPES["u64"])
    read_b, adds = machine.reader(second, TYPES["u64"]), machine.reader(scale, TYPES["pred"])

    def load(run: Any, group: Array, descriptor: int, extent: int, turned: bool, units: list[Array]) -> Array:
        memory, at = run.spaces["shared"], Descriptor.of(descriptor).units(extent, turned)
        if int(at.max()) + UNIT > memory.size:
            raise Fault("bounds", f"{run.thread(group[0])}: a product reads behind {memory.size} bytes; {what}")
        if run.counts is not None:
            # Eight units make a matrix that is read at a time.
            matrix = np.arange(at.size).reshape(at.shape)
            matrix = matrix // 8 if turned else at.shape[0] // 8 * (matrix % 2) + matrix // 16
            run.counts.shared_access("load", matrix.reshape(-1), at.reshape(-1), UNIT)
        units.append((int(run.row[group[0]]) * memory.step + at.reshape(-1)) // UNIT)
        words = memory.data.reshape(-1, UNIT)[units[-1]].reshape(*at.shape, UNIT)
        return _matrix(words, left, turned)

    def product(run: Any, g: Any) -> None:
        groups, count = g.threads.reshape(-1, WARPGROUP), len(g.threads)
        rows, units = [], [[] for _ in groups]
        if read_a is None:
            rows = list(_from_registers([run.registers[k][g.threads] for k in factors], left))
        else:
            told = zip(groups, _same(read_a(run, g), count, what), units, strict=True)
            rows = [load(run, ids, bits, 64, turned_a, found) for ids, bits, found in told]
        told = zip(groups, _same(read_b(run, g), count, what), units, strict=True)
        columns = [load(run, ids, bits, n, turned_b, found) for ids, bits, found in told]
        read = np.stack([np.unique(np.concatenate(found)) for found in units])
        keeps = list(_same(adds(run, g), count, what))
        begun = Product(g.threads, run.products.group[g.threads], own, read, np.ones(count, bool))
        run.products.begin(run, begun, n, places, what)
        for ids, a, b, keep in zip(groups, rows, columns, keeps, strict=True):
            exact = sign * (a @ b.T)
            for k, number in enumerate(results):
                target = run.registers[number]
                before = target[ids].view(np.float32) if keep else np.float32(0)
                mine = exact[16 * WARP + G + k // 2 % 2 * 8, k // 4 * 8 + 2 * T + k % 2]
                target[ids] = (mine + before).astype(np.float32).view(target.dtype)

    return product


def proxy_fence(machine: Any, node: Node, form: Any) -> Any:
    """Fences: that for the asynchronous proxy orders what a thread did before and what it does then."""
    if not (form.has("proxy") and form.has("async")):
        return lambda run, g: None

    def fence(run: Any, g: Any) -> None:
        if run.products is not None and run.races is not None:
            run.products.proxies.fence(run.races, g.threads)

    return fence
