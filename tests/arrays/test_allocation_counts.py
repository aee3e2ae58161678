"""The counts of the memory of arrays: scopes, what is freed, threads, and the report."""

from __future__ import annotations

import gc
import io
import threading

import numpy as np
import pytest

import jwarp as wp
from jwarp.arrays import allocation_counts


@pytest.fixture(autouse=True)
def cleared():
    gc.collect()
    allocation_counts.clear()
    yield
    allocation_counts.clear()


def report(tracker):
    file = io.StringIO()
    tracker.report(file=file)
    return file.getvalue()


def test_sizes_follow_arrays_that_are_made_and_freed():
    with wp.ScopedMemoryTracker(print=False):
        a = wp.zeros(100, dtype=wp.float32)
        b = wp.array(np.ones((4, 3)), dtype=wp.vec3d, shape=(4,))
        found = allocation_counts.totals()
        assert (found.made, found.live) == (2, 2)
        assert found.made_bytes == found.current == found.peak == 400 + 4 * 24
        del a
        gc.collect()
        found = allocation_counts.totals()
        assert (found.made, found.live, found.current, found.peak) == (2, 1, 96, 496)
    wp.zeros(7)
    assert allocation_counts.totals().made == 2
    del b
    gc.collect()
    assert allocation_counts.totals().live == 0


def test_scopes_nest_and_the_report_names_what_is_alive():
    with wp.ScopedMemoryTracker("outer", print=False) as tracker:
        kept = [wp.zeros(10, dtype=wp.float32)]
        with wp.ScopedMemoryTracker("inner", print=False):
            kept.append(wp.zeros((2, 3), dtype=wp.int64))
            kept.append(wp.zeros(1024, dtype=wp.int64))
    lines = [line.strip() for line in report(tracker).splitlines()]
    assert lines[lines.index("outer:") + 1] == "cpu: 1 allocs, 40 B"
    assert lines[lines.index("outer/inner:") + 1] == "cpu: 2 allocs, 8.05 KB"
    sizes = [line.split(" : ")[0] for line in lines if " : " in line]
    assert sizes == ["8.00 KB", "48 B", "40 B"]
    assert any("array[int64, (2, 3)]" in line and "test_allocation_counts.py:" in line for line in lines)
    file = io.StringIO()
    tracker.report(file, sort="chronological", max_items=2)
    assert [line.split(" : ")[0].strip() for line in file.getvalue().splitlines() if " : " in line] == ["40 B", "48 B"]
    tracker.clear()
    assert "outer" not in report(tracker)
    assert len(kept) == 3


def test_each_thread_has_scopes_of_its_own():
    kept = []

    def work(name):
        with wp.ScopedMemoryTracker(name, print=False), wp.ScopedMemoryTracker("inner", print=False):
            kept.append(wp.zeros(5))

    with wp.ScopedMemoryTracker("main", print=False) as tracker:
        threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        text = report(tracker)
    assert "one/inner:" in text and "two/inner:" in text
    assert "main" not in text


def test_who_takes_the_report(capsys):
    taken = []
    with wp.ScopedMemoryTracker("a", report_func=taken.append):
        kept = wp.zeros(3)
    assert len(taken) == 1 and "array[float32, 3]" in taken[0]
    with wp.ScopedMemoryTracker("b"):
        wp.print_memory_report()
    assert capsys.readouterr().out.count("Allocation Tracking Report") == 2
    with wp.ScopedMemoryTracker("c", active=False):
        assert not allocation_counts.is_counting()
    assert capsys.readouterr().out == ""
    assert len(kept) == 3


def test_the_setting_counts_without_a_tracker():
    with pytest.raises(RuntimeError, match="not being tracked"):
        wp.print_memory_report()
    wp.config.track_memory = True
    try:
        kept = wp.zeros(6)
    finally:
        wp.config.track_memory = False
    assert allocation_counts.totals().current == 24
    with pytest.raises(wp.LaunchError, match="'size' or 'chronological'"):
        wp.print_memory_report(sort="name")
    assert len(kept) == 6
