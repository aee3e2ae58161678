"""Arrays in the memory of a GPU, for which there is a stand-in: memory, devices, other libraries, what is refused."""

import copy
import gc
import pickle
import re
import weakref

import array_programs
import numpy as np
import pytest
from foreign_gpu_arrays import Lender
from forked_tests import own_process
from mock_driver import driver
from repeated_calls import repeats

import jwarp as wp
from jwarp import _native

N = 1000


def numbers(n=N, seed=0):
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


@wp.kernel
def doubled(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@own_process
def test_content():
    array_programs.compare(array_programs.creation("cuda:1"), array_programs.creation("cpu"))
    # Vectors of one number, and numbers of one byte, are filled by the driver.
    driver().clear()
    wp.full(N, wp.vec3(-2.0), dtype=wp.vec3, device="cuda")
    assert [line.split()[0] for line in driver().log() if line.startswith(("cuMemset", "cuMemcpy"))] == [
        "cuMemsetD32Async"
    ]
    assert "count=3000" in driver().log("cuMemsetD32Async")[0]


@own_process
def test_views_and_content():
    x = numbers(60).reshape(5, 12)
    a = wp.array(x, device="cuda")
    for view in (lambda v: v[1:4, ::3], lambda v: v[:, 5], lambda v: v[2], lambda v: v.transpose(), lambda v: v[4:4]):
        np.testing.assert_array_equal(view(a).numpy(), view(x))
        view(a).assign(np.ascontiguousarray(view(x) + 1))
        x = x.copy()
        view(x)[...] += 1
        np.testing.assert_array_equal(a.numpy(), x)
    assert a.list() == x.ravel().tolist() and a.flatten().shape == (60,) and a[1].device == "cuda:0"
    a.numpy()[...] = 0  # a copy
    a[1:3, 4].fill_(7.0)
    x[1:3, 4] = 7
    np.testing.assert_array_equal(a.numpy(), x)
    assert str(a) == str(x) and repr(a) == "array(shape=(5, 12), dtype=float32)"
    with pytest.raises(ValueError, match="read-only"):
        a.host()[...] = 1


@own_process
def test_memory():
    """It comes from the driver's pool, and goes back there with the last array that shows it."""
    assert driver().allocated == 0
    a = wp.zeros(N, dtype=float, device="cuda")
    part, (_, size) = a[10:], driver().pieces()[0]
    assert driver().allocated == 1 and size == 4 * N and len(driver().log("cuMemAllocAsync")) == 1
    assert part.ptr == a.ptr + 40 == driver().pieces()[0][0] + 40
    del a
    assert driver().allocated == 1
    del part
    assert driver().allocated == 0 and len(driver().log("cuMemFreeAsync")) == 1
    with pytest.raises(wp.LaunchError, match=r"there is no memory on cuda:0 for an array of 40 bytes.*OUT_OF_MEMORY"):
        driver().fail("cuMemAllocAsync", 2)
        wp.zeros(10, dtype=float, device="cuda")
    driver().fail("cuMemAllocAsync", 0)
    wp.zeros(10, dtype=float, device="cuda").numpy()
    with pytest.raises(wp.LaunchError, match="cuda:0: .*cuMemcpyDtoHAsync failed"):
        driver().fail("cuMemcpyDtoHAsync_v2", 700)
        wp.zeros(10, dtype=float, device="cuda").numpy()


@own_process
def test_gradients_and_kept_content():
    a = wp.array(numbers(), device="cuda", requires_grad=True)
    assert a.grad.device == "cuda:0" and not a.grad.numpy().any() and a[3:5].grad.shape == (2,)
    kept, before = a.memory.keep(a[5:].layout), a[5:].numpy()
    a.fill_(3.0)
    a.fill_(4.0)
    np.testing.assert_array_equal(kept.array(), before)
    assert kept.is_saved
    with pytest.raises(wp.LaunchError, match="the gradient of an array has its device"):
        a.grad = wp.zeros(N, dtype=float)


@own_process
def test_devices():
    first, second = wp.get_cuda_devices()
    assert wp.is_cuda_available() and wp.get_cuda_device_count() == 2 and wp.get_devices() == ["cpu", first, second]
    assert wp.get_device() == "cpu" and wp.get_device("cuda") is first and wp.get_cuda_device(1) is second
    assert first.is_cuda and first.name == "Mock 0" and first.arch == 90 and first.sm_count == 132
    assert (first.free_memory, first.total_memory) == (3 << 30, 4 << 30) and wp.get_preferred_device() is first
    with wp.ScopedDevice("cuda:1"):
        assert wp.zeros(3, dtype=float).device is wp.get_device("cuda") is second
        assert wp.full(2, 1.0).device is wp.array([1.0]).device is wp.from_numpy(numbers(3)).device is second
        with wp.ScopedDevice("cpu"):
            assert wp.zeros(3, dtype=float).device == "cpu"
    wp.set_device(second)
    assert wp.zeros(3, dtype=float).device is second
    wp.set_device("cpu")
    a = wp.array(numbers(), device=first)
    assert wp.empty_like(a).device is wp.clone(a).device is first and a.to(first) is a
    b = a.to("cuda:1")
    assert b.device is second and pickle.loads(pickle.dumps(b)).device is copy.deepcopy(b).device is second
    np.testing.assert_array_equal(b.to("cpu").numpy(), a.numpy())
    assert pickle.loads(pickle.dumps(second)) is second and wp.can_access(first, a) and not wp.can_access("cpu", a)
    with pytest.raises(wp.LaunchError, match="Invalid device identifier: cuda:2") as caught:
        wp.zeros(3, dtype=float, device="cuda:2")
    assert "there are cuda:0, cuda:1" in str(caught.value)


@own_process(driver="/nowhere/libcuda.so.1")
def test_without_a_driver():
    assert not wp.is_cuda_available() and wp.get_devices() == ["cpu"] and wp.get_preferred_device() == "cpu"
    with pytest.raises(wp.LaunchError, match="Invalid device identifier: cuda:0") as caught:
        wp.zeros(3, dtype=float, device="cuda:0")
    assert "no GPU is found, kernels for CUDA need the NVIDIA driver" in str(caught.value)


@own_process
def test_programs_of_warp_find_the_gpu():
    import jwarp.as_warp  # noqa: F401

    assert wp.get_device() == "cuda:0" and wp.zeros(3, dtype=float).device == "cuda:0"


@own_process
def test_streams_and_events():
    device = wp.get_device("cuda:1")
    stream, begin, end = wp.Stream(device), wp.Event(device, enable_timing=True), wp.Event(device, enable_timing=True)
    with wp.ScopedStream(stream):
        assert wp.get_device() is device and wp.get_stream() is stream is device.stream
        wp.record_event(begin)
        wp.zeros(3, dtype=float).fill_(2.0)
        wp.record_event(end)
        wp.wait_event(begin)
        wp.wait_stream(wp.Stream("cuda:0"))
    assert wp.get_stream(device) is not stream and wp.get_device() == "cpu"
    assert wp.get_event_elapsed_time(begin, end) >= 0
    with pytest.raises(wp.LaunchError, match="an event has no time"):
        wp.get_event_elapsed_time(begin, wp.Event(device))
    driver().clear()
    for wait in (wp.synchronize, lambda: wp.synchronize_device(device), lambda: wp.synchronize_stream(stream),
                 lambda: wp.synchronize_event(end)):  # fmt: skip
        wait()
    assert len(driver().log("cuStreamSynchronize")) >= 4
    with pytest.raises(wp.LaunchError, match="is put on CUDA's default stream"):
        wp.Stream(device, cuda_stream=17)


@own_process
def test_other_libraries():
    """Other libraries get the memory itself, and the other way round."""
    a = wp.array(numbers(24).reshape(8, 3), dtype=wp.vec3, device="cuda:1")
    for shown in (a, a[::2], a[1:1], a.view(wp.vec3)[3:]):
        assert shown.__dlpack_device__() == (2, 1)
        for options in ({}, {"max_version": (1, 0)}, {"stream": 1, "max_version": (1, 1), "dl_device": (2, 1)}):
            lent = _native.DeviceArray(shown.__dlpack__(**options))
            assert (lent.device, lent.shape, lent.read_only) == (1, (*shown.shape, 3), False)
            if shown.size:
                assert lent.address == shown.ptr and lent.strides == (*shown.strides, 4)
        described = shown.__cuda_array_interface__
        assert described["shape"] == (*shown.shape, 3) and described["typestr"] == "<f4"
    for refused in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError):
            a.__dlpack__(**refused)
    del shown
    lent = _native.DeviceArray(a.__dlpack__())
    capsule = a.__dlpack__()  # that nobody takes
    del a, capsule
    gc.collect()
    assert driver().allocated == 1
    del lent
    gc.collect()
    assert driver().allocated == 0

    theirs = Lender(numbers(12).reshape(4, 3)[::-1], 1)
    mine = wp.from_dlpack(theirs, dtype=wp.vec3)
    assert mine.device == "cuda:1" and mine.shape == (4,)
    np.testing.assert_array_equal(mine.numpy(), theirs.array)
    mine.fill_(5.0)
    assert (theirs.array == 5).all()
    with pytest.raises(wp.LaunchError, match="is read-only"):
        wp.from_dlpack(Lender(numbers(4), read_only=True)).fill_(1.0)
    del mine
    gc.collect()
    assert theirs.lent == {}
    with pytest.raises(AttributeError):
        wp.zeros(3, dtype=float).__cuda_array_interface__  # noqa: B018


@own_process
def test_memory_of_others():
    own = wp.zeros(10, dtype=float, device="cuda")
    seen = wp.array(ptr=own.ptr + 8, shape=(3,), dtype=float, device="cuda")
    seen.fill_(2.0)
    assert own.list() == [0, 0, 2, 2, 2, 0, 0, 0, 0, 0]
    same = wp.array(own, copy=False)
    same.fill_(1.0)
    assert own.list() == [1] * 10 and wp.array(own, copy=True).ptr != own.ptr


@own_process
def test_what_is_refused():
    here, there, other = (wp.array(numbers(), device=device) for device in ("cpu", "cuda:0", "cuda:1"))

    def refused(pattern, call, error=wp.LaunchError):
        with pytest.raises(error, match=pattern):
            call()

    for device, inputs in (("cpu", [here, there]), ("cuda:0", [there, here]), ("cuda:1", [other, there])):
        named = f"parameter 'y': the array is on .*, and the launch is on {device}"
        refused(named, lambda inputs=inputs: wp.launch(doubled, N, inputs=inputs))
        refused(named, lambda inputs=inputs, d=device: wp.launch(doubled, N, inputs=inputs, device=d))
        refused(named, lambda inputs=inputs: wp.launch(doubled, N, inputs=inputs, record_cmd=True))
    refused("'x': the array is on cuda:0, and the launch is on cpu",
            lambda: wp.launch(doubled, N, inputs=[there, there], device="cpu"))  # fmt: skip
    refused("'x': the array is on cpu, and the launch is on cuda:0",
            lambda: wp.launch(doubled, N, inputs=[here, here], device="cuda:0"))  # fmt: skip
    refused("'x': the array is on cpu, and the launch is on cuda:0",
            lambda: wp.launch(doubled, N, inputs=[here, here], device="cuda:0", record_cmd=True))  # fmt: skip
    total = wp.zeros(1, dtype=float, device="cuda:1")
    refused("array_sum: the arrays are on several devices", lambda: wp.utils.array_sum(there, out=total))
    assert driver().log("cuLaunchKernelEx") == []


@own_process
def test_functions_that_are_computed_here():
    """Functions of whole arrays that no kernels are there for copy what they read here, and what they write back."""
    found = []
    for device in ("cpu", "cuda:1"):
        values = wp.array([3, 3, 1, 2, 2, 2], dtype=int, device=device)
        runs, lengths = wp.zeros(6, dtype=int, device=device), wp.zeros(6, dtype=int, device=device)
        count = wp.utils.runlength_encode(values, runs, lengths)
        keys, order = wp.array(numbers(20), device=device), wp.array(np.arange(20), dtype=int, device=device)
        starts = wp.array([0, 3, 10], dtype=int, device=device)
        wp.utils.segmented_sort_pairs(keys, order, 10, starts)
        strided = wp.array(numbers(20), device=device)[::2]
        total = wp.utils.array_sum(strided)
        assert runs.device == lengths.device == order.device == device
        found.append([count, runs.list(), lengths.list(), keys.list(), order.list(), total])
    assert found[0] == found[1]


@own_process
def test_what_the_driver_says_of_a_launch():
    """The error has the kernel, its line, and what to do; the launch works as soon as the driver does."""
    driver().register("jwarp_doubled", lambda words, shape: None)
    wp.config.cuda_arch = "sm_90"
    x, y = (wp.zeros(N, dtype=float, device="cuda") for _ in range(2))
    place = r"test_on_cuda.py:\d+\n.*def doubled"

    def told(call, function, error, kind, words, named=rf"kernel 'doubled': {{}}.*\n +--> .*{place}"):
        driver().fail(function, error)
        with pytest.raises(kind) as caught:
            call()
        driver().fail(function, 0)
        said = named.format(f"{function.removesuffix('_v2')} failed with .*error {error}")
        assert re.match(rf"{said}[^$]*help: .*{words}", str(caught.value)), caught.value

    def launch():
        wp.launch(doubled, N, [x], [y])

    told(launch, "cuLibraryLoadData", 200, wp.CompileError, "delete jwarp's cache")
    told(launch, "cuLibraryLoadData", 218, wp.CompileError, "newer driver")
    told(launch, "cuLibraryLoadData", 222, wp.LaunchError, "newer driver")
    told(launch, "cuLibraryLoadData", 209, wp.LaunchError, "wp.config.cuda_arch")
    told(launch, "cuKernelGetFunction", 209, wp.LaunchError, 'cuda_arch = "sm_90"',
         rf"kernel 'doubled': it was not compiled for this GPU, .* is 9.0 .*\n +--> .*{place}")  # fmt: skip
    for _again in range(3):  # it is prepared, and put again
        for error, words in ((701, "smaller block_dim"), (700, "names the line"), (2, "JAX takes"), (1, "debug")):
            told(launch, "cuLaunchKernelEx", error, wp.LaunchError, words)
        launch()
    command = wp.launch(doubled, N, [x], [y], record_cmd=True)
    told(command.launch, "cuLaunchKernelEx", 700, wp.LaunchError, "names the line")
    # A view with gaps is packed for the kernel, in memory of the call.
    told(lambda: wp.launch(doubled, N // 2, [x[::2]], [y[: N // 2]]), "cuMemAllocAsync", 2, wp.LaunchError, "JAX takes")
    arrays = "arrays on cuda:0: {}.*"
    told(wp.synchronize, "cuStreamSynchronize", 700, wp.LaunchError, "names the line", arrays)
    told(lambda: x.fill_(1.5), "cuMemsetD32Async", 1, wp.LaunchError, "debug", arrays)
    driver().fail("cuLaunchKernelEx", 700)
    with pytest.raises(RuntimeError):  # as Warp's
        launch()


@own_process
@pytest.mark.parametrize(("devices", "version", "told"), [
    (0, 13000, r"finds no GPU in this process\n(.|\n)*help: .*CUDA_VISIBLE_DEVICES"),
    (1, 12040, r"too old: it supports CUDA 12.4, jwarp needs CUDA 13.0\n(.|\n)*help: install driver release 580"),
])  # fmt: skip
def test_launches_without_a_driver_or_gpu(devices, version, told):
    """Arrays of another library may come where the driver cannot be used."""
    driver().set(devices=devices, version=version)
    with pytest.raises(wp.LaunchError, match=told) as caught:
        wp.launch(doubled, 5, [Lender(numbers(5))], [Lender(numbers(5))])
    assert "def doubled" in str(caught.value)
    assert not wp.is_cuda_available()
    with pytest.raises(wp.LaunchError, match="no GPU is found, the NVIDIA driver"):
        wp.zeros(3, device="cuda")


@own_process
def test_errors_leave_arrays_in_no_cycles():
    """Another library's memory is given back when the error is gone, and not when there is time to look for cycles."""
    driver().set(devices=0)
    x, y = Lender(numbers(5)), Lender(numbers(5))
    gone = [weakref.ref(x), weakref.ref(y)]
    gc.disable()
    try:
        wp.launch(doubled, 5, [x], [y])
    except wp.LaunchError:
        x = y = None
    assert [ref() for ref in gone] == [None, None]


@own_process
def test_launches_that_are_repeated_keep_no_arrays():
    driver().register("jwarp_doubled", lambda words, shape: None)
    wp.config.cuda_arch = "sm_90"
    x = wp.array(numbers(), device="cuda")
    gone = []
    with repeats() as made:
        for _ in range(3):
            y = wp.zeros(N, dtype=float, device="cuda")
            for _ in range(4):
                wp.launch(doubled, N, [x], [y])
            gone.append(weakref.ref(y.memory))
    assert made == [False] + [True] * 11  # the arrays are others, and their layout is not
    del y
    assert all(memory() is None for memory in gone)
    gc.collect()
    log = [line.split()[0] for line in driver().log()]
    assert log.count("cuMemAllocAsync") - log.count("cuMemFreeAsync") == 1


@own_process
def test_other_libraries_are_asked_each_time_a_record_runs():
    """They may be using what they export, on a stream that has to be waited for."""
    driver().register("jwarp_doubled", lambda words, shape: None)
    wp.config.cuda_arch = "sm_90"
    x, y = Lender(numbers()), wp.zeros(N, dtype=float, device="cuda")
    record = wp.launch(doubled, N, [x], [y], record_cmd=True)
    record.launch()
    before = len(x.streams)
    record.launch()
    record.launch()
    assert len(x.streams) == before + 2
