"""How the gallery runs an example: with the picture that it writes as its image."""

from __future__ import annotations

import ast
import shutil
import tempfile
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst

FOLDER = Path(tempfile.mkdtemp(prefix="gallery-"))
SMALL = {"dam_break"}  # run in their small size, as their full one takes more than half a minute


def scraper(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """The pictures that the last block of an example wrote, moved to where the gallery wants them."""
    found = []
    for picture in sorted(FOLDER.glob("*.png")):
        target = next(block_vars["image_path_iterator"])
        shutil.move(picture, target)
        found.append(target)
    return figure_rst(found, gallery_conf["src_dir"])


class Arguments:
    """What an example is given on its command line."""

    def __call__(self, gallery_conf: dict[str, Any], script_vars: dict[str, Any]) -> list[str]:
        """The size, and where pictures go. It is the place, too, to tell an example what Python tells it."""
        file = Path(script_vars["src_file"])
        text = ast.get_docstring(ast.parse(file.read_text()))
        script_vars["example_globals"] |= {"__file__": str(file), "__doc__": text}
        return [*(["--quick"] if file.stem in SMALL else []), "--out", str(FOLDER / f"{file.stem}.png")]

    def __repr__(self) -> str:
        return "Arguments()"


arguments = Arguments()


def setup(app: Sphinx) -> dict[str, bool]:
    """Nothing to register: the settings name the functions."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
