"""The table of what came of the kernels of each library."""

from __future__ import annotations

import collections
import re
from statistics import median

# Kernels that use these are counted aside: by what their refusals name.
ASIDE = {
    "meshes, trees and grids": r"mesh_|bvh_|hash_grid|HashGrid|Mesh\b|Bvh",
    "volumes": r"volume_|Volume|nanovdb",
    "textures": r"texture|Texture",
    "native code": r"in C\+\+|func_native|native",
}
ORDER = ("fault", "disagree", "agree", "vacuous", "order", "refused", "warp")


def aside(reason: str) -> str | None:
    """Under what a kernel that was refused for this reason is counted aside, if it is."""
    return next((name for name, pattern in ASIDE.items() if re.search(pattern, reason)), None)


def print_table(rows: list[dict]) -> None:
    """Print the counts of kernels, by library, and the reasons for what did not come out."""
    for library in dict.fromkeys(row.get("library", "Warp") for row in rows):
        _print_library(library, [row for row in rows if row.get("library", "Warp") == library])


def _print_library(library: str, rows: list[dict]) -> None:
    by: dict[str, dict[tuple, list[dict]]] = {"forward": {}, "adjoint": {}, "launch": {}}
    for row in rows:
        key = (row["name"], row.get("line")) if row["step"] != "launch" else (row["name"],)
        by[row["step"]].setdefault(key, []).append(row)
    forward, backward = by["forward"], by["adjoint"]
    groups: collections.Counter[str] = collections.Counter()
    tried = {}
    for key, found in forward.items():
        if all(r["verdict"] == "warp" for r in found):  # what Warp refuses, too, and generics that are not launched
            continue
        found = [r for r in found if r["verdict"] != "warp"]
        group = next((g for r in found if r["verdict"] != "compiled" and (g := aside(r["reason"]))), None)
        if group:
            groups[group] += 1
        else:
            tried[key] = found
    compiled = [key for key, found in tried.items() if all(r["verdict"] == "compiled" for r in found)]
    good = [k for k in compiled if all(r["verdict"] in ("compiled", "none") for r in backward.get(k, ()))]
    refused = [k for k in compiled if k not in good and all(r["verdict"] != "fault" for r in backward[k])]
    print(f"{library}: {len(forward)} kernels, aside {sum(groups.values())} {dict(groups)}")
    print(f"  forward {len(compiled)} of {len(tried)} ({len(compiled) / max(1, len(tried)):.1%})")
    print(f"  adjoint {len(good)} of {len(tried)} ({len(good) / max(1, len(tried)):.1%}), {len(refused)} refused by name")
    seconds = sorted((r["seconds"], r["name"]) for found in tried.values() for r in found if r["verdict"] == "compiled")
    if seconds and not by["launch"]:
        print(f"  compile median {median(s for s, _ in seconds):.4f} s, largest {seconds[-1]}, sum {sum(s for s, _ in seconds):.1f}")
        backs = sorted((r["seconds"], r["name"]) for found in backward.values() for r in found if r["verdict"] == "compiled")
        if backs:
            print(f"  adjoint median {median(s for s, _ in backs):.4f} s, largest {backs[-1]}, sum {sum(s for s, _ in backs):.1f}")
    best = [min(found, key=lambda r: ORDER.index(r["verdict"]))["verdict"] for found in by["launch"].values()]
    counts = collections.Counter(best)
    print("  launches: " + ", ".join(f"{counts[v]} {v}" for v in ORDER))
    for step in ("forward", "adjoint", "launch"):
        _print_reasons(step, by[step])


def _print_reasons(step: str, rows: dict[tuple, list[dict]]) -> None:
    reasons: dict[str, set[tuple]] = {}
    for key, found in rows.items():
        for r in found:
            if r["verdict"] not in ("compiled", "agree", "none"):
                reasons.setdefault(f"{r['verdict']}: {r['reason']}", set()).add(key)
    for reason, keys in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"  {step} {len(keys):4} {reason[:300]}   {sorted(keys, key=str)[0]}")
