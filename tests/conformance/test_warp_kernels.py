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

import pytest
from differences import DIFFERENCES
from libraries import INSTALL, LIBRARIES
from table import verdicts

if importlib.util.find_spec("warp") is None:
    pytest.skip("warp-lang is not installed", allow_module_level=True)

HERE = Path(__file__).parent
SAMPLE = (
    "tests.test_codegen_continue",
    "tests.test_composite_component_adjoint",
    "tests.test_conditional",
    "tests.test_launch",
    "tests.test_lvalue",
    "tests.test_overwrite",
    "tests.test_static",
    "tests.test_vec_constructors",
)
LIMIT = 3000 if os.environ.get("JWARP_CONFORMANCE") == "all" else 300

NAMES = (HERE / "agreeing.txt").read_text().split()


# Modules whose kernels' gradients are compared with differences; `python gradients.py` does that for all.
GRADIENTS = (
    "examples.core.example_fluid",
    "tests.test_composite_component_adjoint",
    "tests.test_overwrite",
    "tests.test_struct",
)


# Modules of tests of libraries, whose kernels are tried.
OF_LIBRARIES = {"mujoco_warp": "math_test", "newton": "test_hashtable"}


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """The verdict on each kernel of the modules that are tried, by the kernel's name."""
    return verdicts(rows_of("report.py", SAMPLE, tmp_path_factory.mktemp("conformance")))


def rows_of(script, names, folder):
    """What a script of this folder says of each launch of the modules `names`, or of all modules."""
    modules = [] if os.environ.get("JWARP_CONFORMANCE") == "all" else [f"warp.{name}" for name in names]
    return rows_with(script, modules, folder)


def rows_with(script, options, folder):
    """What a script of this folder says of each launch, run with `options`."""
    command = [sys.executable, str(HERE / script), "--rows", str(folder / "rows.json"), *options]
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TMPDIR": str(folder), "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "rows.json").read_text())


def test_kernels_that_agreed_still_agree(tried):
    wanted = [n for n in NAMES if os.environ.get("JWARP_CONFORMANCE") == "all" or n.split(":")[0] in SAMPLE]
    assert len(wanted) >= 60
    lost = {n: tried.get(n, {"verdict": "not found"}) for n in wanted}
    lost = {n: f"{row['verdict']}: {row.get('reason', '')}" for n, row in lost.items() if row["verdict"] != "agree"}
    assert not lost


def test_every_difference_is_known(tried):
    different = {n: row["reason"] for n, row in tried.items() if row["verdict"] in ("disagree", "fault")}
    assert {n: r for n, r in different.items() if n not in DIFFERENCES} == {}


def test_gradients_are_those_of_differences(tmp_path):
    rows = rows_of("gradients.py", GRADIENTS, tmp_path)
    assert [row for row in rows if row["verdict"] in ("wrong", "fault")] == []
    assert len({row["name"] for row in rows if row["verdict"] == "agree"}) >= 35


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_kernels_of_libraries_agree(library, tmp_path):
    if not library.installed:
        pytest.skip(f"{library.package} is not installed: {INSTALL}")
    part = [] if os.environ.get("JWARP_CONFORMANCE") == "all" else ["--tests", OF_LIBRARIES[library.package]]
    rows = rows_with("report.py", ["--library", library.package, *part], tmp_path)
    best = verdicts(rows)
    different = {n: row["reason"] for n, row in best.items() if row["verdict"] in ("disagree", "fault")}
    assert {n: r for n, r in different.items() if n not in DIFFERENCES} == {}
    assert sum(row["verdict"] == "agree" for row in best.values()) >= 3


def test_the_lists_hold_what_they_promise():
    assert len(NAMES) == len(set(NAMES)) >= 300
    assert sorted(NAMES) == NAMES
    assert not set(NAMES) & set(DIFFERENCES)
