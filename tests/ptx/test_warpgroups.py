"""Products of tiles by warpgroups: code for sm_90a that the PTX machine runs, its derivatives, and planted faults."""

import dataclasses

import numpy as np
import pytest
from ptx_checks import Counts
from ptx_memory import Fault
from ptx_products import check_adjoints
from ptx_running import PLAIN, PtxKernel
from tile_programs import looped, operands, product
from versions import read_version

import jwarp as wp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.cuda import nvrtc
from jwarp.compiler import cuda as cuda_compile
from jwarp.compiler.program import program_of
from jwarp.types import bfloat16, float16, float32

pytestmark = pytest.mark.usefixtures("compiler")
SM_90A = "compute_90a"
DIGITS = {float16: 2e-3, bfloat16: 2e-2}


def made_of(kernel, version="flat fast", edits=None):
    return PtxKernel(kernel, f"wgmma {version}", architecture=SM_90A, edits=edits)


# Types, extents of a tile and of a step along K, threads, transposes, what is added to, and how tiles are fetched.
CASES = [
    (float16, float32, (64, 24, 16), 128, (False, False), 0.0, "flat fast"),
    (float16, float32, (128, 32, 32), 128, (True, False), None, "flat fast"),
    (bfloat16, float32, (64, 40, 48), 128, (False, True), 1.0, "flat fast"),
    (bfloat16, bfloat16, (128, 40, 32), 256, (True, True), None, "either"),
    (float16, float32, (64, 128, 64), 256, (False, False), 0.0, "flat fast"),  # cut along N
    (float16, float16, (64, 48, 16), 256, (True, True), None, "flat checked"),  # elements one by one
    (float16, float32, (192, 32, 32), 384, (False, False), 0.0, "flat fast"),
    (float16, float32, (64, 32, 64), 128, (False, False), "twice", "flat fast"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{'x'.join(map(str, c[2]))}-{c[4]}-{c[5]}")
def test_products(case):
    type_, sums, extents, block_dim, transposes, start, version = case
    made = made_of(looped(type_, sums, extents, block_dim, transposes, start), version)
    assert "wgmma.mma_async" in made.text and "mma.sync" not in made.text and "ldmatrix" not in made.text
    rng, k, count = np.random.default_rng(0), extents[2], 2 if start == "twice" else 1
    for trips, order in ((0, 0), (1, -1), (5, 3)):
        exact, args = operands(rng, type_, sums, extents, transposes, trips * k, count)
        before = args[2].astype(float) if start is None else 0.0 if start == "twice" else start
        expected = np.concatenate([exact, 2 * exact]) if count == 2 else exact + before
        *_, c = made.run((2, 2), args, order)
        np.testing.assert_allclose(c.astype(float), expected, rtol=0, atol=DIGITS[type_] * (4 * trips * k + 10))


@wp.kernel
def changed(a: wp.array2d[wp.float16], b: wp.array2d[wp.float16], c: wp.array2d[wp.float16]):
    total = wp.tile_zeros(shape=(64, 32), dtype=wp.float16)
    for step in range(a.shape[1] // 64):
        left = wp.tile_load(a, shape=(64, 64), offset=(0, step * 64))
        right = wp.tile_load(b, shape=(64, 32), offset=(step * 64, 0))
        left[3, 5] = wp.float16(7.0)
        wp.tile_matmul(left, right, total)
    wp.tile_store(c, total)


def test_what_was_fetched_and_changed():
    """The changes are shown to the products, as what was fetched is."""
    program, _ = program_of(changed, PLAIN).arranged((1, 128), 128)
    made, rng = made_of(program.kernel), np.random.default_rng(5)
    assert "wgmma.mma_async" in made.text and "wait_for_groups" in made.unit.text
    a, b = (rng.normal(size=shape).astype(np.float16) for shape in ((64, 192), (192, 32)))
    *_, c = made.run((1,), [a, b, np.zeros((64, 32))])
    a[3, 5::64] = 7.0
    np.testing.assert_allclose(c.astype(float), a.astype(float) @ b.astype(float), rtol=0, atol=0.1)


def test_rows_that_begin_anywhere():
    made, rng = made_of(product(float16, float32, 64, 32, 32, 128)), np.random.default_rng(1)
    a, b = rng.normal(size=(64, 67)).astype(np.float16), rng.normal(size=(67, 32)).astype(np.float16)
    *_, c = made.run((1, 1), [a, b, np.zeros((64, 32))])
    np.testing.assert_allclose(c, a[:, :64].astype(float) @ b[:64].astype(float), rtol=1e-4, atol=1e-4)


def test_adjoints():
    """Gradients do not add up in registers over a loop: their products are those of warps, in code for sm_90a too."""
    transposes = False, True
    made = made_of(vjp(looped(float16, float16, (64, 32, 64), 128, transposes), [0, 1], [2]).kernel)
    assert "wgmma" not in made.text and "mma.sync" in made.text
    check_adjoints(made, float16, float16, (64, 32, 64), transposes, 128, 0.5)


@pytest.mark.parametrize(
    "kernel",
    [
        product(float16, float32, 32, 32, 32, 128),  # rows that are no multiple of 64
        product(float16, float32, 64, 32, 32, 96),  # threads that are no warpgroups
        product(float16, float32, 64, 64, 32, 256),  # two warpgroups, and a pattern of 64 columns
        product(float16, float32, 64, 36, 32, 128),
        product(float16, float32, 64, 32, 24, 128),
        product(float32, float32, 64, 32, 32, 128),
        product(float16, float32, 128, 136, 16, 128),  # more sums than registers
    ],
    ids=["rows", "threads", "parts", "columns", "depth", "type", "sums"],
)
def test_what_warpgroups_do_not_make(kernel):
    made = made_of(kernel)
    assert "wgmma" not in made.text and "tile_wgmma" in made.unit.text
    assert made.made.needs_in(99 << 10, read_version("wgmma flat fast")).by_groups is False


def test_banks():
    """Factors are written to shared memory and read there without conflicts."""
    made = made_of(product(float16, float32, 128, 64, 64, 256))
    rng, few, many = np.random.default_rng(3), Counts(), Counts()
    for steps, counts in ((4, few), (5, many)):
        a, b = (rng.normal(size=shape).astype(np.float16) for shape in ((128, 64 * steps), (64 * steps, 64)))
        made.run((1, 1), [a, b, np.zeros((128, 64))], counts=counts)
    step = {kind: many.passes[kind] - few.passes[kind] for kind in ("load", "store")}
    # Two warpgroups read B each, and all of what is copied is written once, 128 bytes at a time.
    assert step == {"load": (128 * 64 + 2 * 64 * 64) * 2 // 128, "store": (128 + 64) * 64 * 2 // 128}


PRODUCT = product(float16, float32, 64, 64, 64, 128)
COLUMNS = product(float16, float32, 64, 128, 64, 128)
SMALL = product(float16, float32, 64, 8, 16, 128)
STRIDE = "static constexpr int stride = TURNED && is_plain ? panel : rows;"
SHOWN = "  ptx::show_to_groups();\n  __syncthreads();\n}\n// Lets"
WAIT, WAIT_ONE = "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;"
# What is planted: the kernel, words that become others, and by what it is found.
MUTANTS = {
    "the pattern is another": (PRODUCT, {"return place ^ (place / (8": "return place ^ (place / (16"}, "wrong"),
    "the pattern is said to be another": (PRODUCT, {"width == 128 ? 1 :": "width == 128 ? 2 :"}, "wrong"),
    "rows are said to be closer": (PRODUCT, {STRIDE: STRIDE.replace(": rows", ": rows / 2")}, "wrong"),
    "pieces are said to be closer": (COLUMNS, {"TURNED ? panel : 16": "TURNED ? panel / 2 : 16"}, "wrong"),
    "a step along K begins elsewhere": (PRODUCT, {"k * size % width;": "k * size % width / 2;"}, "wrong"),
    "a factor is turned": (PRODUCT, {"p, 1, 1, 0, 1;": "p, 1, 1, 0, 0;"}, "wrong"),
    "sums are a neighbour's": (PRODUCT, {"e / 4 * 8 + 2 * (lane % 4);": "e / 4 * 8 + 2 * (lane % 4 ^ 1);"}, "wrong"),
    "a tile begins anywhere": (PRODUCT, {"tile1 = (jw_half*)(arena + 0)": "tile1 = (jw_half*)(arena + 512)"}, "wrong"),
    "no fence for copies": (PRODUCT, {SHOWN: SHOWN.replace("  ptx::show_to_groups();\n", "")}, "proxy"),
    "no fence for registers": (PRODUCT, {"wgmma.fence.sync.aligned;": ""}, "wgmma"),
    "sums are not waited for": (PRODUCT, {"v_4.wait();": ""}, "wgmma"),
    "factors are not waited for": (PRODUCT, {"v_4.wait();": ""}, "race"),
    "the group is not ended": (PRODUCT, {"wgmma.commit_group.sync.aligned;": ""}, "race"),
    "one group is left": (PRODUCT, {WAIT: WAIT_ONE}, "race"),
    "copies come to what is read": (PRODUCT, {"(v_5 == 0 ? 3 : v_5 - 1)": "v_5"}, "race"),
    "copies are waited for a trip too late": (PRODUCT, {"wait_for_groups<2>": "wait_for_groups<3>"}, "race"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_faults(name):
    kernel, edits, kind = MUTANTS[name]
    made, rng = made_of(kernel, edits=edits), np.random.default_rng(4)
    n, depth = 128 if kernel is COLUMNS else 64, 320 if kind == "race" else 64
    a, b = (rng.normal(size=shape).astype(np.float16) for shape in ((64, depth), (depth, n)))
    args = [a, b, np.zeros((64, n))]
    if kind != "wrong":
        with pytest.raises(Fault) as caught:
            made.run((1, 1), args)
        assert caught.value.kind == kind, caught.value
        return
    *_, c = made.run((1, 1), args)
    assert not np.allclose(c, a.astype(float) @ b.astype(float), rtol=1e-2, atol=1e-2)


def test_no_instructions_wait_for_each_other():
    """The assembler says so where it cannot let products go on side by side."""
    unit = made_of(COLUMNS).unit
    log = nvrtc.compile_unit(dataclasses.replace(unit, options=(*unit.options, "-Xptxas=-v")), "sm_90a").log
    assert "0 bytes spill stores" in log and "serialized" not in log


def test_images():
    """They are made where that is asked for, for sm_90 alone; what else is in a file has instructions of warps.

    What has no place in the file is not compiled.
    """
    asked = dataclasses.replace(PLAIN, matrix_instructions="wgmma")
    for settings, architectures, expected in (
        (PLAIN, ["sm_90"], {"sm_90": False}),
        (asked, ["sm_90"], {"sm_90a": True}),
        (asked, ["sm_80", "sm_90"], {"sm_80": False, "compute_90": False, "sm_90a": True}),  # PTX for later GPUs
        (asked, ["sm_80", "sm_90", "sm_100"], {"sm_80": False, "sm_100": False, "sm_90a": True}),
        (asked, ["sm_80"], {"sm_80": False}),
    ):
        compiled = {}

        def compile_unit(unit, architecture, compiled=compiled):
            compiled[architecture] = "tile_wgmma" in unit.text
            return nvrtc.compile_unit(unit, architecture)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cuda_compile, "compile_unit", compile_unit)
            image = cuda_compile.CudaKernel(SMALL, settings).image(read_version("flat fast"), architectures)
        assert compiled == expected
        assert (b"sm_90a" in image.content) == expected.get("sm_90a", False)
