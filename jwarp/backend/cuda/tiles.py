"""Writes the body of a kernel with tiles as CUDA C++: what one thread does of the work of its block.

All threads run the code around loops with lanes alike, so that they know the same numbers; the first one alone
changes memory and writes lines there. The elements of a loop with lanes are spread over the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from jwarp.backend.cuda.accumulators import Accumulators, Run, is_coarse
from jwarp.backend.cuda.barriers import barriers, first_lane, is_broadcast, is_checked, is_common
from jwarp.backend.cuda.copies import Addition, Copies, Copy, Pipeline
from jwarp.backend.cuda.emit import BodyEmitter
from jwarp.backend.cuda.records import restored_together
from jwarp.backend.cuda.rules import C_TYPES, bare, memory_type
from jwarp.backend.cuda.shared import SCRATCH, SLOT, Shared
from jwarp.ir.attributes import BlockCholesky, BlockMatmul, BlockScan, BlockSolve
from jwarp.ir.evaluate import neutral
from jwarp.ir.nodes import Const, For, Kernel, Node, Op, Operand, Value, arrays_changed, arrays_read, walk, walk_node

IS_FIRST = "threadIdx.x == 0"
# The operations by which values of threads are combined, as the device library calls them.
OPERATIONS = {
    "add": "add", "mul": "mul", "min": "min", "max": "max", "and": "bit_and", "or": "bit_or", "xor": "bit_xor",
}  # fmt: skip
# More passes of a block over the elements than this make a loop that is not written out.
MAX_PASSES = 8


class TileEmitter(BodyEmitter):
    """Writes the statements of a kernel without tiles that is run by blocks of `block_dim` threads."""

    def __init__(
        self,
        kernel: Kernel,
        trusted: Container[Node],
        failures: Sequence[str],
        thread: str,
        copies: Copies,
        accumulators: Accumulators,
        shared: Shared,
    ):
        super().__init__(kernel, trusted, failures, thread=thread)
        self.block_dim, self.copies, self.accumulators = kernel.block_dim, copies, accumulators
        self.shared, self.paddings = shared, shared.paddings
        self.waiting = barriers(kernel, copies, accumulators)
        self.lanes: For | None = None  # the loop with lanes at hand
        self.stages: dict[For, str] = {}  # which of their places the tiles of a loop have
        self.in_registers: dict[int, str] = {}  # what arrays are called whose elements are in registers
        self.goes_on = False  # whether products of warpgroups are waited for later
        self.shown: set[int] = set()  # the tiles that warpgroups can multiply as they are
        self.failed = ""  # the variable that is true once a check of a lane has failed
        self.turn_end = ""  # the label that ends the turn of a lane, where lanes take turns
        self.restored = restored_together(kernel)

    def node(self, node: Node) -> None:
        if self.accumulators.is_left_out(node):
            return
        if node in self.waiting:
            self.line("__syncthreads();")
        for run in self.accumulators.starting(node):
            self.hold(run)
        self.statement(node)
        for run in self.accumulators.ending(node):
            self.release(run)

    def statement(self, node: Node) -> None:
        if isinstance(node, Op) and node.row.code.is_unit:
            self.span = node.span
            UNIT_RULES[node.name](self, node)
        elif isinstance(node, Op) and node.name in LOG_RULES and node.array in self.restored:
            self.span = node.span
            LOG_RULES[node.name](self, node)
        else:
            super().node(node)

    # -- loops with lanes

    def counted(self, node: For) -> None:
        if node in self.copies.pipelines:
            self.pipelined(node)
            return
        if node.lanes is None:
            super().counted(node)
            return
        if node in self.copies.additions:
            for addition in self.copies.additions[node]:
                self.add(addition)
            return
        if node in self.copies.of:
            self.fetch(self.copies.of[node], self.names)
            self.line("jw::tile::wait_async();")
            return
        assert self.lanes is None, "lanes have no lanes"
        kept = {n.array for n in walk(node.body) if isinstance(n, Op) and n.row.adds_to_log}
        for array in sorted(kept & self.restored):
            self.line(f"++{self.logs[array].turn};")
        self.lanes, self.failed = node, ""
        if is_checked(node, self.grows):
            self.failed = self.name()
            self.line(f"bool {self.failed} = false;")
        names = self.carry(node.params, [neutral(k, p.type) for k, p in zip(node.lanes, node.params, strict=True)])
        self.values[node.index] = self.name(node.index)
        if takes_turns(self.kernel, node, self.used):
            self.in_turn(node, names)
        else:
            self.line(f"{self.spread(node, self.values[node.index])} {{")
            self.iteration(node, names)
            self.line("}")
        self.span, self.lanes, self.turn_end = node.span, None, ""
        if self.failed:
            self.line(f"{self.failed}_{self.end}:;")
            self.line(f"if (__syncthreads_or({self.failed})) {self.leaving()}")
        for carried in zip(node.lanes, names, node.results, node.init, strict=True):
            self.combined(*carried)

    def in_turn(self, node: For, names: Sequence[str]) -> None:
        """A loop whose elements are taken one after the other, each by the thread that it falls to."""
        type, index, step = C_TYPES[node.index.type], self.values[node.index], self.block_dim
        lowest = first_lane(node)
        first = self.text(node.lo) if lowest is None else str(lowest)
        sign = "<" if node.step > 0 else ">"
        self.turn_end = f"{self.name()}_{self.end}"
        head = f"{type} {index} = {self.text(node.lo)}; {index} {sign} {self.text(node.hi)}; {index} += {node.step}"
        self.line(f"for ({head}) {{")
        own = f"({index} - {first}) % {step} == ({type})threadIdx.x"
        self.line(f"  if ({own}{f' && !{self.failed}' if self.failed else ''}) {{")
        self.iteration(node, names)
        self.line("  }")
        self.line(f"  {self.turn_end}:;")
        self.line("  __syncthreads();")
        self.line("}")

    def spread(self, node: For, index: str) -> str:
        """The head of a loop over the elements that fall to the thread, each counted from the lowest one."""
        type, step = C_TYPES[node.index.type], self.block_dim
        thread, lowest = f"({type})threadIdx.x", first_lane(node)
        if lowest is None or not isinstance(node.lo, Const) or not isinstance(node.hi, Const):
            assert node.step > 0, "who counts down knows where from"
            first = f"{self.text(node.lo)} + {thread}"
            return f"for ({type} {index} = {first}; {index} < {self.text(node.hi)}; {index} += {step})"
        count = len(range(node.lo.value, node.hi.value, node.step))
        first = thread if lowest == 0 else f"{lowest} + {thread}"
        if node.step < 0:
            # The thread has the same elements as in a loop that counts up, and takes the last of them first.
            last = f"{first} + ({count - 1} - {thread}) / {step} * {step}"
            return f"if ({thread} < {count}) for ({type} {index} = {last}; {index} >= {lowest}; {index} -= {step})"
        if count <= step:
            return f"if (const {type} {index} = {first}; {'true' if count == step else f'{thread} < {count}'})"
        if count % step == 0 and count // step <= MAX_PASSES:
            self.lines.append("#pragma unroll")
        return f"for ({type} {index} = {first}; {index} < {lowest + count}; {index} += {step})"

    def combined(self, kind: str, name: str, result: Value, init: Operand) -> None:
        """Define what the carried value `name` of all threads is together, with what it was before the loop."""
        type, operation = C_TYPES[result.type], f"jw::tile::{OPERATIONS[kind]}"
        text = f"jw::tile::block_reduce<{operation}, {self.block_dim}>({name}, ({type}*){SCRATCH})"
        if init != neutral(kind, result.type):
            text = f"jw::tile::combine<{operation}>({self.text(init)}, {text})"
        self.define(result, text)

    # -- what is fetched while the block works on

    def fetch(self, copies: Sequence[Copy], targets: Mapping[int, str]) -> None:
        """Begin to copy tiles to the places `targets`."""
        for copy in copies:
            type, source = memory_type(self.kernel.array(copy.source).dtype), self.names[copy.source]
            offset, stride, extents = self.matrix(copy, copy.source, copy.target)
            given = f"{targets[copy.target]}, &{source}[{offset}], {stride}"
            name = "copy_swizzled_async" if copy.target in self.accumulators.swizzles else "copy_2d_async"
            self.routine(name, type, *extents[:2], self.block_dim, *extents[2:], given=given)

    def add(self, addition: Addition) -> None:
        """Add a tile to a matrix of an array."""
        type, target = memory_type(self.kernel.array(addition.target).dtype), self.names[addition.target]
        offset, stride, extents = self.matrix(addition, addition.target, addition.source)
        given = f"&{target}[{offset}], {self.names[addition.source]}, {stride}"
        self.routine("add_2d", type, *extents[:2], self.block_dim, *extents[2:], given=given)

    def matrix(self, matrix: Copy | Addition, array: int, tile: int) -> tuple[str, str, tuple[int, ...]]:
        """The start in an array and the stride of rows there; rows, columns, and the stride of these in a tile."""
        first, *others = ["0" if x is None else self.text(x) for x in matrix.corner]
        wide = f"(long long){first}"
        offset = bare(self.offset(array, [wide, *others])) if others else wide
        lengths = [self.extent(array, axis) for axis in range(matrix.axis + 1, len(matrix.corner))]
        rows, columns = matrix.rows, matrix.columns
        stride = " * ".join(["1ll", *lengths])
        padding = self.paddings.get(tile)
        own = padding or self.accumulators.swizzles.get(tile)
        if rows == 1:
            if own is not None:
                rows, columns = columns // own.columns, own.columns
            stride = str(columns)
        return offset, stride, (rows, columns, *((padding.step,) if padding is not None else ()))

    def placed(self, array: int, offset: str) -> str:
        swizzle = self.accumulators.swizzles.get(array)
        if swizzle is not None:
            type = memory_type(self.kernel.array(array).dtype)
            return f"jw::tile::swizzled<{type}, {swizzle.rows}, {swizzle.columns}>({bare(offset)})"
        padding = self.paddings.get(array)
        return offset if padding is None else f"jw::tile::placed<{padding.columns}, {padding.step}>({bare(offset)})"

    def pipelined(self, node: For) -> None:
        """Emit a loop whose iterations begin to fetch what later ones need; its tiles have some places in turn."""
        pipeline, ahead = self.copies.pipelines[node], self.shared.stages - 1
        stage, sign = self.name(), "<" if node.step > 0 else ">"
        self.line("__syncthreads();")
        self.line(f"int {stage} = 0;")
        type, lo, hi = C_TYPES[node.index.type], self.text(node.lo), self.text(node.hi)
        for iteration in range(ahead):
            far = f" && {self.farther(node, lo, iteration)}" if iteration else ""
            self.line(f"if ({lo} {sign} {hi}{far}) {{")
            self.begin(
                node, pipeline, f"jw_add({lo}, ({type})({iteration * node.step}))" if iteration else lo, str(iteration)
            )
            self.line("}")
            self.end_group()
        self.stages[node] = stage
        super().counted(node)

    def farther(self, node: For, index: str, iterations: int) -> str:
        """True if a loop goes on for more than so many iterations from an index on."""
        hi = self.text(node.hi)
        left = f"jw_sub({hi}, {index})" if node.step > 0 else f"jw_sub({index}, {hi})"
        return f"(jw_unsigned<{C_TYPES[node.index.type]}>){left} > {iterations * abs(node.step)}"

    def end_group(self) -> None:
        """With two stages, all that was begun is waited for."""
        if self.shared.stages > 2:
            self.line("jw::tile::commit_async();")

    def begin(self, node: For, pipeline: Pipeline, index: str, stage: str) -> None:
        """Begin the copies of iteration `index`, to the places numbered `stage`."""
        known = dict(self.values)
        self.depth += 1
        self.values[node.index] = index
        for inner in pipeline.prefix:
            if inner in self.copies.of:
                copies = self.copies.of[inner]
                self.fetch(copies, {c.target: self.staged(c.target, stage) for c in copies})
            else:
                self.node(inner)
        self.depth -= 1
        self.values = known

    def staged(self, array: int, stage: str) -> str:
        """The place of a tile that has several."""
        return self.names[array] if stage == "0" else f"{self.names[array]} + {stage} * {self.shared.steps[array]}"

    def iteration(self, node: For, names: Sequence[str]) -> None:
        pipeline = self.copies.pipelines.get(node)
        if pipeline is None:
            super().iteration(node, names)
            return
        stage, index, known = self.stages[node], self.values[node.index], dict(self.names)
        last = self.shared.stages - 1
        begun = self.copies.of.keys() & set(pipeline.prefix)
        own = [inner for inner in node.body.nodes if inner not in begun]
        by_groups = self.accumulators.swizzles.keys() & pipeline.targets
        waiting = "wait_for_groups" if by_groups else "wait_async"
        self.depth += 1
        self.line(f"jw::tile::{waiting}{f'<{last - 1}>' if last > 1 else ''}();")
        # While warpgroups multiply, threads go on to what comes next.
        self.goes_on = all(self.is_begun(inner) for inner in own)
        if not self.goes_on:
            self.following(node, pipeline, index, stage)
        for array in sorted(pipeline.targets):
            place = self.name()
            self.line(f"{memory_type(self.kernel.array(array).dtype)}* const {place} = {self.staged(array, stage)};")
            self.names[array] = place
        next_stage = f"{stage} = {stage} == {last} ? 0 : {stage} + 1;"
        if not self.goes_on:
            self.line(next_stage)
        shown = by_groups - {
            x for inner in own for n in walk_node(inner) if isinstance(n, Op) for x in arrays_changed(n)
        }
        self.shown |= shown
        for inner in own:
            self.node(inner)
        self.shown -= shown
        self.names = known
        if self.goes_on:
            self.following(node, pipeline, index, stage)
            self.line(next_stage)
            for inner in own:
                self.end_product(inner)
        self.goes_on = False
        self.hand_on(names, node.body.yields)
        self.depth -= 1

    def following(self, node: For, pipeline: Pipeline, index: str, stage: str) -> None:
        """Begin the copies of a later iteration, to the places that the iteration before has left."""
        last, type = self.shared.stages - 1, C_TYPES[node.index.type]
        self.line(f"if ({self.farther(node, index, last)}) {{")
        free = f"({stage} == 0 ? {last} : {stage} - 1)"
        self.begin(node, pipeline, f"jw_add({index}, ({type})({last * node.step}))", free)
        self.line("}")
        self.end_group()

    def is_begun(self, node: Node) -> bool:
        """True if a node only begins something, or reckons with numbers: warpgroups multiply what was fetched."""
        if not isinstance(node, Op):
            return False
        if node.row.is_pure:
            return True
        run = self.accumulators.of(node) if node.row.code.is_unit else None
        ahead = self.copies.ahead
        return run is not None and run.split is not None and ahead >= set(arrays_read(node)) - {run.array}

    # -- tiles in registers

    def hold(self, run: Run) -> None:
        """Bring the elements of a tile to registers."""
        attr, array = run.products[0].attr_as(BlockMatmul), run.array
        types = [C_TYPES[self.kernel.array(x).dtype] for x in (attr.a, attr.b, attr.c)]
        flags = (attr.transposes.a, attr.transposes.b, run.by_matrices)
        name = self.in_registers[array] = self.name()
        start = "clear();" if run.is_zero else f"take<{self.row_step(array, attr.n)}>({self.names[array]});"
        if run.split is not None:
            parts = (run.split.down, run.split.right)
            parameters = _joined(types[0], types[2], attr.m, attr.n, *flags[:2], *parts)
            self.line(f"jw::tile::group_sums<{parameters}> {name};")
            self.line(f"{name}.{start}")
            return
        tf32 = is_coarse(self.kernel, run.products[0], self.accumulators.tf32)
        parameters = _joined(*types, attr.m, attr.n, *flags, self.block_dim, *([True] if tf32 else []))
        self.line(f"jw::tile::block_sums<{parameters}> {name};")
        self.line(f"{name}.{start}")

    def release(self, run: Run) -> None:
        attr, array = run.products[0].attr_as(BlockMatmul), run.array
        self.line(f"{self.in_registers.pop(array)}.put<{self.row_step(array, attr.n)}>({self.names[array]});")

    def row_step(self, array: int, columns: int) -> int:
        """The stride of rows in elements."""
        return self.paddings[array].step if array in self.paddings else columns

    # -- what one thread does for all

    def is_alike(self, array: int | None) -> bool:
        """True if all threads are about to do the same to something that they have together."""
        return self.lanes is None and (array is None or is_common(self.kernel, array))

    def guard(self, array: int | None, inside: str | None) -> str:
        if not self.is_alike(array):
            return super().guard(array, inside)
        return f"if ({' && '.join([IS_FIRST, *([inside] if inside else [])])}) "

    def found(self, node: Op, text: str) -> None:
        assert node.result is not None
        if self.lanes is None and is_broadcast(self.kernel, node, self.written, self.used):
            broadcast = f"*({C_TYPES[node.result.type]}*){SLOT}"
            self.line(f"if ({IS_FIRST}) {broadcast} = {text};")
            self.line("__syncthreads();")
            text = broadcast
        super().found(node, text)

    def leaving(self) -> str:
        if self.lanes is None:
            return super().leaving()
        return f"{self.failed} = true; goto {self.turn_end or f'{self.failed}_{self.end}'};"

    def lacking(self, has: str) -> str:
        # Threads that leave code that all of them run leave it together.
        return super().lacking(has) if self.lanes is not None else f"__syncthreads_or({super().lacking(has)})"

    # -- logs that the block restores together

    def keep(self, node: Op) -> None:
        """Let the first thread restore what all threads keep alike."""
        log = self.logs[node.array]
        if self.lanes is None:
            self.line(f"++{log.turn};")
        self.make_room((log.turns,), log.size)
        self.line(f"{log.turns}[{log.size}] = {log.turn};")
        self.save(node)
        if self.lanes is None:
            self.line(f"if (!({IS_FIRST})) {log.places}[{log.size} - 1] = -1;")

    def turn(self, node: Op) -> None:
        """The place in the log, for all threads the same one outside of lanes."""
        assert node.result is not None
        log = self.logs[node.array]
        self.define(node.result, log.size if self.lanes is not None else log.turn)

    def restore(self, node: Op) -> None:
        if self.lanes is not None:
            self.rollback(node)
            return
        log, name, turn = self.logs[node.array], self.names[node.number], self.name()
        since = self.text(node.args[0])
        self.line(f"for (int {turn} = {log.turn}; {turn} > {since}; --{turn}) {{")
        self.line(f"  while ({log.size} > 0 && {log.turns}[{log.size} - 1] == {turn}) {{")
        self.line(f"    --{log.size};")
        place = f"{log.places}[{log.size}]"
        self.line(f"    if ({place} >= 0) {name}[{place}] = {log.contents}[{log.size}];")
        self.line("  }")
        self.line("  __syncthreads();")
        self.line("}")
        self.line(f"{log.turn} = (int){bare(since)};")

    # -- routines for whole tiles

    def routine(self, name: str, *parameters: object, given: str) -> None:
        self.line(f"jw::tile::{name}<{_joined(*parameters)}>({given});")

    def copy(self, target: int, source: int) -> None:
        """The routines work in place."""
        k, local = self.name(), self.kernel.local(source)
        assert local is not None
        self.line(f"for (int {k} = threadIdx.x; {k} < {local.size}; {k} += {self.block_dim})")
        self.line(f"  {self.names[target]}[{k}] = {self.names[source]}[{k}];")
        self.line("__syncthreads();")

    def product(self, node: Op) -> None:
        attr = node.attr_as(BlockMatmul)
        flags = (attr.transposes.a, attr.transposes.b, attr.accumulate)
        rows = (attr.m if attr.transposes.a else attr.k, attr.k if attr.transposes.b else attr.n, attr.n)
        arrays = (attr.a, attr.b, attr.c)
        steps = [self.row_step(x, row) for x, row in zip(arrays, rows, strict=True)]
        a, b, c = (self.names[x] for x in arrays)
        run = self.accumulators.of(node)
        if run is not None and run.split is not None:
            if not {attr.a, attr.b} <= self.shown:
                self.line("jw::tile::show_to_groups();")
            self.line(f"{self.in_registers[attr.c]}.add<{attr.k}>({a}, {b});")
            if not self.goes_on:
                self.end_product(node)
            return
        if run is not None:
            self.line(f"{self.in_registers[attr.c]}.add<{_joined(attr.k, *steps[:2])}>({a}, {b});")
            return
        types = (C_TYPES[self.kernel.array(x).dtype] for x in arrays)
        tf32 = is_coarse(self.kernel, node, self.accumulators.tf32)
        apart = (tf32, *steps) if tf32 or any(x in self.paddings for x in arrays) else ()
        self.routine(
            "gemm", *types, attr.m, attr.n, attr.k, *flags, self.block_dim, *apart, given=_joined(a, b, c)
        )  # fmt: skip

    def end_product(self, node: Node) -> None:
        """Wait for what a product of warpgroups has begun."""
        if isinstance(node, Op) and node.row.code.is_unit:
            self.line(f"{self.in_registers[node.attr_as(BlockMatmul).c]}.wait();")

    def scan(self, node: Op) -> None:
        attr = node.attr_as(BlockScan)
        target, scan = attr.target, attr.scan
        self.copy(target, attr.source)
        type, operation = C_TYPES[self.kernel.array(target).dtype], f"jw::tile::{OPERATIONS[scan.operation]}"
        given = f"{self.names[target]}, {attr.size}, ({type}*){SCRATCH}"
        self.routine("block_scan", operation, self.block_dim, scan.exclusive, scan.reverse, given=given)

    def cholesky(self, node: Op) -> None:
        attr = node.attr_as(BlockCholesky)
        self.copy(attr.target, attr.source)
        type = C_TYPES[self.kernel.array(attr.target).dtype]
        self.routine("cholesky", type, attr.n, self.block_dim, given=self.names[attr.target])

    def solve(self, node: Op) -> None:
        attr = node.attr_as(BlockSolve)
        type, flags = C_TYPES[self.kernel.array(attr.target).dtype], (attr.system.lower, attr.system.transposed)
        given = f"{self.names[attr.triangle]}, {self.names[attr.target]}"
        self.routine("tri_solve", type, attr.n, attr.m, *flags, self.block_dim, given=given)


UNIT_RULES: dict[str, Callable[[TileEmitter, Op], None]] = {
    "tile_matmul": TileEmitter.product,
    "tile_scan": TileEmitter.scan,
    "tile_cholesky": TileEmitter.cholesky,
    "tile_solve": TileEmitter.solve,
}

LOG_RULES: dict[str, Callable[[TileEmitter, Op], None]] = {
    "save": TileEmitter.keep,
    "mark": TileEmitter.turn,
    "rollback": TileEmitter.restore,
}


def takes_turns(kernel: Kernel, loop: For, used: Container[Value]) -> bool:
    """True if the lanes of a loop run one after the other: what an atomic finds there depends on their order."""
    return bool(kernel.order) and any(
        isinstance(n, Op) and n.row.is_atomic and (n.result in used or not n.row.combines) for n in walk(loop.body)
    )


def _joined(*parameters: object) -> str:
    """Arguments as C++ writes them."""
    return ", ".join(str(x).lower() if isinstance(x, bool) else str(x) for x in parameters)
