"""Code of one thread to a vector: it has no registers for masks, and computes the same."""

import re

import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.cpu.target import host_target

pytestmark = pytest.mark.quick


@wp.kernel
def waits(x: wp.array[float], turn: wp.array[int], y: wp.array[float]):
    """Threads that wait for one another run one after the other."""
    i = wp.tid()
    while wp.atomic_add(turn, 0, 0) < i:
        pass
    before = wp.float32(0.0)
    if i > 0:
        before = y[i - 1]
    if x[i] > 0.5 and x[i] < 0.9:
        before += x[i] * x[i]
    y[i] = before
    wp.atomic_add(turn, 0, 1)


def test_one_thread_has_flags_instead_of_masks():
    text = wp.inspect(waits, "asm")
    assert "y[i] = before" in text and not re.search(r"%k[0-7]\b|%zmm", text)


def test_other_features_stay():
    one, many = (set(host_target(width).features.split(",")) for width in (1, 16))
    assert {name for name in one ^ many if "avx512" not in name} == set()
    assert not any(name.startswith("+avx512") for name in one)


def test_results_are_those_of_the_sum():
    x = np.random.default_rng(0).random(700).astype(np.float32)
    y, turn = np.zeros_like(x), np.zeros(1, np.int32)
    wp.launch(waits, 700, [x], [turn, y])
    np.testing.assert_allclose(y, np.cumsum(np.where((x > 0.5) & (x < 0.9), x.astype(float) ** 2, 0.0)), rtol=1e-5)
    assert turn[0] == 700
