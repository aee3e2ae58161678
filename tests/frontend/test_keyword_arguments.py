"""Builtins called with arguments by name."""

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.frontend.builtins.table import BUILTINS
from jwarp.frontend.builtins.tiles.calls import TileBuiltin

RNG = np.random.default_rng(11)


@wp.kernel
def by_name(x: wp.array[float], v: wp.array[wp.vec3], out: wp.array2d[float]):
    i = wp.tid()
    out[i, 0] = wp.clamp(high=1.5, low=-0.5, x=x[i])
    out[i, 1] = wp.clamp(x[i], high=0.25, low=-0.25)
    out[i, 2] = wp.atan2(x=x[i], y=2.0)
    out[i, 3] = wp.select(x[i] > 0.0, value_if_true=1.0, value_if_false=2.0)
    out[i, 4] = wp.where(value_if_false=3.0, cond=x[i] > 0.0, value_if_true=4.0)
    out[i, 5] = wp.lerp(t=0.25, b=x[i], a=1.0)
    out[i, 6] = wp.dot(b=wp.cross(b=v[i], a=wp.vec3(1.0, 2.0, 3.0)), a=wp.vec3(x[i]))
    out[i, 7] = wp.min(a=v[i]) - wp.max(b=x[i], a=0.125)
    wp.atomic_add(out, value=x[i], j=8, i=i)
    wp.atomic_sub(value=x[i], arr=out, i=i, j=9)


def test_arguments_by_name_take_their_places():
    x, v = RNG.normal(size=16).astype(np.float32), RNG.normal(size=(16, 3)).astype(np.float32)
    (out,) = wp.launch(by_name, 16, [jnp.asarray(x), jnp.asarray(v)], [(16, 10)])
    expected = [
        np.clip(x, -0.5, 1.5),
        np.clip(x, -0.25, 0.25),
        np.arctan2(2.0, x),
        np.where(x > 0, 1.0, 2.0),
        np.where(x > 0, 4.0, 3.0),
        0.75 + 0.25 * x,
        x * np.cross([1.0, 2.0, 3.0], v).sum(1),
        v.min(1) - np.maximum(x, 0.125),
        x,
        -x,
    ]
    np.testing.assert_allclose(out, np.stack(expected, 1), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("call", ["wp.clamp(x, low=0.0)", "wp.clamp(x, x=1.0, high=2.0)", "wp.sin(y=x)"])
def test_names_that_do_not_fit_are_refused(call, tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(f"import jwarp as wp\n\n@wp.kernel\ndef k(x: float, y: wp.array[float]):\n    y[0] = {call}\n")
    names = {}
    exec(compile(file.read_text(), file, "exec"), names)
    with pytest.raises(wp.KernelTypeError, match="does not take the arguments") as error:
        names["k"].ir()
    assert "its parameters are" in str(error.value)


ROWS = {n: b for n, b in BUILTINS.items() if not b.binds and not isinstance(b, TileBuiltin)}


def test_the_names_are_those_of_warp():
    known = pytest.importorskip("warp._src.context").builtin_functions
    assert len(ROWS.keys() & known.keys()) > 90
    for name in ROWS.keys() & known.keys():
        assert {*ROWS[name].named_forms} <= {tuple(form.input_types) for form in known[name].overloads}, name


def test_every_builtin_but_a_few_takes_its_arguments_by_name():
    unnamed = {"matrix_from_cols", "matrix_from_rows", "tid", "range", "printf", "print", "breakpoint"}
    assert {name for name, row in ROWS.items() if not any(row.named_forms)} == unnamed


@wp.kernel
def of_defaults(q: wp.array[wp.quat], t: wp.array[wp.transformd], x: wp.array[float]):
    q[0] = wp.quat_identity()
    t[0] = wp.transform_identity(dtype=wp.float64)
    own = wp.zeros(2)
    own[1] = 3.0
    x[0] = own[0] + own[1]


def test_types_that_are_left_out():
    q, x = np.zeros((1, 4), np.float32), np.zeros(1, np.float32)
    t = np.zeros((1, 7))
    wp.launch(of_defaults, 1, outputs=[q, t, x])
    assert (q.tolist(), t.tolist(), x.tolist()) == ([[0, 0, 0, 1]], [[0, 0, 0, 0, 0, 0, 1]], [3])
