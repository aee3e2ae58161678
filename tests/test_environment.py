"""Settings of a process: variables of the environment that do not fit, and Python without docstrings."""

import ast
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jwarp.config import Settings

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
import jwarp as wp

for name in wp.__all__:
    getattr(wp, name)
source = '''
@wp.func
def square(x: float):
    return x * x

@wp.kernel
def k(x: wp.array[float], v: wp.vec3, y: wp.array[float]):
    i = wp.tid()
    y[i] = square(x[i]) * wp.normalize(v)[0] + wp.quat_to_matrix(wp.quat_identity())[0, 0]
'''
with open("kernels.py", "w") as file:
    file.write("import jwarp as wp\\n" + source)
import kernels
f = lambda x: wp.jax_kernel(kernels.k)(x, (3.0, 0.0, 4.0))[0].sum()
value, gradient = jax.value_and_grad(f)(jnp.float32([1.0, 2.0]))
np.testing.assert_allclose([value, *gradient], [5.0, 1.2, 2.4], rtol=1e-6)
print("right")
"""


def run(tmp_path, *options, code=PROGRAM, **variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("JWARP_")}
    environment = kept | {"JWARP_CACHE_DIR": "", "PYTHONPATH": str(tmp_path)} | variables
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)


def test_python_without_docstrings_and_asserts(tmp_path):
    ended = run(tmp_path, "-OO")
    assert ended.stdout == "right\n", ended.stderr


def test_no_assert_does_anything():
    """Without asserts the library does the same: what they look at are tests of types, of numbers and of sets."""
    tests = {"isinstance", "len", "all", "any", "set", "is_known", "callable", "issubclass", "tuple", "zip", "range",
             "list", "type", "shape_of", "hasattr", "abs"}  # fmt: skip
    found = []
    for path in Path(__file__).parents[1].joinpath("jwarp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = list(ast.walk(node.test)) if isinstance(node, ast.Assert) else []
            calls = [part for part in parts if isinstance(part, ast.Call)]
            if any(ast.unparse(c.func) not in tests for c in calls) or any(isinstance(p, ast.NamedExpr) for p in parts):
                found.append(f"{path}:{node.lineno}")
    assert not found


@pytest.mark.parametrize(
    ("variable", "value", "takes"),
    [
        ("JWARP_CPU_WIDTH", "abc", "a power of two up to 64"),
        ("JWARP_CPU_WIDTH", "3", "a power of two up to 64"),
        ("JWARP_CPU_LEVEL", "4", "0, 1, 2 or 3"),
        ("JWARP_MAX_UNROLL", "many", "an integer from 0 on"),
        ("JWARP_MAX_UNROLL", "-1", "must not be negative"),
        ("JWARP_CUDA_ARCH", "hopper", "architectures like sm_90, several with commas"),
        ("JWARP_BOUNDS", "none", "one of safe, error, unchecked"),
        ("JWARP_MATRIX_INSTRUCTIONS", "mfma", "one of mma, wgmma"),
        ("JWARP_DEBUG", "maybe", "one of 1, true, on, 0, false, off"),
        ("JWARP_FAST_MATH", "2", "one of 1, true, on, 0, false, off"),
        ("JWARP_DETERMINISTIC", "gpu", "one of 1, true, on, 0, false, off"),
        ("JWARP_LIBCUDA", "/nowhere/libcuda.so.1", "the path of libcuda.so.1"),
    ],
)
def test_a_value_that_does_not_fit(tmp_path, variable, value, takes):
    """The error names the variable, what it takes, and the value."""
    asks = "import jwarp as wp\nfrom jwarp.backend.cpu.target import host_target\nhost_target()\n"
    if variable == "JWARP_LIBCUDA":
        asks = "from jwarp import _native\n_native.cuda_capability(0)\n"
    ended = run(tmp_path, code=asks, **{variable: value})
    last = ended.stderr.strip()
    assert ended.returncode == 1 and variable in last and takes in last and value in last, ended.stderr


def test_an_empty_variable_is_not_set(tmp_path):
    settings = ("cpu_width", *(field.name for field in dataclasses.fields(Settings)))
    ended = run(tmp_path, **{f"JWARP_{name.upper()}": "" for name in settings})
    assert ended.stdout == "right\n", ended.stderr
    ended = run(tmp_path, code="import jwarp as wp; print(wp.config.bounds, wp.config.max_unroll)", JWARP_BOUNDS=" ")
    assert ended.stdout == f"safe {Settings().max_unroll}\n", ended.stderr
