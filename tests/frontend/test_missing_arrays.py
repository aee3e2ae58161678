"""Fields of structs that nobody gave an array, structs without fields, and local arrays of structs."""

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.interpreter.machine import run

OFFSET = wp.vec3(1.0, 2.0, 3.0)


@wp.struct
class Geom:
    kind: int
    points: wp.array[wp.vec3]
    table: wp.array2d[float]


@wp.struct
class Nothing:
    pass


@wp.func
def geom(kind: int, points: wp.array[wp.vec3], table: wp.array2d[float]):
    g = Geom()
    g.kind = kind
    if kind == 1:
        g.points = points
    if kind >= 1:
        g.table = table
    return g


@wp.func
def size(g: Geom, nothing: Nothing):
    s = 0.0
    if g.kind >= 0:
        for k in range(g.points.shape[0]):
            s += g.points[k].x * g.points[-1].y
        s += 10.0 * g.table[1, 2] + 100.0 * float(len(g.table))
    if g.points:
        s += 1000.0
    return s


@wp.kernel
def sizes(
    kinds: wp.array[int],
    points: wp.array[wp.vec3],
    table: wp.array2d[float],
    nothing: Nothing,
    r: wp.array[float],
    length: wp.array[int],
):
    i = wp.tid()
    g = geom(kinds[i], points, table)
    empty = Geom()
    for k in range(kinds[i] * 3):
        empty.kind += 1
        if empty.kind > 100:
            r[i] += empty.points[k].x
            empty.points[k] = OFFSET
            wp.atomic_add(empty.table, k, 0, 1.0)
    many, n = wp.vec2(1.0, 2.0), 3
    length[i] = wp.static(len(many) * n) + empty.points.shape[0]
    r[i] += size(g, Nothing()) + size(empty, nothing)


@wp.kernel
def compared(r: wp.array[float]):
    if wp.static(OFFSET == None):  # noqa: E711 as programs for Warp say it
        r[0] = 1.0
    else:
        r[0] = OFFSET[1]


def arrays():
    points = np.arange(12, dtype=np.float32).reshape(4, 3)
    return np.array([0, 1, 2], np.int32), points, np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_field_has_an_array_where_a_condition_gave_it_one():
    kinds, points, table = arrays()
    of_points = float((points[:, 0] * points[-1, 1]).sum())
    want = [0.0, of_points + 50 + 200 + 1000, 250.0]
    got = run(sizes.ir(), (3,), [kinds, points, table, np.zeros(3, np.float32), np.zeros(3, np.int32)])
    assert got[-2].tolist() == want
    assert got[-1].tolist() == [6, 6, 6]
    fn = wp.jax_kernel(sizes, num_outputs=2, launch_dims=3, output_dims=3)
    r, _ = fn(kinds, jnp.asarray(points), jnp.asarray(table), Nothing())
    assert r.tolist() == want
    wp.check_grads(lambda p, t: fn(kinds, p, t, Nothing())[0], (jnp.asarray(points) / 4, jnp.asarray(table)))


def test_debug_mode_finds_an_access_to_no_array():
    kinds, points, table = arrays()
    with wp.config(debug=True), pytest.raises(RuntimeError, match="`points` has no array here"):
        wp.launch(sizes, 3, [kinds + 40, jnp.asarray(points), jnp.asarray(table), Nothing()], [3, 3])


def test_a_vector_is_not_none():
    assert not str(wp.inspect(compared, "ir")).count("1.0")
    assert (OFFSET != None) is True  # noqa: E711


@wp.struct
class Inner:
    v: wp.vec2


@wp.struct
class Cell:
    n: int
    d: float
    inner: Inner


@wp.func
def cells_of(x: wp.array[float]):
    cells = wp.zeros(shape=(2, 3), dtype=Cell)
    for i in range(2):
        for j in range(3):
            cells[i][j].n = i * 3 + j
            cells[i, j].d = x[j] * x[j]
            cells[i, j].inner.v.x += x[i]
    return cells


@wp.kernel
def of_cells(x: wp.array[float], r: wp.array[float]):
    i = wp.tid()
    cells = cells_of(x)
    cell = cells[1][i]
    r[i] = float(cell.n) * cell.d + cell.inner.v.x * cells[0, i].inner.v[0]


def test_local_arrays_hold_structs():
    fn, x = wp.jax_kernel(of_cells, launch_dims=3, output_dims=3), jnp.asarray([1.0, 2.0, 3.0])
    np.testing.assert_allclose(fn(x)[0], [3 * 1 + 2, 4 * 4 + 2, 5 * 9 + 2])
    wp.check_grads(fn, (x,))
    with pytest.raises(wp.KernelTypeError, match="field `points` of Geom is an array"):
        wp.inspect(of_geoms, "ir")


@wp.kernel
def of_geoms(r: wp.array[float]):
    many = wp.zeros(shape=3, dtype=Geom)
    r[0] = float(many[0].kind)
