"""Matrix products as LLVM text: sums in registers, operands packed into memory of their own where that pays.

A product is a few functions. The innermost, a micro-kernel, makes `rows` x `columns` sums over a part of k.
Around it run loops over the rows and columns of C and over the parts of k; panels at the edges have
micro-kernels of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from jwarp.backend.cpu.code import Options, scalar_type
from jwarp.backend.cpu.gemm_blocking import Blocking, blocking
from jwarp.backend.cpu.gemm_code import FunctionCode, Number
from jwarp.backend.cpu.target import Target
from jwarp.ir.matmul import Request
from jwarp.types import ScalarType


def emit(request: Request, target: Target) -> str:
    """The LLVM module of a request: `void @SYMBOL(ptr noalias %a, ptr noalias %b, ptr noalias %c)`.

    A, B and C need no more than the alignment of their elements.
    """
    return Product(request, target).text()


def _exchanged(request: Request) -> Request:
    """The same product with C transposed: of B transposed by A transposed."""
    return dataclasses.replace(
        request,
        a=request.b,
        b=request.a,
        m=request.n,
        n=request.m,
        transpose_a=not request.transpose_b,
        transpose_b=not request.transpose_a,
    )


def _simplest(request: Request) -> Request:
    """The same product, without transposing what is the same in memory: one row, or one column."""
    one_row, one_column = request.m == 1 or request.k == 1, request.n == 1 or request.k == 1
    return dataclasses.replace(
        request,
        transpose_a=request.transpose_a and not one_row,
        transpose_b=request.transpose_b and not one_column,
    )


@dataclass(frozen=True)
class Operand:
    """The place of A or B for a micro-kernel: the type, and the distances between rows and between columns."""

    type: ScalarType
    row: int
    column: int

    @property
    def size(self) -> int:
        return self.type.bits // 8


class Product:
    """Writes the functions of one request."""

    def __init__(self, request: Request, target: Target):
        self.symbol = request.symbol
        self.key = request.key
        self.params = ("%a", "%b", "%c")
        if request.n == 1:
            # A column is a row in memory, and vectors lie along rows.
            request, self.params = _exchanged(request), ("%b", "%a", "%c")
        self.request = request = _simplest(request)
        self.plan: Blocking = blocking(request, target)
        self.options = Options(dataclasses.replace(target, width=self.plan.lanes))
        self.functions: dict[str, FunctionCode] = {}
        plan, compute = self.plan, self.plan.compute
        self.a_given = Operand(request.a, *((1, request.m) if request.transpose_a else (request.k, 1)))
        self.b_given = Operand(request.b, *((1, request.k) if request.transpose_b else (request.n, 1)))
        self.row_step = -(-plan.rows // plan.lanes) * plan.lanes
        packed_a = (1, self.row_step) if request.transpose_a else (min(plan.depth, self._padded_k), 1)
        self.a_read = Operand(compute, *packed_a) if plan.pack_a else self.a_given
        self.b_read = Operand(compute, plan.columns, 1) if plan.pack_b else self.b_given
        self.c_given = Operand(request.c, request.n, 1)
        self.c_kept = Operand(compute, plan.columns, 1) if plan.sums else self.c_given

    @property
    def _padded_k(self) -> int:
        return -(-self.request.k // self.plan.lanes) * self.plan.lanes

    def text(self) -> str:
        self._entry()
        functions = self.functions.values()
        declarations = sorted({d for f in functions for d in f.declarations})
        lines = [f"; {self.key}", *declarations, "", *(line for f in functions for line in f.lines)]
        return "\n".join(lines)

    def function(self, name: str, params: list[str]) -> FunctionCode:
        code = FunctionCode(self.options, f"{self.symbol}.{name}", params)
        self.functions[name] = code
        return code

    # The loops around the micro-kernels

    def _entry(self) -> None:
        params = [f"ptr noalias {p}" for p in self.params]
        code = FunctionCode(self.options, self.symbol, params, external=True)
        request, plan = self.request, self.plan
        scratch = self._scratch(code)
        with code.loop(0, request.m, plan.block_rows) as i:
            rows = code.least(plan.block_rows, code.less(request.m, i))
            a = code.at("%a", code.times(i, self.a_given.row), self.a_given.size)
            c = code.at("%c", code.times(i, self.c_given.row), self.c_given.size)
            for start, count, columns in self._column_panels():
                name = self._panel(columns)
                with code.loop(start, start + count * columns, columns) as j:
                    b = code.at("%b", code.times(j, self.b_given.column), self.b_given.size)
                    pointers = [a, b, code.at(c, j, self.c_given.size), *scratch]
                    code.call(name, *(("ptr", p) for p in pointers), ("i64", rows))
        self.functions["entry"] = code

    @property
    def _scratch_sizes(self) -> dict[str, int]:
        """Bytes for packed parts of A and B, and for sums."""
        plan, size = self.plan, self.plan.compute.bits // 8
        depth = min(plan.depth, self._padded_k)
        return {
            "a": plan.pack_a * depth * (self.row_step if self.request.transpose_a else plan.rows) * size,
            "b": plan.pack_b * depth * plan.columns * size,
            "c": plan.sums * plan.block_rows * plan.columns * size,
        }

    @property
    def scratch_bytes(self) -> int:
        """The bytes that a call needs on the stack, besides a few registers' worth."""
        return sum(self._scratch_sizes.values())

    def _scratch(self, code: FunctionCode) -> list[str]:
        """The addresses of packed parts and sums; null where there are none."""
        sizes = self._scratch_sizes
        for name, size in sizes.items():
            if size:
                code.line(f"%packed.{name} = alloca [{size} x i8], align 64")
        return [f"%packed.{name}" if size else "null" for name, size in sizes.items()]

    def _column_panels(self) -> Iterator[tuple[int, int, int]]:
        """The first column, number, and columns of whole panels and of the one at the edge."""
        n, columns = self.request.n, self.plan.columns
        whole = n // columns
        if whole:
            yield 0, whole, columns
        if n % columns:
            yield whole * columns, 1, n % columns

    def _panel(self, columns: int) -> str:
        """The function that makes some columns of C for a block of rows."""
        names = ("%a", "%b", "%c", "%packed.a", "%packed.b", "%packed.c")
        code = FunctionCode(self.options, f"{self.symbol}.panel{columns}", [*(f"ptr {p}" for p in names), "i64 %rows"])
        request, plan = self.request, self.plan
        rows: Number = "%rows" if plan.block_rows < request.m else request.m
        kept = "%packed.c" if plan.sums else "%c"
        with code.loop(0, request.k, plan.depth) as k:
            count = code.least(plan.depth, code.less(request.k, k))
            a = code.at("%a", code.times(k, self.a_given.column), self.a_given.size)
            b = code.at("%b", code.times(k, self.b_given.row), self.b_given.size)
            if plan.pack_b:
                self._pack_b(code, b, columns, count)
                b = "%packed.b"
            self._rows(code, columns, (a, b, kept), rows, count, self._adds(code, k))
        if plan.sums:
            with code.loop(0, rows, 1) as i:
                self._finish_row(code, i, columns)
        self.functions[f"panel{columns}"] = code
        return code.title

    def _adds(self, code: FunctionCode, k: Number) -> str:
        """True if the sums of this part of k are added to what is there."""
        if isinstance(k, int):
            return "true" if self.request.accumulate and not self.plan.sums else "false"
        if self.request.accumulate and not self.plan.sums:
            return "true"
        return code.compare("ne", k, 0)

    def _rows(
        self, code: FunctionCode, columns: int, pointers: tuple[str, str, str], rows: Number, count: Number, adds: str
    ) -> None:
        step, edge = self.plan.rows, self.request.m % self.plan.rows
        whole = code.multiple(rows, step)
        if self.request.m >= step:
            with code.loop(0, whole, step) as i:
                self._micro(code, step, columns, pointers, i, count, adds)
        if not edge:
            return
        if isinstance(rows, int):
            self._micro(code, edge, columns, pointers, whole, count, adds)
        else:
            with code.when(code.compare("ult", whole, rows)):
                self._micro(code, edge, columns, pointers, whole, count, adds)

    def _micro(
        self,
        code: FunctionCode,
        rows: int,
        columns: int,
        pointers: tuple[str, str, str],
        i: Number,
        count: Number,
        adds: str,
    ) -> None:
        a, b, c = pointers
        a = code.at(a, code.times(i, self.a_given.row), self.a_given.size)
        c = code.at(c, code.times(i, self.c_kept.row), self.c_kept.size)
        if self.plan.pack_a:
            self._pack_a(code, a, rows, count)
            a = "%packed.a"
        name = f"kernel{rows}x{columns}"
        if name not in self.functions:
            self._micro_kernel(name, rows, columns)
        title = self.functions[name].title
        code.call(title, ("ptr", a), ("ptr", b), ("ptr", c), ("i64", count), ("i1", adds))

    def _finish_row(self, code: FunctionCode, i: Number, columns: int) -> None:
        """Round the sums of a row to C."""
        compute, given, kept = self.plan.compute, self.c_given, self.c_kept
        source = code.at("%packed.c", code.times(i, kept.row), kept.size)
        target = code.at("%c", code.times(i, given.row), given.size)
        for j, lanes in self._vectors(columns):
            total = code.load_vector(compute, compute, code.at(source, j, kept.size), lanes)
            place = code.at(target, j, given.size)
            if self.request.accumulate:
                total = self._sum(code, total, code.load_vector(given.type, compute, place, lanes))
            code.store_vector(compute, given.type, total, place, lanes)

    def _vectors(self, columns: int) -> list[tuple[int, int]]:
        """The first column and the lanes in use of each vector."""
        lanes = self.plan.lanes
        return [(j, min(lanes, columns - j)) for j in range(0, columns, lanes)]

    # Packing

    def _pack_b(self, code: FunctionCode, b: str, columns: int, count: Number) -> None:
        if self.request.transpose_b:
            if "transpose" not in self.functions:
                self._transpose()
            title = self.functions["transpose"].title
            code.call(title, ("ptr", b), ("ptr", "%packed.b"), ("i64", columns), ("i64", count))
            return
        name = f"pack_b{columns}"
        if name not in self.functions:
            self._pack_rows(name, self.b_given.row, self.request.b, self.plan.columns, columns)
        code.call(self.functions[name].title, ("ptr", b), ("ptr", "%packed.b"), ("i64", count))

    def _pack_a(self, code: FunctionCode, a: str, rows: int, count: Number) -> None:
        name = f"pack_a{rows}" if self.request.transpose_a else "pack_a"
        if self.request.transpose_a:
            if name not in self.functions:
                self._pack_rows(name, self.a_given.column, self.request.a, self.row_step, rows)
            code.call(self.functions[name].title, ("ptr", a), ("ptr", "%packed.a"), ("i64", count))
            return
        if name not in self.functions:
            self._pack_along(name)
        code.call(self.functions[name].title, ("ptr", a), ("ptr", "%packed.a"), ("i64", rows), ("i64", count))

    def _pack_rows(self, name: str, step: int, type: ScalarType, packed_step: int, columns: int) -> None:
        """Copies `%count` rows of `columns` elements, and pads them with zeros to whole vectors."""
        code = self.function(name, ["ptr noalias %from", "ptr noalias %to", "i64 %count"])
        compute = self.plan.compute
        with code.loop(0, "%count", 1) as k:
            source = code.at("%from", code.times(k, step), type.bits // 8)
            target = code.at("%to", code.times(k, packed_step), compute.bits // 8)
            for j, lanes in self._vectors(columns):
                value = code.load_vector(type, compute, code.at(source, j, type.bits // 8), lanes)
                place = code.at(target, j, compute.bits // 8)
                code.store_vector(compute, compute, value, place, self.plan.lanes)

    def _pack_along(self, name: str) -> None:
        """Copies `%count` elements of each of `%rows` rows of A."""
        code = self.function(name, ["ptr noalias %from", "ptr noalias %to", "i64 %rows", "i64 %count"])
        lanes, tail = self.plan.lanes, self.request.k % self.plan.lanes
        whole = code.multiple("%count", lanes)
        with code.loop(0, "%rows", 1) as i:
            source = code.at("%from", code.times(i, self.a_given.row), self.a_given.size)
            target = code.at("%to", code.times(i, self.a_read.row), self.a_read.size)
            with code.loop(0, whole, lanes) as k:
                self._copy_vector(code, source, target, k, lanes)
            if tail:
                with code.when(code.compare("ult", whole, "%count")):
                    self._copy_vector(code, source, target, whole, tail)

    def _copy_vector(self, code: FunctionCode, source: str, target: str, k: Number, lanes: int) -> None:
        given, read = self.a_given, self.a_read
        value = code.load_vector(given.type, read.type, code.at(source, k, given.size), lanes)
        code.store_vector(read.type, read.type, value, code.at(target, k, read.size), self.plan.lanes)

    def _transpose(self) -> None:
        """Copies `%count` elements of each of `%columns` rows of a transposed B, as columns."""
        given, read, lanes = self.b_given, self.b_read, self.plan.lanes
        part = 16 // read.size
        code = self.function("transpose", ["ptr noalias %from", "ptr noalias %to", "i64 %columns", "i64 %count"])
        whole_columns, whole_count = code.multiple("%columns", lanes), code.multiple("%count", part)
        with code.loop(0, "%columns", lanes) as j, code.loop(0, "%count", part) as k:
            source = code.at("%from", code.add(code.times(j, given.column), k), given.size)
            target = code.at("%to", code.add(code.times(k, read.row), j), read.size)
            block, edge, done = (code.new_label(hint) for hint in ("block", "edge", "done"))
            inside = [code.compare("ult", j, whole_columns), code.compare("ult", k, whole_count)]
            code.line(f"br i1 {code.define(f'and i1 {inside[0]}, {inside[1]}')}, label %{block}, label %{edge}")
            code.label(block)
            rows = [code.at(source, r * given.column, given.size) for r in range(lanes)]
            for r, row in enumerate(code.load_columns(given.type, read.type, rows, part)):
                code.store_vector(read.type, read.type, row, code.at(target, r * read.row, read.size), lanes)
            code.line(f"br label %{done}")
            code.label(edge)
            columns, count = code.least(code.less("%columns", j), lanes), code.least(code.less("%count", k), part)
            self._transpose_edge(code, source, target, columns, count)
            code.line(f"br label %{done}")
            code.label(done)

    def _transpose_edge(self, code: FunctionCode, source: str, target: str, columns: Number, count: Number) -> None:
        """A block that the matrix does not fill: element by element, with zeros for absent columns."""
        given, read, lanes = self.b_given, self.b_read, self.plan.lanes
        zero = code.vectors.constant(read.type, 0)
        with code.loop(0, count, 1) as k:
            row = code.at(target, code.times(k, read.row), read.size)
            code.store_vector(read.type, read.type, zero, row, lanes)
            with code.loop(0, columns, 1) as j:
                element = code.at(source, code.add(code.times(j, given.column), k), given.size)
                code.store(read.type, read.type, code.load(given.type, read.type, element), code.at(row, j, read.size))

    # The innermost loop

    def _micro_kernel(self, name: str, rows: int, columns: int) -> None:
        """Adds the products of `%count` columns of A and rows of B to C, or sets C to them."""
        code = self.function(name, ["ptr %a", "ptr %b", "ptr %c", "i64 %count", "i1 %adds"])
        vectors = self._vectors(columns)
        places = [(i, j, lanes) for i in range(rows) for j, lanes in vectors]
        sums = self._sums(code, rows, columns)
        add, done = code.new_label("add"), code.new_label("set")
        before = code.block
        code.line(f"br i1 %adds, label %{add}, label %{done}")
        code.label(add)
        added = [
            self._sum(code, x, code.load_vector(self.c_kept.type, self.plan.compute, self._c(code, i, j), lanes))
            for x, (i, j, lanes) in zip(sums, places, strict=True)
        ]
        code.line(f"br label %{done}")
        code.label(done)
        vector = code.vectors.type(self.plan.compute)
        pairs = zip(sums, added, strict=True)
        totals = [code.define(f"phi {vector} [ {x}, %{before} ], [ {y}, %{add} ]") for x, y in pairs]
        for total, (i, j, lanes) in zip(totals, places, strict=True):
            code.store_vector(self.plan.compute, self.c_kept.type, total, self._c(code, i, j), lanes)

    def _c(self, code: FunctionCode, i: int, j: int) -> str:
        return code.at("%c", i * self.c_kept.row + j, self.c_kept.size)

    def _sums(self, code: FunctionCode, rows: int, columns: int) -> list[str]:
        """The loop over k, with all sums in registers."""
        vector = code.vectors.type(self.plan.compute)
        start, loop, done = code.block, code.new_label("k"), code.new_label("done")
        code.line(f"br label %{loop}")
        code.label(loop)
        count = rows * len(self._vectors(columns))
        before = [code.name("s") for _ in range(count)]
        k, a, b = code.name("k"), code.name("a"), code.name("b")
        place = len(code.sections[-1])
        after = self._products(code, a, b, rows, columns, before)
        next_k = code.define(f"add nuw nsw i64 {k}, 1")
        next_a = code.at(a, self.a_read.column, self.a_read.size)
        next_b = code.at(b, self.b_read.row, self.b_read.size)
        code.sections[-1][place:place] = [
            f"  {k} = phi i64 [ 0, %{start} ], [ {next_k}, %{loop} ]",
            f"  {a} = phi ptr [ %a, %{start} ], [ {next_a}, %{loop} ]",
            f"  {b} = phi ptr [ %b, %{start} ], [ {next_b}, %{loop} ]",
            *(
                f"  {x} = phi {vector} [ zeroinitializer, %{start} ], [ {y}, %{loop} ]"
                for x, y in zip(before, after, strict=True)
            ),
        ]
        code.line(f"br i1 {code.compare('ult', next_k, '%count')}, label %{loop}, label %{done}")
        code.label(done)
        return after

    def _products(self, code: FunctionCode, a: str, b: str, rows: int, columns: int, sums: list[str]) -> list[str]:
        compute, kind = self.plan.compute, scalar_type(self.plan.compute)
        read = [
            code.load_vector(self.b_read.type, compute, code.at(b, j, self.b_read.size), lanes)
            for j, lanes in self._b_vectors(columns)
        ]
        after = []
        for i in range(rows):
            element = code.at(a, i * self.a_read.row, self.a_read.size)
            factor = code.splat(code.load(self.a_read.type, compute, element), kind)
            for j, x in enumerate(read):
                after.append(self._multiply_add(code, factor, x, sums[i * len(read) + j]))
        return after

    def _b_vectors(self, columns: int) -> list[tuple[int, int]]:
        """As `_vectors`; a packed panel has whole vectors."""
        if not self.plan.pack_b:
            return self._vectors(columns)
        return [(j, self.plan.lanes) for j, _ in self._vectors(columns)]

    def _multiply_add(self, code: FunctionCode, x: str, y: str, total: str) -> str:
        compute = self.plan.compute
        if compute.is_float and self.options.target.fma:
            return code.vectors.intrinsic("fma", compute, (compute, x), (compute, y), (compute, total))
        product = code.vectors.binary("fmul" if compute.is_float else "mul", compute, x, y)
        return self._sum(code, total, product)

    def _sum(self, code: FunctionCode, x: str, y: str) -> str:
        compute = self.plan.compute
        return code.vectors.binary("fadd" if compute.is_float else "add", compute, x, y)
