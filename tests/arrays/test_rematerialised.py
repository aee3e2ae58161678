"""Arrays that can be made again: who keeps one has what makes it, and its owner knows that someone does."""

import gc

import numpy as np

import jwarp as wp
from jwarp.arrays.rematerialised import Remade, can_be_made, is_kept, lightened, remade, there


def test_an_array_is_kept_as_long_as_someone_has_what_makes_it():
    made = []

    def make():
        made.append(np.arange(5))
        return made[-1]

    array, other = np.arange(5), np.arange(5)
    can_be_made(array, make)
    assert not is_kept(array) and not is_kept(other)
    values = lightened([array, other, 3])
    assert isinstance(values[0], Remade) and values[1] is other and values[2] == 3
    assert is_kept(array)
    assert there(values[0]) is array and there(other) is other and not made
    again = remade(array)
    del values
    assert is_kept(array)
    del array
    gc.collect()
    np.testing.assert_array_equal(there(again), np.arange(5))
    assert len(made) == 1 and there(again) is made[0]


def test_nobody_keeps_an_array_when_those_who_did_are_gone():
    array = np.arange(3)
    can_be_made(array, array.copy)
    kept = lightened([array])
    assert is_kept(array)
    del kept
    assert not is_kept(array)


@wp.kernel
def first_neighbour(grid: wp.uint64, x: wp.array[wp.vec3], y: wp.array[float]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], 0.5):
        if j != i and wp.length_sq(x[j] - x[i]) < 0.25:
            y[i] += wp.length_sq(x[j] - x[i])


def test_a_grid_whose_cells_a_tape_keeps_is_not_written_over():
    rng = np.random.default_rng(0)
    x = wp.array(rng.random((30, 3)), dtype=wp.vec3, requires_grad=True)
    y, grid = wp.zeros(30, dtype=float, requires_grad=True), wp.HashGrid(20, 20, 20)
    grid.build(x, 0.5)
    starts = grid.cell_starts
    with wp.Tape() as tape:
        wp.launch(first_neighbour, 30, [grid.id, x, y])
    assert is_kept(starts)
    before = starts.copy()
    grid.build(wp.array(rng.random((30, 3)), dtype=wp.vec3), 0.5)
    np.testing.assert_array_equal(starts, before)
    assert grid.cell_starts is not starts
    tape.reset()
    del starts
    starts, ids = grid.cell_starts, id(grid.cell_starts)
    assert not is_kept(starts)
    del starts
    grid.build(x, 0.5)
    assert id(grid.cell_starts) == ids
