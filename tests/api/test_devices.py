"""Devices, streams, timers, loggers and modules answer as Warp's do on a machine without a GPU."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import jwarp as wp
from jwarp.devices import DEVICES


@pytest.fixture(autouse=True)
def without_gpus(monkeypatch):
    """A machine without one, also where there is one."""
    monkeypatch.setattr(DEVICES, "_cuda", None)
    monkeypatch.setattr(DEVICES, "find", tuple)


def test_the_device():
    device = wp.get_device()
    assert device == "cpu" and str(device) == "cpu" and repr([device]) == "['cpu']" and device.is_cpu
    assert not device.is_cuda and device.ordinal == -1 and device.arch == 0 and device.total_memory > 0
    assert (
        wp.get_devices() == [device]
        and wp.get_preferred_device() is device
        and pickle.loads(pickle.dumps(device)) is device
    )
    assert not wp.is_cuda_available() and wp.is_cpu_available() and wp.get_cuda_devices() == []
    assert wp.is_device_available("cpu") and not wp.is_device_available("cuda:0") and wp.get_cuda_device_count() == 0
    wp.set_device("cpu")
    with wp.ScopedDevice(None) as used:
        assert used is device and wp.zeros(3, dtype=float).device is device
    assert wp.can_access("cpu", wp.zeros(3, dtype=float)) and wp.can_access("cpu", "cpu")


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: wp.get_device("cuda:0"), "Invalid device identifier: cuda:0"),
        (lambda: wp.ScopedDevice("cuda"), "Invalid device identifier: cuda"),
        (lambda: wp.get_cuda_device(0), "Invalid device identifier: cuda:0"),
        (lambda: wp.Stream(), "Device cpu is not a CUDA device"),
        (lambda: wp.Event("cpu", enable_timing=True), "Device cpu is not a CUDA device"),
        (lambda: wp.get_stream(), "Device cpu is not a CUDA device"),
        (lambda: wp.get_device().stream, "Device cpu is not a CUDA device"),
        (lambda: wp.set_mempool_enabled("cpu", True), "Memory pools are only supported on CUDA devices"),
        (lambda: wp.ScopedMempool("cpu", True).__enter__(), "Memory pools are only supported on CUDA devices"),
        (lambda: wp.set_peer_access_enabled("cpu", "cpu", True), "Peer access is only supported between CUDA devices"),
        (lambda: wp.force_load(["cpu", "cuda:1"]), "Invalid device identifier: cuda:1"),
    ],
)
def test_what_only_gpus_have(call, said):
    for kind in (wp.LaunchError, RuntimeError, ValueError):  # jwarp's error, and what programs of Warp's catch
        with pytest.raises(kind, match=said):
            call()


def test_what_does_nothing():
    wp.init()
    wp.synchronize()
    wp.synchronize_device("cpu")
    wp.force_load()
    wp.load_module(device="cpu")
    with wp.ScopedStream(None):
        pass
    assert not wp.is_mempool_supported("cpu") and wp.timing_end() == []
    assert wp.get_module("some.module").options["max_unroll"] == wp.config.max_unroll


def test_timers(capsys):
    times = {}
    with wp.ScopedTimer("outer", dict=times) as outer:
        with wp.ScopedTimer("inner", synchronize=True) as inner:
            inner.extra_msg = "(more)"
        with wp.ScopedTimer("silent", print=False), wp.ScopedTimer("off", active=False):
            pass
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"    inner took \d+\.\d\d ms \(more\)", lines[0])
    assert re.fullmatch(r"outer took \d+\.\d\d ms", lines[1]) and len(lines) == 2
    assert times == {"outer": [outer.elapsed]}


def test_loggers(capsys):
    said = []

    class Log:
        debug = info = error = staticmethod(said.append)
        warning = staticmethod(lambda message, category=None, stacklevel=1: said.append(message))

    with wp.ScopedLogger(Log()), wp.ScopedLogLevel(wp.LOG_DEBUG), wp.ScopedTimer("block"):
        assert wp.config.log_level == wp.LOG_DEBUG
    assert said[0] == "block ..." and said[1].startswith("block took") and wp.config.log_level == wp.LOG_INFO
    assert not capsys.readouterr().out
    with pytest.raises(TypeError, match="a logger has the methods debug, info, warning, error"):
        wp.set_logger(object())


def test_settings_of_warp():
    assert wp.config.mode == "release" and wp.config.version == "1.19.0" and not wp.config.verify_cuda
    with pytest.raises(ValueError, match="wp.config.mode must be one of release, debug"):
        wp.config.mode = "fast"
    with wp.config(debug=True):
        assert wp.config.mode == "debug"
    before = wp.config.cache_dir
    assert wp.config.kernel_cache_dir == before
    with pytest.raises(AttributeError, match="no such setting"):
        wp.config.no_such_setting = 1


@pytest.mark.parametrize(
    "value", ["WGMMA", "", None, 1, ["wgmma"], np.array(["mma", "wgmma"]), np.str_("wgmma")], ids=repr
)
def test_settings_that_make_no_sense(value):
    with pytest.raises(ValueError, match="wp.config.matrix_instructions must be one of mma, wgmma, not "):
        wp.config.matrix_instructions = value
    assert wp.config.matrix_instructions == "mma"


def test_dtypes():
    import jax.numpy as jnp

    assert wp.dtype_from_numpy(np.dtype("float16")) is wp.float16 and wp.dtype_to_numpy(wp.int8) is np.int8
    assert wp.dtype_from_jax(jnp.bfloat16) is wp.bfloat16 and wp.dtype_to_jax(wp.float32) is jnp.float32
    assert wp.device_from_jax(wp.device_to_jax("cpu")) == "cpu"
    for call in (lambda: wp.dtype_from_numpy("U3"), lambda: wp.dtype_to_numpy(wp.vec3), lambda: wp.dtype_to_jax(3)):
        with pytest.raises(wp.KernelTypeError):
            call()


def test_questions_about_types():
    @wp.struct
    class Mixed:
        a: wp.uint8
        b: float
        c: wp.vec3d

    t = wp.types
    assert t.type_is_vector(wp.vec3) and not t.type_is_vector(wp.quat) and t.type_is_quaternion(wp.quatd)
    assert t.type_is_matrix(wp.mat33) and t.type_is_transformation(wp.transform) and t.type_is_struct(Mixed)
    assert (
        t.type_is_int(int) and t.type_is_float(wp.float16) and not t.type_is_int(bool) and not t.type_is_scalar(wp.bool)
    )
    assert t.is_int(3) and t.is_float(wp.float32(1.0)) and t.is_vector(wp.vec3(1.0, 2.0, 3.0)) and t.is_struct(Mixed())
    assert t.is_array(wp.zeros(3, dtype=float)) and t.is_array(wp.array[float]) and not t.is_array(np.zeros(3))
    assert t.type_size(wp.mat33) == 9 and t.type_size_in_bytes(wp.mat33d) == 72 and t.type_size_in_bytes(int) == 4
    assert t.type_size_in_bytes(Mixed) == 32 and t.types_equal(float, wp.float32) and not t.types_equal(int, wp.int64)
    assert t.types_equal(wp.array(dtype=float), wp.array[wp.float32]) and t.type_repr(wp.vec3) == "vec3f"
    assert t.type_repr(wp.array(dtype=wp.vec3, ndim=2)) == "array(ndim=2, dtype=vec3f)"
    assert t.type_repr(wp.zeros((2, 3), dtype=float)) == "array(shape=(2, 3), dtype=float32)"
    with pytest.raises(TypeError, match="is no type of values"):
        t.type_size_in_bytes(str)
