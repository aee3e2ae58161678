"""The same kernels run by jwarp and by NVIDIA Warp, where that is installed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import warp_parity_arrays
import warp_parity_kernels
import warp_parity_language
import warp_parity_references

import jwarp
from jwarp.backend.interpreter.machine import run

warp = pytest.importorskip("warp")

MODULES = (warp_parity_kernels, warp_parity_language, warp_parity_arrays, warp_parity_references)
KERNELS = {name: value for m in MODULES for name, value in vars(m).items() if isinstance(value, jwarp.Kernel)}
N = 64
ROWS = 20


@pytest.fixture(scope="module")
def warp_kernels(tmp_path_factory):
    """The kernels as made by Warp, by name."""
    warp.config.quiet = True
    warp.config.enable_backward = False
    warp.init()
    found = {}
    for shared in MODULES:
        path = tmp_path_factory.mktemp("warp") / f"{shared.__name__}_of_warp.py"
        text = Path(shared.__file__).read_text()
        path.write_text(text.replace("import jwarp as wp", "import warp as wp").replace("from jwarp", "from warp"))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= vars(module)
    return found


def inputs():
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-100, 100, N).astype(np.int32) for _ in range(2))
    x, y = (rng.choice([1, 0.25], N) * rng.integers(-20, 20, N) / 2 for _ in range(2))
    y[y == 0] = 1.5
    return a, np.where(b == 0, 3, b), x.astype(np.float32), y.astype(np.float32)


def outputs():
    return np.zeros((ROWS, N), np.int32), np.zeros((ROWS, N), np.float32)


@pytest.mark.filterwarnings("ignore:.*may have no value here")
@pytest.mark.parametrize("name", KERNELS)
def test_warp_gives_the_same(name, warp_kernels):
    given, expected = inputs(), [warp.array(o, device="cpu") for o in outputs()]
    arrays = [warp.array(g, device="cpu") for g in given]
    warp.launch(warp_kernels[name], N, inputs=arrays, outputs=expected, device="cpu")
    kernel = KERNELS[name]
    oracle = run(kernel.ir(), (N,), [*given, *outputs()])[-2:]
    compiled = jwarp.launch(kernel, N, given, [(ROWS, N), (ROWS, N)])
    for mine in (oracle, compiled):
        for kind, got, wanted in zip(("integer", "float"), mine, expected, strict=True):
            different = np.argwhere(np.asarray(got) != wanted.numpy()).tolist()
            assert not different, f"{kind} outputs differ at [row, thread]: {different[:5]}"
