"""The beam of the finite element example becomes stiffer, and keeps its volume of material."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_profiles import needs_all

warp = pytest.importorskip("warp")
pytest.importorskip("matplotlib")
if warp.config.version != "1.19.0":
    pytest.skip("jwarp runs the Python of Warp 1.19", allow_module_level=True)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cantilever.py"


@needs_all
def test_the_beam_becomes_stiffer(tmp_path):
    """In a process of its own, as the example puts jwarp in Warp's place."""
    out = tmp_path / "beam.png"
    command = [sys.executable, str(EXAMPLE), "--quick", "--out", str(out)]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    before, after, material = map(float, re.search(r"compliance (\S+) -> (\S+) with (\d+)% of", done.stdout).groups())
    assert 0.0 < after < 0.5 * before and material == 50.0
    assert out.stat().st_size > 10_000
