"""Times contenders turn by turn, so that a disturbance of the machine meets all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Run = Callable[[], object]

# Threads that spin after their work have gone to sleep by then: those of OpenMP and XLA take 5 to 10 ms of processor
# time after a launch, and on two cores the next contender has one of them less for so long.
PAUSE = 0.015


@dataclass(frozen=True)
class Time:
    """Seconds for one run: the least and the median of all that were timed.

    `processor` is the least processor time, of all threads of this process together. It tells whether a
    long wall time is due to the contender or to others that keep the machine busy.
    """

    least: float
    median: float
    processor: float | None = None

    def per(self, count: int) -> Time:
        processor = None if self.processor is None else self.processor / count
        return Time(self.least / count, self.median / count, processor)


def summarize(seconds: list[float], processor: list[float] | None = None) -> Time:
    return Time(min(seconds), statistics.median(seconds), min(processor) if processor else None)


def interleave(runs: Mapping[str, Run], rounds: int, budget: float, pause: float = PAUSE) -> dict[str, Time]:
    """Time each of `runs` once in each of `rounds` rounds, or fewer if `budget` seconds are over.

    A run is repeated within its turn until it takes a millisecond, after one repetition that warms caches.
    Each round starts with another contender, so that none always follows the same one.
    """
    names = list(runs)
    repeats = {name: _repeats(runs[name]) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    processor: dict[str, list[float]] = {name: [] for name in names}
    deadline = time.perf_counter() + budget
    for turn in range(rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            time.sleep(pause)
            run = runs[name]
            run()
            start, used = time.perf_counter(), time.process_time()
            for _ in range(repeats[name]):
                run()
            seconds[name].append((time.perf_counter() - start) / repeats[name])
            processor[name].append((time.process_time() - used) / repeats[name])
        if turn >= 2 and time.perf_counter() > deadline:
            break
    return {name: summarize(seconds[name], processor[name]) for name in names}


def _repeats(run: Run) -> int:
    run()
    start = time.perf_counter()
    run()
    return max(1, int(1e-3 / max(time.perf_counter() - start, 1e-7)))
