"""Matrices of which some numbers are constants, stored whole: LLVM's code stays valid."""

import re

import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.cpu.optimize import optimized_module
from jwarp.backend.cpu.target import machine_code
from jwarp.compiler.cpu import LOCAL_PASSES, lower_kernel, optimized_code
from jwarp.config import Settings


@wp.kernel
def spatial_inertia(inertia: wp.array[wp.mat33], mass: wp.array[float], out: wp.array[wp.spatial_matrix]):
    i = wp.tid()
    m, s = mass[i], inertia[i]
    # fmt: off
    out[i] = wp.spatial_matrix(
        m, 0.0, 0.0, 0.0, 0.0, 0.0,
        0.0, m, 0.0, 0.0, 0.0, 0.0,
        0.0, 0.0, m, 0.0, 0.0, 0.0,
        0.0, 0.0, 0.0, s[0, 0], s[0, 1], s[0, 2],
        0.0, 0.0, 0.0, s[1, 0], s[1, 1], s[1, 2],
        0.0, 0.0, 0.0, s[2, 0], s[2, 1], s[2, 2],
    )
    # fmt: on


@pytest.mark.parametrize("version", ["fast", "checked"])
def test_optimised_code_is_valid(version):
    made = lower_kernel(spatial_inertia.ir(), Settings(cache_dir=""))
    optimized_code(made.generate(version, made.options), made.options).verify()


def test_code_that_a_pass_has_broken_is_made_without_it():
    made = lower_kernel(spatial_inertia.ir(), Settings(cache_dir=""))
    code = made.generate("fast", made.options)
    text = re.sub(r"(%\w+) = freeze ptr (%\w+)", r"\1 = getelementptr i8, ptr \2, i64 0", code.text)
    assert text != code.text
    module = optimized_module(text, made.options.target, LOCAL_PASSES)
    module.verify()
    assert machine_code(module, made.options.target)


@pytest.mark.parametrize("n", [1, 7, 16, 37])
def test_numbers_are_stored(n):
    rng = np.random.default_rng(n)
    inertia, mass = rng.normal(size=(n, 3, 3)).astype(np.float32), rng.normal(size=n).astype(np.float32)
    out, expected = np.full((n, 6, 6), np.nan, np.float32), np.zeros((n, 6, 6), np.float32)
    wp.launch(spatial_inertia, n, [inertia, mass, out])
    expected[:, [0, 1, 2], [0, 1, 2]] = mass[:, None]
    expected[:, 3:, 3:] = inertia
    np.testing.assert_array_equal(out, expected)
