"""Measures jwarp on a GPU beside Warp, XLA, copies and cuBLAS: one command, with rows as they are done.

    python benchmarks/gpu.py                       # everything, in build/gpu.md and build/gpu.json
    python benchmarks/gpu.py --only products       # one group
    python benchmarks/gpu.py --only launches,products --out results
    JAX_PLATFORMS=cpu python benchmarks/gpu.py --dry    # tiny sizes on the processor: tries the program, not the speed

Contenders are compared before they are timed, and one that computes something else is left out, as the row says. A row
that fails says why, and the next one goes on. Warp's columns stay empty where it is not installed. With `--dry`, what
jwarp jits is compiled for sm_90, too. Times are medians of turns, each of several calls that are waited for together.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from installed import versions

# Before JAX: products are cuBLAS's own, and Warp gets memory, too.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_enable_triton_gemm=false".strip()
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.6")

ROOT = Path(__file__).parents[1]
GROUPS = ("bandwidth", "arithmetic", "gradients", "products", "launches", "geometry", "compiles")
PACKAGES = ("jwarp", "jax", "jaxlib", "numpy", "warp-lang", "nvidia-cuda-nvrtc", "cuda-bindings")


def main() -> None:
    options = _parse()
    faulthandler.dump_traceback_later(options.limit, exit=True)
    import jax
    from gpu_cases import Effort, warp

    import jwarp

    jwarp.config.cache_dir = ""  # all that is compiled is timed
    if warp is not None:
        warp.config.kernel_cache_dir = tempfile.mkdtemp(prefix="warp-")
        warp.init()
    if jax.default_backend() != "gpu" and not options.dry:
        sys.exit("no GPU: JAX runs on the processor; --dry tries the program there")
    effort = Effort(rounds=2, seconds=1e-3, dry=True) if options.dry else Effort()
    report = Report(options.out, machine(jax))
    print(report.heading(), flush=True)
    with jwarp.record_compiles() as events:
        for group in options.only:
            report.begin(group)
            rows = compiles(events) if group == "compiles" else _rows(group, effort)
            while (found := guarded("what comes next", lambda rows=rows: next(rows, None), report)) is not None:
                name, measure = found
                row = guarded(name, measure, report)
                if row is not None:
                    report.add(row)
    report.end()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=_groups, default=GROUPS, help=f"groups of rows: {', '.join(GROUPS)}")
    parser.add_argument("--dry", action="store_true", help="tiny sizes, to try the program")
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="the folder of gpu.md and gpu.json")
    parser.add_argument("--limit", type=float, default=420.0, help="seconds after which the program ends itself")
    return parser.parse_args()


def _groups(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(GROUPS):
        raise argparse.ArgumentTypeError(f"no group {', '.join(sorted(unknown))}")
    return names


def _rows(group: str, effort: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names of rows, and what measures them."""
    if group == "products":
        from gpu_products import products

        return products(effort)
    if group == "launches":
        from gpu_launches import launches

        return launches(effort)
    if group == "geometry":
        from gpu_geometry import geometry

        return geometry(effort)
    import gpu_throughput

    return getattr(gpu_throughput, group)(effort)


def compiles(events: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What compiling took in this run, by kernel: NVRTC for jwarp, all of its module for Warp."""
    from gpu_cases import Row, warp_compiles
    from timing import summarize

    ours: dict[tuple[str, str], list[float]] = {}
    for event in events:
        if event.source == "compiled" and (event.platform != "cpu" or not any(e.platform != "cpu" for e in events)):
            ours.setdefault((event.kernel, "adjoint" if "adjoint" in event.variant else "forward"), []).append(
                event.seconds
            )
    for name in dict.fromkeys(kernel for kernel, _ in ours):
        times = {f"jwarp, {v}": summarize(ours[name, v]) for v in ("forward", "adjoint") if (name, v) in ours}
        if name in warp_compiles:
            times["Warp, both"] = summarize([warp_compiles[name]])
        yield name, lambda name=name, times=times: Row(name, times)


def guarded(name: str, run: Callable[[], Any], report: Report) -> Any:
    """What `run` returns, or None and a line in the report."""
    from gpu_cases import said

    try:
        return run()
    except Exception as error:
        report.fail(name, said(error))
        return None


class Report:
    """The rows so far, printed and written to files as they come."""

    def __init__(self, folder: Path, where: dict[str, Any]):
        self.folder, self.where, self.start = folder, where, time.perf_counter()
        self.groups: dict[str, list[Any]] = {}
        self.failures: list[tuple[str, str]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def heading(self) -> str:
        packages = ", ".join(f"{name} {number}" for name, number in self.where["packages"].items() if number)
        return f"{self.where['gpu']}; Python {self.where['python']}, {packages}"

    def begin(self, group: str) -> None:
        self.group = group
        print(f"\n== {group} ({time.perf_counter() - self.start:.0f} s)", flush=True)

    def add(self, row: Any) -> None:
        self.groups.setdefault(self.group, []).append(row)
        cells = "  ".join(f"{who} {_shown(taken.median)}" for who, taken in row.times.items())
        print(f"{row.name:<44}{cells}", *(f"    {fact}" for fact in row.facts), sep="\n", flush=True)
        self.write()

    def fail(self, name: str, why: str) -> None:
        self.failures.append((f"{self.group}: {name}", why))
        print(f"{name:<44}FAILED: {why}", flush=True)
        self.write()

    def write(self) -> None:
        (self.folder / "gpu.md").write_text(self.markdown())
        rows = {group: [row.to_json() for row in rows] for group, rows in self.groups.items()}
        text = json.dumps({"machine": self.where, "rows": rows, "failures": self.failures}, indent=1)
        (self.folder / "gpu.json").write_text(text + "\n")

    def markdown(self) -> str:
        lines = [f"# On a GPU, {self.where['date']}", "", self.heading(), ""]
        for group, rows in self.groups.items():
            whos = list(dict.fromkeys(who for row in rows for who in row.times))
            lines += [f"## {group}", "", f"| median time | {' | '.join(whos)} | |", f"|---|{'--:|' * len(whos)}---|"]
            for row in rows:
                cells = [_shown(row.times[who].median) if who in row.times else "-" for who in whos]
                lines.append(f"| {row.name} | {' | '.join(cells)} | {'; '.join(row.facts)} |".replace("\n", " "))
            lines.append("")
        if self.failures:
            lines += ["## failed", "", *(f"- {name}: {why}" for name, why in self.failures), ""]
        return "\n".join(lines)

    def end(self) -> None:
        taken, count = time.perf_counter() - self.start, sum(map(len, self.groups.values()))
        print(f"\n{count} rows, {len(self.failures)} failed, {taken:.0f} s: {self.folder}/gpu.md")


def _shown(seconds: float) -> str:
    unit, scale = next((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if seconds >= s or u == "us")
    return f"{seconds / scale:.3g} {unit}"


def machine(jax: Any) -> dict[str, Any]:
    asked = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        gpu = f"no GPU: {jax.devices()[0]}"
    return {
        "gpu": gpu,
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "packages": versions(PACKAGES),
    }


if __name__ == "__main__":
    main()
