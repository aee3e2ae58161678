"""Composite types as Python objects: one for each description, by kind, kept by copies and pickles."""

import copy
import pickle
import threading

import numpy as np
import pytest

import jwarp as wp
from jwarp.types import KINDS, MATRIX, NAMED, VECTOR, ArrayType, CompositeKind, composite, of_components

pytestmark = pytest.mark.quick


def test_names_are_those_of_the_kinds():
    assert NAMED["vec3ui"] is wp.vec3ui is wp.types.vec3ui and wp.vec3ui.name == "vec3ui"
    assert NAMED["mat33f"] is wp.mat33 and not hasattr(wp, "mat33i") and repr(wp.types.matrix((3, 3), int)) == "mat33i"
    assert {name for name, type_ in NAMED.items() if type_ is wp.vec2} == {"vec2", "vec2f"}
    assert KINDS["vector"] is VECTOR and KINDS["matrix"] is MATRIX and repr(VECTOR) == "<composite kind vector>"
    assert of_components((), wp.float32) is wp.float32
    assert of_components((3,), wp.float32) is wp.vec3 and of_components((2, 2), wp.float64) is wp.mat22d


def test_kinds_of_one_shape_are_different_types(monkeypatch):
    point = CompositeKind("point", "points", "point", ((3,),), ("", "d"), shape=(3,), repeats=False)
    monkeypatch.setitem(KINDS, "point", point)
    point3 = composite(point, (3,), wp.float32)
    assert point3 is not wp.vec3 and not point3.is_vector and point3 is composite(point, (3,), wp.float32)
    assert repr(point3) == "point" and repr(composite(point, (3,), wp.int8)) == "pointb"
    assert repr(composite(point, (3,), wp.bfloat16)) == "point(bfloat16)"
    assert wp.array[point3] != wp.array[wp.vec3] and wp.array[point3].array_type.components == (3,)
    assert repr(wp.array2d[point3]) == "wp.array2d[point]"
    with pytest.raises(wp.KernelTypeError, match="expected 3 elements, got 1"):
        point3(1.0)
    value = point3(1, 2, 3)
    for other in (value, value * 2, copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert other.type_in_kernels(wp.float32) is point3
    assert value[:2].type_in_kernels(wp.float32) is wp.vec2
    assert pickle.loads(pickle.dumps(point3)) is point3 and copy.deepcopy(point) is point


def test_array_types():
    kind = ArrayType(wp.mat22d, 2)
    assert wp.array2d[wp.mat22d] == wp.array2d[wp.mat22d] and kind == wp.array2d[wp.mat22d].array_type
    assert (kind.dtype, kind.components, kind.ndim, kind.dims) == (wp.float64, (2, 2), 4, 2)
    plain = wp.array[float].array_type
    assert (plain.element, plain.dtype, plain.components, plain.ndim) == (wp.float32, wp.float32, (), 1)


@pytest.mark.parametrize("kind", [wp.vec3, wp.types.vector(7, wp.float64), wp.types.matrix((2, 3), wp.int8), MATRIX])
def test_types_are_pickled_by_description(kind):
    assert pickle.loads(pickle.dumps(kind)) is kind and copy.deepcopy(kind) is kind
    if kind is not MATRIX:
        assert pickle.loads(pickle.dumps(wp.array2d[kind])) == wp.array2d[kind]


def test_values_are_copied_as_what_they_are():
    value = wp.mat22(1, 2, 3, 4)
    for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert type(other) is type(value) and other is not value
        np.testing.assert_array_equal(other, value)


def test_threads_get_the_same_type():
    lengths, found = range(100, 160), [[] for _ in range(4)]
    start = threading.Barrier(4)

    def make(mine):
        start.wait()
        mine += [wp.types.vector(n, wp.float32) for n in lengths]

    threads = [threading.Thread(target=make, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len({id(t) for t in same}) == 1 for same in zip(*found, strict=True))


def test_values_are_shown_as_in_warp():
    assert str(wp.vec3(1.0, 0.5, -2.0)) == "[1.0, 0.5, -2.0]"
    assert f"{wp.vec2i(1, 2)} {wp.quat_identity()}" == "[1, 2] [0.0, 0.0, 0.0, 1.0]"
    assert str(wp.mat22(1.0, 2.0, 3.0, 4.0)) == "[[1.0, 2.0],\n [3.0, 4.0]]"
    assert str(wp.vec2h(0.1, 0.5)) == "[0.0999755859375, 0.5]"  # the numbers as they are, in double


def test_values_are_true_and_lie_in_buffers_as_in_warp():
    assert wp.vec3() and wp.quat() and wp.mat33()[1] and any(row for row in wp.mat33())
    with pytest.raises(ValueError, match="ambiguous"):
        bool(wp.vec3() < wp.vec3(1.0, 0.0, 0.0))
    memory = np.arange(8, dtype=np.float32)
    t, copy = wp.transform.from_buffer(memory, 4), wp.transform.from_buffer_copy(memory, 4)
    t.p = wp.vec3(-1.0, -2.0, -3.0)
    assert memory.tolist() == [0, -1, -2, -3, 4, 5, 6, 7] and copy.p.tolist() == [1, 2, 3] and t.q[3] == 7


def test_a_value_is_an_instance_of_its_type():
    v = wp.vec3(1.0, 2.0, 3.0)
    assert type(v) is wp.vec3 and isinstance(v, np.ndarray) and not isinstance(v, wp.vec3d)
    assert type(v * 2) is wp.vec3 and type(v[0:2]) is wp.vec2 and type(v.astype(np.float64)) is wp.vec3d
    assert type(wp.mat22(1.0)[0]) is wp.vec2 and type(wp.transform().q) is wp.quat and type(wp.quat()[:3]) is wp.vec3
    assert type(np.ones((1000, 3), np.float32) * v) is not wp.vec3  # and of no type that kernels have
    assert wp.vec3.shape == v.shape == (3,) and wp.vec3.dtype is wp.float32 and v.dtype == np.float32


def test_components_that_there_are_not():
    v = wp.vec3(1.0, 2.0, 3.0)
    for name in ("xy", "w", "xyzw"):
        with pytest.raises(AttributeError, match=f"'vec3f' object has no attribute '{name}'"):
            getattr(v, name)
        with pytest.raises(AttributeError, match=f"'vec3f' object has no attribute '{name}'"):
            setattr(v, name, 9.0)  # would change nothing
    v.foo = 9
    assert v.foo == 9 and list(v) == [1.0, 2.0, 3.0]
    assert (wp.vec3.full_name, wp.vec4d.full_name, wp.types.vector(5, float).full_name) == (
        *("vec3f", "vec4d", "vector(5, float32)"),
    )
    with pytest.raises(TypeError, match="^got an unexpected keyword argument 'pos'"):
        wp.transform(pos=wp.vec3(), rot=wp.quat())


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: wp.mat22((1, 2, 3), (3, 4, 5)), r"expected row of length 2, got \(1, 2, 3\)"),
        (lambda: wp.mat22((1, 2), (3, 4, 5)), r"expected row of length 2, got \(3, 4, 5\)"),
        (lambda: wp.mat22(1, 2, 3), "expected 4 elements, got 3"),
        (lambda: wp.transform(1.5, 2.5), "Invalid argument 'p' .*: expected a sequence, got float"),
        (lambda: wp.transform(q=1.0), "Invalid argument 'q' .*: expected a sequence, got float"),
        (lambda: wp.transform(*range(7), q=(0, 0, 0, 1)), "multiple values for argument 'q'"),
        (lambda: wp.transform(*range(7), r=(0, 0, 0, 1)), "unexpected keyword argument 'r'"),
    ],
)
def test_a_value_of_other_components_is_refused_by_the_one_that_does_not_fit(made, words):
    with pytest.raises(wp.KernelTypeError, match=words):
        made()
