"""Components that are read sixteen bytes at once, on the PTX machine and against the interpreter."""

import numpy as np
import pytest
from cuda_on_host import pack
from ptx_checks import Counts
from ptx_running import PtxKernel

import jwarp as wp
from jwarp.backend.interpreter.machine import run

pytestmark = pytest.mark.usefixtures("compiler")
vec12 = wp.types.vector(12, wp.float32)
mat22i = wp.types.matrix((2, 2), wp.int32)


@wp.kernel
def gathered(
    k: wp.array[int], a: wp.array[vec12], b: wp.array2d[wp.vec4d], c: wp.array[mat22i], d: wp.array[wp.vec3],
    out: wp.array[float],
):  # fmt: skip
    """All of an element, a part of one, one component, in branches; and elements of twelve bytes."""
    i = wp.tid()
    j = k[i]
    box = a[j]
    total = 0.0
    for n in range(12):
        total += float(n + 1) * box[n]
    if j % 2 == 0:
        total += float(b[j, 1][1] - b[j, 1][3] + b[j, 1][0] * b[j, 0][2])
    else:
        total += float(c[j][0, 1] + 3 * c[j][1, 1]) + d[j][0] - d[j][1]
    out[i] = total


def arguments(count, seed):
    rng = np.random.default_rng(seed)
    shapes = (count, 12), (count, 2, 4), (count, 2, 2), (count, 3)
    made = [rng.integers(-9, 9, shape) for shape in shapes]
    kinds = np.float32, np.float64, np.int32, np.float32
    k = rng.integers(0, count, count).astype(np.int32)
    return [k, *(x.astype(t) for x, t in zip(made, kinds, strict=True)), np.zeros(count, np.float32)]


@pytest.mark.parametrize("version", ["narrow flat fast", "flat fast", "fast", "checked"])
def test_parts_of_elements(version):
    kernel, args = gathered.ir(), arguments(40, 0)
    made = PtxKernel(kernel, version)
    for x, y in zip(made.run((40,), args), run(kernel, (40,), args), strict=True):
        np.testing.assert_array_equal(x, y)


@wp.kernel
def plain(a: wp.array[vec12], b: wp.array[wp.quat], out: wp.array[float]):
    i = wp.tid()
    j = (7 * i) % 32
    box = a[j]
    turn = b[j]
    out[i] = box[0] + box[1] + box[2] + box[3] + turn[0] * turn[3] + turn[1] * turn[2]


@pytest.mark.parametrize("apart", [0, 1])
def test_arrays_that_begin_anywhere(apart):
    """An array that begins elsewhere than at a multiple of sixteen bytes is read component by component."""
    made, rng = PtxKernel(plain.ir(), "narrow flat fast"), np.random.default_rng(1)
    assert made.unit.text.count("jw_read_quads<") == 2
    given = []
    for size in (12, 4):
        memory = np.zeros(32 * size + 32, np.float32)
        start = -(memory.ctypes.data // 4) % 16 + apart
        part = memory[start : start + 32 * size].reshape(32, size)
        part[...] = rng.integers(-9, 9, part.shape)
        given.append(part)
    out, counts = np.zeros(32, np.float32), Counts()
    arrays = [*given, out]
    made.launch(pack(made.kernel.params, arrays, (32,), tid_dims=1), arrays, counts=counts)
    (a, b), j = given, 7 * np.arange(32) % 32
    np.testing.assert_array_equal(out, a[j, :4].sum(1) + b[j, 0] * b[j, 3] + b[j, 1] * b[j, 2])
    assert counts.accesses["load"] == 32 * (8 if apart else 2)
