"""Replays: launches on arrays in place, on the threads of the native module."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from launch_format import IN_OUT, INPUT, ZEROS, make_launch
from native_kernels import (
    ARRAY,
    F32,
    PRED,
    S32,
    SCALAR,
    SCALE_PLAN,
    UNKNOWN,
    Frame,
    child_environment,
    make_plan,
    new_fingerprint,
    python_entry,
    register,
    scale_entry,
)

from jwarp import _native
from jwarp.compiler.cpu import compile_program


@pytest.fixture(autouse=True)
def default_state():
    _native.set_compiler(None)
    yield
    _native.set_thread_limit(0)
    _native.set_compiler(compile_program)


@pytest.fixture(scope="module")
def scale() -> str:
    fingerprint = new_fingerprint()
    _native.register_kernel(fingerprint, SCALE_PLAN, scale_entry(), 0)
    return fingerprint


def launch_of(n: int) -> np.ndarray:
    """y = k * x, in place."""
    return make_launch([n], [(0, -1, INPUT, 0), (1, -1, INPUT, 0), (2, 0, IN_OUT, 0)])


def replay_of(scale: str, x: np.ndarray, k: float, y: np.ndarray, n: int | None = None) -> _native.BoundHostLaunch:
    arrays = [x, np.array(k, np.float32), y]
    return _native.BoundHostLaunch(scale, b"", launch_of(len(x) if n is None else n), arrays, [0, 1, 2], [2])


def adder(n: int) -> str:
    """The fingerprint of a kernel that adds one to each element it visits."""

    def body(frame: Frame) -> None:
        frame.array(0, (n,))[frame.columns] += 1

    return register(make_plan(1, [(ARRAY, 1, F32, UNKNOWN)]), body)


def add_replay(n: int, x: np.ndarray) -> _native.BoundHostLaunch:
    return _native.BoundHostLaunch(adder(n), b"", make_launch([n], [(0, 0, IN_OUT, 0)]), [x], [0], [0])


@pytest.mark.parametrize("n", [1, 63, 1000, 1_000_000])
@pytest.mark.parametrize("threads", [0, 1, 2, 5])
def test_replays_see_changes(scale: str, n: int, threads: int) -> None:
    x, y = np.random.default_rng(n).standard_normal(n).astype(np.float32), np.zeros(n, np.float32)
    _native.set_thread_limit(threads, eager=threads > 0)
    replay = replay_of(scale, x, 3.0, y)
    for _ in range(3):
        replay()
        np.testing.assert_array_equal(y, 3 * x)
        x += 1


def test_replacing(scale: str) -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    replay = replay_of(scale, x, 1.0, y)
    replay.replace([(1, np.array(2, np.float32))])
    replay()
    np.testing.assert_array_equal(y, 2 * x)
    z = np.zeros((8, 2), np.float32)
    replay.replace([(2, z[::-1, 1]), (0, x[::-1])])
    replay()
    np.testing.assert_array_equal(z[:, 1], 2 * x)
    np.testing.assert_array_equal(z[:, 0], 0)
    longer, result = np.ones(20, np.float32), np.zeros(20, np.float32)
    replay.replace([(0, longer), (2, result)], launch_of(15))
    replay()
    np.testing.assert_array_equal(result, [2] * 15 + [0] * 5)
    np.testing.assert_array_equal(y, 2 * x)


def test_a_refused_replacement_changes_nothing(scale: str) -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    replay = replay_of(scale, x, 2.0, y)
    read_only = y.copy()
    read_only.flags.writeable = False
    for arrays, launch, message in [
        ([(2, read_only)], None, "read-only"),
        ([(1, np.array(5, np.float32)), (3, y)], None, "no array 3"),
        ([(1, np.array(5, np.float32)), (0, x.astype(">f4"))], None, "dtype"),
        ([(1, np.array(5, np.float32))], launch_of(8)[:-1], "damaged"),
        ([(1, np.array(5, np.float32)), (-1, y)], None, "no array -1"),
    ]:
        with pytest.raises(ValueError, match=f"^jwarp: .*{message}"):
            replay.replace(arrays, launch)
    replay()
    np.testing.assert_array_equal(y, 2 * x)
    replay.replace([(0, x.astype(np.float64))])
    with pytest.raises(ValueError, match="dtype"):
        replay()


def test_wrong_replays_are_refused(scale: str) -> None:
    x, y, k = np.zeros(4, np.float32), np.zeros(4, np.float32), np.zeros((), np.float32)
    _native.set_compiler(None)

    def make(arrays, operands=(0, 1, 2), results=(2,), launch=None, fingerprint=scale):
        numbers = launch_of(4) if launch is None else launch
        return _native.BoundHostLaunch(fingerprint, b"", numbers, arrays, operands, results)

    for arrays, options, error, message in [
        ([x, k, [1.0]], {}, TypeError, "NumPy arrays"),
        ([x, k, y.astype(complex)], {}, ValueError, "dtype"),
        ([x, k, y], {"operands": (0, 1, 3)}, ValueError, "no array 3"),
        ([x, k, y], {"results": (-1,)}, ValueError, "no array -1"),
        ([x, k, y], {"launch": launch_of(4)[:-1]}, ValueError, "damaged"),
        ([x, k, y], {"fingerprint": new_fingerprint()}, RuntimeError, "not compiled"),
    ]:
        with pytest.raises(error, match=f"^jwarp: .*{message}"):
            make(arrays, **options)
    for arrays, options, message in [
        ([x, k, y], {"operands": (0, 1)}, "needs 3 operands"),
        ([x, k, y, y], {"results": (2, 3)}, "1 results"),
        ([x[:, None], k, y], {}, "rank"),
        ([x, x, y], {}, "rank"),
        ([x, k, y, y[:2]], {"operands": (0, 1, 3)}, "another shape"),
    ]:
        replay = make(arrays, **options)
        with pytest.raises(ValueError, match=f"^jwarp: .*{message}"):
            replay()


def test_copies_and_zeros(scale: str) -> None:
    """A result that is no operand's array is a copy of one, or starts as zeros."""
    fingerprint = adder(6)
    start, made = np.arange(6, dtype=np.float32), np.full((6, 2), 9, np.float32)
    launch = make_launch([6], [(0, 0, IN_OUT, 0)])
    replay = _native.BoundHostLaunch(fingerprint, b"", launch, [start, made[::-1, 0]], [0], [1])
    for _ in range(3):
        replay()
    np.testing.assert_array_equal(start, np.arange(6))
    np.testing.assert_array_equal(made[::-1, 0], start + 1)
    np.testing.assert_array_equal(made[:, 1], 9)
    zeros = make_launch([4], [(-1, 0, ZEROS, 0)])
    _native.BoundHostLaunch(fingerprint, b"", zeros, [made[:, 1]], [], [0])()
    np.testing.assert_array_equal(made[:, 1], [1, 1, 1, 1, 0, 0])


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.uint32, np.int64])
def test_large_strided_arrays_in_shared_copies(dtype: type) -> None:
    n, codes = 700, {"e": 10, "d": 12, "b": 2, "I": 8, "l": 5}

    def body(frame: Frame) -> None:
        x = frame.array(0, (n, n), dtype)
        x[frame.rows, frame.columns] += dtype(1)

    code = codes[np.dtype(dtype).char]
    fingerprint = register(make_plan(2, [(ARRAY, 2, code, UNKNOWN)]), body)
    whole = np.random.default_rng(0).integers(0, 50, (2 * n, n)).astype(dtype)
    expected = whole.copy()
    expected[::-2, :] += dtype(1)
    _native.set_thread_limit(4)
    launch = make_launch([n, n], [(0, 0, IN_OUT, 0)])
    _native.BoundHostLaunch(fingerprint, b"", launch, [whole[::-2]], [0], [0])()
    np.testing.assert_array_equal(whole, expected)


@pytest.mark.parametrize("n", [1 << 15, (1 << 15) + 1, 1_000_003])
def test_long_strided_rows(scale: str, n: int) -> None:
    x, y = np.random.default_rng(n).standard_normal((2, n, 2)).astype(np.float32)
    before = y.copy()
    _native.set_thread_limit(3)
    replay_of(scale, x[::-1, 1], 2.0, y[:, 0])()
    np.testing.assert_array_equal(y[:, 0], 2 * x[::-1, 1])
    np.testing.assert_array_equal(y[:, 1], before[:, 1])


def test_changed_arrays_are_found(scale: str) -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    replay = replay_of(scale, x, 2.0, y)
    y.flags.writeable = False
    with pytest.raises(ValueError, match="array 2 of the launch has become read-only"):
        replay()
    y.flags.writeable = True
    x.resize(100_000, refcheck=False)
    with pytest.raises(ValueError, match="array 0 of the launch has changed"):
        replay()
    np.testing.assert_array_equal(y, 0)


# Threads


def test_calls_of_one_replay_take_turns() -> None:
    """Eight threads add one to the same elements; none of it is lost."""
    n = 100_000
    x = np.zeros(n, np.float32)
    replay = add_replay(n, x)
    _native.set_thread_limit(3, eager=True)
    threads = [threading.Thread(target=lambda: [replay() for _ in range(5)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    np.testing.assert_array_equal(x, 40)


def test_replays_on_several_threads_while_others_replace(scale: str) -> None:
    n = 50_000
    random = np.random.default_rng(0)
    _native.set_thread_limit(2, eager=True)
    x = random.standard_normal(n).astype(np.float32)
    own = [np.zeros(n, np.float32) for _ in range(4)]
    shared = replay_of(scale, x, 2.0, np.zeros(n, np.float32))
    targets = [np.zeros((n, 2), np.float32)[:, 0] for _ in range(20)]

    def run(y: np.ndarray) -> None:
        replay = replay_of(scale, x, 3.0, y)
        for _ in range(20):
            replay()
            shared()

    def replace() -> None:
        for target in targets:
            shared.replace([(2, target)])
            shared()

    threads = [threading.Thread(target=run, args=(y,)) for y in own] + [threading.Thread(target=replace)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for y in own:
        np.testing.assert_array_equal(y, 3 * x)
    for target in targets:
        np.testing.assert_array_equal(target, 2 * x)


def test_the_gil_is_free_while_a_kernel_runs() -> None:
    """A kernel that waits for another Python thread ends."""
    reached, go_on = threading.Event(), threading.Event()

    def body(frame: Frame) -> None:
        reached.set()
        assert go_on.wait(30)

    fingerprint = register(make_plan(1, [(ARRAY, 1, F32, UNKNOWN)]), body)
    replay = _native.BoundHostLaunch(
        fingerprint, b"", make_launch([1], [(0, 0, IN_OUT, 0)]), [np.zeros(1, np.float32)], [0], [0]
    )
    thread = threading.Thread(target=replay)
    thread.start()
    assert reached.wait(30)
    replay.replace([(0, np.ones(1, np.float32))])  # does not wait for the kernel either
    go_on.set()
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_missing_versions_are_compiled_and_errors_raised() -> None:
    plan = make_plan(1, [(SCALAR, 0, S32, UNKNOWN), (ARRAY, 1, F32, UNKNOWN)], [[({4: 1}, 0)]])
    calls = []

    def compile_kernel(name: str, program: bytes, version: str) -> None:
        calls.append((program, version))
        if len(calls) > 2:
            raise KeyError("no more")

        def body(frame: Frame) -> None:
            frame.array(1, (4,))[frame.columns] = {"fast": 1, "checked": 2}[version]

        address = python_entry(body)
        _native.register_kernel(name, plan, *((address, 0) if version == "fast" else (0, address)))

    _native.set_compiler(compile_kernel)
    k, y = np.array(1, np.int32), np.zeros(4, np.float32)
    launch = make_launch([4], [(0, -1, INPUT, 0), (1, 0, IN_OUT, 0)])
    replay = _native.BoundHostLaunch(new_fingerprint(), b"p", launch, [k, y], [0, 1], [1])
    replay()
    np.testing.assert_array_equal(y, 1)
    k[()] = -1
    replay()
    np.testing.assert_array_equal(y, 2)
    assert calls == [(b"p", "fast"), (b"p", "checked")]
    with pytest.raises(RuntimeError, match="KeyError"):
        _native.BoundHostLaunch(new_fingerprint(), b"p", launch, [k, y], [0, 1], [1])


# Memory


class Watched(np.ndarray):
    """An array that can be watched."""


def test_arrays_live_as_long_as_they_are_needed(scale: str) -> None:
    x, y, z = (np.ones(8, np.float32).view(Watched) for _ in range(3))
    watches = [weakref.ref(a) for a in (x, y, z)]
    replay = replay_of(scale, x, 2.0, y)
    replay.replace([(0, z)])
    del x, y, z
    gc.collect()
    assert [watch() is not None for watch in watches] == [False, True, True]
    replay()
    np.testing.assert_array_equal(watches[1](), 2)
    del replay
    gc.collect()
    assert [watch() for watch in watches] == [None] * 3


# Fork and shutdown


def run_child(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        env=child_environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


PRELUDE = """
import atexit, os, sys, threading, time
import numpy as np
from jwarp import _native
from launch_format import IN_OUT, INPUT, make_launch
from native_kernels import *
_native.set_thread_limit(3, eager=True)
_native.register_kernel("scale", SCALE_PLAN, scale_entry(), 0)
n = 1_000_000
x, y = np.ones(n, np.float32), np.zeros(n, np.float32)
launch = make_launch([n], [(0, -1, INPUT, 0), (1, -1, INPUT, 0), (2, 0, IN_OUT, 0)])
replay = _native.BoundHostLaunch("scale", b"", launch, [x, np.array(3, np.float32), y], [0, 1, 2], [2])
"""


def test_fork() -> None:
    """Children of a process whose pool runs, and whose other threads replay, have pools of their own."""
    program = """
replay()
stop = False
def keep_going():
    while not stop:
        replay()
threads = [threading.Thread(target=keep_going) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(10):
    time.sleep(0.01)
    child = os.fork()
    if child == 0:
        y[:] = 0
        replay()
        grandchild = os.fork()
        replay()
        if grandchild == 0:
            os._exit(0 if (y == 3).all() else 1)
        os._exit(0 if os.waitpid(grandchild, 0)[1] == 0 and (y == 3).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
stop = True
for thread in threads:
    thread.join()
"""
    run_child(PRELUDE + program)


def test_exit() -> None:
    """The threads are joined before the interpreter ends; what comes later runs without them."""
    program = """
atexit.register(lambda: print("before", (replay(), (y == 3).all())[1]))
def daemon():
    while True:
        replay()
threading.Thread(target=daemon, daemon=True).start()
time.sleep(0.05)
"""
    early = "import atexit\natexit.register(lambda: (y.fill(0), replay(), print('after', (y == 3).all())))\n"
    for _ in range(3):
        assert run_child(early + PRELUDE + program).split() == ["before", "True", "after", "True"]


def test_other_kinds_are_no_arrays() -> None:
    plan = make_plan(1, [(ARRAY, 1, PRED, UNKNOWN)])
    fingerprint = register(plan, lambda _: None)
    launch = make_launch([2], [(0, 0, IN_OUT, 0)])
    for array in (np.zeros(2, [("a", "?")]), np.zeros(2, ">i4"), np.array(["a", "b"]), np.zeros(2, object)):
        with pytest.raises(ValueError, match="dtype"):
            _native.BoundHostLaunch(fingerprint, b"", launch, [array], [0], [0])


def test_a_function_replays_and_keeps_the_launch(scale):
    """`replay` is what a record calls: it does what calling the launch does, with the same errors."""
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    launch = replay_of(scale, x, 3.0, y)
    known, replay = weakref.ref(launch), launch.replay
    del launch
    gc.collect()
    replay()
    np.testing.assert_array_equal(y, 3.0 * x)
    y.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        replay()
    del replay
    gc.collect()
    assert known() is None
