"""Launches on new arrays of known shapes skip checks that hold for them, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jwarp as wp
from jwarp import _native
from jwarp.dispatch.executables.array_launch import ArrayExecutable
from jwarp.dispatch.executables.table import Slot

rng = np.random.default_rng(3)


@wp.kernel
def moved(x: wp.array[wp.vec3], by: wp.vec3, k: float, n: int, y: wp.array[wp.vec3]):
    i = wp.tid()
    if i < n:
        y[i] = x[i] * k + by


def launch(x, y, by=(1.0, 2.0, 3.0), k=2.0, n=4, dim=5):
    wp.launch(moved, dim, inputs=[x, wp.vec3(*by), k, n], outputs=[y])


def fresh(n=5):
    return wp.array(rng.normal(size=(n, 3)), dtype=wp.vec3), wp.zeros(n, dtype=wp.vec3)


@pytest.fixture(autouse=True)
def known():
    x, y = fresh()
    launch(x, y)


def test_new_arrays_and_numbers(monkeypatch):
    made = watched(monkeypatch)
    for n, k in ((4, 2.0), (2, 3), (5, -1.0)):
        x, y = fresh()
        version = y.memory.version
        launch(x, y, by=(k, 0.0, 1.0), k=k, n=n)
        expected = np.where(np.arange(5)[:, None] < n, x.numpy() * np.float32(k) + np.float32([k, 0.0, 1.0]), 0.0)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
        assert y.memory.version == version + 1
    assert made == [True, False, True]  # an integer for a float is another kind of number, which is looked at


def watched(monkeypatch):
    """Records of repeated launches: for each, if it avoided the slow path."""
    made, repeat = [], _native.repeat

    def spied(*given):
        found = repeat(*given)
        made.append(type(found) is not Slot)
        return found

    monkeypatch.setattr(_native, "repeat", spied)
    return made


def test_another_integer_for_a_float(monkeypatch):
    x, y = fresh()
    launch(x, y, k=3)
    made = watched(monkeypatch)
    launch(*fresh(), k=4)
    assert made == [True]


def test_one_array_for_both():
    x, _ = fresh()
    before = x.numpy().copy()
    launch(x, x, n=5)
    np.testing.assert_allclose(x.numpy(), before * 2.0 + np.float32([1, 2, 3]), rtol=1e-6)


def test_arrays_that_overlap():
    x, _ = fresh(8)
    before = x.numpy().copy()
    launch(x[0:5], x[2:7], n=5)
    np.testing.assert_allclose(x.numpy()[2:7], before[:5] * 2.0 + np.float32([1, 2, 3]), rtol=1e-6)


def test_views_of_other_strides():
    x, y = fresh(10)
    launch(x[::2], y[::2], n=5)
    np.testing.assert_allclose(y.numpy()[::2], x.numpy()[::2] * 2.0 + np.float32([1, 2, 3]), rtol=1e-6)
    assert not y.numpy()[1::2].any()


@pytest.mark.parametrize(
    "wrong",
    [{"dim": 5.0}, {"dim": (5.0,)}, {"dim": -1}, {"n": 2**40}, {"n": 1.5}, {"k": "a"}, {"dim": (5, 1, 1, 1, 1)}],
    ids=str,
)
def test_what_is_refused_stays_refused(wrong):
    with pytest.raises((wp.LaunchError, wp.KernelTypeError)):
        launch(*fresh(), **wrong)


def test_an_annotation_and_an_array_of_another_type():
    _, y = fresh()
    for given in (wp.array(dtype=wp.vec3), wp.zeros(5, dtype=wp.vec4), wp.zeros(5, dtype=wp.vec3d)):
        with pytest.raises((wp.LaunchError, wp.KernelTypeError)):
            launch(given, y)


def test_settings_count():
    with wp.config(bounds="error"):
        x, y = fresh()
        with pytest.raises((wp.LaunchError, RuntimeError)):
            launch(x, y, dim=9, n=9)


def test_what_is_kept_for_a_gradient_is_copied_first():
    x, y = fresh()
    kept = y.memory.keep(y.layout)
    launch(x, y)
    assert not kept.array().any() and y.numpy().any()


def test_under_tapes(monkeypatch):
    """The native module runs it, once it is known, and tells each tape of it."""
    for trip in range(3):
        if trip:
            monkeypatch.setattr(ArrayExecutable, "call", None)
        x, y = fresh()
        x.requires_grad = y.requires_grad = True
        with wp.Tape() as outer, wp.Tape() as tape:
            launch(x, y, k=2.0 + trip, n=5)
            launch(y, x, n=3)
        assert len(tape.launches) == len(outer.launches) == 2
        pull = rng.normal(size=(5, 3)).astype(np.float32)
        tape.backward(grads={x: wp.array(pull, dtype=wp.vec3)})
        # What it did not overwrite keeps its gradient, which the launch before adds nothing to.
        expected = np.where(np.arange(5)[:, None] < 3, 2.0 * (2.0 + trip) * pull, pull)
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


@wp.struct
class Pair:
    x: wp.array[float]
    k: float
    y: wp.array[float]


@wp.kernel
def paired(p: Pair, q: wp.array[float]):
    i = wp.tid()
    p.y[i] += p.k * p.x[i] + q[i]


@wp.kernel
def scaled(x: wp.array[Any], k: float, y: wp.array[Any]):
    i = wp.tid()
    y[i] = x[i] * type(x[i])(k)


def again(monkeypatch, launch):
    """True if a launch on new arrays, after a similar one, avoids the slow path."""
    launch()
    made = watched(monkeypatch)
    launch()
    return made


def test_structs(monkeypatch):
    def launch():
        p = Pair(x=wp.array([1.0, 2.0], dtype=float), k=3.0, y=wp.array([5.0, 7.0], dtype=float))
        wp.launch(paired, 2, inputs=[p, wp.ones(2, dtype=float)])
        assert p.y.numpy().tolist() == [9, 14]

    assert again(monkeypatch, launch) == [True]


def test_generic_kernels(monkeypatch):
    def launch():
        for dtype in (wp.float32, wp.float64):
            y = wp.zeros(2, dtype=dtype)
            wp.launch(scaled, 2, inputs=[wp.array([1.0, 2.0], dtype=dtype), 2.0], outputs=[y])
            assert y.numpy().tolist() == [2, 4]

    assert again(monkeypatch, launch) == [True, True]


@pytest.mark.parametrize("shared", ["p.x p.y", "p.x q", "p.y q", "p.x p.y q"])
def test_how_arrays_share_memory_counts(monkeypatch, shared):
    def launch():
        own = {name: wp.array([1.0, 2.0], dtype=float) for name in ("p.x", "p.y", "q")}
        own |= dict.fromkeys(shared.split(), own["p.x"])
        before = {name: a.numpy().copy() for name, a in own.items()}
        p = Pair(x=own["p.x"], k=3.0, y=own["p.y"])
        wp.launch(paired, 2, inputs=[p, own["q"]])
        expected = before["p.y"] + 3.0 * before["p.x"] + before["q"]
        np.testing.assert_array_equal(p.y.numpy(), expected)

    assert again(monkeypatch, launch) == [True]


def test_memory_of_others_that_overlaps():
    whole = np.arange(8, dtype=np.float32)
    for _ in range(2):
        x, y = (wp.array(whole[part], dtype=float, copy=False) for part in (slice(0, 4), slice(4, 8)))
        wp.launch(scaled, 4, inputs=[x, 2.0], outputs=[y])
        assert whole[4:].tolist() == [0, 2, 4, 6]
    read_only = np.zeros(4, np.float32)
    read_only.flags.writeable = False
    with pytest.raises(wp.LaunchError, match="read-only"):
        wp.launch(scaled, 4, inputs=[x, 2.0], outputs=[wp.array(read_only, dtype=float, copy=False)])


def test_tapes_take_the_short_way(monkeypatch):
    """Also where arrays are both read and written, and where places are given out."""

    def launch():
        x, y = (wp.array(rng.normal(size=4), dtype=wp.float64, requires_grad=True) for _ in range(2))
        with wp.Tape() as tape:
            wp.launch(scaled, 4, inputs=[x, 3.0], outputs=[y])
            wp.launch(scaled, 4, inputs=[y, 2.0], outputs=[y])
        tape.backward(grads={y: wp.ones(4, dtype=wp.float64)})
        assert x.grad.numpy().tolist() == [6] * 4 and not y.grad.numpy().any()

    assert again(monkeypatch, launch) == [True, True]


@wp.kernel
def placed(x: wp.array[float], count: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[wp.atomic_add(count, 0, 1)] = x[i] * x[i]


def test_places_on_a_tape(monkeypatch):
    def launch():
        x, y = (wp.array(rng.normal(size=50), dtype=float, requires_grad=True) for _ in range(2))
        count = wp.zeros(1, dtype=int)
        with wp.Tape() as tape:
            wp.launch(placed, 50, inputs=[x, count], outputs=[y])
        weights = rng.normal(size=50).astype(np.float32)
        tape.backward(grads={y: wp.array(weights)})
        order = [int(np.flatnonzero(x.numpy() ** 2 == v)[0]) for v in y.numpy()]
        np.testing.assert_allclose(x.grad.numpy()[order], 2.0 * weights * x.numpy()[order], rtol=1e-6)

    assert again(monkeypatch, launch) == [True]


@wp.kernel
def nearest(mesh: wp.uint64, at: wp.array[wp.vec3], found: wp.array[wp.vec3]):
    i = wp.tid()
    query = wp.mesh_query_point(mesh, at[i], 1e6)
    if query.result:
        found[i] = wp.mesh_eval_position(mesh, query.face, query.u, query.v)


def test_meshes(monkeypatch):
    points = wp.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=wp.vec3)
    mesh = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))

    def launch():
        found = wp.zeros(2, dtype=wp.vec3)
        wp.launch(nearest, 2, inputs=[mesh.id, wp.array([[0, 0, 3], [9, 0, 1]], dtype=wp.vec3), found])
        return found.numpy().tolist()

    assert launch() == [[0, 0, 0], [1, 0, 0]]
    made = watched(monkeypatch)
    assert launch() == [[0, 0, 0], [1, 0, 0]]
    points.assign([[0, 0, 1], [2, 0, 1], [0, 1, 1]])
    mesh.refit()
    made.clear()
    assert launch() == [[0, 0, 1], [2, 0, 1]]
    assert made == [True]


def test_memory_that_is_read_only_or_shared_is_looked_at():
    """The native module repeats launches on arrays that own their writable memory."""
    content = np.zeros((5, 3), np.float32)
    shared = wp.array(content, dtype=wp.vec3, copy=False)
    x, _ = fresh()
    for _ in range(2):
        launch(x, shared, n=5)
    np.testing.assert_allclose(content, x.numpy() * 2.0 + np.float32([1, 2, 3]), rtol=1e-6)
    content.flags.writeable = False
    with pytest.raises(wp.LaunchError, match="read-only"):
        launch(x, wp.array(content, dtype=wp.vec3, copy=False), n=5)


class Whole:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


def test_what_says_that_it_is_an_integer_is_one():
    x, y = fresh()
    for n in (Whole(2), Whole(3)):
        launch(x, y, n=n, dim=Whole(5))
    expected = np.where(np.arange(5)[:, None] < 3, x.numpy() * 2.0 + np.float32([1, 2, 3]), 0.0)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
    assert wp.vec2i(Whole(4), 1).tolist() == [4, 1]
    with pytest.raises(wp.KernelTypeError):
        launch(x, y, n=object())
    with pytest.raises(wp.LaunchError, match="outside"):
        launch(x, y, n=Whole(2**40))


@pytest.mark.parametrize(
    ("dim", "block_dim", "reason"),
    [
        (2**63, None, "dim must be at most"),
        ((2**70,), None, "dim must be at most"),
        ([2, -(2**70)], None, "dim must be non-negative"),
        (5, 2**70, "block_dim must be positive, and have 32 bits"),
        (5, 2**40, "block_dim must be positive, and have 32 bits"),
    ],
)
def test_counts_of_threads_that_are_too_large_are_refused(dim, block_dim, reason):
    x, y = fresh()
    with pytest.raises(wp.LaunchError, match=reason):
        wp.launch(moved, dim, inputs=[x, wp.vec3(), 2.0, 4], outputs=[y], block_dim=block_dim)
