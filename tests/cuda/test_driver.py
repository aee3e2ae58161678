"""The launcher's calls of the CUDA driver: their order, their number, and the errors when they fail."""

import itertools
import os
import re
import signal
import threading
import time

import numpy as np
import pytest
from cuda_calls import FIRST, STREAMS, attributes, cubin, register_scale, scale_launch
from fake_xla import Site, Xla, XlaError
from forked_tests import native, own_process
from launch_format import ARRAY, F32, IN_OUT, INPUT, OWN, STORED, UNKNOWN, ZEROS, make_launch, make_plan
from mock_driver import driver

X, K = np.arange(5, dtype=np.float32), np.float32(3)
EXECUTED = ["cuStreamIsCapturing", "cuCtxGetCurrent", "cuStreamGetCtx"]


def xla(checks: bool = False) -> Xla:
    return Xla(native().cuda_handlers(checks))


def execute(site: Site, stream: int = STREAMS[0]) -> np.ndarray:
    y = np.full(5, np.nan, np.float32)
    site.execute(stream, [X, np.asarray(K)], [y])
    return y


@own_process
def test_each_stage_does_its_part_and_no_other():
    register_scale()
    driver().current = 0x1000
    site = xla().instantiate(attributes(scale_launch(5)))
    assert driver().log() == []  # an executable may be made where there is no GPU
    site.prepare()
    assert driver().names() == ["cuDriverGetVersion", "cuInit", "cuDeviceGetCount", *FIRST]
    assert driver().log("cuLibraryLoadData", "cuLibraryGetKernel") == [
        "cuLibraryLoadData 7f454c46",
        "cuLibraryGetKernel jwarp_scale",
    ]
    driver().clear()
    site.initialize(STREAMS[0])
    assert driver().names() == [
        *EXECUTED,
        "cuCtxGetDevice",
        "cuDeviceGetAttribute",
        "cuKernelGetFunction",
        "cuFuncLoad",
    ]
    for _ in range(3):
        driver().clear()
        np.testing.assert_array_equal(execute(site), K * X)
        assert driver().names() == [*EXECUTED, "cuLaunchKernelEx"]
    launched = "jwarp_scale grid=1,1,1 block=128,1,1 shared=0 stream=0x101 context=0x1000"
    assert driver().log("cuLaunchKernelEx") == ["cuLaunchKernelEx " + launched]
    driver().clear()
    site.initialize(STREAMS[0])
    site.prepare()
    assert driver().names() == EXECUTED
    site.delete()


@own_process
def test_stages_before_may_be_left_out():
    register_scale()
    np.testing.assert_array_equal(execute(xla().instantiate(attributes(scale_launch(5)))), K * X)


@own_process
def test_images_are_loaded_once_for_all_call_sites_and_devices():
    register_scale()
    target = xla()
    sites = [target.instantiate(attributes(scale_launch(5))) for _ in range(3)]
    other = target.instantiate(attributes(scale_launch(5), image=cubin("another")))
    second = target.instantiate(attributes(scale_launch(5), entry="jwarp_other"))
    for site in (*sites, other, second):
        site.prepare()
        for stream in STREAMS:
            site.initialize(stream)
            site.execute(stream, [X, np.asarray(K)], [np.zeros(5, np.float32)])
    assert len(driver().log("cuLibraryLoadData")) == 2
    assert len(driver().log("cuLibraryGetKernel")) == 3
    assert len(driver().log("cuKernelGetFunction")) == 3 * len(STREAMS)
    assert len(driver().log("cuLaunchKernelEx")) == 5 * len(STREAMS)


@own_process
def test_the_context_of_the_stream_is_current_for_the_call_only():
    register_scale()
    site = xla().instantiate(attributes(scale_launch(5)))
    for current in (0, 0x1000, 0x1001):
        for device, stream in enumerate(STREAMS):
            driver().current = current
            driver().clear()
            site.initialize(stream)
            execute(site, stream)
            assert driver().current == current
            (launch,) = driver().log("cuLaunchKernelEx")
            assert launch.endswith(f"context={0x1000 + device:#x}")
            pushes = 0 if current == 0x1000 + device else 2
            assert len(driver().log("cuCtxPushCurrent_v2")) == len(driver().log("cuCtxPopCurrent_v2")) == pushes
            driver().fail("cuLaunchKernelEx", 1)
            with pytest.raises(XlaError):
                execute(site, stream)
            driver().fail("cuLaunchKernelEx", 0)
            assert driver().current == current


@own_process
def test_a_stream_that_is_captured_is_not_asked_for_its_context():
    register_scale()
    site = xla().instantiate(attributes(scale_launch(5)))
    site.prepare()
    site.initialize(STREAMS[1])
    driver().set(capturing=1)
    driver().current = 0x1001
    driver().clear()
    np.testing.assert_array_equal(execute(site, STREAMS[1]), K * X)
    assert driver().names() == ["cuStreamIsCapturing", "cuCtxGetCurrent", "cuLaunchKernelEx"]


@own_process
def test_handlers_say_what_they_are():
    plain, checked = xla(), xla(checks=True)
    command_buffer_compatible = 1
    assert plain.metadata["execute"].traits == command_buffer_compatible
    assert checked.metadata["execute"].traits == 0  # it waits, which no graph may contain
    assert plain.types == ["jwarp_cuda_v1_state"]
    for target in (plain, checked):
        assert target.metadata["instantiate"].type == 77
        for metadata in target.metadata.values():
            assert (metadata.version.major, metadata.version.minor) == native().ffi_api_version()


# Shared memory and grids


@own_process
def test_much_shared_memory_is_asked_for_once_per_device():
    target = xla()
    sites = [target.instantiate(attributes(scale_launch(5), shared=50_000)) for _ in range(2)]
    for site in sites:
        for stream in STREAMS:
            site.initialize(stream)
            execute(site, stream)
    wanted = [f"cuKernelSetAttribute 8=50000 device={device}" for device in (0, 1)]
    assert driver().log("cuKernelSetAttribute") == wanted
    assert all("shared=50000" in line for line in driver().log("cuLaunchKernelEx"))
    # What another call site has asked for is enough for less, and not for more.
    for shared, asked in ((49_999, []), (60_000, ["cuKernelSetAttribute 8=60000 device=0"]), (60_000, [])):
        driver().clear()
        execute(target.instantiate(attributes(scale_launch(5), shared=shared)))
        assert driver().log("cuKernelSetAttribute") == asked


@own_process
def test_little_shared_memory_is_granted_unless_the_kernel_has_its_own():
    execute(xla().instantiate(attributes(scale_launch(5), shared=49_152)))
    assert driver().log("cuKernelSetAttribute") == []
    driver().set(static_shared=40_000)
    execute(xla().instantiate(attributes(scale_launch(5), shared=20_000, image=cubin("static"))))
    assert driver().log("cuKernelSetAttribute") == ["cuKernelSetAttribute 8=20000 device=0"]


@own_process
def test_more_shared_memory_than_the_gpu_has_is_an_error_with_both_sizes():
    driver().set(max_shared=101_376, static_shared=1000)
    site = xla().instantiate(attributes(scale_launch(5), shared=101_000))
    site.prepare()
    with pytest.raises(XlaError, match="'scale': a block needs 102000 bytes of shared memory.* this GPU has 101376"):
        site.initialize(STREAMS[0])
    assert driver().log("cuKernelSetAttribute") == []


@own_process
def test_grids():
    target = xla()

    def shape(n: int, **changes) -> str:
        driver().clear()
        site = target.instantiate(attributes(scale_launch(n), **changes))
        site.execute(STREAMS[0], [np.zeros(n, np.float32), np.asarray(K)], [np.zeros(n, np.float32)])
        return driver().log("cuLaunchKernelEx")[0].split()[2]

    assert shape(1) == "grid=1,1,1"
    assert shape(128) == "grid=1,1,1"
    assert shape(129) == "grid=2,1,1"
    assert shape(1000, block=32) == "grid=32,1,1"
    assert shape(128 * 1000, per_sm=0) == "grid=1000,1,1"
    assert shape(128 * 1000, per_sm=2) == "grid=264,1,1"
    assert shape(128 * 10, per_sm=2) == "grid=10,1,1"
    # A handwritten kernel is launched as its author says.
    assert shape(1000, grid=np.array([7, 3]), per_sm=0) == "grid=7,3,1"


@own_process
def test_a_heap_is_asked_for_once_as_large_as_the_driver_grants_it():
    register_scale()
    driver().current = 0x1000
    driver().set(most_heap=200)
    for k in range(2):
        site = xla().instantiate(attributes(scale_launch(5), heap=1 << 30, image=cubin(str(k))))
        site.initialize(STREAMS[0])
    megabytes = [int(line.rpartition("=")[2]) >> 20 for line in driver().log("cuCtxSetLimit")]
    assert megabytes == [1024, 512, 256, 128]


@own_process
@pytest.mark.parametrize(("items", "z"), [(1, 1), (6, 6), (65535, 65535), (70000, 65535)])
def test_batch_elements_of_handwritten_kernels_are_the_third_axis(items, z):
    site = xla().instantiate(attributes(scale_launch(5, [items], 1), grid=np.array([2, 1])))
    site.execute(STREAMS[0], [np.zeros((items, 5), np.float32), np.asarray(K)], [np.zeros((items, 5), np.float32)])
    assert f"grid=2,1,{z} " in driver().log("cuLaunchKernelEx")[0]


# Initial contents


@own_process
@pytest.mark.parametrize("n", [5, 4])
@pytest.mark.parametrize("cover", [UNKNOWN, STORED, OWN])
def test_results_start_as_zeros_unless_every_element_is_stored(cover, n):
    plan = make_plan(1, [(ARRAY, 1, F32, cover)])
    launch = make_launch([n], [(-1, 0, ZEROS, 0)])
    y = np.full(5, np.nan, np.float32)
    xla().instantiate(attributes(launch, plan=plan)).execute(STREAMS[0], [], [y])
    filled = cover != STORED or n != 5
    expected = ["cuMemsetD8Async 0 bytes=20 stream=0x101"] if filled else []
    assert driver().log("cuMemsetD8Async") == expected
    assert np.isnan(y).all() != filled


@own_process
@pytest.mark.parametrize("grid", [[3, 2], [0, 1]])
def test_full_outputs_of_handwritten_kernels_are_not_filled(grid):
    """Who writes them says so; where there is no block, nobody does."""
    launch = make_launch([5], [(-1, 0, ZEROS, 0), (-1, 1, ZEROS, 0)])
    plan = make_plan(1, [(ARRAY, 1, F32, STORED), (ARRAY, 1, F32, UNKNOWN)])
    results = [np.full(7, np.nan, np.float32), np.full(7, np.nan, np.float32)]
    site = xla().instantiate(attributes(launch, plan=plan, grid=np.array(grid, np.int64)))
    site.execute(STREAMS[0], [], results)
    full, other = results
    assert np.isnan(full).all() == (0 not in grid) and not other.any()


@own_process
def test_in_out_results_are_copied_where_they_are_another_array():
    plan = make_plan(1, [(ARRAY, 1, F32, UNKNOWN)])
    site = xla().instantiate(attributes(make_launch([5], [(0, 0, IN_OUT, 0)]), plan=plan))
    y = np.zeros(5, np.float32)
    site.execute(STREAMS[0], [X], [y])
    np.testing.assert_array_equal(y, X)
    assert driver().log("cuMemcpyDtoDAsync_v2") == ["cuMemcpyDtoDAsync_v2 bytes=20 stream=0x101"]
    driver().clear()
    site.execute(STREAMS[0], [y], [y])
    assert driver().log("cuMemcpyDtoDAsync_v2", "cuMemsetD8Async") == []


@own_process
@pytest.mark.parametrize("grid", [[], [0, 1], [3, 2]])
def test_launches_without_threads_launch_a_kernel_that_finds_nothing_to_do(grid):
    """A graph without any launch is an error of XLA."""
    seen = []
    driver().register("jwarp_scale", lambda words, shape: seen.append((words[0], words[1], list(shape[:3]))))
    n = 5 if 0 in grid else 0
    site = xla().instantiate(attributes(scale_launch(n), grid=np.array(grid, np.int64)))
    y = np.full(5, np.nan, np.float32)
    site.execute(STREAMS[0], [X, np.asarray(K)], [y])
    np.testing.assert_array_equal(y, 0)
    assert seen == [(0, 0, [max(1, extent) for extent in (*grid, 1, 1)[:2]] + [1])]


@own_process
def test_arrays_without_elements():
    site = xla().instantiate(attributes(scale_launch(0)))
    empty = np.zeros(0, np.float32)
    site.execute(STREAMS[0], [empty, np.asarray(K)], [empty])
    assert driver().log("cuMemsetD8Async") == []
    assert len(driver().log("cuLaunchKernelEx")) == 1


# What goes wrong


@own_process(driver="/nowhere/libcuda.so.1")
def test_no_driver():
    chosen = r"/nowhere/libcuda.so.1 \(JWARP_LIBCUDA is the path of libcuda.so.1\)"
    with pytest.raises(XlaError, match=rf"need the NVIDIA driver, whose library {chosen} cannot be loaded"):
        xla().instantiate(attributes(scale_launch(5))).prepare()


@own_process
def test_an_old_driver():
    driver().set(version=12040)
    site = xla().instantiate(attributes(scale_launch(5)))
    for _ in range(2):
        with pytest.raises(XlaError, match=r"too old: it supports CUDA 12\.4, jwarp needs CUDA 13\.0\n.* 580"):
            site.prepare()
    assert set(driver().names()) == {"cuDriverGetVersion"}
    driver().set(version=13000)
    site.prepare()


@own_process(defines=["-DMOCK_WITHOUT_LAUNCH"])
def test_a_driver_that_lacks_a_function():
    with pytest.raises(XlaError, match="has no function cuLaunchKernelEx; jwarp needs CUDA 13.0"):
        xla().instantiate(attributes(scale_launch(5))).prepare()


@own_process
def test_no_gpu():
    driver().set(devices=0)
    with pytest.raises(XlaError, match="no GPU in this process\n.*CUDA_VISIBLE_DEVICES"):
        xla().instantiate(attributes(scale_launch(5))).prepare()


@own_process
def test_a_driver_that_does_not_start():
    driver().fail("cuInit", 999)
    with pytest.raises(XlaError, match=r"CUDA does not start: cuInit failed with an unknown error, error 999"):
        xla().instantiate(attributes(scale_launch(5))).prepare()


@own_process
@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.parametrize("shared", [0, 60_000])
def test_every_function_may_fail(checks, shared):
    """The error names kernel and function, and the call works as soon as the function does."""
    register_scale()
    launch = make_launch([5], [(0, -1, INPUT, 0), (1, -1, INPUT, 0), (2, 0, IN_OUT, 0)])
    target = xla(checks)

    def call(number: int) -> None:
        site = target.instantiate(attributes(launch, shared=shared, image=cubin(str(number))))
        site.prepare()
        site.initialize(STREAMS[0])
        y = np.zeros(5, np.float32)
        site.execute(STREAMS[0], [X, np.asarray(K), y], [np.zeros(5, np.float32)])

    call(0)
    # Done once per context.
    once = {"cuDriverGetVersion", "cuInit", "cuDeviceGetCount", "cuCtxGetDevice", "cuMemAlloc_v2"}
    functions = set(driver().names()) - once - {"cuCtxPopCurrent_v2"}
    if not shared:
        functions -= {"cuDeviceGetAttribute"}
    assert len(functions) >= 9
    for number, function in enumerate(sorted(functions)):
        driver().fail(function, 1)
        with pytest.raises(XlaError) as caught:
            call(1 + number)
        name = function.removesuffix("_v2")
        expected = f"jwarp: kernel 'scale': {name} failed with CUDA_ERROR_INVALID_VALUE, error 1"
        assert str(caught.value).startswith(f"{expected} (the mock was told to fail)\n  help: wp.config.debug = True")
        driver().fail(function, 0)
        call(1 + number)


@own_process
def test_errors_say_where_the_kernel_is_and_what_to_do():
    """Programs of other processes have no place, as these alone lowered them."""
    target, number = xla(), itertools.count()
    resource_exhausted, failed_precondition, unavailable, internal = 8, 9, 14, 13

    def told(function: str, error: int, place: str = "spring.py:12") -> XlaError:
        image = cubin(str(next(number)))
        if place:
            native().note_place(image, "jwarp_scale", "spring.py:7")
            for line in place.split(" or "):
                native().note_place(image, "jwarp_scale", line)  # where it was moved to, and copies of it
            native().note_place(image, "jwarp_other", "other.py:1")
        site = target.instantiate(attributes(scale_launch(5), image=image))
        driver().fail(function, error)
        with pytest.raises(XlaError) as caught:
            site.prepare()
            site.initialize(STREAMS[0])
            execute(site)
        driver().fail(function, 0)
        site.delete()
        return caught.value

    for function, error, code, words in (
        ("cuInit", 999, unavailable, "please report"),
        ("cuInit", 100, unavailable, "CUDA_VISIBLE_DEVICES"),
        ("cuInit", 803, unavailable, "start the computer again"),
        ("cuLibraryLoadData", 2, resource_exhausted, "is used up; JAX takes"),
        ("cuLibraryLoadData", 200, internal, "cannot read the code"),
        ("cuLibraryLoadData", 209, internal, "not compiled for this GPU"),
        ("cuLibraryLoadData", 218, internal, "cannot read the code"),
        ("cuLibraryLoadData", 221, internal, "GPU's own architecture"),
        ("cuLibraryLoadData", 222, internal, "newer than the driver"),
        ("cuKernelGetFunction", 209, failed_precondition, 'wp.config.cuda_arch = "sm_90"'),
        ("cuLaunchKernelEx", 1, internal, "wp.config.debug = True checks"),
        ("cuLaunchKernelEx", 700, internal, "not its own.*wp.config.debug = True names"),
        ("cuLaunchKernelEx", 701, internal, "too few registers.*smaller block_dim"),
        ("cuLaunchKernelEx", 710, internal, "assertion"),
        ("cuLaunchKernelEx", 716, internal, "earlier kernel.*wp.config.debug"),
        ("cuLaunchKernelEx", 906, internal, "launch once before the capture"),
    ):
        found = told(function, error)
        name = "" if function == "cuInit" and error == 100 else f"{function} failed with .*, error {error} .*"
        assert re.fullmatch(rf"jwarp: kernel 'scale': .*{name}\n  --> spring.py:12\n  help: .*{words}.*", str(found)), (
            found
        )
        assert found.code == code
    assert "-->" not in str(told("cuLaunchKernelEx", 700, place=""))
    copies = "spring.py:12 or copy.py:3 or other copy.py:12"  # nobody can tell whose launch it was
    assert f"\n  --> {copies}\n" in str(told("cuLaunchKernelEx", 700, copies))
    assert f"\n  --> {copies}\n" in str(told("cuLaunchKernelEx", 700, f"oldest.py:1 or copy.py:8 or {copies}"))


@own_process
def test_buffers_that_do_not_suit_the_launch():
    site = xla().instantiate(attributes(scale_launch(5)))
    with pytest.raises(XlaError, match="parameter 1 has a buffer of rank 1"):
        site.execute(STREAMS[0], [X, X], [X.copy()])
    with pytest.raises(XlaError, match="needs 2 operands and 1 results"):
        site.execute(STREAMS[0], [X], [X.copy()])
    assert driver().log("cuLaunchKernelEx") == []


# Processes and threads


@own_process
def test_a_fork_while_another_thread_loads_its_first_kernel():
    """The module makes its singletons when it is loaded, so no child finds one half made."""
    for wait in np.linspace(0, 4e-3, 12):
        if os.fork() == 0:
            target = xla()
            loading = threading.Thread(target=load_after, args=(target, wait))
            loading.start()
            for number in range(8):
                if os.fork() == 0:
                    signal.alarm(20)
                    load_after(target, 0, f"child {number}")
                    os._exit(0)
            loading.join()
            os._exit(sum(os.wait()[1] != 0 for _ in range(8)))
        assert os.wait()[1] == 0


def load_after(target: Xla, seconds: float, name: str = "kernel") -> None:
    """Waits at work, as a thread that sleeps would begin when another one lets it."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    target.instantiate(attributes(scale_launch(5), image=cubin(name))).prepare()


@own_process
def test_a_child_of_a_fork_finds_no_lock_held():
    stop = threading.Event()
    target = xla()

    def load_on() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            target.instantiate(attributes(scale_launch(5), image=cubin(str(number)))).prepare()

    loading = threading.Thread(target=load_on)
    loading.start()
    for number in range(20):
        child = os.fork()
        if child == 0:
            target.instantiate(attributes(scale_launch(5), image=cubin(f"child {number}"))).prepare()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    loading.join()


@own_process
def test_threads_share_call_sites():
    """First runs at the same time as others, on two devices, with shapes that differ."""
    launches = native().DeviceLaunch(
        kernel="scale", entry="jwarp_scale", image=cubin(), plan=attributes(scale_launch(5))["plan"],
        launch=scale_launch(5), block=128,
    )  # fmt: skip
    register_scale()
    k, wrong = np.asarray(K), []

    def run(number: int) -> None:
        rng = np.random.default_rng(number)
        for _ in range(50):
            x, y = rng.uniform(size=5).astype(np.float32), np.full(5 + number % 2, np.nan, np.float32)
            arrays = [(a.ctypes.data, F32, a.shape) for a in (x, k, y)]
            launches.run(arrays, STREAMS[number % 2], keep=())
            if not np.array_equal(y[:5], K * x) or (y[5:] != 0).any():
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(driver().log("cuLibraryLoadData")) == 1
    assert len(driver().log("cuKernelGetFunction")) == 2
