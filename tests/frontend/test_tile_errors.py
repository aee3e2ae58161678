"""Errors of tiles in kernels have a class, a reason and a way out.

In the bodies below `«` and `»` stand around the text that the caret must point at.
"""

import pytest
from error_checks import C, T, check

import jwarp as wp

KERNEL = (
    "import jwarp as wp\n\n"
    "@wp.struct\nclass Pair:\n    x: float\n    y: float\n\n"
    "@wp.func\ndef pair(x: float):\n    return x, x\n\n"
    "@wp.func\ndef plus(x: float, y: float):\n    return x + y\n\n"
    "@wp.func\ndef wide(x: float, y: float):\n    return wp.float64(x)\n\n"
    "@wp.func\ndef scaled(t: wp.tile(dtype=float, shape=(4, 4)), s: float) -> wp.tile[float, 4, 4]:\n"
    "    return t * s\n\n"
    "@wp.func\ndef turned(t: wp.tile[float]) -> wp.tile[float, 4]:\n    return t[0] * 1.0 + t[1, 0:4]\n\n"
    "@wp.func\ndef changing(t: wp.tile[float]):\n    t[0] = 1.0\n    return True\n\n"
    "@wp.func\ndef summed(x: float):\n    return wp.tile_sum(wp.tile(x))[0]\n\n"
    "@wp.func\ndef listed(x: float):\n    a = wp.zeros(shape=2, dtype=float)\n    a[int(x)] = x\n    return a[0]\n\n"
    "@wp.func\ndef graded(x: float):\n    return x\n\n"
    "@wp.func_grad(graded)\ndef adj_graded(x: float, y: float):\n    wp.adjoint[x] += y\n\n"
    "@wp.kernel\n"
    "def k(a: wp.array[float], b: wp.array2d[float], v: wp.array[wp.vec3], p: wp.array[Pair], n: int, x: float):\n"
    "    i, lane = wp.tid()\n"
    "    t, u = wp.tile_load(b, (4, 4)), wp.tile_load(a, 4)\n"
    "    w, q = wp.tile_load(v, 4), wp.tile_arange(4, dtype=int)\n"
)

# A kernel body, the error, words of its reason, words of the way out.
BODIES = {
    # shapes and types
    "varying shape": ("s = wp.tile_zeros(«n»)", C, "`shape` must be made of constant integers", "wp.static"),
    "shape of floats": ("s = wp.tile_zeros(shape=«(2.0, 2)»)", C, "`shape` must be made of constant", ""),
    "no extent": ("s = wp.tile_zeros(«(2, 0)»)", T, "extents of a tile are positive, not (2, 0)", ""),
    "five dimensions": ("s = wp.tile_zeros(«(1, 1, 1, 1, 2)»)", T, "1 to 4 dimensions: tile_zeros() output", ""),
    "too large": ("s = «wp.tile_zeros((1024, 512))»", C, "has 2097152 bytes, a tile may have 1048576", "smaller tiles"),
    "ones of structs": ("s = wp.tile_ones(2, dtype=«Pair»)", T, "`dtype` must be a scalar, vector or matrix", ""),
    "load of a number": ("s = wp.tile_load(«x», 4)", T, "`a` must be an array", ""),
    "load of another rank": ("s = wp.tile_load(«b», 4)", T, "a row of an array is a[i]", ""),
    "offset of another rank": ("s = wp.tile_load(b, (2, 2), «3»)", T, "`offset` has 1 number(s), `b` has 2", ""),
    "offset of a float": ("s = wp.tile_load(a, 4, «x»)", T, "index of `a` must be an integer, not float32", ""),
    "storage": ("s = wp.tile_zeros(4, storage=«'stack'»)", T, "`storage` must be 'register' or 'shared'", ""),
    "flag": ("s = wp.tile_load(a, 4, bounds_check=«n»)", T, "`bounds_check` must be True or False", ""),
    "missing argument": ("s = «wp.tile_load(a)»", T, "missing a required argument: 'shape'", ""),
    "unknown keyword": ("s = «wp.tile_zeros(4, kind=float)»", T, "unexpected keyword argument 'kind'", ""),
    "own array": ("z = wp.zeros(shape=4, dtype=float)\ns = wp.tile_load(«z», 4)", T, "`z` is a thread's own array", ""),
    "stored to another type": ("wp.tile_store(a, «q»)", T, "`a` holds float32, the tile int32", ""),
    "stored number": ("wp.tile_store(a, «x»)", T, "`t` must be a tile, not float32", ""),
    "stored array": ("wp.tile_store(a, «b»)", T, "`t` must be a tile, not array2d[float32]", "wp.tile_load"),
    "stored to another rank": ("wp.tile_store(«a», t)", T, "2 dimension(s) does not fit `a`, which has 1", ""),
    "value of another type": (
        "s = wp.tile_full(4, «wp.vec3(x)», float)",
        T,
        "`value` is vec3, the tile is of float32",
        "",
    ),
    "range of a variable": ("s = «wp.tile_arange(n)»", C, "must be compile time constants", ""),
    "empty range": ("s = «wp.tile_arange(4, 4)»", T, "from 4.0 to 4.0 in steps of 1 is empty", ""),
    "range without steps": ("s = «wp.tile_arange(0, 4, 0)»", T, "step cannot be zero", ""),
    "range too far": (
        "s = «wp.tile_arange(0, 1099511627776, dtype=int)»",
        T,
        "stop=1099511627776 is out of range for int32",
        "",
    ),
    "range past floats": ("s = «wp.tile_arange(0.0, 1e300)»", T, "stop=1e+300 is out of range for float32", ""),
    "axis that there is not": ("s = wp.tile_squeeze(t, «2»)", T, "axis 2 is out of bounds for tile with 2", ""),
    "fractions in a range of integers": (
        "s = «wp.tile_arange(0.5, 4, dtype=int)»",
        T,
        "start=0.5 has a fractional part",
        "",
    ),
    # operators
    "two shapes": ("s = «t + u»", T, "needs tiles of one shape, not (4, 4) and (4,)", ""),
    "two types": (
        "s = «u + wp.tile_astype(u, wp.float64)»",
        T,
        "elements of types (float32, float64)",
        "wp.tile_astype",
    ),
    "tile plus number": ("s = «t + 1.0»", T, "needs tiles on both sides", "wp.tile_full"),
    "tile times int": ("s = «u * 2»", T, "elements of types (float32, int32)", "2.0"),
    "vectors times vectors": (
        "s = «w * w»",
        T,
        "Cannot multiply tile<vec3> by tile<vec3>: of one of them the element type must be scalar",
        "",
    ),
    "tile modulo tile": ("s = «q % q»", T, "`%` does not take tiles", "wp.tile_map"),
    "tile at tile": ("s = «t @ t»", T, "`@` does not take tiles", "wp.tile_matmul"),
    "compared tiles": ("s = «u» < u", T, "must be a scalar, not tile(float32, shape=(4,))", "wp.tile_map"),
    "tile as condition": ("if «u»:\n    pass", T, "condition must be a scalar, not tile", "t[i]"),
    "bits of floats": ("s = «u & u»", T, "`&` does not take", ""),
    "sine of a tile": ("s = «wp.sin(u)»", T, "wp.sin does not take tiles", "wp.tile_map(wp.sin"),
    "printed tile": ("print(«wp.tile_zeros((20, 20), dtype=float)»)", T, "more than the 256 elements", "print a part"),
    "in place of another shape": ("«u += t»", T, "needs tiles of one shape, not (4,) and (4, 4)", ""),
    # elements and views
    "index too far": ("s = u[«4»]", C, "index 4 is out of bounds: it is outside 0 to 3", ""),
    "index of a float": ("s = u[«x»]", T, "an index of a tile must be an integer, not float32", ""),
    "too many indices": ("s = «u[0, 1]»", T, "has 1 dimension(s), 2 index(es) given", ""),
    "component too far": ("s = «w[0, 3]»", C, "index 3 is outside 0 to 2", ""),
    "varying slice": ("s = u[«n»:]", C, "bounds of a slice of a tile must be constants", "wp.tile_view"),
    "empty slice": ("s = «u[3:1]»", C, "this slice of 4 elements is empty", ""),
    "two tiles of indices": ("s = «t[q, q]»", T, "one tile of indices selects along one axis", ""),
    "indices of floats": ("s = «t[u]»", T, "must be an integer index tile with one axis", ""),
    "assigned to gathered rows": ("«t[q]» = t", C, "cannot be assigned to", "wp.tile_scatter"),
    "element of another type": ("u[0] = «n»", T, "`u` holds float32, the value is int32", "convert it"),
    "component of another type": ("w[0].x = «n»", T, "`w` holds float32 there, the value is int32", ""),
    "component of a number": ("«u[0][1]» = x", T, "float32 has no components", ""),
    "row of another shape": ("t[0] = «u[0:2]»", T, "`t` is tile(float32, shape=(4,)) there", ""),
    "number for a row": ("t[0] = «x»", T, "float32 does not fit", "give a tile"),
    "scaled row": ("«t[0] *= x»", C, "`*=` does not change a part of a tile", "assign it"),
    "changed broadcast": (
        "s = wp.tile_broadcast(u, (2, 4))\n«s[:, 0]» = u[0:2]",
        C,
        "a broadcast tile cannot be changed",
        "copy it",
    ),
    "broadcast to another shape": (
        "s = wp.tile_broadcast(u, «(4, 2)»)",
        T,
        "shape (4,) is not broadcast to (4, 2)",
        "",
    ),
    "another size": ("s = «wp.tile_reshape(t, (3, -1))»", T, "has 16 elements", ""),
    "reshaped columns": ("s = wp.tile_reshape(«t[:, 0:2]», 8)", T, "do not lie one after the other", "copy it"),
    "squeezed axis": ("s = wp.tile_squeeze(t, «0»)", T, "axis 0 of a tile of shape (4, 4) is none of extent 1", ""),
    "nothing left": ("s = «wp.tile_squeeze(u[0:1])»", T, "no dimension of a tile", "t[0]"),
    "transposed row": ("s = wp.tile_transpose(«u»)", T, "`a` must be a tile of two dimensions", ""),
    "view too far": ("s = «wp.tile_view(t, (1, 1), (4, 2))»", T, "4 elements from 1 on do not fit axis 0", ""),
    "view of an element": ("s = «wp.tile_view(t, (1, n))»", T, "this is one element, and no tile", "t[i, j]"),
    "offset of a view": (
        "s = wp.tile_view(t, «(-1,)»)",
        T,
        "offset -1 is out of bounds: it is outside 0 to 3",
        "t[-1]",
    ),
    "assigned too far": ("«wp.tile_assign(u, u, 1)»", T, "from 1 on along axis 0 does not fit", ""),
    "assigned to another rank": ("«wp.tile_assign(t, u)»", T, "1 dimension(s) is not assigned to one of 2", ""),
    "extracted without index": ("s = «wp.tile_extract(t, 1)»", T, "needs 2 indices, 1 given", ""),
    "two names": ("s = «r» = u * 2.0", C, "assigned to one name at a time", ""),
    "another shape for a name": ("«t» = t[0:2] * 2.0", T, "shape=(4, 4)) and cannot become tile", ""),
    # functions
    "map of two shapes": ("s = wp.tile_map(plus, t, «u»)", T, "the tiles have shapes (4, 4) and (4,)", ""),
    "map of a number": ("s = wp.tile_map(wp.sin, «x»)", T, "`a` must be a tile, not float32", ""),
    "map of no function": ("s = wp.tile_map(«x», u)", T, "`op` must be a function", ""),
    "map of a kernel": ("s = «wp.tile_map(k, u)»", C, "`k` is a kernel", ""),
    "map with two results": (
        "s = «wp.tile_map(pair, u)»",
        T,
        "must give one number, vector, matrix or struct",
        "one value",
    ),
    "map of another type": ("s = wp.tile_map(plus, u, «q»)", T, "`y` of `plus` must be float32, not int32", ""),
    "map of tiles": ("s = wp.tile_map(summed, u)", C, "cannot use tiles", ""),
    "map with arrays": ("s = «wp.tile_map(listed, u)»", T, "cannot have arrays of its own", ""),
    "map with a gradient": ("s = «wp.tile_map(graded, u)»", T, "cannot have a gradient of its own yet", ""),
    "sum along no axis": ("s = wp.tile_sum(t, «2»)", T, "there is no axis 2 of 2", ""),
    "largest vector": ("s = wp.tile_max(«w»)", T, "`a` must be a tile of scalars", ""),
    "reduced to another type": (
        "s = wp.tile_reduce(«wide», u)",
        T,
        "must give float32 for two of such, not float64",
        "",
    ),
    "dot of two types": ("s = «wp.tile_dot(u, q)»", T, "the tiles must have one type and shape", ""),
    "product of two shapes": (
        "s = «wp.tile_matmul(t, t[0:3])»",
        T,
        "(4, 4) is not multiplied with one of shape (3, 4)",
        "",
    ),
    "product of rows": ("s = wp.tile_matmul(t, «u»)", T, "a tile of floats with two dimensions", ""),
    "product of integers": ("z = wp.tile_ones((4, 4), int)\ns = wp.tile_matmul(«z», z)", T, "tile of floats", ""),
    "product into another shape": ("wp.tile_matmul(t, t, «t[0:2]»)", T, "the product has shape (4, 4)", ""),
    "precision": ("s = wp.tile_matmul(t, t, precision=«'low'»)", T, "`precision` must be 'default' or 'tf32'", ""),
    "factor of a wide tile": ("s = wp.tile_cholesky(«t[0:2]»)", T, "square tile of float32 or float64", ""),
    "triangle": ("s = wp.tile_cholesky(t, «'left'»)", T, "`fill_mode` must be 'lower' or 'upper'", ""),
    "other equations": ("s = wp.tile_lower_solve(t, «u[0:3]»)", T, "must be a tile of float32 with 4 rows", ""),
    "argument of another shape": (
        "s = scaled(«u», x)",
        T,
        "must be tile(float32, shape=(4, 4)), not tile(float32, shape=(4,))",
        "",
    ),
    "changed in a condition": (
        "s = «x > 0.0 and changing(u)»",
        C,
        "a tile is changed in a part of an expression",
        "if",
    ),
    # the threads of a block
    "varying offset": ("s = wp.tile_load(a, 4, «lane»)", T, "this differs between the threads of a block", "wp.tile("),
    "varying value": ("s = wp.tile_full(4, «float(lane)»)", T, "this differs between the threads of a block", ""),
    "varying row": ("wp.tile_store(«b[lane]», u)", T, "this differs between the threads of a block", ""),
    "varying factor": ("s = «u * float(lane)»", T, "this differs between the threads", "wp.tile_from_thread"),
    "load by some threads": (
        "if lane > 2:\n    s = «wp.tile_load(a, 2)»\na[1] = x",
        C,
        "must reach a tile operation together",
        "move it",
    ),
    "sum by some threads": (
        "if a[lane] > x:\n    a[0] = «wp.tile_sum(u)»[0]\na[1] = x",
        C,
        "must reach a tile operation together",
        "",
    ),
    "tile of some threads": (
        "if lane > 2:\n    s = «wp.tile(x)»\na[1] = x",
        C,
        "must reach a tile operation together",
        "",
    ),
    "change by some threads": (
        "if lane > 2:\n    u = «u * 2.0»\na[1] = x",
        C,
        "must reach a tile operation together",
        "move it",
    ),
    "in a loop of some threads": ("for j in range(lane):\n    s = «wp.tile_sum(u)»", C, "together", ""),
    "element at a computed index": (
        "for j in range(lane):\n    a[0] = «u[j]»",
        C,
        "is read under a condition",
        "",
    ),
    "untile of another width": ("s = wp.untile(«u»)", T, "the last dimension of the tile is 4, a block has 8", ""),
    "no such thread": ("s = wp.tile_from_thread(4, x, «8»)", T, "there is no thread 8 of 8", ""),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_mistake_with_tiles(name, tmp_path):
    text, error, words, hint = BODIES[name]
    source = KERNEL + "".join(f"    {line}\n" for line in text.split("\n"))
    check(source, error, words, hint, tmp_path, lambda kernel: kernel.block_ir(None, 8, 1))


def test_functions_on_tiles_are_for_kernels():
    for call in (lambda: wp.tile_zeros(4), lambda: wp.tile_map(wp.sin, 1.0), lambda: wp.untile(1.0)):
        with pytest.raises(TypeError, match="only be called inside a kernel"):
            call()


def test_annotations():
    assert repr(wp.tile(dtype=float, shape=4)) == "tile(float32, shape=(4,))"
    assert wp.tile[wp.vec3, (2, 3)] == wp.tile(dtype=wp.vec3, shape=(2, 3))
    for make in (lambda: wp.tile("x", 4), lambda: wp.tile(float, (0, 2)), lambda: wp.tile[float, 1, 2, 3, 4, 5]):
        with pytest.raises(wp.KernelTypeError, match=r"wp\.tile"):
            make()


def test_a_kernel_takes_no_tiles():
    with pytest.raises(wp.CompileError, match="which kernels do not know"):

        @wp.kernel
        def k(t: wp.tile[float, 4]):
            pass


def test_block_sizes():
    @wp.kernel
    def k(a: wp.array[float]):
        wp.tile_store(a, wp.tile_load(a, 64) + wp.tile(1.0))

    assert k.uses_tiles and k.ir().block_dim == 64
    with pytest.raises(wp.KernelTypeError, match=r"one shape, not \(64,\) and \(256,\)"):
        k.block_ir(None, 256, None)
    with pytest.raises(wp.CompileError, match="block_dim must be 1 to 1024, not 2048"):

        @wp.kernel
        def other(a: wp.array[int]):
            a[0] = wp.block_dim()

        other.block_ir(None, 2048, None)
