"""The passes, in order: from the kernel as it was read to the one that code is generated from, for each target.

as read → PROGRAM → the kernel of a launch → a list for its form, or none → CPU, CUDA or INTERPRETER → code
as read → INLINED → ANALYSED → DIFFERENTIATED → forward or reverse mode → DERIVED → the kernel of its launch → …
"""

from __future__ import annotations

from jwarp.analysis.lane_serialised import in_turn, lane_serialised_loops
from jwarp.autodiff.custom_gradients import plain
from jwarp.backend.cpu.loops.lockstep import with_loops_in_lockstep
from jwarp.backend.cpu.loops.prefetch import with_prefetches
from jwarp.backend.cpu.loops.tails import with_serial_tails
from jwarp.backend.cpu.loops.unrolled import with_unrolled_runs
from jwarp.backend.cuda.rules import CUDA_RULES
from jwarp.backend.cuda.tiles import UNIT_RULES
from jwarp.backend.library import Expanded, expansion
from jwarp.compiler.order import by_settings, by_settings_on_gpu
from jwarp.compiler.passes import Context, Form, Pass, step
from jwarp.ir.functions import inlined, settled_functions, without_reading_functions
from jwarp.ir.nodes import Kernel, Op, is_plain, rounds_as_written
from jwarp.passes.batch_to_threads import batch_to_threads
from jwarp.passes.expand import expand
from jwarp.passes.hoist import hoist, hoist_factors
from jwarp.passes.instrument import instrument, without_checks
from jwarp.passes.loop_sums import carried_sums
from jwarp.passes.merge import merge_arrays
from jwarp.passes.native_code import settled
from jwarp.passes.own_atomics import plain_atomics
from jwarp.passes.private_elements import replaced_elements
from jwarp.passes.reciprocal_roots import by_reciprocal_roots
from jwarp.passes.rotate_axes import rotated, split
from jwarp.passes.simplify import is_cheap, simplify
from jwarp.passes.widen import widened
from jwarp.passes.zero_skips import without_zero_skips
from jwarp.tiling.blocks_as_threads import as_threads
from jwarp.tiling.to_scalars import lower_tiles

RULES, CALLS, SIMPLE = {Form.WITHOUT_RULES}, {Form.WITHOUT_CALLS}, {Form.SIMPLE}
TARGET, SCALARS, NATIVE, LANES = {Form.FOR_TARGET}, {Form.WITHOUT_TILES}, {Form.NATIVE}, {Form.LANES_SETTLED}


def has_tiles(kernel: Kernel, context: Context) -> bool:
    return bool(kernel.block_dim)


def is_fast(kernel: Kernel, context: Context) -> bool:
    """True if quotients and roots may be rounded otherwise than as written."""
    return context.settings.fast_math and not rounds_as_written(kernel)


def _of_cuda(node: Op, is_paired: bool) -> Expanded:
    """The library's form of an operation that CUDA has no function for."""
    return None if node.name in CUDA_RULES else expansion(node, is_paired)


def _deterministic(kernel: Kernel, context: Context) -> bool:
    return bool(context.settings.deterministic)


def _checked(kernel: Kernel, context: Context) -> bool:
    return context.checks_bounds or context.checks_values


# fmt: off
READING = Pass("inline functions that read arrays", step(without_reading_functions))
PLAIN = Pass("drop derivative rules", step(plain), gives=RULES, when=lambda k, c: not is_plain(k))
ORDER = Pass("order threads", lambda k, c: by_settings(k, c.settings), when=_deterministic)
CHECKS = Pass("add checks", lambda k, c: instrument(k, bounds=c.checks_bounds, values=c.checks_values), needs=RULES,
              when=_checked)
HOIST = Pass("hoist", lambda k, c: hoist(k, guarded=not c.is_tested), needs=NATIVE | LANES, loses=SIMPLE)

# The kernel that launches run; and where arguments are one array, the kernel that was merged, and what launches run.
PROGRAM = (Pass(READING.name, READING.run, when=_checked), PLAIN, CHECKS, ORDER)
MERGED = (Pass("merge arrays", lambda k, c: merge_arrays(k, dict(c.merged)), needs=CALLS, loses=SIMPLE),)
LAUNCHED = (PLAIN, CHECKS)

# The kernel that derivatives are of, and theirs.
INLINED = (Pass("inline functions", step(inlined), gives=CALLS),)
ANALYSED = (Pass("simplify", step(simplify), needs=CALLS, gives=SIMPLE),)
DIFFERENTIATED = (
    Pass("make private atomics plain", step(plain_atomics), needs=CALLS | SIMPLE, loses=SIMPLE),
    Pass("drop zero skips", step(without_zero_skips), needs=CALLS, loses=SIMPLE),
    Pass("widen decompositions", lambda k, c: widened(k, c.order), needs=CALLS),
)
DERIVED = (PLAIN, ORDER, CHECKS)
DERIVED_ON_GPU = (Pass("drop checks", step(without_checks), when=lambda k, c: not c.checks_bounds),)

# The kernel that is asked along which axes XLA may cut a launch.
PARTITIONED = (READING, Pass("simplify", step(simplify), gives=SIMPLE))

# Forms of the kernel that some launches run instead: a batch as threads, vectors along another dimension, and on GPUs.
BATCH_TO_THREADS = (Pass("batch to threads", lambda k, c: batch_to_threads(k, c.batched), RULES),
                    Pass("simplify", step(simplify), gives=SIMPLE))
INLINED_READING = (READING,)
SPLIT = (READING, Pass("split the first dimension", lambda k, c: split(k, c.width)))
ROTATED = (READING, Pass("rotate dimensions", step(rotated)))
BLOCKS_AS_THREADS = (READING, Pass("blocks as threads", step(as_threads), RULES, gives=SCALARS))
ON_GPU = (Pass("order threads on a GPU", lambda k, c: by_settings_on_gpu(k, c.settings)),)
PRIVATE_ELEMENTS = (Pass("replace private elements", lambda k, c: replaced_elements(k, c.fresh), RULES, loses=SIMPLE),)

CPU = (
    Pass("simplify", step(simplify), needs=RULES, gives=SIMPLE),
    # Some functions are called by what is for derivatives only, which is not there any more.
    Pass("inline small functions", step(settled_functions), needs=SIMPLE, loses=SIMPLE),
    Pass("replace native code", step(settled, on_gpu=False), gives=TARGET),
    Pass("lower tiles", step(lower_tiles, tables=True), needs=RULES, gives=SCALARS, loses=SIMPLE, when=has_tiles),
    Pass("simplify loops of tiles", step(simplify), gives=SIMPLE, when=has_tiles),
    Pass("expand operations", step(expand, expansion=expansion), needs=SCALARS, gives=NATIVE, loses=SIMPLE),
    Pass("flatten branches", step(simplify, flatten=is_cheap), needs=NATIVE, gives=SIMPLE),
    Pass("let the last lanes run alone", step(with_serial_tails), needs=SIMPLE),
    Pass("serialise lanes", lambda k, c: in_turn(k, lane_serialised_loops(k)), needs=SCALARS, gives=LANES),
    Pass("loops in lockstep", step(with_loops_in_lockstep), needs=SIMPLE | LANES),
    Pass("unroll loads along rows", step(with_unrolled_runs), needs=SIMPLE | LANES),
    Pass("prefetch", step(with_prefetches), needs=SIMPLE | LANES),
    HOIST,
)

CUDA = (
    Pass("inline functions", step(inlined), needs=RULES, gives=CALLS),
    Pass("simplify", step(simplify), gives=SIMPLE),
    Pass("choose native code", step(settled, on_gpu=True), gives=TARGET),
    Pass("serialise lanes", step(in_turn), needs=CALLS, gives=LANES),
    Pass("promote reductions", step(carried_sums), needs=CALLS | SIMPLE, loses=SIMPLE),
    Pass("hoist factors of products", step(hoist_factors), needs=CALLS, when=has_tiles),
    Pass("lower tiles", step(lower_tiles, routines=UNIT_RULES, flat=True), needs=RULES | CALLS, gives=SCALARS,
         loses=SIMPLE, when=has_tiles),
    Pass("expand operations", step(expand, expansion=_of_cuda), needs=SCALARS, gives=NATIVE, loses=SIMPLE),
    Pass("divide by reciprocal roots", step(by_reciprocal_roots), needs=NATIVE, loses=SIMPLE, when=is_fast),
    Pass("flatten branches", step(simplify, flatten=is_cheap), needs=NATIVE, gives=SIMPLE),
    HOIST,
)

# It runs every kernel as it stands: what passes do is compared with that.
INTERPRETER: tuple[Pass, ...] = ()
# fmt: on

TARGETS = {"cpu": CPU, "cuda": CUDA, "interpreter": INTERPRETER}
# The forms that code is generated from.
CODE = {"cpu": RULES | TARGET | SCALARS | NATIVE | LANES, "cuda": RULES | CALLS | TARGET | SCALARS | NATIVE | LANES}
