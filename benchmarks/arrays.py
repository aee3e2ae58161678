"""Launches on arrays that change beside Warp's: eager, recorded and captured, in microseconds; `python` this file.

Both libraries take turns in one process, and the best of several rounds counts. The kernel is small, so that what is
measured is what a launch costs. A launch on a tape and its way back are of new tapes each time, on the same arrays.
"""

from __future__ import annotations

import itertools
import timeit
from collections.abc import Callable
from typing import Any

import warp

import jwarp

N = 64
IN_GRAPH = 100
ROUNDS, CALLS = 7, 2000


def kernel_of(w: Any) -> Any:
    """y = s x, in a library."""

    def scaled(x: w.array(dtype=float), s: float, y: w.array(dtype=float)):  # type: ignore[valid-type]
        i = w.tid()
        y[i] = s * x[i]

    return w.kernel(scaled)


def ways(w: Any) -> dict[str, tuple[Callable[[], Any], int]]:
    """What is measured of a library, and how many launches a call of it is."""
    kernel, x, y = kernel_of(w), w.ones(N, dtype=float, device="cpu"), w.zeros(N, dtype=float, device="cpu")
    record = w.launch(kernel, N, [x, 2.0], [y], device="cpu", record_cmd=True)
    found: dict[str, tuple[Callable[[], Any], int]] = {
        "launch": (lambda: w.launch(kernel, N, [x, 2.0], [y], device="cpu"), 1),
        "replay": (record.launch, 1),
        "a[1:3]": (lambda: x[1:3], 1),
        "zeros": (lambda: w.zeros(N, dtype=float, device="cpu"), 1),
        "copy": (lambda: w.copy(y, x), 1),
    }
    with w.ScopedCapture(device="cpu") as capture:
        for _ in range(IN_GRAPH):
            w.launch(kernel, N, [x, 2.0], [y], device="cpu")
    found["graph, for each launch"] = (lambda: w.capture_launch(capture.graph), IN_GRAPH)
    chain = [w.zeros(N, dtype=float, device="cpu", requires_grad=True) for _ in range(IN_GRAPH + 1)]
    seed, tapes = {chain[-1]: w.ones(N, dtype=float, device="cpu")}, [w.Tape()]

    def record_all() -> None:
        tapes[0] = w.Tape()
        with tapes[0]:
            for a, b in itertools.pairwise(chain):
                w.launch(kernel, N, [a, 2.0], [b], device="cpu")

    def all_of_it() -> None:
        record_all()
        tapes[0].backward(grads=seed)
        tapes[0].zero()

    found["launch on a tape"] = (record_all, IN_GRAPH)
    found["on a tape, and back"] = (all_of_it, IN_GRAPH)
    with w.ScopedCapture(device="cpu") as taped:
        all_of_it()
    found["the same in a graph"] = (lambda: w.capture_launch(taped.graph), IN_GRAPH)
    return found


def main() -> None:
    """Print the table."""
    warp.config.quiet = True
    columns = {"jwarp": ways(jwarp), "Warp": ways(warp)}
    print(f"{'':24}" + "".join(f"{name:>10}" for name in columns) + f"{'ratio':>10}")
    for row in columns["jwarp"]:
        best = dict.fromkeys(columns, float("inf"))
        for _ in range(ROUNDS):
            for name, rows in columns.items():
                call, count = rows[row]
                calls = max(CALLS // count, 20)
                best[name] = min(best[name], timeit.timeit(call, number=calls) / calls / count * 1e6)
        print(f"{row:24}" + "".join(f"{x:10.2f}" for x in best.values()) + f"{best['Warp'] / best['jwarp']:10.1f}")


if __name__ == "__main__":
    main()
