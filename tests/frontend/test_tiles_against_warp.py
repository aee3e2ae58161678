"""The same kernels with tiles run by jwarp and by NVIDIA Warp, where that is installed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import warp_parity_lanes
import warp_parity_tiles
from tile_running import BLOCK, run_tiled

import jwarp

warp = pytest.importorskip("warp")

# In Warp several threads would each make a statement on an element, and see what others have made of it.
WIDTHS = {warp_parity_tiles: 1, warp_parity_lanes: BLOCK}
KERNELS = {name: module for module in WIDTHS for name, value in vars(module).items() if isinstance(value, jwarp.Kernel)}


@pytest.fixture(scope="module")
def warp_kernels(tmp_path_factory):
    """The kernels as Warp's, whose blocks have all their threads on the CPU too."""
    if not hasattr(warp.config, "enable_cpu_blocks"):
        pytest.skip("this version of Warp has no blocks on the CPU")
    warp.config.quiet = True
    warp.config.enable_backward = False
    warp.config.enable_cpu_blocks = True
    warp.init()
    folder, found = tmp_path_factory.mktemp("warp"), {}
    for mine in WIDTHS:
        path = folder / f"{mine.__name__}_of_warp.py"
        path.write_text(Path(mine.__file__).read_text().replace("import jwarp as wp", "import warp as wp"))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= vars(module)
    yield found
    warp.config.enable_cpu_blocks = False


@pytest.mark.parametrize("name", KERNELS)
def test_warp_gives_the_same(name, warp_kernels):
    rng = np.random.default_rng(len(name))
    x, y = (rng.integers(-9, 10, (8, 8)).astype(np.float32) / 2 for _ in range(2))
    start = rng.integers(-9, 10, (8, 8, 8)).astype(np.float32)
    out = warp.array(start, dtype=float, device="cpu")
    arrays = [warp.array(a, dtype=float, device="cpu") for a in (x, y)]
    width = WIDTHS[KERNELS[name]]
    warp.launch_tiled(warp_kernels[name], dim=2, inputs=arrays, outputs=[out], block_dim=width, device="cpu")
    mine = run_tiled(getattr(KERNELS[name], name), 2, x, y, start)[-1]
    compare = np.testing.assert_allclose if name == "equations" else np.testing.assert_array_equal
    compare(mine, out.numpy(), **({"rtol": 2e-5, "atol": 2e-5} if name == "equations" else {}))
