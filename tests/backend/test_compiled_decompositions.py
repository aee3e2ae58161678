"""Decompositions of matrices compiled for every vector width give the bits that the interpreter gives."""

import numpy as np
import pytest
from compiled_variants import VARIANTS, Compiled
from op_kernels import same

import jwarp as wp
from jwarp.backend.interpreter.machine import run

# One of each target.
LAUNCHERS = [v for v in VARIANTS if v.version == "launcher"]


@wp.kernel
def two(a: wp.array[wp.mat22], u: wp.array[wp.mat22], sigma: wp.array[wp.vec2], v: wp.array[wp.mat22]):
    i = wp.tid()
    u[i], sigma[i], v[i] = wp.svd2(a[i])


@wp.kernel
def three(a: wp.array[wp.mat33d], u: wp.array[wp.mat33d], sigma: wp.array[wp.vec3d], v: wp.array[wp.mat33d]):
    i = wp.tid()
    u[i], sigma[i], v[i] = wp.svd3(a[i])


@wp.kernel
def others(a: wp.array[wp.mat33], q: wp.array[wp.mat33], d: wp.array[wp.vec3], r: wp.array[wp.mat33]):
    i = wp.tid()
    q[i], d[i] = wp.eig3(a[i])
    q2, r[i] = wp.qr3(a[i])
    q[i] += q2


@pytest.mark.parametrize("kernel", [two, three, others], ids=lambda k: k.name)
@pytest.mark.parametrize("variant", LAUNCHERS, ids=str)
def test_same_as_the_interpreter(kernel, variant):
    count = 37
    types = [p.type for p in kernel.params]
    rng = np.random.default_rng(9)
    arrays = [rng.normal(size=(count, *t.components)).astype(t.dtype.dtype) for t in types]
    arrays[0][:9] = np.round(arrays[0][:9])
    arrays[0][9, 0, 0] = np.nan
    arrays[0][10] = 0.0
    expected = run(kernel.ir(), (count,), arrays)
    results = Compiled(kernel.ir(), variant).run((count,), arrays)
    assert all(same(x, y) for x, y in zip(results, expected, strict=True))
