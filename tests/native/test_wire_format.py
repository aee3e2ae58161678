"""Launches, plans and structs are the same to Python and to the native module."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from launch_format import (
    ARRAY,
    BATCH_AXES,
    F32,
    IN_OUT,
    INPUT,
    OWN,
    S32,
    SCALAR,
    SITE_BITS,
    WORDS,
    make_launch,
    make_plan,
)
from native_kernels import new_fingerprint, python_entry, register

import jwarp
from jwarp import _native, wire
from jwarp.compiler.analysed import COLUMN_GROUP
from jwarp.native_interface import INTERFACE, check_interface
from jwarp.types import MAX_DIMS, SCALARS

pytestmark = pytest.mark.quick


def named(numbers: Iterable[wire.Role | wire.Cover | wire.Step]) -> dict[str, int]:
    return {number.name.lower(): int(number) for number in numbers}


def laid_out(struct: tuple[tuple[str, str], ...]) -> dict[str, int]:
    return {**wire.offsets(struct), "bytes": 8 * len(struct)}


# The versions of the interface, by what they were made of. Another text has another version: change `INTERFACE` in
# jwarp/native_interface.py, which asks all who have an older native module to build it again, and the line here.
INTERFACES = {1: "0a21c711efc6fe86"}


def test_another_interface_has_another_version() -> None:
    root = Path(__file__).parents[2]
    declared = (root / "jwarp/_native.pyi").read_text()
    classes = (root / "cuda/runtime/python/layout_key.cc").read_text().partition("void set_call_classes(")[2]
    texts = [declared, classes.partition("\n}\n")[0], repr(_native.wire_format())]
    assert hashlib.sha256("".join(texts).encode()).hexdigest()[:16] == INTERFACES[INTERFACE]


@pytest.mark.parametrize(("version", "shown"), [(None, "an older version"), (0, "version 0")])
def test_a_native_module_of_another_version_is_refused(monkeypatch, version, shown) -> None:
    check_interface()
    if version is None:
        monkeypatch.delattr(_native, "interface")
    else:
        monkeypatch.setattr(_native, "interface", version)
    with pytest.raises(ImportError, match=rf"{shown} of the interface.*(?s:.)*build it again: python -m pip install"):
        check_interface()


def test_a_missing_native_module_is_named(monkeypatch) -> None:
    monkeypatch.delattr(jwarp, "_native")
    monkeypatch.setitem(sys.modules, "jwarp._native", None)
    with pytest.raises(ImportError, match=r"native module cannot be imported(?s:.)*python -m pip install"):
        check_interface()


def test_numbers_are_those_of_the_native_module() -> None:
    head, tape = 8 * len(wire.TAPES), 8 * len(wire.TAPE)
    assert _native.wire_format() == {
        "formats": {"launch": wire.LAUNCH_FORMAT, "plan": wire.PLAN_FORMAT},
        "limits": {
            "dims": MAX_DIMS,
            "column_group": COLUMN_GROUP,
            "tapes": 1 + wire.MAX_LOGS,
            "site_bits": SITE_BITS,
            "gpu_batch_axes": BATCH_AXES,
        },
        "roles": named(wire.Role),
        "covers": named(wire.Cover),
        "steps": named(wire.Step),
        "dtypes": wire.DTYPES,
        "frame": laid_out(wire.FRAME),
        "tape": laid_out(wire.TAPE),
        "tapes": {**wire.offsets(wire.TAPES), "tapes": head, "bytes": head + tape * (1 + wire.MAX_LOGS)},
        "words": WORDS,
    }


def test_every_dtype_has_a_code() -> None:
    assert set(SCALARS) == set(wire.DTYPES)


FORMULA = [(wire.Step.VARIABLE, 0), (wire.Step.CONSTANT, 2), (wire.Step.ADD,)]
LAUNCH = {
    "dims": (-1, 3, 1, 1),
    "bindings": [wire.Binding(0, -1, INPUT, 1), wire.Binding(1, 0, IN_OUT, 3)],
    "batch": (4, 5),
    "repeat": 1,
    "variables": 1,
    "formulas": [FORMULA],
}
PLAN = {
    "tid_dims": 2,
    "parameters": [wire.Parameter(False, 0, F32, 0, False), wire.Parameter(True, 2, F32, OWN, True, 16)],
    "clauses": [[wire.Alternative([(0, 2), (5, -1)], 3), wire.Alternative([], 0)], [wire.Alternative([(1, 1)], 0)]],
    "weight": 7,
    "column_group": 64,
    "ordered": True,
}
KERNEL = register(make_plan(2, [(SCALAR, 0, F32, 0), (ARRAY, 2, F32, OWN)]), lambda frame: None)


def decode_launch(numbers: np.ndarray) -> None:
    _native.HostLaunch(KERNEL, b"", numbers, [0, 1], [1])


def decode_plan(numbers: np.ndarray) -> None:
    _native.register_kernel(new_fingerprint(), numbers, python_entry(lambda frame: None), 0)


@pytest.mark.parametrize(
    ("decode", "fields"),
    [(decode_launch, [*wire.launch_fields(**LAUNCH)]), (decode_plan, [*wire.plan_fields(**PLAN)])],
    ids=["launch", "plan"],
)
def test_fields_come_in_the_same_order(decode: Callable[[np.ndarray], None], fields: list[wire.Field]) -> None:
    """Cut off before a field, the numbers are refused for want of it, or for a count of more than is left."""
    names = [name for name, _ in fields]
    numbers = np.array([number for _, number in fields], np.int64)
    decode(numbers)
    wanted = set()
    for end in range(len(numbers)):
        with pytest.raises(ValueError, match="is damaged") as refused:
            decode(numbers[:end])
        text = str(refused.value)
        missing = re.search(r"it ends before (.*)$", text)
        if missing is not None:
            assert missing[1] == names[end]
            wanted.add(missing[1])
            continue
        count = re.search(r"damaged: (the number of .*) is \d+, not between", text)
        assert count is not None, text
        assert count[1] in names[:end]
    assert len(wanted) > len(set(names)) // 2


@pytest.mark.parametrize(
    ("decode", "fields"),
    [(decode_launch, [*wire.launch_fields(**LAUNCH)]), (decode_plan, [*wire.plan_fields(**PLAN)])],
    ids=["launch", "plan"],
)
def test_a_damaged_field_is_named(decode: Callable[[np.ndarray], None], fields: list[wire.Field]) -> None:
    numbers = np.array([number for _, number in fields], np.int64)
    unlimited = {"a constant", "a coefficient"}  # and the kind of a step decides what follows it
    for k, (name, _) in enumerate(fields):
        if name in unlimited:
            continue
        damaged = numbers.copy()
        damaged[k] = -(2**62)
        with pytest.raises(ValueError) as refused:
            decode(damaged)
        said = str(refused.value)
        assert name in said or (name == "the format" and "has format" in said) or "no dtype with code" in said


def test_a_scalar_without_a_coefficient_is_refused() -> None:
    """GPUs' limits of it are quotients."""
    scalar = wire.Parameter(False, 0, S32, 0, False)
    for coefficient in (1, 0):
        clauses = [[wire.Alternative([(MAX_DIMS, coefficient)], 0)]]
        numbers = wire.encode_plan(**PLAN | {"parameters": [scalar], "clauses": clauses})
        if coefficient == 0:
            with pytest.raises(ValueError, match="the coefficient of a scalar is 0"):
                decode_plan(numbers)
        else:
            decode_plan(numbers)


def test_encoders_are_the_fields() -> None:
    np.testing.assert_array_equal(wire.encode_launch(**LAUNCH), [n for _, n in wire.launch_fields(**LAUNCH)])
    np.testing.assert_array_equal(wire.encode_plan(**PLAN), [n for _, n in wire.plan_fields(**PLAN)])
    np.testing.assert_array_equal(make_launch((-1, 3), LAUNCH["bindings"], (4, 5), 1, 1, [FORMULA]),
                                  wire.encode_launch(**LAUNCH))  # fmt: skip


def test_texts_keep_their_places() -> None:
    """A zero character in one does not part it."""
    texts = ["a", "b\0c", "", "d"]
    joined = wire.join_texts(texts)
    assert joined.split("\0") == ["a", "b\\0c", "", "d"]
