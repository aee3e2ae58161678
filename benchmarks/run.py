"""Measures jwarp against Warp, numba and XLA on this machine, and holds the figures against their targets.

    python benchmarks/run.py                  # all figures, a few minutes
    python benchmarks/run.py --quick          # few repeats, within a minute: for a smoke test
    python benchmarks/run.py --only startup   # one group of figures
    python benchmarks/run.py --threads 1      # on one thread
    python benchmarks/run.py --json out.json

All contenders run in one process, in turns, with jwarp's default settings and on two threads (Warp's CPU
launches use one). Every figure is the least time of its turns. Columns of missing packages stay empty.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

THREADS = 2
GROUPS = ("launches", "throughput", "maths", "gradients", "tiles", "geometry", "startup")
PACKAGES = ("jwarp", "jax", "numpy", "warp-lang", "numba", "llvmlite")


def main() -> None:
    options = _parse()
    _limit_threads(options.threads)
    # Thread pools look at the limit when they start, so what has one is imported after it is set.
    from figures import format_figure, format_header, format_verdict

    _warn_if_busy()
    print(format_header())
    measured = []
    for figure in _figures(options.only, options.quick):
        print(format_figure(figure), flush=True)
        measured.append(figure)
    print(format_verdict(measured))
    if options.json:
        figures = [figure.to_json() for figure in measured]
        report = {"machine": _machine(options.threads), "quick": options.quick, "figures": figures}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few repeats; ends within a minute")
    parser.add_argument("--only", choices=GROUPS, help="one group of figures")
    parser.add_argument("--threads", type=int, default=THREADS, help="threads of all contenders")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
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


def _figures(only: str | None, quick: bool) -> Iterator[Any]:
    import geometry
    import gradients
    import launches
    import maths
    import ray_marcher
    import startup
    import throughput
    import tiles

    if only in (None, "launches"):
        yield from launches.measure(rounds=10 if quick else 100, budget=1.0 if quick else 5.0)
    if only in (None, "throughput"):
        yield from throughput.measure(rounds=5 if quick else 40, budget=1.0 if quick else 10.0)
    if only in (None, "maths"):
        yield from maths.measure(rounds=5 if quick else 40, budget=0.2 if quick else 2.0, with_numba=not quick)
    if only in (None, "gradients"):
        yield from gradients.measure(rounds=5 if quick else 40, budget=1.0 if quick else 10.0)
        yield from ray_marcher.measure(quick)
    if only in (None, "tiles"):
        yield from tiles.measure(rounds=5 if quick else 40, budget=1.0 if quick else 10.0)
    if only in (None, "geometry"):
        yield from geometry.measure(
            rounds=2 if quick else 10, budget=1.0 if quick else 10.0, count=10**5 if quick else 10**6
        )
    if only in (None, "startup"):
        yield from startup.measure(rounds=2 if quick else 8)


def _machine(threads: int) -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(),
        "threads": threads,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
