"""The families of arrays and the types of arguments, as `warp._src.types` tells them."""

import functools
from typing import Any

import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface
from jwarp.programs import array_types, packing, type_tables


class Derived(wp.array):
    pass


class Indexed(wp.indexedarray):
    pass


class Both(wp.array, wp.indexedarray):
    pass


@wp.struct
class Pair:
    k: float


def values():
    x = Derived([1.0, 2.0], dtype=float)
    return x, Indexed(x, [wp.zeros(1, dtype=int)]), wp.zeros((2, 2), dtype=wp.vec3)


def test_the_family_is_that_of_the_class():
    x, shown, _ = values()
    assert array_types.family_of(x) is wp.array and type_tables.concrete_array_type(x) is wp.array
    assert array_types.family_of(shown) is wp.indexedarray
    assert array_types.family_of(np.zeros(2)) is None and type_tables.concrete_array_type(3.0) is float
    assert type_tables.concrete_array_type(Derived) is type
    assert type_tables.concrete_array_type(wp.indexedarray[float]) is wp.indexedarray
    assert type_tables.concrete_array_type(wp.array[Any]) is wp.array
    with pytest.raises(TypeError, match="more than one native array family"):
        array_types.family_of(object.__new__(Both))
    assert not wp.types.type_is_array(Derived) and wp.types.type_is_array(wp.array)
    assert wp.types.is_array(x)


def test_arguments_tell_their_types():
    x, shown, rows = values()
    given = [x, shown, rows, 3, 2.0, True, np.float64(1), wp.vec3(1.0), Pair()]
    found = array_types.infer_argument_types(given, [Any] * len(given))
    wanted = [wp.array[float], wp.indexedarray[float], wp.array2d[wp.vec3], wp.int32, wp.float32, wp.bool, wp.float64]
    assert found[:7] == wanted
    assert wp.types.types_equal(found[7], wp.vec3) and found[8] is Pair
    assert array_types.infer_argument_types([None], [x]) == [wp.array[float]]
    assert array_types.get_signature(found[:5]) == "a1f4_ia1f4_a2v3f4_i4_f4"


@pytest.mark.parametrize("given", [wp.array[float], wp.array[Any], wp.indexedarray[float], "text"])
def test_what_is_no_argument_has_no_type(given):
    with pytest.raises(TypeError, match="Unable to infer"):
        array_types.infer_argument_types([given], [Any], ["x"])


def test_types_fit_annotations():
    x, shown, _ = values()
    assert array_types.type_matches_template(x, wp.array[Any])
    assert array_types.type_matches_template(shown, wp.indexedarray[Any])
    for template in (wp.array[wp.float64], wp.array2d[float], wp.indexedarray[Any]):
        assert not array_types.type_matches_template(x, template)
    with pytest.raises(TypeError, match="'y': type mismatch"):
        array_types.infer_argument_types([x], [wp.array2d[Any]], ["y"])


def test_a_generic_kernel_tells_the_types_of_a_launch():
    @wp.kernel
    def double(x: wp.array[Any], y: wp.array[Any]):
        y[wp.tid()] = x[wp.tid()] * type(x[0])(2.0)

    x, *_ = values()
    kinds = double.infer_argument_types([x, wp.zeros(2)])
    assert double.add_overload(kinds) is wp.overload(double, [wp.array[float], wp.array[float]])


class WithInterface:
    """An array of another library, which knows NumPy's protocol alone."""

    def __init__(self, shown):
        self.shown = shown

    @property
    def __array_interface__(self):
        return self.shown.__array_interface__


@wp.kernel
def double(x: wp.array[float], y: wp.array[float]):
    y[wp.tid()] = x[wp.tid()] * 2.0


def test_programs_launch_on_what_has_an_array_interface(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)
    x, y = np.array([1.0, 3.0], np.float32), wp.zeros(2)
    wp.launch(double, 2, [WithInterface(x)], [y])
    np.testing.assert_array_equal(y.numpy(), [2.0, 6.0])
    wp.launch(double, 2, [y], [WithInterface(x)])
    np.testing.assert_array_equal(x, [4.0, 12.0])
    with pytest.raises(RuntimeError, match=r"of another dtype, the array made at"):
        wp.launch(double, 2, [wp.zeros(2, dtype=int)], [y])
    with pytest.raises(RuntimeError, match=r"of another number of dimensions, the array made at"):
        wp.launch(double, 2, [wp.zeros((2, 2))], [y])


def test_descriptors_say_where_arrays_are():
    x = Derived(np.zeros((2, 3), np.float32), dtype=float, requires_grad=True)
    about = x.__ctype__()
    assert (about.data, about.grad, about.ndim) == (x.ptr, x.grad.ptr, 2)
    assert (list(about.shape[:2]), list(about.strides[:2])) == ([2, 3], [12, 4])
    assert x.__ctype__() is about
    x.grad = wp.zeros((2, 3))
    assert x.__ctype__().grad == x.grad.ptr
    indices = wp.zeros(1, dtype=int)
    shown = Indexed(x, [indices, None]).__ctype__()
    assert shown.data.data == x.ptr and shown.indices[0] == indices.ptr and list(shown.shape[:2]) == [1, 3]


class Wrong(wp.array):
    def __ctype__(self):
        return 3


class OfOtherRank(wp.array):
    def __ctype__(self):
        made = super().__ctype__()
        made.ndim = 3
        return made


def test_arguments_are_packed_as_they_fit():
    x, shown, _ = values()
    pack = functools.partial(packing.pack_arg, double, device="cpu")
    assert pack(wp.array[float], "a", x) is x.__ctype__()
    assert bytes(pack(wp.indexedarray[float], "a", shown)) == bytes(shown.__ctype__())
    assert pack(wp.indexedarray[float], "a", x, adjoint=True) is x.__ctype__()
    assert pack(wp.array[float], "a", None).data == 0 and pack(wp.float32, "k", 2).value == 2.0
    for kind, value, words in (
        (wp.array[int], x, "expects an array with dtype int32, not float32"),
        (wp.array2d[float], x, r"expects an array with 2 dimension\(s\), but it has 1"),
        (wp.array[float], shown, "expects an array of type .*, but passed value has type Indexed"),
        (wp.indexedarray[float], x, "expects an array of type .*, but passed value has type Derived"),
        (wp.array[float], wp.array[float], "expects an array of type"),
        (wp.array[float], object.__new__(Both), "more than one native array family"),
        (wp.array2d[float], Wrong(np.zeros((1, 1)), dtype=float), "gave int, which is incompatible with array_t"),
        (wp.array[float], OfOtherRank([1.0], dtype=float), r"the descriptor has 3 dimension\(s\), not 1"),
        (wp.float32, "text", "str is no number or array"),
    ):
        with pytest.raises(RuntimeError, match=f"argument 'a'.*{words}"):
            pack(kind, "a", value)
