"""None for an array argument: an array without elements, which has neither results nor gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tape_programs import in_a_graph_if

import jwarp as wp

N = 4


@wp.kernel
def weighted(x: wp.array[float], weight: wp.array[float], y: wp.array[float], log: wp.array2d[wp.vec3]):
    i = wp.tid()
    w = 1.0
    if weight:
        w = weight[i]
    y[i] = w * x[i] + float(log.shape[0])
    if log.shape[0] > 0:
        log[i, 0] = wp.vec3(w)


X = np.arange(1.0, N + 1, dtype=np.float32)
W = np.array([2.0, -1.0, 0.5, 3.0], np.float32)


def test_results_are_none_where_outputs_are():
    y, log = wp.launch(weighted, N, [X, None], [N, None])
    np.testing.assert_array_equal(y, X)
    assert log is None
    y, log = wp.launch(weighted, N, [X, W], [N, (N, 1)])
    np.testing.assert_array_equal(y, W * X + N)
    np.testing.assert_array_equal(log[:, 0, 2], W)


def test_a_dict_comes_back_with_every_written_parameter():
    found = wp.launch(weighted, N, [X, None, jnp.zeros(N), None])
    assert found.keys() == {"y", "log"} and found["log"] is None
    np.testing.assert_array_equal(found["y"], X)


def test_in_place():
    y = np.zeros(N, np.float32)
    same, log = wp.launch(weighted, N, [X, None], [y, None])
    assert same is y and log is None
    np.testing.assert_array_equal(y, X)
    found = wp.launch(weighted, N, [X, W, y, None])
    assert found["y"] is y and found["log"] is None
    np.testing.assert_array_equal(y, W * X)


def test_an_input_that_is_written_may_be_none():
    @wp.kernel
    def both(x: wp.array[float], seen: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i]
        if seen:
            wp.atomic_add(seen, 0, 1)

    np.testing.assert_array_equal(wp.launch(both, N, [X, None], [N])[0], X)
    np.testing.assert_array_equal(wp.jax_kernel(both)(X, None)[0], X)


def test_gradients_and_batches():
    def total(x, weight):
        return wp.launch(weighted, N, [x, weight], [N, None])[0].sum()

    np.testing.assert_array_equal(jax.jit(jax.grad(total))(X, None), np.ones(N))
    np.testing.assert_array_equal(jax.grad(total, 1)(X, W), X)
    np.testing.assert_array_equal(jax.vmap(lambda x: total(x, None))(np.stack([X, 2 * X])), [10.0, 20.0])
    gradients = wp.launch(weighted, N, [X, None], [N, None], adjoint=True, adj_outputs=[jnp.ones(N), None])
    np.testing.assert_array_equal(gradients[0], np.ones(N))
    assert gradients[1] is None
    g = np.zeros(N, np.float32)
    found = wp.launch(
        weighted,
        N,
        [X, None],
        [N, None],
        adjoint=True,
        adj_inputs=[g, None],
        adj_outputs=[np.ones(N, np.float32), None],
    )
    assert found[0] is g
    np.testing.assert_array_equal(g, np.ones(N))


def test_a_record_takes_it_and_another_value():
    record = wp.launch(weighted, N, [X, None], [N, None], record_cmd=True)
    np.testing.assert_array_equal(record.launch()[0], X)
    record.set_param_by_name("weight", W)
    np.testing.assert_array_equal(record.launch()[0], W * X)
    record.set_param_at_index(1, None)
    np.testing.assert_array_equal(record.launch()[0], X)


@wp.struct
class Part:
    k: float
    a: wp.array[float]


@wp.kernel
def from_part(p: Part, y: wp.array[float]):
    i = wp.tid()
    if p.a:
        y[i] = p.a[i]
    else:
        y[i] = p.k


def test_a_field_without_an_array():
    for given in (Part(k=3.0), {"k": 3.0, "a": None}):
        np.testing.assert_array_equal(wp.launch(from_part, 2, [given], [2])[0], [3.0, 3.0])
    np.testing.assert_array_equal(wp.launch(from_part, 2, [Part(k=3.0, a=X[:2])], [2])[0], X[:2])
    gradient = jax.grad(lambda p: wp.launch(from_part, 2, [p], [2])[0].sum())(Part(k=3.0))
    assert gradient.k == 2.0 and gradient.a is None


def test_an_element_that_is_not_there():
    @wp.kernel
    def plain(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i]

    with pytest.raises(wp.LaunchError, match="outside axis 0 of `x`, whose extent is 0"):
        wp.launch(plain, N, [None], [N])
    with pytest.raises(wp.KernelTypeError, match="'p.k': expected float32, got NoneType None"):
        wp.launch(from_part, 2, [{"k": None, "a": None}], [2])


def test_comparisons_with_none():
    @wp.kernel
    def compared(x: wp.array[float], y: wp.array[int]):
        y[0] = int(x == None) + 2 * int(x != None) + 4 * int(x is None) + 8 * int(x is not None)  # noqa: E711
        if not x:
            y[0] += 16

    assert wp.launch(compared, 1, [None], [1])[0][0] == 1 + 4 + 16
    assert wp.launch(compared, 1, [X], [1])[0][0] == 2 + 8


@wp.kernel
def shifted(x: wp.array[wp.vec3], by: wp.vec3, y: wp.array[wp.vec3]):
    i = wp.tid()
    if x:
        y[i] = x[i] + by
    else:
        y[i] = by


def test_a_vector_by_value_is_no_array():
    y = np.zeros((2, 3), np.float32)
    record = wp.launch(shifted, 2, [np.ones_like(y), (1.0, 2.0, 3.0)], [y], record_cmd=True)
    with pytest.raises(wp.KernelTypeError, match="parameter 'by': expected vec3, got NoneType"):
        record.set_param_by_name("by", None)
    record.set_param_by_name("x", None)
    record.launch()
    np.testing.assert_array_equal(y, [[1, 2, 3]] * 2)


@wp.kernel
def carried(x: wp.array[wp.vec3], body: wp.array[int], frames: wp.array[wp.transform], y: wp.array[wp.vec3]):
    i = wp.tid()
    frame = wp.transform_identity()
    if body[i] >= 0:
        frame = frames[body[i]]
    moved = wp.transform_point(frame, x[i])
    wp.atomic_add(y, i, moved * wp.dot(moved, moved))


@pytest.mark.parametrize("is_captured", [False, True])
def test_gradients_of_tapes_where_the_adjoint_reads_one_of_transforms(is_captured):
    rng = np.random.default_rng(5)
    start, cotangents = (rng.normal(size=(N, 3)).astype(np.float32) for _ in range(2))
    x = wp.array(start, dtype=wp.vec3, requires_grad=True)
    y = wp.zeros(N, dtype=wp.vec3, requires_grad=True)

    def back():
        with wp.Tape() as tape:
            wp.launch(carried, N, inputs=[x, wp.full(N, -1, dtype=int), None], outputs=[y])
        tape.backward(grads={y: wp.array(cotangents, dtype=wp.vec3)})

    in_a_graph_if(is_captured, back)
    wanted = jax.vjp(lambda x: x * jnp.sum(x * x, axis=1, keepdims=True), start)[1](cotangents)[0]
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-5)
