"""Faults that are planted in the code for GPUs: the PTX machine finds each, by a wrong result or by name."""

import numpy as np
import pytest
from cuda_compiling import saxpy
from fuzz_profiles import some
from ptx_memory import Fault
from ptx_running import PtxHandwritten, PtxKernel
from tile_programs import product, softmax

import jwarp as wp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run
from jwarp.types import float16, float32

pytestmark = pytest.mark.usefixtures("compiler")
A = wp.array[float]
RNG = np.random.default_rng(0)


@wp.kernel
def total(x: A, sums: A):
    wp.atomic_add(sums, 0, x[wp.tid()])


@wp.kernel
def shared_by_some(x: wp.array[wp.vec3], n: int, sums: wp.array[wp.vec3]):
    i = wp.tid()
    own = wp.zeros(shape=2, dtype=int)
    own[n] = i // 40
    wp.atomic_add(sums, wp.clamp(own[n], 0, 3), x[i])


@wp.kernel
def moved(x: A, y: A):
    i = wp.tid()
    y[i] = x[i + 1]


@wp.kernel
def doubled(x: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = x[i] + x[i]


@wp.kernel
def iterated(x: A, n: int, y: A):
    i = wp.tid()
    for _ in range(n):
        y[i] = wp.sin(y[i]) * x[i]


def numbers(*shape):
    return RNG.uniform(0.5, 2.0, shape).astype(np.float32)


def halves():
    return [
        RNG.normal(size=(32, 160)).astype(np.float16),
        RNG.normal(size=(160, 48)).astype(np.float16),
        np.zeros((32, 48)),
    ]


PRODUCT = product(float16, float32, 32, 16, 32, 64), "flat fast", (1, 3), halves
SOFTMAX = softmax(200, 96), "flat fast", (3,), lambda: [numbers(3, 200), np.zeros((3, 200))]
SAXPY = saxpy.ir(), "flat checked", (100,), lambda: [2.0, numbers(60), numbers(60)]
FAST = saxpy.ir(), "flat fast", (100,), lambda: [2.0, numbers(100), numbers(100)]
COMMON = shared_by_some.ir(), "flat fast", (128,), lambda: [numbers(128, 3), 1, np.zeros((4, 3))]
PART = shared_by_some.ir(), "flat fast", (70,), lambda: [numbers(70, 3), 1, np.zeros((4, 3))]
TOTAL = total.ir(), "flat fast", (100,), lambda: [numbers(100), np.zeros(1)]

STAGED = doubled.ir(), "narrow flat fast", (70,), lambda: [numbers(70, 3), numbers(70, 3)]
TAPED = vjp(iterated.ir(), [0], [2]).kernel
HEAP = TAPED, "flat checked", (5,), lambda: [np.int32(70) if p.type is wp.int32 else numbers(5) for p in TAPED.params]

TAKEN = "__syncwarp();\n#pragma unroll\n  for (int k = 0; k < n; ++k) own[k]"
REDUCED = "if (lane_number() == 0) scratch[warp_number()] = value;\n    __syncthreads();\n    // Each"
LANES = "const int lanes = lane_count<NT>();\n  const unsigned mask = lane_mask(lanes);\n  value = first"
WAITED = "  else ptx::copy_wait_group<NEWEST>();"
ARRIVED = "  else ptx::copy_wait_group<NEWEST>();\n  __syncthreads();"
STORED = "__syncthreads();\n    own.template put<"
HELD = "n + j * Unit::n + 2 * t"
FLUSHED = "for (int distance = 16; distance > 0; distance /= 2) total ="
MULTIPLIED = '"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])'


def replaced(text, old, new):
    assert old in text
    return {text: text.replace(old, new)}


# What is planted: the kernel, and words of the text, or of a header, that become others. Then the kind of fault by
# which it is found; "wrong" stands for a wrong result.
MUTANTS = {
    "the halves of a fragment are swapped": (PRODUCT, replaced(MULTIPLIED, "[1]", "[2]"), "wrong"),
    "the rows of B are its columns": (PRODUCT, replaced("load_matrices<!TRANS>(both", "!", ""), "wrong"),
    "a step of a product is left out": (PRODUCT, replaced("for (int k = 0; k < K; k += Unit", "0", "Unit::k"), "wrong"),
    "copies are not waited for": (PRODUCT, replaced(WAITED, "ptx::copy_wait_group<NEWEST>();", "{}"), "wrong"),
    "copies are waited for a trip too late": (PRODUCT, {"wait_async<2>": "wait_async<3>"}, "race"),
    "tiles come to the place that is read": (PRODUCT, {"(v_5 == 0 ? 3 : v_5 - 1)": "v_5"}, "race"),
    "sums are stored where others read": (PRODUCT, replaced(STORED, "__syncthreads();", ""), "race"),
    "a thread has the sums of its neighbour": (PRODUCT, replaced(HELD, "+ 2 * t", "+ 2 * (t ^ 1)"), "wrong"),
    "no barrier after copies": (PRODUCT, replaced(ARRIVED, "__syncthreads();", ""), "race"),
    "one copy too many": (PRODUCT, replaced("k < ROWS / apart", "<", "<="), "bounds"),
    "matrices begin anywhere": (PRODUCT, replaced("<TRANS>(x, rows +", "+", "+ 4 +"), "alignment"),
    "no barrier in a reduction": (SOFTMAX, replaced(REDUCED, "__syncthreads();", ""), "race"),
    "half of a block passes a barrier": (SOFTMAX, replaced(REDUCED, "__sync", "if (threadIdx.x < 48) __sync"), "race"),
    "a thread ends before a barrier": (
        SOFTMAX, replaced(LANES, "value =", 'if (threadIdx.x == 70) asm volatile("exit;");\n  value ='), "barrier"),
    "a mask names half of the lanes": (SOFTMAX, replaced("return 0xffffffffu >>", "ffffffff", "ffff"), "lanes"),
    "an index is not tested": (SAXPY, {"jw_inside(v_7, y_n0)": "true"}, "bounds"),
    "more threads than there are": (FAST, {"if (n < args.total) {": "if (true) {"}, "bounds"),
    "an input is written": (
        SAXPY, replaced("const float* __restrict__ x = (const float*)", "const ", "") | {"if (v_8) y[": "if (v_8) x["},
        "bounds"),
    "what is written is read as constant": (FAST, {"= y[i0]": "= jw_read(&y[i0])"}, "constant"),
    "a sum is no atomic": (TOTAL, {"jw_atomic_add((T*)first, total)": "*(volatile T*)first += total"}, "wrong"),
    "a warp does not wait for its elements": (STAGED, replaced(TAKEN, "__syncwarp();", ""), "race"),
    "elements are stored one too far": (STAGED, replaced("start = to + (unsigned", "to +", "to + 1 +"), "bounds"),
    "records have too little room": (HEAP, {"if (count < room)": "if (count <= room)"}, "bounds"),
    "records are not given back": (HEAP, {"if (data != nullptr) free(data);": ""}, "heap"),
    "sums of a warp that is not all there": (PART, {"__activemask() == 0xffffffffu": "true"}, "barrier"),
    "indices that differ are taken for one": (COMMON, {"value == __shfl_sync(0xffffffffu, value, 0)": "true"}, "wrong"),
    "a lane gives what it keeps": (COMMON, {"given = upper ? low : high": "given = upper ? high : low"}, "wrong"),
    "a sum is added to the place of another": (COMMON, {"place = own == k ?": "place = own == k + 1 ?"}, "wrong"),
    "two lanes add one sum": (COMMON, replaced("own + half < N ? own + half : -1", "-1", "own"), "wrong"),
    "lanes are left out of a sum": (TOTAL, replaced(FLUSHED, "16", "8"), "wrong"),
}  # fmt: skip


@pytest.mark.parametrize("name", some([*MUTANTS], of=2))
def test_planted_faults(name):
    (kernel, version, dims, make), edits, kind = MUTANTS[name]
    args = [np.asarray(a, p.dtype.dtype) for a, p in zip(make(), kernel.params, strict=True)]
    made = PtxKernel(kernel, version, edits=edits)
    if kind != "wrong":
        with pytest.raises(Fault) as caught:
            made.run(dims, args)
        assert caught.value.kind == kind, caught.value
        return
    found, expected = made.run(dims, args), run(made.made.kernel, dims, args)
    assert not all(np.allclose(x, y, rtol=1e-2, atol=1e-2) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize("case", [PRODUCT, SOFTMAX, SAXPY, TOTAL], ids=lambda case: case[0].name)
def test_nothing_planted(case):
    kernel, version, dims, make = case
    args = [np.asarray(a, p.dtype.dtype) for a, p in zip(make(), kernel.params, strict=True)]
    made = PtxKernel(kernel, version)
    for x, y in zip(made.run(dims, args), run(made.made.kernel, dims, args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3)


def test_what_was_trusted():
    """A launch whose accesses leave their arrays, of a version that does not test them."""
    x = numbers(100)
    made = PtxKernel(moved.ir(), "flat fast")
    made.run((99,), [x, np.zeros(99)])
    with pytest.raises(Fault, match=r"bounds: thread 35 of block 1: 4 bytes at .*behind parameter x of 400 bytes"):
        made.run((100,), [x, np.zeros(100)])


NEIGHBOURS = """\
__global__ void neighbours(const float* x, float* row, float* y) {
  %s
  row[threadIdx.x] = x[threadIdx.x];
  %s
  y[threadIdx.x] = row[(threadIdx.x + %d) %% 64];
}
"""
SHARED = "__shared__ float own[64]; row = own;"


def neighbours(between, step, where):
    kernel = wp.cuda_kernel(
        NEIGHBOURS % (where, between, step), "neighbours", {"x": A, "row": A, "y": A}, outputs=["row", "y"],
        cpu=lambda x: (x, x), block_dim=64,
    )  # fmt: skip
    x = numbers(128)
    _, y = PtxHandwritten(kernel).run([64], [x], [64, 64])
    np.testing.assert_array_equal(y, np.roll(x[:64], -step))


@pytest.mark.parametrize("where", [SHARED, ""], ids=["shared", "global"])
def test_races_of_handwritten_kernels(where):
    neighbours("__syncthreads();", 5, where)
    neighbours("", 0, where)  # each its own
    with pytest.raises(Fault, match="race: thread"):
        neighbours("", 5, where)
    with pytest.raises(Fault, match="race: thread"):
        neighbours("__syncwarp();", 5, where)  # the last lanes read what another warp has
    with pytest.raises(Fault, match="barrier: block 0 waits for ever"):
        neighbours("if (threadIdx.x < 32) __syncthreads(); else __syncthreads(), __syncthreads();", 5, where)


MEETING = """\
__global__ void meeting(const float* x, float* y, unsigned short* halves) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  %s
}
"""


@pytest.mark.parametrize(
    ("statement", "is_race"),
    [
        ("atomicAdd(y, x[i]);", False),
        ("y[0] = 1.0f;", False),  # nobody can tell whose it is
        ("y[0] = x[i];", True),
        ("y[0] += x[i];", True),
        ("y[i / 64] = x[i / 64];", False),
        ("if (i % 64 == 0) y[i / 64] = x[i];", False),
        ("halves[i] = (unsigned short)i;", False),
        ("if (i % 2 == 0) ((unsigned*)halves)[i / 2] = i;", False),
        ("if (i % 2 == 0) ((unsigned*)halves)[i / 2] = i; else halves[i] = (unsigned short)i;", True),
        ("if (i % 64 == 1) y[5] = x[i]; else if (i % 64 == 2) ((float4*)y)[1] = make_float4(1, 2, 3, 4);", True),
        ("y[64 * blockIdx.x + 63 - threadIdx.x] = y[i];", True),
        ("const float v = y[i]; __syncthreads(); y[64 * blockIdx.x + 63 - threadIdx.x] = v;", False),
    ],
)
def test_threads_that_meet_in_global_memory(statement, is_race):
    """Those of one block: of several, an order is only found where there are atomics."""
    kernel = wp.cuda_kernel(
        MEETING % statement, "meeting", {"x": A, "y": A, "halves": wp.array[wp.uint16]}, outputs=["y", "halves"],
        in_out_argnames=["y"], cpu=lambda x, y: (y, y), block_dim=64,
    )  # fmt: skip
    made, x = PtxHandwritten(kernel), numbers(128)
    if not is_race:
        made.run([128], [x], [numbers(128), 128])
        return
    with pytest.raises(Fault, match="race: thread"):
        made.run([128], [x], [numbers(128), 128])
