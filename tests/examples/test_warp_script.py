"""The program of Warp's that is an example prints the same under Warp and under jwarp, which has it hit the target."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fresh_python import run_program

ROPE = Path(__file__).resolve().parents[2] / "examples" / "warp_script" / "rope.py"


def misses(output):
    """Distances by which the rope misses, at some iterations, as the program prints them."""
    return [float(x) for x in re.findall(r"misses by ([\d.]+)", output)]


def test_it_is_the_same_under_both_names():
    pytest.importorskip("warp")
    arguments = [str(ROPE), "--steps", "60", "--iterations", "12"]
    ours = misses(run_program(*arguments))
    assert ours[-1] < ours[0] and len(ours) == 3
    warps = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=True).stdout
    assert ours == pytest.approx(misses(warps), abs=2e-3)
