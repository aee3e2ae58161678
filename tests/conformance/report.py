"""Tries the kernels of warp-lang's own tests and examples, and prints what came of them."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib
import json
import multiprocessing
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import jax  # noqa: F401
import library_trial
import table
import trial
import warp
from libraries import INSTALL, LIBRARIES, Library
from table import VERDICTS, verdicts

SECONDS = 240  # for one module
LIBRARY_SECONDS = 3600
PROCESSES = 2


def all_modules() -> list[str]:
    """The modules of warp-lang's tests and examples that have kernels in their text."""
    root = Path(warp.__file__).parent
    found = []
    for path in sorted([*root.glob("tests/**/*.py"), *root.glob("examples/**/*.py")]):
        text = path.read_text(errors="replace")
        if "wp.kernel" in text or "warp.kernel" in text:
            found.append(".".join(("warp", *path.relative_to(root).with_suffix("").parts)))
    return sorted(found, key=lambda name: (not name.startswith("warp.tests.test_"), name.count(".")))


@dataclass
class Job:
    """Trials in a process of their own, as Warp may crash: of a module of Warp's, or of a library's tests."""

    module: str
    library: Library | None = None
    tests: dict[str, list[str]] = field(default_factory=dict)
    rest: bool = False
    steps: tuple[str, ...] = trial.STEPS
    skipped: frozenset[str] = frozenset()

    def run(self, log: Path, known: frozenset[str]) -> None:
        if self.library is None:
            trial.run_trial(self.module, log, self.skipped, self.steps)
        else:
            library_trial.run_library_trial(
                self.library, self.module, self.tests, self.rest, log, self.skipped | known, self.steps
            )


def jobs_of(library: Library, steps: tuple[str, ...] = trial.STEPS, part: str = "") -> list[Job]:
    """The trials of a library, in one process if they only compile; those of kernels that no test launches come last.

    With `part`, only tests of modules that have it in their name.
    """
    found = {module: tests for module, tests in library.reached().items() if part in module}
    if "launch" not in steps:
        return [Job(library.package, library, found, not part, steps)]
    jobs = [Job(module, library, {module: tests}, False, steps) for module, tests in found.items()]
    return jobs if part else [*jobs, Job(library.package, library, {}, True, steps)]


def try_modules(modules: list[str], processes: int = PROCESSES, seconds: int = SECONDS) -> list[dict]:
    """One row for each launch of a kernel in Warp's modules that was tried."""
    return run_jobs([Job(module) for module in modules], processes, seconds)


def run_jobs(jobs: list[Job], processes: int = PROCESSES, seconds: int = SECONDS) -> list[dict]:
    """The rows of all trials. Where a process ends early, the rest of its trials are done in another one."""
    warp.config.quiet = True
    warp.config.log_level = warp.LOG_ERROR if hasattr(warp, "LOG_ERROR") else 40
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    warp.config.kernel_cache_dir = str(folder / "cache")
    warp.init()
    warp.config.optimization_level = 1
    if any("launch" in job.steps for job in jobs):
        _warm_up()
    for package in {job.library.package for job in jobs if job.library is not None}:
        importlib.import_module(package)  # once, and not in each of the processes
    context = multiprocessing.get_context("fork")
    waiting = list(jobs)
    running: dict = {}
    rows: list[dict] = []
    tried: collections.Counter = collections.Counter()
    number = 0
    while waiting or running:
        last = waiting and waiting[0].rest
        while waiting and len(running) < processes and not (last and running):
            job = waiting.pop(0)
            number += 1
            log = folder / f"{job.module}-{number}.jsonl"
            log.touch()
            known = frozenset(n for n, count in tried.items() if count >= library_trial.INSTANCES or job.rest)
            process = context.Process(target=_quietly, args=(job.run, log, known))
            process.start()
            running[process] = (job, log, time.monotonic())
        time.sleep(0.02)
        for process, (job, log, began) in list(running.items()):
            late = time.monotonic() - began > seconds
            if process.is_alive() and not late:
                continue
            if process.is_alive():
                process.kill()
            process.join()
            del running[process]
            seen = [json.loads(line) for line in log.read_text().splitlines()]
            done = [row for row in seen if row["verdict"] != "begun"]
            rows += done
            tried.update(row["name"] for row in done if row.get("step") == "forward")
            if process.exitcode:
                began_with = seen[-1] if seen and seen[-1]["verdict"] == "begun" else {}
                died = began_with.get("name", "")
                how = "takes too long" if late else f"ends the process ({process.exitcode})"
                verdict = "fault" if began_with.get("reason") == "compiling" and not late else "warp"
                ended = {"name": died or f"{job.module.removeprefix('warp.')}:", "verdict": verdict, "reason": how}
                library = "Warp" if job.library is None else job.library.name
                rows.append({"library": library, "step": job.steps[0], "line": 0, **began_with, **ended})
                if died:
                    names = {row["name"] for row in done if row.get("step", "launch") == "launch"} | {died}
                    waiting.insert(0, dataclasses.replace(job, skipped=job.skipped | names))
    return rows


def _warm_up() -> None:
    """Compile a kernel, so that Warp's precompiled headers are there for the processes to come."""
    import one_kernel

    warp.launch(one_kernel.one, 1, [warp.zeros(1, dtype=float, device="cpu")], device="cpu")


def _quietly(target, *args) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    target(*args)
    os._exit(0)


def print_report(rows: list[dict]) -> None:
    best = verdicts(rows)
    counts = collections.Counter(row["verdict"] for row in best.values())
    print(f"{len(best)} kernels: " + ", ".join(f"{counts[v]} {v}" for v in VERDICTS))
    for verdict in ("disagree", "fault"):
        for name, row in sorted(best.items()):
            if row["verdict"] == verdict:
                print(f"  {verdict}: {name}: {row['reason']}")
    for verdict in ("refused", "warp"):
        reasons = collections.Counter(row["reason"] for row in best.values() if row["verdict"] == verdict)
        print(f"{verdict}:")
        for reason, count in reasons.most_common(60):
            print(f"  {count:4} {reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="file for one row for each launch tried, as JSON")
    parser.add_argument("--update", action="store_true", help="write the names of agreeing kernels to agreeing.txt")
    parser.add_argument("--library", action="append", default=[], help="try a library's kernels: mujoco_warp or newton")
    parser.add_argument("--steps", default=",".join(trial.STEPS), help="what to do with kernels")
    parser.add_argument("--tests", default="", help="only modules of a library's tests that have this in their name")
    parser.add_argument(
        "modules", nargs="*", help="as warp.tests.test_vec; all, if neither this nor --library is given"
    )
    options = parser.parse_args()
    began = time.monotonic()
    libraries = [x for x in LIBRARIES if x.package in options.library]
    for missing in [x for x in libraries if not x.installed]:
        parser.error(f"{missing.package} is not installed: {INSTALL}")
    steps = tuple(options.steps.split(","))
    jobs = [job for x in libraries for job in jobs_of(x, steps, options.tests)]
    if not libraries or options.modules:
        jobs += [Job(module, steps=steps) for module in options.modules or all_modules()]
    rows = run_jobs(jobs, seconds=LIBRARY_SECONDS if libraries else SECONDS)
    if options.rows:
        options.rows.write_text(json.dumps(rows))
    table.print_table(rows)
    if not libraries:
        print_report(rows)
    print(f"{time.monotonic() - began:.0f} s")
    if options.update:
        names = sorted(name for name, row in verdicts(rows).items() if row["verdict"] == "agree")
        Path(__file__).with_name("agreeing.txt").write_text("".join(f"{name}\n" for name in names))


if __name__ == "__main__":
    main()
