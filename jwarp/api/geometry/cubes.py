"""Which triangles marching cubes puts into a cell, from which of its corners are at or above the threshold."""

from __future__ import annotations

from string import ascii_letters

from jwarp.caches import cached

# Corners are numbered round the lower side, then round the upper one; edges by the corners that they go between.
CORNERS = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))
EDGES = ((0, 1), (1, 2), (3, 2), (0, 3), (4, 5), (5, 6), (7, 6), (4, 7), (0, 4), (1, 5), (2, 6), (3, 7))
# Each side's corners, counter-clockwise as seen from outside.
SIDES = ((0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (2, 3, 7, 6), (1, 2, 6, 5), (0, 4, 7, 3))

_NUMBERS = {frozenset(edge): k for k, edge in enumerate(EDGES)}


def polygons(case: int) -> list[list[int]]:
    """The polygons of a case, each as the edges that it goes through; bit k of the case is corner k.

    Going round a side, where it comes in at one edge and leaves at the next, a polygon has a side of its own between
    these. Corners in one diagonal of a side are so kept apart, in both of the cells that have it: surfaces have no
    holes. An edge is come in by on one of its two sides, so that the polygons' sides join up.
    """
    following: dict[int, int] = {}
    for side in SIDES:
        inside = [case >> corner & 1 for corner in side]
        for k in range(4):
            if not inside[k] and inside[(k + 1) % 4]:
                entry = _NUMBERS[frozenset((side[k], side[(k + 1) % 4]))]
                while inside[(k + 1) % 4]:
                    k += 1
                following[entry] = _NUMBERS[frozenset((side[k % 4], side[(k + 1) % 4]))]
    found = []
    while following:
        first = min(following)
        polygon = [first]
        while (edge := following.pop(polygon[-1])) != first:
            polygon.append(edge)
        found.append(polygon)
    return found


def divisions(polygon: list[int]) -> list[list[tuple[int, int, int]]]:
    """All the ways to cut a polygon into triangles by diagonals, in the order of what is at its last side."""
    if len(polygon) < 3:
        return [[]]
    return [
        [*before, *after, (polygon[0], polygon[k], polygon[-1])]
        for k in range(1, len(polygon) - 1)
        for before in divisions(polygon[: k + 1])
        for after in divisions(polygon[k:])
    ]


# Which of its divisions a polygon has, as a letter for each of four sides or more, in the order of cases. Any would do:
# these are Warp's, so that programs have the same triangles.
CHOSEN = (
    "bacbcacbbaeaalabacddbaakbbcaalaabcaadcdacaeabPPbbbbdlbaaliaacbaaexbbbxiebbelcaaebabcPcncablbclaebdubnxnbaabe"
    "blddlaadacaeabneacdleabbbbkbcbaxekugbmlbdixelcnbsnbbbbaeccPccanadaabldCcssfbbebbgcacudkbhlCCeeabadadabdaeb"
)


@cached("one")
def cases() -> tuple[list[tuple[int, int, int]], ...]:
    """The triangles of every case; their normals point to where the field is greater."""
    chosen = iter(CHOSEN)
    found: list[list[tuple[int, int, int]]] = []
    for case in range(256):
        triangles: list[tuple[int, int, int]] = []
        for polygon in polygons(case):
            which = ascii_letters.index(next(chosen)) if len(polygon) > 3 else 0
            triangles += [(a, c, b) for a, b, c in divisions(polygon)[which]]
        found.append(triangles)
    return tuple(found)
