"""Kernels of warp-lang's own tests and examples, and of mujoco_warp, give in jwarp what they give in Warp.

Nothing of them is kept here but their names, in `agreeing.txt`. Modules of `SAMPLE` are tried in every
run of the tests, all of them with JWARP_CONFORMANCE=all; `python report.py` prints what came of each kernel.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import fuzz_profiles
import pytest
from differences import DIFFERENCES
from libraries import INSTALL, LIBRARIES
from table import verdicts

if importlib.util.find_spec("warp") is None:
    pytest.skip("warp-lang is not installed", allow_module_level=True)

HERE = Path(__file__).parent
SAMPLE = ("tests.test_composite_component_adjoint", "tests.test_conditional")
SAMPLE += ("tests.geometry.test_hash_grid", "tests.test_lvalue") if fuzz_profiles.ALL else ()
LIMIT = 6 * 3600 if os.environ.get("JWARP_CONFORMANCE") == "all" else 900  # by the clock

NAMES = (HERE / "agreeing.txt").read_text().split()


# Modules whose kernels' gradients are compared with differences; `python gradients.py` does that for all.
GRADIENTS = ("tests.test_composite_component_adjoint", "tests.test_overwrite")


# Modules of tests of libraries, whose kernels are tried.
OF_LIBRARIES = {"mujoco_warp": "math_test", "newton": "test_hashtable"}


ALL = os.environ.get("JWARP_CONFORMANCE") == "all"


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """The verdict on each kernel that is tried, by its name."""
    options = ["--steps", "launch"]
    if ALL or fuzz_profiles.ALL:
        for library in LIBRARIES:
            options += ["--library", library.package] if library.installed else []
    if ALL:
        options += ["--library", "warp"]
    else:
        options += ["--tests", "|".join(OF_LIBRARIES.values()), *(f"warp.{name}" for name in SAMPLE)]
    return verdicts(rows_of("report.py", options, tmp_path_factory.mktemp("conformance")))


def rows_of(script, options, folder):
    """The rows that a script of this folder prints for each launch, run with `options`."""
    command = [sys.executable, str(HERE / script), "--rows", str(folder / "rows.jsonl"), *options]
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TMPDIR": str(folder), "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    environment["JWARP_CPU_LEVEL"] = ""  # code as users have it
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [row for row in rows if row["step"] != "job"]


def test_kernels_that_agreed_still_agree(tried):
    wanted = [n for n in NAMES if ALL or n.split(":")[0] in SAMPLE]
    assert len(wanted) >= 60
    lost = {n: tried.get(n, {"verdict": "not found"}) for n in wanted}
    lost = {n: f"{row['verdict']}: {row.get('reason', '')}" for n, row in lost.items() if row["verdict"] != "agree"}
    assert not lost


def test_every_difference_is_known(tried):
    different = {n: row["reason"] for n, row in tried.items() if row["verdict"] in ("disagree", "fault")}
    assert {n: r for n, r in different.items() if n not in DIFFERENCES} == {}


@pytest.mark.skipif(not (ALL or fuzz_profiles.ALL), reason="JWARP_COMBINATIONS=all tries them")
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_kernels_of_libraries_agree(library, tried):
    if not library.installed:
        pytest.skip(f"{library.package} is not installed: {INSTALL}")
    own = [row for row in tried.values() if row["library"] == library.name]
    assert sum(row["verdict"] == "agree" for row in own) >= 3


@fuzz_profiles.needs_all
def test_gradients_are_those_of_differences(tmp_path):
    rows = rows_of("gradients.py", [] if ALL else [f"warp.{name}" for name in GRADIENTS], tmp_path)
    assert [row for row in rows if row["verdict"] in ("wrong", "fault")] == []
    assert len({row["name"] for row in rows if row["verdict"] == "agree"}) >= 35


def test_the_lists_hold_what_they_promise():
    assert len(NAMES) == len(set(NAMES)) >= 300
    assert sorted(NAMES) == NAMES
    assert not set(NAMES) & set(DIFFERENCES)
