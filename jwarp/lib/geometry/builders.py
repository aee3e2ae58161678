"""Kernels that grids, trees and meshes are built with."""

from __future__ import annotations

from jwarp.arrays.array import array, array2d
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import isfinite, max, min, where
from jwarp.frontend.builtins.tiles.creation import tile_full
from jwarp.frontend.builtins.tiles.transfers import tile_store
from jwarp.frontend.func import func
from jwarp.frontend.kernel import kernel
from jwarp.lib.geometry.hash_grid import cell_of
from jwarp.lib.geometry.tree import vec6
from jwarp.types import NAMED, float16, float32, float64, int32

vec3, vec3h, vec3d, vec3i = NAMED["vec3"], NAMED["vec3h"], NAMED["vec3d"], NAMED["vec3i"]


@kernel
def cells_of_points(points: array[vec3], scale: float32, x: int32, y: int32, z: int32, cells: array[int32]):
    """The cell of each point, in a grid of so many cells along each axis."""
    i = tid()
    cells[i] = cell_of(points[i], scale, vec3i(x, y, z))


@kernel
def cells_of_points_h(points: array[vec3h], scale: float16, x: int32, y: int32, z: int32, cells: array[int32]):
    """The cell of each point in half precision."""
    i = tid()
    cells[i] = cell_of(points[i], scale, vec3i(x, y, z))


@kernel
def cells_of_points_d(points: array[vec3d], scale: float64, x: int32, y: int32, z: int32, cells: array[int32]):
    """The cell of each point in double precision."""
    i = tid()
    cells[i] = cell_of(points[i], scale, vec3i(x, y, z))


@kernel
def sorted_by_cells(cells: array[int32], starts: array[int32], ids: array[int32]):
    """Put points in order of their cells, and say where each cell starts; one thread, for all. `starts` are zeros."""
    count = cells.shape[0]
    last = starts.shape[0] - 1
    for i in range(count):
        cell = cells[i]
        starts[cell] = starts[cell] + 1
    total = int32(0)
    for cell in range(last):
        total += starts[cell]
        starts[cell] = total
    starts[last] = total
    for back in range(count):  # of a cell, the last one first: then it starts where the first one is
        i = count - 1 - back
        cell = cells[i]
        slot = starts[cell] - 1
        starts[cell] = slot
        ids[slot] = i


FEW = 32  # points that are sorted one by one
ROW = 128  # cells that are written at once


@kernel
def sorted_cells(
    cells: array[int32],
    spare: array2d[int32],
    digits: array[int32],
    ordered: array[int32],
    ids: array[int32],
):
    """Sort points by their cells, equal ones as they are; one thread, for all.

    `spare` has four rows for them, and `digits` 256 elements."""
    count = cells.shape[0]
    largest = int32(0)
    if count <= FEW:
        for i in range(count):
            cell = cells[i]
            slot = i
            while slot > 0 and ordered[max(slot - 1, 0)] > cell:
                ordered[slot] = ordered[slot - 1]
                ids[slot] = ids[slot - 1]
                slot -= 1
            ordered[slot] = cell
            ids[slot] = i
    else:
        for i in range(count):
            spare[0, i] = cells[i]
            spare[2, i] = i
            largest = max(largest, cells[i])
        row = int32(0)
        shift = int32(0)
        while shift < 32 and (largest >> shift) > 0:
            for digit in range(256):
                digits[digit] = 0
            for i in range(count):
                digit = (spare[row, i] >> shift) & 255
                digits[digit] = digits[digit] + 1
            total = int32(0)
            for digit in range(256):
                here = digits[digit]
                digits[digit] = total
                total += here
            for i in range(count):
                cell = spare[row, i]
                digit = (cell >> shift) & 255
                slot = digits[digit]
                digits[digit] = slot + 1
                spare[1 - row, slot] = cell
                spare[3 - row, slot] = spare[2 + row, i]
            row = 1 - row
            shift += 8
        for i in range(count):
            ordered[i] = spare[row, i]
            ids[i] = spare[2 + row, i]


@kernel
def starts_moved(ordered: array[int32], known: array[int32], starts: array[int32]):
    """Say where each cell starts, by the cells `ordered` of points, where it is said for the cells `known`.

    One thread, for all. Both are of as many points; those in the cell after the last are in no cell.
    """
    count = ordered.shape[0]
    last = starts.shape[0] - 1
    i = int32(0)
    j = int32(0)
    while i < count or j < count:
        cell = last
        if i < count:
            cell = min(cell, known[i])
        if j < count:
            cell = min(cell, ordered[j])
        while i < count and known[min(i, count - 1)] == cell:
            i += 1
        while j < count and ordered[min(j, count - 1)] == cell:
            j += 1
        if i != j:
            end = last
            if i < count:
                end = min(end, known[i])
            if j < count:
                end = min(end, ordered[j])
            begin = cell + 1
            if end - begin > ROW:
                same = tile_full(shape=ROW, value=j, dtype=int32)
                while begin + ROW <= end + 1:
                    tile_store(starts, same, offset=begin)
                    begin += ROW
            for between in range(max(begin, 0), min(end + 1, starts.shape[0])):
                starts[between] = j
    for k in range(count):
        known[k] = ordered[k]


@kernel
def numbered(numbers: array[int32]):
    """The numbers from 0 on."""
    i = tid()
    numbers[i] = i


@kernel
def starts_of_cells(cells: array[int32], starts: array[int32]):
    """Where each cell starts, by the cells of points in their order."""
    cell = tid()
    low = int32(0)
    high = cells.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if cells[middle] < cell:
            low = middle + 1
        else:
            high = middle
    starts[cell] = low


CELLS = {float16: cells_of_points_h, float32: cells_of_points, float64: cells_of_points_d}


@func
def hilbert(point: vec3i):
    """The place on Hilbert's curve of a point of a cube of 1024^3 (Skilling, Programming the Hilbert Curve, 2004)."""
    x = point
    bit = 512
    while bit > 1:
        rest = bit - 1
        for axis in range(3):
            if x[axis] & bit:
                x[0] ^= rest
            else:
                swapped = (x[0] ^ x[axis]) & rest
                x[0] ^= swapped
                x[axis] ^= swapped
        bit >>= 1
    x[1] ^= x[0]
    x[2] ^= x[1]
    rest = 0
    bit = 512
    while bit > 1:
        if x[2] & bit:
            rest ^= bit - 1
        bit >>= 1
    place = 0
    for level in range(10):
        for axis in range(3):
            place |= (((x[axis] ^ rest) >> level) & 1) << (3 * level + 2 - axis)
    return place


@kernel
def places_on_curve(bounds: array[vec6], x: float32, y: float32, z: float32, scale: float32, places: array[int32]):
    """Where the middles of boxes lie on Hilbert's curve through the cube from (x, y, z)."""
    i = tid()
    low = vec3(x, y, z)
    box = bounds[i]
    cell = vec3i()
    for axis in range(3):
        middle = 0.5 * (box[axis] + box[axis + 3])
        at = (middle - low[axis]) * scale
        cell[axis] = int32(where((at > 0.0) and (at < 1023.0), at, where(at >= 1023.0, 1023.0, 0.0)))
    places[i] = hilbert(cell)


SEEN = 64  # of the boxes below a node, to tell how they are spread


@func
def halve(middles: array[float32], order: array[int32], begin: int32, cut: int32, end: int32):
    """Put those of some boxes in front of the slot `cut` that come first along the axis of the largest spread.

    That axis is found with some of them, as is where the search begins for what divides them. If it ends sooner than
    at `cut`, the tree is not as good."""
    count = order.shape[0]
    step = (end - begin + SEEN - 1) // SEEN
    axis = int32(0)
    low = float32(0.0)
    high = float32(0.0)
    for k in range(3):
        least = middles[k * count + order[begin]]
        most = least
        for i in range(begin + step, end, step):
            x = middles[k * count + order[i]]
            least = min(least, x)
            most = max(most, x)
        if k == 0 or most - least > high - low:
            axis = k * count
            low = least
            high = most
    # Elements before `begin` and from `end` on are in their places.
    while begin < end and low < high:
        pivot = 0.5 * low + 0.5 * high
        if not (pivot > low and pivot < high):
            pivot = high  # no number is between the two
        middle = begin
        for i in range(begin, end):
            p = order[i]
            q = order[middle]
            is_before = middles[axis + p] < pivot
            order[i] = where(is_before, q, p)
            order[middle] = where(is_before, p, q)
            middle += where(is_before, 1, 0)
        if middle <= cut:
            begin = middle
            low = pivot
        if middle >= cut:
            end = middle
            high = where(pivot == high, low, pivot)


@kernel
def in_halves(
    bounds: array[vec6],
    first: array[int32],
    groups: array[int32],
    size: int32,
    middles: array[float32],
    order: array[int32],
):
    """Put boxes in the order of a tree with leaves of `size`; one thread, for all.

    They begin in the order `first`. What is below a node is halved where its middles have their median along the axis
    on which they are spread most, but for boxes of different groups, which have to be in order of these.
    """
    count = order.shape[0]
    for i in range(count):
        order[i] = first[i]
        box = bounds[i]
        for axis in range(3):
            middle = 0.5 * (box[axis] + box[axis + 3])
            middles[axis * count + i] = where(isfinite(middle), middle, 0.0)  # others lie anywhere
    slots = size
    while slots < count:
        slots *= 2
    begin = int32(0)
    length = slots
    while begin < count:
        while length > size:
            length = length // 2
            if begin + length < count:
                end = min(begin + 2 * length, count)
                is_whole = True
                if groups.shape[0] > 0:
                    is_whole = groups[begin] == groups[end - 1]
                if is_whole:
                    halve(middles, order, begin, begin + length, end)
        begin += size
        leaf = begin // size
        length = size * (leaf & -leaf)  # of the node that begins here and that is no first child
