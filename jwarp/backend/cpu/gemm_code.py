"""Functions of LLVM text for matrix products: loops, addresses, and accesses to whole and partial vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jwarp.backend.cpu.code import BODY, Code, Options, scalar_type, suffix
from jwarp.backend.cpu.rules import convert
from jwarp.types import ScalarType, float16, int16

# A number that is known when code is generated, or the name of an i64.
Number = int | str


class FunctionCode(Code):
    """One function in the making, whose vectors have `width` lanes."""

    def __init__(self, options: Options, name: str, params: Sequence[str], *, external: bool = False):
        super().__init__(options)
        self.title, self.params, self.external = name, params, external
        self.label("entry")
        self.vectors, self.scalars = self.instructions(BODY, True), self.instructions(BODY, False)

    @property
    def lines(self) -> list[str]:
        linkage = "" if self.external else "internal "
        head = f"define {linkage}void @{self.title}({', '.join(self.params)}) nounwind {{"
        return [head, *self.sections[BODY], "  ret void", "}", ""]

    def call(self, name: str, *args: tuple[str, Number]) -> None:
        self.line(f"call void @{name}({', '.join(f'{type} {value}' for type, value in args)})")

    # Numbers

    def add(self, x: Number, y: Number) -> Number:
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        if 0 in (x, y):
            return x if y == 0 else y
        return self.define(f"add nuw nsw i64 {x}, {y}")

    def times(self, x: Number, factor: int) -> Number:
        if isinstance(x, int):
            return x * factor
        return x if factor == 1 else self.define(f"mul nuw nsw i64 {x}, {factor}")

    def least(self, x: Number, y: Number) -> Number:
        if isinstance(x, int) and isinstance(y, int):
            return min(x, y)
        return self.define(f"select i1 {self.compare('ult', x, y)}, i64 {x}, i64 {y}")

    def less(self, x: Number, y: Number) -> Number:
        """x - y, which is not negative."""
        if isinstance(x, int) and isinstance(y, int):
            return x - y
        return x if y == 0 else self.define(f"sub nuw nsw i64 {x}, {y}")

    def multiple(self, x: Number, step: int) -> Number:
        """The greatest multiple of `step` up to x."""
        if isinstance(x, int):
            return x // step * step
        return self.times(self.define(f"udiv i64 {x}, {step}"), step)

    def compare(self, predicate: str, x: Number, y: Number) -> str:
        return self.define(f"icmp {predicate} i64 {x}, {y}")

    def at(self, base: str, elements: Number, size: int) -> str:
        """The address that many elements of `size` bytes after `base`."""
        if elements == 0:
            return base
        return self.define(f"getelementptr inbounds i8, ptr {base}, i64 {self.times(elements, size)}")

    # Control flow

    @contextmanager
    def loop(self, start: Number, stop: Number, step: int) -> Iterator[Number]:
        """Repeat what is written inside with start, start + step, … below stop."""
        if isinstance(start, int) and isinstance(stop, int) and start + step >= stop:
            if start < stop:
                yield start
                return
            raise ValueError("an empty loop is not written")
        header, body, done = (self.new_label(hint) for hint in ("loop", "body", "done"))
        before, counter, following = self.block, self.name("i"), self.name("next")
        self.line(f"br label %{header}")
        self.label(header)
        place = len(self.sections[BODY])
        self.line(f"br i1 {self.compare('ult', counter, stop)}, label %{body}, label %{done}")
        self.label(body)
        yield counter
        self.line(f"{following} = add nuw nsw i64 {counter}, {step}")
        phi = f"  {counter} = phi i64 [ {start}, %{before} ], [ {following}, %{self.block} ]"
        self.sections[BODY].insert(place, phi)
        self.line(f"br label %{header}")
        self.label(done)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Do what is written inside only if the condition holds."""
        body, done = self.new_label("when"), self.new_label("done")
        self.line(f"br i1 {condition}, label %{body}, label %{done}")
        self.label(body)
        yield
        self.line(f"br label %{done}")
        self.label(done)

    # Memory

    def load(self, source: ScalarType, target: ScalarType, address: str) -> str:
        """One element, converted."""
        kind = scalar_type(source)
        loaded = self.define(f"load {kind}, ptr {address}, align {source.bits // 8}")
        return convert(self.scalars, source, target, loaded)

    def store(self, source: ScalarType, target: ScalarType, value: str, address: str) -> None:
        stored = convert(self.scalars, source, target, value)
        self.line(f"store {scalar_type(target)} {stored}, ptr {address}, align {target.bits // 8}")

    def load_vector(self, source: ScalarType, target: ScalarType, address: str, count: int) -> str:
        """A vector whose first `count` lanes are converted elements, the others zero."""
        bits_type = int16 if source is float16 else source
        loaded = self._load(scalar_type(bits_type), f"align {bits_type.bits // 8}", address, count)
        if source is float16:
            loaded = self.define(f"bitcast {self.vector('i16')} {loaded} to {self.vector('half')}")
        return convert(self.vectors, source, target, loaded)

    def store_vector(self, source: ScalarType, target: ScalarType, value: str, address: str, count: int) -> None:
        """Convert a vector and store its first `count` lanes."""
        stored, kind = convert(self.vectors, source, target, value), scalar_type(target)
        if target is float16:
            kind = "i16"
            stored = self.define(f"bitcast {self.vector('half')} {stored} to {self.vector('i16')}")
        # LLVM 22 takes a masked store of one lane of a narrowed vector for a store of the wide element.
        masked = self.options.target.masks and target.bits == source.bits
        self._store(kind, f"align {target.bits // 8}", stored, address, count, masked)

    def _load(self, kind: str, align: str, address: str, count: int) -> str:
        vector = self.vector(kind)
        if count == self.width:
            return self.define(f"load {vector}, ptr {address}, {align}")
        if self.options.target.masks:
            name, lanes = f"llvm.masked.load.{suffix(kind, self.width)}.p0", self.vector("i1")
            self.declare(vector, name, ["ptr", lanes, vector])
            passed = f"ptr {align} {address}, {lanes} {self._first(count)}, {vector} zeroinitializer"
            return self.define(f"call {vector} @{name}({passed})")
        short = self.define(f"load <{count} x {kind}>, ptr {address}, {align}")
        # Lane number `count` of the two operands together is the first of the zeros.
        picks = ", ".join(f"i32 {min(k, count)}" for k in self.lane_numbers)
        return self.define(
            f"shufflevector <{count} x {kind}> {short}, <{count} x {kind}> zeroinitializer, "
            f"{self.vector('i32')} <{picks}>"
        )

    def _store(self, kind: str, align: str, value: str, address: str, count: int, masked: bool) -> None:
        vector = self.vector(kind)
        if count == self.width:
            self.line(f"store {vector} {value}, ptr {address}, {align}")
        elif masked:
            name, lanes = f"llvm.masked.store.{suffix(kind, self.width)}.p0", self.vector("i1")
            self.declare("void", name, [vector, "ptr", lanes])
            self.line(f"call void @{name}({vector} {value}, ptr {align} {address}, {lanes} {self._first(count)})")
        else:
            picks = ", ".join(f"i32 {k}" for k in range(count))
            short = self.define(f"shufflevector {vector} {value}, {vector} poison, <{count} x i32> <{picks}>")
            self.line(f"store <{count} x {kind}> {short}, ptr {address}, {align}")

    def _first(self, count: int) -> str:
        """The mask of the first `count` lanes."""
        return "<" + ", ".join(f"i1 {'true' if k < count else 'false'}" for k in self.lane_numbers) + ">"

    def load_columns(self, source: ScalarType, target: ScalarType, addresses: Sequence[str], part: int) -> list[str]:
        """Vectors of the first, second, … elements at all addresses; `part` of them.

        `part` elements to a lane of 128 bits are transposed within these lanes, as all processors do at once.
        """
        bits_type = int16 if source is float16 else source
        kind, align = scalar_type(bits_type), f"align {bits_type.bits // 8}"
        loaded = [self.define(f"load <{part} x {kind}>, ptr {address}, {align}") for address in addresses]
        rows = [self._joined(kind, loaded[first::part], part) for first in range(part)]
        if source is float16:
            rows = [self.define(f"bitcast {self.vector('i16')} {row} to {self.vector('half')}") for row in rows]
        rows = [convert(self.vectors, source, target, row) for row in rows]
        picks = [_zip_picks(self.width, part, half) for half in (0, 1)]
        for _ in range(part.bit_length() - 1):
            pairs = list(zip(rows[: part // 2], rows[part // 2 :], strict=True))
            rows = [self._mixed(scalar_type(target), x, y, p) for x, y in pairs for p in picks]
        return rows

    def _joined(self, kind: str, parts: list[str], size: int) -> str:
        """One vector of short ones, one after the other."""
        while len(parts) > 1:
            picks = ", ".join(f"i32 {k}" for k in range(2 * size))
            short = f"<{size} x {kind}>"
            parts = [
                self.define(f"shufflevector {short} {x}, {short} {y}, <{2 * size} x i32> <{picks}>")
                for x, y in zip(parts[::2], parts[1::2], strict=True)
            ]
            size *= 2
        return parts[0]

    def _mixed(self, kind: str, x: str, y: str, picks: str) -> str:
        vector = self.vector(kind)
        return self.define(f"shufflevector {vector} {x}, {vector} {y}, {self.vector('i32')} <{picks}>")


def _zip_picks(width: int, part: int, half: int) -> str:
    """Lanes of two vectors by turns, from the lower or upper half of each part."""
    starts = range(half * (part // 2), width, part)
    return ", ".join(
        f"i32 {k + other}" for start in starts for k in range(start, start + part // 2) for other in (0, width)
    )
