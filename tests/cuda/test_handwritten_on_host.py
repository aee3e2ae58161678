"""Handwritten kernels, those of the project's own library among them, run on the processor with a stand-in for CUDA.

Their calls, batches and arguments are checked there too: what is generated around the author's function.
"""

import itertools
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cuda_on_host import BACKWARD, FORWARD, compile_host, pack

import jwarp as wp
from jwarp.api import device
from jwarp.compiler.handwritten import Handwritten
from jwarp.compiler.program import program_of
from jwarp.launching.handwritten import configuration, read_blocks

ORDERS = (FORWARD, BACKWARD, 3)
A, A2 = wp.array[float], wp.array2d[float]


class OnHost:
    """A handwritten kernel, compiled for the processor."""

    def __init__(self, kernel, block=None):
        self.kernel, self.block = kernel, block
        program = program_of(kernel, wp.config.settings)
        blocks = read_blocks("", block) if block else kernel.definition.blocks
        text = Handwritten(kernel.definition, program.kernel, program.settings).unit(blocks).text
        (self.host,) = compile_host([text])

    def __call__(self, dims, inputs, outputs, *, batch=(), axes=None, order=FORWARD, items=None):
        """The outputs, by shape or initial content; `axes` are those of the batch that each parameter has."""
        kernel, definition = self.kernel, self.kernel.definition
        values = iter(inputs)
        given = [None if p in definition.outputs else next(values) for p in range(len(kernel.params))]
        for p, output in zip(definition.outputs, outputs, strict=True):
            whole = (*batch, *output) if isinstance(output, tuple) else None
            given[p] = np.zeros(whole, kernel.params[p].dtype.dtype) if whole is not None else output
        arrays = [np.array(a, p.dtype.dtype, order="C") for a, p in zip(given, kernel.params, strict=True)]
        program, _ = program_of(kernel, wp.config.settings).arranged(tuple(dims), None)
        config = configuration(program.definition, tuple(dims), self.block)
        axes = axes or [
            [True] * len(batch) if p in definition.outputs else [False] * len(batch) for p in range(len(arrays))
        ]
        words = pack(kernel.params, arrays, dims, batch=batch, batched=axes)
        grid = (*config.grid, items or max(1, min(math.prod(batch), 65535)))
        before = [a.tobytes() for a in arrays]
        self.host.run(words, grid, (config.blocks.size,), shared=config.shared, order=order)
        for p, array in enumerate(arrays):
            assert p in definition.outputs or array.tobytes() == before[p], "an input has changed"
        return [arrays[p] for p in definition.outputs]


def numbers(shape, dtype=np.float32, seed=0):
    random = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.floating):
        return random.normal(size=shape).astype(dtype)
    return random.integers(-50 if np.issubdtype(dtype, np.signedinteger) else 0, 100, shape).astype(dtype)


# What is generated around the function


def test_every_kind_of_argument():
    text = """\
struct Pair { float a, b; };
template <int N> __global__ void __launch_bounds__(64)
f(jw::array<const float, 2> x, const float* flat, float k, int n, bool flag, Pair v, jw::matrix<float, 2, 3> m,
  const Pair* pairs, short s, unsigned char b, float h, jw::array<double, 1> y, int* shapes) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) { shapes[0] = x.shape(0); shapes[1] = x.shape(1); shapes[2] = x.size(); shapes[3] = y.shape(0) * N; }
  if (i >= n) return;
  y(i) = flag ? x(i / 3, i % 3) + flat[i] * k + v.b + m(1, 2) + pairs[i].a + s + b + h : -1.0;
}
"""
    params = {
        "x": A2, "flat": A, "k": float, "n": int, "flag": bool, "v": wp.vec2, "m": wp.types.matrix((2, 3), float),
        "pairs": wp.array[wp.vec2], "s": wp.int16, "b": wp.uint8, "h": wp.float16, "y": wp.array[wp.float64],
        "shapes": wp.array[int],
    }  # fmt: skip
    run = OnHost(wp.cuda_kernel(text, "f<7>", params, outputs=["y", "shapes"], block_dim=64))
    x, flat, pairs, m = numbers((4, 3)), numbers(12, seed=1), numbers((12, 2), seed=2), numbers((2, 3), seed=3)
    for order in ORDERS:
        y, shapes = run(
            (12,), [x, flat, 0.5, 12, True, (1.0, 2.0), m, pairs, -3, 200, 0.25], [(12,), (4,)], order=order
        )
        np.testing.assert_allclose(y, x.ravel() + flat * 0.5 + 2.0 + m[1, 2] + pairs[:, 0] - 3 + 200 + 0.25, rtol=1e-6)
        assert shapes.tolist() == [4, 3, 12, 84]
    y, _ = run((12,), [x, flat, 0.5, 7, False, (1.0, 2.0), m, pairs, -3, 200, 0.25], [(12,), (4,)])
    assert y.tolist() == [-1.0] * 7 + [0.0] * 5


def test_vectors_that_cuda_has():
    """By value, by pointer, and in arrays; shared memory as CUDA declares it."""
    text = """\
extern __shared__ __align__(16) float4 held[];
__global__ void f(const float3* x, float2 k, jw::array<const int2, 1> n, jw::array<float4, 1> y,
                  jw::array<double2, 1> z) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < y.shape(0)) held[threadIdx.x] = make_float4(x[i].x * k.x, x[i].y * k.y, x[i].z, n(i).x);
  __syncthreads();
  if (i >= y.shape(0)) return;
  y(i) = held[threadIdx.x];
  z[i] = make_double2(n[i].y, 0.5);
}
"""
    params = {
        "x": wp.array[wp.vec3], "k": wp.vec2, "n": wp.array[wp.vec2i], "y": wp.array[wp.vec4], "z": wp.array[wp.vec2d],
    }  # fmt: skip
    kernel = wp.cuda_kernel(text, "f", params, outputs=["y", "z"], block_dim=32, shared_bytes=512)
    x, k, n = numbers((40, 3)), numbers(2, seed=1), numbers((40, 2), np.int32, seed=2)
    for order in ORDERS:
        y, z = OnHost(kernel)((40,), [x, k, n], [(40, 4), (40, 2)], order=order)
        expected = np.column_stack([x * [*k, 1], n[:, 0]]).astype(np.float32)
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        np.testing.assert_array_equal(z, np.column_stack([n[:, 1], np.full(40, 0.5)]))


@pytest.mark.parametrize("items", [1, 2, 6])
def test_batches_by_strides(items):
    text = """\
__global__ void f(const float* x, float k, const float* bias, jw::array<float, 1> y) {
  __shared__ float part[32];
  part[threadIdx.x] = x[threadIdx.x] * k;
  __syncthreads();
  if (threadIdx.x >= y.shape(0)) return;
  y[threadIdx.x] = part[(threadIdx.x + 1) % 32] + bias[0];
}
"""
    params = {"x": A, "k": float, "bias": A, "y": A}
    run = OnHost(wp.cuda_kernel(text, "f", params, outputs="y", block_dim=32))
    x, k, bias = numbers((2, 32)), numbers(3, seed=1), numbers((2, 3, 1), seed=2)
    axes = [[True, False], [False, True], [True, True], [True, True]]
    for order in ORDERS:
        (y,) = run((32,), [x, k, bias], [(20,)], batch=(2, 3), axes=axes, order=order, items=items)
        expected = np.roll(x, -1, 1)[:, None, :20] * k[None, :, None] + bias
        np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_the_author_s_grid():
    text = """\
__global__ void f(int* y) {
  if (threadIdx.x == 0) atomicAdd(y + blockIdx.y, 1 + (int)blockIdx.x);
  jw::dynamic_shared<int>()[threadIdx.x] = 1;
}
"""
    kernel = wp.cuda_kernel(
        text, "f", {"y": wp.array[int]}, outputs="y", block_dim=32, grid=lambda dim: (dim[0], dim[1]), shared_bytes=128
    )
    (y,) = OnHost(kernel)((4, 3), [], [(3,)])
    assert y.tolist() == [10, 10, 10]


# The library


DTYPES = (wp.float32, wp.float64, wp.int32, wp.int64, wp.uint32, wp.uint64)


def on_host(name, dtype, block=None):
    kernel = device.kernels()[name](dtype)
    return OnHost(kernel, block), kernel.definition.cpu


def agree(found, expected, dtype):
    tolerance = {"float32": 1e-5, "float64": 1e-13}.get(dtype.name, 0)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.fixture(autouse=True)
def wide(x64):
    """64-bit types in the references."""


@pytest.mark.parametrize(
    "op, dtype", [*(("max", d) for d in DTYPES), ("sum", wp.float32), ("sum", wp.int64), ("min", wp.float64)], ids=str
)
def test_reductions(op, dtype):
    run, reference = on_host(f"reduce {op}", dtype, block=128)
    for rows, columns, order in ((3, 5, FORWARD), (2, 300, BACKWARD), (1, 129, 3), (2, 1, FORWARD)):
        x = numbers((rows, columns), dtype.dtype, seed=columns)
        agree(run((rows,), [x], [(rows,)], order=order)[0], reference(jnp.asarray(x)), dtype)
    if op == "sum":
        assert run((2,), [np.zeros((2, 0))], [(2,)])[0].tolist() == [0, 0]
    elif dtype.is_float:
        x = np.array([[1.0, np.nan, 2.0], [-np.inf, -np.inf, -np.inf], [np.inf, -np.inf, 0.0]])
        np.testing.assert_array_equal(run((3,), [x], [(3,)])[0], reference(jnp.asarray(x, dtype.dtype)))


@pytest.mark.parametrize("dtype", [wp.float32, wp.int32], ids=str)
@pytest.mark.parametrize("name", [n for n in device.kernels() if n.startswith("scan")])
def test_scans(name, dtype):
    run, reference = on_host(name, dtype, block=96)
    for rows, columns, order in ((2, 7, FORWARD), (2, 96, BACKWARD), (1, 300, 3), (1, 193, FORWARD)):
        x = numbers((rows, columns), dtype.dtype, seed=columns)
        agree(run((rows,), [x], [x.shape], order=order)[0], reference(jnp.asarray(x)), dtype)


@pytest.mark.parametrize("columns", [1, 3, 40])
@pytest.mark.parametrize("offsets", [[0, 70, 70, 100], [4, 9], [90, 130], [-3, 5]], ids=str)
def test_segments(offsets, columns):
    count = len(offsets) - 1
    x, where = numbers((100, columns)), np.array(offsets, np.int32)
    run, reference = on_host("segmented_sum", wp.float32)
    expected = np.stack([x[max(a, 0) : b].sum(0) for a, b in itertools.pairwise(offsets)])
    for order in ORDERS:
        found = run((count,), [x, where], [(count, columns)], order=order)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(reference(jnp.asarray(x), jnp.asarray(where)), expected, rtol=1e-4, atol=1e-5)
    back, twin = on_host("spread_segments", wp.float32)
    found = back((count,), [expected, where], [x.shape], order=3)[0]
    spread = twin(jnp.asarray(expected), jnp.asarray(where), output_shapes=(x.shape,))
    np.testing.assert_array_equal(found, spread)


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64, wp.int64, wp.uint32], ids=str)
@pytest.mark.parametrize("name", ["scatter_add", "scatter_add in shared memory"])
def test_scatter_add(name, dtype):
    run, reference = on_host(name, dtype, block=64)
    for rows, size, columns, order in ((500, 7, 1, FORWARD), (100, 20, 3, 3), (3, 40, 2, BACKWARD)):
        values = numbers((rows, columns), dtype.dtype, seed=rows)
        indices = np.random.default_rng(size).integers(-2, size + 2, rows).astype(np.int32)
        found = run((rows, size, columns), [values, indices], [(size, columns)], order=order)[0]
        expected = reference(jnp.asarray(values), jnp.asarray(indices), output_shapes=((size, columns),))
        agree(found, expected, dtype)


def test_a_batch_of_scatter_adds_in_shared_memory():
    """Blocks start anew for each element."""
    run, reference = on_host("scatter_add in shared memory", wp.float32, block=64)
    values, indices = numbers((4, 90, 2)), np.random.default_rng(1).integers(0, 9, (4, 90)).astype(np.int32)
    axes = [[True]] * 3
    found = run((90, 9, 2), [values, indices], [(9, 2)], batch=(4,), axes=axes, items=2, order=3)[0]
    expected = jax.vmap(lambda v, i: reference(v, i, output_shapes=((9, 2),)))(values, indices)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_take_rows():
    run, reference = on_host("take_rows", wp.float64)
    table, indices = numbers((9, 3), np.float64), np.array([8, -1, 0, 9, 3, 3], np.int32)
    found = run((6, 3), [table, indices], [(6, 3)], order=3)[0]
    np.testing.assert_array_equal(found, reference(jnp.asarray(table), jnp.asarray(indices)))


def test_the_kernels_of_the_example():
    source = Path(__file__).parents[2] / "examples" / "softmax_cross_entropy.cu"
    Labels = wp.array[int]
    forward = wp.cuda_kernel(
        source, "softmax_cross_entropy<float>", {"logits": A2, "labels": Labels, "losses": A, "log_sums": A},
        outputs=["losses", "log_sums"], block_dim=64, grid=lambda dim: dim[0],
    )  # fmt: skip
    adjoint = wp.cuda_kernel(
        source, "softmax_cross_entropy_adjoint<float>",
        {"logits": A2, "labels": Labels, "log_sums": A, "adj_losses": A, "adj_log_sums": A, "adj_logits": A2},
        outputs=["adj_logits"], block_dim=64, grid=lambda dim: dim[0],
    )  # fmt: skip
    for rows, classes, order in ((3, 5, FORWARD), (2, 300, BACKWARD), (4, 64, 3)):
        logits, labels = 5 * numbers((rows, classes)), np.random.default_rng(1).integers(0, classes, rows)

        def reference(logits, labels=labels):
            log_sums = jax.nn.logsumexp(logits, axis=1)
            return log_sums - logits[jnp.arange(len(labels)), labels], log_sums

        expected, pull = jax.vjp(reference, jnp.asarray(logits))
        found = OnHost(forward)((rows,), [logits, labels], [(rows,), (rows,)], order=order)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        cotangents = numbers(rows, seed=2), numbers(rows, seed=3)
        inputs = [logits, labels, found[1], *cotangents]
        (gradient,) = OnHost(adjoint)((rows,), inputs, [logits.shape], order=order)
        np.testing.assert_allclose(gradient, pull(tuple(map(jnp.asarray, cotangents)))[0], rtol=1e-4, atol=1e-5)
