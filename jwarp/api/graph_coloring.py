"""`wp.utils.graph_coloring_assign`, `graph_coloring_balance` and `graph_coloring_get_groups`.

They run at once, in Python: a graph is coloured when a program begins, for launches on the nodes of one colour.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jwarp.api.array_functions import have_same_device, number, replace
from jwarp.api.modes import GraphColoringAlgorithm
from jwarp.api.timers import get_logger
from jwarp.arrays.array import array
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import int32, type_repr

Neighbours = list[list[int]]


def graph_coloring_assign(
    edges: array, node_colors: array, algorithm: GraphColoringAlgorithm = GraphColoringAlgorithm.MCS
) -> int:
    """Colour the nodes of a graph with 0, 1, …, such that the two nodes of each edge have different colours.

    Args:
        edges: An array of int32 and shape (n, 2): the two nodes of each edge.
        node_colors: An array of int32 and shape (nodes,), which receives the colours.
        algorithm: The order in which nodes get the lowest free colour. `MCS`: next is the node with the most coloured
            neighbours. `GREEDY`: by the number of neighbours, the most first. Colours may differ from Warp's.

    Returns:
        The number of colours.

    Raises:
        KernelTypeError: An array has another type or rank.
        LaunchError: There are no nodes, a node of an edge does not exist, or both nodes of an edge are the same.
    """
    where = "wp.utils.graph_coloring_assign"
    neighbours = _neighbours(where, edges, node_colors)
    if not neighbours:
        raise LaunchError(f"{where}: a graph without nodes has no colours")
    order = _by_coloured(neighbours) if GraphColoringAlgorithm(algorithm) is GraphColoringAlgorithm.MCS else (
        sorted(range(len(neighbours)), key=lambda node: -len(neighbours[node]))
    )  # fmt: skip
    colors = [-1] * len(neighbours)
    for node in order:
        colors[node] = _lowest_free({colors[other] for other in neighbours[node]})
    replace(node_colors, np.array(colors, np.int32))
    return max(colors) + 1


def graph_coloring_balance(
    edges: array,
    node_colors: array,
    color_count: int,
    target_max_min_ratio: float,
    *,
    max_iterations: int | None = None,
) -> float:
    """Change colours so that they occur about equally often. The nodes of each edge keep different colours.

    Each change moves a node from a more frequent to a less frequent colour.

    Args:
        edges: As for `graph_coloring_assign`.
        node_colors: An array of int32 and shape (nodes,): colours below `color_count`, which are changed.
        color_count: The number of colours.
        target_max_min_ratio: The ratio of the most to the least frequent colour at which the function stops.
        max_iterations: The largest number of changes. Default: the number of nodes. If it is reached, there is a
            warning.

    Returns:
        The ratio of the numbers of nodes with the most and the least frequent colour; `inf` if the latter has none.

    Raises:
        KernelTypeError: An array has another type or rank.
        LaunchError: An edge or a colour is invalid, the nodes of an edge have the same colour, or a number is out of
            range.
    """
    where = "wp.utils.graph_coloring_balance"
    neighbours = _neighbours(where, edges, node_colors)
    count, colors = _colors(where, node_colors, color_count)
    most = len(colors) if max_iterations is None else number(where, "max_iterations", max_iterations)
    if not 0 <= most < 2**31:
        raise LaunchError(f"{where}: max_iterations must not be negative or above 2**31 - 1, got {most}")
    if any(colors[node] == colors[other] for node, others in enumerate(neighbours) for other in others):
        raise LaunchError(f"{where}: an edge has two nodes of one colour", hint="begin with graph_coloring_assign")
    groups: list[list[int]] = [[] for _ in range(count)]
    for node, color in enumerate(colors):
        groups[color].append(node)
    for k in range(most + 1):
        move = None if _ratio(groups) <= target_max_min_ratio else _move(groups, colors, neighbours)
        if move is None:
            break
        if k == most:
            get_logger().warning(
                f"{where}: it ended after max_iterations={most} changes, at a ratio of {_ratio(groups):g} instead of"
                f" {target_max_min_ratio:g}",
                UserWarning,
                stacklevel=3,
            )
            break
        node, color = move
        groups[colors[node]].remove(node)
        groups[color].append(node)
        colors[node] = color
    replace(node_colors, np.array(colors, np.int32))
    return _ratio(groups)


def graph_coloring_get_groups(
    node_colors: array, color_count: int, return_wp_array: bool = True, device: Any = "cpu"
) -> tuple[Any, ...]:
    """The nodes of each colour, in ascending order.

    Args:
        node_colors: An array of int32 and shape (nodes,): colours below `color_count`.
        color_count: The number of colours.
        return_wp_array: Whether to return `wp.array`s instead of NumPy arrays.
        device: The device of these arrays.

    Returns:
        An array of int32 for each colour.

    Raises:
        KernelTypeError: The array has another type or rank.
        LaunchError: A colour is invalid, or a number is out of range.
    """
    count, found = _colors("wp.utils.graph_coloring_get_groups", node_colors, color_count)
    colors = np.array(found, np.int64)
    groups = [np.flatnonzero(colors == color).astype(np.int32) for color in range(count)]
    return tuple(array(group, dtype=int32, device=device) if return_wp_array else group for group in groups)


def _check(where: str, name: str, given: array, ndim: int) -> None:
    if given.dtype is not int32 or given.ndim != ndim:
        raise KernelTypeError(
            f"{where}: {name} must have {ndim} dimensions of int32, not {given.ndim} of {type_repr(given.dtype)}"
        )


def _neighbours(where: str, edges: array, node_colors: array) -> Neighbours:
    """The nodes next to each node, each once."""
    have_same_device(where, edges=edges, node_colors=node_colors)
    _check(where, "edges", edges, 2)
    _check(where, "node_colors", node_colors, 1)
    if edges.shape[1] != 2:
        raise LaunchError(f"{where}: edges must have the shape (n, 2), not {edges.shape}")
    pairs, count = edges.numpy().tolist(), node_colors.shape[0]
    found: list[dict[int, None]] = [{} for _ in range(count)]
    for k, (one, other) in enumerate(pairs):
        if not (0 <= one < count and 0 <= other < count):
            ends = f"edge {k} has endpoints ({one}, {other}), but valid node indices are in the range [0, {count})."
            raise LaunchError(f"Graph coloring failed: Graph {ends}")
        if one == other:
            raise LaunchError(f"{where}: edge {k}, ({one}, {other}), joins a node to itself")
        found[one][other] = found[other][one] = None
    return [list(others) for others in found]


def _colors(where: str, node_colors: array, color_count: Any) -> tuple[int, list[int]]:
    have_same_device(where, node_colors=node_colors)
    _check(where, "node_colors", node_colors, 1)
    count, colors = number(where, "color_count", color_count), node_colors.numpy().tolist()
    if count < 0:
        raise LaunchError(f"{where}: color_count must not be negative, got {count}")
    for node, color in enumerate(colors):
        if not 0 <= color < count:
            raise LaunchError(f"{where}: the colour of node {node}, {color}, is none of {count}")
    return count, colors


def _by_coloured(neighbours: Neighbours) -> Iterator[int]:
    """Nodes, next the one with the most neighbours that came before, of several the first."""
    before = [0] * len(neighbours)
    waiting = [(0, node) for node in range(len(neighbours))]  # a heap; a node may be there with what it had, too
    came = [False] * len(neighbours)
    while waiting:
        _, node = heapq.heappop(waiting)
        if came[node]:
            continue
        came[node] = True
        yield node
        for other in neighbours[node]:
            if not came[other]:
                before[other] += 1
                heapq.heappush(waiting, (-before[other], other))


def _lowest_free(taken: Iterable[int]) -> int:
    used, color = set(taken), 0
    while color in used:
        color += 1
    return color


def _ratio(groups: Sequence[Sequence[int]]) -> float:
    sizes = [len(group) for group in groups]
    if not sizes or max(sizes) == min(sizes):
        return 1.0
    return max(sizes) / min(sizes) if min(sizes) else float("inf")


def _move(groups: list[list[int]], colors: list[int], neighbours: Neighbours) -> tuple[int, int] | None:
    """A node and the colour that it may get, of the colours that differ most; None where none makes them more equal.

    One of the most frequent colours goes first: no other change makes the ratio smaller.
    """
    by_size = sorted(range(len(groups)), key=lambda color: len(groups[color]))
    for source in reversed(by_size):
        for target in by_size:
            if len(groups[source]) - len(groups[target]) < 2:
                break
            for node in groups[source]:
                if all(colors[other] != target for other in neighbours[node]):
                    return node, target
    return None
