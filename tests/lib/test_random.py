"""Random numbers against Warp and NumPy, and the variables that they advance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import warp_parity_random as kernels
from error_checks import check
from loaded_as_warp import module_of_warp

import jwarp as wp
from jwarp.backend.interpreter.machine import run

N = 600
RNG = np.random.default_rng(5)
CDF = (np.cumsum(weights := RNG.random(20)) / weights.sum()).astype(np.float32)
MEAN = np.where(np.arange(N) % 3 == 0, RNG.uniform(0, 12, N), RNG.uniform(0, 60, N)).astype(np.float32)
MEAN[::17] = 0.0
PLACES = RNG.uniform(-20, 20, (N, 4)).astype(np.float32)
LAUNCHES = {
    "streams": ((11, CDF, MEAN), ((N, 6), np.uint32), ((N, 4), np.int32), ((N, 26), np.float32)),
    "states": ((np.uint32(5), np.arange(N, dtype=np.uint32)), ((N, 21), np.uint32)),
    "noises": ((3, PLACES), ((N, 16), np.float32)),
}
EXACT_FLOATS = {"streams": 7, "states": 0, "noises": 0}  # how many columns of floats come first that have Warp's bits


def compiled(name):
    inputs, *outputs = LAUNCHES[name]
    given = [jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs]
    return [np.asarray(x) for x in wp.launch(getattr(kernels, name), N, given, [shape for shape, _ in outputs])]


def assert_same(name, got, wanted):
    for x, y in zip(got, wanted, strict=True):
        exact = EXACT_FLOATS[name] if x.dtype == np.float32 else x.shape[1]
        np.testing.assert_array_equal(x[:, :exact], y[:, :exact])
        np.testing.assert_allclose(x, y, atol=4e-6, rtol=1e-6)


@pytest.fixture(scope="module")
def of_warp(tmp_path_factory):
    pytest.importorskip("warp")
    return module_of_warp(kernels, tmp_path_factory.mktemp("warp"))


@pytest.mark.parametrize("name", LAUNCHES)
def test_numbers_are_those_of_warp(name, of_warp):
    import warp

    inputs, *outputs = LAUNCHES[name]
    given = [warp.array(x, device="cpu") if isinstance(x, np.ndarray) else x for x in inputs]
    if name == "noises":
        given[1] = warp.array(PLACES, dtype=warp.vec4, device="cpu")
    made = [warp.array(np.zeros(*o), device="cpu") for o in outputs]
    warp.launch(getattr(of_warp, name), N, given, made, device="cpu")
    assert_same(name, compiled(name), [x.numpy() for x in made])


@pytest.mark.parametrize("name", LAUNCHES)
def test_the_interpreter_gives_the_same(name):
    inputs, *outputs = LAUNCHES[name]
    threads = 40
    made = [np.zeros(*o) for o in outputs]
    got = run(getattr(kernels, name).ir(), (threads,), [*inputs, *made])[-len(outputs) :]
    assert_same(name, [x[:threads] for x in got], [x[:threads] for x in compiled(name)])


def test_state_of_any_integers():
    """The hash and the seeds, from their definitions."""

    def pcg(s):
        s = s * np.uint32(747796405) + np.uint32(2891336453)
        s = ((s >> ((s >> np.uint32(28)) + np.uint32(4))) ^ s) * np.uint32(277803737)
        return (s >> np.uint32(22)) ^ s

    threads = np.arange(N, dtype=np.uint32)
    with np.errstate(over="ignore"):
        state = pcg(np.uint32(11) + pcg(threads))
        u, n, _ = compiled("streams")
        np.testing.assert_array_equal(u[:, 0], state)
        np.testing.assert_array_equal(n[:, 0], pcg(state).astype(np.int32))
        np.testing.assert_array_equal(u[:, 3], pcg(threads - np.uint32(5)))


@wp.kernel
def scaled(low: wp.array[float], high: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    s = wp.rand_init(3, i)
    for _ in range(i % 4):
        out[i] += wp.randf(s, low[i] * low[i], high[i])


def test_derivatives_by_the_bounds():
    low, high = RNG.uniform(0.5, 2.0, (2, 40)).astype(np.float32)
    wp.check_grads(wp.jax_kernel(scaled), (low, high))


@wp.kernel
def drawn(seed: int, out: wp.array[float]):
    i = wp.tid()
    s = wp.rand_init(seed, i)
    out[i] = wp.randf(s) + wp.randf(s)


def test_batches_of_seeds():
    fn = wp.jax_kernel(drawn, output_dims=9, launch_dims=9)
    (many,) = jax.vmap(fn)(jnp.arange(5))
    np.testing.assert_array_equal(many, np.stack([fn(k)[0] for k in range(5)]))
    assert len(np.unique(many)) == 45


HEAD = "import jwarp as wp\n\n\n@wp.kernel\ndef k(n: int, out: wp.array[float]):\n"


@wp.kernel
def drawn_within(seed: int, nested: wp.array[float], one_by_one: wp.array[float], states: wp.array2d[wp.uint32]):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    nested[i] = wp.randf(state, wp.randf(state), wp.randf(state) + 1.0)
    states[0, i] = state
    state = wp.rand_init(seed, i)
    low = wp.randf(state)
    high = wp.randf(state) + 1.0
    one_by_one[i] = wp.randf(state, low, high)
    states[1, i] = state


def test_draws_among_the_arguments_of_a_draw_come_before_it():
    nested, one_by_one, states = wp.launch(drawn_within, 32, [7], [32, 32, (2, 32)])
    np.testing.assert_array_equal(nested, one_by_one)
    np.testing.assert_array_equal(states[0], states[1])


def test_a_function_unknown_before_a_loop(tmp_path):
    body = "    s = wp.rand_init(1)\n    for i in range(n):\n        f = wp.randf\n        out[i] = f(«s»)\n"
    check(HEAD + body, wp.CompileError, "`randf` changes `s`", "by its own name", tmp_path)


def test_a_reference_needs_a_variable(tmp_path):
    text = """
import jwarp as wp
from jwarp.types import ref

@wp.func
def twice(x: ref[float]):
    x = 2.0 * x

@wp.kernel
def k(n: int, out: wp.array[float]):
    y = 3.0
    twice(y)
    twice(«y + 1.0»)
"""
    check(text, wp.CompileError, "a reference, which needs a variable", "assign to one first", tmp_path)


def test_other_types_are_refused(tmp_path):
    body = "    out[0] = «wp.randf(n)»\n"
    check(HEAD + body, wp.KernelTypeError, "no overload of `randf` takes (int32)", "", tmp_path)


def test_outside_of_kernels_a_state_stays_as_it_is():
    u, n, _ = compiled("streams")
    state = wp.rand_init(11, 5)
    assert (state, wp.randi(state), wp.randi(state)) == (u[5, 0], n[5, 0], n[5, 0])
    assert wp.rand_init(0) == u[5, 3]
    assert 2.0 <= wp.randf(state, low=2.0, high=3.0) < 3.0
    np.testing.assert_allclose(wp.noise(wp.rand_init(3), float(PLACES[0, 0])), compiled("noises")[0][0, 0], atol=1e-6)
