"""Products of warpgroups as people write them by hand, run by the PTX machine: layouts, and what is forgotten."""

import ml_dtypes
import numpy as np
import pytest
from ptx_checks import Counts
from ptx_memory import Fault
from ptx_running import PtxHandwritten

import jwarp as wp

pytestmark = pytest.mark.usefixtures("compiler")
WORDS = 12288
KINDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}

# d = the sum of products, each of which descriptors say where its factors are among the words of shared memory.
TEXT = """\
#define WORDS %(words)d
__global__ void products(const unsigned* content, const unsigned long long* a, const unsigned long long* b,
                         const unsigned* fragments, int steps, float* d) {
  __shared__ __align__(1024) unsigned memory[WORDS];
  for (int k = threadIdx.x; k < WORDS; k += blockDim.x) memory[k] = content[k];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float sum[%(count)d];
  for (int k = 0; k < %(count)d; ++k) sum[k] = 0.5f;
  const unsigned long long base = __cvta_generic_to_shared(memory) >> 4;
  const unsigned* own = fragments + 4 * threadIdx.x;
  unsigned x[4] = {own[0], own[1], own[2], own[3]};
  for (int step = 0; step < steps; ++step) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %%%(flag)d, 0; "
                 "wgmma.mma_async.sync.aligned.%(shape)s {%(sums)s}, %(left)s, %%%(right)d, p, %(numbers)s; }"
                 : %(outs)s
                 : "l"(base + a[step]), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(base + b[step]), "r"(step)
                 : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    /* between */
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  for (int k = 0; k < %(count)d; ++k) d[threadIdx.x * %(count)d + k] = sum[k];
}
"""


def kernel_of(dtype, n, turns=(0, 0), in_registers=False):
    """The kernel; the first product does not add to what was there."""
    count, depth = n // 2, 8 if dtype == "tf32" else 16
    numbers = [1, 1, *([] if dtype == "tf32" else turns[in_registers:])]
    text = TEXT % {
        "words": WORDS, "count": count, "shape": f"m64n{n}k{depth}.f32.{dtype}.{dtype}",
        "sums": ", ".join(f"%{k}" for k in range(count)), "numbers": ", ".join(map(str, numbers)),
        "left": "{" + ", ".join(f"%{count + 1 + k}" for k in range(4)) + "}" if in_registers else f"%{count}",
        "right": count + 5, "flag": count + 6, "outs": ", ".join(f'"+f"(sum[{k}])' for k in range(count)),
    }  # fmt: skip
    u32, u64 = wp.array[wp.uint32], wp.array[wp.uint64]
    params = {"content": u32, "a": u64, "b": u64, "fragments": u32, "steps": int, "d": wp.array[float]}
    return wp.cuda_kernel(text, "products", params, outputs=["d"], cpu=lambda *x: x, block_dim=128)


class Content:
    """The words of shared memory, with matrices one after the other."""

    def __init__(self):
        self.data, self.end = np.full(4 * WORDS, 0xFF, np.uint8), 0

    def put(self, matrix, width, turned):
        """Descriptors of the steps along K of a matrix, whose rows are along M or N.

        Its pieces of `width` bytes are swizzled as copies of tensors do it: of a row of the pattern, the units of 16
        bytes trade places by the row's number. Without a swizzle eight rows of 16 bytes are together.
        """
        size, depth = matrix.itemsize, 32 // matrix.itemsize
        stored = np.ascontiguousarray(matrix.T if turned else matrix)
        rows, pieces = len(stored), stored.view(np.uint8).reshape(len(stored), -1, width)
        start, panel = -(-self.end // 1024) * 1024, rows * width
        self.end = start + pieces.shape[1] * panel
        for p in range(pieces.shape[1]):
            for r in range(rows):
                for unit in range(width // 16):
                    to = unit ^ (r // (128 // width) % 8 % (width // 16))
                    at = start + p * panel + r * width + 16 * to
                    self.data[at : at + 16] = pieces[r, p, 16 * unit : 16 * unit + 16]
        mode = {16: 0, 128: 1, 64: 2, 32: 3}[width]
        made = []
        for step in range(matrix.shape[1] // depth):
            leading, stride = (panel, 8 * width) if width > 16 and turned else (16, 8 * width)
            if turned:
                first = start + step * 16 * width
                leading, stride = (8 * width, panel) if width == 16 else (leading, stride)
            else:
                first = start + step * 32 // width * panel + step * 32 % width
                leading = panel if width == 16 else leading
            made.append(first >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62)
            assert first % 16 == leading % 16 == stride % 16 == 0 and size * depth == 32
        return np.array(made, np.uint64)


def unpacked(d, n):
    """The matrix of which each thread has some elements: rows g and g + 8 of each warp's 16."""
    found, given = np.zeros((64, n)), d.reshape(4, 8, 4, n // 8, 2, 2)  # warp, g, t, columns, half of the rows, pair
    for warp, g, t, j, half, pair in np.ndindex(given.shape):
        found[16 * warp + 8 * half + g, 8 * j + 2 * t + pair] = given[warp, g, t, j, half, pair]
    return found


def arguments(dtype, n, widths, turns, depth=64):
    kind, rng, content = KINDS[dtype], np.random.default_rng(n), Content()
    a, b = (rng.normal(size=(rows, depth)).astype(kind) for rows in (64, n))
    descriptors = [content.put(x, *rest) for x, *rest in zip((a, b), widths, turns, strict=True)]
    if dtype == "tf32":
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    no_fragments = np.zeros(512, np.uint32)
    given = [content.data.view(np.uint32), *descriptors, no_fragments, len(descriptors[0])]
    return given, a.astype(float), b.astype(float)


CASES = [
    ("f16", 32, (128, 128), (0, 0)),
    ("f16", 64, (128, 128), (1, 1)),
    ("f16", 96, (64, 32), (0, 1)),
    ("bf16", 128, (128, 64), (1, 0)),
    ("f16", 48, (32, 32), (1, 1)),
    ("f16", 8, (64, 16), (1, 1)),
    ("bf16", 40, (16, 16), (0, 0)),
    ("f16", 24, (16, 16), (1, 1)),
    ("tf32", 16, (128, 64), (0, 0)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}-{c[2]}-{c[3]}")
def test_layouts(case):
    dtype, n, _, turns = case
    given, a, b = arguments(*case)
    counts = Counts()
    made = PtxHandwritten(kernel_of(dtype, n, turns), architecture="compute_90a")
    (d,) = made.run([128], given, [64 * n], counts=counts)
    np.testing.assert_allclose(unpacked(d, n), a @ b.T, rtol=1e-5, atol=2e-5)
    assert counts.passes["load"] == counts.least["load"], "patterns are there for the banks"


@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32"])
def test_a_factor_in_registers(dtype):
    n, size = 32, 1 if dtype == "tf32" else 2
    given, a, b = arguments(dtype, n, (128, 128), (0, 0))
    fragments = np.zeros((4, 8, 4, 4, size), KINDS[dtype])
    for warp, g, t, k, e in np.ndindex(fragments.shape):
        fragments[warp, g, t, k, e] = a[16 * warp + g + k % 2 * 8, size * t + e + k // 2 * 4 * size]
    given[3:] = fragments.reshape(-1).view(np.uint32), 1
    made = PtxHandwritten(kernel_of(dtype, n, in_registers=True), architecture="compute_90a")
    (d,) = made.run([128], given, [64 * n])
    depth = 8 * size
    np.testing.assert_allclose(unpacked(d, n), a[:, :depth] @ b[:, :depth].T, rtol=1e-5, atol=1e-5)


STEP = "wgmma.fence.sync.aligned;"
FORGOTTEN = {
    "the fence for what threads wrote": ({"fence.proxy.async.shared::cta;": ""}, "proxy"),
    "the fence for registers": ({STEP: ""}, "wgmma"),
    "to wait": ({"wgmma.wait_group.sync.aligned 0;": ""}, "wgmma"),
    "to wait for the newest": ({"wgmma.wait_group.sync.aligned 0;": "wgmma.wait_group.sync.aligned 1;"}, "wgmma"),
    "to end the group": ({"wgmma.commit_group.sync.aligned;": ""}, "wgmma"),
    "the barrier": ({"__syncthreads();\n  float": "float"}, "race"),
    "that products still read": ({"/* between */": "memory[step] = 0;"}, "race"),
    "that products add later": ({"/* between */": "sum[0] += 1.0f;"}, "wgmma"),
    "a part of the warps": ({"step < steps": "step < steps && threadIdx.x < 64"}, "barrier"),
    "that all name the same": ({"base + a[step]": "base + a[step] + (threadIdx.x & 1)"}, "wgmma"),
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_is_forgotten(name):
    edits, kind = FORGOTTEN[name]
    given, *_ = arguments(*CASES[0])
    with pytest.raises(Fault) as caught:
        PtxHandwritten(kernel_of("f16", 32), edits=edits, architecture="compute_90a").run([128], given, [64 * 32])
    assert caught.value.kind == kind, caught.value


@pytest.mark.parametrize("change", [1 << 62, 3 << 62, 2 << 32, 1], ids=["64", "32", "stride", "start"])
def test_wrong_descriptors(change):
    given, a, b = arguments("f16", 32, (128, 128), (0, 0))
    given[1] = given[1] ^ np.uint64(change)
    (d,) = PtxHandwritten(kernel_of("f16", 32), architecture="compute_90a").run([128], given, [64 * 32])
    assert not np.allclose(unpacked(d, 32), a @ b.T, rtol=1e-2, atol=1e-2)


def test_who_makes_the_fence():
    """Those who read may do so instead of those who wrote, after the barrier; who wrote has to do it before."""
    given, a, b = arguments(*CASES[0])
    fence = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n  '
    kernel = kernel_of("f16", 32)
    made = PtxHandwritten(kernel, edits={fence + "__syncthreads();": "__syncthreads();\n  " + fence})
    made.architecture = "compute_90a"
    (d,) = made.run([128], given, [64 * 32])
    np.testing.assert_allclose(unpacked(d, 32), a @ b.T, rtol=1e-5, atol=2e-5)
