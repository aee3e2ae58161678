"""Errors of jax.numpy functions in kernels: refused by name, with the lines of the function and of the call."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

LARGE = np.ones((80, 80), np.float32)


def eigenvalues(x):
    return jnp.abs(
        jnp.linalg.eigvals(x * jnp.ones((2, 2))),  # here
    )[0]


def singular(x):
    return jnp.linalg.svd(x * jnp.eye(9))[1][0]  # here


def schur(x):
    return jax.scipy.linalg.schur(x * jnp.eye(3))[0][0, 0]  # here


def printing(x):
    jax.debug.print("{}", x)  # here
    return x


def calling_back(x):
    y = 2.0 * x
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), y)  # here


def input_output(x):
    return jax.experimental.io_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), x)  # here


def referring(x):
    kept = jax.new_ref(x)  # here
    kept[...] += 1.0
    return kept[...]


def branching(x):
    return x if x > 0 else -x  # here


def misshapen(x):
    return jnp.ones(3) @ jnp.ones((2, 2)) * x  # here


def python_fault(x):
    return x.no_such_thing  # here


def hundreds(x):
    few = jnp.tanh(x * jnp.arange(99.0))
    many = (x * jnp.ones((40, 40))) @ jnp.ones((40, 40))  # here
    return jnp.sum(few) + jnp.sum(jnp.sin(many))


def complex_numbers(x):
    return jnp.real(jnp.tanh(1j * x))  # here


def complex_order(x):
    return jnp.max(x * jnp.array([1j, 2.0]))  # here


def complex_rule(x):
    return jnp.linalg.inv(x * jnp.array([[1j, 2.0], [2.0, 1.0]]))[0, 0].real  # here


def other_keys(x):
    return x * jax.random.uniform(jax.random.key(3, impl="rbg"))  # here


def sorting(x):
    return jnp.sort(jnp.sin(x * jnp.arange(50.0)))[3]  # here


IN_THE_FUNCTION = [
    (eigenvalues, "`eig` is a primitive of JAX that kernels do not have"),
    (singular, "`svd` of JAX is used in a way that kernels do not have: NotImplementedError: a matrix of 9 x 9"),
    (schur, "`schur` is a primitive of JAX that kernels do not have|dtype complex64"),
    (printing, "`debug_(print|callback)` of JAX"),
    (calling_back, "`pure_callback` of JAX calls Python while the kernel runs"),
    (input_output, "`io_callback` of JAX calls Python while the kernel runs"),
    (referring, "is a primitive of JAX that kernels do not have"),
    (branching, "TracerBoolConversionError"),
    (misshapen, "TypeError: dot_general requires contracting dimensions"),
    (python_fault, "AttributeError"),
    (hundreds, r"more than 30000 operations on scalars, \d+ of them for `dot_general` here"),
    (complex_numbers, "`tanh` of complex numbers"),
    (complex_order, "`reduce_max` of complex numbers"),
    (complex_rule, "of complex numbers"),
    (other_keys, "keys of random numbers are `rbg`, and kernels have threefry2x32 alone"),
    (sorting, "50 numbers are sorted in a kernel"),
]


def drawing(x):
    return x + np.random.rand()


def naming_large(x):
    return jnp.sum(LARGE) * x


def returning_dict(x):
    return {"y": x}


def returning_none(x):
    return None


def returning_cube(x):
    return jnp.ones((2, 2, 2)) * x


def returning_complex(x):
    return jnp.fft.fft(x * jnp.ones(3))


def returning_key(x):
    return jax.random.key(3)


OF_THE_FUNCTION = [
    (drawing, "takes numbers from the state of a generator of random numbers"),
    (naming_large, r"`LARGE`, an array of shape \(80, 80\), and arrays that functions name are constants"),
    (returning_dict, "returns a dict, which kernels do not know"),
    (returning_none, "returns None"),
    (returning_cube, r"returns an array of shape \(2, 2, 2\)"),
    (returning_complex, "returns complex numbers"),
    (returning_key, "returns a key of random numbers"),
]


def kernel_of(function):
    traced = wp.jax_func(function)

    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = traced(x[i])

    return k


def refusal(kernel):
    with pytest.raises(wp.CompileError) as caught:
        wp.inspect(kernel, "ir")
    return str(caught.value)


@pytest.mark.parametrize("function, message", IN_THE_FUNCTION, ids=lambda x: getattr(x, "__name__", ""))
def test_the_line_in_the_function_and_that_of_the_call_are_shown(function, message):
    text = refusal(kernel_of(function))
    assert re.search(message, text), text
    lines, first = inspect.getsourcelines(function)
    here = next(first + k for k, line in enumerate(lines) if "# here" in line)
    assert f"--> {__file__}:{here}\n" in text
    assert re.search(rf"`{function.__name__}` was called at {re.escape(__file__)}:\d+", text), text


@pytest.mark.parametrize("function, message", OF_THE_FUNCTION, ids=lambda x: getattr(x, "__name__", ""))
def test_what_concerns_the_whole_function_is_refused_by_its_name(function, message):
    assert re.search(rf"`{function.__name__}`.*{message}", refusal(kernel_of(function)))


def test_values_that_are_traced_outside_are_named():
    def launched(weight):
        def weighted(x):
            return weight * x

        return wp.jax_kernel(kernel_of(weighted))(jnp.ones(3))[0]

    with pytest.raises(wp.CompileError, match="`weighted` uses `weight`, .* which JAX traces outside of it"):
        jax.jit(launched)(2.0)
    with pytest.raises(wp.CompileError, match="`weighted` uses `weight`, .* which JAX traces outside of it"):
        jax.grad(lambda w: launched(w).sum())(2.0)


def test_tracers_that_have_leaked_are_refused():
    kept = []
    jax.jit(lambda x: kept.append(x) or x)(2.0)
    assert "pass it as an argument" in refusal(kernel_of(lambda x: kept[0] * x))


def test_arrays_have_no_size():
    norm = wp.jax_func(jnp.linalg.norm)

    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        y[0] = norm(x)

    text = refusal(k)
    assert "is an array, whose size is not known when the kernel is compiled" in text
    assert "y[0] = norm(x)" in text


def test_arguments_that_jax_does_not_know():
    sine = wp.jax_func(jnp.sin)

    @wp.kernel
    def shape(x: wp.array[float], y: wp.array[float]):
        y[0] = sine(x.shape)

    @wp.kernel
    def too_many(x: wp.array[float], y: wp.array[float]):
        y[0] = sine(x[0], x[1], x[2])

    with pytest.raises(wp.KernelTypeError, match="a function of jax.numpy cannot take"):
        wp.inspect(shape, "ir")
    with pytest.raises(wp.KernelTypeError, match="call of `sin`: too many positional arguments"):
        wp.inspect(too_many, "ir")


def test_what_is_no_function():
    with pytest.raises(wp.KernelTypeError, match="needs a function"):
        wp.jax_func(3)
    with pytest.raises(wp.KernelTypeError, match="is one already"):
        wp.jax_func(wp.jax_func(jnp.sin))


def test_fields_of_structs_have_their_types():
    @wp.struct
    class Pair:
        a: float
        b: wp.vec2

    made = wp.jax_func(lambda x: Pair(a=x, b=jnp.stack([x, x, x])))

    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        p = made(x[0])
        y[0] = p.a

    assert "field `b` of the" in refusal(k)


def test_third_derivatives_are_refused():
    kernel = kernel_of(jax.nn.softplus)

    def run(x):
        return wp.jax_kernel(kernel)(x)[0].sum()

    one = jnp.ones(3)
    with pytest.raises(wp.NotDifferentiableError, match="third derivative"):
        jax.jvp(lambda x: jax.jvp(lambda x: jax.jvp(run, (x,), (one,))[1], (x,), (one,))[1], (one,), (one,))
