"""Loops that lanes leave apart: in lockstep while many go on, then lane by lane, at several widths of vectors."""

# Annotations and casts are of the kernel language.
# ruff: noqa: UP018, RUF046

import numpy as np
import pytest
from compiled_variants import VARIANTS, Compiled

import jwarp as wp
from jwarp.analysis.lane_serialised import is_marked, lane_serialised_loops
from jwarp.backend.cpu.loops.tails import with_serial_tails
from jwarp.backend.interpreter.machine import run
from jwarp.frontend.builtins.scalar import divergent
from jwarp.ir.nodes import Op, While, walk
from jwarp.ir.parse import parse_kernel
from jwarp.ir.printing import format_kernel

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(11)
N, LONG = 53, 97


@wp.func
def following(table: wp.array[int], at: int, low: int):
    """The place of the next number of a table that is not below `low`, steps further on; -1 at the end."""
    place = at
    found = int(-1)
    while divergent(found < 0 and place >= 0):
        if table[place] >= low:
            found = place
        place = place - 1 - table[place] % 3
    return found, place


@wp.kernel
def visited(table: wp.array[int], starts: wp.array[int], lows: wp.array[int], marks: wp.array[int], out: wp.array[int]):
    """The sum of what a thread finds on its way, which it counts for all threads; it leaves at a large number."""
    i = wp.tid()
    place = starts[i]
    total = int(0)
    going = bool(True)
    while going:
        found, place = following(table, place, lows[i])
        going = found >= 0
        if going:
            total += 3 * found + i
            wp.atomic_add(marks, found, 1)
            if table[found] > 90:
                going = False
    out[i] = total


@wp.kernel
def counted(table: wp.array[int], starts: wp.array[int], count: wp.array[int], out: wp.array[int]):
    """Threads number what they find: which lane comes first matters."""
    i = wp.tid()
    place = starts[i]
    going = bool(True)
    while going:
        found, place = following(table, place, 40)
        going = found >= 0
        if going:
            out[wp.atomic_add(count, 0, 1)] = i


def given():
    table = RNG.integers(0, 100, LONG).astype(np.int32)
    starts = np.where(RNG.uniform(size=N) < 0.4, -1, RNG.integers(0, LONG, N)).astype(np.int32)
    return table, starts, RNG.integers(0, 80, N).astype(np.int32), np.zeros(LONG, np.int32), np.zeros(N, np.int32)


def expected(table, starts, lows, marks, out):
    marks, out = marks.copy(), out.copy()
    for i in range(N):
        place = starts[i]
        while place >= 0:
            number = table[place]
            if number >= lows[i]:
                out[i] += 3 * place + i
                marks[place] += 1
                if number > 90:
                    break
            place -= 1 + number % 3
    return marks, out


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_searches_find_what_a_loop_does(variant):
    arrays = given()
    marks, out = expected(*arrays)
    found = Compiled(visited.ir(), variant).run((N,), arrays)
    np.testing.assert_array_equal(found[-2], marks)
    np.testing.assert_array_equal(found[-1], out)
    interpreted = run(visited.ir(), (N,), arrays)
    np.testing.assert_array_equal(interpreted[-1], out)


def marked_loops(kernel):
    return [node for node in walk(kernel.body) if isinstance(node, While) and is_marked(node)]


def asked(kernel, name):
    return sum(isinstance(node, Op) and node.name == name for node in walk(kernel.body))


def test_the_marked_loop_and_the_one_around_it_have_two_forms():
    kernel = visited.ir()
    made = with_serial_tails(kernel)
    # The loop around and the one inside run in lockstep at first; the copy of the one around has all that is in it.
    assert asked(kernel, "many_lanes") == 0 and asked(made, "many_lanes") == 2
    assert len(marked_loops(made)) == 2
    assert lane_serialised_loops(made) == set(marked_loops(made))
    text = format_kernel(parse_kernel(format_kernel(made)))  # without lines of the source
    assert format_kernel(parse_kernel(text)) == text and text.count("lane_divergence") == 2


def test_loops_in_which_threads_count_stay_in_lockstep():
    made = with_serial_tails(counted.ir())
    outer = [n for n in made.body.nodes if isinstance(n, While)]
    assert len(outer) == 1 and not is_marked(outer[0])
    assert len(marked_loops(made)) == 1 and asked(made, "many_lanes") == 1


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_search_that_is_the_same_for_all_lanes(variant):
    table, starts, lows, marks, out = given()
    starts[:], lows[:] = LONG - 1, 60
    found = Compiled(visited.ir(), variant).run((N,), (table, starts, lows, marks, out))
    for ours, theirs in zip(found[-2:], expected(table, starts, lows, marks, out), strict=True):
        np.testing.assert_array_equal(ours, theirs)
