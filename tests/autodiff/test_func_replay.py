"""`@wp.func_replay`: what derivatives run instead of a function, where they run a kernel again."""

# ruff: noqa: F811

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

N = 96
rng = np.random.default_rng(0)
X = jnp.asarray(rng.uniform(0.5, 2.0, N), jnp.float32)
W = jnp.asarray(rng.normal(size=N), jnp.float32)


@wp.func
def next_slot(counter: wp.array[int], k: int, slots: wp.array[int], i: int):
    slot = wp.atomic_add(counter, k, 1)
    slots[i] = slot
    return slot


@wp.func_replay(next_slot)
def next_slot_again(counter: wp.array[int], k: int, slots: wp.array[int], i: int):
    return slots[i]


@wp.func
def next_slot(counter: wp.array2d[int], slots: wp.array[int], i: int, x: float):
    slot = wp.atomic_add(counter, 0, 0, 1)
    slots[i] = slot
    return slot, x * x * x


@wp.func_replay(next_slot)
def next_slot_again(grid: wp.array2d[int], slots: wp.array[int], i: int, x: float):
    if slots[i] < 0:
        return 0, 0.0
    return slots[i], x * x * x


@wp.kernel
def compacted(x: wp.array[float], counter: wp.array[int], slots: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 1.0:
        j = next_slot(counter, 0, slots, i)
        y[j] = x[i] ** 2.0


@wp.kernel
def spread(x: wp.array[float], counter: wp.array2d[int], slots: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    j, cube = next_slot(counter, slots, i, x[i])
    y[j] = cube * x[i]


SIZES = {"counter": 1, "slots": N, "y": N}
compacted_fn = wp.jax_kernel(compacted, num_outputs=3, launch_dims=N, output_dims=SIZES)
spread_fn = wp.jax_kernel(spread, num_outputs=3, launch_dims=N, output_dims={**SIZES, "counter": (1, 1)})


def test_a_counter():
    counter, slots, y = compacted_fn(X)
    chosen = np.asarray(X) > 1.0
    assert counter[0] == chosen.sum()
    expected = np.where(chosen, 2 * X * W[slots], 0.0)
    found = jax.grad(lambda x: (compacted_fn(x)[2] * W).sum())(X)
    # Which slot a thread gets may differ from launch to launch: the sum over what has a weight of its own does not.
    np.testing.assert_allclose(sorted(y[: counter[0]]), sorted(np.asarray(X)[chosen] ** 2), rtol=1e-6)
    if counter[0] and np.array_equal(slots, compacted_fn(X)[1]):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    total = jax.grad(lambda x: compacted_fn(x)[2].sum())(X)
    np.testing.assert_allclose(total, np.where(chosen, 2 * X, 0.0), rtol=1e-6)


def test_every_derivative_has_the_launch_s_own_slots():
    def slots_and_sum(x):
        _, slots, y = compacted_fn(x)
        return (y * W).sum(), slots

    (_, slots), pull = jax.value_and_grad(slots_and_sum, has_aux=True)(X)
    np.testing.assert_allclose(pull, np.where(X > 1.0, 2 * X * W[slots], 0.0), rtol=1e-5)
    (_, slots, _), (_, _, dy) = jax.jvp(compacted_fn, (X,), (jnp.ones(N),))
    chosen = np.asarray(X) > 1.0
    np.testing.assert_allclose(np.asarray(dy)[np.asarray(slots)[chosen]], 2 * np.asarray(X)[chosen], rtol=1e-6)
    (_, slots), pulls = jax.vmap(jax.value_and_grad(slots_and_sum, has_aux=True))(jnp.stack([X, X[::-1]]))
    for x, own, g in zip((X, X[::-1]), slots, pulls, strict=True):
        np.testing.assert_allclose(g, np.where(x > 1.0, 2 * x * W[own], 0.0), rtol=1e-5)


def test_float_results_keep_their_derivative():
    (_, slots), g = jax.value_and_grad(
        lambda x: (lambda out: ((out[2] * W).sum(), out[1]))(spread_fn(x)), has_aux=True
    )(X)
    np.testing.assert_allclose(g, 4 * X**3 * W[slots], rtol=1e-5)
    total = jax.grad(lambda x: jax.grad(lambda x: spread_fn(x)[2].sum())(x).sum())(X)
    np.testing.assert_allclose(total, 12 * X**2, rtol=1e-5)


def test_in_place():
    x, w = np.asarray(X), np.asarray(W)
    outputs = [np.zeros(1, np.int32), np.zeros(N, np.int32), np.zeros(N, np.float32)]
    gradient = np.zeros(N, np.float32)
    wp.launch(
        compacted, N, [x], outputs, adjoint=True, adj_inputs=[gradient], adj_outputs=[None, None, np.ones_like(w)]
    )
    np.testing.assert_allclose(gradient, np.where(x > 1.0, 2 * x, 0.0), rtol=1e-6)


def test_the_launch_itself_has_nothing_of_it():
    assert "final" not in wp.inspect(compacted) and "recall" not in wp.inspect(compacted, "llvm")
    assert "load final_slots" in wp.inspect(compacted, adjoint="x")


@wp.func
def nothing(a: wp.array[int]):
    wp.atomic_add(a, 0, 1)


@wp.func_replay(nothing)
def nothing_again(a: wp.array[int]):
    pass


def test_functions_without_results_need_none():
    @wp.kernel
    def kernel(x: wp.array[float], a: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        nothing(a)
        y[i] = x[i] * x[i]

    run = wp.jax_kernel(kernel, num_outputs=2, output_dims={"a": 1, "y": 3})
    assert run(X[:3])[0].tolist() == [3]
    np.testing.assert_allclose(jax.grad(lambda x: run(x)[1].sum())(X[:3]), 2 * X[:3], rtol=1e-6)


def test_what_is_refused():
    with pytest.raises(wp.KernelTypeError, match="needs a function under @wp.func, not 'len'"):
        wp.func_replay(len)
    with pytest.raises(
        wp.KernelTypeError, match=r"`wrong` is no replay of `next_slot`: its parameters must be those of"
    ):

        @wp.func_replay(next_slot)
        def wrong(x: float):
            return 0

    def refused(error, words, decorated):
        @wp.func
        def one(a: wp.array[float], x: float):
            return x

        wp.func_replay(one)(decorated)

        @wp.kernel
        def kernel(a: wp.array[float], y: wp.array[float]):
            y[0] = one(a, 1.0)

        with pytest.raises(error, match=words) as caught:
            kernel.ir()
        assert caught.value.diagnostic.span.line > 0

    def stores(a: wp.array[float], x: float):
        a[0] = x
        return x

    def other(a: wp.array[float], x: float):
        return 1

    def local(a: wp.array[float], x: float):
        b = wp.zeros(2, dtype=float)
        return b[0]

    refused(wp.CompileError, "the replay `stores` writes to an array", stores)
    refused(wp.KernelTypeError, "the replay `other` gives int32, the function float32", other)
    refused(wp.CompileError, "`local` has a local array", local)


BLOCK = 32


@wp.kernel
def compacted_by_blocks(x: wp.array[float], counter: wp.array[int], slots: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    square = x[i] * x[i]
    total = wp.tile_sum(wp.tile(square))[0]
    if square > 1.0:
        j = next_slot(counter, 0, slots, i)
        y[j] = square * total
    j = next_slot(counter, 1, slots, N + i)
    y[N + j] = wp.tile_max(wp.tile(square))[0] * square


def test_replays_in_kernels_with_tiles():
    outputs = {"counter": 2, "slots": 2 * N, "y": 2 * N}
    fn = wp.jax_kernel(compacted_by_blocks, num_outputs=3, launch_dims=N, output_dims=outputs, block_dim=BLOCK)
    weights = jnp.asarray(rng.normal(size=2 * N), jnp.float32)

    def loss(x):
        _, slots, y = fn(x)
        return (y * weights).sum(), slots

    def expected(x, slots):
        square = (x * x).reshape(-1, BLOCK)
        first, second = weights[slots[:N]].reshape(square.shape), weights[N + slots[N:]].reshape(square.shape)
        parts = jnp.where(square > 1.0, first * square * square.sum(1, keepdims=True), 0.0)
        return (parts + second * square * square.max(1, keepdims=True)).sum()

    (value, slots), found = jax.value_and_grad(loss, has_aux=True)(X)
    np.testing.assert_allclose(value, expected(X, slots), rtol=1e-4)
    np.testing.assert_allclose(found, jax.jit(jax.grad(expected))(X, slots), rtol=1e-4, atol=1e-4)
    along = jnp.asarray(rng.normal(size=N), jnp.float32)
    (_, slots, _), (_, _, tangent) = jax.jvp(fn, (X,), (along,))
    np.testing.assert_allclose(
        (tangent * weights).sum(), (jax.jit(jax.grad(expected))(X, slots) * along).sum(), rtol=1e-3, atol=1e-3
    )
