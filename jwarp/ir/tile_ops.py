"""The rows of the table of operations that are about tiles, and about the memory that tiles become."""

from __future__ import annotations

from jwarp.ir.attributes import TapeNumber
from jwarp.ir.operation import ANY, BEFORE_LOWERING, BITS, FLOAT, NUMBER, Memory, Operation, Stage

# Of operations on the elements of a tile: the tile comes first, and a value last.
_AFTER_TILE, _BETWEEN = slice(1, None), slice(1, -1)
_READING, _TILING = frozenset({Stage.READING}), frozenset({Stage.TILING})
_LOWERED = frozenset({Stage.TILING, Stage.LOWERED})

TILE_TABLE: list[Operation] = [
    Operation(name, arity, kinds, None, doc, effect="tile", typed_by="attr", indices=indices, stages=BEFORE_LOWERING)
    for name, arity, kinds, indices, doc in (
        ("fill", 1, ANY, None, "a tile of shape `attr`, all of whose elements are x"),
        ("iota", 0, ANY, None, "int32 tile of shape attr[0]: the index of each element along axis attr[1]"),
        (
            "view",
            1,
            ANY,
            None,
            "`attr` is (shape, offset, strides): element (i, j…) of the result, which has that shape, is element"
            " offset + i * strides[0] + j * strides[1]… of the flattened tile",
        ),
        (
            "spread",
            1,
            NUMBER,
            None,
            "the transpose of `view` with the attr (…, offset, strides): a tile of shape attr[0], zero but for the"
            " elements that such a view would take, to which those of the argument are added",
        ),
        (
            "take",
            None,
            ANY,
            _AFTER_TILE,
            "args (tile, indices…): the element there; for indices that are tiles, a tile of elements. Negative"
            " indices count from the end; outside the tile, zero",
        ),
        (
            "put",
            None,
            ANY,
            _BETWEEN,
            "args (tile, indices…, value): the tile with another element, or other elements, there",
        ),
        (
            "put_add",
            None,
            NUMBER,
            _BETWEEN,
            "args (tile, indices…, value): the tile with value added to the element(s) there",
        ),
        (
            "reduce",
            1,
            ANY,
            None,
            "`attr` is (operation, axes): the elements along the axes combined; all of them: a scalar",
        ),
        (
            "arg",
            1,
            NUMBER,
            None,
            "number of the first element that is the `attr`, min or max, of the flattened tile; of NaNs, the first",
        ),
        (
            "scan",
            1,
            NUMBER,
            None,
            "`attr` is (operation, reverse, exclusive): each element combined with those before it in the flattened"
            " tile (after it, if reverse); exclusive leaves out the element itself",
        ),
        (
            "matmul",
            3,
            NUMBER,
            None,
            "args (a, b, c): a @ b + c, a or b transposed before as `attr` says. Sums of floats of 16 bits are made in"
            " float32 and rounded once",
        ),
        ("cholesky", 1, FLOAT, None, "the lower triangular L of L @ L.T == x; reads the lower triangle of x"),
        (
            "tri_solve",
            2,
            FLOAT,
            None,
            "args (t, b): x of t @ x == b for a triangular t; `attr` is (lower, transposed): which triangle is read,"
            " and whether t.T stands in the equation",
        ),
    )
]

# What only the frontend has, where threads of a block and tiles meet.
TILE_TABLE += [
    Operation("collect", 1, ANY, None, "the tile of what the threads of the block have of x", "tile", stages=_READING),
    Operation("own", 1, ANY, None, "the element of the tile that is this thread's", "tile", stages=_READING),
    *(
        Operation(
            f"put_{name}",
            None,
            BITS,
            None,
            "args (tile, indices…, value): the tile with the element(s) there combined with value",
            effect="tile",
            indices=_BETWEEN,
            stages=_READING,
        )
        for name in ("and", "or", "xor")
    ),
]

# What tiles are on the way to loops.
TILE_TABLE += [
    Operation("copy", 1, ANY, None, "the tile x, in memory of its own", effect="tile", stages=_TILING),
    Operation(
        "spread_add",
        2,
        NUMBER,
        None,
        "args (tile, x): the tile with `spread` of x added",
        effect="tile",
        stages=_TILING,
    ),
    Operation(
        "retrieve",
        0,
        ANY,
        None,
        "the tile that was last added to the tape, which is taken away",
        effect="look",
        typed_by="tape",
        attribute=TapeNumber,
        takes=Memory.TAPE,
        stages=_TILING,
    ),
]

# What tiles become: operations on the memory of a block.
TILE_TABLE += [
    Operation(
        name,
        0,
        ANY,
        None,
        doc,
        effect="write",
        reads=Memory.ELEMENTS,
        writes=Memory.ELEMENTS,
        stages=_LOWERED,
    )
    for name, doc in (
        (
            "tile_matmul",
            "`attr` is (c, a, b, m, n, k, accumulate, transpose_a, transpose_b): the shared array c becomes the m x n"
            " product of a and b, or that is added to it; they hold the rows of matrices one after the other",
        ),
        (
            "tile_scan",
            "`attr` is (target, source, size, kind, reverse, exclusive): the shared array `target` becomes what `scan`"
            " gives",
        ),
        (
            "tile_cholesky",
            "`attr` is (target, source, n): the shared array `target` becomes what `cholesky` gives for n x n",
        ),
        (
            "tile_solve",
            "`attr` is (target, triangle, n, m, lower, transposed): the shared array `target`, n x m numbers, becomes"
            " what `tri_solve` gives for it",
        ),
    )
]
