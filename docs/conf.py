"""Settings of the documentation's site: `sphinx-build -W docs build/site` makes it."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions")]

project = "jwarp"
author = "the jwarp authors"
copyright = author
release = version = version_of("jwarp")

extensions = [
    "myst_parser",  # the pages are Markdown, which code hosts show as well
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "functions",
    "names",
    "pictures",
]
exclude_patterns = ["build", "extensions"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
default_role = "code"
nitpicky = False

# Links between pages are made as code hosts make them.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = "jwarp"
html_static_path: list[str] = []

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    # All are shown, and all but one run: the kernels of a simulator compile for minutes.
    "filename_pattern": r"/(?!mujoco_gradients)\w+\.py$",
    "ignore_pattern": r"/_",
    "image_scrapers": ["pictures.scraper"],
    "reset_argv": "pictures.arguments",
    "reset_modules": (),
    "write_computation_times": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "within_subsection_order": "ExampleTitleSortKey",
    "abort_on_example_error": True,
}
suppress_warnings = ["config.cache"]  # the gallery's settings hold no function that could be compared


def linked(app: Sphinx, page: str, source: list[str]) -> None:
    """Links to texts beside this folder, which code hosts follow, go to the pages that include them."""
    source[0] = source[0].replace("](../tests/README.md", "](testing.md").replace("](../CHANGELOG.md", "](changes.md")


def as_literals(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Code in docstrings stands between single backquotes, and a letter may follow it: `wp.array`s."""
    for k, line in enumerate(lines):
        lines[k] = re.sub(
            r"(?<![`:])`([^`]+)`(?!`)(\w?)", lambda m: f"``{m[1]}``" + (f"\\ {m[2]}" if m[2] else ""), line
        )


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", linked)
    app.connect("autodoc-process-docstring", as_literals)
