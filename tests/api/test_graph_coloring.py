"""Colours of graphs."""

import numpy as np
import pytest

import jwarp as wp

ALGORITHMS = list(wp.utils.GraphColoringAlgorithm)


def random_graph(seed, nodes, edges):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, nodes, (edges, 2))
    return pairs[pairs[:, 0] != pairs[:, 1]].astype(np.int32)


def colored(pairs, nodes, algorithm):
    colors = wp.full(nodes, 77, dtype=int)
    count = wp.utils.graph_coloring_assign(wp.array(pairs, dtype=int, ndim=2), colors, algorithm)
    return count, colors


def is_valid(pairs, colors):
    return (colors[pairs[:, 0]] != colors[pairs[:, 1]]).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("nodes, edges", [(1, 0), (30, 0), (40, 60), (60, 900)])
def test_ends_of_edges_have_two_colors(algorithm, nodes, edges):
    pairs = random_graph(nodes, nodes, edges)
    count, colors = colored(pairs, nodes, algorithm)
    found = colors.numpy()
    assert is_valid(pairs, found)
    assert sorted(set(found.tolist())) == list(range(count))
    degrees = np.bincount(np.unique(np.sort(pairs, axis=1), axis=0).ravel(), minlength=nodes)
    assert count <= degrees.max() + 1


def test_chordal_graphs_have_as_few_colors_as_there_are():
    """Triangles in a row, each with an edge of the one before it: any order by coloured neighbours finds 3 colours."""
    rng = np.random.default_rng(0)
    names = rng.permutation(50)
    pairs = np.array([(names[k], names[k + step]) for k in range(48) for step in (1, 2)], np.int32)
    assert colored(pairs, 50, wp.utils.GraphColoringAlgorithm.MCS)[0] == 3


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_balance_makes_groups_alike(algorithm):
    pairs = random_graph(5, 200, 300)
    count, colors = colored(pairs, 200, algorithm)
    edges = wp.array(pairs, dtype=int)
    sizes = np.bincount(colors.numpy())
    before = sizes.max() / sizes.min()
    ratio = wp.utils.graph_coloring_balance(edges, colors, count, 1.1)
    sizes = np.bincount(colors.numpy(), minlength=count)
    assert is_valid(pairs, colors.numpy())
    assert ratio == sizes.max() / sizes.min() and ratio < min(before, 1.3)


def test_balance_ends_after_so_many_changes():
    edges, start = wp.zeros((0, 2), dtype=int), [0, 0, 0, 0, 0, 1]
    colors = wp.array(start, dtype=int)
    with pytest.warns(UserWarning, match="after max_iterations=0 changes, at a ratio of 5 instead of 1.1"):
        assert wp.utils.graph_coloring_balance(edges, colors, 2, 1.1, max_iterations=0) == 5.0
    assert colors.numpy().tolist() == start
    assert wp.utils.graph_coloring_balance(edges, colors, 2, 2.0, max_iterations=1) == 2.0
    assert wp.utils.graph_coloring_balance(edges, wp.zeros(2, dtype=int), 3, 1.1, max_iterations=9) == float("inf")


def test_groups_have_the_nodes_of_a_color():
    colors = wp.array([2, 0, 2, 1, 0], dtype=int)
    groups = wp.utils.graph_coloring_get_groups(colors, 4, return_wp_array=False)
    assert [group.tolist() for group in groups] == [[1, 4], [3], [0, 2], []]
    (first, *_) = wp.utils.graph_coloring_get_groups(colors, 4)
    assert isinstance(first, wp.array) and first.dtype is wp.int32 and first.numpy().tolist() == [1, 4]
    assert wp.utils.graph_coloring_get_groups(wp.zeros(0, dtype=int), 0) == ()


def test_refuses():
    edges, colors = wp.array([[0, 1]], dtype=int), wp.array([0, 1], dtype=int)
    assign, balance = wp.utils.graph_coloring_assign, wp.utils.graph_coloring_balance
    for given in ([[0, 2]], [[-1, 0]]):
        with pytest.raises(wp.LaunchError, match=r"edge 0 has endpoints \(.*\), but .* in the range \[0, 2\)"):
            assign(wp.array(given, dtype=int), colors)
    with pytest.raises(wp.LaunchError, match=r"edge 0, \(1, 1\), joins a node to itself"):
        assign(wp.array([[1, 1]], dtype=int), colors)
    with pytest.raises(wp.LaunchError, match="a graph without nodes"):
        assign(wp.zeros((0, 2), dtype=int), wp.zeros(0, dtype=int))
    with pytest.raises(wp.KernelTypeError, match="edges must have 2 dimensions of int32, not 2 of float32"):
        assign(wp.zeros((1, 2), dtype=float), colors)
    with pytest.raises(wp.KernelTypeError, match="edges must be a wp.array, not list"):
        assign([[0, 1]], colors)
    with pytest.raises(wp.LaunchError, match=r"shape \(n, 2\), not \(1, 3\)"):
        assign(wp.zeros((1, 3), dtype=int), colors)
    with pytest.raises(wp.LaunchError, match="the colour of node 1, 1, is none of 1"):
        balance(edges, colors, 1, 1.1)
    with pytest.raises(wp.LaunchError, match="an edge has two nodes of one colour"):
        balance(edges, wp.zeros(2, dtype=int), 2, 1.1)
    for wrong in (-1, 2**31, 1.5, True):
        with pytest.raises(wp.LaunchError, match="max_iterations must"):
            balance(edges, colors, 2, 1.1, max_iterations=wrong)
