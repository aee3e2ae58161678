"""Processes that fork while other threads compile: children can compile, too, and do not wait for ever."""

import gc
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import jwarp as wp
from jwarp import forks
from jwarp.caches import Cache
from jwarp.collector import no_collection
from jwarp.compiler.analysed import AnalysedKernel
from jwarp.compiler.cpu import CpuKernel


@wp.kernel
def doubled_by_forks(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def child(work, seconds=20):
    """The exit code of a fork that does some work, or minus the signal that ended it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX and Python warn of forks in processes with threads
        pid = os.fork()
    if pid == 0:
        signal.alarm(seconds)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def thread():
    """Runs a function in a thread that ends with the test."""
    begun = []

    def run(function):
        begun.append(threading.Thread(target=function))
        begun[-1].start()

    yield run
    for one in begun:
        one.join()


def launched():
    y = np.zeros(3, np.float32)
    wp.launch(doubled_by_forks, 3, [np.ones(3, np.float32)], [y])
    np.testing.assert_array_equal(y, 2)


def test_a_fork_waits_for_a_thread_that_compiles(thread, monkeypatch):
    inside, original = threading.Event(), CpuKernel.object_code

    def slow(self, version):
        inside.set()
        time.sleep(0.3)
        return original(self, version)

    def launched_anew():
        with wp.config(cache_dir=""):  # of the thread alone; other tests may have left the code on disk
            launched()

    monkeypatch.setattr(CpuKernel, "object_code", slow)
    thread(launched_anew)
    assert inside.wait(20)
    assert child(launched_anew) == 0


def test_locks_of_children_are_open(thread):
    lock, begun, go_on = forks.Lock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            begun.set()
            go_on.wait(0.2)

    def take():
        with lock:
            pass

    for _ in range(3):
        begun.clear()
        thread(hold)
        assert begun.wait(20)
        assert child(take) == 0


def test_cached_properties_of_children_can_be_made(thread, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    prop = vars(AnalysedKernel)["_symbols"]
    of = type("Of", (), {"__init__": lambda self, work: setattr(self, "work", work)})
    monkeypatch.setattr(prop, "func", lambda self: self.work())
    first, second = of(lambda: (begun.set(), go_on.wait(0.5))), of(lambda: 3)
    thread(lambda: prop.__get__(first))
    assert begun.wait(20)
    assert child(lambda: prop.__get__(second), seconds=5) == 0


def test_children_collect_where_another_thread_put_it_off(thread):
    begun = threading.Event()

    def hold():
        with no_collection():
            begun.set()
            time.sleep(0.3)

    def collected():
        assert gc.isenabled()

    def put_off():
        with no_collection():
            assert not gc.isenabled()
        assert gc.isenabled()

    thread(hold)
    assert begun.wait(20)
    assert child(collected) == child(put_off) == 0
    with no_collection():
        assert child(collected) == 1


def test_a_thread_forks_while_it_has_a_lock_itself(monkeypatch):
    lock = forks.Lock(is_shared=True)

    def take():
        with lock:
            pass

    with lock:
        assert child(take) == 0
        monkeypatch.setattr(forks, "MOST_WAITING", 0.1)
        waiting = threading.Thread(target=take)
        waiting.start()
        while len(forks._at_work) < 2:
            time.sleep(0.001)
        assert child(take) == 0  # waits for a thread that waits for this one, but not for ever
    waiting.join()
    assert not forks._at_work


def test_caches_of_children_can_be_written_to(thread):
    cache, begun = Cache("things of a test", 4), threading.Event()

    def hold():
        with cache._lock:
            begun.set()
            time.sleep(0.3)

    thread(hold)
    assert begun.wait(20)
    assert child(lambda: cache.keep("key", 1)) == 0
