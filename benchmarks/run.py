"""Measures jwarp against Warp, numba, XLA and SciPy on this machine, and holds the figures against their targets.

    python benchmarks/run.py                  # all figures, a few minutes
    python benchmarks/run.py --quick          # few repeats, within a minute: for a smoke test
    python benchmarks/run.py --only startup   # one group of figures
    python benchmarks/run.py --threads 1      # on one thread
    python benchmarks/run.py --json out.json
    python benchmarks/run.py --markdown       # renews the tables of the documentation, and its chart

All contenders run in one process, in turns, with jwarp's default settings and on two threads (Warp's CPU
launches use one). Every figure is the least time of its turns. Columns of missing packages stay empty.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from installed import versions

THREADS = 2
GROUPS = ("launches", "throughput", "maths", "gradients", "tiles", "geometry", "sparse", "startup")
SHOWN = ("launches", "throughput", "tiles", "gradients")  # in tables
PACKAGES = ("jwarp", "jax", "numpy", "warp-lang", "numba", "llvmlite")


def main() -> None:
    options = _parse()
    _limit_threads(options.threads)
    # Thread pools look at the limit when they start, so what has one is imported after it is set.
    from figures import format_figure, format_header, format_verdict

    _warn_if_busy()
    machine = _machine(options.threads)
    print(format_header())
    groups: dict[str, list[Any]] = {}
    for group in SHOWN if options.markdown else [options.only] if options.only else GROUPS:
        for figure in _figures(group, options.quick, 3.0 if options.markdown else 10.0):
            print(format_figure(figure), flush=True)
            groups.setdefault(group, []).append(figure)
    measured = [figure for figures in groups.values() for figure in figures]
    print(format_verdict(measured))
    if options.json:
        figures = [figure.to_json() for figure in measured]
        report = {"machine": machine, "quick": options.quick, "figures": figures}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.markdown:
        import speed_table

        speed_table.write(groups, machine)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few repeats; ends within a minute")
    parser.add_argument("--only", choices=GROUPS, help="one group of figures")
    parser.add_argument("--threads", type=int, default=THREADS, help="threads of all contenders")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--markdown", action="store_true", help="renew the tables and the chart of the documentation")
    return parser.parse_args()


def _limit_threads(count: int) -> None:
    """Let the thread pools of all contenders have `count` threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    os.environ["NUMBA_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(count)
    # OpenMP's threads would spin after their work, in the next contender's turn.
    os.environ["OMP_WAIT_POLICY"] = "passive"


def _warn_if_busy() -> None:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > 0.5:
        print(f"note: other programs are running (load {load:.1f}); times on two threads will be too long")


def _figures(group: str, quick: bool, budget: float) -> Iterator[Any]:
    """The figures of a group, each within about `budget` seconds, or one where it is to be `quick`."""
    module = importlib.import_module(group)
    rounds, budget = (5, 1.0) if quick else (40, budget)
    if group == "launches":
        return module.measure(rounds=10 if quick else 100, budget=min(budget, 5.0))
    if group == "maths":
        return module.measure(rounds, budget=0.2 * budget, with_numba=not quick)
    if group == "geometry":
        return module.measure(2 if quick else 10, budget, count=10**5 if quick else 10**6)
    if group == "sparse":
        return module.measure(2 if quick else 10, budget, rows=10**4 if quick else 10**5)
    return module.measure(rounds=2 if quick else 8) if group == "startup" else module.measure(rounds, budget)


def _machine(threads: int) -> dict[str, Any]:
    return {
        "processor": _processor(),
        "threads": threads,
        "load": round(os.getloadavg()[0], 1),
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "packages": versions(PACKAGES),
    }


def _processor() -> str:
    """The name of the processor, and its widest vectors."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    name = re.search(r"model name\s*:\s*(.*)", text)
    vectors = next((wide for flag, wide in (("avx512f", " (AVX-512)"), ("avx2", " (AVX2)")) if flag in text), "")
    return f"{name[1].strip() if name else platform.machine()}{vectors}"


if __name__ == "__main__":
    main()
