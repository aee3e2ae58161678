"""Unpacked arguments, the truth of arrays, types by `type(x)`, and comparisons of bools."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from run_three_ways import run_kernel

import jwarp as wp

RNG = np.random.default_rng(5)


@wp.struct
class Sizes:
    count: int
    scale: float


@wp.kernel
def unpacked(v: wp.array[wp.vec2], out: wp.array2d[float]):
    i = wp.tid()
    w = wp.vec4(v[i][0], *v[i], 4.0)
    pair = (v[i][1], 3.0)
    out[i, 0] = wp.max(*v[i])
    out[i, 1] = w[0] + 10.0 * w[1] + 100.0 * w[2] + 1000.0 * w[3]
    out[i, 2] = wp.min(*pair)
    out[i, 3] = wp.clamp(7.0 * v[i][0], *wp.vec3(0.0, 1.0, 5.0)[:2])


def test_a_star_gives_components_as_arguments():
    v = RNG.normal(size=(9, 2)).astype(np.float32)
    out = run_kernel(unpacked, 9, v, np.zeros((9, 4), np.float32))[-1]
    x, y = v.T.astype(float)
    expected = [np.maximum(x, y), x + 10 * x + 100 * y + 4000, np.minimum(y, 3), np.clip(7 * x, 0, 1)]
    np.testing.assert_allclose(out, np.stack(expected, 1), rtol=1e-6)


@wp.kernel
def star_of_a_number(x: float, out: wp.array[float]):
    out[0] = wp.max(*x, 1.0)


def test_a_star_needs_a_vector_or_tuple():
    with pytest.raises(wp.KernelTypeError, match="Starred expressions are only supported for vectors, .*, not float32"):
        star_of_a_number.ir()


@wp.kernel
def truth_of_arrays(a: wp.array2d[float], out: wp.array[int]):
    own = wp.zeros(3, dtype=float)
    if a and own:
        out[0] = 1
    elif not a:
        out[0] = 2
    out[1] = 3 if a else 4


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0), (0, 0)])
def test_an_array_is_true_where_it_has_elements(shape):
    (out,) = wp.launch(truth_of_arrays, 1, [jnp.ones(shape, jnp.float32)], [2])
    assert out.tolist() == ([1, 3] if np.prod(shape) else [2, 4])


@wp.kernel
def types_of_values(v: wp.vec3, s: Sizes, out: wp.array[float]):
    other = type(s)(type(v).length, 0.5)
    for k in range(v.length):
        out[k] = v[k] * other.scale + float(other.count)


def test_the_type_of_a_value_can_be_asked_and_called():
    (out,) = wp.launch(types_of_values, 1, [(1.0, 2.0, 4.0), Sizes(9, 9.0)], [3])
    assert out.tolist() == [3.5, 4.0, 5.0]


@wp.kernel
def bools(x: wp.array[float], out: wp.array2d[int]):
    i = wp.tid()
    a, b = x[i] > 0.0, x[i] < 1.0
    out[i, 0] = int(a < b)
    out[i, 1] = int(a <= b)
    out[i, 2] = int(a > b)
    out[i, 3] = int((a >= b) == b)


def test_false_is_less_than_true():
    x = np.array([-1.0, 0.5, 2.0], np.float32)
    out = run_kernel(bools, 3, x, np.zeros((3, 4), np.int32))[-1]
    pairs = [(v > 0, v < 1) for v in x.tolist()]
    assert out.tolist() == [[a < b, a <= b, a > b, (a >= b) == b] for a, b in pairs]


@wp.kernel
def a_loop_over_another_variable(v: wp.array[wp.vec3], out: wp.array[float]):
    c = v[0]
    out[0] = c[1]
    for c in range(1, out.shape[0]):
        out[c] = float(c)


def test_the_variable_of_a_loop_may_have_been_something_else_before():
    (out,) = wp.launch(a_loop_over_another_variable, 1, [jnp.asarray([[1.0, 7.0, 2.0]])], [3])
    assert out.tolist() == [7.0, 1.0, 2.0]


@wp.func
def plus(x: float):
    return x + 1.0


@wp.func
def times(x: float):
    return x * 2.0


FUNCTIONS = [plus, times]
BY_NAME = {"plus": plus, "times": times, "type": wp.vec3, "number": 3.0}


def test_a_function_out_of_a_list_or_dict():
    def made(n, name):
        @wp.kernel
        def k(x: wp.array[float], r: wp.array[float]):
            i = wp.tid()
            r[i] = FUNCTIONS[wp.static(n)](x[i]) + 10.0 * BY_NAME[name](x[i]) + 100.0 * FUNCTIONS[-1](x[i])
            for j in range(2):
                r[i] += 1000.0 * FUNCTIONS[j](x[i]) + BY_NAME["type"](x[i])[2]

        return k

    fn, x = wp.jax_kernel(made(0, "times")), jnp.arange(3.0)
    np.testing.assert_allclose(fn(x)[0], (x + 1) + 20 * x + 200 * x + 1000 * (3 * x + 1) + 2 * x)
    wp.check_grads(fn, (x,))
    np.testing.assert_allclose(wp.jax_kernel(made(1, "plus"))(x)[0] - fn(x)[0], (x - 1) + 10 * (1 - x))
    for n, name, words in ((2, "plus", "2 entries, of which 2 is none"), (0, "minus", "no entry 'minus'")):
        with pytest.raises(wp.CompileError, match=words):
            wp.inspect(made(n, name), "ir")
    with pytest.raises(wp.KernelTypeError, match="a Python dict cannot be indexed for float32"):
        wp.inspect(made(0, "number"), "ir")

    @wp.kernel
    def varying(x: wp.array[float], n: int, r: wp.array[float]):
        r[0] = FUNCTIONS[n](x[0])

    with pytest.raises(wp.CompileError, match="must be known when the kernel is built"):
        wp.inspect(varying, "ir")


def test_a_transform_of_seven_numbers():
    made = wp.transform_expand(np.arange(7.0))
    assert repr(made) == repr(wp.transform(wp.vec3(0, 1, 2), wp.quat(3, 4, 5, 6)))
    np.testing.assert_array_equal(made, np.arange(7))
    with pytest.raises(wp.KernelTypeError, match="a transform has 7 numbers, not 6"):
        wp.transform_expand(range(6))


vec0 = wp.types.vector(length=0, dtype=float)


@wp.func
def scaled(a: vec0, s: float):
    return a * s + vec0()


@wp.kernel
def nothing(r: wp.array[float]):
    i = wp.tid()
    b = scaled(vec0(), 2.0)
    for _ in range(i):
        b += wp.vector(length=0, dtype=float)
    if i > 1:
        b = -wp.normalize(b)
    r[i] = wp.dot(b, b) + wp.length(b) + float(len(b)) + wp.length_sq(wp.cw_mul(b, b))
    if b == vec0():
        r[i] += 1.0


def test_vectors_without_components_are_values_in_kernels(tmp_path):
    np.testing.assert_array_equal(wp.launch(nothing, 3, [], [3])[0], 1.0)
    assert (vec0() + vec0()).shape == (0,)
    for text, words in (
        ("b[wp.tid()]", "has no components"),
        ("b[0]", "index 0 is outside"),
        ("wp.min(b)", "has no components"),
        ("wp.length(wp.zeros(shape=2, dtype=vec0)[0])", "an array cannot hold"),
    ):
        path = tmp_path / "of_nothing.py"
        head = (
            f"import jwarp as wp\nfrom {__name__} import vec0\n@wp.kernel\ndef k(r: wp.array[float]):\n    b = vec0()\n"
        )
        path.write_text(f"{head}    r[0] = {text}\n")
        names: dict = {}
        exec(compile(path.read_text(), str(path), "exec"), names)
        with pytest.raises((wp.CompileError, wp.KernelTypeError), match=words):
            wp.inspect(names["k"], "ir")
    with pytest.raises(wp.KernelTypeError, match="an array cannot hold"):
        wp.array(dtype=vec0)
    with pytest.raises(wp.KernelTypeError, match="field 'a' is vector.0, float32., of no components"):
        wp.struct(type("S", (), {"__annotations__": {"a": vec0}}))
    with pytest.raises(wp.CompileError, match="parameter `a` of kernel `k` is vector.0, float32., which has no"):

        @wp.kernel
        def k(a: vec0, r: wp.array[float]):
            r[0] = wp.length(a)


@wp.struct
class Keyed:
    key: int
    value: wp.vec3


@wp.kernel
def picked(x: wp.array[Keyed], y: wp.array[Keyed], z: wp.array[float]):
    i = wp.tid()
    mine, other = x[i], Keyed(-i, wp.vec3(1.0))
    y[i] = wp.where(mine.value[0] > 0.0, mine, other)
    v = wp.vec4(1.0, 2.0, 3.0, 4.0)
    v[3:1] = v[2:2]
    z[i] = float(len(v[7:])) + wp.length_sq(v)


def test_where_takes_structs_and_slices_may_be_empty():
    values = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    x = Keyed(key=np.arange(9, dtype=np.int32), value=values)
    y, z = wp.launch(picked, 9, [x], [9, 9])
    chosen = values[:, :1] > 0.0
    np.testing.assert_array_equal(y.value, np.where(chosen, values, 1.0))
    np.testing.assert_array_equal(y.key, np.where(chosen[:, 0], x.key, -x.key))
    np.testing.assert_array_equal(z, 30.0)
    gradient = jax.grad(lambda v: (wp.launch(picked, 9, [x.replace(value=v)], [9, 9])[0].value ** 2).sum())(values)
    np.testing.assert_allclose(gradient, np.where(chosen, 2 * values, 0.0))


@wp.kernel
def coordinates(out: wp.array2d[int], rows: wp.array[int]):
    row = wp.tid()
    i, j = wp.tid()
    out[i, j] = 10 * row + j
    wp.atomic_add(rows, row, 1)


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_coordinates_are_read_into_as_many_names_as_are_wanted():
    out, rows = wp.launch(coordinates, (3, 4), [], [(3, 4), 3])
    np.testing.assert_array_equal(out, 10 * np.arange(3)[:, None] + np.arange(4))
    np.testing.assert_array_equal(rows, [4, 4, 4])
    out, rows = wp.launch(coordinates, 3, [], [(3, 1), 3])
    np.testing.assert_array_equal(rows, [1, 1, 1])


class Limits(wp.types.vector(length=3, dtype=float)):
    @wp.func
    def of(a: float, b: float):
        return Limits(a, b, a * b)


@wp.kernel
def limited(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    limits = Limits.of(x[i], 2.0)
    y[i] = limits[1] + limits[2]


def test_classes_of_vectors_have_functions():
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(wp.jax_kernel(limited)(x)[0], 2.0 + 2.0 * x)


class Pair(wp.types.vector(length=2, dtype=float)):
    """The type that it is made of, by another name."""


@wp.func
def turned(x: wp.types.vector(2, float)):
    return Pair(-x[1], x[0])


@wp.kernel
def mixed(x: wp.array[Pair], y: wp.array[wp.vec2], limits: wp.array[wp.vec3], own: wp.array[Limits]):
    i = wp.tid()
    y[i] = turned(x[i])
    limits[i] = Limits.of(x[i][0], 3.0) + wp.vec3(1.0, 1.0, 1.0)
    own[i] = limits[i] - Limits(1.0, 1.0, 1.0, dtype=wp.float32)


def test_classes_of_a_type_are_the_type():
    assert Pair is wp.types.vector(2, float) and Limits is not wp.vec3
    rng = np.random.default_rng(4)
    x = wp.array(rng.normal(size=(3, 2)), dtype=wp.vec2)
    y, limits, own = wp.zeros(3, dtype=Pair), wp.zeros(3, dtype=Limits), wp.zeros(3, dtype=wp.vec3)
    wp.launch(mixed, 3, [x, y, limits, own])
    given = x.numpy()
    np.testing.assert_array_equal(y.numpy(), np.stack([-given[:, 1], given[:, 0]], 1))
    expected = np.stack([given[:, 0], np.full(3, 3.0, np.float32), given[:, 0] * 3], 1) + np.float32(1.0)
    np.testing.assert_allclose(limits.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(own.numpy(), expected - 1.0, rtol=1e-5)


@wp.kernel
def said_twice(x: wp.array[wp.vec3i], y: wp.array[wp.vec3]):
    x[0] = wp.vec3i(1, 2, 3, dtype=wp.int32)
    y[0] = wp.vec3(1.5, 2.5, 3.5, dtype=float) + wp.vec3(2.0, dtype=wp.float32)


def test_a_type_may_be_given_its_own_dtype():
    x, y = wp.launch(said_twice, 1, [], [1, 1])
    np.testing.assert_array_equal(x, [[1, 2, 3]])
    np.testing.assert_array_equal(y, [[3.5, 4.5, 5.5]])

    @wp.kernel
    def other(x: wp.array[wp.vec3i]):
        x[0] = wp.vec3i(1, 2, 3, dtype=wp.int64)

    with pytest.raises(wp.CompileError, match=r"vec3i\(\) takes no keyword arguments"):
        wp.launch(other, 1, [], [1])


@wp.kernel
def with_default(x: wp.array[float], scale: float = 3.0):
    x[wp.tid()] = scale


def test_defaults_of_kernels_are_passed_by_as_in_warp():
    x = wp.zeros(2, dtype=float)
    wp.launch(with_default, 2, [x, 5.0])
    np.testing.assert_array_equal(x.numpy(), 5.0)
    with pytest.raises(wp.LaunchError, match="has 2 parameters .x, scale., got 1 input"):
        wp.launch(with_default, 2, [x])


@wp.kernel
def left_open(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    if a[i] < 0:
        ...
    else:
        out[i] = a[i]


def test_dots_do_nothing():
    a = RNG.integers(-5, 5, 9).astype(np.int32)
    np.testing.assert_array_equal(run_kernel(left_open, 9, a, np.zeros(9, np.int32))[-1], np.maximum(a, 0))


def test_kernels_have_the_keys_and_functions_that_they_have_in_warp():
    def factory():
        @wp.kernel
        def made(x: wp.array[float]):
            x[0] = 1.0

        return made

    assert unpacked.key == "unpacked" and unpacked.func.__name__ == "unpacked"
    name = "test_kernels_have_the_keys_and_functions_that_they_have_in_warp"
    assert factory().key == f"{name}__locals__factory__locals__made"


def test_a_kernel_takes_another_key():
    assert left_open.key == "left_open"
    left_open.key = "left_open__float32"
    assert left_open.key == "left_open__float32" and left_open.name == "left_open"


def test_errors_of_a_first_hour_name_the_way():
    """A call of a kernel, a forgotten output, NumPy's functions, `&` of conditions, and Python's sum."""

    @wp.kernel
    def copied(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i]

    @wp.kernel
    def sine(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = np.sin(x[i])

    @wp.kernel
    def guarded(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        if i > 0 & x[i] > 0.0:
            y[i] = x[i]

    @wp.kernel
    def summed(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = sum([x[j] for j in range(3)])

    x = jnp.ones(8)
    with pytest.raises(TypeError, match=r"wp.jax_kernel\(copied\)"):
        copied(x)
    with pytest.raises(wp.LaunchError, match=r"(?s)got 1 input\n.*outputs=\[8\] makes an array .* for `y`"):
        wp.launch(copied, 8, [x])
    with pytest.raises(wp.LaunchError, match=r"takes 1 argument \(x\), got 2"):
        wp.jax_kernel(copied)(x, 2.0)
    with pytest.raises(wp.CompileError, match=r"(?s)`np.sin` is not .*write wp.sin"):
        wp.jax_kernel(sine)(x)
    with pytest.raises(wp.KernelTypeError, match="of conditions, write `and`"):
        wp.jax_kernel(guarded)(x)
    with pytest.raises(wp.CompileError, match=r"`total \+= x\[j\]`"):
        wp.jax_kernel(summed)(x)
