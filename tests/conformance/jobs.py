"""Runs trials in processes of their own, one after another, and keeps what came of them in a file of rows."""

from __future__ import annotations

import dataclasses
import faulthandler
import importlib
import json
import multiprocessing
import os
import re
import resource
import signal
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax  # noqa: F401
import library_trial
import trial
import warp
from libraries import Library

import jwarp.public  # noqa: F401 what the first use of a name imports: no kernel's time has it

SECONDS = 3600  # for one process, by the clock: one that sleeps for ever uses no processor


@dataclass
class Job:
    """Trials in a process of their own, as Warp may crash: of a module of Warp's, or of a module of a library's tests.

    With `rest`, of the kernels of the library that no test has launched.
    """

    module: str
    library: Library | None = None
    tests: dict[str, list[str]] = field(default_factory=dict)
    rest: bool = False
    steps: tuple[str, ...] = trial.STEPS
    share: tuple[int, int] = (0, 1)
    past: trial.Past = dataclasses.field(default_factory=trial.Past)

    @property
    def name(self) -> str:
        return f"{self.module}{'(rest)' if self.rest else ''}"

    @property
    def owner(self) -> str:
        return "Warp" if self.library is None else self.library.name

    def run(self, log: Path) -> None:
        options = trial.Options(self.owner, self.steps, self.share, self.past)
        if self.library is None:
            trial.run_trial(self.module, log, options)
        else:
            library_trial.run_library_trial(self.library, self.module, self.tests, self.rest, log, options)


def jobs_of(library: Library, steps: tuple[str, ...], share: tuple[int, int] = (0, 1), part: str = "") -> list[Job]:
    """A job for each module of a library's tests, and one for the kernels that no test launches.

    With `part`, a regular expression, only for modules in whose name it is found.
    """
    found = {module: tests for module, tests in library.reached().items() if re.search(part, module)}
    jobs = [Job(module, library, {module: tests}, False, steps, share) for module, tests in found.items()]
    rest = Job(library.package, library, {}, True, steps, share)
    return jobs if part and not re.search(part, rest.name) else [*jobs, rest]


class Rows:
    """The outcomes of all trials, also of earlier runs: one JSON object per line."""

    def __init__(self, path: Path | None):
        self.path = path
        self.all: list[dict] = []
        if path is not None and path.exists():
            self.all = [json.loads(line) for line in path.read_text().splitlines()]

    def add(self, rows: list[dict]) -> None:
        self.all += rows
        if self.path is not None:
            with self.path.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)

    def forget(self, reason: str) -> None:
        """Drop what is said of kernels of which something was said for a reason that matches."""
        names = {row["name"] for row in self.all if row["step"] != "job" and re.search(reason, row["reason"])}
        jobs = {row["job"] for row in self.all if row.get("name") in names}
        dropped = [row["job"] in jobs if row["step"] == "job" else row["name"] in names for row in self.all]
        self.all = [row for row, drop in zip(self.all, dropped, strict=True) if not drop]
        if self.path is not None:
            self.path.write_text("".join(json.dumps(row) + "\n" for row in self.all))

    @property
    def done(self) -> set[tuple[str, str]]:
        """Library and name of the jobs that came to their end."""
        return {(row["library"], row["job"]) for row in self.all if row["step"] == "job"}

    @property
    def results(self) -> list[dict]:
        return [row for row in self.all if row["step"] != "job"]

    def of_kernels(self, library: str) -> list[dict]:
        return [row for row in self.all if row["library"] == library and row["step"] in trial.STEPS]


def run_jobs(jobs: list[Job], path: Path | None = None, again: str = "") -> list[dict]:
    """The rows of all jobs; those that `path` has already are not made again, and new ones are added to it.

    Kernels with a row whose reason matches `again` are tried anew. Where a process ends early, the rest of its trials
    are done in another one.
    """
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    _prepare(jobs, folder)
    rows = Rows(path)
    if again:
        rows.forget(again)
    context = multiprocessing.get_context("fork")
    for number, job in enumerate(jobs):
        if (job.owner, job.name) in rows.done:
            continue
        began = _children_seconds()
        left = _again(job, rows, job.past)
        for attempt in range(200):
            log = folder / f"{number}-{attempt}.jsonl"
            log.touch()
            process = context.Process(target=_quietly, args=(log, left.run))
            process.start()
            process.join(SECONDS)
            if late := process.is_alive():
                process.kill()
                process.join()
            seen = [json.loads(line) for line in log.read_text().splitlines()]
            rows.add([{**row, "job": job.name} for row in seen if row["verdict"] != "begun"])
            if not process.exitcode:
                break
            ended = _ended(job, seen, "takes too long" if late else "", process.exitcode, log)
            rows.add([ended])
            if seen and seen[-1]["verdict"] == "begun":
                past = dataclasses.replace(left.past, broken=left.past.broken | {ended["name"]})
                left = _again(job, rows, past)
            elif attempt:
                break
        seconds = round(_children_seconds() - began, 1)
        rows.add([{"library": job.owner, "job": job.name, "step": "job", "verdict": "done", "seconds": seconds}])
    return rows.results


def _again(job: Job, rows: Rows, past: trial.Past) -> Job:
    """The job without what the rows say was done."""
    return dataclasses.replace(job, past=past.after(rows.of_kernels(job.owner), job.name, job.steps))


def _ended(job: Job, seen: list[dict], how: str, code: int | None, log: Path) -> dict:
    """The row of what a process ended early with."""
    began = seen[-1] if seen and seen[-1]["verdict"] == "begun" else {}
    over = code == -signal.SIGVTALRM
    how = how or (f"more than {began.get('limit', '?')} s" if over else f"ends the process ({code}){_where(log)}")
    compiling = began.get("step") in ("forward", "adjoint")
    ours = compiling or began.get("reason") == "in jwarp"
    verdict = "over limit" if over and compiling else "fault" if ours and not over else "warp"
    named = {"name": job.name, "step": "test", "line": 0, **began}
    return {**named, "library": job.owner, "job": job.name, "verdict": verdict, "reason": how}


def _children_seconds() -> float:
    """Seconds of the processor of all processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _where(log: Path) -> str:
    """Where a process was when it ended: the innermost line of Python."""
    lines = log.with_suffix(".trace").read_text().splitlines()
    places = [m for line in lines if (m := re.search(r'File "(.*)", line (\d+) in (\w+)', line))]
    return f" in {Path(places[0][1]).name}:{places[0][2]} {places[0][3]}" if places else ""


def _prepare(jobs: list[Job], folder: Path) -> None:
    """Prepare the common parts of all processes: Warp's settings and headers, and the packages themselves."""
    warp.config.quiet = True
    warp.config.log_level = warp.LOG_ERROR if hasattr(warp, "LOG_ERROR") else 40
    warp.config.kernel_cache_dir = str(folder / "cache")
    warp.init()
    warp.config.optimization_level = 1
    if any("launch" in job.steps for job in jobs):
        import one_kernel

        # Compiling a kernel leaves Warp's precompiled headers behind.
        warp.launch(one_kernel.one, 1, [warp.zeros(1, dtype=float, device="cpu")], device="cpu")
    for package in {job.library.package for job in jobs if job.library is not None}:
        importlib.import_module(package)


def _quietly(log: Path, run: Any) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    trace = log.with_suffix(".trace").open("w")
    faulthandler.enable(trace)
    faulthandler.register(signal.SIGVTALRM, trace, chain=True)
    run(log)
    os._exit(0)
