"""lower_bound against NumPy's searchsorted."""

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

pytestmark = pytest.mark.quick


@wp.kernel
def find(a: wp.array[float], values: wp.array[float], begin: int, end: int, whole: wp.array[int], part: wp.array[int]):
    i = wp.tid()
    whole[i] = wp.lower_bound(a, values[i])
    part[i] = wp.lower_bound(a, begin, end, values[i])


def test_lower_bound():
    random = np.random.default_rng(1)
    a = np.sort(random.integers(0, 40, 60)).astype(np.float32)
    values = np.concatenate([random.uniform(-2, 42, 200), a]).astype(np.float32)
    whole, part = wp.launch(find, len(values), [jnp.asarray(a), values, 10, 50], [len(values)] * 2)
    np.testing.assert_array_equal(whole, np.minimum(np.searchsorted(a, values), 59))
    np.testing.assert_array_equal(part, np.minimum(10 + np.searchsorted(a[10:50], values), 49))
