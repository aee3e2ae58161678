"""LLVM assembly as text: types, constants, names, and the three places where code can go."""

from __future__ import annotations

import re
import struct
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from jwarp.analysis.uniformity import Shape
from jwarp.backend.cpu.source_lines import SourceLines
from jwarp.backend.cpu.target import Target
from jwarp.errors import Span
from jwarp.ir.nodes import Const
from jwarp.types import ScalarType, bfloat16, bool_, float16, float32, float64

# Code runs once for the call, once for each row of threads, or once for each vector of threads.
ENTRY, ROW, BODY = 0, 1, 2

_FLOATS: dict[ScalarType, str] = {float16: "half", float32: "float", float64: "double", bfloat16: "i16"}


@dataclass(frozen=True)
class Options:
    """The options of code generation, next to the kernel itself."""

    target: Target
    contract: bool = True  # a * b + c may be rounded once
    fast_math: bool = False
    lines: bool = False  # instructions say which line of the source they come from


@dataclass(frozen=True)
class Lanes:
    """A value in the generated code: a scalar for uniform and linear shapes, else a vector."""

    text: str
    type: ScalarType
    shape: Shape
    level: int


def scalar_type(type: ScalarType) -> str:
    """LLVM's type of one value in a register. bfloat16 travels as its bits."""
    return _FLOATS.get(type) or ("i1" if type is bool_ else f"i{type.bits}")


def memory_type(type: ScalarType) -> str:
    """LLVM's type of one value in memory."""
    return "i8" if type is bool_ else scalar_type(type)


def suffix(llvm_type: str, width: int) -> str:
    """The spelling of a type in an intrinsic's name."""
    short = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}.get(llvm_type, llvm_type)
    return f"v{width}{short}" if width else short


def literal(constant: Const) -> str:
    """A scalar constant as LLVM writes it."""
    type, value = constant.type, constant.value
    if type is bool_:
        return "true" if value else "false"
    if type is float16:
        return f"0xH{struct.unpack('<H', np.float16(value).tobytes())[0]:04X}"
    if type is bfloat16:
        return str(struct.unpack("<H", np.array(value, bfloat16.dtype).tobytes())[0])
    if type.is_float:
        return f"0x{struct.unpack('<Q', np.float64(value).tobytes())[0]:016X}"
    return str(value)


# Instructions that give the same for the same operands, wherever they run.
_PURE = re.compile(
    r"(f?(add|sub|mul|div|rem|neg)|[su](div|rem)|shl|[al]shr|and|or|xor|[if]cmp|select|trunc|[sz]ext|fp(trunc|ext|to[su]i)"
    r"|[su]itofp|bitcast|getelementptr|insertelement|extractelement|shufflevector) "
)


class Code:
    """Lines of one function in the making, and the declarations they need.

    With `shares`, an instruction is not written again in the same block, nor in a `part` that began after it.
    """

    def __init__(self, options: Options, *, shares: bool = False):
        self.shares = shares
        self._written: tuple[dict[str, str], dict[str, str], dict[str, str]] = ({}, {}, {})
        self._order: list[str] = []  # of the instructions of the body that are still known to have run
        self._start = 0  # of the innermost part among these
        self.options = options
        self.width = options.target.width
        self.sections: tuple[list[str], list[str], list[str]] = ([], [], [])
        self.declarations: set[str] = set()
        self.texts: dict[bytes, str] = {}
        self.functions: dict[str, str] = {}  # others that this one calls, by name
        self.library: dict[Hashable, None] = {}  # and those of the runtime library, by what they are for
        self.inlined: dict[Hashable, None] = {}  # those of them that are inlined
        self.block = ""  # the label of the block that the body's next line belongs to
        self.origin = ""  # what instructions end with: which line of the source they come from
        self.source = SourceLines()
        self.products: set[str] = set()  # what instructions that multiply floats have made
        self._count = 0
        self._writers: dict[tuple[int, bool], Instructions] = {}

    def name(self, hint: str = "v") -> str:
        self._count += 1
        return f"%{hint}{self._count}"

    def line(self, text: str, level: int = BODY) -> None:
        self.sections[level].append(f"  {text}{self.origin}")

    def define(self, text: str, level: int = BODY) -> str:
        """Append an instruction and return the name of its result."""
        if not self.shares or not _PURE.match(text):
            name = self.name()
            self.line(f"{name} = {text}", level)
            return name
        entry, row, body = self._written
        known = entry.get(text) or (row.get(text) if level else None) or (body.get(text) if level == BODY else None)
        if known is not None:
            return known
        name = self._written[level][text] = self.name()
        if level == BODY:
            self._order.append(text)
        self.line(f"{name} = {text}", level)
        return name

    def carried(self, type: str, first: str, before: str) -> tuple[str, int]:
        """A value that a loop carries: its name, and its place for `carry`, which gives later values."""
        name = self.name()
        self.sections[BODY].append(f"  {name} = phi {type} [{first}, %{before}]")
        return name, len(self.sections[BODY]) - 1

    def carry(self, place: int, following: str, latch: str) -> None:
        """Add to what is `carried` its value at the end of an iteration.

        It stands in the phi itself: LLVM's code generator has taken copies by `bitcast` for the loop's first value, and
        `freeze` keeps it from approximating and from putting sums in another order.
        """
        self.sections[BODY][place] += f", [{following}, %{latch}]"

    def begin_part(self, span: Span) -> tuple[int, str]:
        """Begin a part, wherever which writes all that was written before has run; it ends in its last block.

        It comes from `span`, which its instructions say if they are to. The result is for `end_part`.
        """
        outer = self._start, self.origin
        self._start, self.origin = len(self._order), self.source.origin(span) if self.options.lines else ""
        return outer

    def end_part(self, outer: tuple[int, str]) -> None:
        self._start, self.origin = outer

    def label(self, name: str) -> None:
        for text in self._order[self._start :]:
            del self._written[BODY][text]
        del self._order[self._start :]
        self.block = name
        self.sections[BODY].append(f"{name}:")

    def new_label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def declare(self, result: str, name: str, args: Iterable[str]) -> None:
        self.declarations.add(f"declare {result} @{name}({', '.join(args)})")

    def text(self, content: bytes) -> str:
        """The name of a constant text, which ends with a zero byte."""
        return self.texts.setdefault(content, f"@text.{len(self.texts)}")

    def text_definitions(self) -> list[str]:
        lines = []
        for content, name in self.texts.items():
            escaped = "".join(f"\\{byte:02X}" for byte in content + b"\0")
            lines.append(f'{name} = internal constant [{len(content) + 1} x i8] c"{escaped}"')
        return lines

    def vector(self, llvm_type: str, width: int | None = None) -> str:
        return f"<{self.width if width is None else width} x {llvm_type}>"

    def instructions(self, level: int, is_vector: bool) -> Instructions:
        known = self._writers.get((level, is_vector))
        if known is None:
            known = self._writers[level, is_vector] = Instructions(self, level, self.width if is_vector else 0)
        return known

    @property
    def lane_numbers(self) -> range:
        return range(self.width)

    def iota(self, llvm_type: str, stride: int = 1) -> str:
        """The vector 0, stride, 2 * stride, …, wrapped to the type's width."""
        bits = int(llvm_type[1:])
        return "<" + ", ".join(f"{llvm_type} {_wrap(k * stride, bits)}" for k in self.lane_numbers) + ">"

    def splat(self, scalar: str, llvm_type: str, level: int = BODY) -> str:
        """A vector of one scalar. Of a product it is one, too."""
        if not scalar.startswith("%"):
            return f"splat ({llvm_type} {scalar})"
        vector = self.vector(llvm_type)
        first = self.define(f"insertelement {vector} poison, {llvm_type} {scalar}, i64 0", level)
        lanes = self.vector("i32")
        made = self.define(f"shufflevector {vector} {first}, {vector} poison, {lanes} zeroinitializer", level)
        if scalar in self.products:
            self.products.add(made)
        return made


def _wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


class Instructions:
    """Writes scalar or vector instructions (`width` 0 or more) at one level of a function."""

    def __init__(self, code: Code, level: int, width: int):
        self.code, self.level, self.width = code, level, width
        options = code.options
        flags = "reassoc arcp afn contract " if options.fast_math else "contract " if options.contract else ""
        self.flags = flags
        self._types: dict[ScalarType | str, str] = {}

    def type(self, type: ScalarType | str) -> str:
        known = self._types.get(type)
        if known is None:
            name = type if isinstance(type, str) else scalar_type(type)
            known = self._types[type] = f"<{self.width} x {name}>" if self.width else name
        return known

    def constant(self, type: ScalarType, value: object) -> str:
        return self.spread(literal(Const(type, value)), scalar_type(type))

    def spread(self, text: str, llvm_type: str) -> str:
        return f"splat ({llvm_type} {text})" if self.width else text

    def emit(self, text: str) -> str:
        return self.code.define(text, self.level)

    def binary(self, name: str, type: ScalarType | str, x: str, y: str) -> str:
        return self.emit(f"{name} {self.flags if name.startswith('f') else ''}{self.type(type)} {x}, {y}")

    def product(self, type: ScalarType, x: str, y: str) -> str:
        made = self.binary("fmul", type, x, y)
        self.code.products.add(made)
        return made

    def difference(self, type: ScalarType, x: str, y: str) -> str:
        """x - y of floats. Of two products it is rounded as it stands: fused, a * b - b * a would not be 0."""
        if self.code.options.fast_math or not {x, y} <= self.code.products:
            return self.binary("fsub", type, x, y)
        return self.emit(f"fsub {self.type(type)} {x}, {y}")

    def compare(self, predicate: str, type: ScalarType | str, x: str, y: str) -> str:
        kind = "icmp" if isinstance(type, str) or not type.is_float else "fcmp"
        return self.emit(f"{kind} {predicate} {self.type(type)} {x}, {y}")

    def select(self, cond: str, type: ScalarType | str, x: str, y: str) -> str:
        return self.emit(f"select {self.type('i1')} {cond}, {self.type(type)} {x}, {self.type(type)} {y}")

    def convert(self, name: str, source: ScalarType | str, x: str, target: ScalarType | str) -> str:
        return self.emit(f"{name} {self.type(source)} {x} to {self.type(target)}")

    def intrinsic(self, name: str, result: ScalarType | str, *args: tuple[ScalarType | str, str], of: str = "") -> str:
        """Call `llvm.name` overloaded on the result type; `of` appends a second overloaded type."""
        overloads = [result if isinstance(result, str) else scalar_type(result), *([of] if of else [])]
        full = f"llvm.{name}." + ".".join(suffix(t, self.width) for t in overloads)
        self.code.declare(self.type(result), full, [self.type(t) for t, _ in args])
        is_float = overloads[0] in ("half", "float", "double")
        flags = self.flags if is_float else ""
        passed = ", ".join(f"{self.type(t)} {x}" for t, x in args)
        return self.emit(f"call {flags}{self.type(result)} @{full}({passed})")
