"""Kernels, functions, structs and what `wp.jax_kernel` makes: pickled by name, copied as themselves."""

import copy
import dataclasses
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp


@wp.func
def twice(x: float):
    return 2.0 * x


@wp.struct
class Spring:
    k: float
    rest: wp.vec3


@wp.kernel
def doubled(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = twice(x[i])


class Outer:
    @wp.kernel
    def inner(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i]


@dataclasses.dataclass
class Model:
    """A module, as libraries of models on JAX have them."""

    kernel: Any
    function: Callable
    weights: Any


@pytest.mark.parametrize("value", [doubled, twice, Spring, Outer.inner, wp.sin, wp.tile_map, wp.svd3], ids=repr)
def test_references(value):
    for protocol in range(4, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) is value
    assert copy.copy(value) is value and copy.deepcopy(value) is value


def test_what_holds_a_kernel():
    model = Model(doubled, wp.jax_kernel(doubled, output_dims=4), np.ones(3, np.float32))
    for found in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert found.kernel is doubled
        np.testing.assert_array_equal(found.function(found.weights)[0], [2, 2, 2, 0])
        np.testing.assert_array_equal(found.function(x=found.weights, launch_dims=3, output_dims=3)[0], [2, 2, 2])


def test_functions_keep_their_keywords():
    fn = wp.jax_kernel(doubled, launch_dims=2, output_dims=(4,), enable_backward=False)
    found = pickle.loads(pickle.dumps(fn))
    np.testing.assert_array_equal(found(jnp.ones(4))[0], [2, 2, 0, 0])
    assert found.keywords == fn.keywords and found.kernel is doubled


def test_what_is_defined_in_a_function_is_refused_by_name():
    @wp.func
    def helper(x: float):
        return x

    @wp.kernel
    def local(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = helper(x[i])

    for value, name in ((local, "local"), (helper, "helper"), (wp.jax_kernel(local), "local")):
        with pytest.raises(pickle.PicklingError, match=f"'{name}' is defined in the function .*pickled by name"):
            pickle.dumps(value)
        assert copy.deepcopy(value) is value


def test_a_kernel_that_its_name_does_not_lead_to():
    other = wp.kernel(doubled.python)
    with pytest.raises(pickle.PicklingError, match="doubled"):
        pickle.dumps(other)


def test_handwritten_kernels_are_pickled_with_their_text():
    text = "__global__ void scale(const float* x, float k, float* y) { y[threadIdx.x] = k * x[threadIdx.x]; }"
    types = {"x": wp.array[float], "k": float, "y": wp.array[float]}
    kernel = wp.cuda_kernel(text, "scale", types, outputs=["y"], cpu=_on_cpu)
    found = pickle.loads(pickle.dumps(kernel))
    np.testing.assert_array_equal(wp.launch(found, 3, [jnp.ones(3), 2.0], [3])[0], [2, 2, 2])
    assert wp.inspect(found, "cuda") == wp.inspect(kernel, "cuda")
    assert copy.deepcopy(kernel) is kernel


def _on_cpu(x, k):
    return k * x


def test_in_another_process(tmp_path):
    (tmp_path / "springs.py").write_text(
        textwrap.dedent("""
        import jwarp as wp

        @wp.kernel
        def halved(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = x[i] / 2.0
        """)
    )
    make = "import pickle, sys, springs; sys.stdout.buffer.write(pickle.dumps(springs.halved))"
    data = subprocess.run([sys.executable, "-c", make], cwd=tmp_path, capture_output=True, check=True).stdout
    use = f"import pickle, numpy, jwarp as wp; k = pickle.loads({data!r}); " + (
        "print(wp.launch(k, 2, [numpy.array([4, 6], 'f')], [2])[0].tolist())"
    )
    found = subprocess.run([sys.executable, "-c", use], cwd=tmp_path, capture_output=True, check=True, text=True)
    assert found.stdout.split() == ["[2.0,", "3.0]"]
