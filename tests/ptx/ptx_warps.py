"""Instructions of the PTX machine in which threads meet: barriers, shuffles, votes, and products of small matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import ptx_wgmma
from ptx_access import Access, address_of
from ptx_code import Address, Imm, Node
from ptx_memory import Fault
from ptx_values import TYPES, Array

END = 1 << 30  # where threads are that have ended
LANES = np.arange(32)

# ---- who waits for whom


def _present(run: Any, threads: Array) -> Array:
    """Which of all threads are here."""
    here = np.zeros(run.size, bool)
    here[threads] = True
    return here


def _bits(here: Array) -> Array:
    """The lanes of each warp as bits."""
    return (here.reshape(-1, 32).astype(np.uint32) << LANES.astype(np.uint32)).sum(axis=1, dtype=np.uint32)


class _Here:
    """Stands for a group of threads where an operand is read before they run."""

    def __init__(self, threads: Array):
        self.threads, self.is_all = threads, False

    def of(self, values: Array) -> Array:
        return values if len(values) == 1 else values[self.threads]


def _lanes_of_mask(operand: int | None) -> Callable[[Any, Node], Any]:
    """Threads wait for the lanes in their mask, an operand by its number; without one, for the whole warp."""

    def waits(machine: Any, node: Node) -> Any:
        if operand is not None and len(node.operands) <= abs(operand) - (operand < 0):
            return None
        read = machine.reader(node.operands[operand], TYPES["u32"]) if operand is not None else None
        what = f"line {node.statement.line}: {node.statement.text}"

        def ready(run: Any, threads: Array) -> Array:
            # Whole warps may have lanes that do not exist.
            exist = _bits(run.exists)[threads >> 5]
            mask = np.broadcast_to(read(run, _Here(threads)), len(threads)) if read else exist
            lane = np.uint32(1) << (threads & 31).astype(np.uint32)
            if read is not None and (own := mask & lane == 0).any():
                first = int(threads[np.argmax(own)])
                raise Fault("lanes", f"{run.thread(first)} is not in its own mask {mask[np.argmax(own)]:#x}: {what}")
            here = _bits(_present(run, threads))[threads >> 5]
            gone = _bits(run.pc == END)[threads >> 5]
            # All lanes of a mask have to name the same one.
            arrived = mask & ~gone & ~here == 0  # those that have ended are not waited for
            masks = np.zeros(run.size, np.uint32)
            masks[threads] = mask
            by_warp = masks.reshape(-1, 32)[threads >> 5]
            named = ((mask[:, None] >> LANES.astype(np.uint32)) & 1 != 0) & (
                (here[:, None] >> LANES.astype(np.uint32)) & 1 != 0
            )
            if (differ := (named & (by_warp != mask[:, None])).any(axis=1) & arrived).any():
                k = int(np.argmax(differ))
                raise Fault("lanes", f"{run.thread(int(threads[k]))} and others name different masks: {what}")
            return arrived

        return ready

    return waits


def _whole_block(machine: Any, node: Node) -> Any:
    if node.statement.suffixes[:1] == ("warp",):
        return _lanes_of_mask(0)(machine, node)
    counts = [o for o in node.operands if isinstance(o, Imm)]
    is_reduction = "red" in node.statement.suffixes
    expected = int(counts[1].text) if len(counts) > 1 and not is_reduction else None
    if "arrive" in node.statement.suffixes:
        raise NotImplementedError(node.statement.text)

    def ready(run: Any, threads: Array) -> Array:
        here = np.bincount(run.row[threads], minlength=len(run.blocks))
        alive = np.bincount(run.row, weights=run.exists, minlength=len(run.blocks))
        return (here == (alive if expected is None else expected))[run.row[threads]]

    return ready


# ---- barriers


def _barrier(machine: Any, node: Node, form: Any) -> Any:
    if form.has("warp"):

        def of_warp(run: Any, g: Any) -> None:
            run.barriers.pass_warp(g.threads)

        return of_warp

    def passed(run: Any, g: Any) -> None:
        run.barriers.pass_block(g.threads)

    if not form.has("red"):
        return passed
    target, *_, source = node.operands
    negated = node.statement.operands[-1].startswith("!")
    read, write = machine.reader(source, TYPES["pred"]), machine.writer(target)

    def reduced(run: Any, g: Any) -> None:
        passed(run, g)
        given = np.broadcast_to(read(run, g) != negated, len(g.threads))
        true = np.bincount(run.row[g.threads], weights=given, minlength=len(run.blocks))[run.row[g.threads]]
        total = np.bincount(run.row[g.threads], minlength=len(run.blocks))[run.row[g.threads]]
        found = true.astype(np.uint32) if form.has("popc") else true == total if form.has("and") else true > 0
        write(run, g, found)

    return reduced


# ---- values from other lanes


def _shuffle(machine: Any, node: Node, form: Any) -> Any:
    has_predicate = "|" in node.statement.operands[0]
    target, predicate = node.operands[0], node.operands[1] if has_predicate else None
    value, lanes, clamp, _ = (machine.reader(o, TYPES["u32"]) for o in node.operands[2 if has_predicate else 1 :])
    write, tell = machine.writer(target), machine.writer(predicate)
    mode = next(s for s in form.suffixes if s in ("up", "down", "bfly", "idx"))

    def shuffle(run: Any, g: Any) -> None:
        lane = (g.threads & 31).astype(np.int64)
        by, packed = lanes(run, g).astype(np.int64) & 31, clamp(run, g).astype(np.int64)
        segment, bound = packed >> 8 & 31, packed & 31
        last = (lane & segment) | (bound & ~segment)
        first = lane & segment
        if mode == "up":
            source = lane - by
            inside = source >= last
        elif mode == "down":
            source = lane + by
            inside = source <= last
        elif mode == "bfly":
            source = lane ^ by
            inside = source <= last
        else:
            source = first | (by & ~segment)
            inside = source <= last
        source = np.where(inside, source, lane)
        from_thread = (g.threads & ~31) + source
        here = _present(run, g.threads)
        # What lanes give that have ended, or never were, is anything.
        if (lost := ~here[from_thread] & (run.pc[from_thread] != END)).any():
            k = int(np.argmax(lost))
            told = f"{run.thread(int(g.threads[k]))} takes from lane {source[k]}, which is not in its mask"
            raise Fault("lanes", f"{told}: line {node.statement.line}: {node.statement.text}")
        everybody = np.full(run.size, 0xDEADBEEF, np.uint32)
        everybody[g.threads] = value(run, g)
        write(run, g, everybody[from_thread])
        tell(run, g, np.broadcast_to(inside, len(g.threads)))

    return shuffle


def _vote(machine: Any, node: Node, form: Any) -> Any:
    target, source, mask = node.operands
    negated = node.statement.operands[1].startswith("!")
    read, lanes, write = (
        machine.reader(source, TYPES["pred"]),
        machine.reader(mask, TYPES["u32"]),
        machine.writer(target),
    )

    def vote(run: Any, g: Any) -> None:
        given = np.zeros(run.size, bool)
        given[g.threads] = read(run, g) != negated
        own = lanes(run, g)
        true = _bits(given)[g.threads >> 5] & own
        if form.has("ballot"):
            write(run, g, true)
        elif form.has("any"):
            write(run, g, true != 0)
        else:
            here = _bits(_present(run, g.threads))[g.threads >> 5] & own
            all_true = true == here
            write(run, g, all_true | (true == 0) if form.has("uni") else all_true)

    return vote


def _active(machine: Any, node: Node, form: Any) -> Any:
    write = machine.writer(node.operands[0])
    return lambda run, g: write(run, g, _bits(_present(run, g.threads))[g.threads >> 5])


def _match(machine: Any, node: Node, form: Any) -> Any:
    has_predicate = "|" in node.statement.operands[0]
    source, mask = node.operands[2:] if has_predicate else node.operands[1:]
    read, lanes = machine.reader(source, TYPES[form.type]), machine.reader(mask, TYPES["u32"])
    write = machine.writer(node.operands[0])
    tell = machine.writer(node.operands[1] if has_predicate else None)

    def match(run: Any, g: Any) -> None:
        everybody = np.zeros(run.size, TYPES[form.type])
        everybody[g.threads] = read(run, g)
        by_warp = everybody.reshape(-1, 32)[g.threads >> 5]
        equal = by_warp == everybody[g.threads][:, None]
        found = (equal.astype(np.uint32) << LANES.astype(np.uint32)).sum(axis=1, dtype=np.uint32)
        found &= _bits(_present(run, g.threads))[g.threads >> 5] & lanes(run, g)
        if form.has("all"):
            every = found == lanes(run, g)
            tell(run, g, every)
            found = np.where(every, found, np.uint32(0))
        write(run, g, found)

    return match


def _reduce(machine: Any, node: Node, form: Any) -> Any:
    target, source, mask = node.operands
    dtype = TYPES[form.type]
    read, lanes, write = machine.reader(source, dtype), machine.reader(mask, TYPES["u32"]), machine.writer(target)
    functions = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
                 "xor": np.bitwise_xor}  # fmt: skip
    function = next(f for name, f in functions.items() if form.has(name))

    def reduce(run: Any, g: Any) -> None:
        given, own = np.broadcast_to(read(run, g), len(g.threads)), np.broadcast_to(lanes(run, g), len(g.threads))
        out = np.empty(len(g.threads), dtype)
        key = (g.threads >> 5).astype(np.int64) << 32 | own
        for k in np.unique(key):
            out[key == k] = function.reduce(given[key == k])
        write(run, g, out)

    return reduce


# ---- matrices of a warp


def _whole_warps(run: Any, g: Any, node: Node) -> None:
    if len(g.threads) % 32 or not _present(run, g.threads).reshape(-1, 32)[np.unique(g.threads >> 5)].all():
        raise Fault("lanes", f"a warp lacks lanes: line {node.statement.line}: {node.statement.text}")


def _load_matrices(machine: Any, node: Node, form: Any) -> Any:
    """Lane g t of the matrix x gets row g, columns 2t and 2t + 1, or the other way round; lanes say where rows are."""
    target, source = node.operands
    assert isinstance(source, Address) and form.has("m8n8")
    writers = [machine.writer(o) for o in machine.parts(target)]
    read, transposed, count = address_of(machine, source), form.has("trans"), len(writers)

    def load(run: Any, g: Any) -> None:
        _whole_warps(run, g, node)
        at = np.ascontiguousarray(read(run, g)).reshape(-1, 32)
        threads = g.threads.reshape(-1, 32)
        own = threads[:, : 8 * count].reshape(-1)
        rows = at[:, : 8 * count].reshape(-1)
        counts, run.counts = run.counts, None
        access = Access(run, node)
        words = np.stack(access.load("shared", own, rows, TYPES["u32"], 4), axis=1)
        run.counts = counts
        if counts is not None:
            matrix = own // 32 * 4 + (own & 31) // 8
            counts.shared_access("load", matrix, rows, 16)
        halves = np.ascontiguousarray(words).view(np.uint16).reshape(-1, count, 8, 8)  # warp, matrix, row, column
        if transposed:
            halves = halves.swapaxes(2, 3)
        lanes = np.ascontiguousarray(halves).view(np.uint32).reshape(-1, count, 32)
        for k, write in enumerate(writers):
            write(run, g, np.ascontiguousarray(lanes[:, k]).reshape(-1))

    return load


G, T = LANES // 4, LANES % 4


def _halves(registers: list[Array], dtype: np.dtype) -> Array:
    """The two halves of each register of each lane: warp, lane, register, half."""
    packed = np.stack(registers, axis=-1).reshape(-1, 32, len(registers))
    return np.ascontiguousarray(packed).view(dtype).reshape(len(packed), 32, len(registers), 2).astype(np.float64)


def _fragment_16(a: list[Array], b: list[Array], dtype: np.dtype) -> tuple[Array, Array]:
    """m16n8k16 of 16-bit floats: A in four registers, B in two."""
    x, y = _halves(a, dtype), _halves(b, dtype)
    rows, columns = np.zeros((len(x), 16, 16)), np.zeros((len(x), 16, 8))
    for register in range(4):
        for half in range(2):
            rows[:, G + register % 2 * 8, 2 * T + half + register // 2 * 8] = x[:, :, register, half]
    for register in range(2):
        for half in range(2):
            columns[:, 2 * T + half + register * 8, G] = y[:, :, register, half]
    return rows, columns


def _fragment_8(a: list[Array], b: list[Array], dtype: np.dtype) -> tuple[Array, Array]:
    """m16n8k8 of TF32: the low bits of the floats do not count."""
    clear = [(r & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64).reshape(-1, 32) for r in (*a, *b)]
    rows, columns = np.zeros((len(clear[0]), 16, 8)), np.zeros((len(clear[0]), 8, 8))
    for register in range(4):
        rows[:, G + register % 2 * 8, T + register // 2 * 4] = clear[register]
    for register in range(2):
        columns[:, T + register * 4, G] = clear[4 + register]
    return rows, columns


def _fragment_4(a: list[Array], b: list[Array], dtype: np.dtype) -> tuple[Array, Array]:
    """m8n8k4 of doubles."""
    (x,), (y,) = ([r.view(np.float64).reshape(-1, 32) for r in given] for given in (a, b))
    rows, columns = np.zeros((len(x), 8, 4)), np.zeros((len(x), 4, 8))
    rows[:, G, T], columns[:, T, G] = x, y
    return rows, columns


FRAGMENTS = {
    ("m16n8k16", "f16"): _fragment_16,
    ("m16n8k16", "bf16"): _fragment_16,
    ("m16n8k8", "tf32"): _fragment_8,
    ("m8n8k4", "f64"): _fragment_4,
}


def _multiply(machine: Any, node: Node, form: Any) -> Any:
    """D = A B + C. Of D and C a lane has row g, columns 2t and 2t + 1, then those of row g + 8."""
    shape = form.suffixes[2]
    result, left, _, given = form.types
    fragments = FRAGMENTS.get((shape, left))
    if fragments is None or form.suffixes[3:5] != ("row", "col") or result != given or result == "f16":
        raise NotImplementedError(node.statement.text)
    bits = TYPES["u64" if left == "f64" else "u32"]
    a, b = ([machine.reader(o, bits) for o in machine.parts(x)] for x in node.operands[1:3])
    c = [machine.reader(o, TYPES[given]) for o in machine.parts(node.operands[3])]
    writers = [machine.writer(o) for o in machine.parts(node.operands[0])]

    def multiply(run: Any, g: Any) -> None:
        _whole_warps(run, g, node)
        full = [[np.ascontiguousarray(np.broadcast_to(r(run, g), len(g.threads))) for r in rs] for rs in (a, b, c)]
        rows, columns = fragments(full[0], full[1], TYPES["f16" if left not in TYPES else left])
        product = rows @ columns
        for k, write in enumerate(writers):
            own = product[:, G + k // 2 * 8, 2 * T + k % 2].reshape(-1)
            write(run, g, (own + full[2][k]).astype(TYPES[result]))

    return multiply


# What threads wait for before an instruction, by its opcode: a function of the machine and the instruction, or None.
WAITS: dict[str, Callable[[Any, Node], Any]] = {
    "bar": _whole_block,
    "barrier": _whole_block,
    "shfl": _lanes_of_mask(-1),
    "vote": _lanes_of_mask(-1),
    "match": _lanes_of_mask(-1),
    "redux": _lanes_of_mask(-1),
    "ldmatrix": _lanes_of_mask(None),
    "mma": _lanes_of_mask(None),
    "wgmma": lambda machine, node: ptx_wgmma.waits(machine, node, _lanes_of_mask(None)),
}

EFFECTS: dict[str, Any] = {
    "bar": _barrier,
    "barrier": _barrier,
    "shfl": _shuffle,
    "vote": _vote,
    "activemask": _active,
    "match": _match,
    "redux": _reduce,
    "ldmatrix": _load_matrices,
    "mma": _multiply,
}
