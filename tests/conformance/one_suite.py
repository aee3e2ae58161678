"""Runs unit tests of modules in this process, and writes a line of JSON at the begin and at the end of each.

python -m jwarp run one_suite.py JOB RESULTS    # JOB: JSON of {module: [ids of tests]}; without jwarp: in Warp
python one_suite.py --list JOB RESULTS          # only writes the ids of all tests of the modules
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
import unittest
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TextIO

PACKAGE = "unittests_of_warp"  # the copy of warp.tests
MOST = 1500  # characters of a message


class Outcomes(unittest.TestResult):
    """Writes what came of each test; of a test with several faults, the last one."""

    def __init__(self, file: TextIO):
        super().__init__()
        self.file = file
        self.outcome = {"state": "pass"}

    def write(self, test: str, **outcome: Any) -> None:
        self.file.write(json.dumps({"test": test, **outcome}) + "\n")

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.outcome = {"state": "pass"}
        self.write(test.id(), state="begun")

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.write(test.id(), **self.outcome)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self.outcome = {"state": "fail", **described(err[1])}

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self.outcome = {"state": "error", **described(err[1])}

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.outcome = {"state": "skip", "message": reason}

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self.outcome = {"state": "fail", "message": "unexpected success"}

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            state = "fail" if issubclass(err[0], test.failureException) else "error"
            self.outcome = {"state": state, **described(err[1])}


def described(error: BaseException) -> dict[str, str]:
    text = "".join(traceback.format_exception(error))
    return {"message": f"{type(error).__name__}: {error}"[:MOST], "traceback": text[-2 * MOST :]}


def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def tests_of(name: str, result: Outcomes) -> list[unittest.TestCase]:
    """The tests of a module; none, and a line that says why, if it can't be imported."""
    result.write(name, state="begun")
    try:
        module = importlib.import_module(name)
    except unittest.SkipTest as error:
        result.write(name, state="skip", message=str(error))
    except BaseException as error:
        result.write(name, state="not imported", **described(error))
    else:
        result.write(name, state="imported")
        return list(flat(unittest.defaultTestLoader.loadTestsFromModule(module)))
    return []


def let_programs_be_of_jwarp(helpers: ModuleType) -> None:
    """Let the programs that tests start have jwarp in Warp's place, too."""
    start = helpers.run_python_subprocess
    helpers.run_python_subprocess = lambda source, *a, **k: start(f"import jwarp.as_warp\n{source}", *a, **k)


def main(job: str, results: str) -> None:
    import warp

    if "jwarp" in sys.modules:
        let_programs_be_of_jwarp(importlib.import_module(f"{PACKAGE}.unittest_utils"))
    else:
        warp.config.optimization_level = 0
    with open(job) as file:
        wanted = json.load(file)
    with open(results, "a", buffering=1) as file:
        result = Outcomes(file)
        for module, names in wanted.items():
            chosen = set(names)
            unittest.TestSuite([t for t in tests_of(module, result) if t.id() in chosen]).run(result)
        result.write("", state="done")
    sys.stdout.flush()
    os._exit(0)  # a thread or a device that a test has left behind holds nothing up


def list_tests(job: str, results: str) -> None:
    with open(job) as file:
        wanted = json.load(file)
    with open(results, "w") as file, open(os.devnull, "w") as nowhere:
        json.dump({m: [t.id() for t in tests_of(m, Outcomes(nowhere))] for m in wanted}, file)


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        list_tests(*sys.argv[2:])
    else:
        arguments = sys.argv[1:]
        del sys.argv[1:]  # tests look at them
        main(*arguments)
