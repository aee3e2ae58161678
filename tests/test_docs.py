"""The code of the README and of some of the documentation runs as it stands there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import jax
import numpy as np

import jwarp
from jwarp.frontend.builtins.planned import PLANNED

DOCS = Path(__file__).parent.parent / "docs"
README = Path(__file__).parent.parent / "README.md"


def test_no_placeholder_is_left():
    assert not re.search(r"^[A-Z]+$", README.read_text(), re.MULTILINE)


def run_code_of(text, folder, sections=""):
    """The module that the Python blocks of a text make, or of the sections of it that a pattern matches."""
    content = text.read_text()
    if sections:
        content = "".join(
            part for part in re.split(r"^(?=## )", content, flags=re.MULTILINE) if re.match(sections, part)
        )
    code = "\n".join(re.findall(r"```python\n(.*?)```", content, re.DOTALL))
    file = folder / f"{text.stem.lower()}_code.py"
    file.write_text(code)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, code


def test_the_quickstart_of_the_readme(tmp_path):
    quickstart, code = run_code_of(README, tmp_path)
    assert len(code.strip().splitlines()) <= 18
    y, ys = np.asarray(quickstart.y), np.asarray(quickstart.ys)
    assert isinstance(quickstart.y, jax.Array)
    np.testing.assert_array_equal(y[499:502], [0.25, 0.5, 0.25])
    assert y.sum() == 1.0 and ys.shape == (8, 1000)
    np.testing.assert_allclose(ys[:, 500], 1.0 - 2.0 * np.linspace(0.0, 0.5, 8), rtol=1e-6)


def test_generics(tmp_path):
    code, _ = run_code_of(DOCS / "language.md", tmp_path, "## Generic kernels|## Functions over arrays")
    assert code.halves.dtype == np.float16 and code.numbers.dtype == np.int32
    np.testing.assert_array_equal(code.halves, [1, 1.5, 2, 2.5])
    np.testing.assert_array_equal(code.whole, [[1, 2, 3]] * 2)
    np.testing.assert_array_equal(code.slope, [3] * 4)
    np.testing.assert_array_equal(code.turned_back, [[0, 0, -1, 0]])
    np.testing.assert_array_equal(code.forces, np.full((5, 3), -2.0))
    assert code.stiffness == -15 and code.waves.shape == (3, 4)
    np.testing.assert_array_equal(code.gradient, [2, 0, 6, 0])


def test_sharding(tmp_path):
    sharding, _ = run_code_of(DOCS / "sharding.md", tmp_path)
    # The power is -c |v|^3 for each of 1024 velocities (1, 1, 1), and its gradient -3 c |v| v.
    np.testing.assert_allclose(sharding.value, -0.5 * 1024 * 3**1.5, rtol=1e-6)
    np.testing.assert_allclose(sharding.dv, -3 * 0.5 * 3**0.5 * np.ones((1024, 3)), rtol=1e-6)
    np.testing.assert_allclose(sharding.dc, -1024 * 3**1.5, rtol=1e-6)


def test_export(tmp_path):
    export, _ = run_code_of(DOCS / "export.md", tmp_path)
    np.testing.assert_array_equal(export.gradient, np.full(8, -2.0))
    for gradient, (n, m) in zip(export.gradients, [(1, 3), (200, 50)], strict=True):
        expected = np.full((n, m), 4.0)
        expected[: n // 2, 0] -= 2.0
        np.testing.assert_array_equal(gradient, expected)


def test_handwritten(tmp_path):
    handwritten, _ = run_code_of(DOCS / "handwritten.md", tmp_path)
    x = np.asarray(handwritten.x)
    slope = 1.0 - np.tanh(2.0 * x) ** 2
    np.testing.assert_allclose(handwritten.y, np.tanh(2.0 * x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(handwritten.dx, 2.0 * slope, rtol=1e-4)
    np.testing.assert_allclose(handwritten.dk, (x * slope).sum(), atol=1e-3)
    assert handwritten.ys.shape == (4, 1000)


def test_tiles(tmp_path):
    tiles, _ = run_code_of(DOCS / "tiles.md", tmp_path)
    np.testing.assert_array_equal(tiles.c, np.full((128, 192), 96.0))


def test_the_list_of_functions_on_tiles_is_complete():
    text = (DOCS / "tiles.md").read_text()
    known = {name for name in dir(jwarp) if name.startswith("tile") or name == "untile"}
    listed = set(re.findall(r"`(tile_\w+|tile|untile)`", text))
    assert known - {"tile_bvh_query_aabb"} <= listed, known - listed
    refused = {name for name in PLANNED if name.startswith("tile_") and "query" not in name}
    assert refused <= listed | {"tile_stack_push", "tile_stack_pop", "tile_stack_clear", "tile_stack_count"}


def test_architecture(tmp_path):
    """Files and folders that the page names are there, and it shows the IR that its kernel has."""
    text = (DOCS / "architecture.md").read_text()
    root = README.parent
    known = {
        str(path.relative_to(base))
        for base in (root, root / "jwarp", root / "cuda/runtime")
        for path in base.rglob("*")
    }
    names = re.findall(r"`([\w./]+(?:\.py|/))`", text)
    assert len(names) > 30
    assert [name for name in names if not any(f"/{path}".endswith(f"/{name.rstrip('/')}") for path in known)] == []
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    header = "import jax\nimport jax.numpy as jnp\nimport jwarp as wp\nx = jnp.ones(3)\n"
    file = tmp_path / "spring.py"
    file.write_text(header + code)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shown = re.search(r"```\n(kernel spring.*?)```", text, re.DOTALL)[1]
    plain = lambda listing: [line.split("#")[0].rstrip() for line in listing.strip().splitlines()]  # noqa: E731
    assert plain(jwarp.inspect(module.spring, "ir")) == plain(shown)
