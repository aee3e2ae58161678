"""What the examples share: their command lines, bars of progress, and the look of their figures."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from matplotlib.axes import Axes

with warnings.catch_warnings(action="ignore"):  # notebooks without ipywidgets get a bar of text
    from tqdm.auto import tqdm

INK, WARM = "#20304f", "#e8743b"


def run(main: Callable[..., Any], text: str, picture: str) -> None:
    """Call the `main` of an example with what its command line says, where `text` describes it."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small problem, a few seconds")
    parser.add_argument("--out", type=Path, default=Path(picture), help=f"where the picture goes (default: {picture})")
    main(**vars(parser.parse_args()))


class Lines:
    """A stream for bars that are not on a terminal: each state is a line of its own, where a terminal draws over it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> None:
        """The text of a bar, without what moves the cursor."""
        if line := text.strip("\r\n \x1b[A"):
            self.stream.write(line + "\n")

    def flush(self) -> None:
        """As of any stream."""
        self.stream.flush()


def progress(items: Iterable[Any] | None = None, **more: Any) -> tqdm:
    """A bar of tqdm: drawn in place on terminals and in notebooks; in a log, a line a second."""
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        return tqdm(items, **{"leave": False, **more})
    return tqdm(items, file=Lines(sys.stderr), **{"mininterval": 1.0, "miniters": 1, "ncols": 100, **more})


def titled(axes: Axes, text: str, bare: bool = True) -> None:
    """A title at the left; a graph that is `bare` has no frame at the top and the right."""
    axes.set_title(text, loc="left", fontsize=12, fontweight="bold", color=INK)
    if bare:
        axes.spines[["top", "right"]].set_visible(False)
