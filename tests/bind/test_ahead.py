"""Launches are compiled for GPUs while others are lowered: once each, and errors are raised in their places."""

import os
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.cuda import nvrtc
from jwarp.bind import ahead, primitive

needs_compiler = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")


@pytest.fixture
def threads(monkeypatch):
    made = ahead.Ahead(3)
    monkeypatch.setattr(ahead, "AHEAD", made)
    return made


def traced(made, *asks):
    for ask in asks:
        made.note(ask)


def test_several_at_once(threads):
    """Calls meet that only threads at work at once can meet; the answers are those that were asked for."""
    meeting = threading.Barrier(3, timeout=30)
    calls = []

    def call(ask, how):
        calls.append((ask, how))
        if ask in "abc":
            meeting.wait()
        return ask + how

    traced(threads, *"abcdef")
    assert [threads.answer(ask, "!", call) for ask in "abcdef"] == ["a!", "b!", "c!", "d!", "e!", "f!"]
    assert sorted(calls) == [(ask, "!") for ask in "abcdef"]


def test_what_is_never_asked_for(threads):
    """A launch that is traced and then lowered elsewhere costs little, and is forgotten."""
    calls = []

    def call(ask, how):
        calls.append(ask)
        return ask

    traced(threads, *"abcdefgh", "u", "v")
    assert threads.answer("u", 0, call) == "u" and threads.answer("v", 0, call) == "v"
    assert sorted(calls) == ["u", "v"]  # none of those before, which were not lowered
    traced(threads, "w", "x", "y", "z")
    assert threads.answer("w", 0, call) == "w"
    traced(threads, "q")
    assert threads.answer("q", 0, call) == "q"
    assert threads.answer("x", 1, call) == "x" and threads.answer("new", 0, call) == "new"
    assert not threads._begun and not threads._traced
    for number in range(2 * ahead.MOST_TRACED):
        threads.note(number)
    assert len(threads._traced) == ahead.MOST_TRACED


def test_errors_come_where_they_are_asked_for(threads):
    def call(ask, how):
        if ask == "b":
            raise wp.CompileError("not this one")
        return ask

    traced(threads, *"abc")
    assert threads.answer("a", 0, call) == "a"
    with pytest.raises(wp.CompileError, match="not this one"):
        threads.answer("b", 0, call)
    assert threads.answer("c", 0, call) == "c"


def test_no_threads_are_left(threads):
    """As at the end of the interpreter, when functions of `atexit` run."""
    traced(threads, *"abcdefg")
    assert threads.answer("a", 0, lambda ask, how: ask) == "a"
    threads._pool.shutdown()
    assert [threads.answer(ask, 0, lambda ask, how: ask) for ask in "bcdefg"] == [*"bcdefg"]


def test_one_thread_begins_nothing():
    made = ahead.Ahead(1)
    traced(made, "a", "b")
    assert made.answer("a", 0, lambda ask, how: ask) == "a" and not made._begun and not made._traced


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_children_of_forks(threads):
    """They have none of the threads that their parent had."""
    traced(threads, "a", "b")
    threads.answer("a", 0, lambda ask, how: ask)
    child = os.fork()
    if child == 0:
        try:
            fresh = ahead.AHEAD
            traced(fresh, "a", "b")
            is_right = [fresh.answer(ask, 0, lambda ask, how: ask) for ask in "ab"] == ["a", "b"]
            os._exit(0 if is_right and fresh is not threads else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


@wp.kernel
def first(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * 3.0


@wp.kernel
def second(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.exp(x[i]) + x[i]


@wp.kernel
def third(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i]


def chain(x):
    for kernel in (first, second, third):
        (x,) = wp.launch(kernel, 8, [x], [8])
    return x.sum()


@needs_compiler
@pytest.mark.parametrize(
    ("function", "launches"),
    [
        (chain, 3),
        (jax.grad(chain), 6),
        (lambda x: jax.vmap(chain)(jnp.stack([x, x])).sum(), 3),
        (jax.vmap(jax.grad(lambda x: chain(x * jnp.ones(8)))), 6),
    ],
)
def test_programs(function, launches, threads, monkeypatch):
    """Each launch is compiled once, all but the first begun by threads, and the program is the same."""
    compiled, submit, by, begun_ahead = primitive._compiled, threads._submit, [], []

    def submitted(call, ask, how):
        begun_ahead.append(ask)
        return submit(call, ask, how)

    def counted(asked, how):
        by.append(threading.current_thread().name)
        return compiled(asked, how)

    def lowered():
        jax.clear_caches()
        with wp.config(cuda_arch="sm_90", cache_dir=""):
            return jax.jit(function).trace(np.ones(8, np.float32)).lower(lowering_platforms=("cuda",)).as_text()

    monkeypatch.setattr(primitive, "_compiled", counted)
    monkeypatch.setattr(threads, "_submit", submitted)
    found, begun = lowered(), len(by)
    assert len(begun_ahead) == begun - 1 == launches - 1 and any("jwarp-nvrtc" in name for name in by)
    by.clear()
    monkeypatch.setattr(ahead, "AHEAD", ahead.Ahead(1))
    assert lowered() == found
    assert begun <= len(by) + threads.threads and not any("jwarp-nvrtc" in name for name in by)
