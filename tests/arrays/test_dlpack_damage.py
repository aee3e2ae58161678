"""Descriptions of arrays by DLPack that contradict themselves: errors with a name, on the host and on GPUs."""

import numpy as np
import pytest
from foreign_gpu_arrays import Lender

import jwarp as wp
from jwarp import _native

HOST, GPU = 1, 2
DAMAGE = {
    "no rank": {"rank": -1},
    "a rank beyond NumPy's": {"rank": 65, "shape": (1,) * 65, "strides": (1,) * 65},
    "a negative extent": {"shape": (-8,)},
    "no address": {"data": None},
    "too many elements": {"rank": 2, "shape": (2**40, 2**40), "strides": None},
    "a stride beyond memory": {"shape": (2,), "strides": (2**62,)},
    "the least stride": {"shape": (2,), "strides": (-(2**63),)},
}


@wp.kernel
def double(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def lent(kind, version=1, **claims):
    return Lender(np.random.default_rng(3).normal(size=8).astype(np.float32), kind=kind, version=version, claims=claims)


@pytest.mark.parametrize("version", [None, 1])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_refused_on_the_host(damage, version):
    array = lent(HOST, version, **DAMAGE[damage])
    with pytest.raises(wp.KernelTypeError, match="a Lender exports by DLPack is damaged"):
        wp.from_dlpack(array)
    y = np.zeros(2, np.float32)
    with pytest.raises(wp.KernelTypeError, match="a Lender exports by DLPack is damaged"):
        wp.launch(double, dim=2, inputs=[array], outputs=[y])
    assert not y.any()


@pytest.mark.parametrize("version", [None, 1])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_refused_on_gpus(damage, version):
    array = lent(GPU, version, **DAMAGE[damage])
    with pytest.raises(ValueError, match="description of an array by DLPack is damaged"):
        _native.DeviceArray(array.__dlpack__())
    assert not array.lent  # it was given back


@pytest.mark.parametrize("kind", [HOST, GPU])
def test_arrays_of_nothing_and_strides_in_reverse_are_sound(kind):
    for claims in ({"shape": (0,), "data": None}, {"strides": (0,)}):
        array = lent(kind, **claims)
        if kind == GPU:
            _native.DeviceArray(array.__dlpack__())
        else:
            assert wp.from_dlpack(array).shape in [(0,), (8,)]
    if kind == HOST:
        backwards = Lender(np.arange(8, dtype=np.float32)[::-1], kind=HOST)
        assert wp.from_dlpack(backwards).numpy().tolist() == list(range(8))[::-1]


def test_elements_without_a_dtype_are_refused_by_name():
    with pytest.raises(wp.KernelTypeError, match=r"wp.from_dlpack: Unsupported lanes"):
        wp.from_dlpack(lent(HOST, lanes=4))
