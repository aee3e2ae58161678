"""Hash grids: which points lie in the cells about a place, written in the kernel language.

Space is divided into cubes; the number of a cube, wrapped round along each axis, is its cell. The points of a cell, and
of those next to it along the first axis, lie one after the other in `point_ids`: a query goes from one such run of
points to the next, which takes fewer steps than from cell to cell, in the same order. All of it is integers.
"""

from __future__ import annotations

from typing import Any

from jwarp.arrays.array import array
from jwarp.frontend.builtins.scalar import abs, any_lane, floor, one_of, where
from jwarp.frontend.builtins.table import library
from jwarp.frontend.func import func
from jwarp.types import NAMED, Reference, float16, float32, float64, int32, int64, struct, uint64

vec3, vec3h, vec3d, vec3i = NAMED["vec3"], NAMED["vec3h"], NAMED["vec3d"], NAMED["vec3i"]

LAST = 2147483646  # the largest coordinate of a cube, so that the next one is a number too
TOO_FAR = float(2**31)
FAR = 4  # cells that a thread is apart from others, with which it does not go together then


@struct
class HashGridArrays:
    """A hash grid of points in float32: what a kernel is given for it.

    Slot k holds the point `point_ids[k]`; those of cell c start at slot `cell_starts[c]`. `groups` has the group of the
    point in each slot, in order within each cell, or no elements.
    """

    point_ids: array[int32]
    cell_starts: array[int32]
    groups: array[int32]
    dims: vec3i
    scale: float32  # cubes in a unit of length


@struct
class HashGridArraysH:
    """As HashGridArrays, of points in float16."""

    point_ids: array[int32]
    cell_starts: array[int32]
    groups: array[int32]
    dims: vec3i
    scale: float16


@struct
class HashGridArraysD:
    """As HashGridArrays, of points in float64."""

    point_ids: array[int32]
    cell_starts: array[int32]
    groups: array[int32]
    dims: vec3i
    scale: float64


KINDS = {float16: HashGridArraysH, float32: HashGridArrays, float64: HashGridArraysD}
for _kind in KINDS.values():
    _kind.stands_for = uint64


@struct
class HashGridQuery:
    """The state of a query: the current run of slots, and the run after it.

    Runs are counted along the first axis (one, or two where it wraps round), then the second, then the third. Threads
    that run in step, of which some wrap round, go through the longer runs together: then each has three for a row.
    Adjacent threads that begin in different rows wait for each other, with empty runs, so as to be in the same row.
    """

    point_ids: array[int32]
    cell_starts: array[int32]
    groups: array[int32]
    dims: vec3i
    first: vec3i  # the cell that the query starts at
    counts: vec3i  # how many cells it has along each axis
    run: vec3i  # the next run: the number of the cell within the query along each axis, below 0 where it waits
    begin: vec3i  # where runs begin, after those that it waits for
    until: int32  # and end along the second axis
    part: int32  # of three that a row is gone through in: before the longer run, this, after it; -1 where it is not
    slot: int32
    end: int32
    group: int32
    by_group: int32  # 1 where only points of `group` are wanted


@func
def coordinate(x: Any):
    """The number of the cube that a scaled coordinate is in; 0 for NaN."""
    down = floor(x)
    inside = where((down >= type(x)(-TOO_FAR)) and (down < type(x)(TOO_FAR)), down, type(x)(0.0))
    number = int32(inside)
    number = where(down >= type(x)(TOO_FAR), LAST, number)
    number = where(down < type(x)(-TOO_FAR), -LAST - 2, number)
    return where(number > LAST, LAST, number)


@func
def wrapped(x: int32, extent: int32):
    """The number of a cell along an axis, from that of the cube."""
    rest = x % extent
    return where(rest < 0, rest + extent, rest)


@func
def cell_of(point: Any, scale: Any, dims: vec3i):
    """The cell that a point is in."""
    x = wrapped(coordinate(point[0] * scale), dims[0])
    y = wrapped(coordinate(point[1] * scale), dims[1])
    z = wrapped(coordinate(point[2] * scale), dims[2])
    return (z * dims[1] + y) * dims[0] + x


@func
def extent_of(low: int32, high: int32, extent: int32):
    """How many cells there are from one cube to another: at least one, and none twice."""
    count = int64(high) - int64(low) + int64(1)
    return int32(where(count > int64(extent), int64(extent), where(count < int64(1), int64(1), count)))


@func
def ahead(number: int32, is_near: bool):
    """How far a number is above the least one of the threads that run in step and are near; 0 if they are far apart."""
    above = number - one_of(number)
    least = where(any_lane(is_near and above == -1), 1, 0)
    least = where(any_lane(is_near and above == -2), 2, least)
    above += least
    return where(is_near and above >= 0 and above <= FAR, above, 0)


@func
def started(id: Any, point: Any, max_dist: Any, group: int32, by_group: int32):
    """A query of the cells that a cube of twice `max_dist` about the point intersects."""
    query = HashGridQuery()
    query.point_ids = id.point_ids
    query.cell_starts = id.cell_starts
    query.groups = id.groups
    query.dims = id.dims
    for axis in range(3):
        low = coordinate((point[axis] - max_dist) * id.scale)
        high = coordinate((point[axis] + max_dist) * id.scale)
        query.first[axis] = wrapped(low, id.dims[axis])
        query.counts[axis] = extent_of(low, high, id.dims[axis])
    query.group = group
    query.by_group = where(id.groups.shape[0] > 0, by_group, 0)
    is_split = query.by_group == 0 and query.counts[0] > query.dims[0] - query.first[0]
    query.part = where(any_lane(is_split), 0, -1)
    query.until = query.counts[1]
    if query.by_group == 0:
        is_near = abs(query.first[0] - one_of(query.first[0])) <= FAR
        query.begin[1] = -ahead(query.first[1], is_near)
        query.begin[2] = -ahead(query.first[2], is_near)
        query.until += ahead(-query.first[1] - query.counts[1], is_near)
    query.run = query.begin
    if id.cell_starts.shape[0] == 0:  # never built
        query.run[2] = query.counts[2]
    return query


@func
def first_not_below(groups: array[int32], low: int32, high: int32, group: int32):
    """The first of the slots from low to high whose group is not below `group`; high if all are."""
    while low < high:
        middle = low + (high - low) // 2
        if groups[middle] < group:
            low = middle + 1
        else:
            high = middle
    return low


@func
def turned(number: int32, extent: int32):
    """The number of a cell that is below twice the extent, wrapped round."""
    return where(number >= extent, number - extent, number)


@func
def hash_grid_query(id: HashGridArrays, point: vec3, max_dist: float32):
    return started(id, point, max_dist, 0, 0)


@func
def hash_grid_query(id: HashGridArrays, point: vec3, max_dist: float32, group: int32):
    return started(id, point, max_dist, group, 1)


@func
def hash_grid_query(id: HashGridArraysH, point: vec3h, max_dist: float16):
    return started(id, point, max_dist, 0, 0)


@func
def hash_grid_query(id: HashGridArraysH, point: vec3h, max_dist: float16, group: int32):
    return started(id, point, max_dist, group, 1)


@func
def hash_grid_query(id: HashGridArraysD, point: vec3d, max_dist: float64):
    return started(id, point, max_dist, 0, 0)


@library(
    """
    hash_grid_query(id: uint64, point: vec3, max_dist: float) -> HashGridQuery[float]
    hash_grid_query(id: uint64, point: vec3, max_dist: float, group: int) -> HashGridQuery[float]
    hash_grid_query(id: uint64, point: vec3d, max_dist: float64) -> HashGridQuery[float64]
    hash_grid_query(id: uint64, point: vec3d, max_dist: float64, group: int) -> HashGridQuery[float64]
    hash_grid_query(id: uint64, point: vec3h, max_dist: float16) -> HashGridQuery[float16]
    hash_grid_query(id: uint64, point: vec3h, max_dist: float16, group: int) -> HashGridQuery[float16]"""
)
@func
def hash_grid_query(id: HashGridArraysD, point: vec3d, max_dist: float64, group: int32):
    """The points of a hash grid in the cells that meet a cube about `point`, those of one group if one is given.

    All points within `max_dist` along each axis are among them, each once, and others of the same cells. A loop goes
    over their numbers, `for i in query:` or `while wp.hash_grid_query_next(query, i):`."""
    return started(id, point, max_dist, group, 1)


@func
def next_run(query: Reference(HashGridQuery)):  # type: ignore[valid-type]
    """Go on to the next run, which may be empty, from one that is gone through; False if there is none."""
    if query.slot < query.end:
        return True  # a loop over the query was left in the middle of a run
    if query.run[2] >= query.counts[2]:
        return False
    x = query.first[0] + query.run[0]
    length = query.counts[0] - query.run[0]
    if query.by_group == 1:
        length = 1
    elif x < query.dims[0] and length > query.dims[0] - x:
        length = query.dims[0] - x
    if query.part == 0 and 2 * length >= query.counts[0]:
        length = 0
    query.part = where(query.part >= 0, query.part + 1, -1)
    is_row = query.run[2] >= 0 and query.run[1] >= 0 and query.run[1] < query.counts[1]
    row = turned(query.first[2] + query.run[2], query.dims[2]) * query.dims[1]
    row = (row + turned(query.first[1] + query.run[1], query.dims[1])) * query.dims[0]
    cell = where(is_row, row + turned(x, query.dims[0]), 0)
    query.slot = query.cell_starts[cell]
    query.end = query.cell_starts[where(is_row, cell + length, 0)]
    if query.by_group == 1:
        query.slot = first_not_below(query.groups, query.slot, query.end, query.group)
        if query.group < 2147483647:
            query.end = first_not_below(query.groups, query.slot, query.end, query.group + 1)
    query.run[0] += length
    if query.run[0] >= query.counts[0] and (query.part < 0 or query.part == 3):
        query.run[0] = 0
        query.part = where(query.part < 0, -1, 0)
        query.run[1] += 1
        if query.run[1] >= query.until:
            query.run[1] = query.begin[1]
            query.run[2] += 1
    return True


@func
def point_at(query: HashGridQuery, slot: int32):
    """The point in a slot of a run."""
    return query.point_ids[slot]


@library("hash_grid_query_next(query: HashGridQuery[Any], index: int) -> bool")
@func
def hash_grid_query_next(query: Reference(HashGridQuery), index: Reference(int32)):  # type: ignore[valid-type]
    """Set `index` to the next point of a query and return True; return False if there is none."""
    is_left = True
    while query.slot >= query.end and is_left:
        is_left = next_run(query)
    if is_left:
        index = query.point_ids[query.slot]
        query.slot += 1
    return is_left


HashGridQuery.following = hash_grid_query_next
HashGridQuery.in_runs = next_run, point_at
HashGridQuery.__class_getitem__ = classmethod(lambda cls, dtype: cls)  # it is the same one for points of each type


@func
def hash_grid_point_id(id: HashGridArrays, index: int32):
    return point_in_slot(id.point_ids, index)


@func
def hash_grid_point_id(id: HashGridArraysH, index: int32):
    return point_in_slot(id.point_ids, index)


@library("hash_grid_point_id(id: uint64, index: int) -> int")
@func
def hash_grid_point_id(id: HashGridArraysD, index: int32):
    """The number of the point at a place in the order of the cells, of which close ones are close in space.

    It is -1 for a grid that has not been built."""
    return point_in_slot(id.point_ids, index)


@func
def point_in_slot(point_ids: array[int32], index: int32):
    """The number of the point in a slot, -1 where there are no slots."""
    found = -1
    if point_ids.shape[0] > 0:
        found = point_ids[index]
    return found


__all__ = ["KINDS", "HashGridArrays", "HashGridQuery", "cell_of"]
