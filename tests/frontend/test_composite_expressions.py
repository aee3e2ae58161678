"""Every operator and function of vectors and matrices: the interpreter and compiled code against NumPy."""

import importlib.util
import types

import composite_expressions as table
import jax
import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.interpreter.machine import run

NAMES = ("u", "v", "p", "a", "b", "r", "s", "k")
TOLERANCE = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-13, "int32": 0}


def reference(dtype, given, rows):
    """NumPy's result, in double precision or with whole numbers."""
    wide = [x.astype(np.int64 if x.dtype.kind == "i" else np.float64) for x in given]
    env = types.SimpleNamespace(**dict(zip(NAMES, wide, strict=True)))
    return np.stack([np.asarray(rule(env)) for rule in rows.values()])


@pytest.fixture(scope="module", params=list(table.SUFFIXES))
def made(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / f"composites_of_{request.param}.py"
    path.write_text(table.module(request.param, own=True))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return request.param, module


@pytest.mark.parametrize("kind", list(table.ELEMENTS))
def test_each_expression_gives_what_numpy_gives(made, kind, x64):
    dtype, module = made
    rows, given = table.expressions(dtype, own=True)[kind], table.inputs(dtype, seed=1, outside=True)
    kernel = getattr(module, f"{kind}_rows")
    shape = (len(rows), table.THREADS, *table.ELEMENTS[kind])
    out = np.zeros(shape, np.int32 if kind == "int" else dtype)
    expected = reference(dtype, given, rows)
    oracle = run(kernel.ir(), (table.THREADS,), [*given, out])[-1]
    (compiled,) = wp.launch(kernel, table.THREADS, [jax.numpy.asarray(x) for x in given], [shape])
    for which, result in (("interpreter", oracle), ("compiled code", compiled)):
        for text, got, wanted in zip(rows, np.asarray(result), expected, strict=True):
            exact = np.asarray(got, np.float64)
            np.testing.assert_allclose(
                exact, wanted, rtol=TOLERANCE[dtype], atol=2 * TOLERANCE[dtype], err_msg=f"{which}: {text}"
            )
