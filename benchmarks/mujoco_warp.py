"""Measures the kernels of a step of mujoco_warp: each launch with Warp on the processor, and with jwarp in place.

    python benchmarks/mujoco_warp.py              # 4096 humanoids; Warp compiles for minutes the first time
    python benchmarks/mujoco_warp.py --quick      # fewer of them, for a smoke test
    python benchmarks/mujoco_warp.py --only smooth

A step is made with Warp, which keeps what each launch was given. Then the first launch of each kernel is made again and
again by both, in turns, from the same contents of all arrays. The ratio is Warp's least time over jwarp's.

What the two leave in the arrays is compared after the first turn, up to rounding. Where threads take slots in any
order, so may the numbers of an array be. The program fails where the two do not agree.
"""

from __future__ import annotations

import argparse
import inspect
import math
import os
import re
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

THREADS = 2
WORLDS, QUICK_WORLDS = 4096, 256
ROUNDS, QUICK_ROUNDS = 9, 3
BLOCK = 32  # lanes of a block in jwarp, where Warp's processor has one
# How far numbers may differ, relative to the largest one in their array, and the part of them that may differ more: of
# what is decided by a comparison, rounding may change single ones.
TOLERANCE, STRAY = 1e-4, 1e-3


@dataclass
class Launch:
    """A launch as Warp was given it; `before` has the contents of its arrays."""

    kernel: Any
    dims: tuple[int, ...]
    args: list[Any]
    before: list[Any]
    block_dim: int | None = None  # of a launch in blocks
    owners: Any = None  # of the memory of arrays, which some that are made of addresses do not hold

    @property
    def name(self) -> str:
        function = self.kernel.func
        return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__.replace('.<locals>', '')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_WORLDS} worlds and few repeats")
    parser.add_argument("--worlds", type=int, help=f"how many worlds ({WORLDS})")
    parser.add_argument("--only", default="", help="kernels with this in their names")
    parser.add_argument("--threads", type=int, default=THREADS)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # before thread pools start
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    warnings.simplefilter("ignore")
    worlds = options.worlds or (QUICK_WORLDS if options.quick else WORLDS)
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    print(f"{worlds} worlds; microseconds, the least of {rounds} rounds\n")
    print(f"{'kernel':<62}{'Warp':>10}{'jwarp':>10}{'ratio':>8}")
    ratios, differing = [], 0
    for launch in launches(worlds, options.only):
        try:
            warp_time, own_time, differences = measured(launch, rounds)
        except Exception as error:
            print(f"{launch.name[:60]:<62}{type(error).__name__}: {str(error).splitlines()[0][:60]}")
            continue
        ratios.append((warp_time / own_time, launch.name))
        print(f"{launch.name[:60]:<62}{warp_time * 1e6:>10.1f}{own_time * 1e6:>10.1f}{ratios[-1][0]:>8.2f}", flush=True)
        for difference in differences:
            print(f"  DIFFERS: {difference}", flush=True)
        differing += bool(differences)
    if ratios:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in ratios))
        least, name = min(ratios)
        print(f"\n{len(ratios)} kernels: geometric mean {mean:.2f}, least {least:.2f} ({name})")
    if differing:
        sys.exit(f"{differing} kernels left something else in their arrays than Warp did")


# -- a step, and its launches


def launches(worlds: int, only: str) -> list[Launch]:
    """The first launch of each kernel in the second step, with what its arrays held."""
    import mujoco
    import warp

    warp.config.quiet = True
    warp.config.enable_backward = False
    # This file has the name of the package.
    here = str(Path(__file__).parent)
    with mock.patch.object(sys, "path", [p for p in sys.path if os.path.abspath(p or ".") != here]):
        import mujoco_warp

    path = Path(mujoco_warp.__file__).parent / "test_data" / "humanoid" / "humanoid.xml"
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    m = mujoco_warp.put_model(model)
    d = mujoco_warp.put_data(model, data, nworld=worlds, nconmax=24, njmax=64)
    mujoco_warp.step(m, d)
    found: dict[Any, Launch] = {}
    with _recording(found, only):
        mujoco_warp.step(m, d)
    for launch in found.values():
        launch.owners = m, d
    return list(found.values())


@contextmanager
def _recording(found: dict[Any, Launch], only: str) -> Iterator[None]:
    import warp

    launch, launch_tiled = warp.launch, warp.launch_tiled

    def note(kernel: Any, dim: Any, inputs: Any, outputs: Any, block_dim: int | None) -> None:
        given = [*(inputs or ()), *(outputs or ())]
        if kernel.is_generic:
            kernel = kernel.add_overload(kernel.infer_argument_types(given))
        dims = (int(dim),) if np.ndim(dim) == 0 else tuple(map(int, dim))
        made = Launch(kernel, dims, given, [], block_dim)
        if kernel not in found and 0 not in dims and only in made.name:
            made.before = [a.numpy().copy() if isinstance(a, warp.array) and a.ptr else None for a in given]
            found[kernel] = made

    def noted(kernel: Any, dim: Any, inputs: Any = (), outputs: Any = (), *args: Any, **kwargs: Any) -> Any:
        note(kernel, dim, inputs, outputs, None)
        return launch(kernel, dim, inputs, outputs, *args, **kwargs)

    def noted_tiled(*args: Any, **kwargs: Any) -> Any:
        told = inspect.signature(launch).bind(*args, **kwargs).arguments
        note(told["kernel"], told["dim"], told.get("inputs"), told.get("outputs"), told.get("block_dim", BLOCK))
        return launch_tiled(*args, **kwargs)

    with mock.patch.object(warp, "launch", noted), mock.patch.object(warp, "launch_tiled", noted_tiled):
        yield


# -- one launch with both


def measured(launch: Launch, rounds: int) -> tuple[float, float, list[str]]:
    """Warp's least time and jwarp's, and how the results of the two differ."""
    import warp

    import jwarp

    arrays = [None if b is None else a.numpy() for a, b in zip(launch.args, launch.before, strict=True)]
    copies: dict[Any, Any] = {}  # arguments that are one array stay one
    own: list[Any] = [
        None if b is None else copies.setdefault((a.ptr, a.dtype, a.shape, a.strides), b.copy())
        for a, b in zip(launch.args, launch.before, strict=True)
    ]
    given = [
        (None if isinstance(a, warp.array) else a) if b is None else b for a, b in zip(launch.args, own, strict=True)
    ]
    dims = launch.dims if launch.block_dim is None else (*launch.dims, launch.block_dim)
    of_warp = launch.dims if launch.block_dim is None else (*launch.dims, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = jwarp.launch(launch.kernel, dims, inputs=given, block_dim=launch.block_dim, record_cmd=True)
    theirs = warp.launch(launch.kernel, of_warp, inputs=launch.args, block_dim=1, record_cmd=True)

    def restore(targets: list[Any]) -> None:
        for target, before in zip(targets, launch.before, strict=True):
            if target is not None and target.size:
                np.copyto(target, before)

    times: tuple[list[float], list[float]] = ([], [])
    differences: list[str] = []
    for turn in range(rounds + 1):
        for kept, run, targets in _turns(turn, times, (theirs.launch, arrays), (ours.launch, own)):
            restore(targets)
            start = time.perf_counter()
            run()
            kept.append(time.perf_counter() - start)
        if turn == 0:
            differences = list(_differences(launch, arrays, own))
    return min(times[0][1:]), min(times[1][1:]), differences


def _differences(launch: Launch, theirs: list[Any], ours: list[Any]) -> Iterator[str]:
    """What arrays differ in, beyond rounding."""
    in_order = not _takes_slots(launch.kernel)
    for parameter, x, y in zip(launch.kernel.adj.args, theirs, ours, strict=True):
        if x is None or not x.size:
            continue
        if not in_order:  # rows may be in any order
            x, y = (np.sort(a.ravel()) for a in (x, y))
        wrong = _apart(x, y)
        if wrong > STRAY * x.size:
            yield f"{parameter.label}: {wrong} of {x.size} numbers"


def _apart(x: Any, y: Any) -> int:
    """How many numbers of two arrays differ by more than rounding."""
    if x.dtype.names:
        return max(_apart(x[name], y[name]) for name in x.dtype.names)
    if x.dtype.kind != "f":
        return int(np.count_nonzero(x != y))
    finite = np.abs(x[np.isfinite(x)])
    with np.errstate(invalid="ignore"):
        near = np.abs(x - y) <= TOLERANCE * (finite.max() if finite.size else 0.0)
    return int(np.count_nonzero(~(near | (x == y) | (np.isnan(x) & np.isnan(y)))))


def _takes_slots(kernel: Any) -> bool:
    """Whether threads read what an atomic operation found: then they may take what it counts in any order."""
    import jwarp

    text = str(jwarp.inspect(kernel, "ir"))
    found = re.findall(r"(%\d+): \S+ = atomic_", text)
    return any(len(re.findall(rf"{name}\b", text)) > 1 for name in found)


def _turns(turn: int, times: Any, *contenders: tuple[Callable[[], Any], list[Any]]) -> list[tuple]:
    """Those who run in this turn, each with the list for its times; another one begins each time."""
    order = [(kept, *contender) for kept, contender in zip(times, contenders, strict=True)]
    return order[turn % len(order) :] + order[: turn % len(order)]


if __name__ == "__main__":
    main()
