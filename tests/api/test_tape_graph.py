"""The graph of a tape as text: nodes, edges, groups, repetitions and names."""

import re

import numpy as np
import pytest

import jwarp as wp
from jwarp.api.tape_graph import MAX_REPEATED, runs


@wp.kernel
def scaled(given: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = k * given[i]


@wp.kernel
def added(x: wp.array[float], total: wp.array[float]):
    wp.atomic_add(total, 0, x[wp.tid()])


def recorded(between=lambda tape: None):
    x = wp.array(np.ones(4, np.float32), requires_grad=True)
    y, total = wp.zeros(4, dtype=float, requires_grad=True), wp.zeros(1, dtype=float)
    with wp.Tape() as tape:
        tape.record_scope_begin('all "steps"', {"of": "a loop"})
        for _ in range(5):
            wp.launch(scaled, dim=4, inputs=[x, 2.0, y])
            wp.launch(added, dim=4, inputs=[y, total])
            wp.copy(x, y)
        tape.record_scope_end()
        between(tape)
        y.fill_(1.0)
    return tape, x, y, total


def parts(text):
    """Labels by node, edges as pairs of labels, and labels of groups."""
    label = r'"((?:[^"\\]|\\.)*)"'
    nodes = dict(re.findall(rf"^ *(\w+) \[label={label}", text, re.MULTILINE))
    edges = [(nodes[a], nodes[b]) for a, b in re.findall(r"^ *(\w+) -> (\w+) \[", text, re.MULTILINE)]
    assert text.count("{") == text.count("}")
    return nodes, edges, re.findall(rf"^ *label={label};", text, re.MULTILINE)


def test_what_is_repeated_is_shown_once():
    tape, *_ = recorded()
    nodes, edges, groups = parts(tape.visualize())
    assert sorted(nodes.values()) == sorted(["scaled", "added", "copy", "fill", "given", "y", "total"])
    assert groups == ['all \\"steps\\"', "repeated 5x"]
    expected = [("given", "scaled"), ("scaled", "y"), ("y", "added"), ("added", "total"), ("y", "copy")]
    assert sorted(edges) == sorted([*expected, ("copy", "given"), ("fill", "y")])


def test_choices(tmp_path):
    tape, x, _, total = recorded()
    text = tape.visualize(
        tmp_path / "tape.dot",
        simplify_graph=False,
        ignore_graph_scopes=True,
        choose_longest_node_name=False,
        array_labels={total: "sum"},
        track_inputs=[x],
        track_input_names=["state"],
        graph_direction="TB",
    )
    assert (tmp_path / "tape.dot").read_text() == text and 'rankdir="TB"' in text
    nodes, edges, groups = parts(text)
    names = list(nodes.values())
    assert groups == [] and names.count("scaled") == names.count("copy") == 5
    assert {"sum", "state", "y"} < set(names) and edges.count(("state", "scaled")) == 5
    assert "array: dtype=float32, shape=(4,), requires_grad=True" in text and "k = 2.0" in text


def test_arrays_that_are_read_alone_may_be_left_out():
    x, y = wp.zeros(4), wp.zeros(4)
    with wp.Tape() as tape:
        wp.launch(scaled, dim=4, inputs=[x, 2.0, y])
    assert sorted(parts(tape.visualize(hide_readonly_arrays=True))[0].values()) == ["scaled", "y"]
    shown = tape.visualize(hide_readonly_arrays=True, track_inputs=[x], track_input_names=["kept"])
    assert sorted(parts(shown)[0].values()) == ["kept", "scaled", "y"]
    assert parts(wp.Tape().visualize()) == ({}, [], [])


@pytest.mark.parametrize(
    "keys, expected",
    [
        ("", []),
        ("abc", [(0, 1, 1), (1, 1, 1), (2, 1, 1)]),
        ("xabababy", [(0, 1, 1), (1, 2, 3), (7, 1, 1)]),
        ("aaaa", [(0, 1, 4)]),
        ("abaabaab", [(0, 3, 2), (6, 1, 1), (7, 1, 1)]),
    ],
)
def test_repetitions(keys, expected):
    assert list(runs(list(keys))) == expected


def test_long_tapes_take_little_time():
    rng = np.random.default_rng(0)
    keys = [*rng.integers(0, 4, 2 * MAX_REPEATED).tolist()]
    found = list(runs(keys))
    assert [k for at, n, count in found for k in keys[at : at + n] * count] == keys
