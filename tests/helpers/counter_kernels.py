"""Kernels that use what atomic operations on integers find, and Python that runs their threads in order."""

import types

import numpy as np

import jwarp as wp

F = wp.float64
N, M, CELLS = 24, 80, 5

# Kernels of x, of a cell for each thread, of how many trips it makes, of integers (counters, lists) and of results.


@wp.kernel
def compacted(x: wp.array[F], cell: wp.array[int], trips: wp.array[int], n: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    if x[i] > F(0.0):
        place = wp.atomic_add(n, 0, 1)
        y[place] = x[i] * x[i]


@wp.kernel
def several_places(x: wp.array[F], cell: wp.array[int], trips: wp.array[int], n: wp.array[int], y: wp.array[F]):
    """A varying number of places for each thread, capped, which a recurrence uses."""
    i = wp.tid()
    v = x[i]
    for _ in range(trips[i]):
        place = wp.atomic_add(n, 0, 1)
        if place < y.shape[0]:
            v = v * wp.sin(x[i]) + F(0.1) * F(place) * v
            y[place] = v * x[i]


@wp.kernel
def counted_by_cell(x: wp.array[F], cell: wp.array[int], trips: wp.array[int], n: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    place = wp.atomic_add(n, cell[i], 1)
    if place < 4:
        y[cell[i] * 4 + place] = wp.sin(x[i]) * F(place + 1)


@wp.kernel
def list_heads(x: wp.array[F], cell: wp.array[int], trips: wp.array[int], n: wp.array[int], y: wp.array[F]):
    """Heads of linked lists in the first cells of n, the lists behind them."""
    i = wp.tid()
    before = wp.atomic_exch(n, cell[i], i + 1)
    n[8 + i] = before
    y[i] = x[i] * x[i] * F(before)


@wp.kernel
def free_list(x: wp.array[F], cell: wp.array[int], trips: wp.array[int], n: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    left = wp.atomic_sub(n, 6, 1)
    if left > 0:
        y[(7 * left) % 40] = x[i] * x[i] * x[i]


@wp.kernel
def first_wins(x: wp.array[F], cell: wp.array[int], trips: wp.array[int], n: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    if wp.atomic_cas(n, cell[i], 0, i + 1) == 0:
        y[cell[i]] = wp.exp(x[i])


@wp.kernel
def smallest_so_far(x: wp.array[F], cell: wp.array[int], trips: wp.array[int], n: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    key = (7 * i + 3) % 24 - 24
    before = wp.atomic_min(n, cell[i], key)
    other = wp.atomic_max(n, 8 + cell[i], key + 30)
    if key < before:
        y[i] = x[i] * F(other)


@wp.kernel
def bits_of_cells(x: wp.array[F], cell: wp.array[int], trips: wp.array[int], n: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    s = F(0.0)
    for k in range(trips[i]):
        before = wp.atomic_or(n, cell[i], 1 << ((i + k) % 6))
        s += wp.cos(x[i] * F(before))
        s += F(wp.atomic_xor(n, 8, k + i)) * x[i]
    y[i] = s


@wp.kernel
def taken_in_turns(x: wp.array[F], cell: wp.array[int], trips: wp.array[int], n: wp.array[int], y: wp.array[F]):
    """Nested loops, a condition that counts, and two counters that meet."""
    i = wp.tid()
    v = x[i]
    k = int(0)
    while wp.atomic_add(n, cell[i], 1) % 3 != 2:
        v = v * F(0.7) + x[i] * F(n[7] % 4)
        for _ in range(trips[i]):
            at = wp.atomic_add(n, 7, 1)
            if at % 2 == 1:
                v = wp.sin(v) + F(at % 5) * x[i]
            if at % 7 == 6:
                wp.atomic_sub(n, 7, 2)
                break
        k += 1
    place = wp.atomic_add(n, 6, 1)
    y[place] = wp.sin(v) * F(k % 3 + 1)


@wp.kernel
def read_where_counted(x: wp.array[F], cell: wp.array[int], trips: wp.array[int], n: wp.array[int], y: wp.array[F]):
    """A counter that is also loaded and stored, over an output that is overwritten."""
    i = wp.tid()
    if n[0] < 20:
        place = wp.atomic_add(n, 0, 1 + trips[i] % 2)
        y[place] = y[place] * x[i] + x[i]
    if n[0] % 5 == 4:
        n[0] = n[0] + 1
    other = wp.atomic_add(n, 1, 3)
    if other < 48:  # each place is taken once
        y[60 + other % 16] *= F(2.0)


@wp.kernel
def worked_on_in_place(x: wp.array[F], cell: wp.array[int], trips: wp.array[int], n: wp.array[int], y: wp.array[F]):
    """Elements that a thread takes, by one of two additions, overwrites some times, and reads."""
    i = wp.tid()
    place = -1
    if x[i] > F(0.3):
        place = wp.atomic_add(n, 0, 1)
    if place < 0 and cell[i] != 2:
        place = wp.atomic_add(n, 0, 1)
    if place >= 0:
        y[place] = y[place] * x[i] + x[i]
        for k in range(trips[i]):
            y[place] = wp.sin(y[place] * x[i]) + F(k) * y[place]
        if trips[i] > 1:
            y[place] = y[place] * y[place]


@wp.kernel
def in_turn(cell: wp.array[int], lock: wp.array[int], total: wp.array[int]):
    """A ticket, and a wait for those who drew before."""
    i = wp.tid()
    own = wp.atomic_add(lock, 0, 1)
    while wp.atomic_add(lock, 1, 0) != own:
        pass
    total[cell[i]] = total[cell[i]] * 3 % 1009 + i
    wp.atomic_add(lock, 1, 1)


KERNELS = [compacted, several_places, counted_by_cell, list_heads, free_list, first_wins, smallest_so_far,
           bits_of_cells, taken_in_turns, read_where_counted, worked_on_in_place]  # fmt: skip


def point(seed):
    rng = np.random.default_rng(seed)
    cell, trips = rng.integers(0, CELLS, N, np.int32), rng.integers(0, 4, N, np.int32)
    n = np.where(np.arange(8 + N) == 6, 15, 0).astype(np.int32)
    return rng.uniform(0.1, 1, N) * rng.choice([-1, 1], N), cell, trips, n, rng.normal(size=M)


def in_python(kernel, x, cell, trips, n, y):
    """The results of Python, which runs the threads one after the other."""
    n, y = n.copy(), y.copy()

    def changed(change):
        def atomic(array, at, *values):
            before = int(array[at])
            array[at] = change(before, *values)
            return before

        return atomic

    atomics = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "exch": lambda a, b: b, "min": min, "max": max,
        "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "cas": lambda a, b, c: c if a == b else a,
    }  # fmt: skip
    names = {"sin": np.sin, "cos": np.cos, "exp": np.exp} | {f"atomic_{k}": changed(f) for k, f in atomics.items()}
    function = kernel.python
    for thread in range(N):
        own = types.SimpleNamespace(**names, tid=lambda thread=thread: thread)
        outer = {**function.__globals__, "wp": own, "F": float, "int": int}
        types.FunctionType(function.__code__, outer)(x, cell, trips, n, y)
    return n, y
