"""Random kernels that change tiles and views of tiles in loops, branches and functions: NumPy does the same."""

import random

import numpy as np
import pytest
from error_checks import load
from fuzz_profiles import LONG, some
from numpy_tiles import in_numpy
from tile_running import run_tiled

import jwarp as wp

HEAD = """import jwarp as wp


@wp.func
def change(a: wp.tile[float], i: int):
    a[i] = a[0] * 2.0
    b = a[1:3]
    b += b


@wp.func
def raise_row(a: wp.tile[float], i: int):
    r = a[:, i]
    for k in range(i):
        r[k] += 1.0
    if i > 1:
        a[0, 0] = 3.0
        return
    a += a


@wp.kernel
def k(x: wp.array2d[float], y: wp.array2d[float], n: int, out: wp.array3d[float]):
    t, u, w = wp.tile_load(x, (4, 4)), wp.tile_load(y, (4, 4)), wp.tile_ones((4, 4))
"""


class Program:
    """A random kernel. `tiles` may be set anew, `views` are made once, outside of loops and branches."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.tiles = dict.fromkeys("tuw", (4, 4))
        self.views = {}
        self.counters = []  # of the loops at hand
        self.lines = []
        for _ in range(self.random.randrange(4, 12)):
            self.statement("    ")
        for k, (name, shape) in enumerate(self.known().items()):
            self.lines.append(f"    wp.tile_store(out[{k}]{'[0]' * (len(shape) == 1)}, {name})")

    @property
    def text(self):
        return HEAD + "\n".join(self.lines) + "\n"

    def known(self):
        return {**self.tiles, **self.views}

    def some(self, shape=None):
        return self.random.choice([(n, s) for n, s in self.known().items() if shape in (None, s)])

    def index(self, extent):
        if extent < 4:
            return str(self.random.randrange(extent))
        return self.random.choice([str(self.random.randrange(4)), "n", *self.counters])

    def element(self):
        name, shape = self.some()
        return f"{name}[{', '.join(map(self.index, shape))}]"

    def view(self):
        """An expression that shows a part of a tile, and its shape."""
        name, shape = self.some()
        if len(shape) == 1:
            return f"{name}[::-1]", shape
        rows, columns = shape
        choices = [
            (f"{name}[{self.index(rows)}]", (columns,)),
            (f"{name}[:, {self.index(columns)}]", (rows,)),
            (f"wp.tile_transpose({name})", (columns, rows)),
            (f"{name}[::-1]", shape),
            (f"{name}[0:2]", (2, columns)),
        ]
        if shape == (4, 4):
            choices += [(f"{name}[1:3, ::2]", (2, 2)), (f"wp.tile_view({name}, (n - 1, 0), (2, 4))", (2, 4))]
            choices += [(f"wp.tile_reshape({name}[1:3], (4, 2))", (4, 2))] if name in self.tiles else []
        return self.random.choice(choices)

    def statement(self, indent):
        add = self.lines.append
        match self.random.randrange(9):
            case 0 if indent == "    ":
                text, shape = self.view()
                name = f"v{len(self.views)}"
                add(f"{indent}{name} = {text}")
                self.views[name] = shape
            case 1:
                name = self.random.choice(list(self.tiles))
                a, b = (self.some((4, 4))[0] for _ in range(2))
                add(
                    f"{indent}{name} = " + self.random.choice([f"{a} + {b}", f"{a} * 2.0", f"-{a}", f"{a} * {b} / 8.0"])
                )
            case 2:
                name, shape = self.some()
                add(f"{indent}{name} {self.random.choice(['+=', '-='])} {self.some(shape)[0]}")
            case 3 | 4:
                operator = self.random.choice(["=", "+=", "-=", "*="])
                add(f"{indent}{self.element()} {operator} {self.element()} * 0.5 + 1.0")
            case 5:
                text, shape = self.view()
                fitting = [name for name, other in self.known().items() if other == shape]
                if fitting and not text.startswith("wp"):
                    add(f"{indent}{text} = {self.random.choice(fitting)}")
            case 6:
                add(f"{indent}{self.random.choice(['change', 'raise_row'])}({self.some((4, 4))[0]}, {self.index(4)})")
            case 7 if len(indent) < 12:
                add(f"{indent}if n {self.random.choice(['>', '<', '=='])} {self.random.randrange(4)}:")
                self.block(indent + "    ")
                if self.random.random() < 0.5:
                    add(f"{indent}else:")
                    self.block(indent + "    ")
            case 8 if len(indent) < 12:
                counter = f"i{len(self.counters)}"
                add(f"{indent}for {counter} in range({self.random.choice(['n', '3', 'n + 1'])}):")
                self.counters.append(counter)
                self.block(indent + "    ")
                if self.random.random() < 0.3:
                    add(f"{indent}    if {self.some((4, 4))[0]}[0, {counter}] > {self.random.randrange(20)}.0:")
                    add(f"{indent}        {self.random.choice(['break', 'continue'])}")
                    self.block(indent + "    ")
                self.counters.pop()

    def block(self, indent):
        before = len(self.lines)
        for _ in range(self.random.randrange(1, 4)):
            self.statement(indent)
        if len(self.lines) == before:
            self.lines.append(f"{indent}pass")


@pytest.mark.parametrize("seed", range(240) if LONG else some(range(30), of=2))
def test_a_random_kernel(seed, tmp_path):
    kernel = load(Program(seed).text, tmp_path).k
    rng = np.random.default_rng(seed)
    for n in (1, 2, 3):
        args = *(rng.integers(-4, 5, (4, 4)).astype(np.float32) for _ in range(2)), n, np.zeros((16, 4, 4), np.float32)
        try:
            got = run_tiled(kernel, 1, *args)[-1]
        except wp.CompileError as error:
            assert "may be the same as one that was changed since" in str(error)
            return
        with np.errstate(all="ignore"):
            wanted = in_numpy(kernel, *args)[-1]
        np.testing.assert_array_equal(got, wanted)
