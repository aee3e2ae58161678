"""Kernels defined in cells of notebooks, in IPython, in `python -` and through exec."""

import linecache
import subprocess
import sys
import textwrap

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

CELL = """
@wp.func
def scaled(x: float):
    return {factor} * x


@wp.kernel
def scale(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = scaled(x[i])


(y,) = wp.launch(scale, 3, [x], [3])
"""


def run_cell(text, number, names):
    """Run a cell as IPython does, which keeps its lines where tracebacks look for them."""
    file = f"/tmp/ipykernel_1/{number}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)


def test_kernels_of_cells_and_cells_run_again():
    names = {"wp": wp, "x": jnp.arange(3.0), "__name__": "__main__"}
    for number, factor in enumerate((2.0, 3.0, 2.0)):
        run_cell(CELL.format(factor=factor), number, names)
        np.testing.assert_array_equal(names["y"], factor * np.arange(3.0))


def test_an_error_shows_the_line_of_the_cell():
    names = {"wp": wp, "x": jnp.arange(3.0), "__name__": "__main__"}
    with pytest.raises(wp.CompileError, match=r"(?s)`unknown` is not defined.*\n  --> /tmp/ipykernel_1/9.py:4.*\^\^"):
        run_cell(CELL.format(factor="unknown"), 9, names)


def test_in_ipython():
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell()
    shell.user_ns.update(wp=wp, x=jnp.arange(3.0))
    for factor in (2.0, 3.0):
        shell.run_cell(CELL.format(factor=factor)).raise_error()
        np.testing.assert_array_equal(shell.user_ns["y"], factor * np.arange(3.0))


@pytest.mark.parametrize("how", ["exec", "python -"])
def test_code_without_a_file_says_so(how):
    """In Python 3.13 and later the interpreter keeps the lines of `python -`, and there it runs."""
    code = "import jax.numpy as jnp\nimport jwarp as wp\nx = jnp.arange(3.0)\n" + textwrap.dedent(
        CELL.format(factor=2.0)
    )
    if how == "exec":
        with pytest.raises(
            wp.CompileError, match=r"cannot be read\n  --> <string>:\d+\n.*a notebook cell, not through exec"
        ):
            exec(code, {"__name__": "__main__"})
        return
    ran = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, timeout=120)
    if ran.returncode:
        assert "cannot be read" in ran.stderr and "--> <stdin>:" in ran.stderr and "jwarp/" not in ran.stderr
    else:
        assert sys.version_info >= (3, 13)
