"""`warp._src.utils.MeshAdjacency`: the edges of a mesh of triangles, with what lies on their two sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class MeshEdge:
    """An edge from vertex v0 to v1, with the vertices o0, o1 and triangles f0, f1 of its two sides, -1 for none."""

    v0: int
    v1: int
    o0: int
    o1: int
    f0: int
    f1: int


class MeshAdjacency:
    """The edges of triangles by the pair of their vertices, the lower one first.

    Args:
        indices: Three vertices for each triangle.
        num_tris: The number of triangles; has no effect.
    """

    def __init__(self, indices: Sequence[Sequence[int]], num_tris: int) -> None:
        self.edges: dict[tuple[int, int], MeshEdge] = {}
        self.indices = indices
        for face, (a, b, c) in enumerate(indices):
            for start, end, opposite in ((a, b, c), (b, c, a), (c, a, b)):
                self.add_edge(start, end, opposite, face)

    def add_edge(self, i0: int, i1: int, o: int, f: int) -> None:
        """Add a side of an edge: a triangle f, and the vertex o opposite. A third one gives a message alone."""
        key = (min(i0, i1), max(i0, i1))
        edge = self.edges.get(key)
        if edge is None:
            self.edges[key] = MeshEdge(i0, i1, o, -1, f, -1)
        elif edge.f1 == -1:
            edge.o1, edge.f1 = o, f
        else:
            print("Detected non-manifold edge")
