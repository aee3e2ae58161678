"""In programs, fields of structs take what Warp's take: values are converted and checked when they are given."""

import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)


@wp.struct
class Things:
    v: wp.vec3
    m: wp.mat22
    q: wp.quat
    t: wp.transform
    n: wp.uint8
    x: float


@wp.struct
class Arrays:
    a: wp.array[int]
    rows: wp.array2d[wp.vec3]
    shown: wp.indexedarray[int]


@wp.kernel
def read(s: Things, y: wp.array[float]):
    y[0] = s.v[1] + s.m[1, 0] + s.q[3] + s.t[6]


@pytest.mark.parametrize("make", [tuple, list, np.array])
def test_sequences_become_vectors_and_matrices(make):
    s = Things()
    given = make([1, 2, 3])
    s.v, s.m, s.q, s.t = given, make([1, 2, 30, 4]), make([0, 0, 0, 400]), make([0, 0, 0, 0, 0, 0, 5000])
    y = wp.zeros(1)
    wp.launch(read, 1, [s], [y])
    assert y.numpy()[0] == 5432.0
    assert isinstance(s.m, wp.mat22) and s.m[1, 0] == 30.0
    if make is not tuple:
        given[1] = 9
        assert list(s.v) == [1.0, 2.0, 3.0]  # a value, not the sequence
    assert list(Things(v=make([1, 2, 3])).v) == [1.0, 2.0, 3.0]
    s.m = make([make([1, 2]), make([3, 4])])
    assert np.array(s.m).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    s.v = None
    assert list(s.v) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("value", [123, 1.5, True, np.float32(1.5)])
@pytest.mark.parametrize(("field", "name"), [("v", "vec3f"), ("m", "mat22f"), ("q", "quatf"), ("t", "transformf")])
def test_one_number_is_no_vector(field, name, value):
    with pytest.raises(wp.KernelTypeError, match=rf"'{field}' expects {name} but got a single value") as raised:
        setattr(Things(), field, value)
    assert isinstance(raised.value, TypeError)


def test_fields_begin_as_numbers_of_their_types():
    s = Things()
    assert type(s.n) is type(wp.uint8(0)) and type(s.x) is type(wp.float32(0.0))
    s.n = 3
    assert type(s.n) is int


def test_arrays_fit_their_fields():
    s = Arrays()
    whole = wp.zeros(3, dtype=int)
    s.a, s.rows, s.shown = whole, wp.zeros((2, 2), dtype=wp.vec3), wp.indexedarray(whole, [wp.zeros(1, dtype=int)])
    s.a = s.shown = None
    for field, value, words in (
        ("a", [1, 2], "a Warp array, got list"),
        ("a", wp.zeros(3), "dtype int32, got float32"),
        ("a", wp.indexedarray(whole, [whole]), "a Warp array, got indexedarray"),
        ("shown", whole, "a Warp indexed array, got array"),
        ("rows", wp.zeros(2, dtype=wp.vec3), r"an array with 2 dimension\(s\), got 1 dimension\(s\)"),
    ):
        with pytest.raises(TypeError, match=f"Struct field '{field}' expects {words}"):
            setattr(s, field, value)
    s.a = np.zeros(3, np.int32)  # which launches look at


def test_vectors_are_copied_when_they_are_given():
    listed, place = [], wp.vec3(0.0, 0.0, 0.0)
    for _ in range(3):
        s = Things()
        s.v = place
        listed.append(s)
        place[0] += 1.0
    assert wp.array(listed, dtype=Things).numpy()["v"][:, 0].tolist() == [0.0, 1.0, 2.0]
    other = Things(v=listed[2].v)
    other.v[0] = 5.0
    assert listed[2].v[0] == 2.0 and other.v[0] == 5.0
    part = other.v  # which is the field itself
    part[0] = 50.0
    assert other.v[0] == 50.0


def test_fields_that_nothing_is_given_for_are_zeros():
    assert list(Things().t) == [0.0] * 7 and list(Things().q) == [0.0] * 4
