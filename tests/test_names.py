"""Names that are to come say so, and stay absent to `hasattr`."""

from __future__ import annotations

import pytest

import jwarp as wp
from jwarp.frontend.builtins.planned import PLANNED


@pytest.mark.parametrize("name", sorted(PLANNED))
def test_a_name_to_come(name):
    assert not hasattr(wp, name)
    with pytest.raises(AttributeError, match=f"wp.{name}: .* not available yet"):
        getattr(wp, name)


def test_a_name_that_never_was():
    with pytest.raises(AttributeError, match="module 'jwarp' has no attribute 'sinn'"):
        _ = wp.sinn


def test_a_name_to_come_in_a_kernel():
    @wp.kernel
    def k(y: wp.array[float]):
        y[0] = wp.randf(wp.uint32(3))

    with pytest.raises(wp.CompileError, match=r"wp\.randf: random numbers and noise are not available yet"):
        wp.launch(k, 1, [], [1])


def test_in_out_argnames_that_are_no_names():
    @wp.kernel
    def k(y: wp.array[float]):
        y[0] = 1.0

    with pytest.raises(wp.LaunchError, match="in_out_argnames must be a sequence of names, got 3"):
        wp.jax_kernel(k, in_out_argnames=3)
