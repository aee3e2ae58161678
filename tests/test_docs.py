"""The code of the README and of some of the documentation runs as it stands there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from fuzz_profiles import needs_all

import jwarp
from jwarp.frontend.builtins.planned import PLANNED

DOCS = Path(__file__).parent.parent / "docs"
README = Path(__file__).parent.parent / "README.md"


def test_no_placeholder_is_left():
    assert not re.search(r"^[A-Z]+$", README.read_text(), re.MULTILINE)


def run_code_of(text, folder, header=""):
    """The module that the Python blocks of a text make, and their code."""
    content = text.read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", content, re.DOTALL))
    file = folder / f"{text.stem.lower()}_code.py"
    file.write_text(header + code)
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


# What the blocks of some pages take for granted.
IMPORTS = "import jax\nimport jax.numpy as jnp\nimport numpy as np\nimport jwarp as wp\n"
HEADERS = {
    "architecture": IMPORTS + "x = jnp.arange(8.0)\n",
    "vectors": IMPORTS,
    "arrays_in_kernels": IMPORTS,
    "numbers": IMPORTS,
}
# Pages whose blocks are pieces of a change, and those that have a test of their own below.
OTHERS = {
    "contributing",
    "start",
    "thinking",
    "from_pallas",
    "from_warp",
    "debugging",
    "sharding",
    "export",
    "handwritten",
    "tiles",
    "interop",
    "generics",
}
PAGES = {
    path.relative_to(DOCS).with_suffix("").as_posix()
    for path in DOCS.glob("**/*.md")
    if "```python" in path.read_text()
} - OTHERS


# Programs of the cookbook are whole, as examples are.
RUN = [pytest.param(page, marks=[needs_all] if page.startswith("cookbook/") else []) for page in sorted(PAGES)]


@pytest.mark.parametrize("page", RUN)
def test_the_code_of_a_page_runs(page, tmp_path, capsys):
    """The blocks of a page run, and print what its blocks of plain text show, if it has any."""
    run_code_of(DOCS / f"{page}.md", tmp_path, header=HEADERS.get(page, ""))
    shown = re.findall(r"```text\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)
    if shown:
        assert capsys.readouterr().out == "".join(shown)


def test_the_first_pages_say_the_truth(tmp_path, capsys):
    start, _ = run_code_of(DOCS / "start.md", tmp_path)
    shown = re.findall(r"```text\n(.*?)```", (DOCS / "start.md").read_text(), re.DOTALL)
    assert capsys.readouterr().out == "".join(shown)
    x = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(start.f, -2 * x)
    np.testing.assert_allclose([start.value, start.slopes[1]], [x @ x, 0.5 * x @ x], rtol=1e-6)
    np.testing.assert_allclose(start.curvature, 2 * np.eye(5), atol=1e-6)
    np.testing.assert_allclose(start.many, np.array([1, 2, 3]) * 0.5 * (x @ x), rtol=1e-6)
    np.testing.assert_array_equal(start.sums, [-1.5, 0.5])
    np.testing.assert_allclose(start.speed, np.full(10, 3**0.5), rtol=1e-6)
    thinking, _ = run_code_of(DOCS / "thinking.md", tmp_path)
    np.testing.assert_array_equal(thinking.counts, [1, 2, 0, 1])
    np.testing.assert_array_equal(thinking.more, [2, 4, 0, 2])
    h = 1e-2
    for k in (100, 700):
        angle = float(thinking.angles[k])
        difference = (float(thinking.final(angle + h, 1.0)) - float(thinking.final(angle - h, 1.0))) / (2 * h)
        np.testing.assert_allclose(thinking.slopes[k], difference, rtol=2e-2)
    pallas, _ = run_code_of(DOCS / "from_pallas.md", tmp_path)
    np.testing.assert_allclose(pallas.y, jax.nn.softmax(pallas.x, axis=1), rtol=1e-5)
    debugging, _ = run_code_of(DOCS / "debugging.md", tmp_path)
    assert "index outside of `x`, thread (2)" in debugging.message
    assert debugging.problem.get().startswith("20.0 is too far")
    np.testing.assert_allclose(debugging.slope, [0.5, 0.025], rtol=1e-6)
    assert re.search(r"encountered in jwarp.root, .*debugging_code.py:\d+", debugging.culprit)
    assert [name.startswith("jwarp_root_adjoint") for name, _ in debugging.launches] == [True] * 3


def test_links_between_pages_lead_somewhere():
    def anchors(path):
        titles = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}

    missing = []
    for page in [README, *DOCS.glob("**/*.md")]:
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "``", page.read_text())):
            path, _, anchor = target.partition("#")
            if "://" in target or "gallery/" in path:
                continue
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or (anchor and anchor not in anchors(file)):
                missing.append(f"{page.name}: {target}")
    assert missing == []


def test_three_ways_from_a_tape_to_jax(tmp_path):
    page, _ = run_code_of(DOCS / "from_warp.md", tmp_path, header=IMPORTS)
    assert np.abs(page.by_tape).min() > 0.1
    np.testing.assert_allclose(page.by_functionalize, page.by_tape, rtol=1e-5)
    np.testing.assert_allclose(page.by_jax, page.by_tape, rtol=1e-5)


def test_generics(tmp_path):
    code, _ = run_code_of(DOCS / "generics.md", tmp_path)
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
    assert sharding.slopes[0].sharding.spec == jax.P("d")
    np.testing.assert_allclose(sharding.slopes[1], -sharding.dc, rtol=1e-5)  # what is lost is its negative
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
    assert known <= listed, known - listed
    refused = {name for name in PLANNED if name.startswith("tile_") and "query" not in name}
    assert refused <= listed | {"tile_stack_push", "tile_stack_pop", "tile_stack_clear", "tile_stack_count"}


def test_architecture(tmp_path):
    """Files and folders that the page names are there, and it shows the IR that its kernel has."""
    text, glossary = ((DOCS / name).read_text() for name in ("architecture.md", "glossary.md"))
    root = README.parent
    known = {
        str(path.relative_to(base))
        for base in (root, root / "jwarp", root / "cuda/runtime")
        for path in base.rglob("*")
    }
    names = re.findall(r"`([\w./]+(?:\.py|/))`", text + glossary)
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
