"""The table of what came of the kernels of each library, and the reasons for what did not come out."""

from __future__ import annotations

import collections
import re
from statistics import median

from differences import DIFFERENCES

# Kernels that use these are counted aside: what their refusals name.
ASIDE = {
    "meshes, trees and grids": r"mesh_|bvh_|hash_grid|HashGrid|Mesh\b|Bvh|meshes, trees|\bhandle\b",
    "volumes": r"volume_|Volume\b|[Nn]ano[Vv][Dd][Bb]|volumes",
    "textures": r"texture|Texture",
    "arrays of Omniverse's Fabric": r"fabricarray",
    "native code": r"in C\+\+|func_native|[Nn]ative|_preamble_",
}
# The verdict on a kernel is the first of these that one of its launches has.
ORDER = ("fault", "disagree", "known difference", "agree", "order", "vacuous", "refused", "over limit", "warp")
GOOD = ("compiled", "agree", "order", "none", "vacuous", "known difference")

VERDICTS = ("disagree", "fault", "agree", "order", "vacuous", "refused", "over limit", "warp")

Rows = dict[tuple, list[dict]]


def verdicts(rows: list[dict]) -> dict[str, dict]:
    """The deciding row of each kernel of Warp's, by the order of VERDICTS."""
    best: dict[str, dict] = {}
    for row in rows:
        if row["verdict"] == "compiled" or row["step"] not in ("forward", "launch"):
            continue
        before = best.get(row["name"])
        if before is None or VERDICTS.index(row["verdict"]) < VERDICTS.index(before["verdict"]):
            best[row["name"]] = row
    return best


def aside(reason: str) -> str | None:
    """Under what a kernel that was refused for this reason is counted aside, if it is."""
    return next((name for name, pattern in ASIDE.items() if re.search(pattern, reason)), None)


def print_table(rows: list[dict]) -> None:
    """Print the counts of kernels, by library, and after them the reasons."""
    libraries = list(dict.fromkeys(row["library"] for row in rows))
    for library in libraries:
        _print_library(library, [row for row in rows if row["library"] == library])


def by_step(rows: list[dict]) -> dict[str, Rows]:
    """The rows of each kernel, by what was done with it. A factory's kernels are one, of several instances."""
    found: dict[str, Rows] = {"forward": {}, "adjoint": {}, "launch": {}, "test": {}}
    for row in rows:
        if row["verdict"] == "disagree" and row["name"] in DIFFERENCES:
            row = {**row, "verdict": "known difference", "reason": DIFFERENCES[row["name"]]}
        key = (row["name"], row["line"]) if row["step"] in ("forward", "adjoint") else (row["name"],)
        found[row["step"]].setdefault(key, []).append(row)
    return found


def _print_library(library: str, rows: list[dict]) -> None:
    steps = by_step(rows)
    # What Warp refuses, too, and generics that are never launched are no kernels.
    forward = {key: found for key, found in steps["forward"].items() if any(r["verdict"] != "warp" for r in found)}
    groups = {key: group for key, found in forward.items() for r in found if (group := aside(r["reason"]))}
    tried = {key: found for key, found in forward.items() if key not in groups}
    before = _counts(tried, ("compiled",))
    backward = {key: found for key, found in steps["adjoint"].items() if key in tried}
    print(f"{library}: {len(forward)} kernels, {len(groups)} aside {dict(collections.Counter(groups.values()))}")
    print(f"  forward: {_share(before['good'], len(tried))} compile{_others(before)}")
    if backward:
        after = _counts(backward, ("compiled", "none"))
        print(f"  adjoint: {_share(after['good'], len(backward))} compile{_others(after)}")
    launches = {key: min((r["verdict"] for r in found), key=ORDER.index) for key, found in steps["launch"].items()}
    counts = collections.Counter(launches.values())
    if launches:
        print("  launched: " + ", ".join(f"{counts[v]} {v}" for v in ORDER))
    _print_times("forward", tried)
    _print_times("adjoint", backward)
    for step in steps:
        _print_reasons(step, steps[step])


def _counts(rows: Rows, good: tuple[str, ...]) -> collections.Counter:
    """How many kernels are good, and of the others, how many there are of each verdict; instances have to be good."""
    worst = ("fault", "over limit", "refused")
    found = [next((v for v in worst if any(r["verdict"] == v for r in rows[key])), "good") for key in rows]
    assert {r["verdict"] for key in rows for r in rows[key]} <= {*good, *worst, "warp"}
    return collections.Counter(found)


def _others(counts: collections.Counter) -> str:
    return "".join(f", {counts[v]} {v}" for v in ("refused", "over limit", "fault"))


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / max(1, whole):.1%})"


def _print_times(step: str, rows: Rows) -> None:
    """Seconds of the processor, of the first instance of each kernel."""
    times = sorted((found[0]["seconds"], key[0]) for key, found in rows.items() if found)
    if times:
        seconds = [s for s, _ in times]
        print(f"  {step}: median {median(seconds):.4f} s, all {sum(seconds):.1f} s, largest {times[-1]}")


def _print_reasons(step: str, rows: Rows) -> None:
    reasons: dict[str, set[tuple]] = {}
    for key, found in rows.items():
        for r in found:
            if r["verdict"] not in GOOD:
                reasons.setdefault(f"{r['verdict']}: {r['reason']}", set()).add(key)
    for reason, keys in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"  {step} {len(keys):4} {reason[:300]}   {min(keys, key=str)}")
