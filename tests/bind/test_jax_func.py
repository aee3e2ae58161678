"""Functions of jax.numpy in kernels: what they take and give, where they may stand, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.frontend.content import content_of
from jwarp.ir.serialize import fingerprint

RNG = np.random.default_rng(7)
vec4d = wp.types.vector(4, wp.float64)


@pytest.fixture(autouse=True)
def without_x64():
    with jax.enable_x64(False):
        yield


def uniform(*shape, dtype=np.float32):
    return RNG.uniform(-2.0, 2.0, shape).astype(dtype)


@wp.struct
class Well:
    depth: float
    center: wp.vec3
    frame: wp.mat33


@wp.jax_func
def several(x, v, m, p, pair):
    """Of every kind of argument, several results."""
    a, b = pair
    inner = p.frame @ (v - p.center)
    energy = p.depth * jnp.exp(-jnp.dot(inner, inner)) + a * x
    return energy, jnp.tanh(m @ v) * b, jnp.outer(v, inner), Well(depth=x * b, center=v * x, frame=m.T)


@wp.kernel
def of_every_kind(
    x: wp.array[float],
    v: wp.array[wp.vec3],
    m: wp.mat33,
    p: Well,
    y: wp.array[float],
    w: wp.array[wp.vec3],
    q: wp.array[Well],
):
    i = wp.tid()
    energy, turned, both, well = several(x[i], v[i], m, p, (x[i], 2.0))
    y[i] = energy + wp.trace(both)
    w[i] = turned
    q[i] = well


def every_kind(x, v, m, p):
    def one(x, v):
        energy, turned, both, well = several(x, v, m, p, (x, 2.0))
        return energy + jnp.trace(both), turned, well

    return jax.vmap(one)(x, v)


def test_every_kind_of_argument_and_result_with_gradients():
    args = (
        uniform(37),
        uniform(37, 3),
        uniform(3, 3),
        Well(depth=np.float32(1.5), center=uniform(3), frame=uniform(3, 3)),
    )
    own = wp.jax_kernel(of_every_kind, 3, output_dims=37)
    found, back = jax.vjp(lambda *a: own(*a), *jax.tree.map(jnp.asarray, args))
    expected, expected_back = jax.vjp(every_kind, *jax.tree.map(jnp.asarray, args))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), tuple(found), expected)
    cotangents = jax.tree.map(lambda a: jnp.asarray(uniform(*a.shape)), expected)
    gradients, wanted = back(cotangents), expected_back(cotangents)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), gradients, wanted)


# -- derivatives of every order, and rules of their own


@jax.custom_jvp
def leaky(x):
    return jnp.where(x > 0, x, 0.1 * x)


@leaky.defjvp
def leaky_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return leaky(x), jnp.where(x >= 0, 3.0 + x * x, jnp.cos(x)) * t  # no derivative of it, to be told apart


@jax.custom_vjp
def pointed(x, y):
    return jnp.sin(x) * y


pointed.defvjp(lambda x, y: (pointed(x, y), (x, y)), lambda kept, g: (5.0 * g * kept[0] * kept[1], g * kept[0] ** 3))


@jax.custom_vjp
def clipped(x, y):
    """The gradient is clipped, which is not linear."""
    return x * y, x + y


clipped.defvjp(
    lambda x, y: (clipped(x, y), (x, y)),
    lambda kept, g: (jnp.clip(g[0] * kept[1], -0.5, 0.5), jnp.sign(g[1]) * kept[0]),
)


@wp.jax_func
def smooth(x, y):
    return jax.nn.softplus(x * y) + leaky(x) * jnp.tanh(y) + jax.nn.relu(y) ** 2 + jnp.log1p(x * x) * pointed(x, y)


@wp.kernel
def apply_smooth(x: wp.array[wp.float64], y: wp.array[wp.float64], z: wp.array[wp.float64]):
    i = wp.tid()
    z[i] = smooth(x[i], y[i])


def test_second_derivatives_and_forward_mode_with_rules_of_their_own():
    with jax.enable_x64(True):
        x, y, s, t = jnp.asarray(uniform(4, 9, dtype=np.float64))
        own, fn = (lambda x, y: wp.jax_kernel(apply_smooth)(x, y)[0]), jax.vmap(smooth.python)
        np.testing.assert_allclose(own(x, y), fn(x, y), rtol=1e-13)

        def gradient(f):
            return jax.grad(lambda x, y: jnp.vdot(f(x, y), s), argnums=(0, 1))

        expected = gradient(fn)(x, y)
        for a, b in zip(gradient(own)(x, y), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        tangent = jnp.vdot(jax.jvp(own, (x, y), (t, 2.0 * t))[1], s)
        np.testing.assert_allclose(tangent, jnp.vdot(expected[0] + 2.0 * expected[1], t), rtol=1e-11)
        # JAX has no forward mode through jax.custom_vjp: its second derivatives, row by row.
        wanted = [jax.vjp(gradient(fn), x, y)[1](one) for one in [(t, 0.0 * t), (0.0 * t, t)]]
        hessian = jax.jacfwd(gradient(own), argnums=(0, 1))(x, y)
        for rows, one in zip(hessian, wanted, strict=True):
            for block, row in zip(rows, one, strict=True):
                np.testing.assert_allclose(t @ block, row, rtol=1e-11, atol=1e-12)
        with pytest.raises(wp.NotDifferentiableError, match="`pointed`, whose author says what its derivative is"):
            jax.vjp(gradient(own), x, y)[1]((t, t))


@wp.jax_func
def clip_rule(x, y):
    p, q = clipped(x, y)
    return 2.0 * p + q * x


@wp.kernel
def apply_clip(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    z[i] = clip_rule(x[i], y[i])


def test_a_rule_that_is_not_linear_is_run_in_reverse_mode_and_refused_in_others():
    x, y, g = jnp.asarray(uniform(3, 50))

    def own(x, y):
        return wp.jax_kernel(apply_clip)(x, y)[0]

    found, expected = (jax.vjp(f, x, y)[1](g) for f in (own, jax.vmap(clip_rule.python)))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    with pytest.raises(wp.NotDifferentiableError):
        jax.jvp(own, (x, y), (g, g))


def with_rule(body, rule):
    function = jax.custom_jvp(body)
    function.defjvp(lambda primals, tangents: (function(*primals), rule(*primals, *tangents)))
    return function


# Its value hides from JAX what its rule says.
hidden = with_rule(lambda t: 1.5 * jax.lax.stop_gradient(t), lambda t, dt: 1.5 * dt)
passed_on = with_rule(jnp.sin, lambda x, dx: hidden(jnp.cos(x) * dx) + hidden(x) * hidden(dx))


def bent(x):
    return jnp.sin(x)


sloped = with_rule(bent, lambda x, dx: jnp.sin(dx))


@wp.jax_func
def through_two_rules(x):
    return passed_on(jnp.exp(x)) * x


@wp.jax_func
def through_no_derivative(x):
    return sloped(x)


@wp.kernel
def apply_rules(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = through_two_rules(x[i])


@wp.kernel
def apply_no_derivative(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = through_no_derivative(x[i])


def test_a_rule_that_passes_its_tangent_on_to_another_rule():
    def own(x):
        return wp.jax_kernel(apply_rules)(x)[0]

    x, dx, dz = jnp.asarray(uniform(3, 20))

    def twice(f):
        return jax.jvp(lambda x: jax.jvp(f, (x,), (dx,))[1], (x,), (dz,))

    for a, b in zip(twice(own), twice(jax.vmap(through_two_rules.python)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_rule_that_is_not_linear_in_its_tangents_is_no_derivative():
    def own(x):
        return wp.jax_kernel(apply_no_derivative)(x)[0]

    x = jnp.asarray(uniform(20))
    np.testing.assert_allclose(own(x), np.sin(x), rtol=1e-5)
    for run in (lambda: jax.jvp(own, (x,), (x,)), lambda: jax.vjp(own, x)[1](x)):
        with pytest.raises(wp.NotDifferentiableError, match="`bent` under jax.custom_jvp is not linear") as error:
            run()
        assert "test_jax_func.py" in str(error.value)


def with_tangent(rule):
    """The sine, with a derivative that a rule makes of x and its tangent."""

    @jax.custom_jvp
    def ruled(x):
        return jnp.sin(x)

    ruled.defjvp(lambda primals, tangents: (ruled(primals[0]), rule(primals[0], tangents[0])))
    return ruled


def kernel_of(function):
    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = function(x[i])

    return k


def in_while(change):
    return lambda x, t: jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, change(x, s[1])), (0, t))[1]


def in_nested_scans(change):
    def inner(x, t):
        return jax.lax.scan(lambda c, k: (change(x, c), c * k), t, jnp.arange(20.0))

    def rule(x, t):
        last, all_of_them = jax.lax.scan(lambda c, _: inner(x, c), 0.5 * t, None, length=20)
        return last + all_of_them[3, 2]

    return rule


LINEAR = {
    "while": in_while(lambda x, t: 0.5 * t * x),
    "scans": in_nested_scans(lambda x, t: 0.97 * t * jnp.cos(0.1 * x)),
    "zeros": lambda x, t: jax.lax.fori_loop(0, 20, lambda k, s: (s[1], 0.9 * s[0] + x * t), (0.0, 0.0))[1],
}
# Rules that take tangents through functions and loops that are not linear, or that need not be.
NOT_LINEAR = {
    "relu": lambda x, t: jax.nn.relu(t),
    "softplus": lambda x, t: t + jax.nn.softplus(t) - jnp.log(2.0),
    "logaddexp": lambda x, t: jnp.logaddexp(t, x),
    "frexp": lambda x, t: jnp.frexp(t)[0],
    "bits": lambda x, t: jax.lax.bitcast_convert_type(jax.lax.bitcast_convert_type(t, jnp.int32) | 1, jnp.float32),
    "sine in while": in_while(lambda x, t: jnp.sin(t)),
    "relu in while": in_while(lambda x, t: jax.nn.relu(t)),
    "sum in scans": in_nested_scans(lambda x, t: t + 1.0),
    "absolute in scans": in_nested_scans(lambda x, t: jnp.abs(t)),
    "condition": lambda x, t: jax.lax.while_loop(lambda s: s > 0.1, lambda s: s * 0.5, t),
}


@pytest.mark.parametrize("name", LINEAR)
def test_tangents_may_go_through_loops_that_are_linear(name):
    ruled = wp.jax_func(with_tangent(LINEAR[name]))
    k = kernel_of(ruled)
    x, dx = jnp.asarray(uniform(5)), jnp.asarray(uniform(5))
    _, tangent = jax.jvp(lambda x: wp.jax_kernel(k)(x)[0], (x,), (dx,))
    _, wanted = jax.jvp(jax.vmap(ruled.python), (x,), (dx,))
    np.testing.assert_allclose(tangent, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_tangents_that_go_through_what_is_not_linear_are_refused(name):
    k = kernel_of(wp.jax_func(with_tangent(NOT_LINEAR[name])))
    with pytest.raises(wp.NotDifferentiableError, match="under jax.custom_jvp is not linear"):
        jax.grad(lambda x: wp.jax_kernel(k)(x)[0].sum())(jnp.asarray(uniform(3)))


@wp.jax_func
def kinks(x, y):
    return jnp.stack(
        [
            jax.nn.relu(x), jnp.maximum(x, y), jnp.minimum(x, y), jnp.abs(x), jnp.clip(x, -1.0, 1.0), jax.nn.relu6(x),
            jax.nn.hard_tanh(x), jnp.max(jnp.stack([x, y, x])), jax.nn.leaky_relu(x), jax.nn.elu(x), jnp.sign(x) * x,
            jnp.logaddexp(x, y), jnp.sort(jnp.stack([x, y]))[0], jax.nn.softplus(x), jnp.floor(x) + x,
        ]
    )  # fmt: skip


vec15 = wp.types.vector(15, float)


@wp.kernel
def apply_kinks(x: wp.array[float], y: wp.array[float], z: wp.array[vec15]):
    i = wp.tid()
    z[i] = kinks(x[i], y[i])


def test_kinks_and_ties_have_the_derivatives_of_jax():
    x, y = jnp.array([0.0, 1.0, -1.0, 2.0, 6.0, -0.0, 0.5]), jnp.array([0.0, 1.0, 1.0, 2.0, 0.0, 0.0, 0.25])
    own, fn = (lambda x, y: wp.jax_kernel(apply_kinks)(x, y)[0]), jax.vmap(kinks.python)
    np.testing.assert_allclose(own(x, y), fn(x, y), rtol=1e-6)
    (_, back), (_, expected) = jax.vjp(own, x, y), jax.vjp(fn, x, y)
    for k in range(15):
        one = jnp.zeros((7, 15)).at[:, k].set(1.0)
        for a, b in zip(back(one), expected(one), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7, err_msg=f"number {k}")


# -- 64 bits, control flow, random numbers


@wp.jax_func
def wide(v):
    return jnp.cumsum(v) / 3.0 + jnp.arange(4) * jnp.sqrt(2.0)


@wp.kernel
def apply_wide(v: wp.array[vec4d], w: wp.array[vec4d]):
    i = wp.tid()
    w[i] = wide(v[i])


def test_float64_arguments_are_traced_in_float64_whatever_the_setting_of_jax():
    v, w = uniform(5, 4, dtype=np.float64), np.zeros((5, 4))
    wp.launch(apply_wide, 5, [v], outputs=[w])
    np.testing.assert_allclose(w, np.cumsum(v, 1) / 3.0 + np.arange(4) * np.sqrt(2.0), rtol=1e-15)


TABLE = np.linspace(0.0, 1.0, 41) ** 2


@wp.jax_func
def with_loops(x, n: int, key):
    long = jax.lax.fori_loop(0, 60, lambda i, c: 0.9 * c + jnp.sin(x * i), x)
    _, running = jax.lax.scan(lambda c, r: (c + r * x, c * r), 0.0, jnp.asarray(TABLE, jnp.float32), reverse=True)
    until = jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, 0.5 * c[1] + x), (0, x))[1]
    branch = jax.lax.switch(n % 3, [jnp.sin, jnp.cos, lambda x: x * x], x)
    noise = jax.random.normal(jax.random.fold_in(jax.random.key(key), n), (2,)) @ jnp.array([1.0, x])
    table, place = jnp.asarray(TABLE, jnp.float32), jnp.clip(10.0 * (x + 2.0), 0.0, 39.99)
    below = place.astype(jnp.int32)
    read = table[below] + (place - below) * (table[below + 1] - table[below]) + table[n]
    return long + jnp.sum(running) + until + branch + noise + read


@wp.kernel
def apply_loops(x: wp.array[float], n: wp.array[int], z: wp.array[float]):
    i = wp.tid()
    z[i] = with_loops(x[i], n[i], wp.uint32(3 * i))


def test_loops_branches_tables_and_random_numbers():
    x, n = jnp.asarray(uniform(20)), jnp.arange(20, dtype=jnp.int32)

    def own(x):
        return wp.jax_kernel(apply_loops)(x, n)[0]

    fn = jax.vmap(with_loops.python)
    keys = jnp.arange(20, dtype=jnp.uint32) * 3
    np.testing.assert_allclose(own(x), fn(x, n, keys), rtol=1e-4, atol=1e-5)
    tangent = jax.jvp(lambda x: fn(x, n, keys), (x,), (jnp.ones(20),))[1]
    np.testing.assert_allclose(jax.grad(lambda x: own(x).sum())(x), tangent, rtol=1e-3, atol=1e-3)


# -- where it may be called


@wp.func
def shell(x: float, y: float):
    return wp.sqrt(activated(x)) + y


@wp.jax_func
def activated(x):
    return jax.nn.softplus(x) + 1.0


@wp.jax_func
def polynomial(x, degree):
    return x**degree if degree > 2 else x  # a number in the call is one of Python's


@wp.kernel
def in_functions_and_tiles(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    t = wp.tile_load(x, shape=16)
    wp.tile_store(y, wp.tile_map(activated, t))
    _, lane = wp.tid()
    if lane < 16:
        z[lane] = shell(x[lane], polynomial(x[lane], 3))


def test_it_is_called_in_functions_and_mapped_over_tiles():
    x = jnp.asarray(uniform(16))
    run = wp.jax_kernel(in_functions_and_tiles, 2, launch_dims=(1, 32), block_dim=32, output_dims=16)
    y, z = run(x)
    np.testing.assert_allclose(y, activated(x), rtol=1e-6)
    np.testing.assert_allclose(z, jnp.sqrt(activated(x)) + x**3, rtol=1e-5)
    gradient = jax.grad(lambda x: run(x)[0].sum())(x)
    np.testing.assert_allclose(gradient, jax.nn.sigmoid(x), rtol=1e-5)


def test_map_applies_it_to_arrays():
    x = jnp.asarray(uniform(10))
    np.testing.assert_allclose(wp.map(activated, x), activated(x), rtol=1e-6)


def test_functions_of_jax_themselves_and_jitted_ones():
    gelu, norm = wp.jax_func(jax.nn.gelu), wp.jax_func(jax.jit(jnp.linalg.norm))

    @wp.kernel
    def k(v: wp.array[wp.vec3], y: wp.array[float]):
        i = wp.tid()
        y[i] = gelu(norm(v[i]))

    v = jnp.asarray(uniform(6, 3))
    np.testing.assert_allclose(wp.jax_kernel(k)(v)[0], jax.nn.gelu(jnp.linalg.norm(v, axis=1)), rtol=1e-5)


# -- what else there is to kernels


@wp.kernel
def apply_polynomial(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = polynomial(x[i], 3) + activated(x[i])


def test_batches_gradients_inside_kernels_and_cuda():
    x = jnp.asarray(uniform(3, 8))
    run = wp.jax_kernel(apply_polynomial)
    np.testing.assert_allclose(jax.vmap(run)(x)[0], x**3 + activated(x), rtol=1e-5)
    wp.check_grads(run, (x[0],))
    assert "jax.nn.softplus(x)" in wp.inspect(apply_polynomial, "cuda")

    @wp.kernel
    def slopes(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = wp.grad(activated)(x[i])

    np.testing.assert_allclose(wp.jax_kernel(slopes)(x[0])[0], jax.nn.sigmoid(x[0]), rtol=1e-5)


def test_kernels_of_warp_call_it():
    warp = pytest.importorskip("warp")

    def doubled(x: warp.array(dtype=float), y: warp.array(dtype=float)):
        i = warp.tid()
        y[i] = activated(x[i]) * 2.0

    x = jnp.asarray(uniform(8))
    np.testing.assert_allclose(wp.jax_kernel(warp.kernel(doubled))(x)[0], 2.0 * activated(x), rtol=1e-6)


def weighted(weights):
    inner = wp.jax_func(lambda x: jnp.tanh(x * weights).sum())

    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = inner(x[i])

    return k


def test_another_constant_makes_another_kernel():
    one, same, other = (weighted(np.array(w, np.float32)) for w in ([1.0, 2.0], [1.0, 2.0], [1.0, 2.5]))
    names = [fingerprint(kernel.ir()) for kernel in (one, same, other)]
    assert names[0] == names[1] != names[2]
    # What JAX makes of the function is not known before it is traced: the kernel is never taken from disk unread.
    assert content_of(one.python, one._definition) is None


def test_modules_of_equinox_are_functions_and_their_training_goes_through_kernels():
    eqx = pytest.importorskip("equinox")
    module = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    mlp = wp.jax_func(module)  # its weights are constants of the kernel

    @wp.kernel
    def k(v: wp.array[wp.vec3], y: wp.array[wp.vec2]):
        i = wp.tid()
        y[i] = mlp(v[i])

    v = jnp.asarray(uniform(6, 3))
    run = wp.jax_kernel(k)
    np.testing.assert_allclose(run(v)[0], jax.vmap(module)(v), rtol=1e-5, atol=1e-6)

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(outer, through):
        return jnp.sum(through(jax.vmap(outer)(v)) ** 2)

    outer = eqx.nn.Linear(3, 3, key=jax.random.key(1))
    value, gradient = loss(outer, lambda v: run(v)[0])
    expected, wanted = loss(outer, lambda v: jax.vmap(module)(v))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), gradient, wanted)


@wp.jax_func
def chosen_noise(x):
    key = jnp.where(x > 0, jax.random.key(1), jax.random.key(2))
    first, second = jax.random.split(key)
    return jax.random.uniform(first) + x * jax.random.bernoulli(second, 0.4)


@wp.kernel
def apply_noise(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = chosen_noise(x[i])


def test_keys_of_random_numbers_are_chosen_and_split():
    x = jnp.asarray(uniform(8))
    np.testing.assert_allclose(wp.jax_kernel(apply_noise)(x)[0], jax.vmap(chosen_noise.python)(x), rtol=1e-6)
