"""The example of gradients through mujoco_warp runs, and both searches find something better."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import mujoco_runs
import pytest

# The process of the example imports these: here they would take 100 MB.
MISSING = [name for name in ("matplotlib", "tqdm", "optax", "mujoco_warp") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mujoco_gradients.py"


@mujoco_runs.long
def test_searches_find_something_better(tmp_path):
    kept = os.path.expanduser("~/.cache/jwarp-simulators")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--quick", "--out", "found.png"],
        env={**os.environ, "JWARP_CACHE_DIR": kept}, cwd=tmp_path, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "found.png").stat().st_size > 10_000
    for line in done.stdout.splitlines()[:2]:
        words = line.split()
        before, after = float(words[words.index("before,") - 1]), float(words[words.index("after") - 1])
        assert after < before
