"""The profiles of fuzzers: how the long one is asked for, how it goes through seeds, and the quick one."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

LONG = os.environ.get("JWARP_FUZZ") == "long"
SECONDS = float(os.environ.get("JWARP_FUZZ_SECONDS", "600"))
FIRST = os.environ.get("JWARP_FUZZ_SEED")


def first_seed() -> int:
    """Where a long profile begins: JWARP_FUZZ_SEED, else anywhere."""
    return random.SystemRandom().randrange(1 << 32) if FIRST is None else int(FIRST)


def check_seeds(check: Callable[[int], object]) -> None:
    """Check one seed after the other, from the first one on, as long as the profile says."""
    first, end, count = first_seed(), time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        try:
            check(first + count)
        except Exception as error:
            raise AssertionError(f"seed {first + count}") from error
        count += 1
    print(f"{count} kernels from seed {first}")


def quick(*seeds: int) -> list[Any]:
    """Parameters of a test that `-m quick` tries, too."""
    return [pytest.param(seed, marks=pytest.mark.quick) for seed in seeds]
