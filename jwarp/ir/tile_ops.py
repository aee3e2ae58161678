"""The rows of the table of operations that are about tiles, and about the memory that tiles become."""

from __future__ import annotations

from jwarp.ir.attributes import (
    BlockCholesky,
    BlockMatmul,
    BlockScan,
    BlockSolve,
    Combiner,
    Fourier,
    Iota,
    Reduction,
    Scan,
    Shape,
    Strided,
    TapeNumber,
    Transposes,
    Triangle,
)
from jwarp.ir.operation import ANY, BITS, FLOAT, NUMBER, Operation
from jwarp.ir.row_groups import BEFORE_LOWERING, Code, Memory, Numeric, Stage, Threads, Uses

# Of operations on the elements of a tile: the tile comes first, and a value last.
_AFTER_TILE, _BETWEEN = slice(1, None), slice(1, -1)
_READING, _TILING = frozenset({Stage.READING}), frozenset({Stage.TILING})
_LOWERED = frozenset({Stage.TILING, Stage.LOWERED})

TILE_TABLE: list[Operation] = [
    Operation(name, arity, kinds, None, doc, effect="tile", typed_by="attr", attribute=attribute, indices=indices,
              stages=BEFORE_LOWERING, numeric=Numeric(is_count=name in ("iota", "arg", "argsort")),
              combines="add" if name == "put_add" else "")
    for name, arity, kinds, attribute, indices, doc in (
        ("fill", 1, ANY, Shape, None, "a tile of the shape, all of whose elements are x"),
        ("iota", 0, ANY, Iota, None, "int32 tile: the index of each element along the axis"),
        ("view", 1, ANY, Strided, None, "a tile of elements of the tile x"),
        (
            "spread",
            1,
            NUMBER,
            Strided,
            None,
            "the transpose of `view`: a tile of the shape, zero but for the elements that a view of the shape of x"
            " would take from it, to which those of x are added",
        ),
        (
            "take",
            None,
            ANY,
            None,
            _AFTER_TILE,
            "args (tile, indices…): the element there; for indices that are tiles, a tile of elements. Negative"
            " indices count from the end; outside the tile, zero",
        ),
        (
            "put",
            None,
            ANY,
            None,
            _BETWEEN,
            "args (tile, indices…, value): the tile with another element, or other elements, there",
        ),
        (
            "put_add",
            None,
            NUMBER,
            None,
            _BETWEEN,
            "args (tile, indices…, value): the tile with value added to the element(s) there",
        ),
        ("reduce", 1, ANY, Reduction, None, "the elements along the axes combined; all of them: a scalar"),
        (
            "arg",
            1,
            NUMBER,
            Combiner,
            None,
            "number of the first element that is the min or max of the flattened tile; of NaNs, the first",
        ),
        (
            "scan",
            1,
            NUMBER,
            Scan,
            None,
            "each element combined with those before it in the flattened tile (after it, if reverse); exclusive leaves"
            " out the element itself",
        ),
        (
            "matmul",
            3,
            NUMBER,
            Transposes,
            None,
            "args (a, b, c): a @ b + c, a or b transposed before. Sums of floats of 16 bits are made in float32 and"
            " rounded once",
        ),
        ("argsort", 1, NUMBER, None, None, "int32 tile: the numbers of the elements of a tile of one axis in ascending"
         " order, of equal ones the first first, NaN last"),
        (
            "fourier",
            2,
            FLOAT,
            Fourier,
            None,
            "args (x, circle): sum of x[n] * exp(∓2πi k n / N) for each row, no factor in either direction; x has the"
            " real parts of the rows and then the imaginary ones, `circle` the cosines and sines of n / N of a turn",
        ),
        ("cholesky", 1, FLOAT, None, None, "the lower triangular L of L @ L.T == x; reads the lower triangle of x"),
        ("tri_solve", 2, FLOAT, Triangle, None, "args (t, b): x of t @ x == b for a triangular t"),
    )
]  # fmt: skip

# Operations of the frontend alone, between threads of a block and tiles.
TILE_TABLE += [
    Operation("collect", 1, ANY, None, "the tile of what the threads of the block have of x", "tile", stages=_READING),
    Operation(
        *("own", 1, ANY, None, "the element of the tile that is this thread's", "tile"),
        stages=_READING,
        threads=Threads(differ=True),
    ),
    Operation(
        "barrier", 0, ANY, None, "the threads of a block wait here until all have come", "check", stages=_READING
    ),
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
            combines=name,
        )
        for name in ("and", "or", "xor")
    ),
]

# Intermediate forms of tiles on the way to loops.
TILE_TABLE += [
    Operation("copy", 1, ANY, None, "the tile x, in memory of its own", effect="tile", stages=_TILING),
    Operation(
        "spread_add",
        2,
        NUMBER,
        None,
        "args (tile, x): the tile with `spread` of x added",
        effect="tile",
        attribute=Strided,
        stages=_TILING,
        combines="add",
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
        uses=Uses(takes=Memory.TAPE),
        stages=_TILING,
    ),
]

# The lowered forms of tiles: operations on the memory of a block.
TILE_TABLE += [
    Operation(
        name,
        0,
        ANY,
        None,
        doc,
        effect="write",
        attribute=attribute,
        uses=Uses(reads=Memory.ELEMENTS, writes=Memory.ELEMENTS),
        stages=_LOWERED,
        code=Code(is_unit=True),
    )
    for name, attribute, doc in (
        (
            "tile_matmul",
            BlockMatmul,
            "the shared array c becomes the product of a and b, or that is added to it; they hold the rows of matrices"
            " one after the other",
        ),
        ("tile_scan", BlockScan, "the shared array becomes what `scan` gives for another one"),
        ("tile_cholesky", BlockCholesky, "the shared array becomes what `cholesky` gives for another one"),
        ("tile_solve", BlockSolve, "the shared array becomes what `tri_solve` gives for it"),
    )
]
