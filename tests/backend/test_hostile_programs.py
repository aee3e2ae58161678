"""A program that comes with a custom call is refused, or runs inside its arrays, whatever was done to its bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from compiled_variants import whole_launch
from guard_pages import Fenced
from hostile_programs import gather
from hypothesis import given, settings
from hypothesis import strategies as st

from jwarp import _native
from jwarp.compiler.cpu import CpuKernel, compile_program
from jwarp.compiler.program import program_of
from jwarp.config import Settings, config

HELPERS = Path(__file__).parents[1] / "helpers"
PROGRAMS = int(os.environ.get("JWARP_HOSTILE_PROGRAMS", "200"))


def test_damaged_programs_stay_inside_their_arrays():
    """Programs that survive their damage are compiled, claims of `unchecked` included, and run next to fences."""
    environment = os.environ | {"JWARP_CACHE_DIR": ""}
    first, slow, ran = 0, 0, 0
    while first < PROGRAMS:
        command = [sys.executable, str(HELPERS / "hostile_programs.py"), str(first), str(PROGRAMS)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        *numbers, last = done.stdout.splitlines()
        if done.returncode == 0:
            ran += int(last.split()[1])
            break
        # Damage may make a loop of any length, which is no fault.
        assert done.returncode == -signal.SIGVTALRM, f"program {last} ended with {done.returncode}:\n{done.stderr}"
        slow, ran, first = slow + 1, ran + len(numbers), int(last) + 1
    assert slow < 5 + PROGRAMS // 20 and ran > PROGRAMS // 5


@pytest.fixture(scope="module")
def program() -> CpuKernel:
    return CpuKernel(program_of(gather, config.settings).kernel, Settings(cache_dir=""))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_refused_by_name(program, data):
    """Bytes changed, cut off or added: the fingerprint no longer fits, if anything can be read at all."""
    good = program.program
    at = data.draw(st.integers(0, len(good) - 1))
    cut = data.draw(st.integers(0, 20))
    damaged = good[:at] + data.draw(st.binary(max_size=20)) + good[at + cut :]
    if damaged == good:
        return
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="damaged|version|fingerprint|not kernel data"):
            compile_program("0" * 32, damaged, "fast")
        assert tracemalloc.get_traced_memory()[1] < 256 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        json.dumps({"format": 1}).encode(),
        json.dumps({"format": 99, "bounds": "safe", "debug": False, "fast_math": False}).encode(),
        json.dumps({"format": 1, "bounds": "none", "debug": False, "fast_math": False}).encode(),
        json.dumps({"format": 1, "bounds": ["safe"], "debug": False, "fast_math": False}).encode(),
        json.dumps({"format": 1, "bounds": "safe", "debug": 1, "fast_math": False}).encode(),
    ],
)
def test_a_wrong_header_is_refused_by_name(program, header):
    body = program.program.partition(b"\n")[2]
    for text in (header + b"\n" + body, header):
        with pytest.raises(ValueError, match="the program of a launch is damaged, or of another version"):
            compile_program("0" * 32, text, "fast")


def test_a_program_cannot_waive_the_checks_of_the_process_that_loads_it(tmp_path):
    """Lowered unchecked, it is tested where it is loaded; compiled code on disk keeps the two apart."""
    kernel = program_of(gather, config.settings).kernel
    waived = CpuKernel(kernel, Settings(cache_dir=str(tmp_path), bounds="unchecked"))
    waived.object_code("fast")
    with config(cache_dir=str(tmp_path)):
        for version in ("fast", "checked"):
            compile_program(waived.fingerprint, waived.program, version)
    x, at = np.ones(4, np.float32), np.array([0, 3, 2**31 - 1, -(2**31)], np.int32)
    arrays = [x, at, np.array(0, np.int32), np.zeros(4, np.float32), np.zeros(4, np.float32)]
    fenced = [Fenced(a, at_end=True).array for a in arrays]
    _native.run_launch(waived.fingerprint, whole_launch(waived.kernel, (4,)), fenced, 1)
    np.testing.assert_array_equal(fenced[4], [3.0, 3.0, 2.0, 1.0])
