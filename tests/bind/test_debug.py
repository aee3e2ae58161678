"""Run-time errors of launches: under jit, vmap and scan, with line, thread and batch element."""

import itertools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from fresh_python import run as run_process
from numpy.testing import assert_array_equal

import jwarp as wp
from jwarp import _native
from jwarp.compiler.cpu import compile_program, lower_kernel
from jwarp.compiler.program import program_of

N = 70
RNG = np.random.default_rng(11)
X = jnp.asarray(RNG.uniform(1, 2, N), jnp.float32)
K = np.arange(N, dtype=np.int32)


@wp.kernel
def gather(x: wp.array[float], k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[k[i]]


@wp.kernel
def root(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sqrt(x[i])


@wp.kernel
def scatter(x: wp.array[float], k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[k[i]] = x[i]


@wp.kernel
def limited(x: wp.array[float]):
    i = wp.tid()
    assert x[i] < 2.0, "not below two"


@wp.kernel
def between(x: wp.array[float]):
    i = wp.tid()
    assert x[i] < 2.0, "not\0below two"
    assert x[i] > 0.0, "not above zero"


def launch_gather(x, k):
    return wp.launch(gather, N, [x, k], [N])[0]


def outside_at(*places):
    k = np.broadcast_to(K, (*(2, 3, 4)[: len(places[0]) - 1], N)).copy()
    for place in places:
        k[place] = N
    return jnp.asarray(k)


@pytest.fixture(params=["bounds", "debug"])
def settings(request):
    with wp.config(**({"bounds": "error"} if request.param == "bounds" else {"debug": True})):
        yield


def place(kernel, offset):
    return f"kernel '{kernel.name}': test_debug.py:{kernel.span.line + offset}: "


GATHER = place(gather, 3) + "index outside of `x`, thread "


def test_an_eager_launch_raises_each_time(settings):
    for _ in range(3):
        with pytest.raises(RuntimeError) as caught:
            jax.block_until_ready(launch_gather(X, outside_at((41,))))
        assert str(caught.value).endswith(GATHER + "(41)")
        assert_array_equal(launch_gather(X, jnp.asarray(K)), X)


def test_under_jit(settings):
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(jax.jit(lambda k: launch_gather(X, k) + 1)(outside_at((3,), (66,))))
    assert str(caught.value).endswith(GATHER + "(3)")


@pytest.mark.parametrize("eager", [True, False])
def test_the_batch_element_is_named(settings, eager):
    one = jax.vmap(lambda k: launch_gather(X, k))
    two = jax.vmap(one)
    three = jax.vmap(jax.vmap(one, in_axes=1, out_axes=1))
    cases = [(one, ((1, 8),), "(8), batch (1)"), (two, ((1, 2, 9), (1, 2, 60)), "(9), batch (1, 2)")]
    for function, places, text in cases:
        k = outside_at(*places)
        with pytest.raises(RuntimeError) as caught:
            jax.block_until_ready((function if eager else jax.jit(function))(k))
        assert str(caught.value).endswith(GATHER + text)
    with pytest.raises(RuntimeError) as caught:
        jax.block_until_ready(three(outside_at((1, 2, 3, 5))))
    assert str(caught.value).endswith(GATHER + "(5), batch (1, 3, 2)")


def test_the_first_batch_element_wins(settings):
    k = outside_at((1, 2, 0), (1, 1, 69), (1, 2, 3))
    with pytest.raises(RuntimeError) as caught:
        jax.block_until_ready(jax.vmap(jax.vmap(lambda k: launch_gather(X, k)))(k))
    assert str(caught.value).endswith(GATHER + "(69), batch (1, 1)")


def test_in_a_scan(settings):
    ks = jnp.asarray(np.stack([K, K, np.where(K == 17, -N - 1, K)]))
    with pytest.raises(RuntimeError) as caught:
        jax.block_until_ready(jax.lax.scan(lambda x, k: (launch_gather(x, k), None), X, ks))
    assert str(caught.value).endswith(GATHER + "(17)")
    carried, _ = jax.lax.scan(lambda x, k: (launch_gather(x, k), None), X, ks[:2])
    assert_array_equal(carried, X)


def test_jax_kernel_and_nan():
    function = wp.jax_kernel(root)
    with wp.config(debug=True):
        assert_array_equal(function(X)[0], jnp.sqrt(X))
        with pytest.raises(RuntimeError) as caught:
            jax.block_until_ready(function(X.at[68].set(-1.0)))
        assert str(caught.value).endswith(place(root, 3) + "`sqrt` gives NaN, thread (68)")
        # A NaN that comes in is not made here.
        assert np.isnan(function(X.at[68].set(jnp.nan))[0][68])
    assert np.isnan(function(X.at[68].set(-1.0))[0][68])


def test_a_zero_character_ends_no_text():
    with wp.config(debug=True):
        for value, text in ((3.0, "not\\0below two"), (-1.0, "not above zero")):
            for launch in (wp.launch, jax.jit(lambda kernel, n, x: wp.launch(kernel, n, x), static_argnums=(0, 1))):
                with pytest.raises(RuntimeError) as caught:
                    jax.block_until_ready(launch(between, 1, [jnp.full(1, value)]))
                assert str(caught.value).endswith(f"assertion failed: {text}, thread (0)")


def test_races_leave_the_results_alone():
    with wp.config(debug=True):
        shuffled = jnp.asarray(RNG.permutation(K))
        (y,) = wp.launch(scatter, N, [X, shuffled], [N])
        assert_array_equal(y, jnp.zeros(N).at[shuffled].set(X))
        batched = jax.vmap(lambda k: wp.launch(scatter, N, [X, k], [N])[0])
        assert_array_equal(batched(jnp.stack([shuffled, K]))[1], X)
        named = wp.launch(scatter, N, {"x": X, "k": shuffled}, {"y": jnp.ones(2 * N)})
        assert list(named) == ["y"] and named["y"].shape == (2 * N,)
        assert list(wp.launch(scatter, N, [X, shuffled, X])) == ["y"]
        with pytest.raises(RuntimeError, match=r"race: .*of `y`.*, thread \(\d+\), batch \(1\)"):
            jax.block_until_ready(batched(jnp.stack([shuffled, jnp.asarray(K // 2)])))


def test_an_assertion_counts_where_nothing_is_computed():
    with wp.config(debug=True):
        assert wp.launch(limited, N, [X]) == {}
        for function in (lambda x: wp.launch(limited, N, [x]), jax.jit(lambda x: (wp.launch(limited, N, [x]), x + 1))):
            with pytest.raises(RuntimeError, match=r"assertion failed: not below two, thread \(5\)"):
                jax.block_until_ready(function(X.at[5].set(2.0)))
                jax.effects_barrier()
    assert wp.launch(limited, N, [X + 5]) == {}


def test_without_debug_mode_checks_cost_nothing():
    with wp.config(debug=True):
        debug = wp.inspect(limited, "ir")
    assert "check" in debug
    assert "check" not in wp.inspect(limited, "ir") and "failed" not in wp.inspect(limited, "llvm")


@wp.kernel
def copy(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]


def test_what_is_proved_is_not_checked():
    with wp.config(bounds="error"):
        program = program_of(copy, wp.config.settings)
        lowered = lower_kernel(program.kernel, program.settings)
    assert "failed" not in lowered.text("fast") and "failed" in lowered.text("checked")


def test_the_settings_of_the_trace_are_kept():
    k = outside_at((41,))
    with wp.config(bounds="error"):
        traced = jax.jit(launch_gather).trace(X, k)
    safe = jax.jit(lambda x, k: launch_gather(x, k)).trace(X, k)
    with wp.config(bounds="error"):
        assert safe.lower().compile()(X, k)[41] == 0
    with pytest.raises(RuntimeError, match="index outside"):
        jax.block_until_ready(traced.lower().compile()(X, k))


def test_an_export_keeps_its_checks(tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export needs it to serialise")
    with wp.config(debug=True):
        exported = jax.export.export(jax.jit(launch_gather), disabled_checks=wp.EXPORT_CHECKS)(X, K)
    path = tmp_path / "gather.bin"
    path.write_bytes(exported.serialize())
    printed = run_process(
        """
        import sys, pathlib, numpy, jax, jax.export, jwarp
        call = jax.export.deserialize(bytearray(pathlib.Path(sys.argv[1]).read_bytes())).call
        x, k = numpy.ones(70, numpy.float32), numpy.arange(70, dtype=numpy.int32)
        print(float(call(x, k).sum()))
        k[41] = 70
        try:
            print(call(x, k))
        except (RuntimeError, ValueError) as error:  # the latter from JAX's quick path for repeated calls
            print(str(error).splitlines()[0])
        """,
        path,
    )
    assert printed.startswith("70.0") and printed.rstrip().endswith(GATHER + "(41)")


def test_damaged_settings_of_a_program_are_refused():
    with wp.config(debug=True):
        program = program_of(gather, wp.config.settings)
        lowered = lower_kernel(program.kernel, program.settings)
    for damage in (b'"debug": "no"', b'"debug": 1', b'"unknown": true'):
        with pytest.raises(ValueError, match="damaged"):
            compile_program("0" * 32, lowered.program.replace(b'"debug": true', damage), "fast")


def test_every_order_of_threads_finds_the_same_failure(settings):
    k = np.arange(40_000, dtype=np.int32) % N
    k[[977, 31_000, 39_999]] = N
    try:
        for threads, _ in itertools.product((1, 2, 8), range(5)):
            _native.set_thread_limit(threads, eager=True)
            with pytest.raises(RuntimeError) as caught:
                jax.block_until_ready(wp.launch(gather, len(k), [X, k], [len(k)]))
            assert str(caught.value).endswith(GATHER + "(977)")
    finally:
        _native.set_thread_limit(0)


@wp.kernel
def guarded(x: wp.array[float], y: wp.array2d[float]):
    i = wp.tid()
    z = x[i]
    root = wp.sqrt(z)
    y[0, i] = wp.where(z >= 0.0, root, -1.0)
    y[1, i] = wp.where(z > 1.0, wp.where(z > 3.0, wp.log(z - 3.0), wp.log(z)), 0.0)
    y[2, i] = wp.log(z) if z > 0.0 else 0.0
    y[3, i] = wp.smoothstep(z, z, z) + wp.normalize(wp.vec2(z - z, z - z))[0] + wp.inverse(wp.mat22(z, z, z, z))[0, 0]
    if z > 0.0 and wp.log(z) > 0.0:
        y[4, i] = wp.log(z)


@wp.kernel
def badly_guarded(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    root = wp.sqrt(x[i])
    y[i] = wp.where(x[i] < 0.5, root, -1.0)


def test_a_nan_that_is_passed_over_is_none():
    x = jnp.asarray(RNG.normal(size=N), jnp.float32) * 4
    (plain,) = wp.launch(guarded, N, [x], [(5, N)])
    with wp.config(debug=True):
        assert_array_equal(wp.launch(guarded, N, [x], [(5, N)])[0], plain)
        bad = X.at[33].set(-1.0)
        with pytest.raises(RuntimeError) as caught:
            jax.block_until_ready(wp.launch(badly_guarded, N, [bad], [N]))
    assert str(caught.value).endswith(place(badly_guarded, 3) + "`sqrt` gives NaN, thread (33)")


@wp.kernel
def with_table(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    table = wp.zeros(shape=4, dtype=float)
    for k in range(n):
        table[k] = x[i] + float(k)
    y[i] = y[i] + table[2] * x[i]


def test_local_arrays_are_checked_beside_the_hidden_arrays_of_races():
    x = jnp.asarray(np.random.default_rng(3).uniform(1.0, 2.0, 37), jnp.float32)
    with wp.config(debug=True):
        (y,) = wp.launch(with_table, 37, [x, 4], [x])
        np.testing.assert_allclose(y, x + (x + 2) * x, rtol=1e-6)
        with pytest.raises(RuntimeError, match=r"index outside of `table`.*thread \(0\)|thread \(0,?\).*`table`"):
            wp.launch(with_table, 37, [x, 5], [x])


@wp.kernel
def picked_component(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = wp.vec3(1.0, 2.0, 3.0)
    y[i] = v[k[i]]


def test_components_are_checked():
    with wp.config(debug=True):
        (y,) = wp.launch(picked_component, 3, [jnp.array([2, -3, 0], jnp.int32)], [3])
        assert_array_equal(y, [3.0, 1.0, 1.0])
        for bad in (3, -4):
            with pytest.raises(RuntimeError, match=r"outside of the 3 components.*thread \(1\)"):
                wp.launch(picked_component, 2, [jnp.array([0, bad], jnp.int32)], [2])


def test_gradients_check_accesses_too():
    """Under jax.grad alone, JAX drops the forward launch, whose result nothing uses."""

    @wp.kernel
    def ahead(x: wp.array[float], n: int, y: wp.array[float]):
        i = wp.tid()
        total = 0.0
        for j in range(3):
            total += wp.sin(x[i + j * n])
        y[i] = total * total

    def loss(x, n):
        return wp.launch(ahead, 4, [x, n], [4])[0].sum()

    x = jnp.linspace(0.0, 1.0, 8)
    for settings in ({"debug": True}, {"bounds": "error"}):
        with wp.config(**settings):
            good = jax.jit(jax.grad(loss))(x, 2)
            np.testing.assert_allclose(good, jax.grad(lambda x: sum(
                sum(jnp.sin(x[i + 2 * j]) for j in range(3)) ** 2 for i in range(4)))(x), rtol=1e-5)  # fmt: skip
            with pytest.raises(RuntimeError, match=r"ahead.*test_debug.py:\d+: index outside of `x`, thread \(\d\)"):
                jax.block_until_ready(jax.jit(jax.grad(loss))(x, 3))
