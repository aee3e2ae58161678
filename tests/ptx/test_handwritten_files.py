"""Files of CUDA as people have them, with code of the host and headers that NVRTC lacks, run by the PTX machine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forked_tests import own_process
from ptx_running import PtxHandwritten, ptx_of

import jwarp as wp
from jwarp.backend.cuda import host_headers
from jwarp.backend.cuda.host_code import device_part
from jwarp.compiler import handwritten
from jwarp.compiler.handwritten import Handwritten
from jwarp.compiler.program import program_of
from jwarp.frontend.cuda_kernel import Blocks

F, I, U = wp.array[float], wp.array[int], wp.array[wp.uint32]


@pytest.fixture
def no_headers(monkeypatch, compiler):
    """CUDA's own headers are not there, and what stands for them is compiled."""
    for module in (handwritten, host_headers):
        monkeypatch.setattr(module, "cuda_headers", lambda: ())


# Rows, a warp to each, in a file with its test program.
NORM = """\
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include "sizes.h"
namespace cg = cooperative_groups;
#define CHECK(call) check(call, __LINE__)

static int launches = 0;
void check(cudaError_t error, int line) { if (error != cudaSuccess) std::printf("line %d\\n", line); }
void norm_on_host(float* y, const std::vector<float>& x) { for (float v : x) *y++ = v; }
float square(float x) { return x * x; }

__global__ void norm(float* __restrict__ y, const float* __restrict__ x, const float* scale, int rows, int columns) {
  auto warp = cg::tiled_partition<WARP>(cg::this_thread_block());
  int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
  if (row >= rows) return;
  float sum = 0.0f, squares = 0.0f;
  for (int j = warp.thread_rank(); j < columns; j += warp.size()) sum += __ldcs(x + row * columns + j);
  float mean = cg::reduce(warp, sum, cg::plus<float>()) / columns;
  for (int j = warp.thread_rank(); j < columns; j += warp.size()) squares += square(x[row * columns + j] - mean);
  float factor = rsqrtf(cg::reduce(warp, squares, cg::plus<float>()) / columns + EPSILON);
  for (int j = warp.thread_rank(); j < columns; j += warp.size())
    __stcs(y + row * columns + j, (x[row * columns + j] - mean) * factor * scale[j]);
}

int main(int argc, char** argv) {
  std::vector<float> x(1024);
#ifdef QUICK
  launches = 1;
#else
  norm<<<4, 128>>>(nullptr, x.data(), nullptr, 4, 256);
#endif
  CHECK(cudaDeviceSynchronize());
}
"""
SIZES = """\
#pragma once
#include <float.h>
#define WARP 32
constexpr float EPSILON = 100 * FLT_EPSILON;
cudaStream_t make_stream(int device) { cudaStream_t made; cudaStreamCreate(&made); return made; }
extern cudaDeviceProp properties;
"""


def test_a_warp_for_each_row(no_headers, tmp_path):
    (tmp_path / "norm.cu").write_text(NORM)
    (tmp_path / "sizes.h").write_text(SIZES)
    types = {"y": F, "x": F, "scale": F, "rows": int, "columns": int}
    kernel = wp.cuda_kernel(tmp_path / "norm.cu", "norm", types, outputs="y", full_outputs="y", block_dim=64)
    rng = np.random.default_rng(0)
    x, scale = rng.normal(size=(5, 45)).astype(np.float32), rng.normal(size=45).astype(np.float32)
    (y,) = PtxHandwritten(kernel).run((5 * 32,), [x.ravel(), scale, 5, 45], [x.size])
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1.2e-5) * scale
    np.testing.assert_allclose(y.reshape(x.shape), expected, rtol=1e-5, atol=1e-6)


HISTOGRAM = """\
#include <cooperative_groups.h>
#include <helper.h>
namespace cg = cooperative_groups;
__global__ void count(const unsigned char* data, uint* bins, int n) {
  __shared__ uint part[256];
  auto block = cg::this_thread_block();
  for (int k = block.thread_rank(); k < 256; k += block.size()) part[k] = 0;
  cg::sync(block);
  for (auto i = cg::this_grid().thread_rank(); i < n; i += cg::this_grid().size()) atomicAdd(&part[data[i]], 1);
  block.sync();
  for (int k = block.thread_rank(); k < 256; k += block.size()) atomicAdd(bins + k, part[k]);
}
extern "C" void histogram(uint* bins, void* data, int n) {
  checkCudaErrors(cudaMemset(bins, 0, 1024));
  count<<<240, 192>>>((unsigned char*)data, bins, n);
}
"""
SCAN = """\
#include <stdio.h>
__global__ void scan(int* data, int* sums = NULL) {
  extern __shared__ int warps[];
  int id = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  int value = data[id];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    int before = __shfl_up_sync(0xffffffff, value, step);
    if (lane >= step) value += before;
  }
  if (lane == 31) warps[warp] = value;
  __syncthreads();
  for (int k = 0; k < warp; ++k) value += warps[k];
  data[id] = value;
  if (sums != NULL && threadIdx.x == blockDim.x - 1) sums[blockIdx.x] = value;
}
bool verify(int* data, int n) { StopWatch* watch = NULL; startTimer(&watch); printf("%d", n); return data[0] == n; }
"""


def test_a_histogram_and_a_scan(no_headers):
    rng = np.random.default_rng(1)
    count = wp.cuda_kernel(
        HISTOGRAM, "count", {"data": wp.array[wp.uint8], "bins": U, "n": int}, outputs="bins",
        block_dim=96, grid=3, headers={"helper.h": ""},
    )  # fmt: skip
    data = rng.integers(0, 256, 3000).astype(np.uint8)
    (bins,) = PtxHandwritten(count).run((3000,), [data, 3000], [256])
    np.testing.assert_array_equal(bins, np.bincount(data, minlength=256))

    scan = wp.cuda_kernel(
        SCAN, "scan", {"data": I, "sums": I}, outputs=["data", "sums"], in_out_argnames="data",
        block_dim=128, shared_bytes=lambda dim: 4 * 128 // 32,
    )  # fmt: skip
    x = rng.integers(-50, 50, (2, 128))
    y, sums = PtxHandwritten(scan).run((256,), [], [x.ravel(), 2])
    np.testing.assert_array_equal(y.reshape(x.shape), np.cumsum(x, 1))
    np.testing.assert_array_equal(sums, x.sum(1))


# Pictures of Gaussians: a block for each tile of each picture, which fetches them together.
SPLAT = """\
#include <ATen/core/Tensor.h>
#include <cooperative_groups.h>
#define SIDE 8
#define TILE (SIDE * SIDE)
namespace splats {
namespace cg = cooperative_groups;
struct Gaussian { float x, y, narrow, strength; };
template <uint CHANNELS, typename scalar>
__global__ void __launch_bounds__(TILE, 2) render(const Gaussian* gaussians, const scalar* colours, int count,
    scalar* pixels, scalar* left, int width, int height) {
  __shared__ Gaussian fetched[TILE];
  auto block = cg::this_thread_block();
  int picture = block.group_index().z;
  int column = block.group_index().x * SIDE + block.thread_index().x, row = blockIdx.y * blockDim.y + threadIdx.y;
  bool inside = column < width && row < height, done = !inside;
  float clear = 1.0f, sums[CHANNELS] = {0.0f};
  for (int first = 0; first < count; first += TILE) {
    if (__syncthreads_count(done) == TILE) break;
    if (first + block.thread_rank() < count)
      fetched[block.thread_rank()] = gaussians[picture * count + first + block.thread_rank()];
    block.sync();
    for (int k = 0; !done && k < min(TILE, count - first); ++k) {
      Gaussian g = fetched[k];
      float dx = g.x - column, dy = g.y - row, opaque = g.strength * __expf(-g.narrow * (dx * dx + dy * dy));
      if (opaque < 1.0f / 255.0f) continue;
      for (int c = 0; c < CHANNELS; ++c) sums[c] += clear * opaque * colours[(first + k) * CHANNELS + c];
      clear *= 1.0f - opaque;
      done = clear < 1e-4f;
    }
  }
  if (!inside) return;
  int pixel = (picture * height + row) * width + column;
  left[pixel] = clear;
  for (int c = 0; c < CHANNELS; ++c) pixels[pixel * CHANNELS + c] = sums[c];
}
template <uint CHANNELS> void launch(const at::Tensor gaussians, at::Tensor pixels) {
  dim3 grid = {1, 2, 3}, block = {SIDE, SIDE, 1};
  render<CHANNELS, float><<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(gaussians.data_ptr<float>());
}
#define INSTANCE(CHANNELS) template void launch<CHANNELS>(const at::Tensor, at::Tensor);
INSTANCE(1)
INSTANCE(3)
}  // namespace splats
"""


def splat_kernel():
    types = {
        "gaussians": wp.array2d[wp.vec4], "colours": wp.array[wp.vec3], "count": int, "pixels": wp.array3d[wp.vec3],
        "left": wp.array3d[float], "width": int, "height": int,
    }  # fmt: skip
    return wp.cuda_kernel(
        SPLAT, "splats::render<3, float>", types, outputs=["pixels", "left"], full_outputs=["pixels", "left"],
        block_dim=(8, 8), headers={"ATen/core/Tensor.h": ""}, cpu=splats_on_cpu,
    )  # fmt: skip


def splats_on_cpu(gaussians, colours, count, width, height, *, dim):
    rows, columns = jnp.mgrid[: dim[1], : dim[2]]

    def over(carry, g):
        (x, y, narrow, strength), colour = g
        sums, clear = carry
        opaque = strength * jnp.exp(-narrow * ((x - columns) ** 2 + (y - rows) ** 2))
        opaque = jnp.where((opaque < 1 / 255) | (clear < 1e-4), 0.0, opaque)
        return (sums + (clear * opaque)[..., None] * colour, clear * (1 - opaque)), None

    def picture(gaussians):
        start = jnp.zeros((*dim[1:], 3), jnp.float32), jnp.ones(dim[1:], jnp.float32)
        return jax.lax.scan(over, start, (gaussians, colours))[0]

    return jax.vmap(picture)(gaussians)


def splat_arguments(pictures):
    rng = np.random.default_rng(2)
    place = rng.uniform((0, 0, 0.02, 0.3), (20, 13, 0.2, 0.95), (*pictures, 70, 4)).astype(np.float32)
    return place, rng.uniform(size=(70, 3)).astype(np.float32)


def test_pictures_in_three_axes_of_blocks(no_headers):
    kernel, (gaussians, colours) = splat_kernel(), splat_arguments((3,))
    dims = 3, 13, 20
    made = PtxHandwritten(kernel)
    assert "__launch_bounds__(64, 2)" in made.unit(dims).text
    pixels, left = made.run(dims, [gaussians, colours, 70, 20, 13], [(*dims, 3), dims])
    expected = splats_on_cpu(gaussians, colours, 70, 20, 13, dim=dims)
    np.testing.assert_allclose(pixels, expected[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(left, expected[1], rtol=1e-3, atol=1e-4)


@own_process(seconds=300)
def test_batches_have_the_axes_too():
    """Under vmap, jax_kernel and jit, through XLA and the launcher."""
    from ptx_xla import DEVICE, on_cuda

    for module in (handwritten, host_headers):
        module.cuda_headers = lambda: ()
    (gaussians, colours), dims = splat_arguments((2, 3)), (3, 13, 20)
    render = wp.jax_kernel(splat_kernel(), launch_dims=dims, output_dims={"pixels": dims, "left": dims})
    picture = jax.vmap(lambda g: render(g, colours, 70, 20, 13))
    expected = jax.jit(picture)(gaussians)
    for found, right in zip(on_cuda(picture, gaussians), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4)
    assert len(DEVICE.launches) == 1


def test_what_a_launch_says_of_blocks(no_headers):
    text = """__global__ void where(int* y, int width) {
      int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
      y[(blockIdx.z * gridDim.y * blockDim.y + row) * width + column] = 100 * blockDim.y + 10 * gridDim.z + gridDim.x;
    }"""
    kernel = wp.cuda_kernel(text, "where", {"y": wp.array3d[int], "width": int}, outputs="y", block_dim=32)
    (y,) = PtxHandwritten(kernel, (4, 2)).run((2, 4, 8), [8], [(2, 4, 8)])
    np.testing.assert_array_equal(y, np.full((2, 4, 8), 222))
    with pytest.raises(
        wp.LaunchError, match=r"blocks of \(4, 2\) threads do not say which blocks a launch over \(8,\)"
    ):
        PtxHandwritten(kernel, (4, 2)).run((8,), [8], [(2, 4, 8)])

    @wp.kernel
    def generated(y: wp.array[int]):
        y[wp.tid()] = 1

    with pytest.raises(wp.LaunchError, match=r"(?s)block_dim must be a positive int.*kernels of wp.cuda_kernel"):
        wp.launch(generated, 4, [], [4], block_dim=(2, 2))


def image(kernel):
    program = program_of(kernel, wp.config.settings)
    with wp.config(cache_dir=""):
        return Handwritten(kernel.definition, program.kernel, program.settings).image(["sm_90"], Blocks(64))


REFUSED = {
    "a launch": ("g<<<1, 32>>>(y);", r"(?s)kernel launch.*<f>:3"),
    "a type of the host": ("cudnnHandle_t handle; y[0] = sizeof(handle);", r'(?s)"cudnnHandle_t" is undefined.*<f>:3'),
    "a function of the host": ("y[0] = on_host();", r"(?s)must be a class or namespace name.*<f>:2"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_code_of_the_host_that_a_kernel_needs(no_headers, name):
    line, message = REFUSED[name]
    text = f"""__global__ void g(float* y) {{ y[0] = 1; }}
inline float on_host() {{ return std::chrono::seconds(1); }}
__global__ void f(float* y) {{ {line} }}"""
    with pytest.raises(wp.CompileError, match=message):
        image(wp.cuda_kernel(text, "f", {"y": F}, outputs="y"))


def test_a_barrier_of_the_grid(no_headers, tmp_path):
    """With CUDA's own header it compiles, and would not return."""
    (tmp_path / "cooperative_groups.h").write_text(
        "namespace cooperative_groups { struct grid { __device__ void sync() {\n"
        'unsigned at; asm volatile("mov.u32 %0, %%envreg2;" : "=r"(at)); if (at == 0) __trap(); } };\n'
        "__device__ inline grid this_grid() { return {}; } }"
    )
    text = """#include <cooperative_groups.h>
__global__ void f(float* y) { cooperative_groups::this_grid().sync(); y[0] = 1; }"""
    with pytest.raises(wp.CompileError, match=r"(?s)waits for its whole grid.*launch them one after the other"):
        image(wp.cuda_kernel(text, "f", {"y": F}, outputs="y", headers={
            "cooperative_groups.h": (tmp_path / "cooperative_groups.h").read_text()}))  # fmt: skip
    with pytest.raises(wp.CompileError, match='class "cooperative_groups::grid_group" has no member "sync"'):
        image(wp.cuda_kernel(text, "f", {"y": F}, outputs="y"))


def test_a_kernel_beside_one_with_other_blocks(no_headers):
    """Only what the kernel itself names has to fit its blocks."""
    text = """__device__ int row() { return threadIdx.y; }
__global__ void flat(int* y) { y[threadIdx.x] = threadIdx.y; }
__global__ void deep(int* y) { y[threadIdx.x] = row(); }
__global__ void other(int* y) { y[threadIdx.x] = cooperative(); }
__device__ inline int cooperative() { return 1; }""".replace("__global__ void other", "//")
    with pytest.raises(wp.CompileError, match=r"(?s)'deep' looks at threadIdx.y.*<deep>:1"):
        image(wp.cuda_kernel(text, "deep", {"y": I}, outputs="y"))
    with pytest.raises(wp.CompileError, match=r"(?s)'flat' looks at threadIdx.y.*<flat>:2"):
        image(wp.cuda_kernel(text, "flat", {"y": I}, outputs="y"))


def test_what_is_left_out():
    """Same lines; what is named stays, whatever it looks like, and what is not understood stays whole."""
    text = """#define HOST_ONLY(name) int name() { return system("ls"); }
#define GPU_FUNCTION inline __device__
static const float table[2] = {1.0f, 2.0f};
template <class T = int, bool B = (1 > 2)> T named(T x) { return x; }
template <class T> std::vector<T> unnamed(T x) { return {x}; }
int counter = 0, *other;
HOST_ONLY(lists)
GPU_FUNCTION float helper(float x) { return named(x) + table[0]; }
float3 operator+(float3 a, float3 b) { return {a.x + b.x}; }
__host__ void explicitly() { "}"; R"x(}}})x"; '{'; /* } */ }
namespace inner { void quiet(); struct Pair { int a; int sum() { return a; } }; } // a comment { stays
extern "C" { void c_function(int); __global__ void k(float* y); }
auto lambda = [](int x) { return x; };
Thing::Thing() : first{1}, second(2) { start(); }
__constant__ float weights[3];
using real = float;
"""
    made = device_part({"": text}, "k")[""]
    left = {n for n, line in enumerate(made.splitlines(), 1) if line.strip()}
    assert made.count("\n") == text.count("\n")
    assert left == {1, 2, 3, 4, 8, 9, 11, 12, 15, 16}
    assert "quiet" not in made and "Pair" in made and "c_function" not in made and "void k" in made
    for broken in ("void f() { {", "}", "void f(", "int x"):
        assert device_part({"": broken}, "k")[""] == broken
    # What it names stays in other texts.
    text, other = (
        "__global__ void k() {} void f() { named();",
        "int named() { return 1; }\nint unnamed() { return 2; }\n",
    )
    assert device_part({"": text, "other.h": other}, "k") == {
        "": text,
        "other.h": "int named() { return 1; }\n" + " " * 27 + "\n",
    }


# What the host's launcher is called, a kernel names too; its library is not here; the lambda is the GPU's.
PAIRS = """\
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cub/cub.cuh>
namespace mine { template <class T, class F> __device__ T total(T x, T y, F add) { return add(x, y); } }
template <int THREADS> __global__ void pairs(const __half* x, const __half* y, __half* z, float* sums, int n) {
  typedef cub::BlockReduce<float, THREADS> Reduce;
  __shared__ typename Reduce::TempStorage memory;
  int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  __half2 both = __float2half2_rn(0.0f);
  if (i < n) {
    __half2 a = *reinterpret_cast<const __half2*>(x + i), b = *reinterpret_cast<const __half2*>(y + i);
    both = __hfma2(a, b, __hadd2(__hneg2(a), __hmax2(a, b)));
    *reinterpret_cast<__half2*>(z + i) = both;
  }
  float2 apart = __half22float2(both);
  float sum = mine::total(apart.x, apart.y, [] __device__(float a, float b) { return a + b; });
  sum = Reduce(memory).Reduce(sum, cub::Sum());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
template <class T> void total(torch::Tensor x, T* z) { pairs<64><<<2, 64>>>(x.data_ptr<T>(), z, z, 0, 1); }
template void total<__half>(torch::Tensor x, __half* z);
"""


def test_libraries_of_the_host_and_pairs_of_halves(compiler):
    """With the whole of CUB included, whose parts for blocks are there."""
    from jwarp.backend.cuda.headers import cuda_headers

    if len(cuda_headers()) < 2:
        pytest.skip("CUDA's headers and CCCL are not installed")
    H = wp.array[wp.float16]
    types = {"x": H, "y": H, "z": H, "sums": F, "n": int}
    kernel = wp.cuda_kernel(PAIRS, "pairs<64>", types, outputs=["z", "sums"], block_dim=64, grid=2)
    x, y = np.random.default_rng(5).normal(size=(2, 200)).astype(np.float16)
    z, sums = PtxHandwritten(kernel).run((128,), [x, y, 200], [200, 2])
    expected = (x.astype(float) * y + (-x + np.maximum(x, y)).astype(float)).astype(np.float16)
    np.testing.assert_array_equal(z, expected)
    np.testing.assert_allclose(
        sums, [expected[:128].astype(float).sum(), expected[128:].astype(float).sum()], rtol=1e-5
    )


def test_functions_of_the_device_by_default(no_headers):
    """With the option of NVRTC, all of a text is the GPU's."""
    text = "float half_of(float x) { return x / 2; }\n__global__ void f(float* y) { y[0] = half_of(y[0]); }"
    for options in ([], ["-default-device"], ["--device-as-default-execution-space"]):
        kernel = wp.cuda_kernel(text + "\nvoid unused() { }", "f", {"y": F}, outputs="y", options=options)
        program = program_of(kernel, wp.config.settings)
        unit = Handwritten(kernel.definition, program.kernel, program.settings).unit(Blocks(32))
        assert ("unused" in unit.text) == bool(options)
        assert ".entry" in ptx_of(unit)


def test_cuda_s_own_headers(compiler):
    """Where they are installed, with CCCL."""
    from jwarp.backend.cuda.headers import cuda_headers

    if len(cuda_headers()) < 2:
        pytest.skip("CUDA's headers and CCCL are not installed")
    types = {"data": wp.array[wp.uint8], "bins": U, "n": int}
    count = wp.cuda_kernel(HISTOGRAM, "count", types, outputs="bins", block_dim=64, grid=2, headers={"helper.h": ""})
    data = np.random.default_rng(3).integers(0, 256, 500).astype(np.uint8)
    (bins,) = PtxHandwritten(count).run((500,), [data, 500], [256])
    np.testing.assert_array_equal(bins, np.bincount(data, minlength=256))
