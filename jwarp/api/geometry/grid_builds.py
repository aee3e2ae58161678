"""Builds of hash grids as steps of graphs, and the arrays of cells that they leave."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jwarp.api.launch_arguments import read_call
from jwarp.arrays.array import array
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.rematerialised import Turn, can_be_made
from jwarp.bind.compat import is_not_tracing
from jwarp.dispatch.call.call import LaunchRequest
from jwarp.dispatch.executables import route
from jwarp.dispatch.executables.host import Forward
from jwarp.dispatch.steps.executors import Recorded
from jwarp.dispatch.tape.geometry_changes import Planned
from jwarp.launching.steps import Launch, Slot, Steps
from jwarp.lib.geometry.builders import CELLS, sorted_cells, starts_moved

_LATE = frozenset({"point_ids", "cell_starts"})


def starts_here(cells: np.ndarray, total: int) -> np.ndarray:
    """Where each cell starts, by the cells of points in their order. It is read-only."""
    ends = np.concatenate([cells, [total]])
    starts = np.repeat(np.arange(len(ends), dtype=np.int32), np.diff(ends, prepend=-1))
    starts.flags.writeable = False
    return starts


def cells_of(starts: np.ndarray, count: int) -> np.ndarray:
    """The cells of points in their order, by where each cell starts."""
    return (np.searchsorted(starts, np.arange(count, dtype=np.int32), side="right") - 1).astype(np.int32)


class _Memory(NamedTuple):
    """The memory that the builds of one grid in a graph share, for one number of points.

    `starts` belongs to the points in `sorted`, so that another build only changes it where these are elsewhere. The
    launches are made once.
    """

    cells: np.ndarray
    spare: np.ndarray
    digits: np.ndarray
    sorted: np.ndarray
    starts: np.ndarray
    launches: dict[Any, Launch]

    @classmethod
    def of(cls, count: int, total: int) -> _Memory:
        """For a grid of which nothing is known: of points in no cell."""
        return cls(
            np.zeros(count, np.int32),
            np.zeros((4, count), np.int32),
            np.zeros(256, np.int32),
            np.full(count, total, np.int32),
            np.zeros(total + 1, np.int32),
            {},
        )

    def step(self, kernel: Any, threads: int, inputs: Sequence[Any], outputs: Sequence[np.ndarray]) -> Recorded:
        """A launch on these arrays."""
        arrays = [np.asarray(x, np.int32) if type(x) is int else np.asarray(x) for x in (*inputs, *outputs)]
        key = kernel, *((x.shape, x.strides) for x in arrays)
        made = self.launches.get(key)
        if made is None:
            ready = route.ready(read_call(LaunchRequest(kernel, threads, list(inputs), list(outputs), block_dim=1)))
            assert isinstance(ready, Forward)
            slots = tuple(Slot("array", k) for k in range(len(arrays)))
            made = Launch(ready.run.launch, slots, tuple(x.shape for x in arrays))
            self.launches[key] = made
        return Recorded(Steps((made,)), dict(zip(made.slots, arrays, strict=True)))


def planned_build(grid: Any, points: Any, radius: Any, shared: dict[Any, Any]) -> Planned | None:
    """The steps of a build without groups that has just run; None where points are no array of the host's."""
    if type(points) is not array or type(points.memory) is not HostMemory or not is_not_tracing():
        return None
    if not isinstance(radius, (int, float, np.number)):
        return None  # it may be another one when the steps run
    content = points.host()
    order, starts = grid.point_ids, grid.cell_starts
    if content.ndim != 2 or not len(content) or not all(isinstance(x, np.ndarray) for x in (order, starts)):
        return None
    count, total, scale = len(content), math.prod(grid.dims), grid.scale
    memory = shared.get((id(grid), count))
    if memory is None:
        memory = shared[id(grid), count] = _Memory.of(count, total)
    own_order = order.copy()
    own_cells = cells_of(starts, count)
    again = [memory.step(starts_moved, 1, [own_cells], [memory.sorted, memory.starts])]
    turn = Turn(memory.starts, again, lambda: starts_here(own_cells, total))
    steps = [
        memory.step(CELLS[grid.dtype], count, [content, scale, *grid.dims], [memory.cells]),
        memory.step(sorted_cells, 1, [memory.cells], [memory.spare, memory.digits, own_cells, own_order]),
        *again,
    ]

    def attributes() -> dict[str, Any]:
        found = own_order.copy(), own_cells.copy()
        make = functools.partial(starts_here, found[1], total)
        starts = make()
        can_be_made(starts, make)
        found[0].flags.writeable = False
        return {"point_ids": found[0], "cell_starts": starts}

    def settle() -> None:
        grid.groups, grid.scale, grid.device = _NOTHING, scale, None
        grid.come_late(_LATE, attributes)

    return Planned(steps, [(order, own_order), (starts, turn)], settle)


_NOTHING = np.zeros(0, np.int32)
_NOTHING.flags.writeable = False
