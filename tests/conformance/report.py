"""Tries the kernels of warp-lang's own tests and examples, and prints what came of them."""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

SECONDS = 240  # for one module
PROCESSES = 2


def all_modules() -> list[str]:
    """The modules of warp-lang's tests and examples that have kernels in their text."""
    import warp

    root = Path(warp.__file__).parent
    found = []
    for path in sorted([*root.glob("tests/**/*.py"), *root.glob("examples/**/*.py")]):
        text = path.read_text(errors="replace")
        if "wp.kernel" in text or "warp.kernel" in text:
            found.append(".".join(("warp", *path.relative_to(root).with_suffix("").parts)))
    return sorted(found, key=lambda name: (not name.startswith("warp.tests.test_"), name.count(".")))


def try_modules(modules: list[str], processes: int = PROCESSES, seconds: int = SECONDS) -> list[dict]:
    """One row for each launch that was tried. Every module has a process of its own, as Warp may crash."""
    import jax  # noqa: F401
    import trial
    import warp

    warp.config.quiet = True
    warp.config.log_level = warp.LOG_ERROR if hasattr(warp, "LOG_ERROR") else 40
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    warp.config.kernel_cache_dir = str(folder / "cache")
    warp.init()
    warp.config.optimization_level = 1
    _warm_up()
    context = multiprocessing.get_context("fork")
    waiting = [(module, frozenset()) for module in modules]
    running: dict = {}
    rows: list[dict] = []
    while waiting or running:
        while waiting and len(running) < processes:
            module, skipped = waiting.pop(0)
            log = folder / f"{module}-{len(skipped)}.jsonl"
            log.touch()
            process = context.Process(target=_quietly, args=(trial.run_trial, module, log, skipped))
            process.start()
            running[process] = (module, skipped, log, time.monotonic())
        time.sleep(0.02)
        for process, (module, skipped, log, began) in list(running.items()):
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
            if process.exitcode:
                died = seen[-1]["name"] if seen and seen[-1]["verdict"] == "begun" else ""
                how = "takes too long" if late else f"ends the process ({process.exitcode})"
                rows.append({"name": died or f"{module.removeprefix('warp.')}:", "verdict": "warp", "reason": how})
                if died:
                    names = {row["name"] for row in done} | {died}
                    waiting.insert(0, (module, skipped | names))
    return rows


def _warm_up() -> None:
    """Compile a kernel, so that Warp's precompiled headers are there for the processes to come."""
    import one_kernel
    import warp

    warp.launch(one_kernel.one, 1, [warp.zeros(1, dtype=float, device="cpu")], device="cpu")


def _quietly(target, *args) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    target(*args)
    os._exit(0)


# The verdict on a kernel is the first of these that one of its launches has.
ORDER = ("disagree", "fault", "agree", "vacuous", "refused", "warp")


def verdicts(rows: list[dict]) -> dict[str, dict]:
    """The deciding row of each kernel."""
    best: dict[str, dict] = {}
    for row in rows:
        before = best.get(row["name"])
        if before is None or ORDER.index(row["verdict"]) < ORDER.index(before["verdict"]):
            best[row["name"]] = row
    return best


def print_report(rows: list[dict]) -> None:
    best = verdicts(rows)
    counts = collections.Counter(row["verdict"] for row in best.values())
    print(f"{len(best)} kernels: " + ", ".join(f"{counts[v]} {v}" for v in ORDER))
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
    parser.add_argument("modules", nargs="*", help="as warp.tests.test_vec; all, if none is given")
    options = parser.parse_args()
    began = time.monotonic()
    rows = try_modules(options.modules or all_modules())
    print_report(rows)
    print(f"{time.monotonic() - began:.0f} s")
    if options.rows:
        options.rows.write_text(json.dumps(rows))
    if options.update:
        names = sorted(name for name, row in verdicts(rows).items() if row["verdict"] == "agree")
        Path(__file__).with_name("agreeing.txt").write_text("".join(f"{name}\n" for name in names))


if __name__ == "__main__":
    main()
