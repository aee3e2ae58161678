"""The gradient cases of the suite as they are, on the PTX machine: a few of them, and all with `JWARP_FUZZ=long`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_profiles import LONG
from ptx_everywhere import GRADIENTS

from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")
ROOT = Path(__file__).parents[2]
FEW = ("tests/dispatch/test_eager_adjoints.py::test_on_jax_values[asarray0]",)


@pytest.mark.parametrize("files", GRADIENTS if LONG else ["few"])
def test_gradient_cases(files, tmp_path):
    """In a process of its own, whose launches all go to the machine."""
    names = FEW if files == "few" else (files,)
    options = ("-q", "-x", "-p", "ptx_everywhere", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'own'}")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "JWARP_FUZZ"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *names], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"on the PTX machine: ([1-9]\d* launches|.* and [1-9]\d* runs)", done.stdout), done.stdout
