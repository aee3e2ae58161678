"""In programs, fields of structs take what Warp's take: values are converted and checked when they are given."""

import numpy as np
import pytest
from fresh_python import run_forked

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
    with pytest.raises(
        wp.KernelTypeError, match=rf"'{field}' expects {name} but got a single value of type {type(value).__name__}"
    ) as raised:
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


@wp.struct
class Inner:
    v: wp.vec3


@wp.struct
class Outer:
    inner: Inner
    d: wp.vec3d
    i: wp.vec2i
    e: wp.int64
    h: wp.float16
    b: bool


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("v", wp.vec3d(1.5, 2.0, 3.0), wp.vec3(1.5, 2.0, 3.0)),
        ("v", wp.types.vector(3, wp.int8)(1, 2, 3), wp.vec3(1.0, 2.0, 3.0)),
        ("v", range(3), wp.vec3(0.0, 1.0, 2.0)),
        ("m", wp.types.matrix((2, 2), wp.float64)(1.0, 2.0, 3.0, 4.0), wp.mat22(1.0, 2.0, 3.0, 4.0)),
        ("m", wp.vec4(1.0, 2.0, 3.0, 4.0), wp.mat22(1.0, 2.0, 3.0, 4.0)),
        ("m", np.arange(4), wp.mat22(0.0, 1.0, 2.0, 3.0)),
        ("q", wp.vec4(1.0, 2.0, 3.0, 4.0), wp.quat(1.0, 2.0, 3.0, 4.0)),
        ("t", wp.types.vector(7, wp.float64)(*range(7)), wp.transform(*range(7))),
        ("v", wp.types.vector(3, wp.bfloat16)(1.0, 2.0, 3.0), wp.vec3(1.0, 2.0, 3.0)),
    ],
)
def test_vectors_of_other_types_become_those_of_the_field(field, value, wanted):
    s = Things(**{field: value})
    found = getattr(s, field)
    assert type(found) is type(wanted) and np.array_equal(found, wanted)
    y, z = wp.zeros(1), wp.zeros(1)
    wp.launch(read, 1, [s], [y])
    wp.launch(read, 1, [Things(**{field: wanted})], [z])
    assert y.numpy()[0] == z.numpy()[0]


@pytest.mark.parametrize(
    ("kind", "field", "value", "words"),
    [
        (Things, "v", "abc", "expects vec3f but got str"),
        (Things, "v", ("a", "b", "c"), "must be real numbers"),
        (Things, "v", (1, None, 3), "must be real numbers"),
        (Things, "v", {"a": 1}, "expects vec3f but got dict"),
        (Things, "v", np.zeros((3, 1)), "must be real numbers"),
        (Things, "t", ((1, 2, 3), (0, 0, 0, 1)), "expects transformf but got"),
        (Outer, "i", (1.5, 2.5), "a float cannot be interpreted as an integer"),
        (Outer, "i", wp.vec2(1.0, 2.0), "a float cannot be interpreted as an integer"),
        (Outer, "e", 2.0, "a float cannot be interpreted as an integer"),
        (Outer, "e", np.float32(2.0), "a float cannot be interpreted as an integer"),
        (Outer, "e", np.array(2.0), "a float cannot be interpreted as an integer"),
        (Outer, "e", [1], "must be real number, not list"),
        (Things, "x", "1.5", "must be real number, not str"),
        (Things, "x", 1 + 2j, "must be real number, not complex"),
        (Things, "x", np.array([1.5]), "must be real number, not ndarray"),
        (Things, "x", wp.vec3(), "must be real number, not vec3"),
    ],
)
def test_other_values_are_refused_where_they_are_given(kind, field, value, words):
    with pytest.raises(wp.KernelTypeError, match=words) as raised:
        setattr(kind(), field, value)
    assert isinstance(raised.value, TypeError) and field in str(raised.value)


@pytest.mark.parametrize("value", [wp.vec2(1.0, 2.0), wp.quat(), (1, 2), wp.vec4(), np.zeros(4)])
def test_vectors_of_another_length_are_refused(value):
    with pytest.raises(ValueError, match="expected 3 elements, got [24]"):
        Things().v = value


def test_numbers_keep_their_types_and_none_is_zero():
    s, o = Things(), Outer()
    for value in (2, 2.5, True, np.float64(2.5), np.array(2.5)):
        s.x = value
        assert type(s.x) is type(value)
    s.x = o.e = o.h = None
    assert s.x == o.e == o.h == 0
    o.b = "x"
    assert o.b is True


@pytest.mark.parametrize("value", [None, 5, "x", {"v": (0, 0, 0)}, (1.0,), Things()])
def test_structs_take_structs_of_their_type(value):
    with pytest.raises(RuntimeError, match=r"'inner' expects a struct of type .*Inner"):
        Outer().inner = value


def test_structs_in_structs_are_copied_with_their_vectors():
    inner, outer = Inner(), Outer()
    inner.v = (1, 2, 3)
    outer.inner = inner
    inner.v[0] = 50.0
    assert list(outer.inner.v) == [1.0, 2.0, 3.0]
    outer.inner.v[0] = 7.0
    assert inner.v[0] == 50.0 and outer.inner.v[0] == 7.0


NUMBERS = """
import jwarp.as_warp
import warp as wp

@wp.struct
class S:
    x: float
    n: wp.uint8
    b: bool

s = S()
s.x, s.b = wp.float64(2.5), wp.int32(2)
print(repr(s.x), s.b)
s.x, s.n = wp.int32(3), wp.int32(400)
print(repr(s.x), repr(s.n))
try:
    s.n = wp.float32(2.0)
except TypeError as error:
    print(error)
"""


def test_numbers_of_types_of_kernels_become_the_fields():
    assert run_forked(NUMBERS).splitlines()[:3] == [
        "float32(2.5) True",
        "float32(3.0) uint8(144)",
        "Struct field 'n' expects uint8 but got float32(2.0): a float cannot be interpreted as an integer",
    ]
