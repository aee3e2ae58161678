"""XLA's own compiler for GPUs takes launches, ahead of time and without a GPU: it needs jax-cuda13-plugin.

`pip install 'jwarp[cuda-aot]'` has it; where it is not installed, or not of this JAX, the tests are skipped by name.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jwarp.backend.cuda import nvrtc


def lacking():
    try:
        plugin, jax = importlib.metadata.version("jax-cuda13-plugin"), importlib.metadata.version("jax")
    except importlib.metadata.PackageNotFoundError:
        return "needs jax-cuda13-plugin: pip install 'jwarp[cuda-aot]'"
    if plugin.split(".")[:2] != jax.split(".")[:2]:
        return f"jax-cuda13-plugin {plugin} is not of jax {jax}"
    return "needs NVRTC" if nvrtc.missing() else ""


pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking())

PROGRAM = '''
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jwarp as wp

H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535 block_dim_limit_z: 65535 memory_bandwidth: 3352320000000 l2_cache_size: 52428800
  clock_rate_ghz: 1.98 device_memory_size: 84978434048 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 } registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 1 patch: 1 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
topology = topologies.get_topology_desc(platform="cuda", topology_name="h100", target_config=H100, topology="1x1x1")
placed = NamedSharding(Mesh(np.array(topology.devices[:1]), ("d",)), PartitionSpec())
wp.config.cuda_arch = "sm_90"


@wp.kernel
def spring(x: wp.array[float], k: float, f: wp.array[float]):
    i = wp.tid()
    f[i] = -k * x[i]


@wp.kernel
def scaled(x: wp.array[float], k: float):
    i = wp.tid()
    assert k > 0.0
    x[i] = k * x[i]


def compiled(function, donate=()):
    x = jax.ShapeDtypeStruct((1024,), jnp.float32, sharding=placed)
    traced = jax.jit(function, donate_argnums=donate).trace(x)
    return traced.lower(lowering_platforms=("cuda",)).compile().as_text()


def chain(x):
    for _ in range(3):
        x = wp.launch(scaled, 1024, {"k": 0.5}, {"x": x})["x"]
    return x


def springs(x):
    for _ in range(2):
        (x,) = wp.launch(spring, 1024, [x, 0.5], [1024])
    return (x**2).sum()


try:
    compiled(lambda x: jax.ffi.ffi_call("jwarp_nobody", jax.ShapeDtypeStruct((1024,), jnp.float32))(x))
    print("== unknown target compiled")
except Exception as error:
    print("== unknown target", "jwarp_nobody" in str(error))
print("== gradient", compiled(jax.grad(springs)), sep="\\n")
print("== chain", compiled(chain, donate=(0,)), sep="\\n")
print("== loop", compiled(lambda x: jax.lax.fori_loop(0, 5, lambda _, x: chain(x), x), donate=(0,)), sep="\\n")
with wp.config(debug=True):
    print("== checked", compiled(lambda x: chain(x) + 0.0), sep="\\n")
'''


def test_launches_compile_for_an_h100(tmp_path):
    """Both targets are registered in all stages; what is donated is changed in place, also in loops."""
    root = str(Path(__file__).parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    _, unknown, gradient, chain, loop, checked = done.stdout.split("== ")
    assert unknown.strip() == "unknown target True"
    arrays = re.compile(r"= f32\[1024\]\S* copy\(")
    for text, target, count in (
        (gradient, "jwarp_cuda_v1", 4), (chain, "jwarp_cuda_v1", 3), (loop, "jwarp_cuda_v1", 3),
        (checked, "jwarp_cuda_debug_v1", 3),
    ):  # fmt: skip
        assert text.count(f'custom_call_target="{target}"') == count
        assert text is checked or not arrays.search(text)
    assert chain.count("output_to_operand_aliasing") == 3
