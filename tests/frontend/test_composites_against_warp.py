"""The same expressions of vectors and matrices computed by jwarp and by NVIDIA Warp, where that is installed."""

import importlib.util

import composite_expressions as table
import numpy as np
import pytest

from jwarp.backend.interpreter.machine import run

warp = pytest.importorskip("warp")

TOLERANCE = {"float32": 1e-5, "int32": 0}


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_warp_gives_the_same(dtype, tmp_path):
    warp.config.quiet = True
    warp.config.enable_backward = False
    warp.init()
    modules = []
    for name in ("jwarp", "warp"):
        path = tmp_path / f"composites_of_{name}_{dtype}.py"
        path.write_text(table.module(dtype, own=False).replace("import jwarp as wp", f"import {name} as wp"))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        modules.append(importlib.util.module_from_spec(spec))
        spec.loader.exec_module(modules[-1])
    mine, theirs = modules
    given = table.inputs(dtype, seed=2, outside=False)
    for kind, rows in table.expressions(dtype, own=False).items():
        kernel = getattr(theirs, f"{kind}_rows")
        out = np.zeros((len(rows), table.THREADS, *table.ELEMENTS[kind]), np.int32 if kind == "int" else dtype)
        kinds = [getattr(theirs, x) for x in "VVPMMRS"] + [warp.int32]
        kinds.append(warp.int32 if kind == "int" else getattr(theirs, table.TYPES[kind]))
        arrays = [warp.array(x, dtype=t, device="cpu") for x, t in zip([*given, out], kinds, strict=True)]
        warp.launch(kernel, table.THREADS, inputs=arrays, device="cpu")
        expected = arrays[-1].numpy()
        oracle = run(getattr(mine, f"{kind}_rows").ir(), (table.THREADS,), [*given, out])[-1]
        for text, got, wanted in zip(rows, oracle, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=text)
