"""Reads of an array that all come before another one is changed, also from one iteration of a loop to the next."""

import pytest
from textual_ir import read

from jwarp.analysis.read_first import reads_first

pytestmark = pytest.mark.quick

READ, CHANGE = "%{k}: float32 = load x[0]", "store y[0], 1.0"
LOOP, WHILE = "for %9: int32 = 0 .. 3 step 1 {{\n{}\n}}", "while {{\n{}\nyield False\n}} do {{\n{}\n}}"


def load(k):
    return READ.format(k=k)


@pytest.mark.parametrize(
    ("body", "first"),
    [
        (f"{load(0)}\n{CHANGE}", True),
        (f"{CHANGE}\n{load(0)}", False),
        (f"if True {{\n{CHANGE}\n}}\n{load(0)}", False),
        (f"if True {{\n{CHANGE}\n}} else {{\n{load(0)}\n}}", True),
        (LOOP.format(f"{load(0)}\n{CHANGE}"), False),
        (f"{LOOP.format(load(0))}\n{CHANGE}", True),
        (f"{LOOP.format(CHANGE)}\n{load(0)}", False),
        (WHILE.format(load(0), CHANGE), False),
        (WHILE.format(CHANGE, load(0)), False),
        (WHILE.format(load(0), load(1)) + f"\n{CHANGE}", True),
        ("%0: float32 = atomic_add y[0], 1.0", True),
    ],
)
def test_order_of_a_thread(body, first):
    assert reads_first(read(f"kernel k(x: array[float32], y: array[float32]), tid 1\n{body}"), 0, 1) is first


def test_an_atomic_operation_reads_what_it_changes():
    kernel = read("kernel k(x: array[int32]), tid 1\natomic_add x[0], 1\natomic_add x[1], 1")
    assert not reads_first(kernel, 0, 0)
    assert reads_first(read("kernel k(x: array[int32]), tid 1\natomic_add x[0], 1"), 0, 0)
