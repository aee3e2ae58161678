"""Tries the kernels of warp-lang's own tests and examples, and of libraries, and prints what came of them."""

from __future__ import annotations

import argparse
import collections
import time
from pathlib import Path

import table
import trial
import warp
from differences import DIFFERENCES
from jobs import Job, Rows, jobs_of, run_jobs
from libraries import INSTALL, LIBRARIES
from table import VERDICTS, verdicts


def all_modules() -> list[str]:
    """The modules of warp-lang's tests and examples that have kernels in their text."""
    root = Path(warp.__file__).parent
    found = []
    for path in sorted([*root.glob("tests/**/*.py"), *root.glob("examples/**/*.py")]):
        text = path.read_text(errors="replace")
        if "wp.kernel" in text or "warp.kernel" in text:
            found.append(".".join(("warp", *path.relative_to(root).with_suffix("").parts)))
    return sorted(found, key=lambda name: (not name.startswith("warp.tests.test_"), name.count(".")))


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
    parser.add_argument(
        "--rows", type=Path, help="file of one row for each thing tried; what it has is not tried again"
    )
    parser.add_argument("--again", default="", help="of what --rows has, try kernels with a reason that matches anew")
    parser.add_argument("--print", type=Path, nargs="+", default=[], help="only print the table of these files")
    parser.add_argument("--update", action="store_true", help="write the names of agreeing kernels to agreeing.txt")
    parser.add_argument("--library", action="append", default=[], help="warp, mujoco_warp or newton; several times")
    parser.add_argument("--steps", default=",".join(trial.STEPS), help="what to do with kernels")
    parser.add_argument("--share", default="0/1", help="K/N: every N-th kernel by a hash of the name, beginning with K")
    parser.add_argument("--tests", default="", help="only modules of a library's tests whose names match")
    parser.add_argument(
        "modules", nargs="*", help="as warp.tests.test_vec; all, if neither this nor --library is given"
    )
    options = parser.parse_args()
    began = time.monotonic()
    libraries = [x for x in LIBRARIES if x.package in options.library]
    for missing in [x for x in libraries if not x.installed]:
        parser.error(f"{missing.package} is not installed: {INSTALL}")
    if options.print:
        rows = [row for path in options.print for row in Rows(path).results]
    else:
        steps = tuple(options.steps.split(","))
        which, count = map(int, options.share.split("/"))
        jobs = [job for x in libraries for job in jobs_of(x, steps, (which, count), options.tests)]
        if "warp" in options.library or not libraries or options.modules:
            modules = options.modules or all_modules()
            jobs += [Job(module, steps=steps, share=(which, count)) for module in modules]
        rows = run_jobs(jobs, options.rows, options.again)
    table.print_table(rows)
    of_warp = [row for row in rows if row["library"] == "Warp"]
    if of_warp:
        print_report(of_warp)
    print(f"{time.monotonic() - began:.0f} s")
    if options.update:
        found = {name for name, row in verdicts(of_warp).items() if row["verdict"] == "agree"}
        names = sorted(found - set(DIFFERENCES))
        Path(__file__).with_name("agreeing.txt").write_text("".join(f"{name}\n" for name in names))


if __name__ == "__main__":
    main()
