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
