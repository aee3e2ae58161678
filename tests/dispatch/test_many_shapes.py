"""Launches with shape after shape keep a bounded number of things, and the process does not grow."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jwarp import caches

BOUND = 8
SOAK_SHAPES = int(os.environ.get("JWARP_SOAK_SHAPES", "0"))


def test_no_cache_grows_beyond_its_bound(monkeypatch):
    """In every way to launch, with bounds that few shapes reach."""
    from shapes_soak import soaked, ways

    small = {per.name for per in caches.owned if per.bound == caches.MAX_SHAPES}
    for per in caches.owned:
        if per.name in small:
            monkeypatch.setattr(per, "bound", BOUND)
    for n in range(1, 3 * BOUND):
        ways(n)
    # Caches are made with the first entry; those of other tests have the usual bound.
    usages = [usage for usage in caches.report() if isinstance(usage.bound, int)]
    assert all(usage.entries <= usage.count * usage.bound for usage in usages)
    own = vars(soaked)["repeated launches of a kernel"], vars(soaked)["jitted launches of a kernel"]
    assert all(BOUND // 2 < len(cache) <= BOUND for cache in own)
    assert {"launches of a program", "races of a program"} <= small


@pytest.mark.skipif(not SOAK_SHAPES, reason="JWARP_SOAK_SHAPES says how many shapes")
def test_memory_stays_flat():
    """JWARP_SOAK_SHAPES=10000 takes about a quarter of an hour."""
    script = Path(__file__).parents[1] / "helpers" / "shapes_soak.py"
    done = subprocess.run([sys.executable, str(script), str(SOAK_SHAPES)], capture_output=True, text=True, check=True)
    half, end, *bounds = done.stdout.splitlines()
    print(done.stdout)
    assert float(end) < 1.05 * float(half) + 20
    for line in bounds:
        entries, count, bound = map(int, re.findall(r"\d+", line.rpartition(":")[2]))
        assert entries <= count * bound, line
