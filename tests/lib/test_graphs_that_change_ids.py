"""Graphs that change, as they run, what launches read first: ids in arrays, and the points of what these name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(31)
FACES = np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], np.int32)
TURNS = [0, 0, 1, 1, 2, 2, 0, 1, 0, 2]


@wp.kernel
def first(ids: wp.array[wp.uint64], y: wp.array[wp.vec3]):
    y[0] = wp.vec3(0.0)
    if ids[0] != wp.uint64(0):
        y[0] = wp.mesh_get(ids[0]).points[0]


@wp.kernel
def put(numbers: wp.array[wp.int64], which: wp.array[int], into: wp.array[wp.int64]):
    into[0] = numbers[which[0]]


@wp.kernel
def grow(points: wp.array[wp.vec3]):
    i = wp.tid()
    points[i] = points[i] * 1.5


@wp.kernel
def note(ids: wp.array[wp.uint64], count: wp.array[int], found: wp.array[wp.vec3]):
    count[0] = count[0] - 1
    found[count[0]] = wp.mesh_get(ids[0]).points[0]


@wp.kernel
def squares(x: wp.array[wp.vec3], ids: wp.array[wp.uint64], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = x[i] * wp.dot(x[i], x[i])
    if ids[0] != wp.uint64(0):
        y[i] = wp.mesh_get(ids[0]).points[0]


def a_mesh():
    return wp.Mesh(wp.array(RNG.normal(size=(4, 3)), dtype=wp.vec3, device="cpu"), wp.array(FACES, device="cpu"))


@pytest.fixture
def made():
    """Meshes, their ids and none as signed numbers, and what they are asked for."""
    meshes = [a_mesh() for _ in range(3)]
    return meshes, np.array([int(mesh.id) for mesh in meshes], np.int64), [mesh.points.list()[0] for mesh in meshes]


@pytest.mark.parametrize("way", ["kernel", "shared", "copy", "fill", "branch"])
def test_ids_are_read_after_what_writes_them_in_the_same_graph(made, way):
    _, numbers, wanted = made
    given, which = wp.array(numbers, device="cpu"), wp.zeros(1, dtype=int, device="cpu")
    y, yes = wp.zeros(1, dtype=wp.vec3, device="cpu"), wp.full(1, 1, dtype=int, device="cpu")
    host = numbers[:1].copy()
    ids = wp.array(host.view(np.uint64), copy=False, device="cpu")
    if way != "shared":
        ids = wp.clone(ids)
    signed = wp.array(host, copy=False, device="cpu") if way == "shared" else ids.view(wp.int64)

    def ask():
        wp.launch(put, 1, inputs=[given, which, signed])
        wp.launch(first, 1, inputs=[ids, y])

    with wp.ScopedCapture(device="cpu") as capture:
        if way == "copy":
            wp.copy(signed, given, 0, 1, 1)
            wp.launch(first, 1, inputs=[ids, y])
            wp.copy(signed, given, 0, 2, 1)
        elif way == "fill":
            signed.fill_(int(numbers[1]))
            wp.launch(first, 1, inputs=[ids, y])
            signed.fill_(int(numbers[2]))
        elif way == "branch":
            wp.capture_if(yes, ask)
        else:
            ask()
    for k in TURNS:
        which.fill_(k)
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(y.list()[0], wanted[1 if way in ("copy", "fill") else k])


def test_ids_are_read_in_each_trip_of_a_loop(made):
    _, numbers, wanted = made
    count, found = wp.zeros(1, dtype=int, device="cpu"), wp.zeros(3, dtype=wp.vec3, device="cpu")
    given, ids = wp.array(numbers, device="cpu"), wp.zeros(1, dtype=wp.uint64, device="cpu")
    which = wp.zeros(1, dtype=int, device="cpu")
    ids.fill_(int(numbers[0]))

    def trip():
        wp.launch(note, 1, inputs=[ids, count, found])
        wp.copy(which, count)
        wp.launch(put, 1, inputs=[given, which, ids.view(wp.int64)])

    with wp.ScopedCapture(device="cpu") as capture:
        count.fill_(3)
        wp.capture_while(count, trip)
    for _ in range(4):
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(found.numpy(), [wanted[1], wanted[2], wanted[0]])


@pytest.mark.parametrize("is_first", [False, True])
def test_points_that_a_graph_changes_are_read_as_they_are(made, is_first):
    (mesh, *_), _, _ = made
    ids, y = wp.array([mesh.id], dtype=wp.uint64, device="cpu"), wp.zeros(1, dtype=wp.vec3, device="cpu")
    at_first = wp.clone(mesh.points)
    with wp.ScopedCapture(device="cpu") as capture:
        if is_first:
            wp.copy(mesh.points, at_first)
            wp.launch(grow, 4, inputs=[mesh.points])
        wp.launch(first, 1, inputs=[ids, y])
        wp.launch(grow, 4, inputs=[mesh.points])
    for k in range(4):
        wp.capture_launch(capture.graph)
        scale = np.float32(1.5 if is_first else 1.5**k)
        np.testing.assert_allclose(y.list()[0], at_first.list()[0] * scale, rtol=1e-6)
        wp.launch(first, 1, inputs=[ids, y])  # which must not take what the graph has read before it wrote
        np.testing.assert_array_equal(y.list()[0], mesh.points.list()[0])


def test_graphs_with_tapes_take_ids_that_they_write_themselves(made):
    _, numbers, wanted = made
    content = RNG.normal(size=(5, 3)).astype(np.float32)
    x = wp.array(content, dtype=wp.vec3, requires_grad=True, device="cpu")
    y = wp.zeros(5, dtype=wp.vec3, requires_grad=True, device="cpu")
    given = wp.array([0, *numbers], dtype=wp.int64, device="cpu")
    which, ids = wp.zeros(1, dtype=int, device="cpu"), wp.zeros(1, dtype=wp.uint64, device="cpu")
    with wp.ScopedCapture(device="cpu") as capture:
        wp.launch(put, 1, inputs=[given, which, ids.view(wp.int64)], record_tape=False)
        with wp.Tape():
            wp.launch(squares, 5, inputs=[x, ids], outputs=[y])
    for _ in range(3):
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(y.numpy(), content * (content**2).sum(1, keepdims=True), rtol=1e-5)
    which.fill_(1)  # what it names is read by nothing
    wp.capture_launch(capture.graph)
    assert ids.list() == [numbers[0]]
    np.testing.assert_array_equal(y.numpy(), np.broadcast_to(wanted[0], (5, 3)))


@wp.kernel
def move(pool: wp.array[wp.uint64], which: wp.array[int], ids: wp.array[wp.uint64]):
    if pool[which[0]] != wp.uint64(0):
        ids[0] = pool[which[0]]


def test_kernels_that_ask_nothing_of_ids_move_them(made):
    """Also where ids cannot be looked up: in records and on tapes."""
    _, numbers, wanted = made
    pool = wp.array(numbers, dtype=wp.uint64, device="cpu")
    which, ids = wp.zeros(1, dtype=int, device="cpu"), wp.zeros(1, dtype=wp.uint64, device="cpu")
    y = wp.zeros(1, dtype=wp.vec3, device="cpu")
    with wp.ScopedCapture(device="cpu") as capture:
        wp.launch(move, 1, inputs=[pool, which, ids])
        wp.launch(first, 1, inputs=[ids, y])
    for k in TURNS:
        which.fill_(k)
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(y.list()[0], wanted[k])
    which.fill_(1)
    record = wp.launch(move, 1, inputs=[pool, which, ids], record_cmd=True)
    record.launch()
    assert ids.list() == [numbers[1]]
    which.fill_(0)
    with wp.Tape():
        wp.launch(move, 1, inputs=[pool, which], outputs=[ids])
    assert ids.list() == [numbers[0]]


def test_graphs_of_launches_on_jax_values_read_ids_when_they_run(made):
    meshes, numbers, wanted = made
    with jax.enable_x64(True):
        ids = numbers[:1].astype(np.uint64)
        y = wp.from_jax(jnp.zeros((1, 3), jnp.float32), dtype=wp.vec3)
        with wp.ScopedCapture(device="cpu") as capture:
            wp.launch(first, 1, inputs=[ids, y])
        for k in TURNS:
            ids[0] = meshes[k].id
            wp.capture_launch(capture.graph)
            np.testing.assert_array_equal(wp.to_jax(y)[0], wanted[k])
