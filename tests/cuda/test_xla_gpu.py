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

PROGRAMS = Path(__file__).parents[1] / "helpers" / "xla_gpu_programs.py"
ARRAY_COPY = re.compile(r"= f32\[1024\]\S* copy\(")
# How often each program launches, and how many of its launches are parts of CUDA graphs.
LAUNCHES = {
    "gradient": 4, "gradient_of_tiles": 1, "batch": 1, "tiles": 1, "handwritten": 1, "chain": 3, "loop": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The programs as XLA compiled them, and what it says of how they run, by name."""
    folder = tmp_path_factory.mktemp("xla")
    paths = [str(PROGRAMS.parents[2]), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {
        **os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(paths),
        "XLA_FLAGS": f"--xla_gpu_graph_min_graph_size=1 --xla_dump_to={folder}",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(PROGRAMS), str(folder)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    steps = {file.name.split(".")[1].removeprefix("jit_"): file.read_text() for file in folder.glob("*_after_thunk_*")}
    return {file.stem: (file.read_text(), steps.get(file.stem, "")) for file in folder.glob("*.hlo")}


def in_graphs(steps):
    """How many custom calls are parts of CUDA graphs, and how many are not."""
    inside, found, depth = False, [0, 0], 0
    for line in steps.splitlines():
        indent = len(line) - len(line.lstrip())
        inside = inside and indent > depth
        if "kCommandBuffer" in line:
            inside, depth = True, indent
        found[not inside] += "kCustomCall" in line
    return tuple(found)


def test_targets_that_nobody_registered_are_refused(compiled):
    """So that a program that compiles says that ours are registered in all stages."""
    assert "jwarp_nobody" in compiled["unknown"][0]


@pytest.mark.parametrize("name", LAUNCHES)
def test_launches_compile_for_an_h100(compiled, name):
    """Nothing is copied, in loops neither where the memory is donated; and all launches are parts of CUDA graphs."""
    text, steps = compiled[name]
    assert text.count('custom_call_target="jwarp_cuda_v1"') == LAUNCHES[name]
    assert not ARRAY_COPY.search(text)
    assert in_graphs(steps) == (LAUNCHES[name], 0)


def test_chains_in_place_are_one_graph(compiled):
    text, steps = compiled["chain"]
    assert text.count("output_to_operand_aliasing") == 3 and steps.count("kCommandBuffer") == 1


def test_launches_with_checks_are_no_parts_of_graphs(compiled):
    """They wait for their end. What is not donated is copied once."""
    text, steps = compiled["checked"]
    assert text.count('custom_call_target="jwarp_cuda_debug_v1"') == 3 and len(ARRAY_COPY.findall(text)) == 1
    assert in_graphs(steps) == (0, 3)
