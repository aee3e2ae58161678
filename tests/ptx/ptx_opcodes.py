"""Instructions on registers: a table with one row for each opcode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ptx_values as values
from ptx_values import FLOATS, PAIRS, ROUNDINGS, SIGNED, TYPES, UNSIGNED, Array, read_as

U32 = TYPES["u32"]


@dataclass(frozen=True)
class Form:
    """An opcode with what follows it: its types, and words such as roundings among the rest."""

    opcode: str
    suffixes: tuple[str, ...]

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(s for s in self.suffixes if s in TYPES)

    @property
    def type(self) -> str:
        """The last one, which is that of the operands."""
        return self.types[-1]

    @property
    def rounding(self) -> str:
        return next((s for s in self.suffixes if s in ROUNDINGS), "rn")

    @property
    def is_float(self) -> bool:
        return self.type in FLOATS

    def has(self, word: str) -> bool:
        return word in self.suffixes


@dataclass(frozen=True)
class Row:
    """How one opcode computes: `compute(form, *operands)` gives the values of the destinations.

    `operands` and `results` give the types of those; None stands for the form's own type, for each. `carries` rows
    also take and give the carry flag, as their last operand and result.
    """

    compute: Callable[..., Any]
    operands: Callable[[Form, int], Sequence[str]] | None = None
    results: Callable[[Form], Sequence[str]] | None = None
    carries: bool = False

    def operand_types(self, form: Form, count: int) -> Sequence[str]:
        return [form.type] * count if self.operands is None else self.operands(form, count)

    def result_types(self, form: Form) -> Sequence[str]:
        return [form.type] if self.results is None else self.results(form)


def _unsigned(x: Array) -> Array:
    return x.view(UNSIGNED[x.dtype.itemsize])


def _double_width(form: Form) -> str:
    return form.type[0] + str(2 * int(form.type[1:]))


# ---- arithmetic


def _finished(form: Form, result: Array) -> Array:
    if form.has("ftz"):
        result = values.flushed(result)
    if form.has("sat"):
        result = np.where(np.isnan(result), result.dtype.type(0), np.clip(result, 0, 1))
    return result


def _arithmetic(integer: Callable[..., Array], floating: Callable[..., Array]) -> Row:
    """Integers wrap; floats round as the form says."""

    def compute(form: Form, *operands: Array) -> Array:
        if not form.is_float:
            return integer(*operands)
        if form.has("ftz"):
            operands = tuple(map(values.flushed, operands))
        return _finished(form, floating(*operands, form.rounding))

    return Row(compute)


def _wide(form: Form, x: Array, y: Array) -> Array:
    target = TYPES[_double_width(form)]
    return x.astype(target) * y.astype(target)


def _high(x: Array, y: Array) -> Array:
    """The upper half of the product."""
    width = x.dtype.itemsize
    if width < 8:
        wide = (SIGNED if x.dtype.kind == "i" else UNSIGNED)[2 * width]
        return ((x.astype(wide) * y.astype(wide)) >> wide.type(8 * width)).astype(x.dtype)
    a, b, low, half = _unsigned(x), _unsigned(y), np.uint64(0xFFFFFFFF), np.uint64(32)
    al, ah, bl, bh = a & low, a >> half, b & low, b >> half
    middle = ((al * bl) >> half) + (ah * bl & low) + (al * bh & low)
    high = ah * bh + (ah * bl >> half) + (al * bh >> half) + (middle >> half)
    if x.dtype.kind == "i":
        high = high - np.where(x < 0, b, np.uint64(0)) - np.where(y < 0, a, np.uint64(0))
    return high.view(x.dtype)


def _multiply(form: Form, x: Array, y: Array) -> Array:
    if form.is_float:
        if form.has("ftz"):
            x, y = values.flushed(x), values.flushed(y)
        return _finished(form, values.mul(x, y, form.rounding))
    if form.has("wide"):
        return _wide(form, x, y)
    return _high(x, y) if form.has("hi") else x * y


def _multiply_add(form: Form, x: Array, y: Array, z: Array) -> Array:
    return values.fma(x, y, z, form.rounding) if form.is_float else _multiply(form, x, y) + z


def _product_type(form: Form) -> str:
    return _double_width(form) if form.has("wide") else form.type


def _carried(x: Array, y: Array, carry: Array, subtract: bool) -> tuple[Array, Array]:
    total = x - y - carry if subtract else x + y + carry
    with_carry = carry != 0
    if subtract:
        out = (x < y) | (with_carry & (x == y))
    else:
        out = (total < x) | (with_carry & (total == x))
    return total, out


def _extended(subtract: bool, takes: bool) -> Callable[..., tuple[Array, Array]]:
    def compute(form: Form, x: Array, y: Array, carry: Array) -> tuple[Array, Array]:
        x, y = _unsigned(x), _unsigned(y)
        used = carry.astype(x.dtype) if takes else np.zeros_like(carry, x.dtype)
        total, out = _carried(x, y, used, subtract)
        return total, (out if form.has("cc") else carry)

    return compute


def _multiply_add_carry(takes: bool) -> Callable[..., tuple[Array, Array]]:
    def compute(form: Form, x: Array, y: Array, z: Array, carry: Array) -> tuple[Array, Array]:
        product = _unsigned(_high(x, y) if form.has("hi") else x * y)
        used = carry.astype(product.dtype) if takes else np.zeros_like(carry, product.dtype)
        total, out = _carried(product, _unsigned(z), used, False)
        return total, (out if form.has("cc") else carry)

    return compute


def _safe_divisor(x: Array, y: Array) -> Array:
    safe = np.where(y == 0, y.dtype.type(1), y)
    if x.dtype.kind == "i":
        safe = np.where((x == np.iinfo(x.dtype).min) & (y == -1), x.dtype.type(1), safe)
    return safe


def _quotient(x: Array, y: Array) -> Array:
    """Truncated; by zero all bits are set, which is what GPUs give where PTX says nothing."""
    safe = _safe_divisor(x, y)
    quotient = x // safe
    if x.dtype.kind == "i":
        quotient += ((x % safe != 0) & ((x < 0) != (safe < 0))).astype(x.dtype)
    ones = np.invert(np.zeros((), x.dtype))
    return np.where(y == 0, ones, quotient)


def _divide(form: Form, x: Array, y: Array) -> Array:
    if not form.is_float:
        return _quotient(x, y)
    if form.has("ftz"):
        x, y = values.flushed(x), values.flushed(y)
    return _finished(form, values.div(x, y, form.rounding))


def _remainder(form: Form, x: Array, y: Array) -> Array:
    return np.where(y == 0, x, x - _quotient(x, y) * _safe_divisor(x, y)).astype(x.dtype)


def _extreme(least: bool) -> Callable[..., Array]:
    def compute(form: Form, x: Array, y: Array) -> Array:
        if form.is_float:
            return values.extreme(x, y, least, form.has("NaN"))
        return np.minimum(x, y) if least else np.maximum(x, y)

    return compute


def _function(f: Callable[[Array], Array]) -> Row:
    """A function of floats; approximations are as near as float32 is, and exact where PTX leaves room."""

    def compute(form: Form, x: Array) -> Array:
        if form.has("ftz"):
            x = values.flushed(x)
        if form.has("approx") and x.dtype == np.float32:
            return _finished(form, f(x.astype(np.float64)).astype(np.float32))
        return _finished(form, f(x))

    return Row(compute)


def _sign_bit(form: Form, x: Array) -> Array:
    return -x if form.is_float or x.dtype.kind == "i" else (~x + x.dtype.type(1))


def _copysign(form: Form, sign: Array, size: Array) -> Array:
    return np.copysign(size, sign)


def _testp(form: Form, x: Array) -> Array:
    tests = {
        "finite": np.isfinite, "infinite": np.isinf, "number": lambda v: ~np.isnan(v), "notanumber": np.isnan,
        "normal": lambda v: np.isfinite(v) & (np.abs(v) >= np.finfo(v.dtype).tiny),
        "subnormal": lambda v: (v != 0) & (np.abs(v) < np.finfo(v.dtype).tiny),
    }  # fmt: skip
    return next(test for name, test in tests.items() if form.has(name))(x)


# ---- bits


def _shift_left(form: Form, x: Array, amount: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    clamped = np.minimum(amount, bits - 1).astype(x.dtype)
    return np.where(amount >= bits, x.dtype.type(0), x << clamped)


def _shift_right(form: Form, x: Array, amount: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    clamped = np.minimum(amount, bits - 1).astype(x.dtype)
    fill = x >> x.dtype.type(bits - 1) if x.dtype.kind == "i" else x.dtype.type(0)
    return np.where(amount >= bits, fill, x >> clamped)


def _funnel(form: Form, low: Array, high: Array, amount: Array) -> Array:
    count = np.minimum(amount, 32) if form.has("clamp") else amount & 31
    both, count = (high.astype(np.uint64) << np.uint64(32)) | low, count.astype(np.uint64)
    if form.has("l"):
        return ((both << count) >> np.uint64(32)).astype(np.uint32)
    return (both >> count).astype(np.uint32)


def _reversed(form: Form, x: Array) -> Array:
    shown = np.unpackbits(x.view(np.uint8).reshape(-1, x.dtype.itemsize), axis=1, bitorder="little")
    return np.packbits(shown[:, ::-1], axis=1, bitorder="little").reshape(-1).view(x.dtype)


def _highest_bit(x: Array) -> Array:
    """The number of the highest bit that is set, -1 where none is."""
    shown = np.unpackbits(x.view(np.uint8).reshape(-1, x.dtype.itemsize), axis=1, bitorder="little")
    last = shown.shape[1] - 1 - np.argmax(shown[:, ::-1], axis=1)
    return np.where(x == 0, -1, last).astype(np.int32)


def _find(form: Form, x: Array) -> Array:
    if x.dtype.kind == "i":
        x = np.where(x < 0, ~x, x)
    bits, highest = 8 * x.dtype.itemsize, _highest_bit(_unsigned(x))
    found = np.where(highest < 0, -1, bits - 1 - highest) if form.has("shiftamt") else highest
    return found.astype(np.int32).view(np.uint32)


def _leading_zeros(form: Form, x: Array) -> Array:
    return (8 * x.dtype.itemsize - 1 - _highest_bit(x)).astype(np.uint32)


def _population(form: Form, x: Array) -> Array:
    return np.bitwise_count(x).astype(np.uint32)


def _field_mask(start: Array, length: Array, dtype: np.dtype) -> Array:
    bits = 8 * dtype.itemsize
    ones = np.where(length >= bits, ~dtype.type(0), (dtype.type(1) << (length % bits).astype(dtype)) - dtype.type(1))
    return np.where(start >= bits, dtype.type(0), ones << np.minimum(start, bits - 1).astype(dtype))


def _insert(form: Form, x: Array, into: Array, start: Array, length: Array) -> Array:
    start, length = start & 255, length & 255
    mask = _field_mask(start, length, x.dtype)
    return (into & ~mask) | (_shift_left(form, x, start) & mask)


def _extract(form: Form, x: Array, start: Array, length: Array) -> Array:
    start, length, bits = start & 255, length & 255, 8 * x.dtype.itemsize
    plain = _shift_right(form, _unsigned(x), start) & _field_mask(np.zeros_like(start), length, _unsigned(x).dtype)
    if x.dtype.kind == "u":
        return plain
    top = np.minimum(start.astype(np.int64) + length - 1, bits - 1)
    negative = (_shift_right(form, _unsigned(x), top) & 1 != 0) & (length != 0)
    fill = ~_field_mask(np.zeros_like(start), length, plain.dtype)
    return np.where(negative, plain | fill, plain).view(x.dtype)


def _permute(form: Form, x: Array, y: Array, selector: Array) -> Array:
    source = np.stack([x, y], axis=1).view(np.uint8)
    result = np.zeros((len(x), 4), np.uint8)
    for k in range(4):
        nibble = (selector >> np.uint32(4 * k)) & 15
        byte = np.take_along_axis(source, (nibble & 7)[:, None].astype(np.int64), axis=1)[:, 0]
        result[:, k] = np.where(nibble & 8, np.where(byte & 128, 255, 0), byte)
    return result.view(np.uint32).reshape(-1)


def _any_logic(form: Form, x: Array, y: Array, z: Array, table: Array) -> Array:
    wanted, result = int(table.flat[0]), np.zeros_like(x)
    for k in range(8):
        if wanted >> k & 1:
            result |= (x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z)
    return result


# ---- choices and comparisons

_EQUAL_OR_NOT = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
                 "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
                 "hs": np.greater_equal}  # fmt: skip
_JOINED = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _compared(form: Form, x: Array, y: Array) -> Array:
    name = form.suffixes[0]
    if name in ("num", "nan"):
        unordered = np.isnan(x) | np.isnan(y)
        return ~unordered if name == "num" else unordered
    if name in _EQUAL_OR_NOT:
        found = _EQUAL_OR_NOT[name](x, y)
        return found & ~(np.isnan(x) | np.isnan(y)) if form.is_float and name == "ne" else found
    return _EQUAL_OR_NOT[name[:2]](x, y) | np.isnan(x) | np.isnan(y)  # equ, neu, ltu …


def _set_predicate(form: Form, x: Array, y: Array, *also: Array) -> tuple[Array, ...]:
    found = _compared(form, x, y)
    if not also:
        return found, ~found
    join = next(f for name, f in _JOINED.items() if form.has(name))
    return join(found, also[0]), join(~found, also[0])


def _set(form: Form, x: Array, y: Array) -> Array:
    found, target = _compared(form, x, y), TYPES[form.types[0]]
    true = target.type(1) if form.types[0] in FLOATS else np.invert(np.zeros((), target))
    return np.where(found, true, target.type(0))


def _logic(f: Callable[..., Array]) -> Row:
    return Row(lambda form, *operands: f(*operands))


def _converted(form: Form, x: Array) -> Array:
    target, source = form.types[0], form.types[-1]
    dtype = TYPES[target]
    to_float, from_float = target in FLOATS, source in FLOATS
    if target == "tf32":
        return values.to_tf32(x)
    if from_float and form.has("ftz"):
        x = values.flushed(x)
    if to_float:
        steps = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
        for name, step in steps.items():
            if form.has(name):
                x = step(x)
        if form.rounding != "rn" and x.dtype != dtype:
            total = x.astype(np.float64)
            return _finished(form, values.narrowed(total, np.zeros_like(total), form.rounding, dtype))
        return _finished(form, x.astype(dtype))
    if from_float:
        rounding = next((s for s in form.suffixes if s in ("rni", "rzi", "rmi", "rpi")), "rzi")
        return values.to_integer(x, dtype, rounding)
    if form.has("sat"):
        info, own = np.iinfo(dtype), np.iinfo(x.dtype)
        x = np.clip(x, max(info.min, own.min), min(info.max, own.max))
    return x.astype(dtype)


# ---- the table


def _types(*names: str | None) -> Callable[[Form, int], Sequence[str]]:
    return lambda form, count: [name or form.type for name in names][:count]


def _one(name: str) -> Callable[[Form], Sequence[str]]:
    return lambda form: [name]


def _product(form: Form, count: int) -> Sequence[str]:
    return [form.type, form.type, _product_type(form)][:count]


ROWS: dict[str, Row] = {
    "abs": Row(lambda form, x: np.abs(x)),
    "add": _arithmetic(np.add, values.add),
    "sub": _arithmetic(np.subtract, lambda x, y, rounding: values.add(x, -y, rounding)),
    "mul": Row(_multiply, results=lambda form: [_product_type(form)]),
    "mad": Row(_multiply_add, operands=_product, results=lambda form: [_product_type(form)]),
    "mul24": Row(lambda form, x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF)),
    "fma": _arithmetic(lambda x, y, z: x * y + z, values.fma),
    "addcc": Row(_extended(False, False), carries=True),
    "addc": Row(_extended(False, True), carries=True),
    "subcc": Row(_extended(True, False), carries=True),
    "subc": Row(_extended(True, True), carries=True),
    "madcc": Row(_multiply_add_carry(False), carries=True),
    "madc": Row(_multiply_add_carry(True), carries=True),
    "div": Row(_divide),
    "rem": Row(_remainder),
    "min": Row(_extreme(True)),
    "max": Row(_extreme(False)),
    "neg": Row(_sign_bit),
    "sad": Row(lambda form, x, y, z: z + np.where(x < y, y - x, x - y)),
    "copysign": Row(_copysign),
    "testp": Row(_testp, results=_one("pred")),
    "rcp": _function(lambda x: 1 / x),
    "sqrt": _function(np.sqrt),
    "rsqrt": _function(lambda x: 1 / np.sqrt(x)),
    "sin": _function(np.sin),
    "cos": _function(np.cos),
    "tanh": _function(np.tanh),
    "ex2": _function(np.exp2),
    "lg2": _function(np.log2),
    "and": _logic(np.bitwise_and),
    "or": _logic(np.bitwise_or),
    "xor": _logic(np.bitwise_xor),
    "not": _logic(np.invert),
    "cnot": Row(lambda form, x: (x == 0).astype(x.dtype)),
    "lop3": Row(_any_logic),
    "shl": Row(_shift_left, operands=_types(None, "u32")),
    "shr": Row(_shift_right, operands=_types(None, "u32")),
    "shf": Row(_funnel),
    "brev": Row(_reversed),
    "bfind": Row(_find, results=_one("u32")),
    "clz": Row(_leading_zeros, results=_one("u32")),
    "popc": Row(_population, results=_one("u32")),
    "bfi": Row(_insert, operands=_types(None, None, "u32", "u32")),
    "bfe": Row(_extract, operands=_types(None, "u32", "u32")),
    "prmt": Row(_permute),
    "setp": Row(
        _set_predicate,
        operands=lambda form, count: [form.type, form.type, "pred"][:count],
        results=lambda form: ["pred", "pred"],
    ),
    "set": Row(_set, results=lambda form: [form.types[0]]),
    "selp": Row(lambda form, x, y, p: np.where(p, x, y), operands=_types(None, None, "pred")),
    "slct": Row(
        lambda form, x, y, c: np.where(c >= 0, x, y),
        operands=lambda form, count: [form.types[0], form.types[0], form.types[1]],
        results=lambda form: [form.types[0]],
    ),
    "mov": Row(lambda form, x: x),
    "cvt": Row(_converted, results=lambda form: [form.types[0]]),
    "cvta": Row(lambda form, x: x),  # whose operand has been moved to the other space by then
}


# What computes a result from each element of pairs by itself.
_BY_ELEMENT = {"abs", "add", "sub", "mul", "fma", "min", "max", "neg", "ex2", "tanh"}


def _in_pairs(form: Form) -> Row | None:
    """The row of an operation on pairs of floats in a register, or of the conversion to one; None if it is another."""
    (pair,) = (s for s in form.suffixes if s in PAIRS)
    single = Form(form.opcode, tuple(PAIRS.get(s, s) for s in form.suffixes))
    half = TYPES[PAIRS[pair]]

    def joined(low: Array, high: Array) -> Array:
        return np.stack([low.astype(half), high.astype(half)], axis=-1).view(np.uint32).reshape(-1)

    if form.opcode == "cvt" and pair == form.types[0]:
        return Row(lambda _, high, low: joined(_converted(single, low), _converted(single, high)))
    if form.opcode not in _BY_ELEMENT:
        return None
    compute = ROWS[form.opcode].compute

    def each(_: Form, *operands: Array) -> Array:
        parts = [np.ascontiguousarray(x).view(half).reshape(-1, 2) for x in np.broadcast_arrays(*operands)]
        return joined(*(compute(single, *(np.ascontiguousarray(p[:, k]) for p in parts)) for k in (0, 1)))

    return Row(each)


def row_of(form: Form) -> Row | None:
    """The row of a form; those that leave a carry have rows of their own, and those of pairs."""
    if not PAIRS.keys().isdisjoint(form.suffixes):
        return _in_pairs(form)
    name = f"{form.opcode}cc" if form.has("cc") and form.opcode in ("add", "sub", "mad") else form.opcode
    return ROWS.get(name)


__all__ = ["ROWS", "U32", "Form", "Row", "read_as", "row_of"]
