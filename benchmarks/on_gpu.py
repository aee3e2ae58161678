"""Runs all tests that need a GPU, and writes a table of their results.

    python benchmarks/on_gpu.py                      # build/gpu_results.md
    python benchmarks/on_gpu.py results.md -k batch  # another file, and options of pytest

On a machine without a GPU the table says so for each test. The command ends as pytest does.
"""

from __future__ import annotations

import datetime
import platform
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEFAULT = ROOT / "build" / "gpu_results.md"
# What a test that did not pass has inside.
OUTCOMES = {"failure": "failed", "error": "error", "skipped": "skipped"}


def rows(report: Path) -> Iterator[tuple[str, str, float, str]]:
    """Of each test its name, outcome and seconds, and what it printed or why it did not pass, in one line."""
    for case in tree.parse(report).iter("testcase"):
        found = next((part for part in case if part.tag in OUTCOMES), None)
        outcome = OUTCOMES[found.tag] if found is not None else "passed"
        said = found.get("message", "") if found is not None else case.findtext("system-out", "")
        yield (
            case.get("name", ""),
            outcome,
            float(case.get("time", 0)),
            " ".join(said.split()).replace("|", "\\|")[:300],
        )


def machine() -> str:
    """The GPU and its driver, as nvidia-smi tells them."""
    asked = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no GPU"


def table(report: Path) -> str:
    """The results of a report of pytest, in Markdown."""
    found = list(rows(report))
    counts = Counter(outcome for _, outcome, _, _ in found)
    total = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "no tests"
    date = datetime.datetime.now(datetime.UTC).date()
    lines = [f"# Tests on a GPU, {date}", "", f"{machine()}; Python {platform.python_version()}: {total}", ""]
    lines += ["| test | outcome | seconds | |", "|---|---|---:|---|"]
    lines += [f"| {name} | {outcome} | {seconds:.2f} | {said} |" for name, outcome, seconds, said in found]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    file = DEFAULT if not arguments or arguments[0].startswith("-") else Path(arguments.pop(0))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-m", "gpu", "-q", f"--junitxml={report}", "-o", "junit_logging=system-out", *arguments]
        done = subprocess.run([sys.executable, "-m", "pytest", str(ROOT / "tests" / "cuda"), *options])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(table(report))
    print(f"written to {file}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
