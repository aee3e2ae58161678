"""Mutable arrays, compared with Warp's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import warp

import jwarp as wp

pytestmark = pytest.mark.quick

DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
DTYPES += ["bool", "vec3", "vec4ub", "mat22d", "quat", "transform", "mat33"]


def same(own: Any, other: Any) -> None:
    """Assert that an array has the content and the layout of one of Warp's."""
    assert own.shape == tuple(other.shape) and own.strides == tuple(other.strides)
    assert (own.ndim, own.size, own.is_contiguous) == (other.ndim, other.size, other.is_contiguous)
    assert str(own.dtype).rstrip("f") == warp._src.types.type_repr(other.dtype).rpartition(".")[2].rstrip("f")
    found, expected = own.numpy(), other.numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def both(make: Any) -> tuple[Any, Any]:
    return make(wp), make(warp)


MAKERS = {
    "list": lambda w: w.array([1.0, 2.0, 3.0], dtype=float),
    "list of its own type": lambda w: w.array([[1, 2, 3], [4, 5, 6]]),
    "vectors of a list": lambda w: w.array([[1, 2, 3], [4, 5, 6]], dtype=w.vec3),
    "vectors along an axis": lambda w: w.array(np.arange(12.0), dtype=w.vec3),
    "vectors of one": lambda w: w.array([1.0, 2.0, 3.0], dtype=w.vec3),
    "vectors of values": lambda w: w.array([w.vec3(1.0, 2.0, 3.0), w.vec3(4.0, 5.0, 6.0)], dtype=w.vec3),
    "matrices along an axis": lambda w: w.array(np.arange(18.0), dtype=w.mat33),
    "shape": lambda w: w.array(np.arange(12), dtype=w.int32, shape=(3, 4)),
    "shape of vectors": lambda w: w.array(np.arange(24.0), dtype=w.vec2, shape=(3, 4)),
    "converted": lambda w: w.array(np.array([1.7, -2.2]), dtype=w.int32),
    "strided": lambda w: w.array(np.arange(20.0).reshape(4, 5)[::2, 1::3], dtype=w.float64, copy=False),
    "zeros": lambda w: w.zeros((2, 3), dtype=w.vec2),
    "nothing": lambda w: w.zeros(0, dtype=w.vec3),
    "n": lambda w: w.zeros(n=3),
    "ones": lambda w: w.ones(3, dtype=w.mat22),
    "full of a number": lambda w: w.full(3, 2.5),
    "full of an int": lambda w: w.full((2, 2), 3),
    "full of a vector": lambda w: w.full(2, w.vec3(1.0, 2.0, 3.0)),
    "full of a list": lambda w: w.full(2, [[1.0, 2.0], [3.0, 4.0]], dtype=w.mat22),
    "like": lambda w: w.full_like(w.zeros((2, 2), dtype=w.uint8), 7),
    "from_numpy": lambda w: w.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "from_numpy of matrices": lambda w: w.from_numpy(np.arange(12, dtype=np.float64).reshape(3, 2, 2)),
    "strides": lambda w: _filled(w.zeros(shape=(3, 2), dtype=float, strides=(4, 12)), 3.0),
    "clone": lambda w: w.clone(w.array(np.arange(12.0), dtype=w.float64).reshape((3, 4))[:, 1:3]),
}


def _filled(array: Any, value: Any) -> Any:
    array.fill_(value)
    return array


@pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))
def test_made_as_by_warp(make):
    same(*both(make))


VIEWS = {
    "part": lambda w, a: a[1:3],
    "steps": lambda w, a: a[::2, 1:],
    "from the end": lambda w, a: a[-2:, :-1],
    "row": lambda w, a: a[1],
    "column": lambda w, a: a[:, 2],
    "transposed": lambda w, a: a.transpose(),
    "axes": lambda w, a: a.transpose((1, 0)),
    "flat": lambda w, a: a.flatten(),
    "reshaped": lambda w, a: a.reshape((2, -1)),
    "reshaped to one": lambda w, a: a.reshape(12),
    "of a view": lambda w, a: a[1:][1:, 1:].transpose()[1:],
    "other bits": lambda w, a: a.view(w.int32),
    "contiguous": lambda w, a: a[:, 1:].contiguous(),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_views_show_the_same_memory(view):
    content = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    (own, shown), (other, other_shown) = (
        (a, view(w, a)) for w, a in ((w, w.array(content, dtype=w.float32)) for w in (wp, warp))
    )
    same(shown, other_shown)
    shown.fill_(5)
    other_shown.fill_(5)
    same(own, other)


def test_vectors_seen_as_numbers_and_back():
    for w in (wp, warp):
        a = w.array(np.arange(12.0), dtype=w.vec4)
        a.view(float)[1:].fill_(7.0)
        assert a.numpy()[0].tolist() == [0.0, 1.0, 2.0, 3.0] and (a.numpy()[1:] == 7).all()
        assert a.view(float).view(w.quat).shape == (3,) and a.view(w.mat22).numpy().shape == (3, 2, 2)


COPIES = {
    "all": lambda w, a, b: w.copy(a, b),
    "offsets": lambda w, a, b: w.copy(a, b, dest_offset=2, src_offset=5, count=3),
    "shorter": lambda w, a, b: w.copy(a, b[:1]),
    "strided": lambda w, a, b: w.copy(a[:, 1:3], b[:, :2]),
    "assigned": lambda w, a, b: a.assign(b),
    "assigned numbers": lambda w, a, b: a.assign(np.arange(12.0).reshape(3, 4)),
    "zeros": lambda w, a, b: a[1].zero_(),
    "onto itself": lambda w, a, b: w.copy(a.flatten(), a.flatten(), dest_offset=1, src_offset=0, count=5),
}


@pytest.mark.parametrize("change", COPIES.values(), ids=list(COPIES))
def test_copies(change):
    rng = np.random.default_rng(1)
    content = rng.normal(size=(2, 3, 4)).astype(np.float32)
    own, other = ([w.array(x, dtype=float) for x in content] for w in (wp, warp))
    change(wp, *own)
    change(warp, *other)
    same(own[0], other[0])
    same(own[1], other[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_of_elements(dtype):
    rng = np.random.default_rng(2)
    own, other = ((w, w.zeros((2, 3), dtype=getattr(w, dtype))) for w in (wp, warp))
    shape = own[1].numpy().shape
    content = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(own[1].numpy().dtype)
    for _, array in (own, other):
        array.assign(content)
        array[1].fill_(1)
    same(own[1], other[1])


def test_numpy_shares_its_memory():
    a = wp.zeros(4)
    shown = a[1:3].numpy()
    shown[:] = [5, 6]
    assert a.numpy().tolist() == [0, 5, 6, 0] and a.ptr % 64 == 0 and shown.base is not None
    lent = np.zeros(3)
    b = wp.array(lent, dtype=wp.float64, copy=False)
    b.fill_(2.0)
    assert lent.tolist() == [2, 2, 2] and b.ptr == lent.ctypes.data
    c = wp.array(ptr=b.ptr, shape=(3,), dtype=wp.float64)
    c[1:].fill_(9.0)
    assert lent.tolist() == [2, 9, 9] and np.asarray(c).tolist() == [2, 9, 9]


def test_memory_that_may_only_be_read():
    lent = np.arange(3.0)
    lent.flags.writeable = False
    a = wp.array(lent, dtype=wp.float64, copy=False)
    for write in (lambda: a.fill_(1.0), a.zero_, lambda: wp.copy(a, wp.zeros(3, dtype=wp.float64))):
        with pytest.raises(wp.LaunchError, match=r"made at .*test_arrays.py:\d+ is read-only"):
            write()
    assert wp.clone(a).numpy().tolist() == [0, 1, 2]


def test_what_is_kept_of_the_content():
    a = wp.array(np.arange(6.0), dtype=float).reshape((2, 3))
    kept, row = a.memory.keep(a.layout), a.memory.keep(a[1].layout)
    assert not kept.is_saved
    a.fill_(7.0)
    assert kept.array().tolist() == [[0, 1, 2], [3, 4, 5]] and row.array().tolist() == [3, 4, 5]
    again = a.memory.keep(a.layout)
    del kept, row
    shown = a.numpy()
    late = a.memory.keep(a.layout)
    shown[...] = 1.0  # which nobody can see
    assert late.array().tolist() == [[7] * 3] * 2 == again.array().tolist()


ERRORS = {
    "element": (lambda a: a[0, 0], wp.LaunchError, "cannot be read by an index"),
    "indices": (lambda a: a[0, 0, 0], wp.LaunchError, "3 indices for an array of 2"),
    "outside": (lambda a: a[5], wp.LaunchError, "index 5 is outside"),
    "slice": (lambda a: a[1:9], wp.LaunchError, "1:9:1 is not inside"),
    "step": (lambda a: a[::-1], wp.LaunchError, "positive step"),
    "reshape": (lambda a: a.reshape(5), wp.LaunchError, r"\(size 6\) into shape \(5,\)"),
    "strided reshape": (lambda a: a[:, 1:].reshape(4), wp.LaunchError, "only contiguous"),
    "view": (lambda a: a.view(wp.float64), wp.KernelTypeError, "4 bytes"),
    "fill": (lambda a: a.fill_("x"), wp.KernelTypeError, "cannot be filled"),
    "copy": (lambda a: wp.copy(a, wp.zeros(9)), wp.LaunchError, "do not fit"),
    "copy of another size": (lambda a: wp.copy(a, wp.zeros(6, dtype=wp.int8)), wp.KernelTypeError, "differ in size"),
    "data": (lambda a: wp.array(3.0), wp.KernelTypeError, "sequence or an array"),
    "words": (lambda a: wp.array(["a"], dtype=float), wp.KernelTypeError, "cannot be an array"),
    "shape": (lambda a: wp.zeros((1, 1, 1, 1, 1)), wp.LaunchError, "at most 4"),
    "negative": (lambda a: wp.zeros(-1), wp.LaunchError, "must be non-negative"),
    "negative strides": (lambda a: wp.empty(3, int, strides=(-4,)), NotImplementedError, "Negative strides"),
    "dtype": (lambda a: wp.zeros(1, dtype=str), wp.KernelTypeError, "elements of an array"),
    "device": (lambda a: wp.zeros(1, device="cuda:7"), wp.LaunchError, "cuda:7"),
    "annotation": (lambda a: wp.array(dtype=float).numpy(), wp.LaunchError, "annotation"),
    "gradient": (lambda a: setattr(a, "grad", wp.zeros(2)), wp.LaunchError, "gradient"),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=list(ERRORS))
def test_refused(case):
    wrong, error, words = case
    with pytest.raises(error, match=words):
        wrong(wp.zeros((2, 3)))


def test_gradients_are_viewed_with_their_arrays():
    a = wp.zeros((2, 3), dtype=wp.vec3, requires_grad=True)
    assert a.requires_grad and a.grad.shape == (2, 3) and not a.grad.requires_grad
    a[1].grad.fill_(2.0)
    a.flatten()[:1].grad.fill_(3.0)
    assert a.grad.numpy()[:, :, 0].tolist() == [[3, 0, 0], [2, 2, 2]]
    a.requires_grad = False
    assert a.grad is None and a[0].grad is None


def test_annotations():
    assert type(wp.array[float]).__name__ == "ArrayAnnotation" and isinstance(wp.array(dtype=float), wp.array)
    assert wp.array[float] == wp.array[wp.float32] == wp.array(dtype=float).__class__[float] != wp.array2d[float]
    assert wp.array2d(dtype=wp.vec3, ndim=2).dtype is wp.vec3 and wp.array[wp.vec3].ndim == 1
    a = wp.zeros(3)
    a.anything = "goes"
    assert a.anything == "goes" and wp.array2d([[1.0]]).shape == (1, 1)


@pytest.mark.parametrize("copy", [True, False])
def test_arrays_of_uint16_are_the_bits_of_bfloat16(copy):
    rng = np.random.default_rng(16)
    numbers = rng.normal(size=(6, 3)).astype(ml_dtypes.bfloat16)
    bits = numbers.view(np.uint16)
    for given, known in ((bits, numbers), (bits[::2, ::-1], numbers[::2, ::-1])):
        a = wp.array(given, dtype=wp.bfloat16, copy=copy)
        np.testing.assert_array_equal(a.numpy(), known)
    rows = wp.array(bits, dtype=wp.types.vector(3, wp.bfloat16))
    np.testing.assert_array_equal(rows.numpy(), numbers)
    rows.zero_()
    rows.assign(bits)
    np.testing.assert_array_equal(rows.numpy(), numbers)
    for other in (np.int16, np.uint32, np.float32):
        counts = rng.integers(1, 100, 5).astype(other)
        np.testing.assert_array_equal(wp.array(counts, dtype=wp.bfloat16).numpy().astype(other), counts)
    assert wp.array([np.uint16(3)], dtype=wp.bfloat16).numpy() == 3
