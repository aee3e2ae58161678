"""Unit tests of an installed warp-lang run as programs in jwarp, and pass but for those on a list.

A sample runs in every run of the tests, all with JWARP_CONFORMANCE=all; `warp_tests.py` has the rest.
"""

import importlib.util
import os
import random

import fuzz_profiles
import pytest
import warp_tests
from one_suite import PACKAGE
from warp_test_reasons import OF_WARP, OTHER, REASONS, reason_of
from warp_tests import Outcome

MODULES, TESTS = (10, 40) if fuzz_profiles.ALL else (4, 20)  # of the sample
SEED = int(os.environ.get("JWARP_FUZZ_SEED", "33"))
ALL = os.environ.get("JWARP_CONFORMANCE") == "all"

needs_warp = pytest.mark.skipif(importlib.util.find_spec("warp") is None, reason="warp-lang is not installed")


@needs_warp
def test_a_sample_of_warps_tests_passes(tmp_path):
    seeded = random.Random(SEED)
    chosen = seeded.sample(warp_tests.copy_tests(tmp_path), MODULES)
    listed = {t for tests in warp_tests.read_list().values() for t in tests}
    passing = {
        m: [t for t in tests if t not in listed] for m, tests in warp_tests.tests_by_module(tmp_path, chosen).items()
    }
    everything = [(m, t) for m, tests in passing.items() for t in tests]
    sample = seeded.sample(everything, min(TESTS, len(everything)))
    wanted = {m: [t for owner, t in sample if owner == m] for m in dict(sample)}
    outcomes = warp_tests.run_tests(tmp_path, wanted)
    assert len(outcomes) == len(sample) > 0
    assert warp_tests.faults(outcomes, {}) == []


@needs_warp
@pytest.mark.skipif(not ALL, reason="takes a quarter of an hour: JWARP_CONFORMANCE=all")
def test_all_that_passed_pass_still_and_no_others(tmp_path):
    listed = warp_tests.read_list()
    everything = warp_tests.tests_by_module(tmp_path, warp_tests.copy_tests(tmp_path))
    in_warp = {m: [t for t in tests if t not in listed[OF_WARP]] for m, tests in everything.items()}
    outcomes = warp_tests.run_modules(tmp_path, {m: tests for m, tests in in_warp.items() if tests}, "jwarp", 2)
    assert sum(map(len, everything.values())) == warp_tests.total_on_page()
    assert warp_tests.faults(outcomes, listed) == []


PROGRAM = """
import os, unittest

class Some(unittest.TestCase):
    def test_right(self): pass
    def test_wrong(self): self.assertEqual(1, 2, "one\\ntwo")
    def test_raises(self): raise KeyError("k")
    def test_skipped(self): self.skipTest("why")
    def test_subtest(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    @unittest.expectedFailure
    def test_unexpected(self): pass
    def test_ends_the_process(self): os.abort()
    def test_zz_after_it(self): pass
"""


def test_outcomes_are_those_of_the_tests(tmp_path):
    package = tmp_path / PACKAGE
    package.mkdir()
    (package / "unittest_utils.py").write_text("run_python_subprocess = None")
    (package / "test_some.py").write_text(PROGRAM)
    (package / "test_none.py").write_text("import no_such_module")
    (package / "test_dead.py").write_text("import os; os.abort()")
    names = ("right", "wrong", "raises", "skipped", "subtest", "expected", "unexpected")
    names = (*names, "ends_the_process", "zz_after_it", "renamed")
    tests = [f"test_some.Some.test_{name}" for name in names]
    wanted = {"test_dead": ["test_dead.A.test_a"], "test_some": tests, "test_none": ["test_none.A.test_a"]}
    found = warp_tests.run_tests(tmp_path, wanted)
    assert {t.rpartition("test_")[2] if "Some" in t else t: o.state for t, o in found.items()} == {
        "test_dead.A.test_a": "crash",
        "right": "pass",
        "wrong": "fail",
        "raises": "error",
        "skipped": "skip",
        "subtest": "fail",
        "expected": "pass",
        "unexpected": "fail",
        "ends_the_process": "crash",
        "zz_after_it": "pass",
        "renamed": "missing",
        "test_none.A.test_a": "not imported",
    }
    assert "No module named 'no_such_module'" in found["test_none.A.test_a"].message


def test_a_test_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(warp_tests, "PER_TEST", 2)
    package = tmp_path / PACKAGE
    package.mkdir()
    (package / "unittest_utils.py").write_text("run_python_subprocess = None")
    program = "import time, unittest\nclass Some(unittest.TestCase):\n    def test_a(self): time.sleep(1000)\n"
    (package / "test_some.py").write_text(program)
    found = warp_tests.run_tests(tmp_path, {"test_some": ["test_some.Some.test_a"]}, under="warp")
    assert found == {"test_some.Some.test_a": Outcome("timeout")}


def test_a_list_is_a_ratchet(tmp_path):
    listed = {OF_WARP: {"m.A.x"}, OTHER: {"m.A.a", "m.A.b", "m.B.c"}}
    warp_tests.write_list(listed, tmp_path / "list.txt")
    assert warp_tests.read_list(tmp_path / "list.txt") == listed
    as_listed = {"m.A.a": Outcome("fail"), "m.A.b": Outcome("error", "e"), "m.B.d": Outcome("pass")}
    assert warp_tests.faults(as_listed, listed) == []
    assert warp_tests.updated(as_listed, listed) == listed
    gained = {**as_listed, "m.A.a": Outcome("pass")}
    (sentence,) = warp_tests.faults(gained, listed)
    assert sentence.startswith("m.A.a passes now")
    assert warp_tests.updated(gained, listed)[OTHER] == {"m.A.b", "m.B.c"}
    (sentence,) = warp_tests.faults({"m.B.d": Outcome("skip", "why\nelse")}, listed)
    assert sentence == "m.B.d passed before: skip: why"
    (sentence,) = warp_tests.faults({"m.A.a": Outcome("crash")}, listed)  # though it is listed
    assert "crash" in sentence
    assert "m.A.a" not in warp_tests.updated({"m.A.a": Outcome("crash")}, listed)[OTHER]


def test_the_page_has_the_counts_of_the_list():
    listed = warp_tests.read_list()
    tests = [t for tests in listed.values() for t in tests]
    assert len(tests) == len(set(tests))
    names = [reason.name for reason in REASONS]
    assert len(names) == len(set(names))
    assert set(listed) <= {OF_WARP, OTHER, *names}
    assert warp_tests.table(listed, warp_tests.total_on_page()) in warp_tests.PAGE.read_text()


def test_the_first_pattern_that_fits_gives_the_reason():
    assert reason_of("fem.test_x.A.b", "not imported", "ImportError: warp.fem") == "finite elements"
    assert reason_of("test_x.A.b", "fail", "AssertionError: 3 != 4") == "other results"
    assert reason_of("test_x.A.b", "error", "IndexError: 3") == OTHER
