"""Launches in place on arrays of other libraries on a GPU, with a stand-in for the driver that runs the kernels."""

import gc
import itertools
import re

import numpy as np
import pytest
from cuda_calls import STREAMS
from foreign_gpu_arrays import Lender, Stream
from forked_tests import own_process
from mock_driver import Words, driver, float_at

import jwarp as wp
from jwarp.backend.cuda import nvrtc

COMPILES = not nvrtc.missing()
pytestmark = pytest.mark.skipif(not COMPILES, reason="needs NVRTC")


@wp.kernel
def spring(x: wp.array[float], k: float, f: wp.array[float]):
    i = wp.tid()
    f[i] = -k * x[i]


@wp.kernel
def shift(x: wp.array[wp.vec3], by: wp.vec3, n: wp.int8, y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = x[i] + by * float(n)


def run_spring(words, _shape):
    """The effect of the image of `spring`."""
    given = Words.read(words, symbols=6, parameters=3)
    for thread in given.all_threads():
        x, k, f = thread.addresses
        float_at(f + 4 * thread.at).value = -float_at(k).value * float_at(x + 4 * thread.at).value


def setup() -> None:
    driver().register("jwarp_spring", run_spring)
    wp.config.cuda_arch = "sm_90"


def floats(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=n).astype(np.float32)


@own_process
@pytest.mark.parametrize(("given", "version"), [(None, 1), (0, None), (STREAMS[0], 1), ("object", None)])
def test_a_launch_on_a_stream(version, given):
    setup()
    x, f = Lender(floats(5), version=version), Lender(np.full(5, np.nan, np.float32), version=version)
    stream = Stream(STREAMS[0]) if given == "object" else given
    for k in (2.0, -0.5):
        driver().clear()
        (result,) = wp.launch(spring, 5, [x, k], [f], stream=stream)
        assert result is f
        np.testing.assert_array_equal(f.array, -np.float32(k) * x.array)
        # Nobody says where the caller goes on, so the launch has ended by then.
        assert len(driver().log("cuStreamSynchronize")) == (stream is None)
    handle = STREAMS[0] if given in (STREAMS[0], "object") else 0
    assert x.streams == f.streams == [handle or 1] * 2
    (launched,) = driver().log("cuLaunchKernelEx")
    assert f"stream={hex(handle) if handle else 0} context=0x1000" in launched
    assert driver().current == 0
    del result
    gc.collect()
    assert x.lent == {}


@own_process
def test_memory_is_kept_until_the_launch_has_ended():
    setup()
    driver().set(busy=1)
    x, f = Lender(floats(5)), Lender(floats(5))
    for _ in range(3):
        wp.launch(spring, 5, [x, 2.0], [f], stream=STREAMS[0])
    assert len(x.lent) == len(f.lent) == 3
    driver().set(busy=0)
    wp.launch(spring, 5, [x, 2.0], [f], stream=STREAMS[0])
    assert x.lent == f.lent == {}
    counts = [len(driver().log(name)) for name in ("cuEventCreate", "cuEventRecord", "cuEventDestroy_v2")]
    assert counts == [4, 4, 4]


@own_process
def test_numbers_are_put_into_memory_of_the_stream():
    """As parameters of calls, not from memory of this process, which may be gone when a captured graph runs."""
    seen = []

    def kernel(words, _shape):
        given = Words.read(words, symbols=4 + 2 + 1 + 1 + 2, parameters=4)
        _, by, n, _ = given.arrays
        seen.append(
            (
                [float_at(by + 4 * i).value for i in range(3)],
                np.ctypeslib.as_array((np.ctypeslib.ctypes.c_int8 * 1).from_address(n))[0],
            )
        )

    driver().register("jwarp_shift", kernel)
    wp.config.cuda_arch = "sm_90"
    x, y = Lender(np.zeros((4, 3), np.float32)), Lender(np.zeros((4, 3), np.float32))
    wp.launch(shift, 4, [x, wp.vec3(1.0, 2.5, -3.0), -7], [y], stream=STREAMS[0])
    assert seen == [([1.0, 2.5, -3.0], -7)]
    names = driver().names()
    first = names.index("cuMemAllocAsync")
    assert names[first : first + 5] == ["cuMemAllocAsync", *["cuMemsetD32Async"] * 3, "cuMemsetD8Async"]
    assert len(driver().log("cuMemFreeAsync")) == 1
    assert driver().allocated == 0


@own_process
def test_while_the_stream_is_captured():
    setup()
    x, f = Lender(floats(5)), Lender(floats(5))
    wp.launch(spring, 5, [x, 2.0], [f], stream=STREAMS[0])
    driver().set(capturing=1)
    driver().current = 0x1000
    driver().clear()
    wp.launch(spring, 5, [x, 3.0], [f], stream=STREAMS[0])
    np.testing.assert_array_equal(f.array, -3 * x.array)
    assert not driver().log("cuEventRecord", "cuEventQuery", "cuStreamGetCtx", "cuStreamSynchronize")


@own_process
def test_other_devices():
    setup()
    x, f = Lender(floats(5), 1), Lender(floats(5), 1, kind=13)
    wp.launch(spring, 5, [x, 2.0], [f])
    np.testing.assert_array_equal(f.array, -2 * x.array)
    assert "context=0x1001" in driver().log("cuLaunchKernelEx")[0]
    with pytest.raises(wp.LaunchError, match="arrays are on CUDA device 1, and the stream is one of device 0"):
        wp.launch(spring, 5, [x, 2.0], [f], stream=STREAMS[0])
    with pytest.raises(wp.LaunchError, match="several GPUs, 0, 1"):
        wp.launch(spring, 5, [Lender(floats(5)), 2.0], [f])


@own_process
def test_the_code_is_that_for_the_device():
    driver().set(major=8, minor=0)
    driver().register("jwarp_spring", run_spring)
    x, f = Lender(floats(5)), Lender(floats(5))
    with wp.record_compiles() as events:
        for _ in range(3):
            wp.launch(spring, 5, [x, 2.0], [f])
    assert len(events) == 1
    assert len(driver().log("cuLibraryLoadData")) == 1


@own_process
def test_records():
    setup()
    x, f = Lender(floats(5)), Lender(floats(5))
    record = wp.launch(spring, 5, [x, 2.0], [f], record_cmd=True)
    assert driver().log("cuLaunchKernelEx") == []
    for k in (3.0, 4.0):
        record.set_param_by_name("k", k)
        for stream in (None, STREAMS[0], Stream(STREAMS[0])):
            f.array[:] = 0
            assert record.launch(stream=stream) == (f,)
            np.testing.assert_array_equal(f.array, -np.float32(k) * x.array)
    other = Lender(floats(5, seed=1))
    record.set_param_by_name("x", other)
    record.set_dim(4)
    f.array[:] = 0
    record.launch()
    np.testing.assert_array_equal(f.array, [*(-4 * other.array[:4]), 0])
    assert "inout" in repr(record.descriptor)
    with pytest.raises(wp.LaunchError, match="record has no stream"):
        wp.launch(spring, 5, [x, 2.0], [f], record_cmd=True, stream=1)


@own_process
def test_one_array_as_input_and_output():
    setup()
    driver().register("jwarp_spring", run_spring)
    both = Lender(floats(5))
    before = both.array.copy()
    wp.launch(spring, 5, [both, 2.0], [both])
    np.testing.assert_array_equal(both.array, -2 * before)


@own_process
@pytest.mark.parametrize("dim", [0, (0, 3)])
def test_launches_of_nothing_change_nothing(dim):
    setup()
    x, f = Lender(floats(5)), Lender(floats(5, seed=1))
    before = f.array.copy()
    wp.launch(spring, dim, [x, 2.0], [f])
    np.testing.assert_array_equal(f.array, before)


@own_process
def test_what_is_refused():
    setup()
    n = 6
    memory = floats(2 * n)
    x, f = Lender(memory[:n]), Lender(floats(n))

    def refused(pattern, inputs, outputs, error=wp.LaunchError, **options):
        with pytest.raises(error, match=pattern):
            wp.launch(spring, n, inputs, outputs, **options)

    refused("overlaps 'x'", [x, 2.0], [Lender(memory[2 : 2 + n])])
    refused("read-only", [x, 2.0], [Lender(floats(n), read_only=True)])
    refused("elements that overlap", [x, 2.0], [Lender(np.broadcast_to(memory[:1], n))])
    refused(r"float64\[6\] \(array on a GPU\)", [Lender(np.zeros(n)), 2.0], [f], wp.KernelTypeError)
    refused("dtype that kernels do not have", [Lender(np.zeros(n, np.complex64)), 2.0], [f], wp.KernelTypeError)
    refused(r"2 dimensions|array of 1 dim", [Lender(np.zeros((n, 1), np.float32)), 2.0], [f], wp.KernelTypeError)
    refused("not on the GPU", [floats(n), 2.0], [f])
    refused("'k'", [x, Lender(np.zeros((), np.int32))], [f], wp.KernelTypeError)
    for stream in (-1, "s", True, 2.5, Stream(-3)):
        refused("must be a CUDA stream", [x, 2.0], [f], stream=stream)
    # An index that is certainly outside.
    with pytest.raises(wp.LaunchError, match="index 6 is outside"):
        wp.launch(spring, n + 1, [x, 2.0], [f])
    refused("cannot be borrowed, ValueError: .* DLPack", [x, 2.0], [Lender(floats(n), version=9)], wp.KernelTypeError)
    assert driver().log("cuLaunchKernelEx") == []
    wp.launch(spring, n, [x, Lender(np.asarray(np.float32(2)))], [f])
    np.testing.assert_array_equal(f.array, -2 * x.array)


@own_process
def test_several_outputs_are_of_one_kind():
    import jax.numpy as jnp

    @wp.kernel
    def two(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
        i = wp.tid()
        y[i] = x[i]
        z[i] = x[i]

    wp.config.cuda_arch = "sm_90"
    x, y = Lender(floats(5)), Lender(floats(5))
    for other in (jnp.zeros(5), np.zeros(5, np.float32), 5, (5,)):
        with pytest.raises(wp.LaunchError, match="'z' is no array on a GPU that can be written in place"):
            wp.launch(two, 5, [x], [y, other])
    with pytest.raises(wp.LaunchError, match=re.escape("output 'y' and 'z' are the same array")):
        wp.launch(two, 5, [x], [y, y])


@own_process
def test_failed_checks_with_texts_of_any_characters():
    @wp.kernel
    def between(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        assert x[i] < 2.0, "not\0below two"
        assert x[i] > 0.0, "not above zero"
        y[i] = x[i]

    def run(words, _shape):
        import ctypes

        given = Words.read(words, symbols=7, parameters=3)  # one is for the check of races
        ctypes.c_uint64.from_address(given.failure).value = next(sites)

    driver().register("jwarp_between", run)
    wp.config.cuda_arch = "sm_90"
    told, sites = [], itertools.count(1)
    for _ in range(9):
        with wp.config(debug=True), pytest.raises(RuntimeError) as caught:
            wp.launch(between, 1, [Lender(floats(1))], [Lender(floats(1))])
        told.append(str(caught.value))
    texts = [text.split("failed: ")[1].split(", thread")[0] for text in told if "assertion failed" in text]
    assert texts == ["not\\0below two", "not above zero"]
    # Accesses are checked as well: each site has a text, and there are none beyond them.
    assert "a check failed" not in told[0]
    assert told[-1].endswith("'between': a check failed, thread (0)")


@own_process
def test_failed_checks():
    @wp.kernel
    def positive(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        assert x[i] > 0.0
        y[i] = wp.log(x[i])

    def run(words, _shape):
        import ctypes

        given = Words.read(words, symbols=7, parameters=3)  # one is for the check of races
        for thread in given.all_threads():
            if float_at(thread.addresses[0] + 4 * thread.at).value <= 0:
                ctypes.c_uint64.from_address(given.failure).value = thread.number << 12 | 1
                return

    driver().register("jwarp_positive", run)
    wp.config.cuda_arch = "sm_90"
    x = floats(5) + 1
    x[3] = -1
    for stream in (None, STREAMS[0]):
        with wp.config(debug=True), pytest.raises(RuntimeError, match=r"kernel 'positive': .*:\d+: .*, thread \(3\)$"):
            wp.launch(positive, 5, [Lender(x)], [Lender(floats(5))], stream=stream)
