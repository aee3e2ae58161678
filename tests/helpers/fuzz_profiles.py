"""The profiles of tests: how the long one is asked for, what it tries of seeds and combinations, and the quick one."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

LONG = os.environ.get("JWARP_FUZZ") == "long"
# Of combinations that are taken in turns, all.
ALL = LONG or os.environ.get("JWARP_COMBINATIONS") == "all"
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


needs_all = pytest.mark.skipif(not ALL, reason="JWARP_COMBINATIONS=all runs it, as CI does once")


def quick(*seeds: int) -> list[Any]:
    """Parameters of a test that `-m quick` tries, too."""
    return [pytest.param(seed, marks=pytest.mark.quick) for seed in seeds]


def in_turn(*numbers: int, of: int) -> bool:
    """True for one of so many combinations, those whose numbers add up to a multiple; for all with `ALL`."""
    return ALL or sum(numbers) % of == 0


def some(values: Sequence[Any], of: int) -> list[Any]:
    """Every `of`-th value, from the first one on; all with `ALL`."""
    return list(values[:: 1 if ALL else of])


def each_value(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combinations in which each value of each axis occurs; all combinations with `ALL`."""
    if ALL:
        return list(itertools.product(*axes))
    rng, columns = random.Random(0), []
    for axis in axes:
        column = list(itertools.islice(itertools.cycle(axis), max(map(len, axes))))
        rng.shuffle(column)
        columns.append(column)
    return list(zip(*columns, strict=True))
