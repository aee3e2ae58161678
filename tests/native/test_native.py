"""The launcher of the native module, called without XLA."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
from launch_format import IN_OUT, INPUT, ZEROS, make_launch
from native_kernels import (
    ARRAY,
    F32,
    F64,
    OWN,
    S32,
    SCALAR,
    SCALE_PLAN,
    STORED,
    U64,
    UNKNOWN,
    Frame,
    child_environment,
    make_plan,
    new_fingerprint,
    python_entry,
    register,
    scale_entry,
    scale_launch,
)

from jwarp import _native
from jwarp.compiler.cpu import compile_program

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def default_state():
    _native.set_compiler(None)
    yield
    _native.set_thread_limit(0)
    _native.set_compiler(compile_program)


def nothing(frame: Frame) -> None:
    """An entry that touches no memory."""


# Launch, batch, repeat


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_batch_axes_and_masks(seed: int, threads: int) -> None:
    """y += x + k over random dimensions, batch extents and masks agrees with NumPy's broadcasting."""
    random = np.random.default_rng(seed)
    rows, columns = (int(n) for n in random.integers(1, [5, 200]))
    batch = [int(n) for n in random.integers(1, 4, size=random.integers(0, 4))]
    repeat = int(random.integers(1, 3))

    def body(frame: Frame) -> None:
        x, y = (frame.array(p, (rows, columns)) for p in (0, 2))
        y[frame.rows, frame.columns] += x[frame.rows, frame.columns] + frame.array(1, ())

    kinds = [(ARRAY, 2, F32, UNKNOWN), (SCALAR, 0, F32, UNKNOWN), (ARRAY, 2, F32, UNKNOWN)]
    fingerprint = register(make_plan(2, kinds), body)
    full = (1 << len(batch)) - 1
    masks = [int(random.integers(0, full + 1)) for _ in range(2)] + [full]
    x, k, y = (
        random.standard_normal([n for a, n in enumerate(batch) if mask >> a & 1] + core).astype(np.float32)
        for mask, core in zip(masks, ([rows, columns], [], [rows, columns]), strict=True)
    )

    def broadcast(value: np.ndarray, mask: int, core: int) -> np.ndarray:
        shape = [n if mask >> a & 1 else 1 for a, n in enumerate(batch)]
        return value.reshape([*shape, *([1] * 2 if core == 0 else [rows, columns])])

    expected = y.copy()
    for _ in range(repeat):
        expected += broadcast(x, masks[0], 2) + broadcast(k, masks[1], 0)
    bindings = [(0, -1, INPUT, masks[0]), (1, -1, INPUT, masks[1]), (2, 0, IN_OUT, full)]
    # Repeats of an element are not ordered against each other on several threads.
    _native.set_thread_limit(0, eager=threads > 1 and repeat == 1)
    result = np.empty_like(y)
    launch = make_launch([rows, columns], bindings, batch, repeat)
    _native.run_launch(fingerprint, launch, [x, k, y, result], threads)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("column_group", [1, 64])
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize(
    ("dims", "batch", "repeat"),
    [
        ((1,), (), 1),
        ((1000,), (), 1),
        ((7, 65), (3,), 2),
        ((300, 2), (), 1),
        ((2, 3, 5, 130), (2, 2), 1),
        ((2, 5000), (200,), 1),
    ],
)
def test_every_thread_runs_exactly_once(
    dims: tuple[int, ...], batch: tuple[int, ...], repeat: int, threads: int, column_group: int
) -> None:
    """The rectangles of all calls cover each row and column once per batch element and repeat."""
    rows, columns = int(np.prod(dims[:-1])), dims[-1]
    counts = np.zeros((*batch, *dims), np.int32)

    def body(frame: Frame) -> None:
        assert 0 <= frame.row_begin < frame.row_end <= rows
        assert 0 <= frame.column_begin < frame.column_end <= columns
        frame.array(0, (rows, columns), np.int32)[frame.rows, frame.columns] += 1

    plan = make_plan(len(dims), [(ARRAY, len(dims), S32, UNKNOWN)], column_group=column_group)
    fingerprint = register(plan, body)
    launch = make_launch(dims, [(0, 0, IN_OUT, (1 << len(batch)) - 1)], batch, repeat)
    _native.set_thread_limit(0, eager=threads > 1)
    _native.run_launch(fingerprint, launch, [counts, counts], threads)
    np.testing.assert_array_equal(counts, repeat)


def test_launch_of_no_threads_still_sets_initial_contents() -> None:
    fingerprint = register(make_plan(1, [(ARRAY, 1, F32, STORED), (ARRAY, 1, F32, UNKNOWN)]), nothing)
    initial = np.arange(5, dtype=np.float32)
    for dims, batch, repeat in [([0], [], 1), ([5], [], 0), ([5], [0], 1)]:
        zeroed, kept = np.full(5, 7, np.float32), np.full(5, 7, np.float32)
        launch = make_launch(dims, [(-1, 0, ZEROS, 0), (0, 1, IN_OUT, 0)], batch, repeat)
        _native.run_launch(fingerprint, launch, [initial, zeroed, kept])
        np.testing.assert_array_equal(zeroed, 0)
        np.testing.assert_array_equal(kept, initial)


# Zero fill


@pytest.mark.parametrize(
    ("cover", "dims", "batch", "mask", "repeat", "zeroed", "fill"),
    [
        (UNKNOWN, [4], [], 0, 1, True, 0),
        (STORED, [4], [], 0, 1, False, 0),
        (STORED, [3], [], 0, 1, True, 0),  # not every element has a thread
        (STORED, [4], [2], 0, 1, False, 0),
        (STORED, [4], [], 0, 2, False, 0),
        (OWN, [4], [], 0, 1, False, 1),
        (OWN, [3], [], 0, 1, True, 0),
        (OWN, [4], [2], 1, 1, False, 1),
        (OWN, [4], [2], 0, 1, True, 0),  # batch elements share the output
        (OWN, [4], [1], 0, 1, False, 1),
        (OWN, [4], [], 0, 2, True, 0),
    ],
)
def test_zero_fill(
    cover: int, dims: list[int], batch: list[int], mask: int, repeat: int, zeroed: bool, fill: int
) -> None:
    fills = set()
    fingerprint = register(make_plan(1, [(ARRAY, 1, F32, cover)]), lambda frame: fills.add(frame.fill))
    result = np.full([*batch, 4] if mask else [4], 7, np.float32)
    _native.run_launch(fingerprint, make_launch(dims, [(-1, 0, ZEROS, mask)], batch, repeat), [result])
    np.testing.assert_array_equal(result, 0 if zeroed else 7)
    assert fills == {fill}


def test_large_fill_is_complete() -> None:
    fingerprint = register(make_plan(1, [(ARRAY, 1, F32, UNKNOWN)]), nothing)
    result = np.full(2_500_001, 7, np.float32)
    _native.run_launch(fingerprint, make_launch([1], [(-1, 0, ZEROS, 0)]), [result], threads=3)
    assert not result.any()


# Clauses


def run_versions(plan: np.ndarray, launch: np.ndarray, operands: list[np.ndarray]) -> list[str]:
    """The versions that ran, in the order of the calls."""
    versions: list[str] = []
    fingerprint = register(plan, lambda _: versions.append("fast"), lambda _: versions.append("checked"))
    _native.run_launch(fingerprint, launch, operands)
    return versions


@pytest.mark.parametrize("seed", range(20))
def test_clauses_on_dimensions_and_extents(seed: int) -> None:
    """A clause holds if one alternative does, the fast version runs if all clauses hold."""
    random = np.random.default_rng(seed)
    dims = [int(n) for n in random.integers(1, 5, size=2)]
    extents = [int(n) for n in random.integers(0, 5, size=3)]
    symbols = [*dims, 1, 1, *extents]
    clauses = [
        [
            (
                {int(s): int(random.integers(-3, 4)) for s in random.choice(7, 2, replace=False)},
                int(random.integers(-2, 9)),
            )
            for _ in range(random.integers(1, 3))
        ]
        for _ in range(random.integers(0, 3))
    ]
    holds = all(
        any(sum(c * symbols[s] for s, c in terms.items()) + constant >= 0 for terms, constant in clause)
        for clause in clauses
    )
    plan = make_plan(2, [(SCALAR, 0, F64, UNKNOWN), (ARRAY, 3, F32, UNKNOWN)], clauses)
    launch = make_launch(dims, [(0, -1, INPUT, 0), (1, -1, INPUT, 0)])
    operands = [np.array(2.5), np.zeros(extents, np.float32)]
    assert set(run_versions(plan, launch, operands)) == {"fast" if holds else "checked"}


@pytest.mark.parametrize(("column_group", "calls"), [(1, 10), (64, 1)])
def test_columns_that_stay_together(column_group: int, calls: int) -> None:
    """Of ten blocks in a row each may go to another thread; ten threads are part of one vector."""
    spans: list[tuple[int, int]] = []
    plan = make_plan(1, [(ARRAY, 1, F32, UNKNOWN)], column_group=column_group)
    fingerprint = register(plan, lambda frame: spans.append((frame.column_begin, frame.column_end)))
    _native.set_thread_limit(0, eager=True)
    _native.run_launch(fingerprint, make_launch([10], [(0, -1, INPUT, 0)]), [np.zeros(1, np.float32)], 2)
    assert len(spans) == calls
    assert sorted(spans)[0][0] == 0 and sorted(spans)[-1][1] == 10


def test_empty_clause_never_holds() -> None:
    assert run_versions(make_plan(1, [], [[]]), make_launch([1], []), []) == ["checked"]


def test_clauses_that_overflow_do_not_hold() -> None:
    largest = 2**63 - 1
    for symbols, holds in (({0: largest}, True), ({0: -largest}, False), ({0: largest, 1: largest}, True)):
        plan = make_plan(2, [(SCALAR, 0, S32, UNKNOWN)], [[(symbols, -largest)]])
        launch = make_launch([3, 3], [(0, -1, INPUT, 0)])
        expected = "fast" if holds else "checked"
        assert set(run_versions(plan, launch, [np.array(1, np.int32)])) == {expected}
    # Four products near 2^126 do not fit in 128 bits.
    terms = {4 + p: largest for p in range(4)}
    plan = make_plan(1, [(SCALAR, 0, 5, UNKNOWN)] * 4, [[(terms, 0)]])
    launch = make_launch([1], [(p, -1, INPUT, 0) for p in range(4)])
    assert run_versions(plan, launch, [np.array(largest)] * 4) == ["checked"]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32])
def test_clauses_on_scalars_are_decided_per_batch_element(dtype: type) -> None:
    """k <= extent, with a different k in each batch element."""
    codes = {"int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8}
    limits = np.iinfo(dtype)
    k = np.array([3, 5, limits.max, limits.min, 4], dtype)
    plan = make_plan(
        1,
        [(SCALAR, 0, codes[np.dtype(dtype).name], UNKNOWN), (ARRAY, 1, F32, UNKNOWN)],
        [[({4: -1, 5: 1}, 0)]],
    )
    launch = make_launch([2], [(0, -1, INPUT, 1), (1, -1, INPUT, 0)], [5])
    versions = run_versions(plan, launch, [k, np.zeros(4, np.float32)])
    assert versions == ["fast" if int(value) <= 4 else "checked" for value in k]


def test_symbols_reach_the_entry() -> None:
    seen: list[list[int]] = []
    plan = make_plan(
        1,
        [
            (ARRAY, 2, F32, UNKNOWN),
            (SCALAR, 0, U64, UNKNOWN),
            (SCALAR, 0, S32, UNKNOWN),
            (ARRAY, 0, F32, UNKNOWN),
        ],
        [[({6: 1}, 100)]],
    )
    fingerprint = register(plan, lambda frame: seen.append(frame.symbols[:7]))
    launch = make_launch([2], [(p, -1, INPUT, 0) for p in range(4)])
    scalars = [np.array(9, np.uint64), np.array(-7, np.int32), np.array(0, np.float32)]
    _native.run_launch(fingerprint, launch, [np.zeros((3, 5), np.float32), *scalars])
    assert seen == [[2, 1, 1, 1, 3, 5, -7]]


# Many parameters and symbols


def test_more_parameters_than_fit_on_the_stack() -> None:
    count = 70
    fingerprint = register(
        make_plan(1, [(SCALAR, 0, S32, UNKNOWN)] * (count - 1) + [(ARRAY, 1, S32, OWN)], [[({4: 1}, 0)]]),
        lambda frame: frame.array(count - 1, (1,), np.int32).__iadd__(
            sum(int(frame.array(p, (), np.int32)) for p in range(count - 1))
        ),
    )
    bindings = [(p, -1, INPUT, 0) for p in range(count - 1)] + [(-1, 0, ZEROS, 0)]
    result = np.full(1, 99, np.int32)
    operands = [np.array(p, np.int32) for p in range(count - 1)]
    _native.run_launch(fingerprint, make_launch([1], bindings), [*operands, result])
    assert result[0] == sum(range(count - 1))


# Compiled code and floating-point state


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_compiled_entry_keeps_subnormals_on_every_thread(threads: int) -> None:
    fingerprint = new_fingerprint()
    _native.register_kernel(fingerprint, SCALE_PLAN, scale_entry(), 0)
    x = np.random.default_rng(0).uniform(-1, 1, 100_003).astype(np.float32) * np.float32(1e-38)
    y = np.empty_like(x)
    _native.set_thread_limit(0, eager=threads > 1)
    _native.run_launch(fingerprint, scale_launch(x.size), [x, np.array(0.5, np.float32), y], threads)
    np.testing.assert_array_equal(y, x * np.float32(0.5))


def test_launches_run_concurrently() -> None:
    fingerprint = new_fingerprint()
    _native.register_kernel(fingerprint, SCALE_PLAN, scale_entry(), 0)
    failures = []

    def call(seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal(20_000).astype(np.float32)
        y, k = np.empty_like(x), np.array(seed, np.float32)
        for _ in range(20):
            y[:] = 0
            _native.run_launch(fingerprint, scale_launch(x.size), [x, k, y], threads=2)
            if not np.array_equal(y, x * k):
                failures.append(seed)

    _native.set_thread_limit(0, eager=True)
    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# Registration and compiling on demand


def test_registration() -> None:
    plan = make_plan(1, [(ARRAY, 1, F32, UNKNOWN)])
    fingerprint = new_fingerprint()
    assert _native.known_versions(fingerprint) == (False, False)
    _native.register_kernel(fingerprint, plan.tobytes(), 0, 0)
    assert _native.known_versions(fingerprint) == (False, False)
    _native.register_kernel(fingerprint, plan, python_entry(nothing), 0)
    assert _native.known_versions(fingerprint) == (True, False)
    _native.register_kernel(fingerprint, plan, 0, python_entry(nothing))
    assert _native.known_versions(fingerprint) == (True, True)
    with pytest.raises(ValueError, match="jwarp: .* another plan"):
        _native.register_kernel(fingerprint, make_plan(2, [(ARRAY, 1, F32, UNKNOWN)]), 0, 0)
    with pytest.raises(ValueError, match="jwarp: .* fingerprint"):
        _native.register_kernel("", plan, 0, 0)


def test_missing_version_is_compiled_when_needed() -> None:
    plan = make_plan(1, [(SCALAR, 0, S32, UNKNOWN)], [[({4: 1}, 0)]])
    calls, ran = [], []

    def compile_kernel(fingerprint: str, program: bytes, version: str) -> None:
        calls.append((fingerprint, program, version))
        address = python_entry(lambda _: ran.append(version))
        _native.register_kernel(fingerprint, plan, *((address, 0) if version == "fast" else (0, address)))

    _native.set_compiler(compile_kernel)
    fingerprint = new_fingerprint()
    launch = make_launch([1], [(0, -1, INPUT, 0)])
    for k in (1, 2, -1, -1):
        _native.run_launch(fingerprint, launch, [np.array(k, np.int32)])
    assert calls == [(fingerprint, b"", "fast"), (fingerprint, b"", "checked")]
    assert ran == ["fast", "fast", "checked", "checked"]


def test_nothing_is_written_before_a_failed_compile() -> None:
    fingerprint = register(make_plan(1, [(ARRAY, 1, F32, UNKNOWN)]))
    result = np.full(3, 7, np.float32)

    def fail(*_: object) -> None:
        raise KeyError("no such kernel")

    launch = make_launch([3], [(-1, 0, ZEROS, 0)])
    with pytest.raises(RuntimeError, match=r"^jwarp: .*is not compiled.*import jwarp"):
        _native.run_launch(fingerprint, launch, [result])
    _native.set_compiler(fail)
    with pytest.raises(RuntimeError, match="^jwarp: KeyError: 'no such kernel'"):
        _native.run_launch(fingerprint, launch, [result])
    _native.set_compiler(lambda *_: None)
    with pytest.raises(RuntimeError, match="^jwarp: the compiler did not register"):
        _native.run_launch(fingerprint, launch, [result])
    with pytest.raises(RuntimeError, match="^jwarp: the compiler did not register"):
        _native.run_launch(new_fingerprint(), launch, [result])
    np.testing.assert_array_equal(result, 7)


# Refusals


def test_wrong_arrays_are_refused() -> None:
    kinds = [(ARRAY, 2, F32, UNKNOWN), (ARRAY, 1, F32, UNKNOWN)]
    fingerprint = register(make_plan(1, kinds), nothing)
    launch = make_launch([4], [(0, -1, INPUT, 1), (-1, 0, ZEROS, 0)], [3])
    x, y = np.zeros((3, 4, 2), np.float32), np.zeros(4, np.float32)
    read_only = y.copy()
    read_only.flags.writeable = False
    misaligned = np.zeros(17, np.uint8)[1:].view(np.float32)
    _native.run_launch(fingerprint, launch, [x, y])
    for operands, message in [
        ([x.astype(np.float64), y], "dtype"),
        ([x.astype(">f4"), y], "dtype"),
        ([x.astype(np.complex64), y], "dtype"),
        ([x[0], y], "rank"),
        ([x[:2], y], "batch extents"),
        ([x[:, :, ::2], y], "not contiguous"),
        ([x, read_only], "read-only"),
        ([x, misaligned], "not aligned"),
        ([x], "operands and 1 results"),
        ([x, y, y], None),
        ([], "fewer arrays"),
    ]:
        if message is None:
            _native.run_launch(fingerprint, launch, operands)  # an unused operand is no fault
            continue
        with pytest.raises(ValueError, match=f"^jwarp: .*{message}"):
            _native.run_launch(fingerprint, launch, operands)
    with pytest.raises(TypeError, match="not a NumPy array"):
        _native.run_launch(fingerprint, launch, [x, [0.0]])


def test_extents_beyond_int32_are_refused() -> None:
    fingerprint = register(make_plan(1, [(ARRAY, 2, F32, UNKNOWN)]), nothing)
    launch = make_launch([4], [(0, -1, INPUT, 0)])
    _native.run_launch(fingerprint, launch, [np.empty((2**31 - 1, 0), np.float32)])
    with pytest.raises(ValueError, match=r"parameter 0 .* beyond 2\^31 - 1"):
        _native.run_launch(fingerprint, launch, [np.empty((2**31, 0), np.float32)])


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (make_launch([4], [(0, -1, INPUT, 0)]), "has 1 parameters, its kernel has 2"),
        (make_launch([4, 2], [(0, -1, INPUT, 0), (-1, 0, ZEROS, 0)]), "its kernel has only 1"),
        (make_launch([-1], [(0, -1, INPUT, 0), (-1, 0, ZEROS, 0)]), "a launch dimension is -1"),
        (make_launch([2], [(0, -1, INPUT, 0), (-1, 0, ZEROS, 0)], repeat=2**62), "too large"),
        (make_launch([2**31], [(0, -1, INPUT, 0), (-1, 0, ZEROS, 0)]), "a launch dimension"),
        (make_launch([4], [(0, -1, INPUT, 1), (-1, 0, ZEROS, 0)]), "batch mask"),
        (make_launch([4], [(0, -1, ZEROS, 0), (-1, 0, ZEROS, 0)]), "role 1"),
        (make_launch([4], [(-1, -1, INPUT, 0), (-1, 0, ZEROS, 0)]), "role 0"),
        (make_launch([4], [(-1, 0, ZEROS, 0), (-1, 0, ZEROS, 0)]), "exactly one parameter"),
        (make_launch([4], [(0, -1, INPUT, 0), (-1, 1, ZEROS, 0)]), "exactly one parameter"),
        (make_launch([4], [(0, 0, IN_OUT, 0), (-1, 1, ZEROS, 0)]), "scalar"),
        (np.append(make_launch([4], [(0, -1, INPUT, 0), (-1, 0, ZEROS, 0)]), 0), "too many"),
        (np.array([1], np.int64), "format 1, this version of jwarp reads 2"),
        (np.array([], np.int64), "ends before the format"),
    ],
)
def test_wrong_launches_are_refused(launch: np.ndarray, message: str) -> None:
    fingerprint = register(make_plan(1, [(SCALAR, 0, F32, UNKNOWN), (ARRAY, 1, F32, UNKNOWN)]), nothing)
    operands = [np.zeros((), np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32)]
    with pytest.raises(ValueError, match=f"^jwarp: .*{message}"):
        _native.run_launch(fingerprint, launch, operands[: 3 if message == "scalar" else 2])


def test_damaged_plans_are_refused() -> None:
    good = make_plan(2, [(ARRAY, 2, F32, OWN), (SCALAR, 0, S32, UNKNOWN)], [[({5: 1, 6: -1}, 3)]])
    for end in range(good.size):
        with pytest.raises(ValueError, match="^jwarp: the plan is damaged"):
            _native.register_kernel(new_fingerprint(), good[:end], 0, 0)
    for source in (good.astype(np.int32), good.reshape(1, -1), good[::2], b"1234567"):
        with pytest.raises(ValueError, match="^jwarp: a plan must be"):
            _native.register_kernel(new_fingerprint(), source, 0, 0)


def test_random_damage_never_crashes() -> None:
    """Numbers changed at random give a launch that runs, or a ValueError."""
    random = np.random.default_rng(0)
    plan = make_plan(
        2, [(ARRAY, 2, F32, OWN), (SCALAR, 0, S32, UNKNOWN), (ARRAY, 1, F32, STORED)], [[({5: 1, 6: -1}, 3)]]
    )
    launch = make_launch([3, 4], [(0, -1, INPUT, 1), (1, -1, INPUT, 0), (-1, 0, ZEROS, 3)], [2, 2])
    operands = [np.zeros((2, 3, 4), np.float32), np.array(1, np.int32), np.zeros((2, 2, 3), np.float32)]
    entry = python_entry(nothing)
    small = np.arange(-2, 6)
    extreme = np.array([-(2**63), -(2**31), 2**31, 2**62, 2**63 - 1])
    outcomes = {"ran": 0, "refused": 0}
    for _ in range(3000):
        damaged_plan, damaged_launch = plan.copy(), launch.copy()
        if random.random() < 0.5:
            values = np.concatenate([small, extreme])
            damaged_plan[random.integers(plan.size)] = random.choice(values)
        for _ in range(random.integers(0, 3)):
            at = random.integers(launch.size)
            # A huge repeat or batch extent is a valid launch that never ends.
            values = small if 7 <= at <= 10 else np.concatenate([small, extreme])
            damaged_launch[at] = random.choice(values)
        try:
            fingerprint = new_fingerprint()
            _native.register_kernel(fingerprint, damaged_plan, entry, entry)
            _native.run_launch(fingerprint, damaged_launch, operands)
            outcomes["ran"] += 1
        except ValueError as error:
            assert str(error).startswith("jwarp: ")
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 200


def test_a_scalar_that_decides_shares_no_memory_with_a_result() -> None:
    """It would change after the version was chosen."""
    plan = make_plan(1, [(SCALAR, 0, S32, UNKNOWN), (ARRAY, 1, S32, UNKNOWN)], [[({4: 1}, 0)]])
    fingerprint = register(plan, nothing, nothing)
    launch = make_launch([4], [(0, -1, INPUT, 0), (-1, 0, ZEROS, 0)])
    memory = np.ones(5, np.int32)
    _native.run_launch(fingerprint, launch, [memory[4:].reshape(()), memory[:4]])
    with pytest.raises(ValueError, match="^jwarp: parameter 0 lies in the memory of result 0"):
        _native.run_launch(fingerprint, launch, [memory[3:4].reshape(()), memory[:4]])


def test_thread_limits_are_checked() -> None:
    for limit in (-1, 10**6):
        with pytest.raises(ValueError, match="^jwarp: the thread limit"):
            _native.set_thread_limit(limit)


# Fork and shutdown


def test_fork_and_shutdown() -> None:
    """A forked child launches and compiles; a launch at exit that lacks its kernel is only an error."""
    program = """
import atexit, os, sys
import numpy as np
from jwarp import _native
from launch_format import IN_OUT, make_launch
from native_kernels import *

launch = make_launch([1000], [(0, 0, IN_OUT, 0)])
plan = make_plan(1, [(ARRAY, 1, F32, UNKNOWN)])
def add_one(frame):
    frame.array(0, (1000,))[frame.columns] += 1
def compile_kernel(fingerprint, program, version):
    _native.register_kernel(fingerprint, plan, python_entry(add_one), 0)
_native.set_compiler(compile_kernel)
_native.set_thread_limit(0, eager=True)
x = np.zeros(1000, np.float32)
_native.run_launch("a", launch, [x, x], threads=3)
child = os.fork()
_native.run_launch("a", launch, [x, x], threads=3)
_native.run_launch("b", launch, [x, x], threads=3)
if child == 0:
    os._exit(0 if (x == 3).all() else 1)
assert os.waitpid(child, 0)[1] == 0 and (x == 3).all()
def late():
    try:
        _native.set_compiler(None)
        _native.run_launch("c", launch, [x, x])
    except RuntimeError as error:
        print(error)
atexit.register(late)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        env=child_environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("jwarp: kernel c is not compiled")
