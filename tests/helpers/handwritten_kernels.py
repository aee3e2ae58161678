"""Handwritten kernels that several tests launch."""

import jax.numpy as jnp

import jwarp as wp

A, A2 = wp.array[float], wp.array2d[float]

POWERS = """\
// y[i, j] = x[i, j]^2 * k + bias[j]
__global__ void powers(const float* __restrict__ x, float k, const float* bias, float* y, int rows, int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * columns) y[i] = x[i] * x[i] * k + bias[i % columns];
}

__global__ void powers_adjoint(jw::array<const float, 2> x, float k, const float* adj_y, float* adj_x, float* adj_k,
                               float* adj_bias) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= x.size()) return;
  adj_x[i] = 2.0f * x[i] * k * adj_y[i];
  atomicAdd(adj_k, x[i] * x[i] * adj_y[i]);
  atomicAdd(adj_bias + i % x.shape(1), adj_y[i]);
}
"""


def powers_of(x, k, bias):
    return x * x * k + bias


@wp.kernel
def powers_on_cpu(x: A2, k: float, bias: A, y: A2, rows: int, columns: int):
    t = wp.tid()
    if t < rows * columns:
        i, j = t // columns, t % columns
        y[i, j] = x[i, j] * x[i, j] * k + bias[j]


POWERS_PARAMS = {"x": A2, "k": float, "bias": A, "y": A2, "rows": int, "columns": int}


def powers_adjoint_kernel():
    return wp.cuda_kernel(
        POWERS,
        "powers_adjoint",
        {"x": A2, "k": float, "adj_y": A2, "adj_x": A2, "adj_k": A, "adj_bias": A},
        outputs=["adj_x", "adj_k", "adj_bias"],
        cpu=lambda x, k, adj_y: (2.0 * x * k * adj_y, (x * x * adj_y).sum()[None], adj_y.sum(0)),
    )


def powers_kernel(cpu=powers_on_cpu, adjoint="kernel", **keywords):
    """The kernel with the adjoint that is asked for."""
    adjoint = powers_adjoint_kernel() if adjoint == "kernel" else adjoint
    return wp.cuda_kernel(POWERS, "powers", POWERS_PARAMS, outputs=["y"], adjoint=adjoint, cpu=cpu, **keywords)


def powers(kernel, x, k, bias):
    """The launch of such a kernel."""
    rows, columns = x.shape
    inputs = {"x": x, "k": k, "bias": bias, "rows": rows, "columns": columns}
    return wp.launch(kernel, rows * columns, inputs, {"y": x.shape})["y"]


# An in-out parameter: y becomes k * y + x.
GROW = """\
__global__ void grow(const float* x, float k, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = k * y[i] + x[i];
}
__global__ void grow_adjoint(float k, const float* y, float* adj_y, float* adj_x, float* adj_k, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    adj_x[i] = adj_y[i];
    atomicAdd(adj_k, y[i] * adj_y[i]);
    adj_y[i] *= k;
  }
}
"""


def grow_kernel(**keywords):
    adjoint = wp.cuda_kernel(
        GROW,
        "grow_adjoint",
        {"k": float, "y": A, "adj_y": A, "adj_x": A, "adj_k": A, "n": int},
        outputs=["adj_x", "adj_k"],
        in_out_argnames=["adj_y"],
        cpu=lambda k, y, adj_y, n: (k * adj_y, adj_y, jnp.sum(y * adj_y)[None]),
    )
    return wp.cuda_kernel(
        GROW,
        "grow",
        {"x": A, "k": float, "y": A, "n": int},
        outputs=["y"],
        in_out_argnames=["y"],
        adjoint=adjoint,
        cpu=lambda x, k, y, n: k * y + x,
        **keywords,
    )
