"""Arguments of kernels: run by a reader of the launch ABI, against NumPy; and the errors of their checks."""

import collections
import ctypes
import itertools

import numpy as np
import pytest
from cuda_calls import SCALE_PLAN, STREAMS, attributes, cubin, register_scale, run_scale
from fake_xla import Xla, XlaError
from forked_tests import native, own_process
from launch_format import (
    ARRAY,
    F32,
    F64,
    IN_OUT,
    INPUT,
    MULTIPLY,
    PRED,
    S32,
    S64,
    SCALAR,
    UNKNOWN,
    VARIABLE,
    ZEROS,
    make_launch,
    make_plan,
)
from mock_driver import Words, driver, float_at

pytestmark = pytest.mark.quick

STREAM = STREAMS[0]


def has(mask: int, axis: int) -> bool:
    return bool(mask >> axis & 1)


def shape_of(core: tuple[int, ...], batch: list[int], mask: int) -> tuple[int, ...]:
    return (*(extent for axis, extent in enumerate(batch) if has(mask, axis)), *core)


def with_all_axes(array: np.ndarray, core_rank: int, batch: list[int], mask: int) -> np.ndarray:
    """The array broadcast over the batch axes that it lacks."""
    core = array.shape[array.ndim - core_rank :]
    kept = [extent if has(mask, axis) else 1 for axis, extent in enumerate(batch)]
    return np.broadcast_to(array.reshape((*kept, *core)), (*batch, *core))


@own_process
@pytest.mark.parametrize("seed", range(4))
def test_random_batches(seed):
    """Any number of axes, any of them shared by any operand; more than four are launched one after the other."""
    register_scale()
    rng = np.random.default_rng(seed)
    target = Xla(native().cuda_handlers(False))
    several = 0
    for _ in range(150):
        batch = [int(rng.choice([1, 2, 3])) for _ in range(rng.integers(0, 8))]
        n = int(rng.integers(1, 4))
        everywhere = (1 << len(batch)) - 1
        x_mask, k_mask = (int(rng.integers(0, everywhere + 1)) for _ in range(2))
        x = rng.uniform(size=shape_of((n,), batch, x_mask)).astype(np.float32)
        k = rng.uniform(size=shape_of((), batch, k_mask)).astype(np.float32)
        y = np.full((*batch, n), np.nan, np.float32)
        bindings = [(1, -1, INPUT, x_mask), (0, -1, INPUT, k_mask), (-1, 0, ZEROS, everywhere)]
        site = target.instantiate(attributes(make_launch([n], bindings, batch, repeat=int(rng.integers(1, 3)))))
        driver().clear()
        site.execute(STREAM, [k, x], [y])
        several += len(driver().log("cuLaunchKernelEx")) > 1
        expected = with_all_axes(x, 1, batch, x_mask) * with_all_axes(k, 0, batch, k_mask)[..., None]
        np.testing.assert_array_equal(y, expected)
        site.delete()
    assert several > 5


@own_process
def test_sizes_that_are_formulas():
    """They are solved on the host from the extents of an operand without content, which no kernel sees."""
    register_scale()
    n, m, both = [(VARIABLE, 0)], [(VARIABLE, 1)], [(VARIABLE, 0), (VARIABLE, 1), (MULTIPLY,)]
    bindings = [(0, -1, INPUT, 1), (1, -1, INPUT, 0), (-1, 0, ZEROS, 1)]
    launch = make_launch([-3], bindings, [-2], repeat=-1, variables=2, formulas=[n, m, both])
    target = Xla(native().cuda_handlers(False))
    for repeat, items in [(1, 1), (2, 3), (3, 2), (1, 5)]:
        site = target.instantiate(attributes(launch))
        x = np.random.default_rng(items).uniform(size=(items, repeat * items)).astype(np.float32)
        y = np.full_like(x, np.nan)
        site.execute(STREAM, [x, np.asarray(np.float32(0.5)), np.empty((0, repeat, items), bool)], [y])
        np.testing.assert_array_equal(y, x * np.float32(0.5))
        with pytest.raises(XlaError, match="expected batch extents"):
            site.execute(STREAM, [x, np.asarray(np.float32(0.5)), np.empty((0, repeat, items + 1), bool)], [y])
        with pytest.raises(XlaError, match="a launch dimension 4294967296, not between"):
            site.execute(STREAM, [x, np.asarray(np.float32(0.5)), np.empty((0, 65536, 65536), bool)], [y])
        site.delete()


@own_process
def test_blocks_that_run_some_threads_together():
    """The grid has a block for every so many threads of the launch, whatever threads a block has."""
    seen = []
    driver().register("jwarp_scale", lambda words, shape: seen.append(tuple(shape[:7])))
    launch = make_launch([6], [(0, -1, INPUT, 1), (1, -1, INPUT, 0), (-1, 0, ZEROS, 1)], [5], repeat=2)
    x, k = np.zeros((5, 6), np.float32), np.zeros((), np.float32)
    for share, blocks in ((1, 60), (2, 30), (7, 9), (1000, 1)):
        call = attributes(launch, grid=np.array([share]), block=96, shared=400)
        Xla(native().cuda_handlers(False)).instantiate(call).execute(STREAM, [x, k], [np.zeros_like(x)])
        assert seen.pop() == (blocks, 1, 1, 96, 1, 1, 400)
    assert "grid along an axis is 0" in call_anyway(
        Xla(native().cuda_handlers(False)), attributes(launch, grid=np.array([0]))
    )


@own_process
@pytest.mark.parametrize("axes", [0, 1, 3, 5])
def test_batch_axes_that_all_operands_have_are_one(axes):
    seen = []

    def kernel(words, shape):
        seen.append(Words.read(words, symbols=6, parameters=3))
        run_scale(words, shape)

    driver().register("jwarp_scale", kernel)
    batch, everywhere = [2] * axes, (1 << axes) - 1
    bindings = [(0, -1, INPUT, everywhere), (1, -1, INPUT, 0), (-1, 0, ZEROS, everywhere)]
    x = np.random.default_rng(0).uniform(size=(*batch, 3)).astype(np.float32)
    y, k = np.empty_like(x), np.float32(0.5)
    site = Xla(native().cuda_handlers(False)).instantiate(attributes(make_launch([3], bindings, batch, repeat=2)))
    site.execute(STREAM, [x, np.asarray(k)], [y])
    np.testing.assert_array_equal(y, x * k)
    items = 2**axes
    (words,) = seen
    assert (words.total, words.items, words.threads, words.failure) == (2 * items * 3, items, 3, 0)
    assert words.symbols == (3, 1, 1, 1, 3, 3)
    assert words.arrays == (x.ctypes.data, words.arrays[1], y.ctypes.data)
    # All operands go on alike along all axes: k has none.
    assert words.batch == (1, 1, 1, items)
    assert words.strides == ((0, 0, 0),) * 3 + (((12, 0, 12) if axes else (0, 0, 0)),)


@own_process
def test_symbols_are_extents_of_arrays_and_room_for_integers():
    seen = []
    parameters = [
        (ARRAY, 2, F32, 0),
        (SCALAR, 0, S32, 0),
        (SCALAR, 0, F64, 0),
        (SCALAR, 0, PRED, 0),
        (ARRAY, 3, F64, 0),
    ]
    driver().register("jwarp_scale", lambda words, _: seen.append(Words.read(words, 4 + 2 + 1 + 3, 5)))
    bindings = [*((p, -1, INPUT, 0) for p in range(4)), (4, 0, IN_OUT, 0)]
    launch = make_launch([7, 2], bindings)
    arrays = [np.zeros((4, 5), np.float32), np.int32(9), np.float64(1), np.bool_(1), np.zeros((3, 1, 2))]
    arrays = [np.asarray(array) for array in arrays]
    site = Xla(native().cuda_handlers(False)).instantiate(attributes(launch, plan=make_plan(2, parameters)))
    site.execute(STREAM, arrays, [arrays[4]])
    assert seen[0].symbols == (7, 2, 1, 1, 4, 5, 0, 3, 1, 2)
    assert seen[0].arrays == tuple(array.ctypes.data for array in arrays)
    assert seen[0].threads == 14


LEAST, MOST, NOTHING = -(2**31), 2**31 - 1, 1


def within(word: int) -> range:
    """The numbers that are within limits."""
    low, high = (word & 0xFFFFFFFF) - (word & 0x80000000) * 2, word >> 32
    return range(low, high + 1)


@own_process
@pytest.mark.parametrize("seed", range(3))
def test_limits_of_integers_are_what_clauses_leave(seed):
    """Within them all clauses hold, and outside of them not, but where one asks for either of two integers.

    Extents are symbols 4 and 7, integers 5 and 6.
    """
    rng = np.random.default_rng(seed)
    seen = []
    parameters = [(ARRAY, 1, F32, 0), (SCALAR, 0, S32, 0), (SCALAR, 0, S64, 0), (ARRAY, 1, F32, 0)]
    driver().register("jwarp_scale", lambda words, _: seen.append(Words.read(words, 4 + 1 + 2 + 1, 4)))
    launch = make_launch([6], [*((p, -1, INPUT, 0) for p in range(3)), (3, 0, IN_OUT, 0)])
    arrays = [np.zeros(8, np.float32), np.asarray(np.int32(0)), np.asarray(np.int64(0)), np.zeros(5, np.float32)]
    known = {0: 6, 1: 1, 2: 1, 3: 1, 4: 8, 7: 5}
    kinds: collections.Counter = collections.Counter()

    def alternative(scalar):
        terms = {int(s): int(rng.integers(-3, 4)) for s in rng.choice([0, 4, 7], 2, replace=False)}
        if scalar is not None:
            terms[scalar] = int(rng.choice([-7, -2, -1, 1, 3]))
        return terms, int(rng.choice([0, 1, -5, 40, -40, 2**40, -(2**40), MOST]))

    for _ in range(300):
        clauses = []
        for _ in range(rng.integers(1, 5)):
            scalar = None if rng.random() < 0.15 else int(rng.choice([5, 6]))
            others = [[], [None], [None, 6], [5]][rng.integers(0, 4)] if rng.random() < 0.7 else []
            clauses.append([alternative(s) for s in (scalar, *others)])
        if not any(s in terms for clause in clauses for terms, _ in clause for s in (5, 6)):
            continue
        plan = make_plan(1, parameters, clauses)
        site = Xla(native().cuda_handlers(False)).instantiate(attributes(launch, plan=plan))
        site.execute(STREAM, arrays, [arrays[3]])
        symbols = seen.pop().symbols

        def holds(a, b, clauses=clauses):
            value = {**known, 5: a, 6: b}
            return all(any(sum(c * value[s] for s, c in t.items()) + k >= 0 for t, k in clause) for clause in clauses)

        first, second = within(symbols[5]), within(symbols[6])
        tried = [{r[0], r[-1], r[len(r) // 2]} if r else set() for r in (first, second)]
        assert all(holds(a, b) for a in tried[0] for b in tried[1]), clauses
        if any(sum(5 in terms or 6 in terms for terms, _ in clause) > 1 for clause in clauses):
            kinds["several"] += 1
            continue
        for own, other, at in ((first, second, 0), (second, first, 1)):
            for x in ({own[0] - 1, own[-1] + 1} - {LEAST - 1, MOST + 1}) if own and other else ():
                assert not holds(*((x, other[0]) if at == 0 else (other[0], x))), clauses
        if not first or not second:
            assert symbols[5] == NOTHING or symbols[6] == NOTHING
            assert not any(holds(a, b) for a in (LEAST, -9, 0, 7, MOST) for b in (LEAST, -9, 0, 7, MOST)), clauses
        kinds[bool(first), bool(second), len(first) == 2**32] += 1
    assert len(kinds) >= 6 and kinds["several"] > 20, kinds


# Checks that fail


def failing(symbols: int, parameters: int, bad: set[tuple[int, float]]):
    """A kernel that fails at site s for threads that find the value v, for each (s, v) of `bad`."""

    def kernel(words, _shape):
        given = Words.read(words, symbols, parameters)
        noted = ctypes.c_uint64.from_address(given.failure)
        for thread in given.all_threads():
            value = float_at(thread.addresses[0] + 4 * thread.at).value
            for site, wrong in bad:
                if value == wrong:
                    noted.value = min(noted.value, thread.number << 12 | site)

    return kernel


@own_process
@pytest.mark.parametrize("batch", [[], [3], [2, 3], [2, 1, 3, 2, 2, 2]])
def test_the_first_failure_names_thread_and_batch(batch):
    plan = make_plan(2, [(ARRAY, 2, F32, UNKNOWN), (ARRAY, 2, F32, UNKNOWN)])
    everywhere = (1 << len(batch)) - 1
    # Only every other axis is shared with the second array, so that no two axes are alike.
    mask = sum(1 << axis for axis in range(0, len(batch), 2))
    launch = make_launch([2, 3], [(0, -1, INPUT, everywhere), (-1, 0, ZEROS, mask)], batch)
    texts = ["file.py:3: `x` is read outside", "file.py:4: not a number, of course\nin two lines"]
    target = Xla(native().cuda_handlers(True))
    site = target.instantiate(attributes(launch, plan=plan, failures="\0".join(texts)))
    rng = np.random.default_rng(len(batch))
    for _ in range(30):
        x = np.arange(6 * np.prod(batch, dtype=int), dtype=np.float32).reshape(*batch, 2, 3)
        wrong = rng.choice(x.size, size=3, replace=False)
        sites = rng.integers(1, 4, size=3)
        driver().register("jwarp_scale", failing(8, 2, {(int(s), float(v)) for s, v in zip(sites, wrong, strict=True)}))
        first = np.argmin(wrong)
        place = np.unravel_index(wrong[first], x.shape)
        text = texts[sites[first] - 1] if sites[first] <= 2 else "a check failed"
        thread = f"thread ({place[-2]}, {place[-1]})"
        where = f", batch ({', '.join(str(i) for i in place[:-2])})" if batch else ""
        with pytest.raises(XlaError) as caught:
            site.execute(STREAM, [x], [np.zeros(shape_of((2, 3), batch, mask), np.float32)])
        assert str(caught.value) == f"jwarp: kernel 'scale': {text}, {thread}{where}"
    # A word that was given back is used again.
    assert len(driver().log("cuMemAlloc_v2")) == 1


@own_process
def test_kernels_with_checks_are_waited_for():
    register_scale()
    site = Xla(native().cuda_handlers(True)).instantiate(
        attributes(make_launch([2], [(0, -1, INPUT, 0), (1, -1, INPUT, 0), (2, 0, IN_OUT, 0)]), failures="never")
    )
    y, driver().current = np.zeros(2, np.float32), 0x1000
    site.execute(STREAM, [y, np.zeros((), np.float32), y], [y])
    assert [line.split()[0] for line in driver().log()][-5:] == [
        "cuMemAlloc_v2",
        "cuMemsetD8Async",
        "cuLaunchKernelEx",
        "cuMemcpyDtoHAsync_v2",
        "cuStreamSynchronize",
    ]
    assert driver().log("cuMemsetD8Async") == [f"cuMemsetD8Async 0xff bytes=8 stream={STREAM:#x}"]


# Calls that are damaged


def call_anyway(target: Xla, call: dict) -> str:
    """The error of a call, or nothing."""
    try:
        site = target.instantiate(call)
        site.prepare()
        site.initialize(STREAM)
        site.execute(STREAM, [np.ones(8, np.float32), np.ones((), np.float32)], [np.zeros(8, np.float32)])
    except XlaError as error:
        assert str(error).startswith("jwarp: ")
        return str(error)
    return ""


@own_process
@pytest.mark.parametrize("seed", range(3))
def test_damaged_numbers(seed):
    """An error, or a launch: the kernel is not run here, as only real ones keep to their arrays."""
    rng = np.random.default_rng(seed)
    target = Xla(native().cuda_handlers(bool(seed % 2)))
    values = [-(2**63), -(2**31), -1, 0, 1, 2, 3, 9, 33, 2**16, 2**31 - 1, 2**31, 2**62, 2**63 - 1]
    bindings = [(0, -1, INPUT, 0), (1, -1, INPUT, 0), (-1, 0, ZEROS, 0)]
    good = {"plan": SCALE_PLAN, "launch": make_launch([8], bindings), "grid": np.array([3, 4])}
    call, errors = attributes(good["launch"]), 0
    for name, _ in itertools.product(good, range(150)):
        numbers = list(good[name])
        for _ in range(rng.integers(1, 3)):
            at, value = int(rng.integers(0, len(numbers) + 1)), values[rng.integers(0, len(values))]
            change = rng.choice(["set", "insert", "delete", "cut"])
            numbers[at : len(numbers) if change == "cut" else at + (change != "insert")] = (
                [value] if change in ("set", "insert") else []
            )
        errors += bool(call_anyway(target, {**call, name: np.array(numbers, np.int64)}))
    for name in ("block", "shared", "per_sm"):
        for value in values:
            errors += bool(call_anyway(target, {**call, name: value}))
    assert errors > 200


@own_process
def test_damaged_kinds_of_attributes():
    target = Xla(native().cuda_handlers(False))
    launch = make_launch([8], [(0, -1, INPUT, 0), (1, -1, INPUT, 0), (-1, 0, ZEROS, 0)])
    good = attributes(launch, failures="a\0b")
    assert call_anyway(target, good) == ""
    for name in good:
        others = [{k: v for k, v in good.items() if k != name}]
        others += [{**good, name: value} for value in ("text", 5, np.zeros(3, np.float32), np.zeros(3, np.int32))]
        for call in others:
            error = call_anyway(target, call)
            if isinstance(good[name], (str, bytes)) and isinstance(call.get(name), str) and name != "image":
                continue
            if isinstance(good[name], int) and isinstance(call.get(name), int):
                continue
            assert error, (name, call.get(name))


@own_process
@pytest.mark.parametrize("entry", ["", "a\0b"])
def test_damaged_entries(entry):
    launch = make_launch([8], [(0, -1, INPUT, 0), (1, -1, INPUT, 0), (-1, 0, ZEROS, 0)])
    assert "entry" in call_anyway(Xla(native().cuda_handlers(False)), attributes(launch, entry=entry))


@own_process
def test_more_parameters_than_a_kernel_can_have():
    count = 700
    plan = make_plan(1, [(ARRAY, 1, F32, UNKNOWN)] * count)
    launch = make_launch([8], [(p, -1, INPUT, 0) for p in range(count)])
    error = call_anyway(Xla(native().cuda_handlers(False)), attributes(launch, plan=plan))
    assert error == "jwarp: kernel 'scale': its 700 parameters are more than CUDA passes to a kernel"


@own_process
def test_images_that_are_cut_off_are_not_handed_to_the_driver():
    launch = make_launch([8], [(0, -1, INPUT, 0), (1, -1, INPUT, 0), (-1, 0, ZEROS, 0)])
    target = Xla(native().cuda_handlers(False))
    for image in (b"", b"text", cubin()[:63], b"\x50\xed\x55\xba" + b"\0" * 12, b".version 8.0"):
        assert "image is damaged" in call_anyway(target, attributes(launch, image=image))
