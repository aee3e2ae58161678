"""Arrays of structs, compared with Warp's."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import warp

import jwarp as wp


@wp.struct
class Inner:
    a: wp.int8
    q: wp.quatd


@wp.struct
class Body:
    flag: bool
    mass: float
    v: wp.vec3
    inner: Inner
    count: wp.int64


def of_warp(w: Any) -> Any:
    """The same structs of a library."""

    class Inner:
        a: w.int8
        q: w.quatd

    made = w.struct(Inner)

    class Body:
        flag: bool
        mass: float
        v: w.vec3
        inner: made
        count: w.int64

    return w.struct(Body)


@wp.kernel
def moved(b: wp.array[Body], y: wp.array[float]):
    i = wp.tid()
    b[i].v = b[i].v * b[i].mass
    b[i].count += wp.int64(i)
    y[i] = b[i].v[0]


def filled(n: int, seed: int = 0) -> tuple[np.ndarray, Any]:
    rng = np.random.default_rng(seed)
    content = wp.zeros(n, dtype=Body).numpy()
    content["flag"], content["mass"] = rng.integers(2, size=n), rng.normal(size=n)
    content["v"], content["count"] = rng.normal(size=(n, 3)), rng.integers(99, size=n)
    content["inner"]["a"], content["inner"]["q"] = rng.integers(99, size=n), rng.normal(size=(n, 4))
    return content, wp.array(content, dtype=Body)


def test_layout_and_content_are_warps():
    other = warp.zeros(3, dtype=of_warp(warp))
    content, own = filled(3)
    assert own.numpy().dtype == other.numpy().dtype and own.strides == other.strides
    np.testing.assert_array_equal(own.numpy(), content)
    assert repr(own) == "array(shape=(3,), dtype=Body)" and len(own.list()) == 3
    again = wp.array(own.list(), dtype=Body)
    np.testing.assert_array_equal(again.numpy(), content)


def test_launches_views_and_copies():
    content, own = filled(6)
    y = wp.zeros(3)
    wp.launch(moved, 3, [own[::2], y])
    expected = content.copy()
    expected["v"][::2] *= content["mass"][::2, None]
    expected["count"][::2] += np.arange(3)
    for name in ("v", "count", "mass", "flag"):
        np.testing.assert_array_equal(own.numpy()[name], expected[name])
    np.testing.assert_array_equal(y.numpy(), expected["v"][::2, 0])
    other = wp.clone(own).reshape((2, 3))
    other[1].fill_(own.list()[0])
    wp.copy(own, other.flatten(), 0, 3, 2)
    assert (own.numpy()["mass"][:2] == expected["mass"][0]).all() and own.numpy()["v"][5, 0] == expected["v"][5, 0]
    own.zero_()
    assert not own.numpy().view(np.uint8).any()
    own.assign(content)
    for made in (pickle.loads(pickle.dumps(own)), copy.deepcopy(own)):
        np.testing.assert_array_equal(made.numpy(), content)


def test_launches_are_repeated():
    content, own = filled(4)
    y = wp.zeros(4)
    for _ in range(4):
        wp.launch(moved, 4, [own, y])
    np.testing.assert_allclose(own.numpy()["v"], content["v"] * content["mass"][:, None] ** 4, rtol=1e-5)
    np.testing.assert_array_equal(own.numpy()["count"], content["count"] + 4 * np.arange(4))


def test_generic_kernels_and_errors():
    @wp.kernel
    def first(b: wp.array[Any], y: wp.array[float]):
        y[0] = b[0].mass

    content, own = filled(2)
    y = wp.zeros(1)
    wp.launch(first, 1, [own, y])
    assert y.numpy()[0] == content["mass"][0]
    with pytest.raises(wp.KernelTypeError, match=r"expected array\[Body\]"):
        wp.launch(moved, 1, [wp.zeros(1, dtype=Inner), y])
    with pytest.raises(wp.KernelTypeError, match="array for each field|structs"):
        wp.array([1.0], dtype=Body)
    with pytest.raises(wp.LaunchError, match="no bytes"):
        own.view(float)
    with pytest.raises(wp.KernelTypeError, match="filled with"):
        own.fill_(2.0)


def test_other_ways_out_and_in():
    a = wp.array(np.arange(6.0), dtype=float, requires_grad=True).reshape((2, 3))
    a.grad.fill_(2.0)
    a.note = "kept"
    for made in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a)):
        assert made.numpy().tolist() == a.numpy().tolist() and (made.grad.numpy() == 2).all() and made.note == "kept"
        made.zero_()
    assert a.numpy()[1, 2] == 5 and copy.copy(a).ptr == a.ptr
    assert pickle.loads(pickle.dumps(wp.array(dtype=wp.vec3, ndim=2))).array_type == wp.array2d[wp.vec3].array_type
    shared = np.from_dlpack(a[1:])
    shared_back = wp.from_dlpack(shared)
    a.fill_(9.0)
    assert (shared == 9).all() and shared_back.ptr == a[1:].ptr and shared_back.shape == (1, 3)
    vectors = wp.from_dlpack(np.zeros((4, 3), np.float32), dtype=wp.vec3)
    assert vectors.shape == (4,) and vectors.dtype is wp.vec3
    with pytest.raises(wp.KernelTypeError, match="from_dlpack"):
        wp.from_dlpack(3)


@wp.struct
class Cloud:
    points: wp.array2d[wp.vec3]
    count: int


@wp.kernel
def counts(clouds: wp.array[Cloud], y: wp.array[float]):
    y[wp.tid()] = 1.0
    if clouds.shape[0] > 0:
        y[0] = float(clouds[0].count)


def test_structs_of_arrays_are_elements_of_arrays():
    for made in (wp.array([], dtype=Cloud), wp.zeros(0, dtype=Cloud, ndim=1)):
        assert made.shape == (0,) and made.numpy().shape == (0,) and made.list() == []
        y = wp.zeros(2, dtype=float)
        wp.launch(counts, 2, inputs=[made, y])
        assert y.numpy().tolist() == [1, 1]
    for made in (wp.array([Cloud(count=3)], dtype=Cloud), wp.zeros(1, dtype=Cloud)):
        assert made.numpy()["points"]["data"].tolist() == [0]  # no array
        y = wp.zeros(2, dtype=float)
        wp.launch(counts, 2, inputs=[made, y])
        assert y.numpy().tolist() == [made.numpy()["count"][0], 1]
    with pytest.raises(wp.LaunchError, match="has 2 dimension.s., not ndim=1"):
        wp.full((2, 3), 1.0, ndim=1)
