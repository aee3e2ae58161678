"""In-place launches below `wp.launch`: what arrays are for, setters, and arrays that share memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp
from jwarp.compiler.program import program_of
from jwarp.config import config
from jwarp.dispatch.call.checks import Place, Use
from jwarp.dispatch.executables.host import InPlace
from jwarp.launching import geometry


@wp.kernel
def scale(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = k * x[i]


@wp.kernel
def relax(x: wp.array[float], v: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    v[i] = v[i] * wp.sin(x[i])
    if i > 0:
        y[i] = v[i] * x[i - 1]


@wp.kernel
def history(n: int, y: wp.array[float]):
    for i in range(1, n):
        y[i] = y[i - 1] + y[i]


@pytest.fixture
def random():
    return np.random.default_rng(9)


def floats(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


def number(value, dtype=np.float32):
    return Place(np.array(value, dtype))


def record(kernel, dims, *places):
    program = program_of(kernel, config.settings)
    return InPlace(program, geometry.fold(dims, kernel.ir(config.settings).tid_dims, kernel.name), places)


def test_setters(random):
    x, y, z = floats(random, 6), np.zeros(6, np.float32), np.zeros(6, np.float32)
    launch = record(scale, (6,), Place(x), number(2), Place(y, Use.IN_OUT))
    launch()
    assert_array_equal(y, 2 * x)
    with wp.record_compiles() as events:
        launch.set_places({1: number(3), 2: Place(z, Use.IN_OUT)})
        launch.set_geometry(geometry.Geometry((4, 1, 1, 1)))
        launch()
    assert {event.source for event in events} == {"memory"}
    with wp.record_compiles() as events:
        launch.set_places({1: number(4)})
        launch.set_places({1: number(3)})
        launch()
    assert events == []
    assert_array_equal(z, np.where(np.arange(6) < 4, 3 * x, 0))
    assert_array_equal(y, 2 * x)
    longer = floats(random, 9)
    launch.set_places({0: Place(longer[::-1])})
    launch()
    assert_array_equal(z[:4], 3 * longer[::-1][:4])


def test_a_refused_setter_changes_nothing(random):
    x, y = floats(random, 6), np.zeros(6, np.float32)
    launch = record(scale, (6,), Place(x), number(2), Place(y, Use.IN_OUT))
    with pytest.raises(wp.LaunchError, match="outside axis 0 of `x`"):
        launch.set_places({0: Place(x[:3]), 1: number(5)})
    with pytest.raises(wp.LaunchError, match="outside axis 0"):
        launch.set_geometry(geometry.Geometry((7, 1, 1, 1)))
    with pytest.raises(wp.LaunchError, match="overlaps"):
        launch.set_places({0: Place(y[::-1]), 1: number(5)})
    launch()
    assert_array_equal(y, 2 * x)


def test_setters_change_what_is_one_array(random):
    """Another program runs while an array is both read and written."""
    x, y = floats(random, 6), floats(random, 6)
    launch = record(scale, (6,), Place(x), number(2), Place(y, Use.IN_OUT))
    expected = 2 * x
    launch.set_places({2: Place(x, Use.IN_OUT)})
    launch()
    assert_array_equal(x, expected)
    launch.set_places({2: Place(y, Use.IN_OUT)})
    launch()
    assert_array_equal(y, 2 * expected)
    assert_array_equal(x, expected)


def test_copies_start_anew(random):
    x, v, y = floats(random, 8), floats(random, 8), np.zeros(8, np.float32)
    before = v.copy()
    launch = record(relax, (8,), Place(x), Place(v, Use.COPY), Place(y, Use.IN_OUT))
    for _ in range(3):
        launch()
        assert_array_equal(v, before)
        assert_allclose(y[1:], (v * np.sin(x))[1:] * x[:-1], rtol=1e-5)
        v += 1
        before = v.copy()


def test_scratch_starts_as_zeros(random):
    x, v, y = floats(random, 8), floats(random, 8), np.full(8, np.nan, np.float32)
    launch = record(relax, (8,), Place(x), Place(v, Use.COPY), Place(y, Use.SCRATCH))
    launch()
    assert y[0] == 0


def test_a_resized_array_is_an_error():
    y = np.zeros(6, np.float32)
    launch = record(scale, (6,), Place(np.ones(6, np.float32)), number(2), Place(y, Use.IN_OUT))
    y.resize((2, 3), refcheck=False)
    with pytest.raises(wp.LaunchError, match=r"kernel 'scale'.*changed its shape"):
        launch()
    assert_array_equal(y, 0)


def test_an_in_out_array_is_read_where_it_is():
    y = np.arange(20, dtype=np.float32)
    record(history, (1,), number(20, np.int32), Place(y[::-1], Use.IN_OUT))()
    assert_array_equal(y[::-1], np.cumsum(np.arange(19, -1, -1)))
