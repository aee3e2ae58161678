"""Plain stores that cannot meet, or only seem to: what is apart costs nothing, and what is not, is right."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from versions import read_version

import jwarp as wp
from jwarp.analysis.write_conflicts import WriteConflicts, conflicting_stores
from jwarp.autodiff.reverse import vjp
from jwarp.ir.attributes import Origin

F = wp.float64


@pytest.fixture(autouse=True)
def double_precision(x64):
    pass


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def places(*shape: int, seed: int = 0, below: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, below, shape).astype(np.int32)


@wp.kernel
def copied(x: wp.array[float], p: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[p[i]] = x[i]


copied_fn = wp.jax_kernel(copied, output_dims=9)


@wp.kernel
def scaled_in_place(x: wp.array[float], p: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[p[i]] = y[p[i]] * x[i]


def origins(kernel, **more) -> set[str]:
    return {origin.kind for origin in vjp(kernel.ir(), [0], [len(kernel.ir().params) - 1], **more).origins}


def test_what_cannot_meet_costs_nothing():
    @wp.kernel
    def own(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i + 1] = x[i] * x[i]

    assert origins(own) == {"primal", "cotangent", "gradient"}
    assert "final" in origins(own, repeated=True)
    assert "final" in origins(copied) and "final" not in origins(copied, alone=True)
    assert "claim" in origins(scaled_in_place) and "claim" not in origins(scaled_in_place, alone=True)
    reads = vjp(copied.ir(), [0], [2], alone=True).origins
    assert Origin("primal", 0) not in reads
    # A launch of one thread is told apart by the number of its threads.
    (g,) = jax.grad(lambda x: copied_fn(x, jnp.zeros(1, jnp.int32), launch_dims=1)[0].sum())(jnp.ones(1, jnp.float32))[
        None
    ]
    assert g == 1


def test_axes_of_one_thread_tell_nobody_apart():
    """A kernel with tiles that reads the number of its lane, and one of threads, over one column or several."""

    @wp.kernel
    def rows(x: wp.array2d[F], y: wp.array2d[F]):
        i, _, _ = wp.tid()
        a = wp.tile_load(x, shape=(1, 4), offset=(i, 0))
        wp.tile_store(y, a * a, offset=(i, 0))

    @wp.kernel
    def columns(x: wp.array2d[F], y: wp.array2d[F]):
        i, j = wp.tid()
        y[0, i] = x[j, i] * x[j, i]

    assert "final" in origins(rows) and "final" not in origins(rows, single=[1, 2])
    assert "final" in origins(columns) and "final" not in origins(columns, single=[1])
    assert "final" in origins(columns, single=[0])
    for count in (1, 3):
        x, seed = jnp.asarray(random(2, 4)), random(2, 4, seed=1)
        rows_fn = wp.jax_kernel(rows, launch_dims=(2, count, 8), output_dims=(2, 4), block_dim=8)
        assert_allclose(jax.vjp(lambda x, f=rows_fn: f(x)[0], x)[1](seed)[0], 2.0 * x * seed)
        columns_fn = wp.jax_kernel(columns, launch_dims=(4, count), output_dims=(1, 4))
        x, seed = jnp.asarray(random(3, 4)), random(1, 4, seed=1)
        y, back = jax.vjp(lambda x, f=columns_fn: f(x)[0], x)
        wanted = np.zeros((3, 4))
        for i in range(4):
            winner = next(j for j in range(count) if float(x[j, i]) ** 2 == float(y[0, i]))
            wanted[winner, i] = 2.0 * x[winner, i] * seed[0, i]
        assert_allclose(back(seed)[0], wanted)
        tape, given = wp.Tape(), wp.array(x, dtype=F, requires_grad=True)
        with tape:
            out = wp.zeros((1, 4), dtype=F, requires_grad=True)
            wp.launch(columns, (4, count), inputs=[given], outputs=[out])
        tape.backward(grads={out: wp.array(seed, dtype=F)})
        assert_allclose(given.grad.numpy(), wanted)


@wp.kernel
def three_each(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    for k in range(3):
        y[3 * i + k + 1] = x[i] * F(k)


@wp.kernel
def compacted(x: wp.array[F], cell: wp.array[int], n: wp.array[int], y: wp.array[F], z: wp.array2d[F]):
    i = wp.tid()
    if x[i] > F(0.0):
        y[wp.atomic_add(n, 0, 1)] = x[i] * x[i]
    c = cell[i]
    slot = wp.atomic_add(n, c, 1)
    z[c, slot] = wp.sin(x[i])


def test_what_is_apart_by_arithmetic_or_by_counting():
    assert conflicting_stores(three_each.ir()) == WriteConflicts()
    found = conflicting_stores(compacted.ir())
    assert not found and set(found.slots) == {3, 4}
    x, cell = jnp.asarray(random(20)), jnp.asarray(1 + places(20, below=3))

    def gradient(counters, start, w):
        def run(x):
            n = jnp.full(counters, start, jnp.int32)
            return wp.launch(compacted, 20, [x, cell], [n, 30, (5, 6)])[1:]

        return jax.vjp(run, x)[1]((jnp.full(30, w), jnp.ones((5, 6))))[0]

    slots = {c: iter(range(100)) for c in range(5)}
    there = np.array([next(slots[int(c)]) < 6 for c in cell])
    expected = np.where(x > 0, 2 * x, 0) + np.where(there, np.cos(x), 0)
    assert_allclose(gradient(4, 0, 1.0), expected, rtol=1e-12)
    # Counters that are not there are all zero, and negative ones count from the end.
    assert np.isnan(gradient(3, 0, 0.0)).any()
    assert np.isnan(gradient(4, -40, 0.0)).any()


@wp.kernel
def ring(x: wp.array[F], n: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    y[int(wp.uint8(wp.atomic_add(n, 0, 1)))] = x[i] * x[i]


@wp.kernel
def rounded(x: wp.array[F], n: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    y[int(wp.float16(wp.atomic_add(n, 0, 1)))] = x[i] * x[i]


@wp.kernel
def narrow(x: wp.array[F], n: wp.array[wp.uint8], y: wp.array[F]):
    i = wp.tid()
    y[int(wp.atomic_add(n, 0, wp.uint8(1)))] = x[i] * x[i]


@wp.kernel
def wide_steps(x: wp.array[F], n: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    y[wp.atomic_add(n, 0, 1 << 30)] = x[i] * x[i]


@pytest.mark.parametrize(
    "kernel, threads, elements", [(ring, 600, 256), (rounded, 3000, 3000), (narrow, 600, 256), (wide_steps, 8, 1)]
)
def test_slots_that_come_again_are_not_a_threads_own(kernel, threads, elements):
    x = jnp.arange(1.0, threads + 1)
    y, pull = jax.vjp(lambda x: wp.launch(kernel, threads, [x], [1, elements])[1], x)
    found = pull(jnp.ones(elements))[0]
    assert int((found != 0).sum()) == int((y != 0).sum()) < threads


@wp.kernel
def worked_on(x: wp.array[F], cell: wp.array[int], n: wp.array[int], y: wp.array[F]):
    """Threads without a place work on the last element, which may be another one's."""
    i = wp.tid()
    place = -1
    if cell[i] == 0:
        place = wp.atomic_add(n, 0, 1)
    if cell[i] == 1:
        place = wp.atomic_add(n, 0, 1)
    y[place] = x[i]
    y[place] = y[place] * wp.sin(y[place])


@wp.kernel
def worked_on_together(x: wp.array[F], cell: wp.array[int], n: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    place = 5
    if cell[i] == 0:
        place = wp.atomic_add(n, 0, 1)
    y[place] = x[i]
    y[place] = y[place] * wp.sin(y[place])


@wp.kernel
def worked_on_and_read(x: wp.array[F], cell: wp.array[int], n: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    place = wp.atomic_add(n, 0, 1)
    y[place] = x[i]
    y[place] = y[place] * wp.sin(y[cell[i]])


def test_what_is_worked_on_at_slots_alone_is_a_threads_own():
    assert set(conflicting_stores(worked_on.ir()).slots) == {3} and not conflicting_stores(worked_on.ir())
    for kernel in (worked_on_together, worked_on_and_read):
        assert conflicting_stores(kernel.ir()).ambiguous == {3}
    x, directions = jnp.asarray(random(20)), jnp.asarray(random(20))

    def loss(x, cell):
        return jnp.sum(wp.launch(worked_on, 20, [x, jnp.asarray(cell, jnp.int32)], [1, 30])[1])

    right = jnp.sin(x) + x * jnp.cos(x)
    apart, some = places(20, below=2), places(20, below=3)
    np.testing.assert_allclose(jax.grad(loss)(x, apart), right, rtol=1e-12)
    np.testing.assert_allclose(
        jax.jvp(lambda x: loss(x, apart), (x,), (directions,))[1], right @ directions, rtol=1e-12
    )
    found = jax.grad(loss)(x, some)
    assert jnp.isnan(found[some == 2]).all()
    np.testing.assert_allclose(found[some != 2], right[some != 2], rtol=1e-12)
    assert jnp.isnan(jax.jvp(lambda x: loss(x, some), (x,), (directions,))[1])


@wp.kernel
def sizes(a: wp.array[wp.mat33], p: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    _, s, _ = wp.svd3(a[i])
    y[p[i]] = s[0] * s[1]


def test_values_that_derivatives_compute_in_another_way_may_not_meet():
    a = jnp.asarray(random(20, 3, 3), jnp.float32)

    def loss(a, p):
        return wp.launch(sizes, 20, [a, jnp.asarray(p, jnp.int32)], [20])[0].sum()

    assert jnp.all(jnp.any(jax.grad(loss)(a, np.arange(20)[::-1]) != 0, (1, 2)))
    with pytest.raises(Exception, match="two threads store to one element of `y`, of values that a derivative"):
        jax.block_until_ready(jax.grad(loss)(a, np.arange(20) % 5))


def test_code_for_gpus_rounds_alike_and_does_not_wait():
    from jwarp.compiler.cuda import CudaKernel
    from jwarp.compiler.derive import Variant, derive
    from jwarp.compiler.program import program_of
    from jwarp.config import Settings

    program = program_of(copied, Settings(cache_dir=""))
    made = derive(program, Variant("adjoint", (0,), (2,)))
    assert (
        "--fmad=false"
        in CudaKernel(made.program.gpu_kernel, Settings(cache_dir="")).unit(read_version("checked"), 256).options
    )
    launch = dataclasses.replace(program.kernel, exact=True)
    assert "--fmad=false" in CudaKernel(launch, Settings(cache_dir="")).unit(read_version("checked"), 256).options
    waits = derive(program_of(scaled_in_place, Settings(cache_dir="")), Variant("adjoint", (0,), (2,)))
    assert (
        "jw_fail"
        not in CudaKernel(waits.program.gpu_kernel, Settings(cache_dir="")).unit(read_version("checked"), 256).text
    )


@wp.kernel
def read_and_stored_by_lanes(x: wp.array[wp.float32], p: wp.array[int], y: wp.array[wp.float32]):
    i = wp.tid()
    square = x[i] * x[i]
    total = wp.tile_sum(wp.tile(square))[0]
    if square > 0.5:
        y[p[i]] = total * square * y[0]


def test_lanes_that_may_meet_at_what_is_also_read():
    x = jnp.asarray(np.abs(random(64)) + 1.0, jnp.float32)

    def loss(x, p):
        return wp.launch(read_and_stored_by_lanes, 64, [x, p], [jnp.full(65, 2.0, jnp.float32)], block_dim=32)[0].sum()

    apart = jnp.arange(1, 65, dtype=jnp.int32)
    square = np.asarray(x, np.float64).reshape(2, 32) ** 2
    expected = 4 * np.asarray(x) * np.repeat(2 * square.sum(1), 32)
    assert_allclose(jax.grad(loss)(x, apart), expected, rtol=1e-4)
    for other in (2, 60):  # of the same block, and of another one
        with pytest.raises(Exception, match="two threads store to one element of `y`"):
            jax.block_until_ready(jax.grad(loss)(x, apart.at[0].set(other)))


def functions_of(type):
    V = wp.types.vector(2, type)

    @wp.kernel
    def functions(x: wp.array2d[type], p: wp.array[int], y: wp.array2d[type]):
        i = wp.tid()
        j = p[i]
        y[0, j] = wp.sin(x[0, i])
        y[1, j] = wp.cos(x[1, i])
        y[2, j] = wp.tan(x[2, i])
        y[3, j] = wp.asin(x[3, i])
        y[4, j] = wp.acos(x[4, i])
        y[5, j] = wp.atan(x[5, i])
        y[6, j] = wp.sinh(x[6, i])
        y[7, j] = wp.cosh(x[7, i])
        y[8, j] = wp.tanh(x[8, i])
        y[9, j] = wp.exp(x[9, i])
        y[10, j] = wp.log(x[10, i])
        y[11, j] = wp.log2(x[11, i])
        y[12, j] = wp.log10(x[12, i])
        y[13, j] = wp.sqrt(x[13, i])
        y[14, j] = wp.pow(x[14, i], type(1.7))
        y[15, j] = wp.atan2(x[15, i], type(0.4))
        y[16, j] = wp.erf(x[16, i])
        y[17, j] = type(1.0) / (x[17, i] + type(0.3))
        y[18, j] = wp.sin(x[18, i]) * wp.cos(x[18, i])
        y[19, j] = wp.length(wp.normalize(V(x[19, i], type(0.3))) + V(x[19, i]))

    return functions


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_derivatives_find_the_bits_of_every_function(dtype):
    """A derivative's companion of a value, as a cosine for a sine, does not change the bits of the value."""
    fn = wp.jax_kernel(functions_of(getattr(wp, np.dtype(dtype).name)), launch_dims=4000, output_dims=(20, 700))
    x = jnp.asarray(np.random.default_rng(5).uniform(0.1, 0.9, (20, 4000)), dtype)
    p = places(4000, below=700)
    found = np.asarray(jax.grad(lambda x: fn(x, p)[0].sum())(x)) != 0
    for k, row in enumerate(found):
        assert_array_equal(np.bincount(p[row], minlength=700), np.bincount(p, minlength=700) > 0, err_msg=f"y[{k}]")


@wp.kernel
def wrapped(x: wp.array[F], y: wp.array[F], z: wp.array[F]):
    """Thread 4 has the index of thread 0: 2**32 wraps to zero. The other ones are outside."""
    i = wp.tid()
    y[i * 1073741824] = x[i] * x[i]
    z[i] = wp.sin(x[i * 1073741824])


def test_indices_that_wrap_meet():
    """Of two threads at one element one gives its gradient; two that read one element both add to its gradient."""
    fn = wp.jax_kernel(wrapped, num_outputs=2, output_dims={"y": 1, "z": 5}, launch_dims=5)
    x = jnp.asarray(random(5))
    (y, z), pull = jax.vjp(fn, x)
    (winner,) = np.flatnonzero(np.asarray(y)[0] == np.asarray(x) ** 2)
    assert winner in (0, 4)
    assert_allclose(z[jnp.array([0, 4])], np.sin(x[0]))
    w = random(5, seed=1)
    expected = np.zeros(5)
    expected[winner] = 2 * x[winner]
    assert_allclose(pull((jnp.ones(1), jnp.zeros(5)))[0], expected)
    expected = np.zeros(5)
    expected[0] = np.cos(x[0]) * (w[0] + w[4])
    assert_allclose(pull((jnp.zeros(1), jnp.asarray(w)))[0], expected)
    (slope,) = wp.launch(wrapped, 5, [np.asarray(x)], [np.zeros(1), np.zeros(5)], adjoint=True,
                         adj_outputs=[None, w], adj_inputs=[np.zeros(5)])  # fmt: skip
    assert_allclose(slope, expected)
    _, (dy, dz) = jax.jvp(fn, (x,), (jnp.asarray(w),))
    assert_allclose(dy, 2 * x[winner] * w[winner])
    assert_allclose(dz[jnp.array([0, 4])], np.cos(x[0]) * w[0])
