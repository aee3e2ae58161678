"""Kernels that count, taken apart: a slice, a scan over its events, and the kernel with given values, against threads
in order.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from textual_ir import assert_same_bits, expect, read

from jwarp.analysis.thread_order import counters
from jwarp.backend.interpreter.machine import run
from jwarp.bind.counting import found_values
from jwarp.ir.nodes import Order
from jwarp.ir.verify import verify
from jwarp.passes.given_counts import taken_apart

pytestmark = pytest.mark.quick

HEAD = "kernel k(c: array[int32], a: array[int32], t: array[int32], x: array[float32], o: array[int32]), tid 1\n"
FIRST = "%0: int32 = tid 0\n"


def made(body):
    return taken_apart(read(HEAD + FIRST + body))


def test_one_operation_is_a_load_of_what_was_found():
    found = made("%1: int32 = atomic_add c[0], 2\nstore x[%1], 1.0")
    expect(
        found.slice,
        """
        kernel k(c: array[int32], element_c: array[int32], value_c: array[int32]), tid 1, variant "counts"
          %0: int32 = tid 0
          %1: bool = inside c[0]
          %2: int32 = select %1, 1, 0
          store element_c[%0], %2
          store value_c[%0], 2
        """,
    )
    expect(found.given, HEAD.replace("o: array[int32]", "o: array[int32], found_c: array[int32]") + """
          %0: int32 = tid 0
          %1: int32 = load found_c[%0]
          store x[%1], 1.0
        """.replace("          ", "  "))  # fmt: skip
    assert found.kept == (0,) and found.counters[0].is_one


def test_a_loop_counts_on_from_what_its_first_operation_found():
    found = made(
        "%1: int32 = load t[%0]\nfor %2: int32 = 0 .. %1 step 1 {\n"
        "%3: int32 = atomic_add c[0], 1\nstore x[%3], 1.0\n}"
    )  # fmt: skip
    (event,) = found.counters[0].events
    assert event.loop is not None and found.kept == (0, 2)
    body = "  %0: int32 = tid 0\n  %1: int32 = load t[%0]\n  %2: int32 = load found_c[%0]\n"
    body += "  for %3: int32 = 0 .. %1 step 1 carry (%4: int32 = %2) {\n    %5: int32 = add %4, 1\n"
    body += "    %6: bool = inside c[0]\n    %7: int32 = select %6, %4, 0\n    %8: int32 = given c[0], %7\n"
    body += "    store x[%8], 1.0\n    yield %5\n  } -> %9: int32\n"
    expect(found.given, HEAD.replace("o: array[int32]", "o: array[int32], found_c: array[int32]") + body)


@pytest.mark.parametrize(
    "body",
    [
        "%1: int32 = atomic_add c[0], 1\natomic_add c[%1], 1",  # where depends on what was found
        "%1: int32 = atomic_add c[0], 1\n%2: int32 = atomic_add c[0], %1\nstore o[%0], %2",
        "%1: int32 = atomic_add c[0], 1\n%2: bool = lt %1, 3\n"
        "if %2 {\n%3: int32 = atomic_add c[1], 1\nstore o[%0], %3\n}",
        "%1: int32 = atomic_add c[0], 1\n%2: int32 = load c[0]\nstore o[%0], %2\nstore x[%1], 1.0",  # loaded, too
        "%1: int32 = atomic_add c[0], 1\n%2: int32 = atomic_max c[0], 1\nstore o[%1], %2",
        "%1: int32 = atomic_cas c[0], %0, 1\nstore o[%0], %1",
        "for %1: int32 = 0 .. 3 step 1 {\n%2: int32 = atomic_add c[%1], 1\nstore x[%2], 1.0\n}",  # of several elements
        # Whether a thread counts depends on what another one stored.
        "%1: int32 = load o[0]\nstore o[%0], 1\n%2: int32 = atomic_add c[0], %1\nstore x[%2], 1.0",
        # What a thread that took a place stores, others load.
        "%1: int32 = atomic_add c[0], 1\nstore x[%1], 1.0\n%2: float32 = load x[0]\nstore x[5], %2",
    ],
)  # fmt: skip
def test_threads_that_keep_an_order(body):
    assert made(body) is None


def test_a_counter_that_decides_about_another_one_comes_first():
    body = "%1: int32 = atomic_add c[0], 1\n%2: bool = lt %1, 3\n"
    body += "if %2 {\n%3: int32 = atomic_add a[0], 2\nstore o[%0], %3\n}"
    first = made(body)
    assert [counter.array for counter in first.counters] == [0]
    second = taken_apart(first.given)
    assert [counter.array for counter in second.counters] == [1]
    assert taken_apart(second.given) is None


# Random kernels

OPERATIONS = ["add", "min", "max", "and", "or", "xor", "exch", "cas"]


class Writer:
    """The text of a kernel whose threads count."""

    def __init__(self, rng):
        self.rng, self.next, self.name = rng, 1, str(rng.choice(OPERATIONS))

    def value(self, text, kind="int32"):
        self.next += 1
        return f"%{self.next}", f"%{self.next}: {kind} = {text}\n"

    def place(self):
        kind = self.rng.integers(4)
        if kind == 0:
            return str(self.rng.integers(-9, 9)), ""
        if kind == 1:
            return "%0", ""
        return self.value("load a[%0]")

    def site(self, place, before, operand):
        """An operation, and what a thread knows then: a number made of all that it found."""
        values = f"2, {operand}" if self.name == "cas" else operand
        found, text = self.value(f"atomic_{self.name} c[{place}], {values}")
        mixed, more = self.value(f"mul {before}, 31")
        result, last = self.value(f"add {mixed}, {found}")
        return result, text + more + last

    def statement(self, before):
        place, text = self.place()
        kind = self.rng.integers(4)
        if kind == 0:
            result, more = self.site(place, before, str(self.rng.integers(0, 6)))
            return result, text + more
        if kind == 1:
            test, more = self.value("load t[%0]")
            holds, last = self.value(f"lt {test}, 2", "bool")
            inner, code = self.site(place, before, "%0")
            self.next += 1
            result = f"%{self.next}"
            branch = f"if {holds} {{\n{code}yield {inner}\n}} else {{\nyield {before}\n}} -> {result}: int32\n"
            return result, text + more + last + branch
        trips, more = self.value("load t[%0]")
        self.next += 2
        index, carried = f"%{self.next - 1}", f"%{self.next}"
        inner, code = self.site(place, carried, index)
        if kind == 3:
            inner, again = self.site(place, inner, "%0")
            code += again
        self.next += 1
        result = f"%{self.next}"
        loop = f"for {index}: int32 = 0 .. {trips} step 1 carry ({carried}: int32 = {before}) {{\n{code}"
        return result, text + more + loop + f"yield {inner}\n}} -> {result}: int32\n"

    def kernel(self):
        before, text = "7", ""
        for _ in range(self.rng.integers(1, 4)):
            before, more = self.statement(before)
            text += more
        return HEAD + FIRST + text + f"store o[%0], {before}"


def given_values(found, arrays, count):
    """The values that the events of a kernel's slice find, and the counters afterwards."""
    kept = [arrays[p] for p in found.kept]
    outputs = [np.zeros(count, p.dtype.dtype) for p in found.slice.params[len(kept) :]]
    made = iter(run(found.slice, (count,), [*kept, *outputs])[len(kept) :])
    inputs, finals = [], {}
    for counter in found.counters:
        pairs = [(next(made), next(made)) for _ in counter.events]
        element, value = (np.stack(part, 1).reshape(-1) for part in zip(*pairs, strict=True))
        expected = None if counter.expected is None else counter.expected.value
        operation = counter.operation, expected
        given, finals[counter.array] = found_values(operation, counter.is_one, *map(jnp.asarray, (
            arrays[counter.array], element, value,
        )))  # fmt: skip
        inputs += list(np.asarray(given).reshape(count, -1).T)
    return inputs, finals


@pytest.mark.parametrize("seed", range(24))
def test_random_kernels_do_what_their_threads_do_in_order(seed):
    rng = np.random.default_rng(seed)
    kernel = read(Writer(rng).kernel())
    found = taken_apart(kernel)
    if not counters(kernel):  # each thread has its own element
        assert found is None
        return
    verify(found.slice)
    verify(found.given)
    count = 9
    arrays = [
        rng.integers(0, 4, 7),
        rng.integers(-9, 9, count),
        rng.integers(0, 4, count),
        np.zeros(1),
        np.zeros(count),
    ]
    arrays = [x.astype(p.dtype.dtype) for x, p in zip(arrays, kernel.params, strict=True)]
    expected = run(dataclasses.replace(kernel, order=Order.NUMBERS), (count,), arrays)
    inputs, finals = given_values(found, arrays, count)
    result = run(found.given, (count,), [*arrays, *inputs])
    assert_same_bits(result[0], arrays[0])  # it leaves the counter alone
    assert_same_bits(np.asarray(finals[0]), expected[0])
    assert_same_bits(result[4], expected[4])
    assert not np.array_equal(expected[4], arrays[4])
