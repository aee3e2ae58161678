"""Launches in functions that are exported once for all sizes: values, gradients, batches, and what is refused."""

import subprocess
import sys
import textwrap

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launch_kernels import accumulate, add_rows, fill, scale
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp
from jwarp.bind.primitive import _JITTED
from jwarp.compiler.derive import _DERIVED
from jwarp.compiler.program import program_of
from jwarp.launching.descriptor import _LAUNCHES
from jwarp.launching.geometry import fold
from jwarp.launching.sizes import Formulas
from jwarp.wire import Step

pytest.importorskip("flatbuffers", reason="jax.export needs it to serialise")

SIZES = [1, 2, 5, 64, 1000]
scale_fn = wp.jax_kernel(scale)
rows_fn = wp.jax_kernel(add_rows)


def symbols(names, **options):
    return jax.export.symbolic_shape(names, **options)


def spec(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def export(function, *specs, order=0):
    """The function after a round trip through bytes."""
    made = jax.export.export(jax.jit(function), disabled_checks=wp.EXPORT_CHECKS)(*specs)
    return jax.export.deserialize(made.serialize(vjp_order=order)).call


def numbers(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


@wp.kernel
def count(total: wp.array[int]):
    wp.atomic_add(total, 0, 1)


@wp.kernel
def count_in_grid(total: wp.array[int]):
    i, j, k, m = wp.tid()
    wp.atomic_add(total, 0, 1 + 0 * (i + j + k + m))


@wp.kernel
def blurred(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    n = x.shape[0]
    if i > 0 and i < n - 1:
        y[i] = k * (x[i - 1] - 2.0 * x[i] * x[i] + x[i + 1])


@wp.kernel
def gathered(x: wp.array[float], at: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[at[i]] * x[at[i]]


@wp.kernel
def mixed(x: wp.array[wp.vec3], k: float, norm: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    v = x[i] * k
    norm[i] = wp.dot(v, v)
    wp.atomic_add(total, 0, wp.sin(v[0]) * v[1])


@wp.kernel
def sized(n: int, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[n - 1 - i]


# Values


def launched(x, k):
    return wp.launch(scale, x.shape[0], [x, k], [x.shape[0]])[0]


def of_spec(x, k):
    return wp.launch(scale, x.shape, [x, k], [jax.ShapeDtypeStruct(x.shape, x.dtype)])[0]


@pytest.mark.parametrize(
    "function", [lambda x, k: scale_fn(x, k)[0], launched, of_spec], ids=["inferred", "given", "spec"]
)
def test_one_axis(function):
    call = export(function, spec(*symbols("n")), spec())
    for n in SIZES:
        assert_array_equal(call(numbers(n), np.float32(3)), 3 * numbers(n))


def test_no_elements():
    # Dimension variables of JAX are at least 1.
    call = export(lambda x: scale_fn(x, 2.0)[0], spec(*symbols("n - 1")))
    for n in (0, 1, 7):
        assert_array_equal(call(numbers(n)), 2 * numbers(n))
    x, _ = symbols("n - 1, m")
    kept = export(lambda x, y: wp.launch(accumulate, x.shape, [x], [y])[0], spec(x), spec(4))
    assert_array_equal(kept(numbers(0), numbers(4)), numbers(4))


def test_two_variables():
    n, m = symbols("n, m")
    call = export(lambda x, row: rows_fn(x, row, 2.0)[0], spec(n, m), spec(m))
    transposed = export(lambda x, row: rows_fn(x.T, row, 2.0)[0], spec(n, m), spec(n))
    for n, m in [(1, 1), (3, 1), (1, 70), (17, 33), (300, 2)]:
        x = numbers(n, m)
        assert_allclose(call(x, numbers(m)), x + 2 * numbers(m), rtol=1e-6)
        assert_allclose(transposed(x, numbers(n)), x.T + 2 * numbers(n), rtol=1e-6)


def test_fewer_and_more_threads_than_elements():
    """Which version of the kernel runs is decided at each size; nothing outside is touched."""
    n, m = symbols("n, m")
    call = export(lambda x, y: wp.launch(scale, y.shape[0], [x, 2.0], [x.shape])[0], spec(n), spec(m))
    short = export(lambda x, y: wp.launch(scale, x.shape[0], [x, 2.0], [y.shape])[0], spec(n), spec(m))
    for n, m in [(4, 4), (100, 3), (3, 100), (1, 1000), (65, 64)]:
        x, y = numbers(n), numbers(m)
        expected = np.where(np.arange(n) < m, 2 * x, 0)
        assert_array_equal(call(x, y), expected)
        expected = np.zeros(m, np.float32)
        expected[: min(n, m)] = 2 * x[:m]
        assert_array_equal(short(x, y), expected)


def test_in_out_outputs():
    in_out = wp.jax_kernel(accumulate, in_out_argnames=["total"])
    call = export(lambda x, y: in_out(x, y)[0] + wp.launch(accumulate, x.shape, {"x": x, "total": y})["total"],
                  *[spec(*symbols("n"))] * 2)  # fmt: skip
    for n in SIZES:
        x, y = numbers(n), numbers(n, seed=1)
        assert_allclose(call(x, y), 2 * (x + y), rtol=1e-6)


def test_sizes_of_arguments_that_the_launch_does_not_have():
    call = export(lambda x: wp.launch(fill, x.shape[0] + 1, [7.0], [5])[0], spec(*symbols("n")))
    for n in (1, 3, 4, 9):
        assert_array_equal(call(numbers(n)), np.where(np.arange(5) <= n, 7, 0))


def test_a_size_as_a_scalar():
    call = export(lambda x: wp.launch(sized, x.shape, [x.shape[0], x], [x.shape])[0], spec(*symbols("n")))
    for n in SIZES:
        assert_array_equal(call(numbers(n)), numbers(n)[::-1])


def test_in_a_scan_and_a_branch():
    def function(x, flag):
        y, _ = jax.lax.scan(lambda c, _: (scale_fn(c, 2.0)[0], None), x, length=3)
        return jax.lax.cond(flag, lambda y: scale_fn(y, 0.5)[0], lambda y: y, y)

    call = export(function, spec(*symbols("n")), spec(dtype=bool))
    for n in SIZES:
        assert_array_equal(call(numbers(n), True), 4 * numbers(n))
        assert_array_equal(call(numbers(n), False), 8 * numbers(n))


def test_debug_mode():
    n, m = symbols("n, m")
    with wp.config(debug=True):
        call = export(lambda x, y: wp.launch(scale, y.shape, [x, 2.0], [x.shape])[0], spec(n), spec(m))
    assert_array_equal(call(numbers(6), numbers(5)), np.append(2 * numbers(6)[:5], np.float32(0)))
    with pytest.raises(Exception, match=r"'scale'[\s\S]*thread \(5,?\)"):
        jax.block_until_ready(call(numbers(5), numbers(7)))


@wp.struct
class Body:
    v: wp.vec3
    mass: float


@wp.kernel
def energies(bodies: wp.array[Body], same: wp.array[Body], energy: wp.array[float]):
    i = wp.tid()
    body = bodies[i]
    energy[i] = body.mass * wp.dot(body.v, body.v)
    same[i] = body


def test_arrays_of_structs():
    (n,) = symbols("n")

    def function(v, mass):
        same, energy = wp.launch(energies, v.shape[0], [Body(v=v, mass=mass)], [v.shape[0], mass.shape])
        return same.v, energy, jax.grad(lambda v: wp.jax_kernel(energies, 2)(Body(v=v, mass=mass))[1].sum())(v)

    call = export(function, spec(n, 3), spec(n))
    for n in SIZES:
        v, mass = numbers(n, 3), numbers(n)
        same, energy, gradient = call(v, mass)
        assert_array_equal(same, v)
        assert_allclose(energy, mass * (v * v).sum(1), rtol=1e-5, atol=1e-6)
        assert_allclose(gradient, 2 * mass[:, None] * v, rtol=1e-5, atol=1e-6)
    (n,) = symbols("n")
    with pytest.raises(wp.LaunchError, match="'energies', parameter 'bodies': .*shape"):
        export(function, spec(n, 3), spec(n + 1))


# Formulas


def test_threads_of_formulas():
    n, m = symbols("n, m")
    dims = {
        "n*m": lambda n, m: n * m,
        "n//2": lambda n, m: n // 2,
        "(n - 3*m)//4 + 20": lambda n, m: (n - 3 * m) // 4 + 20,
        "n**2 + m % 3": lambda n, m: n**2 + m % 3,
        "-(-n//m)": lambda n, m: -(-n // m),
        "max": lambda n, m: jax.core.max_dim(n - 5, m) + jax.core.min_dim(n, 2 * m),
    }
    made = {text: export(lambda x, y, f=f: wp.launch(count, f(*x.shape, *y.shape), [], [1])[0], spec(n), spec(m))
            for text, f in dims.items()}  # fmt: skip
    for n, m in [(1, 1), (4, 3), (3, 4), (31, 7)]:
        for text, f in dims.items():
            assert int(made[text](numbers(n), numbers(m))[0]) == f(n, m), (text, n, m)


def test_outputs_of_formulas():
    n, m = symbols("n, m")
    call = export(lambda x: wp.launch(scale, x.size, [x.reshape(-1), 2.0], [x.size])[0].reshape(x.shape), spec(n, m))
    half = export(lambda x: wp.launch(scale, x.shape[0] // 2, [x, 2.0], [x.shape[0] // 2])[0], spec(n))
    for n, m in [(1, 1), (4, 3), (3, 50)]:
        assert_array_equal(call(numbers(n, m)), 2 * numbers(n, m))
        assert_array_equal(half(numbers(n)), 2 * numbers(n)[: n // 2])


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_all_dims_and_more_than_the_kernel_reads():
    n, m = symbols("n, m")
    call = export(lambda x: wp.launch(count_in_grid, (*x.shape, 2, x.shape[0]), [], [1])[0], spec(n, m))
    again = export(lambda x: wp.launch(scale, (5, *x.shape), [jnp.ones(5), 2.0], [5])[0], spec(n, m))
    total = export(lambda x: wp.launch(count, x.shape, [], [1])[0], spec(n, m))
    added = export(lambda x, y: wp.launch(accumulate, (1, *x.shape), [y], [y])[0], spec(n, m), spec(1))
    for n, m in [(1, 1), (4, 3), (3, 9)]:
        assert int(call(numbers(n, m))[0]) == n * m * 2 * n
        assert_array_equal(again(numbers(n, m)), np.full(5, 2))
        assert int(total(numbers(n, m))[0]) == n * m
        y = np.ones(1, np.float32)
        assert_array_equal(added(numbers(n, m), y), [1 + n * m])


def test_sizes_do_not_wrap():
    """JAX itself computes sizes in 32 bits here: 65536 * 65536 would be no threads at all."""
    n, m = symbols("n, m")
    call = export(lambda x, y: wp.launch(fill, x.shape[0] * y.shape[0], [1.0], [3])[0], spec(n), spec(m))
    assert_array_equal(call(numbers(65536), numbers(3)), np.ones(3))
    with pytest.raises(
        Exception, match="kernel 'fill': the sizes of this call make a launch dimension 4294967296, not between"
    ):
        jax.block_until_ready(call(numbers(65536), numbers(65536)))
    fewer = export(lambda x: wp.launch(fill, x.shape[0] - 5, [1.0], [3])[0], spec(n))
    assert_array_equal(fewer(numbers(7)), [1, 1, 0])
    assert_array_equal(fewer(numbers(5)), np.zeros(3))
    with pytest.raises(
        Exception, match="kernel 'fill': the sizes of this call make a launch dimension -2, not between"
    ):
        jax.block_until_ready(fewer(numbers(3)))


leaves = st.sampled_from(["n", "m", "q"]) | st.integers(-9, 9)
trees = st.recursive(
    leaves, lambda x: st.tuples(st.sampled_from(["+", "-", "*", "//", "%", "max", "min", "**"]), x, x), max_leaves=8
)


@settings(max_examples=150, deadline=None)
@given(trees, st.lists(st.integers(1, 12), min_size=3, max_size=3))
def test_formulas_are_jaxs_expressions(tree, values):
    """Python's numbers are the reference, JAX simplifies the expression, and the steps are run as a stack."""
    names = ("n", "m", "q")
    expression = built(tree, dict(zip(names, symbols("n, m, q"), strict=True)), jax.core)
    expected = built(tree, dict(zip(names, values, strict=True)), None)
    if expression is None or expected is None or abs(expected) > 2**62:
        return
    formulas = Formulas("k", [expression])
    number = formulas.number(expression)
    if number >= 0 or not formulas.variables:
        assert number == expected
        return
    known = [dict(zip(names, values, strict=True))[name] for name in formulas.variables]
    (steps,) = formulas.steps
    assert number == -1
    assert stacked(steps, known) == expected


def built(tree, values, core):
    if not isinstance(tree, tuple):
        return values.get(tree, tree)
    name, x, y = tree[0], built(tree[1], values, core), built(tree[2], values, core)
    if x is None or y is None:
        return None
    if name in ("//", "%") and (isinstance(tree[2], tuple) or tree[2] == 0):
        return None  # a divisor that may be 0
    if name == "**":
        return x * x
    if name in ("max", "min"):
        return getattr(core, f"{name}_dim")(x, y) if core else (max if name == "max" else min)(x, y)
    return {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "//": lambda: x // y, "%": lambda: x % y}[
        name
    ]()


def stacked(steps, known):
    stack = []
    for step, *number in steps:
        if step in (Step.CONSTANT, Step.VARIABLE):
            stack.append(number[0] if step == Step.CONSTANT else known[number[0]])
            continue
        y, x = stack.pop(), stack.pop()
        results = {
            Step.ADD: x + y, Step.MULTIPLY: x * y, Step.FLOORDIV: x // y if y else 0, Step.MOD: x % y if y else 0,
            Step.MAX: max(x, y), Step.MIN: min(x, y),
        }  # fmt: skip
        stack.append(results[step])
    assert len(stack) == 1
    return stack[0]


# Batches


def test_a_symbolic_batch():
    n, b = symbols("n, b")
    call = export(jax.vmap(lambda x, k: scale_fn(x, k)[0]), spec(b, n), spec(b))
    shared = export(jax.vmap(lambda x, k: scale_fn(x, k)[0], (1, None), 1), spec(n, b), spec())
    known = export(jax.vmap(lambda x, k: scale_fn(x, k)[0]), spec(b, 6), spec(b))
    single = export(jax.vmap(lambda k: wp.launch(fill, 1, [k], [1])[0]), spec(b))
    nested = export(jax.vmap(jax.vmap(lambda x, k: scale_fn(x, k)[0], (0, None))), spec(b, n, 3), spec(b))
    for n, b in [(1, 1), (5, 3), (3, 40), (64, 2)]:
        x, k = numbers(b, n), numbers(b)
        assert_array_equal(call(x, k), x * k[:, None])
        assert_array_equal(shared(x.T, np.float32(3)), 3 * x.T)
        assert_array_equal(known(numbers(b, 6), k), numbers(b, 6) * k[:, None])
        assert_array_equal(single(k), k[:, None])
        assert_array_equal(nested(numbers(b, n, 3), k), numbers(b, n, 3) * k[:, None, None])


def test_a_batch_of_in_out_outputs():
    n, b = symbols("n, b")
    call = export(jax.vmap(lambda x, y: wp.launch(accumulate, x.shape, [x], [y])[0], (0, None)), spec(b, n), spec(n))
    for n, b in [(1, 1), (5, 3), (3, 40)]:
        assert_allclose(call(numbers(b, n), numbers(n)), numbers(b, n) + numbers(n), rtol=1e-6)


# Gradients: those of the same function at a known size are proven elsewhere, and by hand here


def test_gradients_of_an_export():
    call = export(lambda x, k: scale_fn(x, k)[0], spec(*symbols("n")), spec(), order=1)
    for n in SIZES:
        x, k = jnp.asarray(numbers(n)), jnp.float32(1.5)
        gx, gk = jax.grad(lambda x, k: (call(x, k) ** 2).sum(), (0, 1))(x, k)
        assert_allclose(gx, 2 * k * k * x, rtol=1e-5)
        assert_allclose(gk, 2 * k * (np.asarray(x, np.float64) ** 2).sum(), rtol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 200])
def test_gradients_of_neighbours(n):
    call = export(lambda x, k: wp.launch(blurred, x.shape, [x, k], [x.shape])[0], spec(*symbols("n")), spec(), order=1)
    x, w, k = numbers(n), numbers(n, seed=1), np.float32(0.7)
    inner = np.arange(n)
    w = np.where((inner > 0) & (inner < n - 1), w, 0).astype(np.float32)
    gx, gk = jax.grad(lambda x, k: (call(x, k) * w).sum(), (0, 1))(x, k)
    padded = np.pad(w, 1)
    assert_allclose(gx, k * (padded[2:] + padded[:-2] - 4 * x * w), rtol=1e-4, atol=1e-5)
    full = np.pad(x, 1)
    assert_allclose(gk, (w * (full[:-2] - 2 * x * x + full[2:])).sum(), rtol=1e-3, atol=1e-4)


def test_gradients_of_a_gather_and_sums():
    n, m = symbols("n, m")
    call = export(lambda x, at: wp.launch(gathered, at.shape, [x, at], [at.shape])[0], spec(n),
                  spec(m, dtype=jnp.int32), order=1)  # fmt: skip
    total = export(lambda x, k: wp.launch(mixed, x.shape[0], [x, k], [x.shape[0], 1]), spec(n, 3), spec(), order=1)
    random = np.random.default_rng(3)
    for n, m in [(1, 1), (3, 50), (50, 3), (400, 700)]:
        x, at, w = numbers(n), random.integers(-n, n, m).astype(np.int32), numbers(m, seed=1)
        gradient = np.zeros(n)
        np.add.at(gradient, at, 2.0 * x[at] * w)
        assert_allclose(jax.grad(lambda x, at=at, w=w: (call(x, at) * w).sum())(x), gradient, rtol=1e-3, atol=1e-3)
        v, k = numbers(n, 3), np.float32(0.8)
        g = jax.grad(lambda v, k=k: sum(y.sum() for y in total(v, k)))(v)
        expected = 2 * k * k * v
        expected[:, 0] += k * np.cos(k * v[:, 0]) * k * v[:, 1]
        expected[:, 1] += k * np.sin(k * v[:, 0])
        assert_allclose(g, expected, rtol=1e-3, atol=1e-4)


def test_gradients_of_batches_and_exported_gradients():
    n, b = symbols("n, b")

    def loss(x, k):
        return (jax.vmap(lambda x, k: scale_fn(x, k)[0], (0, None))(x, k) ** 2).sum()

    call = export(loss, spec(b, n), spec(), order=1)
    made = export(jax.grad(loss, (0, 1)), spec(b, n), spec())
    second = export(jax.grad(lambda k, x: jax.grad(loss, 1)(x, k)), spec(), spec(b, n))
    forward = export(lambda x, k: jax.jvp(lambda k: loss(x, k), (k,), (jnp.ones(()),))[1], spec(b, n), spec())
    for n, b in [(1, 1), (5, 3), (3, 40)]:
        x, k = numbers(b, n), np.float32(1.5)
        squares = (np.asarray(x, np.float64) ** 2).sum()
        for gx, gk in (jax.grad(call, (0, 1))(x, k), made(x, k)):
            assert_allclose(gx, 2 * k * k * x, rtol=1e-5)
            assert_allclose(gk, 2 * k * squares, rtol=1e-4)
        assert_allclose(second(k, x), 2 * squares, rtol=1e-4)
        assert_allclose(forward(x, k), 2 * k * squares, rtol=1e-4)


def test_adjoint_launches_and_records():
    def function(x, w):
        recorded = wp.launch(scale, x.shape, [x, 3.0], [x.shape], record_cmd=True)
        return recorded.launch()[0], *wp.launch(scale, x.shape, [x, 3.0], [x.shape], adjoint=True, adj_outputs=[w])

    call = export(function, *[spec(*symbols("n"))] * 2)
    for n in SIZES:
        x, w = numbers(n), numbers(n, seed=1)
        y, gx, gk = call(x, w)
        assert_array_equal(y, 3 * x)
        assert_array_equal(gx, 3 * w)
        assert_allclose(gk, (x.astype(np.float64) * w).sum(), rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_repeats_that_may_be_many():
    """Threads of the same coordinates add to one element each time, and so do their gradients."""
    n, m = symbols("n, m")
    assert fold((n, m), 1, "k").may_repeat and not fold((n, m), 2, "k").may_repeat
    call = export(lambda x, y: wp.launch(accumulate_sum, (x.shape[0], y.shape[0]), [x], [x.shape])[0], spec(n), spec(m),
                  order=1)  # fmt: skip
    for n, m in [(1, 1), (5, 3), (70, 2)]:
        x, w = numbers(n), numbers(n, seed=1)
        assert_allclose(call(x, numbers(m)), m * x * x, rtol=1e-5)
        g = jax.grad(lambda x, y, w=w: (call(x, y) * w).sum())(x, numbers(m))
        assert_allclose(g, 2 * m * x * w, rtol=1e-5)


@wp.kernel
def accumulate_sum(x: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(total, i, x[i] * x[i])


# Files


def test_a_fresh_process(tmp_path):
    n, m = symbols("n, m")

    def function(x, row, k):
        y = jax.vmap(lambda r: scale_fn(r, k)[0])(x)
        return wp.launch(count, x.size, [], [1])[0], rows_fn(y, row, 2.0)[0]

    made = jax.export.export(jax.jit(function), disabled_checks=wp.EXPORT_CHECKS)(spec(n, m), spec(m), spec())
    (tmp_path / "export").write_bytes(made.serialize(vjp_order=1))
    code = """
        import sys, pathlib, numpy as np, jax, jax.export, jwarp
        call = jax.export.deserialize(bytearray(pathlib.Path(sys.argv[1]).read_bytes())).call
        for n, m in [(1, 1), (3, 5), (70, 2), (2, 500)]:
            x = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
            row = np.arange(m, dtype=np.float32)
            total, y = call(x, row, np.float32(3))
            assert int(total[0]) == n * m
            np.testing.assert_allclose(y, 3 * x + 2 * row, rtol=1e-5, atol=1e-5)
            g = jax.grad(lambda x: (call(x, row, np.float32(3))[1] * x).sum())(x)
            np.testing.assert_allclose(g, 6 * x + 2 * row, rtol=1e-5, atol=1e-5)
        print("right")
        """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "export")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.stdout.strip() == "right", result.stderr


# Refusals


def test_outside_of_an_export():
    (n,) = symbols("n")
    x = jnp.ones(4)
    for launch in (
        lambda: wp.launch(scale, n, [x, 2.0], [4]),
        lambda: wp.launch(scale, 4, [x, 2.0], [n]),
        lambda: scale_fn(x, 2.0, launch_dims=n),
        lambda: wp.launch(scale, n, [x, 2.0], [np.zeros(4, np.float32)]),
        lambda: wp.launch(scale, n, [x, 2.0], [4], record_cmd=True),
        lambda: wp.launch(scale, n, [x, 2.0], [np.zeros(4, np.float32)], record_cmd=True),
        lambda: wp.launch(scale, n, [x, 2.0], [4], adjoint=True, adj_outputs=[x]),
    ):
        with pytest.raises(wp.LaunchError, match="'scale': the size n is symbolic"):
            launch()
    with pytest.raises(wp.LaunchError, match="'scale': .* depend on the dimension variable n"):
        jax.jit(lambda x: wp.launch(scale, n, [x, 2.0], [4]))(x)
    record = wp.Launch(scale)
    record.set_dim(n)
    with pytest.raises(wp.LaunchError, match="'scale': the size n is symbolic"):
        _ = record.descriptor


def test_sizes_of_other_scopes():
    (n,), (other,) = symbols("n"), symbols("n")
    with pytest.raises(wp.LaunchError, match="'scale': the symbolic sizes n and n are of different scopes"):
        export(lambda x: wp.launch(scale, other, [x, 2.0], [x.shape]), spec(n))
    (other,) = symbols("m")
    with pytest.raises(wp.LaunchError, match="'fill': .* depend on the dimension variable m"):
        export(lambda x: wp.launch(fill, other, [x[0]], [4]), spec(n))


def test_arguments_that_do_not_fit():
    n, m = symbols("n, m")
    with pytest.raises(wp.KernelTypeError, match="'scale', parameter 'x': expected"):
        export(lambda x: scale_fn(x, 2.0), spec(n, m))
    with pytest.raises(wp.KernelTypeError, match="'mixed', parameter 'x': expected"):
        export(lambda x: wp.launch(mixed, n, [x, 1.0], [n, 1]), spec(n, m))
    with pytest.raises(wp.LaunchError, match="'scale', output 'y': expected a shape of 1"):
        export(lambda x: wp.launch(scale, n, [x, 1.0], [(n, n)]), spec(n))
    (keyword,) = symbols("lambda")
    with pytest.raises(wp.LaunchError, match="'scale': the symbolic size lambda cannot be read"):
        export(launched, spec(keyword), spec())


def test_what_is_kept_by_kernel_has_no_symbolic_sizes():
    """It would hold the scopes of all exports."""

    def kept():
        program = program_of(scale, wp.config.settings)
        return [len(x) for x in (scale.executables, _LAUNCHES.of(program), _DERIVED.of(program), _JITTED.of(scale))]

    def function(x):
        y = wp.launch(scale, x.shape, [np.ones(4, np.float32), 2.0], [4])[0]
        recorded = wp.launch(scale, x.shape, [np.ones(4, np.float32), 2.0], [4], record_cmd=True)
        return y.sum() + recorded.launch()[0].sum() + (wp.launch(scale, x.shape, [x, 2.0], [x.shape])[0] ** 2).sum()

    counts = []
    for _ in range(3):
        export(jax.grad(function), spec(*symbols("n")))
        counts.append(kept())
    assert counts[0] == counts[1] == counts[2]
