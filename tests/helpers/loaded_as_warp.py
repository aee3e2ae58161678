"""Kernels of this folder's files as kernels of Warp."""

import importlib.util
from pathlib import Path


def module_of_warp(module, folder):
    """`module`, whose text says `import jwarp as wp`, with Warp instead; its copy is written to `folder`."""
    import warp

    path = Path(folder) / f"{module.__name__}_of_warp.py"
    path.write_text(Path(module.__file__).read_text().replace("import jwarp as wp", "import warp as wp"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    warp.config.quiet = True
    warp.config.enable_backward = False
    warp.init()
    spec.loader.exec_module(made)
    warp.set_module_options({"optimization_level": 0}, made)  # compiles in two thirds of the time
    return made
