"""Arrays of structs that hold arrays: outside kernels each has the axes of the elements in front of its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

F = wp.float64


@pytest.fixture(autouse=True)
def double_precision(x64):
    pass


@wp.struct
class Curve:
    points: wp.array[wp.vec3d]
    count: int
    table: wp.array2d[F]


@wp.func
def total(curve: Curve, weights: wp.array[F]):
    s = F(0.0)
    for k in range(curve.count):
        s += wp.dot(curve.points[k], curve.points[k]) * weights[k % weights.shape[0]]
    return s


@wp.kernel
def lengths(curves: wp.array[Curve], out: wp.array[F]):
    i = wp.tid()
    curve = curves[i]
    out[i] = total(curve, curves[-1].table[1]) + F(curve.table.shape[1])
    curves[i].table[0, i % 2] += curve.points[0].y
    curves[i].points[1].x = F(2.0) * curve.points[1].x


def curves_of(n, count, seed=0):
    rng = np.random.default_rng(seed)
    return Curve(
        points=jnp.asarray(rng.normal(size=(n, count, 3))),
        count=jnp.asarray(rng.integers(1, count + 1, n), jnp.int32),
        table=jnp.asarray(rng.normal(size=(n, 2, 5))),
    )


def expected_lengths(c):
    points, table = np.asarray(c.points), np.asarray(c.table)
    out = [
        sum(points[i, k] @ points[i, k] * table[-1, 1, k % 5] for k in range(int(c.count[i]))) + 5
        for i in range(len(points))
    ]
    table, points = table.copy(), points.copy()
    for i in range(len(points)):
        table[i, 0, i % 2] += points[i, 0, 1]
    points[:, 1, 0] *= 2
    return np.array(out), points, table


def run(c):
    found = wp.launch(lengths, c.count.shape[0], [c, jnp.zeros(c.count.shape[0])])
    return found["out"], found["curves"].points, found["curves"].table


def test_values_stores_and_sums():
    c = curves_of(7, 4)
    for found, expected in zip(run(c), expected_lengths(c), strict=True):
        np.testing.assert_allclose(found, expected)
    batch = jax.tree.map(lambda *xs: jnp.stack(xs), curves_of(7, 4), curves_of(7, 4, seed=1))
    for k, parts in enumerate(zip(*jax.jit(jax.vmap(run))(batch), strict=True)):
        for found, expected in zip(parts, expected_lengths(curves_of(7, 4, seed=k)), strict=True):
            np.testing.assert_allclose(found, expected)


def test_gradients():
    c = curves_of(6, 3)
    wp.check_grads(lambda points, table: run(c.replace(points=points, table=table)), (c.points, c.table))


@wp.struct
class Small:
    curves: wp.array[Curve]
    picked: wp.indexedarray[F]


@wp.kernel
def nested(x: wp.array[Small], out: wp.array[F]):
    i = wp.tid()
    s = x[i]
    out[i] = s.curves[1].points[i].z * s.picked[2] + s.curves[0].table[1, 2]
    if s.picked:
        x[i].picked[0] = F(7.0)
    x[i].curves[1].count = i


def test_nested():
    rng = np.random.default_rng(0)
    curves = Curve(
        points=rng.normal(size=(3, 2, 4, 3)), count=np.ones((3, 2), np.int32), table=rng.normal(size=(3, 2, 2, 3))
    )
    data, rows = rng.normal(size=(3, 5)), np.array([[1, 0, 3], [2, 4, 0], [4, 4, 4]], np.int32)
    i = np.arange(3)
    expected = curves.points[i, 1, i, 2] * data[i, rows[:, 2]] + curves.table[:, 0, 1, 2]
    stored = data.copy()
    stored[i, rows[:, 0]] = 7.0
    found = wp.launch(nested, 3, [Small(curves=curves, picked=wp.indexedarray(data, [rows])), np.zeros(3)])
    np.testing.assert_allclose(found["out"], expected)
    np.testing.assert_array_equal(found["x"].picked.data, stored)
    np.testing.assert_array_equal(found["x"].curves.count, np.stack([np.ones(3), i], 1))


ERRORS = {
    "whole element": ("c[0] = «c[1]»", wp.KernelTypeError, "the address of `c.points` is looked up"),
    "whole array": ("c[0].points = «c[1].points»", wp.KernelTypeError, "the address of `c.points` is looked up"),
    "tile": ("t = wp.tile_load(«c», shape=4)", wp.KernelTypeError, "Curve has arrays, which elements of tiles"),
    "local": ("q = wp.zeros(shape=2, dtype=Curve)", wp.KernelTypeError, "field `points` of .*Curve.* is an array"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name, tmp_path):
    line, error, words = ERRORS[name]
    path = tmp_path / "broken.py"
    path.write_text(
        f"import jwarp as wp\nfrom {__name__} import Curve\n@wp.kernel\ndef k(c: wp.array[Curve]):\n    "
        + line.replace("«", "").replace("»", "")
        + "\n"
    )
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with pytest.raises(error, match=words) as caught:
        wp.inspect(names["k"], "ir")
    assert "broken.py:5" in str(caught.value)


def test_other_axes_in_front_are_refused():
    c = curves_of(4, 3)
    with pytest.raises(wp.LaunchError, match="'curves.points' is for an array of shape .3,., 'curves.count' for"):
        run(c.replace(points=c.points[:3]))
    with pytest.raises(wp.KernelTypeError, match="curves.table"):
        run(c.replace(table=c.table[:, 0]))


def test_there_are_four_dimensions_at_most():
    with pytest.raises(wp.KernelTypeError, match="'c.table' has 2 dimension.s. and array3d.Curve., which holds it, 3"):

        @wp.kernel
        def deep(c: wp.array3d[Curve]):
            c[0, 0, 0].count = 1
