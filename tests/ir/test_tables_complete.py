"""Every table keyed by the table of operations has a row for each operation, and no other."""

import dataclasses
import typing

import pytest

from jwarp.autodiff import tile_rules
from jwarp.backend.cpu.emit import SPECIAL_RULES
from jwarp.backend.cpu.rules import LLVM_RULES
from jwarp.backend.cuda import emit as cuda
from jwarp.backend.cuda.rules import CUDA_RULES
from jwarp.backend.interpreter import machine
from jwarp.ir import tile_types
from jwarp.ir.attributes import (
    ArrayNumber,
    Detached,
    TapeNumber,
    checker,
    decode,
    encode,
    fields_of,
    numbers_in,
    role_of,
    with_numbers,
)
from jwarp.ir.evaluate import EVAL_RULES
from jwarp.ir.evaluate_tiles import TILE_RULES
from jwarp.ir.ops import ELEMENTARY, OPS
from jwarp.ir.row_groups import Memory, Stage
from jwarp.ir.verify_operations import ATTR_RULES
from jwarp.lib.expansions import EXPANSIONS, PAIRED
from jwarp.passes.expand import COMPOSED
from jwarp.tiling import schedule
from jwarp.tiling.whole import WHOLE
from jwarp.types import float32, float64

pytestmark = pytest.mark.quick

# Pure operations whose result is a fact about the launch and not a function of their arguments.
LAUNCH_FACTS = {"tid", "param", "shape", "thread", "on_gpu"}
TILE = {name for name, row in OPS.items() if row.is_tile and Stage.DERIVED in row.stages}
# What a whole kernel may have, between the frontend and the backends.
LASTING = {name for name, row in OPS.items() if row.stages & {Stage.DERIVED, Stage.LOWERED}}
UNITS = {name for name, row in OPS.items() if row.code.is_unit}
PURE = {name for name, row in OPS.items() if row.effect == "pure"}

KINDS = sorted(
    {row.attribute for row in OPS.values() if fields_of(row.attribute)} | {Detached}, key=lambda k: k.__name__
)


def example(kind):
    """An attribute of this kind, all of whose numbers differ."""
    numbers = iter(range(3, 30))

    def made(kind):
        if parts := fields_of(kind):
            return kind(*(made(part) for _, part in parts))
        kind = getattr(kind, "__origin__", kind) if role_of(kind) else kind
        if typing.get_origin(kind) is tuple:
            return (made(typing.get_args(kind)[0]), made(typing.get_args(kind)[0]))
        return {int: next(numbers), bool: True, str: "add"}[kind]

    return made(kind)


def test_the_launch_facts_are_pure_operations_without_arguments():
    assert all(OPS[name].effect == "pure" and OPS[name].arity == 0 for name in LAUNCH_FACTS)


def test_evaluation_has_a_row_for_every_function():
    assert set(EVAL_RULES) == PURE - LAUNCH_FACTS


def test_the_interpreter_knows_everything_else():
    assert set(machine._STATE_RULES) == LASTING - set(EVAL_RULES) - TILE


def test_operations_on_tiles_have_a_meaning_and_a_type():
    assert set(TILE_RULES) == set(tile_types._RULES) == TILE


def test_operations_on_tiles_become_loops():
    without_code = {"fill", "iota", "view", "arg"}  # `forms` says what their elements are, `canonical` what they become
    assert set(WHOLE) | set(schedule._RULES) | without_code >= TILE


def test_operations_on_tiles_have_derivatives():
    assert set(tile_rules._TILE_RULES) == TILE


def test_attributes_are_checked_for_everything_else():
    written = {name for name, row in OPS.items() if Stage.WRITTEN in row.stages}
    assert set(ATTR_RULES) == (LASTING | written) - set(EVAL_RULES)


def test_the_emitter_knows_everything_else():
    assert set(SPECIAL_RULES) | UNITS == LASTING - set(EVAL_RULES) - TILE


def test_the_processor_has_a_row_for_every_function_that_the_library_lacks():
    assert set(LLVM_RULES) == set(EVAL_RULES) - ELEMENTARY - set(COMPOSED)
    assert set(EXPANSIONS) == {(name, type_) for name in ELEMENTARY for type_ in (float32, float64)}
    assert set(PAIRED) == {("sin", float32), ("cos", float32)}


def test_cuda_has_a_row_for_every_operation_that_the_library_lacks():
    assert set(EVAL_RULES) - ELEMENTARY - set(COMPOSED) <= set(CUDA_RULES) <= set(EVAL_RULES) - set(COMPOSED)


def test_composed_operations_become_others():
    assert set(COMPOSED) == {name for name, row in OPS.items() if row.code.is_composed}
    assert set(cuda.SPECIAL_RULES) | UNITS == LASTING - set(EVAL_RULES) - TILE


def test_what_an_operation_does_to_memory_fits_its_effect():
    for row in OPS.values():
        changes = row.uses.writes | row.uses.adds | row.uses.takes
        if row.effect == "write":
            assert changes, row.name
        elif row.effect == "pure" or row.effect == "read":
            assert not changes, row.name
        if row.effect == "pure":
            assert not row.uses.reads & ~Memory.EXTENTS, row.name
        if row.uses.reads & Memory.ELEMENTS or row.uses.writes & Memory.ELEMENTS or row.uses_log:
            assert row.attribute is ArrayNumber or row.code.is_unit or row.is_native, row.name
        if row.uses_tape:
            kinds = [kind for _, kind in fields_of(row.attribute)] or [row.attribute]
            assert TapeNumber in kinds, row.name


def test_every_operation_has_a_stage_and_a_meaning():
    assert all(row.stages and row.doc for row in OPS.values())
    assert {stage for row in OPS.values() for stage in row.stages} == set(Stage)


def test_indices_are_those_of_arrays_and_tiles():
    for row in OPS.values():
        assert (row.indices is None) or row.attribute is ArrayNumber or row.is_tile, row.name
        assert not row.is_write or row.indices is not None, row.name
    assert {name for name, row in OPS.items() if row.is_write} == {
        "store", *(name for name in OPS if name.startswith("atomic_"))
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_attributes_are_frozen_and_come_back_from_data(kind):
    assert kind.__dataclass_params__.frozen and "__slots__" in kind.__dict__
    made = example(kind)
    assert checker(kind)(made) and decode(encode(made), kind) == made
    assert not checker(kind)(None) and not checker(kind)(encode(made))
    for name, _ in fields_of(kind):
        assert not checker(kind)(dataclasses.replace(made, **{name: 1.5}))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_arrays_in_attributes_are_renumbered(kind):
    made = example(kind)
    arrays = [number for role, number in numbers_in(made, kind) if role.what == "array"]
    moved = with_numbers(made, kind, lambda number: number + 7)
    assert [number for role, number in numbers_in(moved, kind) if role.what == "array"] == [n + 7 for n in arrays]
    assert with_numbers(moved, kind, lambda number: number - 7) == made
