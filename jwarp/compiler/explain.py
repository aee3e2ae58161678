"""The accesses of one launch as a report: how each is made, and what keeps it inside its array."""

from __future__ import annotations

import linecache
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from jwarp.analysis.affine import evaluate
from jwarp.analysis.conditions import condition_text
from jwarp.compiler.cpu import VERSIONS, CpuKernel
from jwarp.ir.attributes import RecordFields
from jwarp.ir.nodes import Kernel, Op, Param, walk_all
from jwarp.ir.printing import short_file
from jwarp.types import shape_of
from jwarp.types.arrays import Extents
from jwarp.wire import Cover

MAX_SOURCE = 100
MAX_FILL_PARAMS = 64  # the runtime's mask of outputs that a kernel zeroes itself


@dataclass(frozen=True)
class Access:
    """One access to an array, as the code makes it.

    `kind` is `load`, `store` or `atomic_add` and its kin, `text` what the program has for it, and `source`
    the whole line. `proof` says why it stays inside the array: proven `always`; proven at `launch` under the
    `condition`, given in words, which `holds` or not (None: that depends on a number known only when the
    kernel runs); `checked` for each thread; or `unchecked`, which is unsafe. `tested` is whether the version
    that runs checks it: where one condition of a kernel does not hold, all that need one are checked. `how`
    are the instructions: a second one is for the vectors of threads that a test finds unfit for the first.
    `count` is how often the line does this, for components, unrolled loops and repeated calls.
    """

    file: str
    line: int
    column: int
    source: str
    text: str
    array: str
    kind: str
    proof: str
    condition: str
    holds: bool | None
    tested: bool
    how: tuple[str, ...]
    count: int = 1

    def __str__(self) -> str:
        return f"{self.what}: {self.made}; {self.safe}"

    @property
    def what(self) -> str:
        """The access as the program has it; an array that a function calls otherwise gets both names."""
        what = f"{self.kind} {self.array}"
        if self.kind == "load":
            what = f"load {self.text}" if self.text.startswith(f"{self.array}[") else f"{what} as {self.text}"
        return f"{what} x{self.count}" if self.count > 1 else what

    @property
    def made(self) -> str:
        """`how` in words."""
        return " or ".join(self.how) + (" by per-vector test" if len(self.how) > 1 else "")

    @property
    def safe(self) -> str:
        """`proof` in words."""
        match self.proof:
            case "always":
                return "proven"
            case "launch" if self.tested and self.holds:
                return f"checked with the others, though this holds: {self.condition}"
            case "launch" if self.tested:
                return f"checked, as this does not hold: {self.condition}"
            case "launch":
                return f"proven at launch: {self.condition} ({'holds' if self.holds else 'decided when it runs'})"
            case "checked":
                return "checked"
            case _:
                return "UNCHECKED"


@dataclass(frozen=True)
class Version:
    """One version of a kernel's code, and how it came into the process: `compiled`, or from `disk`."""

    name: str
    seconds: float
    source: str
    bytes: int

    def __str__(self) -> str:
        verb = "compiled" if self.source == "compiled" else "read from disk"
        return f"{self.name}: {verb} in {self.seconds * 1e3:.1f} ms, {self.bytes / 1e3:.1f} kB"


@dataclass(frozen=True)
class LaunchExplanation:
    """One launch: its kernel, threads and versions, and its accesses in order of their lines.

    A vector holds `width` threads of a row along the last launch dimension, or the `lanes` that a short row has.
    `condition` is what the fast version needs, `missing` the part of it that does not hold or is not known;
    `runs` is the version that runs, None where each batch element or call decides. `zeros` says for each
    output that starts as zeros how it gets them: `stored` (every element is overwritten, so not at all),
    `by threads` or `filled` beforehand. `count` is in how many places the function makes this launch.

    In a kernel with tiles, `dims` are blocks of `block_dim` threads, and a vector holds elements of a tile.

    Of a derivative, `variant` says which one it is, `taped` how many bytes of each thread an iteration of the loop in
    a line keeps for the reverse sweep, and `undone` which arrays keep a log of what was overwritten.
    """

    kernel: str
    file: str
    line: int
    dims: tuple[int, ...]
    batch: tuple[int, ...]
    width: int
    lanes: int
    condition: str
    missing: str
    runs: str | None
    versions: tuple[Version, ...]
    zeros: Mapping[str, str]
    rows: tuple[Access, ...]
    count: int = 1
    variant: str = "forward"
    taped: Mapping[int, int] = field(default_factory=dict)
    undone: tuple[str, ...] = ()
    block_dim: int = 0

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        dims = " x ".join(map(str, self.dims))
        batch = f", batch {' x '.join(map(str, self.batch))}" if self.batch else ""
        places = f", in {self.count} places" if self.count > 1 else ""
        variant = "" if self.variant == "forward" else f", {self.variant}"
        unit = f"blocks of {self.block_dim} threads" if self.block_dim else "threads"
        yield f"kernel {self.kernel}{variant} ({self.file}:{self.line}), {dims} {unit}{batch}{places}"
        runs = f"runs the {self.runs} version" if self.runs else "chooses its version when it runs"
        why = f", as fast needs {self.missing}" if self.missing else ""
        yield f"  {self.width} {'elements of a tile' if self.block_dim else 'threads'} to a vector; {runs}{why}"
        if self.lanes < self.width:
            yield f"  a vector has no more than {self.lanes} of them, as the last launch dimension is that short"
        yield from (f"  {version}" for version in self.versions)
        for line, size in self.taped.items():
            yield f"  line {line}: each trip keeps {size} bytes of a thread for the reverse sweep"
        if self.undone:
            yield f"  what is overwritten is kept for the reverse sweep: {', '.join(self.undone)}"
        yield from (f"  zeros in {name}: {_ZEROS[how]}" for name, how in self.zeros.items())
        widths = [max(map(len, column)) for column in zip(*((row.what, row.made) for row in self.rows), strict=True)]
        shown = ("", 0)
        for row in self.rows:
            if (row.file, row.line) != shown:
                shown = row.file, row.line
                place = f"{row.line:>6}" if row.file == self.file else f"{row.file}:{row.line}"
                yield f"{place} | {_shortened(row.source)}"
            yield f"         {row.what:<{widths[0]}}  {row.made:<{widths[1]}}  {row.safe}"


_ZEROS = {
    "stored": "none needed, every element is stored to",
    "by threads": "written by the threads that own them",
    "filled": "filled before the launch",
}


def explain_launch(
    kernel: CpuKernel,
    dims: tuple[int, ...],
    repeat: int,
    batch: tuple[int, ...],
    extents: Extents,
    zeros: Collection[int],
    scalars: Mapping[int, int],
) -> LaunchExplanation:
    """Explain a launch, after compiling what it needs.

    `zeros` are the parameters that start as zeros, `scalars` the integer parameters whose value is known.
    """
    program, symbols = kernel.kernel, kernel.proofs.symbols
    made = kernel.require(dims, extents)
    known = {
        **kernel.symbol_values(dims, extents),
        **{symbol.index: scalars[p] for p, symbol in symbols.scalars.items() if p in scalars},
    }
    may_run, width = kernel.needed(known), kernel.options.target.width
    missing = frozenset(clause for clause in kernel.condition if not evaluate(frozenset({clause}), known))
    return LaunchExplanation(
        program.name,
        short_file(program.span),
        program.span.line,
        (*dims[: program.tid_dims], *((repeat,) if repeat != 1 else ())),
        batch,
        width,
        width if program.block_dim else min(width, dims[program.tid_dims - 1]),
        condition_text(kernel.condition, program, symbols),
        condition_text(missing, program, symbols),
        may_run[0] if len(may_run) == 1 else None,
        tuple(Version(name, event.seconds, event.source, event.bytes) for name, event in made.items()),
        {program.params[p].name: _zeros(kernel, p, dims, repeat, batch, extents) for p in zeros},
        tuple(_rows(kernel, known, may_run[0])),
        variant=program.variant,
        taped=_taped(program),
        undone=tuple(dict.fromkeys(program.array(n.array).name for n in _ops(program) if n.row.adds_to_log)),
        block_dim=program.block_dim,
    )


def _ops(kernel: Kernel) -> list[Op]:
    return [n for n in walk_all(kernel) if isinstance(n, Op)]


def _taped(kernel: Kernel) -> dict[int, int]:
    """Bytes that an iteration of the loop in a line adds to a thread's tape; what all threads share is not counted."""
    sizes: dict[int, int] = {}
    for node in _ops(kernel):
        if node.row.adds_to_tape:
            pairs = zip(node.args, node.attr_as(RecordFields).uniform, strict=True)
            values = (x.type for x, is_uniform in pairs if not is_uniform)
            own = (t.bits // 8 * math.prod(shape_of(t)) for t in values)
            sizes[node.span.line] = sizes.get(node.span.line, 0) + sum(own)
    return sizes


def _rows(kernel: CpuKernel, known: Mapping[int, int | None], version: str) -> list[Access]:
    """The accesses of `version`, those that differ in nothing counted together."""
    assert version in VERSIONS
    proofs, generated = kernel.proofs, kernel.generate(version, kernel.options)
    counts: dict[Access, int] = {}
    for node in walk_all(proofs.kernel):
        if not isinstance(node, Op) or not node.row.is_access:
            continue
        array = proofs.kernel.array(node.array)
        if array.is_value if isinstance(array, Param) else array.shared:
            continue  # a component of a vector passed by value; memory of tiles
        condition = proofs.proven.get(node)
        words = ""
        holds: bool | None = False
        if not kernel.bounds:
            proof = "unchecked"
        elif condition is None:
            proof = "checked"
        else:
            words = condition_text(condition, proofs.kernel, proofs.symbols)
            proof, holds = ("launch", evaluate(condition, known)) if words else ("always", True)
        span = node.span
        source = linecache.getline(span.file, span.line).rstrip("\n")
        row = Access(
            short_file(span),
            span.line,
            span.col,
            source.strip(),
            source[span.col : span.end_col],
            array.name,
            node.name,
            proof,
            words,
            holds,
            kernel.bounds and node not in generated.trusted,
            generated.ways[node],
        )
        counts[row] = counts.get(row, 0) + 1
    # A function that is called may be in another file; its lines come after those of the kernel.
    own = short_file(proofs.kernel.span)
    rows = [replace(row, count=count) for row, count in counts.items()]
    return sorted(rows, key=lambda row: (row.file != own, row.file, row.line, row.column))


def _zeros(
    kernel: CpuKernel, param: int, dims: tuple[int, ...], repeat: int, batch: tuple[int, ...], extents: Extents
) -> str:
    """The source of an output's zeros, by the rules of `Geometry::choose_zero_fill`."""
    shape = extents[param] or ()
    if 0 in (*dims, *batch, repeat) or shape[: kernel.kernel.tid_dims] != dims[: kernel.kernel.tid_dims]:
        return "filled"
    match kernel.summary.covers[param]:
        case Cover.STORED:
            return "stored"
        case Cover.OWN if repeat == 1 and param < MAX_FILL_PARAMS:
            return "by threads"
    return "filled"


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SOURCE else text[: MAX_SOURCE - 2] + " …"
