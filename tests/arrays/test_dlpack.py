"""Arrays of bfloat16 and read-only ones through DLPack."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp


def numbers(n):
    return np.random.default_rng(0).normal(size=n).astype(jnp.bfloat16)


def test_bfloat16_goes_to_jax():
    given = numbers(12)
    a = wp.array(given, dtype=wp.bfloat16)
    taken = jax.dlpack.from_dlpack(a)
    assert taken.dtype == jnp.bfloat16
    assert (np.asarray(taken) == given).all()


def test_bfloat16_comes_from_jax():
    given = numbers(12)
    a = wp.from_dlpack(jnp.asarray(given).reshape(4, 3))
    assert (a.dtype, a.shape) == (wp.bfloat16, (4, 3))
    assert (a.numpy() == given.reshape(4, 3)).all()


def test_bfloat16_shares_memory_through_a_capsule():
    a = wp.array(numbers(12).reshape(4, 3), dtype=wp.bfloat16)
    b = wp.from_dlpack(wp.to_dlpack(a))
    assert b.ptr == a.ptr and b.dtype == wp.bfloat16
    b.fill_(2.5)
    assert (a.numpy().astype(float) == 2.5).all()


def test_bits_of_16_are_not_taken_for_floats():
    a = wp.from_dlpack(wp.array(np.arange(5), dtype=wp.uint16))
    assert a.dtype == wp.uint16 and a.numpy().tolist() == [0, 1, 2, 3, 4]


def test_a_read_only_array_is_refused_where_the_taker_could_write():
    given = np.arange(4, dtype=np.float32)
    given.flags.writeable = False
    a = wp.array(given, copy=False)
    with pytest.raises(wp.LaunchError, match=r"read-only(.|\n)*wp.to_jax") as found:
        a.__dlpack__()
    assert isinstance(found.value, BufferError)
    assert np.asarray(wp.to_jax(a)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("int8", wp.uint8), ("uint16", wp.int16), ("uint32", wp.int32), ("int64", wp.uint64), ("bool", wp.uint8)],
)
def test_integers_of_one_size_share_memory(given, wanted):
    source = np.random.default_rng(5).integers(0, 2, 6).astype(given)
    a = wp.from_dlpack(source, dtype=wanted)
    assert (a.dtype, a.ptr) == (wanted, source.ctypes.data)
    before = source.copy()
    source[::2] = 1 - source[::2].astype(int)
    assert a.numpy().tolist() == source.tolist() != before.tolist()


@pytest.mark.parametrize(
    ("given", "wanted", "names"),
    [
        ("bool", wp.float32, "DLPack bool8 and Warp float32"),
        ("int32", wp.float32, "DLPack int32 and Warp float32"),
        ("float64", wp.vec3, "DLPack float64 and Warp float32"),
        ("int64", wp.int32, "DLPack int64 and Warp int32"),
        ("int8", wp.bool, "DLPack int8 and Warp bool"),
        ("float16", wp.bfloat16, "DLPack float16 and Warp bfloat16"),
    ],
)
def test_what_would_be_a_copy_is_refused(given, wanted, names):
    with pytest.raises(wp.KernelTypeError, match=f"Incompatible data types: {names}"):
        wp.from_dlpack(np.ones((2, 3), given), dtype=wanted)


def test_components_that_are_not_side_by_side_are_refused():
    given = np.random.default_rng(6).random((3, 8)).astype(np.float32)
    with pytest.raises(wp.KernelTypeError, match="inner strides are not contiguous"):
        wp.from_dlpack(given.T, dtype=wp.vec3)
    a = wp.from_dlpack(given[::-2, 1:5], dtype=wp.vec4)
    given += 1.0
    np.testing.assert_array_equal(a.numpy(), given[::-2, 1:5])


def test_devices_that_are_unknown_are_named():
    class Elsewhere:
        def __dlpack_device__(self):
            return 123, 7

        def __dlpack__(self, **_):
            raise AssertionError

    with pytest.raises(wp.KernelTypeError, match="device_type=123, device_id=7"):
        wp.from_dlpack(Elsewhere())
