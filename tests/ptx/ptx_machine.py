"""Runs PTX: all threads of a grid step by step, those first that have come least far in the code.

A step is a stretch of instructions without branches. Threads that wait, at a barrier or for the other lanes of a
shuffle, go on once all that they wait for are at the same instruction; where they never come, that is a fault.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ptx_access
import ptx_warps
import ptx_wgmma
from ptx_checks import Barriers, Counts, GlobalRaces, Races
from ptx_code import Code, Imm, Mark, Node, Operand, Place, Reg, Special, Target, Vector, flatten
from ptx_memory import POISON, Fault, GlobalMemory, OwnMemory
from ptx_opcodes import Form, Row, row_of
from ptx_text import parse
from ptx_values import TYPES, UNSIGNED, Array, read_as, widened

END = np.int32(1 << 30)  # where threads are that have ended
MAX_THREADS = 1 << 14  # that run together
MAX_STEPS = 2_000_000
REGISTER_TYPES = {name: np.dtype(bool) if name == "pred" else UNSIGNED[t.itemsize] for name, t in TYPES.items()}


@dataclass
class Group:
    """The threads that run an instruction: by their numbers in the run, or all of them."""

    threads: Array
    is_all: bool

    def of(self, values: Array) -> Array:
        return values if self.is_all or len(values) == 1 else values[self.threads]

    def only(self, chosen: Array) -> Group:
        return self if chosen.all() else Group(self.threads[chosen], False)


Step = Callable[["Run", Group], None]
Reader = Callable[["Run", Group], Array]


@dataclass
class Stretch:
    """Instructions without branches; `ready` says which of the threads that are here need not wait any more."""

    steps: list[Step] = field(default_factory=list)
    opcodes: Counter[str] = field(default_factory=Counter)
    ready: Callable[[Run, Array], Array] | None = None
    last: Step | None = None  # a branch
    text: str = ""


class Machine:
    """A program of PTX and one of its entries, ready to run."""

    finds_races_in_arrays = True  # besides those in shared memory

    def __init__(self, text: str, entry: str = ""):
        program = parse(text)
        self.code: Code = flatten(program, entry or program.entries[0])
        self.watched = ptx_wgmma.watched(self.code)
        self.stretches: list[Stretch] = []
        self.variables = {name: _content(v.size, v.init) for name, v in self.code.variables.items()}
        self._build()

    def launch(
        self,
        memory: GlobalMemory,
        params: bytes,
        grid: Sequence[int] = (1,),
        block: Sequence[int] = (32,),
        shared: int = 0,
        order: int = 0,
        counts: Counts | None = None,
        races: bool = True,
    ) -> list[str]:
        """Runs a grid; gives what it printed.

        `order` is that of blocks, and of threads at atomics: 0 as they count, -1 from the end, others shuffled.
        Raises Fault for what a GPU would not do, or not always.
        """
        grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
        threads = int(np.prod(block))
        if self.code.max_threads and threads > self.code.max_threads:
            raise Fault("launch", f"{threads} threads in a block that was compiled for {self.code.max_threads}")
        if len(params) < self.code.param_size:
            raise Fault("launch", f"{len(params)} bytes of parameters, and the kernel has {self.code.param_size}")
        padded, blocks = -(-threads // 32) * 32, int(np.prod(grid))
        together, printed = max(1, MAX_THREADS // padded), []
        numbers = np.arange(blocks)
        if order:
            numbers = numbers[::-1] if order < 0 else np.random.default_rng(order).permutation(blocks)
        memory = GlobalMemory(list(memory.pieces), list(memory._bases), heap_size=memory.heap_size)
        for name, data in self.variables.items():
            memory.add(data, name)
        for first in range(0, blocks, together):
            with np.errstate(all="ignore"):
                run = Run(
                    self, memory, params, grid, block, numbers[first : first + together], shared, order, counts, races
                )
                run.run()
                printed += run.printed
        memory.check_constants()
        memory.check_heap()
        return printed

    # ---- from code to steps

    def _build(self) -> None:
        nodes = self.code.nodes
        labels: dict[str, int] = {}
        self.stretches, pending = [Stretch()], []
        for node in nodes:
            if isinstance(node, Mark):
                self._fresh()
                labels[node.label] = len(self.stretches) - 1
                continue
            waits = ptx_warps.WAITS.get(node.opcode)
            ready = waits(self, node) if waits else None
            if ready is not None:
                self._fresh(always=True)
                self.stretches[-1].ready = ready
            stretch = self.stretches[-1]
            stretch.text = stretch.text or f"line {node.statement.line}: {node.statement.text}"
            stretch.opcodes[node.opcode] += 1
            is_inlined = node.opcode == "call" and isinstance(node.operands[0], Target)
            if node.opcode in ("bra", "brx", "ret", "exit") or (is_inlined and node.guard is not None):
                pending.append((stretch, node))
                self._fresh(always=True)
            elif not is_inlined:  # whose body follows
                stretch.steps.append(self._step(node))
            if ready is not None:
                self._fresh(always=True)
        for stretch, node in pending:
            stretch.last = self._branch(node, labels)

    def _fresh(self, always: bool = False) -> None:
        if always or self.stretches[-1].steps or self.stretches[-1].opcodes:
            self.stretches.append(Stretch())

    def _branch(self, node: Node, labels: dict[str, int]) -> Step:
        (*index, target) = node.operands if node.operands else (None,)
        places = np.array([labels[t] for t in target.labels] if isinstance(target, Target) else [END], np.int32)
        choice = self.reader(index[0], TYPES["u32"]) if index else None
        # Threads that a guard keeps from a call go to where it returns to.
        guard = self.guard(node, node.opcode == "call")

        def branch(run: Run, g: Group) -> None:
            g = guard(run, g) if guard else g
            run.pc[g.threads] = places[0] if choice is None else places[choice(run, g)]

        return branch

    def guard(self, node: Node, otherwise: bool = False) -> Callable[[Run, Group], Group] | None:
        """The threads of a group that a guard lets run, or the other ones; None where there is no guard."""
        if node.guard is None:
            return None
        number, negated = node.guard.number, node.statement.negated != otherwise

        def chosen(run: Run, g: Group) -> Group:
            found = g.of(run.registers[number])
            return g.only(~found if negated else found)

        return chosen

    def _step(self, node: Node) -> Step:
        form = Form(node.opcode, node.statement.suffixes)
        effect = EFFECTS.get(node.opcode)
        row = row_of(form)
        if effect is not None:
            step = effect(self, node, form)
        elif row is not None:
            step = self._pure(node, form, row)
        else:
            raise NotImplementedError(f"line {node.statement.line}: {node.statement.text}")
        guard = self.guard(node)
        if guard is None:
            return step

        def guarded(run: Run, g: Group) -> None:
            g = guard(run, g)
            if len(g.threads):
                step(run, g)

        return guarded

    def _pure(self, node: Node, form: Form, row: Row) -> Step:
        count = 2 if "|" in node.statement.operands[0] else 1
        if any(o.startswith("!") for o in node.statement.operands):
            raise NotImplementedError(node.statement.text)
        sources = node.operands[count:]
        types = row.operand_types(form, len(sources))
        readers = [self.reader(o, TYPES[t]) for o, t in zip(sources, types, strict=True)]
        writers = [self.writer(o) for o in node.operands[:count]]
        compute = row.compute
        if row.carries:

            def carrying(run: Run, g: Group) -> None:
                value, carry = compute(form, *(read(run, g) for read in readers), g.of(run.carry))
                writers[0](run, g, value)
                run.carry[g.threads] = carry

            return carrying
        if len(writers) == 1 and form.opcode != "setp":

            def simple(run: Run, g: Group) -> None:
                writers[0](run, g, compute(form, *(read(run, g) for read in readers)))

            return simple

        def several(run: Run, g: Group) -> None:
            found = compute(form, *(read(run, g) for read in readers))
            for write, value in zip(writers, found, strict=False):
                write(run, g, value)

        return several

    # ---- operands

    def reader(self, operand: Operand, dtype: np.dtype) -> Reader:
        """Gives an operand as a type: one value for each thread, or one for all."""
        match operand:
            case Reg(number) if number in self.watched:

                def watched(run: Run, g: Group) -> Array:
                    run.products.used(run, g.threads, number)
                    return read_as(g.of(run.registers[number]), dtype)

                return watched
            case Reg(number):
                return lambda run, g: read_as(g.of(run.registers[number]), dtype)
            case Imm(text):
                value = np.array([immediate(text, dtype)])
                return lambda run, g: value
            case Special(name):
                return lambda run, g: g.of(run.special(name)).astype(dtype)
            case Place("global", name=name):
                address = np.array([self.variables[name].ctypes.data], np.uint64).astype(dtype)
                return lambda run, g: address
            case Place(offset=offset):
                place = np.array([offset], dtype)
                return lambda run, g: place
        raise NotImplementedError(f"operand {operand}")

    def writer(self, operand: Operand) -> Callable[[Run, Group, Array], None]:
        if operand is None:
            return lambda run, g, values: None
        assert isinstance(operand, Reg), operand
        number, is_watched = operand.number, operand.number in self.watched

        def write(run: Run, g: Group, values: Array) -> None:
            if is_watched:
                run.products.used(run, g.threads, number)
            target = run.registers[number]
            target[... if g.is_all else g.threads] = widened(values, target.dtype)

        return write

    def parts(self, operand: Operand) -> tuple[Operand, ...]:
        return operand.items if isinstance(operand, Vector) else (operand,)


def immediate(text: str, dtype: np.dtype) -> Any:
    """A number as PTX writes it: floats by their bits."""
    if text[:2] in ("0f", "0d"):
        bits = int(text[2:], 16)
        exact = (
            np.array([bits], np.uint32).view(np.float32)
            if text[1] == "f"
            else np.array([bits], np.uint64).view(np.float64)
        )
        return exact[0] if dtype.kind == "f" else exact.view(UNSIGNED[exact.itemsize])[0].astype(dtype)
    value = int(text.rstrip("U"), 0)
    if dtype.kind == "f":
        return dtype.type(value)
    if dtype == np.bool_:
        return bool(value)
    return np.array([value & ((1 << 8 * dtype.itemsize) - 1)], UNSIGNED[dtype.itemsize]).view(dtype)[0]


def _content(size: int, init: bytes) -> Array:
    data = np.zeros(-(-max(size, 1) // 16) * 16 + 16, np.uint8)
    data = data[-data.ctypes.data % 16 :]
    data[: len(init)] = np.frombuffer(init, np.uint8)
    return data[: max(size, 1)]


class Run:
    """Some blocks of a grid that run together."""

    def __init__(
        self, machine: Machine, memory: GlobalMemory, params: bytes, grid: Any, block: Any, blocks: Array,
        shared: int, order: int, counts: Counts | None, races: bool,
    ):  # fmt: skip
        code, threads = machine.code, int(np.prod(block))
        self.machine, self.memory, self.grid, self.block, self.blocks = machine, memory, grid, block, blocks
        self.padded = -(-threads // 32) * 32
        self.size = self.padded * len(blocks)
        self.order, self.counts, self.printed = order, counts, []
        self.lin = np.arange(self.size) % self.padded
        self.row = np.arange(self.size) // self.padded  # the number of the block in this run
        self.pc = np.where(self.lin < threads, 0, END).astype(np.int32)
        self.exists = self.lin < threads
        self.blocked = np.zeros(self.size, bool)
        self.registers = [
            np.full(self.size, 0, t)
            if t == np.bool_
            else np.full(self.size, 0xDEADBEEFDEADBEEF & ((1 << 8 * t.itemsize) - 1), t)
            for t in (REGISTER_TYPES[name] for name in code.registers)
        ]
        self.carry = np.zeros(self.size, bool)
        self.shared_bytes = code.shared_size + shared
        self.spaces = {
            "shared": OwnMemory("shared", self.shared_bytes, len(blocks)),
            "local": OwnMemory("local", code.local_size, self.size),
            "call": OwnMemory("parameter", code.call_size, self.size),
            "param": OwnMemory("parameter", len(params), 1),
        }
        self.spaces["param"].data[: len(params)] = np.frombuffer(params, np.uint8)
        self.dynamic = shared
        self.barriers = Barriers(self.size, self.padded)
        self.races = Races(len(self.spaces["shared"].data), self.barriers) if races and self.shared_bytes else None
        self.global_races = GlobalRaces(self.barriers) if races and machine.finds_races_in_arrays else None
        self.copies = ptx_access.Copies(self.size)
        self.products = (
            ptx_wgmma.Products(self.size, machine.watched, self.races, len(self.spaces["shared"].data))
            if machine.watched
            else None
        )
        self._special: dict[str, Array] = {}
        self.steps = np.zeros(self.size if counts is not None else 0, np.int64)  # instructions of each thread
        if counts is not None:
            counts.threads += int(self.exists.sum())

    def run(self) -> None:
        stretches = self.machine.stretches
        for step_number in itertools.count():
            at = np.where(self.blocked, END, self.pc).min()
            if at == END:
                if self.blocked.any():
                    raise self._stuck()
                if self.counts is not None:
                    self.counts.busiest = max(self.counts.busiest, int(self.steps.max()))
                return
            if at >= len(stretches):
                self.pc[self.pc == at] = END
                continue
            stretch = stretches[at]
            threads = np.flatnonzero(self.pc == at)
            if stretch.ready is not None:
                ready = stretch.ready(self, threads)
                self.blocked[threads] = ~ready
                threads = threads[ready]
                if not len(threads):
                    continue
            if step_number > MAX_STEPS:
                raise Fault("progress", f"threads wait for others that never run: {stretch.text}")
            g = Group(threads, len(threads) == self.size)
            if self.counts is not None:
                for opcode, count in stretch.opcodes.items():
                    self.counts.instructions[opcode] += count * len(threads)
                together = sum(stretch.opcodes.values())
                self.counts.warp_instructions += together * len(np.unique(threads >> 5))
                self.steps[threads] += together
            for step in stretch.steps:
                step(self, g)
            self.pc[threads] = at + 1
            if stretch.last is not None:
                stretch.last(self, g)

    def _stuck(self) -> Fault:
        first = int(np.argmax(self.blocked))
        same = self.exists & (self.row == self.row[first])
        where = Counter(
            "ended" if pc == END else self.machine.stretches[pc].text for pc in self.pc[same].tolist()
        ).most_common()
        told = "; ".join(f"{n} threads {w if w == 'ended' else f'at {w}'}" for w, n in where)
        return Fault("barrier", f"block {self.blocks[self.row[first]]} waits for ever: {told}")

    def thread(self, number: int) -> str:
        return f"thread {int(self.lin[number])} of block {int(self.blocks[self.row[number]])}"

    def special(self, name: str) -> Array:
        if name not in self._special:
            self._special[name] = np.asarray(self._make_special(name.removeprefix("%")))
        return self._special[name]

    def _make_special(self, name: str) -> Array:
        name, _, axis_name = name.partition(".")
        lane = (self.lin % 32).astype(np.uint32)
        if axis_name:
            axis = "xyz".index(axis_name)
            below = int(np.prod(self.block[:axis])), int(np.prod(self.grid[:axis]))
            return {
                "tid": lambda: self.lin // below[0] % self.block[axis],
                "ctaid": lambda: self.blocks[self.row] // below[1] % self.grid[axis],
                "ntid": lambda: np.full(1, self.block[axis]),
                "nctaid": lambda: np.full(1, self.grid[axis]),
            }[name]()
        one = np.uint32(1)
        below_lane, own_lane = (one << lane) - one, one << lane
        simple = {
            "laneid": lambda: lane, "warpid": lambda: self.lin // 32, "nwarpid": lambda: np.full(1, self.padded // 32),
            "smid": lambda: self.row, "nsmid": lambda: np.full(1, 132), "gridid": lambda: np.zeros(1, np.int64),
            "lanemask_eq": lambda: own_lane, "lanemask_lt": lambda: below_lane, "lanemask_ge": lambda: ~below_lane,
            "lanemask_le": lambda: own_lane | below_lane, "lanemask_gt": lambda: ~(own_lane | below_lane),
            "dynamic_smem_size": lambda: np.full(1, self.dynamic),
            "total_smem_size": lambda: np.full(1, self.shared_bytes),
            "clock": lambda: np.zeros(1, np.int64), "clock64": lambda: np.zeros(1, np.int64),
            "globaltimer": lambda: np.zeros(1, np.int64), "WARP_SZ": lambda: np.full(1, 32),
        }  # fmt: skip
        return simple[name]()


# ---- instructions that move, besides those of memory and of warps


def _move(machine: Machine, node: Node, form: Form) -> Step:
    """Registers, and numbers made of parts or taken apart."""
    target, source = node.operands
    if isinstance(source, Vector):
        write = machine.writer(target)
        wide = TYPES["b64" if form.type.endswith("64") else "b32"]
        part = np.dtype(f"u{wide.itemsize // len(source.items)}")
        readers = [machine.reader(o, part) for o in source.items]

        def pack(run: Run, g: Group) -> None:
            parts = np.broadcast_arrays(*(read(run, g) for read in readers))
            write(run, g, np.ascontiguousarray(np.stack(parts, axis=-1)).view(wide).reshape(-1))

        return pack
    if isinstance(target, Vector):
        wide = UNSIGNED[TYPES[form.type].itemsize]
        part, read = np.dtype(f"u{wide.itemsize // len(target.items)}"), machine.reader(source, wide)
        writers = [machine.writer(o) for o in target.items]

        def unpack(run: Run, g: Group) -> None:
            parts = np.ascontiguousarray(read(run, g)).view(part).reshape(-1, len(writers))
            for k, write in enumerate(writers):
                write(run, g, np.ascontiguousarray(parts[:, k]))

        return unpack
    read, write = machine.reader(source, TYPES[form.type]), machine.writer(target)
    return lambda run, g: write(run, g, read(run, g))


def _nothing(machine: Machine, node: Node, form: Form) -> Step:
    return lambda run, g: None


def _trap(machine: Machine, node: Node, form: Form) -> Step:
    def trap(run: Run, g: Group) -> None:
        raise Fault("trap", f"{run.thread(g.threads[0])}: {node.statement.text}")

    return trap


EFFECTS: dict[str, Callable[[Machine, Node, Form], Step]] = {
    "mov": _move,
    "trap": _trap,
    "brkpt": _trap,
    "fence": ptx_wgmma.proxy_fence,
    "wgmma": ptx_wgmma.effect,
    **dict.fromkeys(("membar", "nanosleep", "prefetch", "prefetchu", "griddepcontrol", "pmevent"), _nothing),
    **ptx_access.EFFECTS,
    **ptx_warps.EFFECTS,
}

__all__ = ["POISON", "Machine"]
