"""In a function under @wp.func_grad, a variable that stands for an array has the array's gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

N = 20


@wp.struct
class Holder:
    values: wp.array[wp.vec3]
    scale: float


@wp.func
def component(holder: Holder, table: wp.array[float], i: int):
    return holder.values[i].x * holder.scale * table[0]


@wp.func_grad(component)
def adj_component(holder: Holder, table: wp.array[float], i: int, g: float):
    held = holder
    values = held.values
    own = table
    wp.adjoint[values][i].x += 2.0 * g * holder.scale * own[0]  # twice the derivative, to be told from it
    wp.adjoint[own][0] += 3.0 * g * values[i].x
    wp.adjoint[held.values][i].y += g


@wp.kernel
def gather(holder: Holder, table: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = component(holder, table, i)


def test_gradients_of_aliases_are_those_of_the_arrays():
    rng = np.random.default_rng(0)
    values, table, g = (jnp.asarray(rng.normal(size=n), jnp.float32) for n in ((N, 3), 1, N))
    fn = wp.jax_kernel(gather, output_dims=N)

    def loss(values, table):
        return (fn(Holder(values, 0.7), table)[0] * g).sum()

    by_values, by_table = jax.grad(loss, (0, 1))(values, table)
    expected = np.transpose([2 * 0.7 * g * table[0], g, 0 * g])
    np.testing.assert_allclose(by_values, expected, rtol=1e-5)
    np.testing.assert_allclose(by_table, [3 * (g * values[:, 0]).sum()], rtol=1e-4)


@wp.func
def doubled(x: float, a: wp.array[float]):
    return 2.0 * x * a[0]


@wp.func_grad(doubled)
def adj_doubled(x: float, a: wp.array[float], g: float):
    own = x
    wp.adjoint[own] += 2.0 * g


@wp.func
def either(x: float, a: wp.array[float], b: wp.array[float]):
    return x * a[0] * b[0]


@wp.func_grad(either)
def adj_either(x: float, a: wp.array[float], b: wp.array[float], g: float):
    one = a
    if x > 0.0:
        one = b
    wp.adjoint[one][0] += g


@wp.kernel
def with_copy(a: wp.array[float], y: wp.array[float]):
    y[0] = doubled(a[1], a)


@wp.kernel
def with_two(a: wp.array[float], y: wp.array[float]):
    y[0] = either(a[1], a, a)


@pytest.mark.parametrize(("kernel", "name"), [(with_copy, "own"), (with_two, "one")])
def test_copies_of_numbers_and_variables_of_two_arrays_have_none(kernel, name):
    fn = wp.jax_kernel(kernel, launch_dims=1, output_dims=1)
    with pytest.raises(wp.CompileError, match=f"`{name}` is no parameter of `adj_.*` that has a gradient"):
        jax.grad(lambda a: fn(a)[0].sum())(jnp.ones(2))


@wp.func
def product(holder: Holder, other: wp.array[wp.vec3], i: int):
    return holder.values[i].x * other[i].x


@wp.func_grad(product)
def adj_product(holder: Holder, other: wp.array[wp.vec3], i: int, g: float):
    holder.values = other
    values = holder.values
    wp.adjoint[values][i].x += g


@wp.func
def another_product(holder: Holder, other: wp.array[wp.vec3], i: int):
    return holder.values[i].x * other[i].x


@wp.func_grad(another_product)
def adj_another_product(holder: Holder, other: wp.array[wp.vec3], i: int, g: float):
    held = holder
    held.values = other
    wp.adjoint[held.values][i].x += g


@wp.kernel
def through_an_alias(holder: Holder, other: wp.array[wp.vec3], y: wp.array[float]):
    i = wp.tid()
    y[i] = product(holder, other, i)


@wp.kernel
def through_a_field(holder: Holder, other: wp.array[wp.vec3], y: wp.array[float]):
    i = wp.tid()
    y[i] = another_product(holder, other, i)


@pytest.mark.parametrize(("kernel", "name"), [(through_an_alias, "values"), (through_a_field, r"held\.values")])
def test_fields_that_are_given_another_array_have_none(kernel, name):
    fn = wp.jax_kernel(kernel, output_dims=N)
    with pytest.raises(wp.CompileError, match=f"`{name}` is assigned to(.|\\n)*a name of its own"):
        jax.grad(lambda a: fn(Holder(a, 1.0), a)[0].sum())(jnp.ones((N, 3)))
