"""Gradients that users of kernel languages reported as wrong, or could not take: each as a small kernel.

Numbers are those of issues. The references are written in jax.numpy and differentiated by JAX.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp

F = wp.float64
A = wp.array[F]
N = 6


@pytest.fixture(autouse=True)
def double_precision(x64):
    yield


def numbers(*shape, seed=0, low=0.4, high=1.3):
    return jnp.asarray(np.random.default_rng(seed).uniform(low, high, shape))


def agree(function, reference, *args):
    """Values, gradients by all arguments, tangents and second derivatives of two functions are the same."""
    every = tuple(range(len(args)))
    weigh = lambda f: lambda *a: jnp.sum(jnp.sin(jnp.ravel(f(*a))) * jnp.arange(1.0, jnp.size(f(*a)) + 1))  # noqa: E731
    found, wanted = weigh(function), weigh(reference)
    along = tuple(numbers(*jnp.shape(a), seed=k + 1, low=-1.0) for k, a in enumerate(args))
    assert_allclose(function(*args), reference(*args), rtol=1e-12, atol=1e-13)

    def close(x, y):
        for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True):
            assert_allclose(a, b, rtol=1e-9, atol=1e-10)

    def derivatives(f):
        """Gradients, how they change along `along`, and the tangent: one program for each function."""
        return *jax.jvp(jax.grad(f, every), args, along), jax.jvp(f, args, along)[1]

    close(*(jax.jit(derivatives, static_argnums=0)(f) for f in (found, wanted)))


# Loops whose number of trips is known only at run time. NVIDIA/warp 140, 174, 729, 1293, 1552, 1694, 1740.


@wp.kernel
def squared_sum(x: A, n: int, y: A):
    i = wp.tid()
    s = F(0.0)
    for k in range(n):
        s += x[i] * F(k + 1)
    y[i] = s * s


def test_a_sum_of_a_loop_used_after_it_had_gradient_zero():
    """The sum was replayed as its initial value, so its square had no slope."""
    agree(lambda x: wp.launch(squared_sum, N, [x, 4], [N])[0], lambda x: (10.0 * x) ** 2, numbers(N))


@wp.kernel
def power(x: A, n: int, y: A):
    i = wp.tid()
    p = F(1.0)
    for _ in range(n):
        p *= x[i]
    y[i] = p


@pytest.mark.parametrize("n", [1, 4, 16, 17])
def test_a_product_in_a_loop_used_its_last_value_in_every_trip(n):
    """x**4 had the slope of something far larger; with constant bounds up to 16 it was right, from 17 on not."""
    agree(lambda x: wp.launch(power, N, [x, n], [N])[0], lambda x: x**n, numbers(N))


@wp.func
def normalised(x: A, n: int, k: int):
    s = F(0.0)
    for j in range(n):
        s += x[j] * x[j]
    return x[k] / wp.sqrt(s)


@wp.kernel
def normalise(x: A, n: int, y: A):
    i = wp.tid()
    y[i] = normalised(x, n, i)


def test_a_division_by_a_norm_inside_a_function():
    """The advice was to move the loop into a function; with the division in there the gradient stayed wrong."""
    agree(
        lambda x: wp.launch(normalise, N, [x, N], [N])[0], lambda x: x / jnp.sqrt(jnp.sum(x * x)), numbers(N)
    )  # fmt: skip


@wp.kernel
def doubled_until(x: A, y: A):
    i = wp.tid()
    v, k = x[i], wp.int32(0)
    while v < F(3.0):
        v = v * F(2.0) - F(0.1) * x[i]
        k += 1
    y[i] = v / F(k + 1)


def test_a_while_loop_was_reversed_with_the_counter_it_left_behind():
    def reference(x):
        v, k = x, jnp.zeros(N)
        for _ in range(6):
            runs = v < 3.0
            v, k = jnp.where(runs, 2.0 * v - 0.1 * x, v), jnp.where(runs, k + 1, k)
        return v / (k + 1)

    agree(lambda x: wp.launch(doubled_until, N, [x], [N])[0], reference, numbers(N))


@wp.kernel
def own_array(x: A, y: A):
    i = wp.tid()
    t = wp.zeros(shape=4, dtype=F)
    for k in range(4):
        t[k] = x[i] * F(k) + x[(i + 1) % 6]
    y[i] = t[1] * t[2] + t[3]


def test_a_local_array_had_gradient_zero():
    def reference(x):
        following = jnp.roll(x, -1)
        return (x + following) * (2 * x + following) + 3 * x + following

    agree(lambda x: wp.launch(own_array, N, [x], [N])[0], reference, numbers(N))


# What is overwritten. NVIDIA/warp 1062, 1294, 1350, 1697; taichi-dev/taichi 3885.


@wp.kernel
def component_again(x: A, n: int, y: wp.array[wp.vec3d]):
    i = wp.tid()
    v = wp.vec3d(x[i], F(1.0), F(2.0))
    for _ in range(n):
        v[0] = v[0] * x[i]
        v[1] += v[0]
    v[2] *= v[1]
    y[i] = v


def test_a_component_that_is_read_and_written_doubled_its_gradient():
    """1697: every assignment to a component doubled what came before, 2**n after n of them."""

    def reference(x):
        return jnp.stack([x**4, 1 + x**2 + x**3 + x**4, 2 * (1 + x**2 + x**3 + x**4)], 1)

    agree(lambda x: wp.launch(component_again, N, [x, 3], [(N, 3)])[0], reference, numbers(N))


@wp.kernel
def one_buffer(x: A, y: A):
    i = wp.tid()
    y[i] = x[i] * x[i]
    v = y[i]
    y[i] = wp.sin(y[i]) * v
    y[i] *= x[i]
    y[i] += y[i] * v


def test_an_array_that_a_kernel_writes_reads_and_writes_again():
    """1062, 1294, and rules of Taichi's whose violation goes unnoticed: an element was to be written once."""

    def reference(x):
        v = x * x
        return jnp.sin(v) * v * x * (1 + v)

    agree(lambda x: wp.launch(one_buffer, N, [x], [N])[0], reference, numbers(N))


@wp.kernel
def decay(x: A, rate: F, dt: F):
    i = wp.tid()
    x[i] = x[i] - dt * rate * x[i] * x[i]


def test_steps_that_overwrite_the_state_used_the_last_one_for_all():
    """1350: going backwards, a tape of launches read what arrays held at its end."""

    def steps(step):
        def run(x, rate):
            for _ in range(5):
                x = step(x, rate)
            return x

        return run

    launched = steps(lambda x, rate: wp.launch(decay, N, inputs=[x, rate, 0.2])["x"])
    agree(launched, steps(lambda x, rate: x - 0.2 * rate * x * x), numbers(N), jnp.asarray(0.7))


# Launches from JAX. NVIDIA/warp 515, 745, 815, 1380, 1732, 1851; Autodesk/XLB 161; jax-ml/jax-triton 57.


@wp.kernel
def squared(x: A, y: A):
    i = wp.tid()
    y[i] = x[i] * x[i]


@pytest.mark.parametrize("dims", [N, N - 2, (N - 2,)])
def test_launch_dims_that_are_not_the_shape_added_up_too_much(dims):
    """1380: with launch_dims of its own, the adjoint ran over other threads than the launch."""
    run = wp.jax_kernel(squared, launch_dims=dims, output_dims=N)
    count = dims if isinstance(dims, int) else dims[0]
    agree(lambda x: run(x)[0], lambda x: jnp.where(jnp.arange(N) < count, x * x, 0.0), numbers(N))


@wp.kernel
def kick_and_drift(force: A, dt: F, x: A, v: A, energy: A):
    i = wp.tid()
    v[i] += dt * force[i]
    x[i] += dt * v[i]
    wp.atomic_add(energy, 0, F(0.5) * v[i] * v[i])


def test_several_outputs_that_are_changed_in_place_had_no_gradient():
    """815: in-out arguments excluded gradients, so bindings to such kernels came without."""

    def launched(force, dt, x, v):
        return jnp.concatenate(wp.launch(kick_and_drift, N, [force, dt], [x, v, jnp.zeros(1)]))

    def reference(force, dt, x, v):
        v = v + dt * force
        return jnp.concatenate([x + dt * v, v, 0.5 * jnp.sum(v * v)[None]])

    agree(launched, reference, numbers(N), jnp.asarray(0.1), numbers(N, seed=1), numbers(N, seed=2))


@wp.kernel
def diffuse(x: A, rate: F, y: A):
    i = wp.tid()
    n = x.shape[0]
    y[i] = x[i] + rate * (x[(i + 1) % n] - F(2.0) * x[i] + x[(i + n - 1) % n])


def diffused(x, rate):
    return x + rate * (jnp.roll(x, -1) - 2.0 * x + jnp.roll(x, 1))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.checkpoint], ids=["plain", "checkpoint"])
def test_a_gradient_through_a_simulation_was_zero(wrap):
    """XLB 161: a solver that steps by kernels had no gradient by its parameters."""

    def simulate(step):
        return lambda x, rate: jax.lax.scan(lambda x, _: (wrap(step)(x, rate), None), x, None, 7)[0]

    step = lambda x, rate: wp.launch(diffuse, N, [x, rate], [N])[0]  # noqa: E731
    agree(simulate(step), simulate(diffused), numbers(N), jnp.asarray(0.2))


@wp.kernel
def binned(x: A, at: wp.array[int], bins: A):
    i = wp.tid()
    wp.atomic_add(bins, at[i], x[i] * x[i])


def test_sums_into_an_output_under_jit_started_from_what_was_there():
    """745: a jitted kernel that adds saw its own earlier results, or none."""
    at = jnp.asarray(np.random.default_rng(3).integers(0, 4, N), jnp.int32)
    run = jax.jit(lambda x: wp.launch(binned, N, [x, at], [4])[0])
    for seed in (0, 1):  # the second call must not see the first
        agree(run, lambda x: jnp.zeros(4).at[at].add(x * x), numbers(N, seed=seed))


def test_pulling_back_twice_gave_zero_the_second_time():
    """1732: gradients that had been consumed once were silently gone."""
    x = numbers(N)
    _, pull = jax.vjp(lambda x: wp.launch(squared, N, [x], [N])[0], x)
    for seed in (1, 2, 1):
        w = numbers(N, seed=seed)
        assert_allclose(pull(w)[0], 2 * x * w, rtol=1e-14)


@wp.kernel
def scaled(x: A, scale: F, offset: wp.vec2d, y: A):
    i = wp.tid()
    y[i] = scale * wp.sin(x[i]) + offset[0] * x[i] + offset[1]


def test_numbers_and_vectors_by_value_can_be_traced_and_differentiated():
    """jax-triton 57: scalar arguments had to be known when the function was traced."""
    agree(
        lambda x, scale, offset: wp.launch(scaled, N, [x, scale, offset], [N])[0],
        lambda x, scale, offset: scale * jnp.sin(x) + offset[0] * x + offset[1],
        numbers(N), jnp.asarray(0.3), numbers(2, seed=4),
    )  # fmt: skip


def test_a_gradient_of_a_scan_inside_shard_map():
    """1851: what varies over devices was lost on the way through a kernel, and scan refused its carry."""
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), "rows")
    rows = jax.sharding.PartitionSpec("rows")
    step = lambda x: wp.launch(squared, 3, [x], [3])[0] * 0.5  # noqa: E731
    scanned = lambda x: jax.lax.scan(lambda x, _: (step(x), None), x, None, 3)[0]  # noqa: E731
    run = jax.shard_map(scanned, mesh=mesh, in_specs=rows, out_specs=rows)

    def reference(x):
        for _ in range(3):
            x = 0.5 * x * x
        return x

    x = numbers(N)
    assert_allclose(jax.grad(lambda x: run(x).sum())(x), jax.grad(lambda x: reference(x).sum())(x), rtol=1e-12)


# Batches. NVIDIA/warp 517, 859, 1161.


def test_batched_stencils_leaked_into_their_neighbours():
    """517, 859: the rows of a batch were glued together, so that periodic ends read the next row."""
    xs, rates = numbers(3, N), jnp.array([0.1, 0.2, 0.3])
    step = lambda x, rate: wp.launch(diffuse, N, [x, rate], [N])[0]  # noqa: E731
    agree(jax.vmap(step), jax.vmap(diffused), xs, rates)
    agree(jax.vmap(step, (None, 0)), jax.vmap(diffused, (None, 0)), xs[0], rates)
    per_element = jax.vmap(jax.grad(lambda x, rate: jnp.sum(step(x, rate) ** 3), (0, 1)), (0, None))
    expected = jax.vmap(jax.grad(lambda x, rate: jnp.sum(diffused(x, rate) ** 3), (0, 1)), (0, None))
    for g, wanted in zip(per_element(xs, 0.2), expected(xs, 0.2), strict=True):
        assert_allclose(g, wanted, rtol=1e-12)


@wp.kernel
def weighted_rows(m: wp.array2d[F], x: A, y: A):
    i = wp.tid()
    total = F(0.0)
    for j in range(m.shape[1]):
        total += m[i, j] * x[j] * x[j]
    y[i] = total * total


def test_a_kernel_that_loops_over_a_row_handled_only_one_of_the_batch():
    """1161: under vmap the shapes that a kernel sees were those of the whole batch."""
    run = lambda m, x: wp.launch(weighted_rows, 4, [m, x], [4])[0]  # noqa: E731
    reference = lambda m, x: (m @ (x * x)) ** 2  # noqa: E731
    agree(jax.vmap(run, (None, 1)), jax.vmap(reference, (None, 1)), numbers(4, N), numbers(N, 3, seed=1))
    nested = lambda f: jax.vmap(jax.vmap(f, (0, None)), (None, 0))  # noqa: E731
    agree(nested(run), nested(reference), numbers(2, 4, N), numbers(3, N, seed=1))


# Beyond first order. NVIDIA/warp 72, 1767, 1813; google-deepmind/mujoco_warp 500.


@wp.kernel
def rosenbrock(x: A, y: A):
    i = wp.tid()
    u, v = x[i], x[i + 1]
    wp.atomic_add(y, 0, F(100.0) * (v - u * u) * (v - u * u) + (F(1.0) - u) * (F(1.0) - u))


def test_hessians_and_their_products_were_out_of_reach():
    def launched(x):
        return wp.launch(rosenbrock, N - 1, [x], [1])[0][0]

    def reference(x):
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    x, v = numbers(N), numbers(N, seed=1)
    expected = jax.jit(jax.hessian(reference))(x)
    for hessian in (jax.hessian, lambda f: jax.jacrev(jax.jacrev(f)), lambda f: jax.jacfwd(jax.jacfwd(f))):
        assert_allclose(hessian(launched)(x), expected, rtol=1e-10, atol=1e-10)
    assert_allclose(jax.jvp(jax.grad(launched), (x,), (v,))[1], expected @ v, rtol=1e-10)
    assert_allclose(jax.grad(lambda x: jax.grad(launched)(x) @ v)(x), expected @ v, rtol=1e-10)


def test_newtons_method_through_a_simulation():
    """mujoco_warp 500: second derivatives through many steps, as optimal control needs them."""
    target = numbers(N, seed=5)

    def cost(step):
        final = lambda x: jax.lax.fori_loop(0, 4, lambda _, x: step(x, 0.2), x)  # noqa: E731
        return lambda x: jnp.sum((jnp.sin(final(x)) - target) ** 2)

    step = lambda x, rate: wp.launch(diffuse, N, [x, rate], [N])[0]  # noqa: E731
    x = numbers(N)
    for order in (jax.grad, jax.hessian):
        assert_allclose(order(cost(step))(x), order(cost(diffused))(x), rtol=1e-10, atol=1e-11)
