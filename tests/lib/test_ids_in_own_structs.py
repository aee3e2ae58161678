"""Structs that a kernel makes hold ids of meshes that it was given, by themselves or in other structs."""

import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(9)
N = 30
WHERE = RNG.uniform(-1, 1, (N, 3)).astype(np.float32)


@wp.struct
class Shape:
    mesh: wp.uint64
    scale: float


@wp.struct
class Pair:
    first: Shape
    second: Shape
    bias: float


@wp.func
def distance_to(shape: Shape, p: wp.vec3):
    q = wp.mesh_query_point_no_sign(shape.mesh, p / shape.scale, 10.0)
    return wp.length(p / shape.scale - wp.mesh_eval_position(shape.mesh, q.face, q.u, q.v)) * shape.scale


@wp.func
def scaled(mesh: wp.uint64, scale: float) -> Shape:
    made = Shape()
    made.mesh = mesh
    made.scale = scale
    return made


@wp.func
def nearer(pair: Pair, p: wp.vec3):
    return wp.min(distance_to(pair.first, p), distance_to(pair.second, p)) + pair.bias


@wp.kernel
def ask(mesh: wp.uint64, other: Shape, turns: int, x: wp.array[wp.vec3], d: wp.array2d[float]):
    i = wp.tid()
    d[i, 0] = distance_to(Shape(mesh, 2.0), x[i])
    d[i, 1] = distance_to(scaled(mesh, 3.0), x[i])
    d[i, 2] = nearer(Pair(scaled(mesh, 0.5), other, 0.25), x[i])
    pair = Pair(bias=0.5)
    pair.second = other
    pair.first.mesh = mesh
    for _ in range(turns):
        pair.first.scale += 0.5
        pair.first.mesh = mesh
    d[i, 3] = nearer(pair, x[i])
    pair.first = Shape()
    d[i, 4] = distance_to(pair.second, x[i]) + wp.where(pair.first.mesh == wp.uint64(0), 7.0, 0.0)


@wp.kernel
def ask_plainly(mesh: wp.uint64, x: wp.array[wp.vec3], distance: wp.array[float]):
    i = wp.tid()
    q = wp.mesh_query_point_no_sign(mesh, x[i], 10.0)
    distance[i] = wp.length(x[i] - wp.mesh_eval_position(mesh, q.face, q.u, q.v))


@wp.kernel
def branches(other: Shape, x: wp.array[wp.vec3], d: wp.array[float]):
    shape = Shape()
    if d[0] > 0.0:
        shape = other
    d[0] = distance_to(shape, x[0])


@wp.kernel
def trips(other: Shape, turns: int, x: wp.array[wp.vec3], d: wp.array[float]):
    shape = Shape()
    for _ in range(turns):
        shape.mesh = other.mesh
    d[0] = distance_to(shape, x[0])


@wp.kernel
def kept_number(other: Shape, d: wp.array[float]):
    ids = wp.zeros(shape=2, dtype=wp.uint64)
    ids[0] = other.mesh
    d[0] = float(ids[1])


@wp.kernel
def stored(other: Shape, shapes: wp.array[Shape]):
    shapes[0] = other


def a_mesh(seed):
    corners = np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32)
    return corners, wp.Mesh(corners, np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], np.int32))


def a_shape(mesh):
    shape = Shape()
    shape.mesh, shape.scale = mesh.id, 1.5
    return shape


def test_kernels_put_ids_into_structs():
    (corners, mesh), (others, other) = a_mesh(0), a_mesh(1)

    def distances(points, scale):
        scaled_mesh = wp.Mesh((points * scale).astype(np.float32), mesh.indices)
        return np.asarray(wp.launch(ask_plainly, N, [scaled_mesh, WHERE], [N])[0])

    (found,) = wp.launch(ask, N, [mesh, a_shape(other), 3, WHERE], [(N, 5)])
    to_other = distances(others, 1.5)
    expected = [
        distances(corners, 2.0),
        distances(corners, 3.0),
        np.minimum(distances(corners, 0.5), to_other) + 0.25,
        np.minimum(distances(corners, 1.5), to_other) + 0.5,
        to_other + 7.0,
    ]
    np.testing.assert_allclose(found, np.transpose(expected), atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "given", "reason"),
    [
        (branches, [], "`shape` is not of one type in both branches of a condition: Shape with ids that are known and"),
        (
            trips,
            [2],
            "`shape` is Shape before the loop and Shape with ids that are known after one iteration(.|\\n)*two names",
        ),
    ],
)
def test_what_may_or_may_not_hold_an_id_is_refused(kernel, given, reason):
    with pytest.raises((wp.CompileError, wp.KernelTypeError), match=reason):
        wp.launch(kernel, 1, [a_shape(a_mesh(2)[1]), *given, WHERE], [1])


def test_arrays_of_structs_hold_numbers_alone():
    reason = "`ids` holds uint64, the value is the id of a wp.Mesh(.|\\n)*keep the index"
    with pytest.raises(wp.KernelTypeError, match=reason):
        wp.launch(kept_number, 1, [a_shape(a_mesh(2)[1]), np.zeros(1, np.float32)])
    shape = a_shape(a_mesh(2)[1])
    kept = wp.zeros(1, dtype=Shape, device="cpu")
    wp.launch(stored, 1, [shape, kept])
    assert kept.list()[0].mesh == int(shape.mesh) > 0
