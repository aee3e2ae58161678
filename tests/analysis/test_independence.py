"""Along which axes a launch may be cut, and that pieces of launches compute what the whole does."""

import numpy as np
import pytest

import jwarp as wp
from jwarp.analysis.independence import Obstacle, Split, independent_axes
from jwarp.compiler.program import program_of
from jwarp.config import config
from jwarp.passes.simplify import simplify

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(5)


@wp.kernel
def guarded(x: wp.array[float], y: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    if i >= x.shape[0]:
        return
    y[i] = 2.0 * x[i]
    wp.atomic_add(total, 0, x[i])


@wp.kernel
def rows(x: wp.array2d[float], p: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    s = 0.0
    for j in range(x.shape[1]):
        if p[j] > 0:
            s += x[i, j] * float(p[j])
    y[i] = s


@wp.kernel
def swapped(x: wp.array2d[wp.vec2], w: wp.array[float], y: wp.array2d[wp.vec2]):
    i, j = wp.tid()
    y[j, i] = x[i, j] * w[j]


@wp.kernel
def stencil(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + x[i + 1]


@wp.kernel
def number(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * float(i)


@wp.kernel
def extent(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] / float(x.shape[0])


@wp.kernel
def limited(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    if i < n:
        y[i] = x[i]


@wp.kernel
def carried(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    k = i
    while k < 10:
        k += 3
    y[i] = x[i] * float(k)


@wp.kernel
def chosen(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    k = 0
    if x[i] > 0.0:
        k = i
    y[k] = x[i]


@wp.kernel
def counted(x: wp.array[float], count: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    k = wp.atomic_add(count, 0, 1)
    y[k] = x[i]


@wp.kernel
def largest(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    wp.atomic_max(y, 0, x[i])


@wp.kernel
def diagonal(x: wp.array2d[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i, i]


@wp.kernel
def gathered(x: wp.array[float], p: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[p[i]]


@wp.kernel
def other_extent(x: wp.array[float], z: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i < z.shape[0]:
        y[i] = x[i] + z[0]


@wp.kernel
def crossed(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    if j < x.shape[0]:
        y[i, j] = x[i, 0]


def axes(kernel):
    return independent_axes(simplify(program_of(kernel, config.settings).kernel))


SPLITS = [
    (guarded, [({0: 0, 1: 0}, {2})]),
    (rows, [({0: 0, 2: 0}, set())]),
    (swapped, [({0: 0, 2: 1}, set()), ({0: 1, 1: 0, 2: 0}, set())]),
    (gathered, [({1: 0, 2: 0}, set())]),
]
OBSTACLES = [
    (stencil, "reaches elements of 'x' that belong to other threads|uses the coordinate of the thread as a number", 3),
    (number, "as a number", 3),
    (extent, "uses an extent of 'x' as a number", 3),
    (limited, "as a number", 3),
    (carried, "as a number|in a variable", None),
    (chosen, "in a variable|as a number", None),
    (counted, "depends on which other threads there are", 3),
    (largest, "changes elements of 'y' that all threads along it share", 3),
    (diagonal, "uses one coordinate for several axes of 'x'", 3),
    (other_extent, "compares the coordinate of the thread with an extent", 3),
]


@pytest.mark.parametrize("kernel, expected", SPLITS, ids=lambda x: getattr(x, "name", ""))
def test_axes_that_may_be_cut(kernel, expected):
    assert [(dict(s.places), set(s.sums)) for s in axes(kernel) if isinstance(s, Split)] == expected


@pytest.mark.parametrize("kernel, reason, line", OBSTACLES, ids=lambda x: getattr(x, "name", ""))
def test_what_stands_in_the_way_is_named_with_its_line(kernel, reason, line):
    (found,) = axes(kernel)
    assert isinstance(found, Obstacle)
    assert any(part in found.reason for part in reason.split("|")), found
    if line is not None:
        assert found.span.line == kernel.span.line + line


def test_an_extent_beside_the_coordinate_of_another_axis():
    first, second = axes(crossed)
    assert "uses an extent of 'x'" in first.reason and "compares the coordinate" in second.reason


@pytest.mark.parametrize("kernel, axis", [(guarded, 0), (rows, 0), (swapped, 0), (swapped, 1), (gathered, 0)])
def test_pieces_compute_what_the_whole_does(kernel, axis):
    split = axes(kernel)[axis]
    dims = (6, 4) if kernel is swapped else (6,)
    shapes = {"guarded": [6, 6, 1], "rows": [(6, 3), 3, 6], "swapped": [(6, 4), 4, (4, 6)], "gathered": [6, 6, 6]}
    arrays = []
    for param, shape in zip(kernel.params, shapes[kernel.name], strict=True):
        shape = (shape,) if isinstance(shape, int) else shape
        inner = (2,) if "vec2" in repr(param.type) else ()
        is_int = param.dtype.is_int
        made = RNG.integers(0, 6, shape) if is_int else RNG.normal(size=(*shape, *inner))
        arrays.append(made.astype(param.dtype.dtype))

    def run(dims, arrays):
        arrays = [a.copy() for a in arrays]
        wp.launch(kernel, dims, arrays)
        return arrays

    for p in range(len(arrays)):
        if p in program_of(kernel, config.settings).written:
            arrays[p][:] = 0
    whole = run(dims, arrays)
    half = tuple(n // 2 if k == axis else n for k, n in enumerate(dims))
    parts = []
    for part in range(2):
        cut = [np.split(a, 2, split.places[p])[part] if p in split.places else a for p, a in enumerate(arrays)]
        parts.append(run(half, cut))
    for p, expected in enumerate(whole):
        pair = [part[p] for part in parts]
        found = (
            np.concatenate(pair, split.places[p]) if p in split.places else sum(pair) if p in split.sums else pair[0]
        )
        np.testing.assert_allclose(found, expected, rtol=1e-6)
