"""On a GPU: handwritten kernels, their adjoints and batches, and the project's own library, against the processor.

`pytest -m gpu tests/cuda/test_handwritten_on_gpu.py`; without a GPU nothing here runs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

pytestmark = pytest.mark.gpu
A, A2 = wp.array[float], wp.array2d[float]


@pytest.fixture(scope="module", autouse=True)
def gpu():
    """The GPU that launches run on."""
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError as error:
        pytest.skip(f"no GPU: {error}")
    with jax.default_device(device), jax.enable_x64(True):
        yield device


def agree(function, args, gpu, tolerance=1e-5):
    """The function gives the same on the GPU as on the processor, where the twins run."""
    found = jax.tree.map(np.asarray, jax.jit(function)(*jax.device_put(args, gpu)))
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        expected = jax.tree.map(np.asarray, jax.jit(function)(*jax.device_put(args, cpu)))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), found, expected)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


TEXT = """\
__global__ void shrink(const float* x, float k, jw::array<const float, 1> bias, float* y, float* total) {
  __shared__ float part[256];
  int n = bias.shape(0), i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < n ? tanhf(k * x[i]) + bias(i) : 0.0f;
  __syncthreads();
  if (i < n) {
    y[i] += part[threadIdx.x];
    atomicAdd(total, part[threadIdx.x]);
  }
}
__global__ void shrink_adjoint(const float* x, float k, jw::array<const float, 1> bias, const float* adj_total,
                               float* adj_y, float* adj_x, float* adj_k, float* adj_bias) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= bias.shape(0)) return;
  float inner = tanhf(k * x[i]), arriving = adj_y[i] + adj_total[0];
  adj_bias[i] = arriving;
  adj_x[i] = arriving * (1.0f - inner * inner) * k;
  atomicAdd(adj_k, arriving * (1.0f - inner * inner) * x[i]);
}
"""


def adjoint_on_cpu(x, k, bias, adj_total, adj_y):
    inner, arriving = jnp.tanh(k * x), adj_y + adj_total[0]
    slope = arriving * (1.0 - inner * inner)
    return adj_y, slope * k, (slope * x).sum()[None], arriving


@pytest.fixture(scope="module")
def shrink():
    adjoint = wp.cuda_kernel(
        TEXT, "shrink_adjoint",
        {"x": A, "k": float, "bias": A, "adj_total": A, "adj_y": A, "adj_x": A, "adj_k": A, "adj_bias": A},
        outputs=["adj_x", "adj_k", "adj_bias"], in_out_argnames=["adj_y"], cpu=adjoint_on_cpu,
    )  # fmt: skip
    kernel = wp.cuda_kernel(
        TEXT, "shrink", {"x": A, "k": float, "bias": A, "y": A, "total": A},
        outputs=["total"], in_out_argnames=["y"], adjoint=adjoint,
        cpu=lambda x, k, bias, y: (y + jnp.tanh(k * x) + bias, (jnp.tanh(k * x) + bias).sum()[None]),
    )  # fmt: skip
    return lambda x, k, bias, y: wp.launch(kernel, x.shape[0], [x, k, bias], [y, 1])


ARGUMENTS = floats(1000), np.float32(0.7), floats(1000, seed=1), floats(1000, seed=2)


def test_values(shrink, gpu):
    agree(shrink, ARGUMENTS, gpu, 1e-4)


def test_gradients(shrink, gpu):
    def loss(*args):
        y, total = shrink(*args)
        return jnp.sin(y).sum() + 0.01 * total[0] ** 2

    agree(jax.grad(loss, (0, 1, 2, 3)), ARGUMENTS, gpu, 2e-3)


@pytest.mark.parametrize("items", [3, 70_000])
def test_batches(shrink, gpu, items):
    """More elements than a grid has blocks along z are done by blocks one after another."""
    x, bias = floats(20), floats(20, seed=1)
    args = x, floats(items, seed=2), bias, floats(items, 20, seed=3)
    agree(jax.vmap(shrink, (None, 0, None, 0)), args, gpu, 1e-4)
    agree(jax.vmap(jax.vmap(shrink, (0, None, 0, 0)), (None, 0, None, 0)),
          (floats(3, 20), floats(2), floats(3, 20), floats(2, 3, 20)), gpu, 1e-4)  # fmt: skip


def test_a_scan_is_captured_as_a_graph(shrink, gpu):
    def run(x, k, bias, y):
        return jax.lax.scan(lambda y, _: (shrink(x, k, bias, 0.5 * y)[0], None), y, length=50)[0]

    agree(run, ARGUMENTS, gpu, 1e-4)


def test_much_shared_memory(gpu):
    text = """\
__global__ void turn(const float* x, float* y, int n) {
  float* part = jw::dynamic_shared<float>();
  for (int i = threadIdx.x; i < n; i += blockDim.x) part[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = part[n - 1 - i];
}
"""
    n = 24_000  # 96 KB
    kernel = wp.cuda_kernel(
        text, "turn", {"x": A, "y": A, "n": int}, outputs="y", cpu=lambda x, n: x[::-1], grid=1, shared_bytes=4 * n
    )
    agree(lambda x: wp.launch(kernel, n, {"x": x, "n": n}, {"y": n})["y"], (floats(n),), gpu)


def test_instances_of_templates_and_kinds_of_arguments(gpu):
    text = """\
template <class T, int N>
__global__ void mix(const T* x, T k, float3 v, bool flag, long long big, const int2* pairs, T* y) {
  int i = threadIdx.x;
  y[i] = x[i] * k + v.x * v.y - v.z + (flag ? T(big >> 32) : T(0)) + T(pairs[i].x - pairs[i].y) * N;
}
"""
    D = wp.array[wp.float64]
    params = {"x": D, "k": wp.float64, "v": wp.vec3, "flag": bool, "big": wp.int64, "pairs": wp.array[wp.vec2i], "y": D}

    def cpu(x, k, v, flag, big, pairs):
        return (
            x * k
            + v[0] * v[1]
            - v[2]
            + jnp.where(flag, (big >> 32).astype(float), 0.0)
            + 3.0 * (pairs[:, 0] - pairs[:, 1])
        )

    kernel = wp.cuda_kernel(text, "mix<double, 3>", params, outputs="y", cpu=cpu)
    x = np.random.default_rng(0).normal(size=40)
    pairs = np.random.default_rng(1).integers(-9, 9, (40, 2)).astype(np.int32)

    def run(x, v, flag, pairs):
        return wp.launch(kernel, 40, [x, 1.5, v, flag, 5 << 32, pairs], [40])[0]

    for flag in (True, False):
        agree(run, (x, np.float32([1, 2, 3]), flag, pairs), gpu, 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint32", "uint64"])
def test_the_library(dtype, gpu):
    random = np.random.default_rng(4)
    make = random.normal if dtype.startswith("float") else lambda size: random.integers(0, 1000, size)
    tolerance = {"float32": 1e-3, "float64": 1e-10}.get(dtype, 0)
    for rows, columns in ((3, 5), (200, 1000), (1, 100_001)):
        x = np.asarray(make(size=(rows, columns))).astype(dtype)
        for op in ("sum", "max", "min"):
            agree(lambda x, op=op: wp.device.reduce(x, op), (x,), gpu, tolerance * 10)
        for exclusive in (False, True):
            agree(lambda x, e=exclusive: wp.device.scan(x, exclusive=e, reverse=e), (x,), gpu, tolerance * 10)
    for columns in ((), (1,), (40,)):
        x = np.asarray(make(size=(5000, *columns))).astype(dtype)
        offsets = np.sort(random.integers(0, 5000, 301)).astype(np.int32)
        agree(wp.device.segmented_sum, (x, offsets), gpu, tolerance)
        for size in (1, 100, 30_000):
            indices = random.integers(-3, size + 3, 5000).astype(np.int32)
            agree(lambda x, i, s=size: wp.device.scatter_add(x, i, s), (x, indices), gpu, tolerance * 10)


def test_gradients_of_the_library(gpu):
    random = np.random.default_rng(5)
    x, indices = random.normal(size=(300, 7)), random.integers(-1, 21, 300).astype(np.int32)
    offsets = np.sort(random.integers(0, 300, 13)).astype(np.int32)
    functions = {
        "reduce": lambda x: wp.device.reduce(x, "max"),
        "scan": lambda x: wp.device.scan(x, exclusive=True),
        "segmented_sum": lambda x: wp.device.segmented_sum(x, offsets),
        "scatter_add": lambda x: wp.device.scatter_add(x, indices, 20),
    }
    for function in functions.values():
        first = jax.grad(lambda x, f=function: jnp.sin(f(x)).sum())
        agree(first, (x,), gpu, 1e-10)
        agree(jax.vmap(first), (np.stack([x, -x]),), gpu, 1e-10)
        agree(jax.grad(lambda x, g=first: (g(x) ** 2).sum()), (x,), gpu, 1e-9)
