"""Programs that XLA's compiler for GPUs compiles ahead of time for an H100: run as a script, it writes each as text.

    XLA_FLAGS=--xla_dump_to=FOLDER python tests/helpers/xla_gpu_programs.py FOLDER

What XLA dumps there says which calls became parts of a CUDA graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jwarp as wp

N = 1024
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535 block_dim_limit_z: 65535 memory_bandwidth: 3352320000000 l2_cache_size: 52428800
  clock_rate_ghz: 1.98 device_memory_size: 84978434048 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 } registers_per_core_limit: 65536 registers_per_block_limit: 65536
  driver_version: "13.0.0" runtime_version: "13.0.0"
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 1 patch: 1 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


@wp.kernel
def spring(x: wp.array[float], k: float, f: wp.array[float]):
    i = wp.tid()
    f[i] = -k * x[i] + wp.sin(x[i])


@wp.kernel
def scaled(x: wp.array[float], k: float):
    i = wp.tid()
    assert k > 0.0
    x[i] = k * x[i]


@wp.kernel
def centred(x: wp.array2d[float], y: wp.array2d[float]):
    i, _ = wp.tid()
    row = wp.tile_load(x[i], shape=32)
    total = wp.tile_sum(row * row)
    wp.tile_store(y[i], row * total[0])


twice = wp.cuda_kernel(
    """
    __global__ void twice(const float* x, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = 2.0f * x[i];
    }
    """,
    "twice", {"x": wp.array[float], "y": wp.array[float], "n": wp.int32}, outputs=["y"],
)  # fmt: skip


def chain(x):
    for _ in range(3):
        x = wp.launch(scaled, N, {"k": 0.5}, {"x": x})["x"]
    return x


def springs(x):
    for _ in range(2):
        (x,) = wp.launch(spring, N, [x, 0.5], [N])
    return (x**2).sum()


def loop(x):
    return jax.lax.fori_loop(0, 5, lambda _, x: chain(x), x)


def batch(x):
    return jax.vmap(lambda row: wp.launch(spring, N // 4, [row, 0.5], [N // 4])[0])(x.reshape(4, N // 4)).ravel()


def tiles(x):
    return wp.launch_tiled(centred, [N // 32], [x.reshape(-1, 32)], [(N // 32, 32)], block_dim=32)[0].ravel()


def handwritten(x):
    return wp.launch(twice, N, {"x": x, "n": N}, {"y": N})["y"]


def checked(x):
    with wp.config(debug=True):
        return chain(x) + 0.0


def gradient_of_tiles(x):
    return jax.grad(lambda x: tiles(x).sum())(x)


def gradient(x):
    return jax.grad(springs)(x)


def unknown(x):
    return jax.ffi.ffi_call("jwarp_nobody", jax.ShapeDtypeStruct((N,), jnp.float32))(x)


# Functions of an array; with `donate`, its memory may become that of the result.
KEPT: tuple[Callable, ...] = (gradient, gradient_of_tiles, batch, tiles, handwritten, checked)
DONATED: tuple[Callable, ...] = (chain, loop)


def main(folder: Path) -> None:
    topology = topologies.get_topology_desc(platform="cuda", topology_name="h100", target_config=H100, topology="1x1x1")
    placed = NamedSharding(Mesh(np.array(topology.devices[:1]), ("d",)), PartitionSpec())
    wp.config.cuda_arch = "sm_90"

    def compiled(function: Callable, donate: tuple[int, ...] = ()) -> str:
        x = jax.ShapeDtypeStruct((N,), jnp.float32, sharding=placed)
        traced = jax.jit(function, donate_argnums=donate).trace(x)
        return traced.lower(lowering_platforms=("cuda",)).compile().as_text()

    try:
        compiled(unknown)
    except Exception as error:  # XLA's, of a target that nobody has registered
        (folder / "unknown.hlo").write_text(str(error))
    for functions, donate in ((KEPT, ()), (DONATED, (0,))):
        for function in functions:
            (folder / f"{function.__name__}.hlo").write_text(compiled(function, donate))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
