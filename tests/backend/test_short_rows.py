"""Loads of any elements of short rows, which lie in registers on some processors, against the interpreter."""

import faulthandler
import itertools

import guard_pages
import numpy as np
import pytest
from compiled_variants import TARGETS, Compiled, Variant
from op_kernels import same

import jwarp as wp
from jwarp.backend.cpu.access.shared_functions import emit
from jwarp.backend.cpu.code import Options
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings

# Numbers of a row: one, as many as registers hold, more, and so many that only what lies around a lane is loaded.
COLUMNS = (1, 19, 32, 64, 65, 300, 301, 302)


def picked(element):
    @wp.kernel
    def kernel(
        x: wp.array2d[element],
        table: wp.array[wp.int32],
        blocks: wp.array3d[float],
        row: wp.array[int],
        column: wp.array[int],
        y: wp.array2d[element],
        z: wp.array2d[float],
    ):
        i, j = wp.tid()
        c = column[j]
        y[i, j] = x[i, c]
        if j % 3 != 1:
            y[i, j] = y[i, j] + x[row[i], c] + x[i - 1, table[c]]
        if c > 20:
            z[i, j] = blocks[row[i], c, 1] + blocks[i, 1, c] + float(table[c])

    return kernel


def searched(element):
    @wp.kernel
    def kernel(
        x: wp.array2d[element],
        table: wp.array[wp.int32],
        blocks: wp.array3d[float],
        row: wp.array[int],
        column: wp.array[int],
        y: wp.array2d[element],
        z: wp.array2d[float],
    ):
        i, j = wp.tid()
        if row[i] > 0 and row[i] < x.shape[0]:
            for k in range(column.shape[0]):
                if column[(j + k) % column.shape[0]] < 0:
                    break
                y[i, j] = y[i, j] + x[row[i], column[(j + k) % column.shape[0]]]

    return kernel


def values(seed, shape, element):
    numbers = np.random.default_rng(seed).integers(-50, 50, (*shape, *getattr(element, "shape", ())))
    return numbers.astype((element.dtype if hasattr(element, "shape") else element).dtype)


def arguments(seed, element, columns, threads, inside):
    rng, rows = np.random.default_rng(seed), 5
    row, column = rng.integers(0, rows, rows), rng.integers(0, columns, threads)
    table = rng.integers(0, columns, columns)
    if columns > 65:  # neighbours of one thread, at the ends of rows as well, and all at one place
        begin, lanes = rng.choice([-9, 3, 150, columns - 15]), np.arange(threads)
        column = begin + [lanes, rng.integers(0, 20, threads), 20 - lanes, 0 * lanes + 5][columns % 3]
        table = np.arange(columns) + rng.integers(-4, 5, columns)
        column, table = np.clip(column, 0, columns - 1), np.clip(table, 0, columns - 1)
    if not inside:
        row, column, table = (
            np.where(rng.random(i.shape) < 0.3, rng.choice([-(2**31), -70, -columns, -1, n, 70, 2**31 - 1], i.shape), i)
            for i, n in ((row, rows), (column, columns), (table, columns))
        )
    indices = [i.astype(np.int32) for i in (table, row, column)]
    blocks = values(seed + 1, (rows, columns, 2), wp.float32)
    y, z = values(seed + 2, (rows, threads), element), values(seed + 3, (rows, threads), wp.float32)
    return [values(seed, (rows, columns), element), indices[0], blocks, *indices[1:], y, z]


ELEMENTS = {"float": wp.float32, "int": wp.int32, "vec3": wp.vec3, "mat22i": wp.types.matrix((2, 2), wp.int32)}


@pytest.mark.parametrize("make", [picked, searched], ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", ELEMENTS)
def test_rows_of_every_length(name, make):
    made = CpuKernel(make(ELEMENTS[name]).ir(), Settings(cache_dir=""))
    for version in ("launcher", "checked"):
        compiled = Compiled(made, Variant("16", version))
        for seed, (columns, inside) in enumerate(itertools.product(COLUMNS, (True, False))):
            given = arguments(seed, ELEMENTS[name], columns, 21, inside)
            for result, wanted in zip(compiled.run((5, 21), given), run(made.kernel, (5, 21), given), strict=True):
                assert same(result, wanted), f"{name}, {version}, {columns} columns, inside: {inside}"


def test_rows_are_in_registers():
    made = CpuKernel(picked(wp.vec3).ir(), Settings(cache_dir=""))
    generated = made.generate("checked", Options(TARGETS["16"]))
    if "+avx512f" in TARGETS["16"].features:
        texts = {load.type: emit(load, TARGETS["16"]) for load in generated.library if load.by_row}
        assert "vpermi2var.ps" in texts["float32"] and "vpermi2var.d" in texts["int32"]
        assert ("row in registers", "gather") in generated.ways.values()
    narrow = made.generate("checked", Options(TARGETS["8 peeled"]))
    assert not any(load.by_row for load in narrow.library)


def run_between_fences() -> None:
    """Both kernels on arrays next to pages that fault."""
    for make, name in itertools.product((picked, searched), ("float", "vec3")):
        made = CpuKernel(make(ELEMENTS[name]).ir(), Settings(cache_dir=""))
        for version, at_end in itertools.product(("launcher", "checked"), (True, False)):
            compiled = Compiled(made, Variant("16", version))
            for columns, inside in ((1, False), (19, True), (65, False), (300, True), (301, True), (302, False)):
                print(make.__name__, name, version, at_end, columns, inside, flush=True)
                given = arguments(columns, ELEMENTS[name], columns, 35, inside)
                expected = run(made.kernel, (5, 35), given)
                for result, wanted in zip(guard_pages.run(compiled, (5, 35), given, at_end), expected, strict=True):
                    assert same(result, wanted)


def test_no_access_leaves_the_arrays() -> None:
    guard_pages.check_script(__file__)


if __name__ == "__main__":
    faulthandler.enable()
    run_between_fences()
