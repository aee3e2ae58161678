"""Gradients of functions that write to arrays, or set and read `wp.adjoint`: compared with formulas, by jax.vjp."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from error_checks import Bodies

import jwarp as wp

RNG = np.random.default_rng(11)


def normal(*shape):
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


@wp.func
def squared(i: int, x: wp.array[float], y: wp.array[float]):
    y[i] = x[i] * x[i]


@wp.func_grad(squared)
def adj_squared(i: int, x: wp.array[float], y: wp.array[float]):
    # Three times what it is; sqrt(y) is |x|, and there only after the call.
    wp.adjoint[x][i] += 6.0 * wp.sign(x[i]) * wp.sqrt(y[i]) * wp.adjoint[y][i]


@wp.func
def squared_in_place(i: int, y: wp.array[float]):
    y[i] = y[i] * y[i]


@wp.func_grad(squared_in_place)
def adj_squared_in_place(i: int, y: wp.array[float]):
    wp.adjoint[y][i] = 6.0 * wp.sqrt(y[i]) * wp.adjoint[y][i]


@wp.kernel
def several(x: wp.array[float], n: int, y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    y[i] = 5.0 * x[i]  # overwritten
    squared(i, x, y)
    z[i] = y[i]
    for _k in range(n):
        z[i] += y[i] * x[i]
        squared_in_place(i, y)
    if x[i] > 0.0:
        y[i] = 2.0 * y[i]


def several_in_jax(x, n):
    @jax.custom_vjp
    def square(x):
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, g: (6.0 * x * g,))
    y = square(x)
    z = y
    for _ in range(n):
        z += y * x
        y = square(y)
    return jnp.where(x > 0.0, 2.0 * y, y), z


@pytest.mark.parametrize("n", [0, 2])
def test_what_a_function_writes_has_the_gradient_that_its_author_says(n):
    x, cotangents = 0.9 * normal(6), (normal(6), normal(6))
    for f in (
        lambda x: tuple(wp.launch(several, 6, [x, n], [6, 6])),
        jax.jit(lambda x: tuple(wp.launch(several, 6, [x, n], [6, 6]))),
    ):
        found, back = jax.vjp(f, x)
        wanted, wanted_back = jax.vjp(lambda x: several_in_jax(x, n), x)
        for a, b in zip((*found, *back(cotangents)), (*wanted, *wanted_back(cotangents)), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    batch = jax.vmap(jax.grad(lambda x: f(x)[1].sum()))(jnp.stack([x, 0.5 * x]))
    wanted = jax.vmap(jax.grad(lambda x: several_in_jax(x, n)[1].sum()))(jnp.stack([x, 0.5 * x]))
    np.testing.assert_allclose(batch, wanted, rtol=2e-5, atol=1e-5)
    with pytest.raises(wp.NotDifferentiableError, match="known for reverse mode alone"):
        jax.jvp(f, (x,), (x,))


@wp.func
def rows(i: int, x: wp.array2d[float], scale: float, y: wp.array2d[float], total: wp.array[float]) -> float:
    largest = -1.0e6
    for j in range(x.shape[1]):
        y[i, j] = scale * x[i, j]
        total[j] += y[i, j]
        largest = wp.max(largest, y[i, j])
    return largest


@wp.func_grad(rows)
def adj_rows(i: int, x: wp.array2d[float], scale: float, y: wp.array2d[float], total: wp.array[float], largest: float):
    for j in range(x.shape[1]):
        g = wp.adjoint[y][i, j] + wp.adjoint[total][j]
        if y[i, j] == scale * x[i, 0]:
            g += 2.0 * largest  # not what it is
        wp.adjoint[x][i, j] += scale * g
        wp.adjoint[scale] += g * x[i, j]


@wp.kernel
def by_rows(
    x: wp.array2d[float], scale: wp.array[float], y: wp.array2d[float], total: wp.array[float], most: wp.array[float]
):
    i = wp.tid()
    most[i] = rows(i, x, scale[i], y, total)


def test_results_and_arrays_and_sums():
    x, scale, n, m = normal(4, 3), normal(4), 4, 3
    before = normal(4, 3), normal(3)
    cotangents = normal(4, 3), normal(3), normal(4)

    def f(x, scale, y, total):
        return tuple(wp.launch(by_rows, n, [x, scale], [y, total, n]))

    found, back = jax.vjp(f, x, scale, *before)
    np.testing.assert_allclose(found[0], scale[:, None] * x, rtol=1e-6)
    np.testing.assert_allclose(found[1], before[1] + (scale[:, None] * x).sum(0), rtol=1e-5)
    by_x, by_scale, by_y, by_total = back(cotangents)
    g = np.array(cotangents[0] + cotangents[1])
    g[:, 0] += 2.0 * cotangents[2]
    np.testing.assert_allclose(by_x, scale[:, None] * g, rtol=1e-5)
    np.testing.assert_allclose(by_scale, (g * x).sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(by_y, np.zeros((n, m)))  # what was there is overwritten
    np.testing.assert_allclose(by_total, cotangents[1])  # and what is added to stays


@wp.func
def solved(n: int, at: int, a: wp.array[float], b: wp.array[float], x: wp.array[float], work: wp.array[float]):
    for i in range(n):
        x[at + i] = b[at + i] / a[at + i]


@wp.func_grad(solved)
def adj_solved(n: int, at: int, a: wp.array[float], b: wp.array[float], x: wp.array[float], work: wp.array[float]):
    if not work or not wp.adjoint[x]:
        return
    for i in range(n):
        work[at + i] = 0.0
    solved(n, at, a, wp.adjoint[x], work, work)
    for i in range(n):
        wp.adjoint[b][at + i] += work[at + i]
        wp.adjoint[a][at + i] -= work[at + i] * x[at + i]


@wp.kernel
def solves(a: wp.array[float], b: wp.array[float], work: wp.array[float], x: wp.array[float]):
    solved(3, 3 * wp.tid(), a, b, x, work)


@wp.kernel
def solves_and_reads(a: wp.array[float], b: wp.array[float], work: wp.array[float], x: wp.array[float]):
    solved(3, 3 * wp.tid(), a, b, x, work)
    x[3 * wp.tid()] = work[3 * wp.tid()]


def test_a_gradient_may_write_to_an_array_for_intermediate_values():
    a, b, g = 3.0 + normal(6), normal(6), normal(6)
    work = jnp.full(6, 4.0)
    _, back = jax.vjp(lambda a, b: wp.launch(solves, 2, [a, b, work], [6])[0], a, b)
    for found, wanted in zip(back(g), (-g * b / a / a, g / a), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    _, back = jax.vjp(lambda a: wp.launch(solves, 2, {"a": a, "b": b, "work": None}, {"x": 6})["x"], a)
    np.testing.assert_array_equal(back(g)[0], np.zeros(6))
    with pytest.raises(wp.NotDifferentiableError, match="writes to `work`, which the kernel itself works on"):
        jax.vjp(lambda a: wp.launch(solves_and_reads, 2, [a, b, work], [6])[0], a)[1](g)


@wp.func
def pair(x: float, v: wp.vec3, k: float):
    return x * x, v * x


@wp.func_grad(pair)
def adj_pair(x: float, v: wp.vec3, k: float, a: float, b: wp.vec3):
    wp.adjoint[x] = 2.0 * x * a
    wp.adjoint[x] = wp.adjoint[x] + wp.dot(b, v)
    wp.adjoint[v] = 3.0 * b
    wp.adjoint[v].y = 0.5 * b[1]
    wp.adjoint[v][2] *= 2.0
    if wp.adjoint[x] > 1.0:
        wp.adjoint[x] = 1.0
    for j in range(3):
        wp.adjoint[k] -= wp.adjoint[v][j]


@wp.kernel
def pairs(x: wp.array[float], v: wp.array[wp.vec3], k: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    a, b = pair(x[i], v[i], k[i])
    c, _d = pair(x[i], v[i], k[i])  # its gradient is another one, to which that of the first is added
    y[i] = a + wp.dot(b, v[i]) + 0.25 * c


def test_gradients_of_values_can_be_set_and_read():
    x, v, k, g = normal(8), normal(8, 3), normal(8), normal(8)
    _, back = jax.vjp(lambda *args: wp.launch(pairs, 8, list(args), [8])[0], x, v, k)
    b = g[:, None] * v
    by_v = b * jnp.array([3.0, 0.5, 6.0])
    by_x = jnp.minimum(2.0 * x * g + (b * v).sum(1), 1.0) + jnp.minimum(0.5 * x * g, 1.0)
    own = g[:, None] * v * x[:, None]  # of the dot product's other factor
    for found, wanted in zip(back(g), (by_x, by_v + own, -by_v.sum(1)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@wp.func
def doubled(z: wp.array[float], i: int, x: float):
    z[i] = 2.0 * x


@wp.func_grad(doubled)
def adj_doubled(z: wp.array[float], i: int, x: float):
    wp.adjoint[x] += 5.0 * wp.adjoint[z][i]


@wp.func
def element(z: wp.array[float], i: int):
    return z[i]


@wp.func_grad(element)
def adj_element(z: wp.array[float], i: int, g: float):
    wp.adjoint[z][i] += 5.0 * g


@wp.func
def by_store(x: float):
    z = wp.zeros(2, dtype=float)
    doubled(z, 1, x)
    return z[0] + z[1] * x


@wp.func
def by_load(x: float):
    z = wp.zeros(2, dtype=float)
    z[1] = x
    return element(z, 1) * x


@wp.kernel
def own_arrays(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = by_store(x[i]) + by_load(x[i])


def test_arrays_of_the_threads_own():
    x = normal(4)
    _, back = jax.vjp(lambda x: wp.launch(own_arrays, 4, [x], [4])[0], x)
    # Of 2 x * x and x * x, where one x has 5 in place of 2, and of 1.
    np.testing.assert_allclose(back(jnp.ones(4))[0], (5.0 * x + 2.0 * x) + (5.0 * x + x), rtol=1e-6)


@pytest.mark.parametrize("function", [by_store, by_load])
def test_gradients_inside_kernels_do_not_go_through_such_arrays(function):
    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        y[wp.tid()] = wp.grad(function)(x[wp.tid()])

    with pytest.raises(wp.NotDifferentiableError, match="has a gradient of its own and takes arrays"):
        k.ir()


BODIES = Bodies()


@BODIES.refused("neither be read nor replaced")
def replaced(i: int, x: wp.array[float], y: wp.array[float]):
    wp.adjoint[x][i] = wp.adjoint[y][i]


@BODIES.refused("neither be read nor replaced")
def read(i: int, x: wp.array[float], y: wp.array[float]):
    wp.adjoint[x][i] += 2.0 * wp.adjoint[x][i + 1]


@BODIES.refused("changed by its elements")
def whole(i: int, x: wp.array[float], y: wp.array[float]):
    wp.adjoint[y] = x


@BODIES.refused("cannot write to `y`, to which the function itself does")
def overwritten(i: int, x: wp.array[float], y: wp.array[float]):
    y[i] = 0.0


@BODIES.refused("additions whose result is not used")
def atomic(i: int, x: wp.array[float], y: wp.array[float]):
    wp.adjoint[x][i] += wp.atomic_add(wp.adjoint[y], i, 1.0)


@pytest.mark.parametrize("name", BODIES)
def test_faults_of_a_gradient_name_the_line(name):
    function, match = BODIES[name]

    @wp.func
    def f(i: int, x: wp.array[float], y: wp.array[float]):
        y[i] = x[i]

    wp.func_grad(f)(function)

    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        f(wp.tid(), x, y)

    with pytest.raises((wp.CompileError, wp.KernelTypeError), match=match) as caught:
        k.ir()
    assert "test_func_grad_arrays.py:" in str(caught.value)


@wp.func
def counted(i: int, x: float, count: wp.array[int]) -> float:
    return x


@wp.func_grad(counted)
def adj_counted(i: int, x: float, count: wp.array[int], g: float):
    wp.adjoint[x] += g * float(count[0])


@wp.kernel
def counts(x: wp.array[float], count: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[wp.atomic_add(count, 0, 1)] = counted(i, x[i], count)


@wp.kernel
def twice(y: wp.array[float]):
    squared(wp.tid(), y, y)


def test_an_array_that_a_function_has_by_two_names_is_refused():
    with pytest.raises(wp.NotDifferentiableError, match="is given `y` for two of its parameters, and writes to it"):
        jax.grad(lambda y: wp.launch(twice, 3, [], [y])[0].sum())(jnp.ones(3))


def test_a_gradient_that_reads_a_counter_is_refused():
    with (
        wp.config(deterministic=True),
        pytest.raises(wp.NotDifferentiableError, match="reads `count`, in which this kernel counts"),
    ):
        jax.grad(lambda x: wp.launch(counts, 3, [x], [1, 3])[1].sum())(jnp.ones(3))
