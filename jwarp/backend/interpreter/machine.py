"""Runs a kernel in NumPy, all threads in step; what every other backend is tested against."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jwarp.analysis.thread_order import awaited
from jwarp.errors import CompileError
from jwarp.ir.attributes import (
    BlockCholesky,
    BlockMatmul,
    BlockScan,
    BlockSolve,
    Extent,
    NativeCall,
    RecordField,
    RecordFields,
)
from jwarp.ir.evaluate import as_array, evaluate, evaluate_quietly
from jwarp.ir.evaluate_tiles import evaluate_tile
from jwarp.ir.formats import Conversion, parse
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Node, Op, Operand, Order, Param, Value, While
from jwarp.ir.ops import OPS
from jwarp.types import ArrayType, shape_of

Array = np.ndarray


def run(kernel: Kernel, dims: tuple[int, ...], args: Sequence[Any], trace: list[Array] | None = None) -> list[Array]:
    """The array parameters after a launch over `dims`; `args` has one entry per parameter.

    Nothing in `args` is changed. Missing launch dimensions count as 1, further ones repeat the
    threads. Where threads store to one element, the last in row-major order wins.

    The first check that fails ends the run with a RuntimeError, for the first thread that it fails for.

    To `trace`, if given, goes every decision that makes the kernel another smooth function, as an
    array over the threads: two runs with equal traces are on one smooth piece.
    """
    if len(args) != len(kernel.params):
        raise ValueError(f"kernel {kernel.name} takes {len(kernel.params)} arguments, not {len(args)}")
    interpreter = _Interpreter(kernel, dims, args, trace)
    with np.errstate(all="ignore"):
        if kernel.block_dim:
            interpreter.blocks()
        elif kernel.order in (Order.NUMBERS, Order.APART) or awaited(kernel) is not None:
            interpreter.one_by_one(kernel.tid_dims)
        elif interpreter.threads:
            interpreter.block(kernel.body, np.ones(interpreter.threads, bool))
    pairs = zip(kernel.params, interpreter.data, strict=False)  # the local arrays come after
    return [data for param, data in pairs if param.is_array]


def _spread(array: Array, shape: tuple[int, ...]) -> Array:
    """The array in a shape that it may not have; `np.broadcast_to` takes longer than most operations here."""
    return array if array.shape == shape else np.broadcast_to(array, shape)


def _copied(param: Param, value: Any) -> Array:
    """The argument as an array of its own with the parameter's dtype and rank."""
    if not isinstance(param.type, ArrayType):
        return np.array(value, param.type.dtype)
    copy = np.array(value)
    if copy.dtype != param.type.dtype.dtype or copy.ndim != param.type.ndim:
        raise ValueError(f"{param.name} must be {param.type}, not {copy.ndim}-D {copy.dtype}")
    return copy


class _Interpreter:
    """`values` has one array over the threads per value, or one without dimensions if all agree.

    A kernel with tiles runs block by block. There are no threads then: a scalar is an array without dimensions, a
    tile an array of its shape.
    """

    def __init__(self, kernel: Kernel, dims: tuple[int, ...], args: Sequence[Any], trace: list[Array] | None):
        dims = (*dims, *[1] * (kernel.tid_dims - len(dims)))
        self.dims, self.threads = dims, math.prod(dims)
        self.coordinates = np.unravel_index(np.arange(self.threads), dims) if self.threads else ()
        self.name, self.tid_dims, self.kernel = kernel.name, kernel.tid_dims, kernel
        self.data = [_copied(p, a) for p, a in zip(kernel.params, args, strict=True)]
        # A local array has the threads as its first axis.
        for local in kernel.locals:
            shape = local.shape if local.shared else (self.threads, *local.shape)
            content = 0 if local.values is None else np.reshape(local.values, local.shape)
            self.data.append(np.broadcast_to(np.asarray(content, local.dtype.dtype), shape).copy())
        self.values: dict[Value, Array] = {}
        self.constants: dict[Const, Array] = {}
        self.tape: list[tuple[Array, ...]] = []
        self.logs: list[list[tuple[tuple[Array, ...], Array]]] = [[] for _ in self.data]
        self.number = 0  # of the first thread, or of the block
        self.notes: list[list[Array]] = [[] for _ in self.data]
        self.places = [0 for _ in self.data]  # where in the notes of each array the next value is
        self.trace = trace

    def block(self, block: Block, active: Array) -> list[Array]:
        """Run a block for the `active` threads, of which there is one at least; return its yields."""
        for node in block.nodes:
            self.node(node, active)
        return [self.value(y) for y in block.yields]

    def blocks(self) -> None:
        """Run a kernel with tiles."""
        coordinates, count, self.threads = self.coordinates, self.threads, 1
        for number in range(count):
            self.number = number
            self.coordinates = tuple(axis[number] for axis in coordinates)
            self.block(self.kernel.body, np.ones((), bool))

    def one_by_one(self, axes: int) -> None:
        """Run the threads in the order of their numbers, all those of the launch before they are repeated."""
        coordinates, count, self.threads = self.coordinates, self.threads, 1
        repeats = math.prod(self.dims[axes:])
        order = np.arange(count).reshape(-1, repeats).T.ravel() if count else ()
        # A thread has its local arrays after the one before it.
        first = len(self.kernel.params)
        self.data[first:] = [
            data if local.shared else data[:1]
            for data, local in zip(self.data[first:], self.kernel.locals, strict=True)
        ]
        for self.number, place in enumerate(order):
            self.coordinates = tuple(axis[place : place + 1] for axis in coordinates)
            self.tape.clear()
            self.logs, self.notes = [[] for _ in self.data], [[] for _ in self.data]
            self.places = [0 for _ in self.data]
            self.block(self.kernel.body, np.ones(1, bool))

    def node(self, node: Node, active: Array) -> None:
        _NODE_RULES[type(node)](self, node, active)

    def value(self, operand: Operand) -> Array:
        if not isinstance(operand, Const):
            return self.values[operand]
        if (made := self.constants.get(operand)) is None:
            made = self.constants[operand] = _spread(as_array(operand), shape_of(operand.type))
        return made

    def bind(self, values: Sequence[Value], arrays: Sequence[Array]) -> None:
        self.values.update(zip(values, arrays, strict=True))

    def operation(self, node: Op, active: Array) -> None:
        args = tuple([self.value(a) for a in node.args])
        if self.kernel.block_dim and (typed := node.result or (node.args[-1] if node.args else None)) is not None:
            active = _spread(active, shape_of(typed.type) or active.shape)
        if node.row.is_tile:
            assert node.result is not None
            result = evaluate_tile(node.name, args, node.attr, node.result.type)
        elif rule := _STATE_RULES.get(node.name):
            result = rule(self, node.attr, args, active)
        else:
            assert node.result is not None
            result = evaluate_quietly(node.name, args, node.result.type)
            if self.trace is not None:
                self.trace_decision(node, args, result, active)
        if node.result is not None:
            self.values[node.result] = result

    def trace_decision(self, node: Op, args: tuple[Array, ...], result: Array, active: Array) -> None:
        """Append what `node` decided to the trace: branches and trip counts follow from it."""
        assert self.trace is not None and node.result is not None
        decision = None
        if node.name in _DECISIONS:
            decision = _DECISIONS[node.name](*args)
        elif node.row.numeric.is_step or (not node.row.transfer.reinterprets and not node.result.type.is_float):
            decision = result
        if decision is not None:
            self.trace.append(np.where(active, decision, np.zeros_like(decision)))

    def branch(self, node: If, active: Array) -> None:
        taken = active & self.value(node.cond)
        yields = [
            self.block(block, mask) if mask.any() else None
            for block, mask in ((node.then, taken), (node.orelse, active & ~taken))
        ]
        # A block that no thread enters gives nothing to choose from; the other one's values stand in.
        then, orelse = (y or other or [] for y, other in zip(yields, yields[::-1], strict=True))
        self.bind(node.results, [np.where(taken, x, y) for x, y in zip(then, orelse, strict=True)])

    def counted(self, node: For, active: Array) -> None:
        index, hi = self.value(node.lo), self.value(node.hi)
        carried = [self.value(i) for i in node.init]
        alive = active & (index < hi if node.step > 0 else index > hi)
        step = np.array(abs(node.step), index.dtype)
        while alive.any():
            self.values[node.index] = index
            carried = self.iterate(node, carried, alive)
            # Compared without a sign, what is left to hi cannot overflow where index + step can.
            left = np.asarray(hi - index if node.step > 0 else index - hi)
            alive = alive & (left.view(f"u{left.itemsize}") > abs(node.step))
            index = np.asarray(index + step if node.step > 0 else index - step)
        self.bind(node.results, carried)

    def conditional(self, node: While, active: Array) -> None:
        carried = [self.value(i) for i in node.init]
        alive = active
        while True:
            self.bind(node.params, carried)
            (condition,) = self.block(node.cond, alive)
            alive = alive & condition
            if not alive.any():
                break
            carried = self.iterate(node, carried, alive)
        self.bind(node.results, carried)

    def iterate(self, node: For | While, carried: list[Array], alive: Array) -> list[Array]:
        """Run the body once; threads that are not alive keep what they carry."""
        self.bind(node.params, carried)
        following = self.block(node.body, alive)
        return [np.where(alive, new, old) for new, old in zip(following, carried, strict=True)]

    def inside(self, array: int, indices: Sequence[Array], active: Array) -> tuple[Array, tuple[Array, ...]]:
        """Which active threads index an element of the array, and the indices of those threads."""
        local = self.kernel.local(array)
        if local is not None and not local.shared:
            indices = [np.asarray(0) if self.kernel.block_dim else np.arange(self.threads), *indices]
        wrapped = []
        for index, extent in zip(indices, self.data[array].shape, strict=True):
            # An unsigned index that int64 lacks is outside any array, and not a negative index.
            index = np.minimum(index, np.iinfo(np.int64).max) if index.dtype == np.uint64 else index
            index = index.astype(np.int64, copy=False)
            index = np.where(index < 0, index + extent, index)
            active = active & (index >= 0) & (index < extent)
            wrapped.append(index)
        return active, tuple([_spread(index, active.shape)[active] for index in wrapped])

    def element(self, array: int, indices: Sequence[Array], active: Array) -> tuple[int, ...] | None:
        """The element that the one thread indexes, if it is active and inside: as `inside` says it for many."""
        if not active:
            return None
        local = self.kernel.local(array)
        place = [index.item() for index in indices]
        if local is not None and not local.shared:
            place.insert(0, 0)
        for axis, extent in enumerate(self.data[array].shape):
            if place[axis] < 0:
                place[axis] += extent
            if not 0 <= place[axis] < extent:
                return None
        return tuple(place)

    def call(self, number: int, args: tuple, active: Array) -> Any:
        function = self.kernel.functions[number]
        self.bind(function.params, args)
        return self.block(function.body, active)

    def call_part(self, number: int, args: tuple, active: Array) -> Array:
        return args[0][number]

    def tid(self, axis: int, args: tuple, active: Array) -> Array:
        return self.coordinates[axis].astype(np.int32)

    def param(self, param: int, args: tuple, active: Array) -> Array:
        return self.data[param]

    def shape(self, extent: Extent, args: tuple, active: Array) -> Array:
        return np.array(self.data[extent.array].shape[extent.axis], np.int32)

    def load(self, array: int, args: tuple[Array, ...], active: Array) -> Array:
        data = self.data[array]
        loaded = np.zeros(active.shape, data.dtype)
        if active.size == 1:
            if (place := self.element(array, args, active)) is not None:
                loaded[...] = data[place]
            return loaded
        there, element = self.inside(array, args, active)
        loaded[there] = data[element]
        return loaded

    def store(self, array: int, args: tuple[Array, ...], active: Array) -> None:
        if active.size == 1:
            if (place := self.element(array, args[:-1], active)) is not None:
                self.data[array][place] = args[-1].reshape(())
            return
        there, element = self.inside(array, args[:-1], active)
        # Of indices that occur more than once, NumPy keeps the last.
        self.data[array][element] = _spread(args[-1], active.shape)[there]

    def clear(self, array: int, args: tuple, active: Array) -> None:
        self.data[array][active] = 0

    def atomic(self, name: str, array: int, args: tuple[Array, ...], active: Array) -> Array:
        """Change elements thread by thread, in row-major order; what they held before."""
        data = self.data[array]
        values = 2 if name == "cas" else 1
        there, element = self.inside(array, args[: len(args) - values], active)
        given = [_spread(a, active.shape)[there] for a in args[len(args) - values :]]
        before = np.zeros(active.shape, data.dtype)
        found = np.empty(int(there.sum()), data.dtype)
        for k, place in enumerate(zip(*element, strict=True)):
            found[k] = data[place]
            data[place] = _ATOMICS[name](self.kernel.array(array).dtype, data[place], *(g[k] for g in given))
        before[there] = found
        return before

    def push(self, fields: RecordFields, args: tuple[Array, ...], active: Array) -> None:
        self.tape.append(args)

    def top(self, field: RecordField, args: tuple, active: Array) -> Array:
        return self.tape[-1][field.field]

    def pop(self, attr: int, args: tuple, active: Array) -> None:
        self.tape.pop()

    def save(self, array: int, args: tuple[Array, ...], active: Array) -> None:
        _, element = self.inside(array, args, active)
        self.logs[array].append((element, self.data[array][element]))

    def mark(self, array: int, args: tuple, active: Array) -> Array:
        return np.array(len(self.logs[array]), np.int64)

    def undo(self, array: int, args: tuple, active: Array) -> None:
        element, value = self.logs[array].pop()
        self.data[array][element] = value

    def rollback(self, array: int, args: tuple[Array, ...], active: Array) -> None:
        while len(self.logs[array]) > args[0]:
            self.undo(array, (), active)

    def note(self, array: int, args: tuple[Array, ...], active: Array) -> None:
        self.notes[array][self.places[array] :] = [args[0]]
        self.places[array] += 1

    def noted(self, array: int, args: tuple, active: Array) -> Array:
        self.places[array] += 1
        return self.notes[array][self.places[array] - 1]

    def bookmark(self, array: int, args: tuple, active: Array) -> Array:
        return np.array(self.places[array], np.int64)

    def rewind(self, array: int, args: tuple[Array, ...], active: Array) -> None:
        self.places[array] = int(args[0].max())

    def lane_max(self, attr: None, args: tuple[Array, ...], active: Array) -> Array:
        return _spread(args[0], active.shape)[active].max()

    def is_inside(self, param: int, args: tuple[Array, ...], active: Array) -> Array:
        return self.inside(param, args, active)[0]

    def thread(self, attr: None, args: tuple, active: Array) -> Array:
        return np.asarray(self.number, np.int64) if self.kernel.block_dim else np.arange(self.threads) + self.number

    def tile_matmul(self, attr: BlockMatmul, args: tuple, active: Array) -> None:
        m, n, k, flags = attr.m, attr.n, attr.k, attr.transposes
        x = self.data[attr.a].reshape((k, m) if flags.a else (m, k))
        y = self.data[attr.b].reshape((n, k) if flags.b else (k, n))
        total = self.data[attr.c].reshape(m, n)
        start = total if attr.accumulate else np.zeros_like(total)
        total[:] = evaluate_tile("matmul", (x, y, start), flags, self.kernel.array(attr.c).dtype)

    def tile_scan(self, attr: BlockScan, args: tuple, active: Array) -> None:
        type = self.kernel.array(attr.target).dtype
        self.data[attr.target][:] = evaluate_tile("scan", (self.data[attr.source],), attr.scan, type)

    def tile_cholesky(self, attr: BlockCholesky, args: tuple, active: Array) -> None:
        n, type = attr.n, self.kernel.array(attr.target).dtype
        given = (self.data[attr.source].reshape(n, n),)
        self.data[attr.target].reshape(n, n)[:] = evaluate_tile("cholesky", given, None, type)

    def tile_solve(self, attr: BlockSolve, args: tuple, active: Array) -> None:
        right = self.data[attr.target].reshape(attr.n, attr.m)
        given = (self.data[attr.triangle].reshape(attr.n, attr.n), right)
        right[:] = evaluate_tile("tri_solve", given, attr.system, self.kernel.array(attr.target).dtype)

    def check(self, text: str, args: tuple[Array, ...], active: Array) -> None:
        failing = np.flatnonzero(active & ~args[0])
        if failing.size:
            coordinates = (np.broadcast_to(axis, active.shape) for axis in self.coordinates[: self.tid_dims])
            thread = tuple(
                int(axis.reshape(-1)[failing[0]]) for axis in coordinates
            )  # the block's, if there are blocks
            raise RuntimeError(failure_text(self.name, text, thread))

    def print(self, format: str, args: tuple[Array, ...], active: Array) -> None:
        columns = [np.broadcast_to(a, active.shape)[active] for a in args]
        for values in zip(*columns, strict=True) if columns else [()] * int(active.sum()):
            os.write(1, formatted(format, values))

    def native(self, call: NativeCall, args: tuple[Array, ...], active: Array) -> Array:
        raise CompileError(f"kernel `{self.name}`: native code (`{call.function}`) runs on GPUs alone")


_NODE_RULES: dict[type, Callable[[_Interpreter, Any, Array], None]] = {
    Op: _Interpreter.operation, If: _Interpreter.branch, For: _Interpreter.counted, While: _Interpreter.conditional,
}  # fmt: skip


def failure_text(kernel: str, text: str, thread: tuple[int, ...]) -> str:
    """The message of a failed check."""
    return f"jwarp: kernel '{kernel}': {text}, thread ({', '.join(map(str, thread))})"


def formatted(format: str, values: Sequence[Any]) -> bytes:
    """A format text with values in it, as C's printf writes them."""
    left, text = list(values), ""
    for part in parse(format):
        text += part if isinstance(part, str) else _shown(part, left.pop(0))
    return text.encode()


def _shown(conversion: Conversion, value: Any) -> str:
    if conversion.letter == "s":
        return f"%{conversion.options}s" % bool(value)
    if conversion.letter == "c":
        return f"%{conversion.options}c" % (int(value) % 128)
    if conversion.letter in "uoxX":
        value = int(value) % (1 << (8 * value.dtype.itemsize))
    return f"%{conversion.options}{conversion.letter}" % value


# The new content of an element, from its old content and the given values.
_ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda type, old, value: np.add(old, value, dtype=type.dtype),
    "min": lambda type, old, value: evaluate("min", (old, value), type),
    "max": lambda type, old, value: evaluate("max", (old, value), type),
    "and": lambda type, old, value: old & value,
    "or": lambda type, old, value: old | value,
    "xor": lambda type, old, value: old ^ value,
    "exch": lambda type, old, value: value,
    "cas": lambda type, old, expected, value: value if old.tobytes() == expected.tobytes() else old,
}


def _atomic(name: str) -> Callable[..., Array]:
    return lambda interpreter, array, args, active: interpreter.atomic(name, array, args, active)


# Operations that read or change more than their arguments; all others are in EVAL_RULES.
_STATE_RULES: dict[str, Callable[[_Interpreter, Any, tuple, Array], Any]] = {
    "tid": _Interpreter.tid,
    "param": _Interpreter.param,
    "shape": _Interpreter.shape,
    "load": _Interpreter.load,
    "store": _Interpreter.store,
    "clear": _Interpreter.clear,
    **{name: _atomic(name.removeprefix("atomic_")) for name, row in OPS.items() if row.is_atomic},
    "push": _Interpreter.push,
    "top": _Interpreter.top,
    "pop": _Interpreter.pop,
    "save": _Interpreter.save,
    "mark": _Interpreter.mark,
    "undo": _Interpreter.undo,
    "rollback": _Interpreter.rollback,
    "note": _Interpreter.note,
    "noted": _Interpreter.noted,
    "bookmark": _Interpreter.bookmark,
    "rewind": _Interpreter.rewind,
    "lane_max": _Interpreter.lane_max,
    **{name: getattr(_Interpreter, name) for name, row in OPS.items() if row.code.is_unit},
    "rule": lambda interpreter, attr, args, active: None,
    "detach": lambda interpreter, attr, args, active: args[0],
    "inside": _Interpreter.is_inside,
    "prefetch": lambda interpreter, attr, args, active: None,
    "thread": _Interpreter.thread,
    "check": _Interpreter.check,
    "print": _Interpreter.print,
    "on_gpu": lambda interpreter, attr, args, active: np.array(False),
    "native": _Interpreter.native,
    "native_part": _Interpreter.native,
    "call": _Interpreter.call,
    "call_part": _Interpreter.call_part,
}

# For the trace: on which side of a kink or jump float operations are, but for those that are constant between jumps.
_DECISIONS: dict[str, Callable[..., Any]] = {
    "min": np.less,
    "max": np.less,
    "abs": lambda x: x < 0,
    "copysign": lambda x, y: np.signbit(x) != np.signbit(y),
    "asin": lambda x: np.abs(x) > 1,
    "acos": lambda x: np.abs(x) > 1,
    "mod": lambda x, y: np.trunc(x / y) if x.dtype.kind not in "iu" else np.zeros(()),
}
