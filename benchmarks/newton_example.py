"""Frames of one of Newton's examples, without a window; a program that Warp runs, too."""

from __future__ import annotations

import argparse
import importlib
import sys

if getattr(sys.modules.get("pxr"), "__spec__", None) is None:
    sys.modules.pop("pxr", None)  # a stand-in of the trial's, of which Newton would take it that USD is installed

import newton.examples
import newton.viewer


class Example:
    """An example of Newton's, by the name of its module in `newton.examples`."""

    def __init__(self, name: str):
        module = importlib.import_module(f"newton.examples.{name}")
        parser = getattr(module.Example, "create_parser", newton.examples.create_parser)()
        self.example = module.Example(newton.viewer.ViewerNull(num_frames=1), parser.parse_args([]))

    def step(self) -> None:
        self.example.step()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--example", default="diffsim.example_diffsim_ball")
    example = Example(arguments.parse_args().example)
    example.step()
