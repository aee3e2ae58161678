"""Derivatives where threads walk the same way and store the same there: those of jax.numpy, or an error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp

PARENT = (-1, 0, 1, 1, 0)
# The way from the root to each leaf, one after the other.
WAY, FIRST = (0, 1, 2, 0, 1, 3, 0, 4), (0, 3, 6, 8)


@wp.kernel
def chains(way: wp.array[int], first: wp.array[int], parent: wp.array[int], a: wp.array2d[float], s: wp.array2d[float]):
    w, leaf = wp.tid()
    for k in range(first[leaf], first[leaf + 1]):
        b = way[k]
        x = a[w, b]
        if parent[b] >= 0:
            x = wp.sin(s[w, parent[b]]) * x + s[w, parent[b]]
        s[w, b] = x


def mine(a):
    ints = [jnp.array(x, jnp.int32) for x in (WAY, FIRST, PARENT)]
    return wp.launch(chains, (len(a), len(FIRST) - 1), [*ints, a], [a.shape])[0]


def wanted(a):
    s = [a[:, 0]]
    for b in range(1, len(PARENT)):
        before = s[PARENT[b]]
        s.append(jnp.sin(before) * a[:, b] + before)
    return jnp.stack(s, 1)


def test_derivatives():
    a = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5)), jnp.float32)
    assert_allclose(mine(a), wanted(a), rtol=1e-6)
    for derivative in (jax.jacfwd, jax.jacrev):
        assert_allclose(derivative(mine)(a), jax.jit(derivative(wanted))(a), rtol=1e-5, atol=1e-6)
    both = jnp.stack([a, -a])
    found, right = (jax.jit(jax.vmap(jax.hessian(lambda a, f=f: f(a).sum())))(both) for f in (mine, wanted))
    assert_allclose(found, right, rtol=1e-4, atol=1e-5)


def test_other_values_are_refused():
    @wp.kernel
    def chain(way: wp.array[int], first: wp.array[int], a: wp.array[float], s: wp.array[float]):
        leaf = wp.tid()
        for k in range(first[leaf], first[leaf + 1]):
            s[way[k]] = s[0] + a[leaf]

    way, first = jnp.array(WAY, jnp.int32), jnp.array(FIRST, jnp.int32)

    def f(a):
        return wp.launch(chain, 3, [way, first, a], [5])[0].sum()

    message = r"different values are stored to one element of `s`, which the kernel also reads"
    for derivative in (jax.grad, jax.jacfwd):
        with pytest.raises(Exception, match=message):
            jax.block_until_ready(derivative(f)(jnp.array([1.0, 2.0, 3.0])))
