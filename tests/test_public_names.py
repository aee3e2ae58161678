"""The list of public names says what the package has, and how stable each name is."""

import importlib
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def names():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "extensions"))
        yield importlib.import_module("names")


def test_the_list_has_every_public_name_with_its_signature(names):
    """A change of a signature renews the list, and has a line in the changelog: see docs/api.md."""
    listed = {name: row.signature for name, row in names.read().items()}
    assert listed == names.signatures(), "run python docs/extensions/names.py, and say in CHANGELOG.md what changed"


def test_every_line_has_a_level_and_a_version(names):
    text = names.FILE.read_text().splitlines()
    assert len(names.read()) == len(text) - 1 > 600
    assert {row.level for row in names.read().values()} == set(names.LEVELS)


def test_a_renewal_keeps_levels_and_takes_new_signatures(names, monkeypatch, tmp_path):
    monkeypatch.setattr(names, "FILE", tmp_path / "names.txt")
    names.FILE.write_text("# head\nstable      0.1 launch(kernel)\nstable      0.1 gone(x)\n")
    rows = names.renewed()
    assert rows["launch"].level == "stable" and rows["launch"].since == "0.1"
    assert "inputs" in rows["launch"].signature
    assert rows["tid"].level == "provisional" and "gone" not in rows


def test_the_page_lists_all_names(names):
    listed = ", ".join(text for level in names.LEVELS for text in names.lines(level))
    assert listed.count("`") == 2 * len(names.read()) and "`Tape.backward`" in listed


def test_the_page_and_the_package_name_the_same_oldest_versions():
    page = (DOCS / "api.md").read_text()
    project = (DOCS.parent / "pyproject.toml").read_text()
    continuous = (DOCS.parent / ".ci" / "run").read_text()
    assert 'requires-python = ">=3.11"' in project and "| Python | 3.11 and newer |" in page
    assert (
        '"jax>=0.10.2"' in project and 'oldest_jax="jax==0.10.2"' in continuous and "| JAX | 0.10.2 and newer |" in page
    )
