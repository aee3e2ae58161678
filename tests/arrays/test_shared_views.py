"""Copies of objects whose arrays are views of each other: `wp.replace` and `copy.deepcopy`."""

import copy

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

pytestmark = pytest.mark.quick


class Body:
    def __init__(self):
        self.x = wp.array(np.arange(12, dtype=np.float32).reshape(6, 2), dtype=float)
        self.top = self.x[1:3]
        self.flat = self.x.flatten()
        self.own = wp.zeros(2, dtype=float)


def check_views(made, of):
    """They share memory as those of the original do, and none with it."""
    before = of.x.numpy().copy()
    made.x.fill_(7.0)
    made.top.fill_(3.0)
    expected = np.full((6, 2), 7.0)
    expected[1:3] = 3.0
    np.testing.assert_array_equal(made.x.numpy(), expected)
    np.testing.assert_array_equal(made.flat.numpy(), expected.ravel())
    np.testing.assert_array_equal(of.x.numpy(), before)


def test_views_are_copied_together():
    body = Body()
    made = copy.deepcopy(body)
    np.testing.assert_array_equal(made.top.numpy(), body.top.numpy())
    check_views(made, body)
    check_views(copy.deepcopy([body.top, body])[1], body)


@pytest.mark.parametrize("kind", ["jax", "array", "view"])
def test_views_follow_what_is_replaced(kind):
    body, values = Body(), np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    value = jnp.asarray(values) if kind == "jax" else wp.array(values, dtype=float)
    if kind == "view":
        value = wp.array(np.concatenate([values, values]), dtype=float)[6:]
    made = wp.replace(body, x=value)
    assert made.own is body.own
    np.testing.assert_array_equal(made.top.numpy(), values[1:3])
    np.testing.assert_array_equal(made.flat.numpy(), values.ravel())
    if kind != "jax":
        check_views(made, body)


def test_a_view_that_cannot_follow_is_named():
    body = Body()
    for name, value in {"x": jnp.zeros((8, 2)), "top": jnp.zeros((2, 2))}.items():
        with pytest.raises(wp.KernelTypeError, match=rf"(?s)Body\.\w+ shares memory with {name}, .* give \w+, too"):
            wp.replace(body, **{name: value})
    made = wp.replace(body, x=jnp.zeros((8, 2)), top=body.own, flat=body.own)
    assert made.x.shape == (8, 2) and made.top is body.own
