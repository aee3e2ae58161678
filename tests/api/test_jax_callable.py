"""`wp.jax_callable`: functions of launches with Warp's signature, compared with jax.numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions_of_launches import assert_same, squares
from numpy.testing import assert_array_equal
from spring_steps import N, energies, move, pull

import jwarp as wp
from jwarp.config import surface


@wp.kernel
def set_both(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    x[i] = 2.0 * y[i]
    y[i] = x[i] + 1.0


def two_steps(x: wp.array[wp.vec3], v: wp.array[wp.vec3], k: wp.array[float], dt: float, e: wp.array[float]):
    wp.launch(pull, x.shape, inputs=[x, k, v, dt])
    wp.launch(move, x.shape, inputs=[x, v, dt])
    wp.launch(energies, x.shape, inputs=[x, v], outputs=[e])


def test_jax_callable():
    f = wp.jax_callable(two_steps, num_outputs=3, in_out_argnames=["x", "v"], graph_mode=1, vmap_method="sequential")
    make = np.random.default_rng(0)
    x, v = (jnp.asarray(make.uniform(size=(N, 3)), jnp.float32) for _ in range(2))
    k = jnp.ones(N)

    def wanted(x, v, k, dt):
        v = v - dt * (k * jnp.sum(x * x, -1))[:, None] * x
        x = x + dt * v
        return x, v, 0.5 * jnp.sum(v * v, -1) + jnp.sum(x * x, -1)

    assert_same(f(x, v, k, 0.1), wanted(x, v, k, 0.1))
    assert_same(jax.jit(f)(x, v, k, 0.1), wanted(x, v, k, 0.1))
    assert_same(jax.grad(lambda *a: f(*a)[2].sum(), argnums=(0, 1, 2, 3))(x, v, k, 0.1),
                jax.grad(lambda *a: wanted(*a)[2].sum(), argnums=(0, 1, 2, 3))(x, v, k, 0.1), 1e-4)  # fmt: skip
    xs = jnp.stack([x, 2 * x])
    assert_same(jax.vmap(f, in_axes=(0, None, None, None))(xs, v, k, 0.1),
                jax.vmap(wanted, in_axes=(0, None, None, None))(xs, v, k, 0.1))  # fmt: skip


def test_output_dims_of_jax_callable():
    def f(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
        wp.launch(squares, x.shape, inputs=[x], outputs=[y])
        wp.copy(z, x, count=2)

    x = jnp.arange(3.0)
    y, z = wp.jax_callable(f, num_outputs=2, output_dims={"y": 3, "z": (4,)})(x)
    assert_array_equal(y, x * x)
    assert_array_equal(z, [0, 1, 0, 0])
    y, z = wp.jax_callable(f, num_outputs=2)(x, output_dims=5)
    assert y.shape == z.shape == (5,)
    with pytest.raises(wp.LaunchError, match="no shape for 'z'"):
        wp.jax_callable(f, num_outputs=2)(x, output_dims={"y": 3})


def test_jax_callable_refuses():
    def f(x: wp.array[float], y: wp.array[float]):
        wp.launch(set_both, x.shape, inputs=[x, y])

    x = jnp.ones(3)
    with pytest.raises(wp.LaunchError, match=r"wp.jax_callable: f changes 'x' at .*.py:\d+, and only 'y' come back"):
        wp.jax_callable(f)(x)
    with pytest.raises(wp.LaunchError, match="takes 1 arguments"):
        wp.jax_callable(f)(x, x)
    with pytest.raises(wp.KernelTypeError, match=r"parameter 'x': expected array\[float32\], got int32\[3\]"):
        wp.jax_callable(f)(jnp.ones(3, int))
    with pytest.raises(wp.LaunchError, match="no parameter 'w'"):
        wp.jax_callable(f, in_out_argnames=["w"])
    with pytest.raises(wp.LaunchError, match="must not contain duplicate names"):
        wp.jax_callable(f, in_out_argnames=["x", "x"])
    with pytest.raises(wp.LaunchError, match="'y' is in in_out_argnames, .* placed before output-only"):
        wp.jax_callable(f, num_outputs=2, in_out_argnames=["y"])
    with pytest.raises(wp.LaunchError, match="graph_mode=7 is none of NONE, JAX"):
        wp.jax_callable(f, graph_mode=7)
    with pytest.raises(wp.LaunchError, match="3 cannot be outputs"):
        wp.jax_callable(f, num_outputs=3)
    with pytest.raises(wp.KernelTypeError, match="'x' has no annotation"):
        wp.jax_callable(lambda x: None)


def test_programs_get_one_jax_callable_for_a_function_and_its_options(monkeypatch):
    def f(x: wp.array[float], y: wp.array[float]):
        wp.copy(y, x)
        wp.launch(set_both, x.shape, inputs=[wp.zeros_like(x), y])

    def g(x: wp.array[float], y: wp.array[float]):
        f(x, y)

    assert wp.jax_callable(f) is not wp.jax_callable(f)
    monkeypatch.setattr(surface, "is_warps", True)
    first = wp.jax_callable(f, output_dims={"y": (3,)})
    assert wp.jax_callable(f, output_dims={"y": [3]}, in_out_argnames=[], stage_in_argnames=None) is first
    assert wp.jax_callable(f, output_dims=()) is not wp.jax_callable(f)
    others = [
        wp.jax_callable(f),
        wp.jax_callable(g, output_dims={"y": (3,)}),
        wp.jax_callable(f, output_dims={"y": (4,)}),
        wp.jax_callable(f, in_out_argnames=["y"]),
        wp.jax_callable(f, output_dims={"y": (3,)}, graph_mode=2),
        wp.jax_callable(f, output_dims={"y": (3,)}, stage_in_argnames=["x"]),
    ]
    assert len({id(each) for each in (first, *others)}) == 7
    assert others[4].graph_mode is wp.JaxCallableGraphMode.WARP and first.graph_mode is wp.JaxCallableGraphMode.JAX
    assert others[5].stage_in_argnames == {"x"} and first.stage_in_argnames == set()
    x = np.random.default_rng(8).normal(size=3).astype(np.float32)
    np.testing.assert_array_equal(jax.jit(first)(x)[0], 2 * x + 1)
    (changed,) = jax.jit(others[3])(x, jnp.ones(3))
    np.testing.assert_array_equal(changed, 2 * x + 1)
    assert others[2](jnp.ones(4))[0].shape == (4,)
