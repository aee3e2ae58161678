"""Random programs: run step by step, with records, and in graphs, again and again, they do what NumPy computes.

Steps are launches on views, copies, fills, new arrays, sums, scans, sorts, grids, loops, branches and tapes with their
gradients. JWARP_FUZZ=long tries programs for as long as JWARP_FUZZ_SECONDS says.
"""

import numpy as np
import pytest
import whole_programs as programs
from fuzz_profiles import LONG, check_seeds, quick
from program_machine import Machine

import jwarp as wp

RUNS = 4


def assert_like(machine, state, what):
    """Compare all arrays but temporary ones; gradients, whose names begin with d, less strictly."""
    for name, x in state.items():
        if not name.startswith("t"):
            tolerance = (5e-3 if name[0] == "d" else 2e-3) * (1.0 + np.abs(x).max())
            np.testing.assert_allclose(
                machine.arrays[name].numpy(), x, rtol=0, atol=tolerance, err_msg=f"{what}: {name}"
            )


def captured(machine, steps):
    with wp.ScopedCapture() as capture:
        machine.run_all(steps)
    return capture.graph


def graph_in_graph(machine, steps):
    """A graph, in which another one does the first half."""
    half = len(steps) // 2
    first = captured(machine, steps[:half])
    with wp.ScopedCapture() as capture:
        wp.capture_launch(first)
        machine.run_all(steps[half:])
    return capture.graph


def check(seed, count=10):
    """Run a program in all ways, with other inputs each time."""
    steps, state = programs.program(seed, count), programs.plain_state(seed)
    now, records, graph, nested = (Machine(state, records=k == 1) for k in range(4))
    whole, inner = captured(graph, steps), graph_in_graph(nested, steps)
    ways = {
        "step by step": (now, lambda: now.run_all(steps)),
        "records": (records, lambda: records.run_all(steps)),
        "graph": (graph, lambda: wp.capture_launch(whole)),
        "graph in a graph": (nested, lambda: wp.capture_launch(inner)),
    }
    for run in range(RUNS):
        given = programs.inputs(seed * RUNS + run)
        for name, x in given.items():
            state[name][...] = x
        for step in steps:
            programs.compute(state, step)
        for way, (machine, do) in ways.items():
            machine.assign(given)
            do()
            assert_like(machine, state, f"run {run}, {way}")


def check_graph_on_tape(seed):
    """The gradients of a tape that was open while a graph ran."""
    maker = programs.Maker(seed)
    _, inner, of, *_ = maker.tape(list(programs.FLOATS))
    inner = [step for step in inner if step[0] not in ("clone", "zeros", "full")]
    names = {part for step in inner for part in programs.names_read(step)}
    if any(name.startswith("t") for name in names) or of not in map(programs.names_written, inner):
        return
    state = programs.plain_state(seed)
    machine = Machine(state)
    graph = captured(machine, inner)
    for run in range(RUNS):
        given = programs.inputs(seed * RUNS + run)
        for name, x in given.items():
            state[name][...] = x
        programs.compute(state, ("tape", inner, of, 0, []))
        machine.assign(given)
        with wp.Tape() as tape:
            wp.capture_launch(graph)
        machine.back(tape, inner, of, run % 2 == 0)
        assert_like(machine, state, f"run {run}")


@pytest.mark.parametrize("seed", [*quick(0, 1), *range(2, 10)])
def test_programs_do_the_same_in_all_ways(seed):
    check(seed)


@pytest.mark.parametrize("seed", range(6))
def test_tapes_go_back_through_graphs(seed):
    check_graph_on_tape(seed)


@pytest.mark.skipif(not LONG, reason="JWARP_FUZZ=long tries programs for minutes")
@pytest.mark.parametrize("checked", [check, check_graph_on_tape])
def test_many_random_programs(checked):
    check_seeds(checked)
