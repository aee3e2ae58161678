"""Which sums the threads of a warp have in common, and which of them are done at once."""

import pytest

import jwarp as wp
from jwarp.analysis.common_sums import common_sums

pytestmark = pytest.mark.quick

A = wp.array[float]


@wp.kernel
def plain(x: A, n: int, a: A, b: A):
    i = wp.tid()
    wp.atomic_add(a, n, x[i])
    y = wp.sqrt(x[i]) if x[i] > 0.0 else 1.0
    wp.atomic_add(b, n + 1, y)
    wp.atomic_add(a, i, y)


@wp.kernel
def own_places(x: A, n: int, a: A, b: A):
    i = wp.tid()
    for j in range(i):
        wp.atomic_add(a, i + n, x[i])
        wp.atomic_add(b, j, x[i])


@wp.kernel
def in_loops(x: A, n: int, a: A, b: A):
    i = wp.tid()
    for j in range(n):
        for k in range(j):
            wp.atomic_add(a, j, x[i])
            wp.atomic_add(b, k, x[i])


@wp.kernel
def under_a_condition(x: A, n: int, a: A, b: A):
    i = wp.tid()
    for j in range(n):
        wp.atomic_add(b, j, x[i])
        if x[i] > 0.0:
            wp.atomic_add(a, j, x[i])
        if n > 3:
            wp.atomic_add(a, j, 1.0)


@wp.kernel
def loaded_places(x: A, at: wp.array[int], n: int, a: A, b: A):
    i = wp.tid()
    for j in range(n):
        wp.atomic_add(a, at[j], x[i])
        wp.atomic_add(b, at[j], x[i])


@wp.kernel
def changing_places(x: A, at: wp.array[int], n: int, a: A, b: A):
    i = wp.tid()
    for j in range(n):
        m = at[j]
        wp.atomic_add(a, m, x[i])
        wp.atomic_add(b, m, x[i])
    at[n] = i


@wp.kernel
def counted_places(x: A, n: wp.array[int], a: A, b: A):
    """The number of a thread is no coordinate, and what an atomic finds is no one else's."""
    i = wp.tid()
    m = wp.atomic_add(n, 0, 1)
    wp.atomic_add(a, m, x[i])


@wp.kernel
def whole_numbers(x: A, n: int, a: wp.array[int], b: wp.array[wp.float64]):
    i = wp.tid()
    wp.atomic_add(a, n, 1)
    wp.atomic_add(b, n, wp.float64(x[i]))


@wp.kernel
def read_between(x: A, n: int, a: A, b: A):
    i = wp.tid()
    wp.atomic_add(b, n, x[i])
    wp.atomic_add(a, n, x[i])
    x[i] = a[n]
    wp.atomic_add(b, n, x[i])


@wp.kernel
def until_done(x: A, n: int, a: A, b: A):
    i = wp.tid()
    k = int(n)
    while k > 0:
        wp.atomic_add(a, k, x[i])
        k = k // 2
    while x[i] > 0.0:
        wp.atomic_add(b, n, x[i])
        x[i] = x[i] - 1.0


# Of each group, how many sums, and how many values that are to be compared.
GROUPS = {
    plain: [(2, 0)],
    own_places: [],
    in_loops: [(2, 0)],
    under_a_condition: [(1, 0), (1, 1), (1, 0)],
    loaded_places: [(2, 0)],
    changing_places: [(2, 1)],
    counted_places: [],
    whole_numbers: [(1, 0)],
    read_between: [(2, 0), (1, 0)],
    until_done: [(1, 0), (1, 1)],
}


@pytest.mark.parametrize("kernel", GROUPS, ids=lambda k: k.name)
def test_groups(kernel):
    found = common_sums(kernel.ir(), lambda node: False)
    assert sorted((len(g.nodes), len(g.uncertain)) for g in found) == sorted(GROUPS[kernel])


def test_what_is_done_apart_is_in_no_group():
    kernel = plain.ir()
    (group,) = common_sums(kernel, lambda node: node.array == 2)
    assert [node.array for node in group.nodes] == [3]
