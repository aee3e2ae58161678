"""Random kernels as in `test_fuzz_kernels`, drawn by hypothesis, which reduces one that fails."""

from __future__ import annotations

import random

from fuzz_profiles import ALL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_sources import Writer
from random_kernel_checks import check


@settings(
    max_examples=40 if ALL else 20,
    derandomize=True,  # a failure is the same for everyone
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(st.randoms(use_true_random=False))
def test_drawn_kernels(tmp_path_factory: object, rng: random.Random) -> None:
    check(Writer(rng).kernel(), tmp_path_factory.mktemp("drawn"), rng)  # type: ignore[attr-defined]
