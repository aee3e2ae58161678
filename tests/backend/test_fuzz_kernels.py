"""Random kernels: compiled code, the interpreter and Python itself, thread by thread, agree in every bit.

`JWARP_FUZZ=long` tries many more kernels, other ones each time; JWARP_FUZZ_SECONDS says for how long.
"""

from __future__ import annotations

import random
import time

import pytest
from fuzz_profiles import ALL, LONG, SECONDS, first_seed, quick
from kernel_sources import Writer
from random_kernel_checks import check

GROUPS, GROUP_SIZE = 6, 12


@pytest.mark.skipif(LONG, reason="the long profile runs instead")
@pytest.mark.parametrize("group", [*quick(0, 1, 2), *range(3, GROUPS if ALL else 3)])
def test_random_kernels(tmp_path, group):
    for seed in range(group * GROUP_SIZE, (group + 1) * GROUP_SIZE):
        rng = random.Random(seed)
        check(Writer(rng).kernel(), tmp_path, rng)


@pytest.mark.skipif(not LONG, reason="JWARP_FUZZ=long is not set")
def test_many_random_kernels(tmp_path):
    end, tried, failures = time.monotonic() + SECONDS, 0, []
    start = first_seed()
    while time.monotonic() < end and len(failures) < 20:
        rng = random.Random(start + tried)
        print("seed", start + tried, flush=True)  # the last one tells which kernel ended the process
        try:
            check(Writer(rng).kernel(), tmp_path, rng)
        except Exception as error:
            failures.append(f"seed {start + tried}: {type(error).__name__}: {error}")
        tried += 1
    print(f"{tried} kernels, {len(failures)} failures")
    assert not failures, "\n\n".join(failures)
