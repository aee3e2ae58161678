"""Arrays and objects with arrays are pytrees of JAX, and share memory with its arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from spring_steps import Model, N, Spring, State, move

import jwarp as wp


@pytest.fixture
def m():
    return Model(N)


@pytest.fixture
def s():
    return State(N)


def test_arrays_are_pytrees():
    a = wp.array(np.arange(6.0).reshape(2, 3), dtype=wp.vec3)
    (leaf,), tree = jax.tree.flatten(a)
    assert isinstance(leaf, jax.Array) and leaf.shape == (2, 3)
    assert tree == jax.tree.structure(wp.zeros(7, dtype=wp.vec3)) != jax.tree.structure(wp.zeros((2, 3), dtype=float))
    again = jax.tree.unflatten(tree, [leaf])
    assert again.dtype is wp.vec3 and again.shape == (2,)
    for anything in (None, 0, object(), jax.ShapeDtypeStruct((2, 3), jnp.float32)):
        made = jax.tree.unflatten(tree, [anything])
        assert jax.tree.leaves(made, is_leaf=lambda x: x is None) in ([anything], [])
    a.fill_(1.0)
    assert_array_equal(again.numpy(), np.arange(6.0).reshape(2, 3))


def test_objects_are_pytrees(m, s):
    assert jax.tree.structure(State(N, 1)) == jax.tree.structure(s)
    assert jax.tree.structure(Model(N)) == jax.tree.structure(m)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(m)]
    assert names == [".spring.k[<flat index 0>]"]
    m.table = np.arange(4)
    assert jax.tree.structure(Model(N)) != jax.tree.structure(m)
    s.again = s.x
    t = jax.tree.map(lambda x: x + 1, s)
    assert t.again is t.x and len(jax.tree.leaves(s)) == 3


def test_foreign_class_is_registered_by_hand():
    class Foreign:
        def __init__(self):
            self.a = wp.ones(2, dtype=float)

    holder = Spring(Foreign())
    wp.register_pytree(Spring)
    with pytest.raises(wp.KernelTypeError, match=r"Spring.k is an object of Foreign.*cannot take it apart") as error:
        jax.tree.leaves(holder)
    assert "wp.register_pytree(Foreign)" in str(error.value)
    assert wp.register_pytree(Foreign) is Foreign and wp.register_pytree(Foreign) is Foreign
    assert_array_equal(jax.tree.leaves(holder)[0], 1.0)
    with pytest.raises(wp.KernelTypeError, match="no class"):
        wp.register_pytree(3)


def test_views_of_one_array_are_not_parted(s):
    class Halves:
        def __init__(self, a, b):
            self.a, self.b = a, b

    wp.register_pytree(Halves)
    base = wp.array(np.arange(6.0), dtype=float)
    with pytest.raises(wp.LaunchError, match=r"Halves\.a and Halves\.b show elements of each other") as error:
        jax.tree.leaves(Halves(base[:4], base[3:]))
    assert "wp.functionalize" in str(error.value)
    assert len(jax.tree.leaves(Halves(base, base))) == 1
    first, second = jax.tree.leaves(Halves(base[:3], base[3:]))
    assert_array_equal(np.concatenate([first, second]), np.arange(6))
    even, odd = jax.tree.leaves(Halves(base[::2], base[1::2]))
    assert_array_equal(even + 1, odd)


def test_replace(s):
    t = wp.replace(s, x=jnp.zeros((2, 3)))
    assert t.x.shape == (2,) and t.x.dtype is wp.vec3 and t.v is s.v and s.x.shape == (N,)
    with pytest.raises(wp.KernelTypeError, match="no attribute 'y'"):
        wp.replace(s, y=1)
    with pytest.raises(wp.KernelTypeError, match=r"State\.x: .*holds no vec3"):
        wp.replace(s, x=jnp.zeros((2, 2)))


def test_to_and_from_jax():
    x = jnp.arange(6.0).reshape(2, 3)
    a = wp.from_jax(x, dtype=wp.vec3)
    wp.launch(move, 2, inputs=[a, a, 1.0])
    assert_array_equal(wp.to_jax(a), 2 * x)
    assert_array_equal(x, np.arange(6.0).reshape(2, 3))
    b = wp.ones(3, dtype=float)
    first = wp.to_jax(b)
    assert wp.to_jax(b) is first
    b.fill_(2.0)
    assert_array_equal(first, 1.0)
    assert_array_equal(jnp.sin(b), np.sin(np.full(3, 2, np.float32)))
    seen = b.numpy()
    second = wp.to_jax(b)
    seen[:] = 3
    assert_array_equal(second, 2.0)
    assert_array_equal(wp.to_jax(b), 3.0)
    with pytest.raises(wp.KernelTypeError, match="64-bit types are off"):
        wp.to_jax(wp.zeros(2, dtype=wp.float64))
    with pytest.raises(wp.KernelTypeError, match="expected an array"):
        wp.to_jax(3)
