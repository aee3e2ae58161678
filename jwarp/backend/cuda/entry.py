"""Wraps a kernel's body in the loop over its threads, and in the entry that the runtime launches."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Container, Sequence

from jwarp.analysis.affine import ALWAYS, Affine, Condition, Symbol
from jwarp.analysis.ranges import Proofs
from jwarp.analysis.sums import sums_of
from jwarp.backend.cuda import narrow, staged
from jwarp.backend.cuda.accumulators import Accumulators, find_accumulators
from jwarp.backend.cuda.copies import find_copies
from jwarp.backend.cuda.emit import BodyEmitter
from jwarp.backend.cuda.names import array_names
from jwarp.backend.cuda.narrow import NarrowEmitter
from jwarp.backend.cuda.native import NATIVE_HEADER, definitions
from jwarp.backend.cuda.records import declarations, grows, texts_on_gpu
from jwarp.backend.cuda.rules import C_TYPES, memory_type
from jwarp.backend.cuda.shared import LEAST_ROOM, Shared, lay_out
from jwarp.backend.cuda.staged import Staged
from jwarp.backend.cuda.statements import DONE
from jwarp.backend.cuda.texts import constant_place
from jwarp.backend.cuda.tiles import TileEmitter
from jwarp.backend.cuda.version import Access, Version
from jwarp.backend.cuda.warpgroups import instructions
from jwarp.ir.nodes import For, Kernel, Node, Op, has_native_code, walk, written_params
from jwarp.types import ArrayType, bool_, float32, float64, int32, int64, uint32, uint64

HEADER = "jwarp.cuh"
TILE_HEADER = "tile.cuh"  # includes all that tiles may need
COPIES, ADDITIONS, REDUCTIONS = "tile_copy.cuh", "tile_add.cuh", "tile_reduce.cuh"
GROUP_HEADER = "tile_wgmma.cuh"  # of warpgroups
# Where the device library has the routines for whole tiles.
ROUTINES = {
    "tile_matmul": "tile_gemm.cuh", "tile_scan": REDUCTIONS, "tile_cholesky": "tile_solve.cuh",
    "tile_solve": "tile_solve.cuh",
}  # fmt: skip
OWN = "#line"  # from here on a line of the text is no line of the user's
# Sums of more elements than this cost more registers than they save atomics.
MAX_SUMS = 16
SUMMED = (float32, float64, int32, int64, uint32, uint64)


def generate(
    proofs: Proofs, name: str, version: Version, *, bounds: bool, block: int, failures: Sequence[str] = (),
    room: int = LEAST_ROOM,
) -> str:  # fmt: skip
    """The text of one version of the analysed kernel, whose entry is called `name`.

    Accesses are tested as the version says; none is without `bounds`. `failures` are the texts of checks, in the order
    in which the runtime numbers them, and `room` is how much shared memory a block can have.
    """
    access = version.access
    kinds = (_FlatBlocks, _Blocks) if proofs.kernel.block_dim else (_Flat, _Entry)
    if version.is_narrow:
        kinds = (_NarrowFlat, _Narrow)
    entry = kinds[not version.is_flat](proofs, name, bounds, block, failures, room)
    entry.per_thread, entry.tf32, entry.wgmma = frozenset(version.per_thread), version.tf32, version.wgmma
    entry.stage(access)
    if access != "either":
        bodies = [entry.body(access)]
    else:
        bodies = [entry.body("fast"), entry.body("checked", "checked_end")]
        holds = _condition(proofs.condition, entry)
        bodies = [[f"      if ({holds}) {{", *bodies[0], "      } else {", *bodies[1], "      }"]]
    includes = [f'#include "{header}"' for header in headers_of(proofs.kernel, entry.wgmma)]
    natives = definitions(proofs.kernel, OWN)
    if entry.wgmma:
        natives += instructions(proofs.kernel, accumulators_of(proofs, bounds, entry.tf32, entry.wgmma).by_groups)
    return "\n".join(_placed([*includes, *natives, "", *entry.wrapped(bodies[0]), ""], f"{name}.cu"))


def headers_of(kernel: Kernel, wgmma: bool = False) -> tuple[str, ...]:
    """The headers that the code of a lowered kernel includes: those of the routines that it calls."""
    called = {ROUTINES[n.name] for n in walk(kernel.body) if isinstance(n, Op) and n.name in ROUTINES}
    if called:
        called.add(COPIES)
    if wgmma:
        called.add(GROUP_HEADER)
    loops = [n for n in walk(kernel.body) if isinstance(n, For) and n.lanes is not None]
    if any(n.params for n in loops):
        called.add(REDUCTIONS)
    if any(isinstance(n, Op) and n.row.is_addition for loop in loops for n in loop.body.nodes):
        called.add(ADDITIONS)
    if has_native_code(kernel.body):
        called.add(NATIVE_HEADER)
    return (HEADER, *sorted(called))


def _placed(lines: list[str], file: str) -> list[str]:
    """The lines, with those that are not the user's counted as their own file's."""
    return [f'#line {number} "{file}"' if line == OWN else line for number, line in enumerate(lines, 2)]


def trusted_accesses(proofs: Proofs, access: Access, bounds: bool) -> frozenset[Node]:
    """The accesses that code with this treatment of them does not test."""
    if not bounds:
        return frozenset(walk(proofs.kernel.body))
    return frozenset(n for n, condition in proofs.proven.items() if condition == ALWAYS or access == "fast")


def accumulators_of(proofs: Proofs, bounds: bool, tf32: bool = False, wgmma: bool = False) -> Accumulators:
    """The tiles that stay in registers, in all versions of a kernel; with `wgmma`, some by warpgroups."""
    moved = find_copies(proofs.kernel, trusted_accesses(proofs, "fast", bounds)) if wgmma else None
    return find_accumulators(proofs.kernel, tf32, moved)


def shared_of(proofs: Proofs, bounds: bool, room: int = LEAST_ROOM, tf32: bool = False, wgmma: bool = False) -> Shared:
    """The shared memory of a kernel with tiles: one for all of its versions that have the same products."""
    kernel = proofs.kernel
    copies = find_copies(kernel, trusted_accesses(proofs, "fast", bounds))
    return lay_out(kernel, array_names(kernel), copies, accumulators_of(proofs, bounds, tf32, wgmma), room)


def sums_in_registers(kernel: Kernel) -> tuple[tuple, ...]:
    """The elements that every thread only adds to, as (array, *indices): each sums up before it adds."""
    if kernel.block_dim or kernel.order:
        return ()  # one thread adds
    only_added = sums_of(kernel)
    adds = [n for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_addition and n.array in only_added]
    places: dict[tuple, None] = {}
    for param in sorted(only_added):
        # A local array is the thread's own already, and indices count from the start here.
        own = [constant_place(n) for n in adds if n.array == param]
        from_start = all(own) and all(i >= 0 for place in own for i in place[1:])
        if from_start and kernel.local(param) is None and kernel.array(param).dtype in SUMMED:
            places |= dict.fromkeys(own)
    return tuple(places) if len(places) <= MAX_SUMS else ()


class _Entry:
    """The parts of one entry around its body, for any launch."""

    thread = "place.thread"  # the thread's number in its batch element
    item = "place.item"  # the number of its batch element, if there are several
    per_thread: frozenset[int] = frozenset()  # arrays that have an element for each thread of the launch
    tf32 = False  # whether factors of products may be rounded
    wgmma = False  # whether warpgroups make products
    staged = Staged()

    def __init__(self, proofs: Proofs, name: str, bounds: bool, block: int, failures: Sequence[str], room: int):
        self.failures, self.room = failures, room
        self.proofs, self.kernel, self.name, self.bounds, self.block = proofs, proofs.kernel, name, bounds, block
        self.sums = sums_in_registers(self.kernel)
        self.names = array_names(self.kernel)
        self.summed = sorted({place[0] for place in self.sums})
        self.total = {place: f"sum{k}" for k, place in enumerate(self.sums)}

    def stage(self, access: Access) -> None:
        """Choose what the threads of a warp load and store together."""

    def body(self, access: Access, end: str = "end") -> list[str]:
        """The code of a thread, with accesses treated so. `end` tells its labels from those of other bodies."""
        emitter = self.emitter(trusted_accesses(self.proofs, access, self.bounds))
        emitter.end = end
        emitter.depth = 3
        emitter.block(self.kernel.body)
        return emitter.lines

    def emitter(self, trusted: Container[Node]) -> BodyEmitter:
        return BodyEmitter(self.kernel, trusted, self.failures, self.sums, self.thread, self.item)

    def wrapped(self, body: Sequence[str]) -> list[str]:
        """The entry around the body: a loop over the threads of the launch, of which the grid makes as many steps."""
        counts = f"{self.proofs.symbols.count}, {len(self.kernel.params)}"
        step = "    "
        failing = [f"{step}{DONE}:;"] if texts_on_gpu(self.kernel) else []
        return [
            f'extern "C" __global__ void __launch_bounds__({self.block})',
            f"{self.name}(const __grid_constant__ jw_args<{counts}> args) {{",
            *(f"  {line}" for line in (*self.constants(), *self.for_all())),
            *self.steps(),
            *(f"{step}  {line}" for line in (*self.coordinates(), *self.for_each(), *self.own_memory())),
            *body,
            OWN,
            f"{step}}}",
            *failing,
            *(f"{step}{line}" for line in self.flushes_inside()),
            "  }",
            *(f"  {line}" for line in self.flushes_after()),
            "}",
        ]

    def steps(self) -> list[str]:
        """The head of the loop, and of the condition inside it under which there is a thread number `n`."""
        if self.kernel.order:
            return _in_order("(long long)blockIdx.x * blockDim.x + threadIdx.x", "(long long)gridDim.x * blockDim.x")
        return [
            "  const long long step = (long long)gridDim.x * blockDim.x;",
            "  // All threads of a warp take as many steps, so that they can add up together what they have.",
            "  for (long long first = (long long)blockIdx.x * blockDim.x; first < args.total; first += step) {",
            "    const long long n = first + threadIdx.x;",
            "    if (n < args.total) {",
        ]

    def for_all(self) -> list[str]:
        """The arguments that are the same for all threads."""
        return []

    def for_each(self) -> list[str]:
        """The arguments that each thread finds: those of its batch element."""
        if not self.kernel.params:
            return []
        own = "args.arrays[{p}] + shift[{p}]"
        found = [f"long long shift[{len(self.kernel.params)}];", "jw_shifts(args, place, shift);"]
        return [*found, *self.arguments(f"({{type}}*)({own})", f"jw_read((const {{type}}*)({own}))")]

    def flushes_inside(self) -> list[str]:
        return self.flushes("if (args.items != 1) {", "n < args.total")

    def flushes_after(self) -> list[str]:
        return self.flushes("if (args.items == 1) {")

    def constants(self) -> list[str]:
        """Declarations of what is uniform: extents, and the sums that each thread starts."""
        extents = self.proofs.symbols.extents
        # The extents of components are those of the type.
        lines = []
        for (p, axis), symbol in extents.items():
            known = axis if p in self.per_thread else symbol.index
            extent = _component_extent(self.kernel.params[p].type, axis) or f"(int)args.symbols[{known}]"
            lines.append(f"const int {self.names[p]}_n{axis} = {extent};")
        lines += [f"{C_TYPES[self.kernel.array(place[0]).dtype]} {name} = 0;" for place, name in self.total.items()]
        return [*lines, *(f"{self.element(p)}* {self.names[p]}_sum = nullptr;" for p in self.summed)]

    def coordinates(self) -> list[str]:
        """Declarations of the batch element and the coordinates of thread number `n`."""
        axes = self.kernel.tid_dims
        lines = ["jw_place place = jw_locate(args, n);"]
        for axis in range(axes - 1, 0, -1):
            lines.append(f"long long before{axis} = jw_split(place.at, args.symbols[{axis}]);")
            lines.append(f"const int i{axis} = (int)place.at;")
            lines.append(f"place.at = before{axis};")
        return [*lines, "const int i0 = (int)place.at;"]

    def element(self, p: int) -> str:
        return memory_type(self.kernel.params[p].dtype)

    def arguments(self, array: str, scalar: str) -> list[str]:
        """Declarations of the arrays and scalars, which are found as the texts say."""
        written = frozenset(written_params(self.kernel))
        lines = []
        for p, param in enumerate(self.kernel.params):
            type, name = self.element(p), self.names[p]
            if not isinstance(param.type, ArrayType):
                truth = " != 0" if param.type is bool_ else ""
                lines.append(f"const {C_TYPES[param.type]} {name} = {scalar.format(type=type, p=p)}{truth};")
                continue
            type = type if p in written else f"const {type}"
            lines.append(f"{type}* __restrict__ {name} = {array.format(type=type, p=p)};")
            if p in self.summed:
                lines.append(f"{name}_sum = {name};")
        return lines

    def own_memory(self) -> list[str]:
        """Local arrays, tapes and logs."""
        first = len(self.kernel.params)
        arrays = [
            f"{memory_type(local.dtype)} {self.names[first + k]}[{max(1, local.size)}];"
            for k, local in enumerate(self.kernel.locals)
            if not local.shared
        ]
        return [*arrays, *declarations(self.kernel)]

    def flushes(self, opening: str, having: str = "") -> list[str]:
        """Add the sums to their elements, a warp at a time."""
        if not self.sums:
            return []
        lines = [opening]
        for place, name in self.total.items():
            p, *indices = place
            array = self.names[p]
            offset = "0"
            for axis, index in enumerate(indices):
                offset = str(index) if axis == 0 else f"({offset}) * {array}_n{axis} + {index}"
            # Also where nothing else is tested: no thread need have added, and then there need be no element.
            tests = [f"{index} < {array}_n{axis}" for axis, index in enumerate(indices)]
            tests = [*([having] if having else []), f"{array}_sum", *tests]
            lines.append(f"  jw_flush({' && '.join(tests)} ? {array}_sum + {offset} : nullptr, {name});")
            lines.append(f"  {name} = 0;")
        return [*lines, "}"]


class _Flat(_Entry):
    """The entry for launches without a batch or repeated threads."""

    thread, item = "n", ""

    def coordinates(self) -> list[str]:
        axes = self.kernel.tid_dims
        if axes == 1:
            return ["const int i0 = (int)n;"]
        lines = ["long long at = n;"]
        for axis in range(axes - 1, 0, -1):
            lines.append(f"const long long before{axis} = jw_split(at, args.symbols[{axis}]);")
            lines.append(f"const int i{axis} = (int)at;")
            lines.append(f"at = before{axis};")
        return [*lines, "const int i0 = (int)at;"]

    def for_all(self) -> list[str]:
        return self.arguments("({type}*)args.arrays[{p}]", "jw_read((const {type}*)args.arrays[{p}])")

    def for_each(self) -> list[str]:
        return []

    def flushes_inside(self) -> list[str]:
        return []

    def flushes_after(self) -> list[str]:
        return self.flushes("{")


class _Narrow(_Entry):
    """The entry for launches that 32 bits are enough for."""

    thread, item = "at", "item"

    def emitter(self, trusted: Container[Node]) -> BodyEmitter:
        return NarrowEmitter(
            self.kernel, trusted, self.failures, self.sums, per_thread=self.per_thread, thread=self.thread,
            item=self.item, staged=self.staged,
        )  # fmt: skip

    def steps(self) -> list[str]:
        return narrow.loop(self.block, in_step=bool(self.sums) or grows(self.kernel))

    def coordinates(self) -> list[str]:
        return [*narrow.batch_element(), *narrow.split(self.kernel.tid_dims, "at")]


class _NarrowFlat(_Narrow, _Flat):
    """The same without a batch."""

    thread, item = "n", ""

    def stage(self, access: Access) -> None:
        if access == "fast" and not texts_on_gpu(self.kernel):
            self.staged = staged.staged_arrays(
                self.kernel, trusted_accesses(self.proofs, access, self.bounds), self.block
            )

    def for_all(self) -> list[str]:
        return [*super().for_all(), *staged.declaration(self.kernel, self.staged, self.block)]

    def steps(self) -> list[str]:
        *head, condition = super().steps()
        return [*head, *(f"    {line}" for line in staged.before(self.kernel, self.staged, self.names)), condition]

    def flushes_inside(self) -> list[str]:
        return [*super().flushes_inside(), *staged.after(self.kernel, self.staged, self.names)]

    def coordinates(self) -> list[str]:
        return narrow.split(self.kernel.tid_dims, "n")


class _Blocks(_Entry):
    """The entry of a kernel with tiles: what is a thread to launches is a block of CUDA's."""

    def emitter(self, trusted: Container[Node]) -> BodyEmitter:
        copies = find_copies(self.kernel, trusted)
        if self.shared.stages == 1:
            copies = dataclasses.replace(copies, pipelines={})
        accumulators = accumulators_of(self.proofs, self.bounds, self.tf32, self.wgmma)
        return TileEmitter(self.kernel, trusted, self.failures, self.thread, copies, accumulators, self.shared)

    def steps(self) -> list[str]:
        if self.kernel.order:
            return _in_order("blockIdx.x", "gridDim.x")
        return ["  for (long long n = blockIdx.x; n < args.total; n += gridDim.x) {", "    {"]

    @functools.cached_property
    def shared(self) -> Shared:
        return shared_of(self.proofs, self.bounds, self.room, self.tf32, self.wgmma)

    def wrapped(self, body: Sequence[str]) -> list[str]:
        counts = f"{self.proofs.symbols.count}, {len(self.kernel.params)}"
        step, shared = "    ", self.shared
        return [
            f'extern "C" __global__ void __launch_bounds__({self.kernel.block_dim})',
            f"{self.name}(const __grid_constant__ jw_args<{counts}> args) {{",
            *(f"  {line}" for line in (*shared.declarations(), *self.constants(), *self.for_all())),
            *self.steps(),
            *(f"{step}  {line}" for line in (*self.coordinates(), *self.for_each(), *self.own_memory())),
            *body,
            OWN,
            f"{step}}}",
            *([f"{step}{DONE}:;"] if texts_on_gpu(self.kernel) else []),
            *(
                [f"{step}__syncthreads();  // until all are done with what the next one overwrites"]
                if shared.size or self.kernel.order
                else []
            ),
            "  }",
            "}",
        ]


class _FlatBlocks(_Blocks, _Flat):
    """The entry of a kernel with tiles for launches without a batch or repeated blocks."""


def _component_extent(type: object, axis: int) -> int:
    """The extent of an axis of components; 0 for an axis of the array."""
    return type.components[axis - type.dims] if isinstance(type, ArrayType) and axis >= type.dims else 0


def _in_order(first: str, step: str) -> list[str]:
    """The head of a loop in which one thread, or block, runs all threads of a batch element in their order."""
    return [
        f"  for (long long item = {first}; item < args.items; item += {step})",
        "  for (long long turn = 0; turn < args.total / args.items; ++turn) {",
        "    const long long lap = turn / args.threads;",
        "    const long long n = (lap * args.items + item) * args.threads + (turn - lap * args.threads);",
        "    {",
    ]


def _condition(condition: Condition, entry: _Entry) -> str:
    """True if the launch fulfils what the fast version relies on.

    The launcher reckons limits of integer arguments, within which that is so. Outside of them it may be so, too, where
    a clause asks for one of several arguments, or for a sum of them: 128 bits, which nothing overflows, decide that.
    """
    symbols = entry.proofs.symbols
    scalars = {symbol.index: p for p, symbol in symbols.scalars.items()}

    def asked(affine: Affine) -> list[int]:
        return [atom.index for atom, _ in affine.terms if isinstance(atom, Symbol) and atom.index in scalars]

    def form(affine: Affine) -> str:
        terms = [str(affine.constant)]
        for symbol, c in affine.terms:
            assert isinstance(symbol, Symbol)
            p = scalars.get(symbol.index)
            value = f"args.symbols[{symbol.index}]" if p is None else entry.names[p]
            terms.append(f"(__int128){c}ll * {value}")
        return f"{' + '.join(terms)} >= 0"

    limited, is_exact = set(), True
    for clause in condition:
        forms = [asked(affine) for affine in clause if asked(affine)]
        alone = [of[0] for of in forms if len(of) == 1]
        limited |= {min(alone)} if alone else set()
        is_exact &= len(forms) == len(alone) <= 1
    within = [f"jw_within({entry.names[scalars[k]]}, args.symbols[{k}])" for k in sorted(limited)]
    clauses = [" || ".join(sorted(map(form, clause))) for clause in condition]
    decided = " && ".join(f"({clause})" for clause in sorted(clauses)) or "true"
    if not within:
        return decided
    return " && ".join(within) if is_exact else f"({' && '.join(within)}) || ({decided})"
