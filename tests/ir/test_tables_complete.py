"""Every table keyed by the table of operations has a row for each operation, and no other."""

from jwarp.backend.cpu.emit import SPECIAL_RULES
from jwarp.backend.cpu.rules import LLVM_RULES
from jwarp.backend.cuda import emit as cuda
from jwarp.backend.cuda.rules import CUDA_RULES
from jwarp.backend.interpreter import machine
from jwarp.ir import tile_types
from jwarp.ir.evaluate import EVAL_RULES
from jwarp.ir.evaluate_tiles import TILE_RULES
from jwarp.ir.operation import Stage
from jwarp.ir.ops import ELEMENTARY, OPS
from jwarp.ir.verify import ATTR_RULES
from jwarp.lib.expansions import EXPANSIONS, PAIRED
from jwarp.types import float32, float64

# Pure operations whose result is a fact about the launch and not a function of their arguments.
LAUNCH_FACTS = {"tid", "param", "shape", "thread"}
TILE = {name for name, row in OPS.items() if row.is_tile and Stage.DERIVED in row.stages}
# What a whole kernel may have, between the frontend and the backends.
LASTING = {name for name, row in OPS.items() if row.stages & {Stage.DERIVED, Stage.LOWERED}}
UNITS = {name for name, row in OPS.items() if row.is_unit}
PURE = {name for name, row in OPS.items() if row.effect == "pure"}


def test_the_launch_facts_are_pure_operations_without_arguments():
    assert all(OPS[name].effect == "pure" and OPS[name].arity == 0 for name in LAUNCH_FACTS)


def test_evaluation_has_a_row_for_every_function():
    assert set(EVAL_RULES) == PURE - LAUNCH_FACTS


def test_the_interpreter_knows_everything_else():
    assert set(machine._STATE_RULES) == LASTING - set(EVAL_RULES) - TILE


def test_operations_on_tiles_have_a_meaning_and_a_type():
    assert set(TILE_RULES) == set(tile_types._RULES) == TILE


def test_attributes_are_checked_for_everything_else():
    assert set(ATTR_RULES) == LASTING - set(EVAL_RULES)


def test_the_emitter_knows_everything_else():
    assert set(SPECIAL_RULES) | UNITS == LASTING - set(EVAL_RULES) - TILE


def test_the_processor_has_a_row_for_every_function_that_the_library_lacks():
    assert set(LLVM_RULES) == set(EVAL_RULES) - ELEMENTARY
    assert set(EXPANSIONS) == {(name, type_) for name in ELEMENTARY for type_ in (float32, float64)}
    assert set(PAIRED) == {("sin", float32), ("cos", float32)}


def test_cuda_has_a_row_for_every_operation_that_the_library_lacks():
    assert set(EVAL_RULES) - ELEMENTARY <= set(CUDA_RULES) <= set(EVAL_RULES)
    assert set(cuda.SPECIAL_RULES) | UNITS == LASTING - set(EVAL_RULES) - TILE
