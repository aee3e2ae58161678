"""wp.check_grads passes what is right, and says in the user's words what is wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

X = np.random.default_rng(5).normal(size=(2, 7)).astype(np.float32)


@wp.kernel
def spring(x: wp.array[float], k: float, count: int, f: wp.array[float], energy: wp.array[float]):
    i = wp.tid()
    if i < count:
        f[i] = -k * wp.sin(x[i]) * x[i]
        wp.atomic_add(energy, 0, 0.5 * k * x[i] * x[i])


@wp.kernel
def decay(x: wp.array[wp.vec2d], rate: wp.float64, y: wp.array[wp.vec2d]):
    i = wp.tid()
    for _ in range(i):
        y[i] = y[i] + rate * wp.dot(x[i], y[i]) * x[i]


@wp.kernel
def clip(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] += wp.max(x[i], 0.0) + wp.abs(x[i])


@jax.custom_vjp
def forgetful(x, k):
    return jnp.sin(x) * k


forgetful.defvjp(lambda x, k: (forgetful(x, k), (x, k)), lambda kept, g: (g * jnp.cos(kept[0]), g @ jnp.sin(kept[0])))


@jax.custom_vjp
def misplaced(x):
    return x**2


misplaced.defvjp(lambda x: (x**2, x), lambda x, g: (2.0 * g * x.at[3].multiply(1.05),))


@jax.custom_jvp
def double(x):
    return 2.0 * x


double.defjvp(lambda primals, tangents: (double(*primals), 2.1 * tangents[0]))


def test_right_kernels_pass():
    wp.check_grads(spring, 6, inputs=[X[0], 1.7, 6], outputs=[7, 1])
    wp.check_grads(spring, dim=6, inputs={"x": X[0], "k": 1.7, "count": 5}, outputs={"f": 7, "energy": jnp.ones(1)})
    wp.check_grads(clip, 7, inputs=[X[0]], outputs=[jnp.asarray(X[1])])
    wp.check_grads(clip, 7, [jnp.asarray(X[0]), jnp.asarray(X[1])])


def test_float64_is_checked_to_more_digits():
    with jax.enable_x64(True):
        random = np.random.default_rng(6)
        x, y = random.normal(size=(2, 5, 2))
        wp.check_grads(decay, 5, [x, 0.3], [jnp.asarray(y)])
        with pytest.raises(AssertionError, match="expected"):
            wp.check_grads(lambda x: double(x) * 1.0 if x is None else jnp.sin(x) + 1e-4 * (double(x) - 2.0 * x), (x,))


def test_functions_of_trees_pass():
    fn = wp.jax_kernel(clip)
    wp.check_grads(lambda a, b: fn(a["x"] * b[0])[0] * b[1], ({"x": jnp.asarray(X[0])}, (2.0, jnp.asarray(X[1]))))


@pytest.mark.parametrize("modes", ["rev", ("rev",)])
def test_a_wrong_argument_is_named(modes):
    with pytest.raises(AssertionError) as error:
        wp.check_grads(forgetful, (X[0], 1.9), modes=modes, order=1)
    lines = str(error.value).splitlines()
    assert lines[0] == "function 'forgetful', argument 'x': the reverse-mode derivative of result is wrong"
    expected, found = (float(line.split()[1]) for line in lines[2:])
    assert expected == pytest.approx(1.9 * found, rel=0.01)


def test_a_wrong_component_is_named():
    with pytest.raises(AssertionError, match=r"along component \[3\]"):
        wp.check_grads(misplaced, (X[0],), modes="rev")


def test_wrong_forward_mode_is_found():
    with pytest.raises(AssertionError, match=r"argument 'x\[1\]': the forward-mode derivative of result is wrong"):
        wp.check_grads(lambda x: x[0] * double(x[1]), ((X[0], X[1]),), modes="fwd")


def test_a_wrong_second_derivative_is_found():
    @jax.custom_jvp
    def slope(x):
        return jnp.cos(x)

    slope.defjvp(lambda p, t: (slope(*p), 1.2 * t[0]))

    @jax.custom_jvp
    def sine(x):
        return jnp.sin(x)

    sine.defjvp(lambda p, t: (sine(*p), slope(*p) * t[0]))
    wp.check_grads(sine, (X[0],), order=1)
    with pytest.raises(
        AssertionError, match="argument 'x': the .* derivative of the (tangent|gradient) (of|for) .* is wrong"
    ):
        wp.check_grads(sine, (X[0],))


def test_a_kink_at_the_point_is_no_pass_and_no_wrong_gradient():
    with pytest.raises(AssertionError, match=r"no derivative of output 'y' to compare with(.|\n)*kink"):
        wp.check_grads(clip, 1, [np.zeros(1, np.float32)], [1])


def test_kinks_among_other_elements_are_stepped_around():
    x = X[0].copy()
    x[2] = 0.0
    wp.check_grads(clip, 7, [x], [7], order=1)


def test_values_that_are_not_finite_are_named():
    with pytest.raises(AssertionError, match="result is not finite"):
        wp.check_grads(jnp.log, (-1.0,))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: wp.check_grads(jnp.sin, (1.0,), modes="back"), "modes must be"),
        (lambda: wp.check_grads(jnp.sin, (1.0,), order=3), "order must be 1 or 2, got 3"),
        (lambda: wp.check_grads(jnp.sin, 1.0), "args must be a tuple"),
        (lambda: wp.check_grads(jnp.sin, (1,)), "no floating-point argument"),
        (lambda: wp.check_grads(jnp.sin, (1.0,), dim=3), "are for kernels"),
        (lambda: wp.check_grads(clip, 3, [X[0]], [7], dim=3), "dim was given twice"),
        (lambda: wp.check_grads(clip, dim=7, outputs=[7]), "clip"),
        (lambda: wp.check_grads(clip), "dim"),
        (lambda: wp.check_grads(clip, 7, 3, [7]), "inputs"),
        (lambda: wp.check_grads(clip, 7, [X[0]], 7), "outputs"),
    ],
)
def test_arguments_that_do_not_fit_are_named(call, words):
    with pytest.raises(wp.LaunchError, match=words):
        call()


def test_what_is_no_function_is_refused():
    with pytest.raises(wp.KernelTypeError, match="expected a function or a kernel, got int"):
        wp.check_grads(3, (1.0,))
