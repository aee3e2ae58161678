"""The program of Warp's that is an example prints the same under Warp and under jwarp, which has it hit the target."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROPE = Path(__file__).resolve().parents[2] / "examples" / "warp_script" / "rope.py"


def misses(*command):
    """The program's output: the distance by which the rope misses, at some iterations."""
    environment = os.environ | {"PYTHONPATH": str(ROPE.parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return [float(x) for x in re.findall(r"misses by ([\d.]+)", done.stdout)]


def test_it_is_the_same_under_both_names():
    pytest.importorskip("warp")
    arguments = [str(ROPE), "--steps", "60", "--iterations", "12"]
    ours = misses(sys.executable, "-m", "jwarp", "run", *arguments)
    assert ours[-1] < ours[0] and len(ours) == 3
    assert ours == pytest.approx(misses(sys.executable, *arguments), abs=2e-3)
