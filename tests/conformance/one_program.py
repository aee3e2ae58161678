"""Runs one example program of Warp's, under Warp or under jwarp, and writes down its arrays and how long it took.

python one_program.py under=jwarp file=PROGRAM out=FOLDER perturb=0 -- ARGUMENTS OF THE PROGRAM

Once it has written its report, it runs a step more, a few times, for each line that it reads, and writes a line with
what that took.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import inspect
import json
import math
import os
import statistics
import sys
import time
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# So deep are arrays looked for in what a program leaves behind.
DEPTH = 4
# What is short runs so often, or for so long, for each line read.
MOST, SECONDS = 20, 0.2


def main(arguments: list[str]) -> None:
    # What programs print, kernels among them, must not come between the lines that tell what a step took.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    split = arguments.index("--")
    given = dict(each.split("=", 1) for each in arguments[:split])
    folder = Path(given["out"])
    if given["under"] == "jwarp":
        import jwarp.as_warp  # noqa: F401
    import warp as wp

    wp.config.log_level = 40
    stand_ins(wp)
    if float(given["perturb"]):
        perturb(wp, float(given["perturb"]))
    report: dict[str, Any] = {"error": ""}
    found: dict[str, np.ndarray] = {}
    steps = None
    try:
        found, report["first"], steps, report["what"] = run(Path(given["file"]), arguments[split + 1 :], wp)
    except BaseException as error:
        if not (isinstance(error, SystemExit) and not error.code):
            report["error"] = f"{type(error).__name__}: {error}"
            report["trace"] = traceback.format_exc()
    np.savez(folder / "arrays.npz", **found)
    (folder / "report.json").write_text(json.dumps(report))
    answers.write("ready\n")
    for _ in sys.stdin:
        try:
            seconds, busy = steps() if steps else (math.nan, math.nan)
        except BaseException:
            (folder / "trace_steps.txt").write_text(traceback.format_exc())
            seconds = busy = math.nan
        answers.write(f"{seconds} {busy}\n")


def run(
    file: Path, arguments: list[str], wp: Any
) -> tuple[dict[str, np.ndarray], float, Callable[[], tuple[float, float]], str]:
    """Run a program: its arrays after that, the seconds that took, and what times some steps, and what such a step is.

    A step is that of the program's `example`, if it has such. Else its main part runs once more, of which
    what the library is called for counts: launches and backward passes, as the rest is argparse and NumPy. With it come
    the processor seconds of all threads.
    """
    tree = ast.parse(file.read_text())
    ending = next(
        i for i, node in enumerate(tree.body) if isinstance(node, ast.If) and "__main__" in ast.dump(node.test)
    )
    main_part = ast.Module(tree.body[ending:], [])
    module = types.ModuleType("__main__")
    vars(module).update(__file__=str(file), __builtins__=__builtins__)
    sys.modules["__main__"], sys.argv = module, [str(file), *arguments]
    start = time.perf_counter()
    exec(compile(ast.Module(tree.body[:ending], []), str(file), "exec"), vars(module))
    body = compile(main_part, str(file), "exec")

    def once() -> None:
        try:
            exec(body, vars(module))
        except SystemExit as end:
            if end.code:
                raise

    once()
    first = time.perf_counter() - start
    found = arrays(vars(module), wp)
    step = getattr(vars(module).get("example"), "step", None)
    spent = Spent()
    if step is None or inspect.signature(step).parameters:
        spent.watch(wp)
        again, what = once, "launches"
    else:
        again, what = spent.watched(step), "step"

    def steps() -> tuple[float, float]:
        """The fewest seconds of some steps, by the clock and of the processor."""
        seconds, busy = [], []
        start = time.perf_counter()
        while not seconds or (time.perf_counter() - start < SECONDS and len(seconds) < MOST):
            spent.seconds = spent.busy = 0.0
            again()
            seconds.append(spent.seconds)
            busy.append(spent.busy)
        return min(seconds), min(busy)

    return found, first, steps, what


class Spent:
    """Seconds spent in some calls, by the clock and of the processor, without what it takes to look at them."""

    def __init__(self) -> None:
        self.seconds = self.busy = 0.0
        self.depth = 0
        self.own = (0.0, 0.0)
        watched, looks = self.watched(lambda: None), []
        for _ in range(1000):
            self.seconds = self.busy = 0.0
            watched()
            looks.append((self.seconds, self.busy))
        self.own = (min(clock for clock, _ in looks), statistics.median(busy for _, busy in looks))

    def watched(self, call: Any) -> Any:
        @functools.wraps(call)
        def timed(*args: Any, **keywords: Any) -> Any:
            if self.depth:
                return call(*args, **keywords)
            self.depth = 1
            busy = time.process_time()
            start = time.perf_counter()
            try:
                return call(*args, **keywords)
            finally:
                self.seconds += time.perf_counter() - start - self.own[0]
                self.busy += time.process_time() - busy - self.own[1]
                self.depth = 0

        return timed

    def watch(self, wp: Any) -> None:
        """Count the time of the library's calls that run something."""
        for name in ("launch", "launch_tiled", "capture_launch", "copy"):
            setattr(wp, name, self.watched(getattr(wp, name)))
        wp.Tape.backward = self.watched(wp.Tape.backward)
        wp.Tape.zero = self.watched(wp.Tape.zero)


def arrays(names: dict[str, Any], wp: Any) -> dict[str, np.ndarray]:
    """The arrays that objects refer to, with their gradients, by the way to each."""
    found: dict[str, np.ndarray] = {}
    seen: set[int] = set()

    def visit(name: str, thing: Any, depth: int) -> None:
        if id(thing) in seen or depth > DEPTH:
            return
        seen.add(id(thing))
        if isinstance(thing, wp.array) and getattr(thing, "device", None) is not None:
            found[name] = leafless(thing.numpy())
            if thing.requires_grad and thing.grad is not None:
                found[name + ".grad"] = leafless(thing.grad.numpy())
        elif isinstance(thing, np.ndarray) and thing.dtype.kind in "iuf" and thing.size:
            found[name] = thing.copy()
        elif isinstance(thing, (list, tuple)):
            for i, each in enumerate(thing):
                visit(f"{name}.{i}", each, depth + 1)
        elif isinstance(thing, dict):
            for key, each in list(thing.items()):
                visit(f"{name}.{key}", each, depth + 1)
        elif type(thing).__module__ == "__main__" and hasattr(thing, "__dict__"):
            for key, each in list(vars(thing).items()):
                visit(f"{name}.{key}", each, depth + 1)

    for name, thing in list(names.items()):
        if not name.startswith("_") and not isinstance(thing, (types.ModuleType, type)):
            visit(name, thing, 0)
    return found


def leafless(array: np.ndarray) -> np.ndarray:
    """Arrays of structs as arrays of bytes in the order of the fields."""
    if array.dtype.fields:
        return np.concatenate([np.ravel(array[field]).astype(np.float64) for field in array.dtype.fields])
    return array.copy()


def perturb(wp: Any, size: float) -> None:
    """Change the floats that arrays are made of, and those that launches are given, by relative `size` either way."""
    rng = np.random.default_rng(0)
    made, launch = wp.array.__init__, wp.launch

    def changed(value: Any) -> Any:
        if isinstance(value, float):
            return value * (1.0 + size * float(rng.choice([-1.0, 1.0])))
        array = value if isinstance(value, (np.ndarray, list)) else None
        if array is None or np.asarray(array).dtype.kind != "f":
            return value
        array = np.asarray(array)
        return (array * (1.0 + size * rng.choice([-1.0, 1.0], array.shape))).astype(array.dtype)

    def composite(value: Any) -> Any:
        array = changed(np.array(value))
        return type(value)(*array.ravel().tolist())

    @functools.wraps(made)
    def init(self: Any, data: Any = None, *args: Any, **keywords: Any) -> None:
        made(self, changed(data) if data is not None else None, *args, **keywords)

    @functools.wraps(launch)
    def launched(kernel: Any, dim: Any, inputs: Any = (), *args: Any, **keywords: Any) -> Any:
        given = [composite(x) if hasattr(type(x), "_wp_scalar_type_") else x for x in inputs]
        given = [changed(x) if isinstance(x, float) else x for x in given]
        for x in given:
            if isinstance(x, wp.array) and x.device is not None and (data := x.numpy()).dtype.kind == "f":
                data *= (1.0 + size * rng.choice([-1.0, 1.0], data.shape)).astype(data.dtype)
        return launch(kernel, dim, given, *args, **keywords)

    wp.array.__init__, wp.launch = init, launched


# -- modules that programs import, and that are not there


def stand_ins(wp: Any) -> None:
    """Give `warp.examples`, `warp.tests.unittest_utils` and PIL, as far as the programs go."""
    folder = str(importlib.metadata.distribution("warp-lang").locate_file("warp/examples"))
    examples = types.ModuleType("warp.examples")
    examples.get_source_directory = lambda: folder  # type: ignore[attr-defined]
    examples.get_asset_directory = lambda: os.path.join(folder, "assets")  # type: ignore[attr-defined]
    utils = types.ModuleType("warp.tests.unittest_utils")
    utils.wp, utils.np = wp, np  # type: ignore[attr-defined]
    tests = types.ModuleType("warp.tests")
    sys.modules |= {"warp.examples": examples, "warp.tests": tests, "warp.tests.unittest_utils": utils}
    wp.examples, wp.tests = examples, tests
    pillow = types.ModuleType("PIL")
    pillow.Image = types.SimpleNamespace(open=Picture, fromarray=lambda *_: None)  # type: ignore[attr-defined]
    scenes = types.ModuleType("pxr")
    scenes.Usd = types.SimpleNamespace(Stage=types.SimpleNamespace(Open=lambda path, *_: Scene(path)))  # type: ignore[attr-defined]
    scenes.UsdGeom = types.SimpleNamespace(Mesh=lambda scene: scene)  # type: ignore[attr-defined]
    sys.modules |= {"PIL": pillow, "pxr": scenes}


class Scene:
    """Stands for any scene that a program opens, and for the mesh in it: a cube, a ball, or a ball with waves on it."""

    def __init__(self, path: str) -> None:
        self.name = Path(path).stem
        self.ROWS, self.COLUMNS = (24, 48) if self.name == "sphere" else (48, 96)

    def GetPrimAtPath(self, path: str) -> Scene:
        return self

    def GetPointsAttr(self) -> Any:
        if self.name == "cube":
            corners = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3, indexing="ij"), -1).reshape(8, 3).astype(np.float32)
            return types.SimpleNamespace(Get=lambda: corners)
        down, around = np.meshgrid(
            np.linspace(0.0, np.pi, self.ROWS + 1),
            np.linspace(0.0, 2.0 * np.pi, self.COLUMNS, endpoint=False),
            indexing="ij",
        )
        waves = 0.1 * np.sin(down) ** 2 * np.cos(5.0 * around) + 0.05 * np.cos(7.0 * down)
        radius = 0.7 * (1.0 + (0.0 if self.name == "sphere" else waves))
        at = [np.sin(down) * np.cos(around), 1.0 + np.cos(down), np.sin(down) * np.sin(around)]
        points = np.stack([radius * at[0], radius * at[1], radius * at[2]], -1).reshape(-1, 3).astype(np.float32)
        return types.SimpleNamespace(Get=lambda: points)

    def GetFaceVertexIndicesAttr(self) -> Any:
        if self.name == "cube":
            sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
            faces = np.array([face for a, b, c, d in sides for face in ((a, b, c), (a, c, d))], np.int32)
            return types.SimpleNamespace(Get=lambda: faces.reshape(-1))
        row, column = np.meshgrid(np.arange(self.ROWS), np.arange(self.COLUMNS), indexing="ij")
        here, beside = row * self.COLUMNS + column, row * self.COLUMNS + (column + 1) % self.COLUMNS
        below, across = here + self.COLUMNS, beside + self.COLUMNS
        faces = np.stack([here, beside, below, beside, across, below], -1).reshape(-1).astype(np.int32)
        return types.SimpleNamespace(Get=lambda: faces)


class Picture:
    """Stands for any picture that a program opens: rings, of any size and kind of colours."""

    def __init__(self, *file: Any, size: tuple[int, int] = (128, 128), bands: int = 3):
        self.size, self.bands = size, bands
        self.width, self.height = size

    def __enter__(self) -> Picture:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def convert(self, mode: str) -> Picture:
        return Picture(size=self.size, bands=len(mode) if mode != "1" else 1)

    def resize(self, size: tuple[int, int], *how: Any) -> Picture:
        return Picture(size=size, bands=self.bands)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        y, x = np.mgrid[: self.size[1], : self.size[0]] / max(self.size)
        rings = [
            127.5 + 127.5 * np.cos(20.0 * (x - 0.5) ** 2 + 10.0 * (y - 0.4) ** 2 + band) for band in range(self.bands)
        ]
        made = np.stack(rings, -1).astype(np.uint8)
        made = made[..., 0] if self.bands == 1 else made
        return made if dtype is None else made.astype(dtype)


if __name__ == "__main__":
    main(sys.argv[1:])
