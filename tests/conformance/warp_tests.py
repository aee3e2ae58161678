"""Runs the unit tests of an installed warp-lang as programs, and compares with the list of those that do not pass.

    python tests/conformance/warp_tests.py                # all, about 15 minutes; ends with 1 where the list is wrong
    python tests/conformance/warp_tests.py --only tile -v # modules whose name has this; each fault with its message
    python tests/conformance/warp_tests.py --update       # takes those that pass now off the list, writes the table
    python tests/conformance/warp_tests.py --under warp --update  # anew, which of them pass in Warp itself

The tests stay where they are: a copy under another name runs, as jwarp gives no `warp.tests`. `warp_tests.txt` has
nothing of them but names, under the reasons of `warp_test_reasons.py`.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from one_suite import PACKAGE
from warp_test_reasons import ENDED, OF_WARP, OTHER, REASONS, reason_of

HERE = Path(__file__).parent
LIST = HERE / "warp_tests.txt"
PAGE = HERE.parents[1] / "docs" / "warp_tests.md"
BEGIN, END = "<!-- table -->", "<!-- end of the table -->"

# Modules that need a GPU from their first line on, another framework, or a window, or that run examples.
APART = re.compile(r"cuda\.|interop\.test_(torch|paddle)|test_(render_opengl|examples)$|fem\.test_fem_examples$")
PER_TEST, PER_MODULE = 300, 1200  # seconds by the clock, of a machine with other things to do

Listed = dict[str, set[str]]  # names of tests that do not pass, by the reason


@dataclass(frozen=True)
class Outcome:
    """The end of a test: pass, fail, error, skip, not imported, missing, crash or timeout."""

    state: str
    message: str = ""

    def __str__(self) -> str:
        lines = self.message.splitlines()
        return f"{self.state}: {lines[0]}" if lines else self.state

    @property
    def passed(self) -> bool:
        return self.state == "pass"


def read_list(path: Path = LIST) -> Listed:
    """The list: a reason in brackets, and below it a line for each class with the names of its tests."""
    found: Listed = {}
    for line in path.read_text().splitlines():
        if line.startswith("["):
            reason = line[1:-1]
            found[reason] = set()
        elif line:
            owner, _, names = line.partition(": ")
            found[reason] |= {f"{owner}.{name}" for name in names.split()}
    return found


def write_list(listed: Listed, path: Path = LIST) -> None:
    lines = []
    for reason in (OF_WARP, *(r.name for r in REASONS), OTHER):
        classes: dict[str, list[str]] = {}
        for test in sorted(listed.get(reason, ())):
            owner, _, name = test.rpartition(".")
            classes.setdefault(owner, []).append(name)
        if classes:
            lines += [f"[{reason}]", *(f"{owner}: {' '.join(names)}" for owner, names in classes.items()), ""]
    path.write_text("\n".join(lines))


def copy_tests(folder: Path) -> list[str]:
    """A copy of Warp's tests, which may be imported there; the names of its modules without the package."""
    specification = importlib.util.find_spec("warp")
    assert specification is not None and specification.origin is not None
    copy = folder / PACKAGE
    shutil.copytree(Path(specification.origin).parent / "tests", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in copy.rglob("*.py"):
        path.write_text(re.sub(r"\bwarp\.tests\b", PACKAGE, path.read_text(encoding="utf-8")), encoding="utf-8")
    names = [".".join(p.relative_to(copy).with_suffix("").parts) for p in copy.rglob("test_*.py")]
    return sorted(n for n in names if not APART.match(n))


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    own = {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "JWARP_CPU_LEVEL": ""}
    return {**os.environ, **own}


def full(name: str) -> str:
    return f"{PACKAGE}.{name}"


def tests_by_module(folder: Path, modules: Iterable[str]) -> dict[str, list[str]]:
    """The names of the tests that these modules have in Warp on a machine without a GPU, also those that fail there."""
    job, results = folder / "list.json", folder / "listed.json"
    job.write_text(json.dumps({full(m): [] for m in modules}))
    command = [sys.executable, str(HERE / "one_suite.py"), "--list", str(job), str(results)]
    subprocess.run(command, cwd=folder, env=environment(folder), check=True, capture_output=True, timeout=PER_MODULE)
    found = json.loads(results.read_text())
    return {m.partition(".")[2]: [t.partition(".")[2] for t in tests] for m, tests in found.items()}


def run_tests(folder: Path, wanted: dict[str, list[str]], under: str = "jwarp") -> dict[str, Outcome]:
    """The outcome of each of these tests of some modules, in a process; where that ends early, in one more."""
    found: dict[str, Outcome] = {}
    place = Path(tempfile.mkdtemp(dir=folder))
    until = time.monotonic() + PER_MODULE
    while True:
        left = {full(m): [full(t) for t in tests if t not in found] for m, tests in wanted.items()}
        late = _run_once(folder, place, {m: tests for m, tests in left.items() if tests}, under, until)
        begun = ""
        for event in _events(place / "results.jsonl"):
            name = event["test"].partition(".")[2]
            begun = name if event["state"] == "begun" else ""
            if name and event["state"] not in ("begun", "imported"):  # a test, or all of a module
                found |= dict.fromkeys(wanted.get(name, [name]), Outcome(event["state"], event.get("message", "")))
        if not begun:
            break
        found |= dict.fromkeys(wanted.get(begun, [begun]), Outcome("timeout" if late else "crash"))
    rest = Outcome("timeout" if late else "missing")
    return {t: found.get(t, rest) for tests in wanted.values() for t in tests}


def _run_once(folder: Path, place: Path, wanted: dict[str, list[str]], under: str, until: float) -> bool:
    """Run tests until they end, or one takes too long: the result says that."""
    job, results = place / "job.json", place / "results.jsonl"
    job.write_text(json.dumps(wanted))
    results.write_text("")
    program = [str(HERE / "one_suite.py"), str(job), str(results)]
    command = [sys.executable, *(["-m", "jwarp", "run"] if under == "jwarp" else []), *program]
    with open(place / "output.txt", "wb") as output:
        process = subprocess.Popen(
            command, cwd=place, env=environment(folder), stdout=output, stderr=output, start_new_session=True
        )
        while process.poll() is None:
            time.sleep(0.05)
            if time.monotonic() > until or time.time() - results.stat().st_mtime > PER_TEST:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return True
    if not _events(results):
        raise RuntimeError((place / "output.txt").read_text(errors="replace")[-2000:])
    return False


def _events(path: Path) -> list[dict]:
    lines = path.read_text().split("\n")
    return [json.loads(line) for line in lines[:-1]]  # the last one is empty, or not whole


def faults(outcomes: dict[str, Outcome], listed: Listed) -> list[str]:
    """Sentences on outcomes that are not those of the list; on crashes also of tests that are listed."""
    known = {t for tests in listed.values() for t in tests}
    lost = [t for t, o in outcomes.items() if not o.passed and (t not in known or o.state in ENDED)]
    gained = [t for t, o in outcomes.items() if o.passed and t in known]
    return [
        *(f"{t} passed before: {outcomes[t]}" for t in sorted(lost)),
        *(f"{t} passes now: take it off the list by `warp_tests.py --update`" for t in sorted(gained)),
    ]


def updated(outcomes: dict[str, Outcome], listed: Listed) -> Listed:
    """The list with these outcomes. A crash stays off it, as one that is never right."""
    kept = {reason: {t for t in tests if t not in outcomes} for reason, tests in listed.items()}
    for test, outcome in outcomes.items():
        if not outcome.passed and outcome.state not in ENDED:
            kept.setdefault(reason_of(test, outcome.state, outcome.message), set()).add(test)
    return kept


def table(listed: Listed, total: int) -> str:
    """The table of the documentation: of `total` tests in all, how many there are of each reason."""
    in_warp = total - len(listed.get(OF_WARP, ()))
    failing = {r: tests for r, tests in listed.items() if r != OF_WARP and tests}
    passing = in_warp - sum(map(len, failing.values()))
    lines = [
        f"Of the {total} unit tests that Warp 1.19 has on a machine without a GPU, {in_warp} pass in Warp itself. Of",
        f"these, **{passing} pass in jwarp** ({passing / in_warp:.1%}).",
        "",
        "| not passing | tests | why |",
        "|---|---:|---|",
    ]
    for reason in REASONS:
        if reason.name in failing:
            lines.append(f"| {reason.name} | {len(failing[reason.name])} | {reason.why} |")
    if failing.get(OTHER):
        lines.append(f"| {OTHER} | {len(failing[OTHER])} | single tests that were not analysed |")
    return "\n".join([BEGIN, *lines, END])


def write_table(listed: Listed, total: int) -> None:
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(BEGIN)] + table(listed, total) + text[text.index(END) + len(END) :])


def total_on_page() -> int:
    """The number of all tests, as the page has it."""
    found = re.search(r"Of the (\d+) unit tests", PAGE.read_text())
    assert found
    return int(found[1])


def run_modules(folder: Path, tests: dict[str, list[str]], under: str, jobs: int) -> dict[str, Outcome]:
    """The outcomes of all tests of modules, each module in a process of its own, `jobs` at a time."""
    outcomes: dict[str, Outcome] = {}

    def run(module: str) -> tuple[str, dict[str, Outcome], float]:
        began = time.monotonic()
        return module, run_tests(folder, {module: tests[module]}, under), time.monotonic() - began

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for module, found, seconds in pool.map(run, tests):
            outcomes |= found
            counts = collections.Counter(o.state for o in found.values())
            print(f"{module:50} {counts['pass']:4} of {len(found):4} {seconds:6.1f} s {dict(counts)}", flush=True)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="modules whose name has this text")
    parser.add_argument("--under", choices=("jwarp", "warp"), default="jwarp", help="in what the tests run")
    parser.add_argument("--update", action="store_true", help="write the list, and the table of the documentation")
    parser.add_argument("--even-lost", action="store_true", help="let --update list tests that passed before")
    parser.add_argument("--jobs", "-j", type=int, default=2)
    parser.add_argument("--verbose", "-v", action="store_true", help="print the message of each that does not pass")
    parser.add_argument("--json", type=Path, help="file for the state and message of every test")
    options = parser.parse_args()
    listed = read_list() if LIST.exists() else {}
    with tempfile.TemporaryDirectory(prefix="warp-tests-") as name:
        modules = copy_tests(Path(name))
        everything = tests_by_module(Path(name), modules)
        chosen = {m: tests for m, tests in everything.items() if options.only in m and tests}
        if options.under == "jwarp":
            of_warp = listed.get(OF_WARP, set())
            chosen = {m: kept for m, tests in chosen.items() if (kept := [t for t in tests if t not in of_warp])}
        outcomes = run_modules(Path(name), chosen, options.under, options.jobs)
    if options.json:
        options.json.write_text(json.dumps({t: [o.state, o.message] for t, o in sorted(outcomes.items())}, indent=0))
    if options.verbose:
        print(*(f"{t}: {o.state}: {o.message}" for t, o in outcomes.items() if not o.passed), sep="\n")
    print(f"{sum(o.passed for o in outcomes.values())} of {len(outcomes)} pass")
    if options.under == "warp":
        known = listed.get(OF_WARP, set())
        failing = {t for t, o in outcomes.items() if not o.passed}
        new = {**listed, OF_WARP: (known - set(outcomes)) | failing}
        found = [
            f"{t}: {'fails' if t in failing else 'passes'}" for t in sorted(known.intersection(outcomes) ^ failing)
        ]
        lost = []
    else:
        new, found = updated(outcomes, listed), faults(outcomes, listed)
        lost = [sentence for sentence in found if "passed before" in sentence]
    if options.update and (options.even_lost or not lost):
        write_list(new)
        write_table(new, sum(map(len, everything.values())))
        return 0
    print(*found, sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
