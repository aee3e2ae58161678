"""Products of tiles whose sums stay in registers over loops, run by the PTX machine: types, transposes, derivatives."""

import numpy as np
import pytest
from cuda_on_host import pack
from ptx_checks import Counts
from ptx_products import check_adjoints
from ptx_running import PtxKernel
from tile_programs import looped, operands, product

from jwarp.autodiff.reverse import vjp
from jwarp.types import bfloat16, float16, float32, float64, int32

pytestmark = pytest.mark.usefixtures("compiler")
DIGITS = {float16: 2e-3, bfloat16: 2e-2, float32: 2e-5, float64: 1e-13, int32: 0}


CASES = [
    (float16, float32, (32, 24, 16), 64, (True, False), None, "flat fast"),
    (float16, float16, (48, 40, 32), 96, (False, True), 0.0, "flat fast"),
    (bfloat16, float32, (64, 32, 16), 128, (False, False), None, "either"),
    (bfloat16, float32, (32, 32, 24), 64, (True, True), 1.0, "flat fast"),  # 24 is no multiple of 16
    (float32, float32, (32, 32, 16), 64, (False, False), 0.0, "checked"),
    (float32, float32, (33, 18, 6), 96, (False, True), None, "flat fast"),
    (float32, float32, (40, 64, 8), 128, (True, True), -1.0, "flat checked"),
    (float64, float64, (16, 24, 8), 64, (True, False), None, "flat fast"),
    (float64, float64, (17, 12, 5), 32, (False, True), 0.0, "flat fast"),
    (int32, int32, (20, 12, 8), 64, (True, False), None, "flat fast"),
    (float16, float32, (32, 32, 16), 128, (False, False), "twice", "flat fast"),
    (float32, float32, (32, 32, 16), 64, (False, False), "twice", "flat fast"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}-{'x'.join(map(str, c[2]))}-{c[5]}")
def test_sums_in_registers(case):
    type_, sums, extents, block_dim, transposes, start, version = case
    made = PtxKernel(looped(type_, sums, extents, block_dim, transposes, start), version)
    count = 2 if start == "twice" else 1
    copies = 2 if version == "either" else 1  # of the code
    assert made.unit.text.count("block_sums<") == count * copies and "gemm<" not in made.unit.text
    assert made.unit.text.count(".take<") == copies * (start not in (0.0, "twice")), "zeros are not stored first"
    rng, k = np.random.default_rng(0), extents[2]
    # Of the long loops, one goes through buffers an odd number of times.
    for trips, order in ((0, 0), (1, -1), (2, 7), (5 + CASES.index(case) % 2, 3)):
        exact, args = operands(rng, type_, sums, extents, transposes, trips * k, count)
        before = args[2].astype(float) if start is None else 0.0 if start == "twice" else start
        expected = np.concatenate([exact, 2 * exact]) if count == 2 else exact + before
        *_, c = made.run((2, 2), args, order)
        np.testing.assert_allclose(c.astype(float), expected, rtol=0, atol=DIGITS[type_] * (4 * trips * k + 10))


def test_batches():
    """Under vmap, with one operand for all."""
    made, rng = PtxKernel(product(float16, float32, 32, 16, 16, 64), "either"), np.random.default_rng(1)
    a, b = rng.normal(size=(3, 64, 48)).astype(np.float16), rng.normal(size=(48, 32)).astype(np.float16)
    arrays = [a, b, np.zeros((3, 64, 32), np.float32)]
    axes = [(True,), (False,), (True,)]
    made.launch(pack(made.kernel.params, arrays, (2, 2), tid_dims=2, batch=(3,), batched=axes), arrays)
    np.testing.assert_allclose(arrays[2], a.astype(float) @ b.astype(float), rtol=1e-4, atol=1e-4)


def test_fewer_digits():
    """Products of float32 by matrix instructions, where that is asked for: as if factors were rounded to 11 bits."""
    rng = np.random.default_rng(3)
    for transposes in ((False, False), (True, True)):
        made = PtxKernel(looped(float32, float32, (32, 24, 16), 64, transposes), "tf32 flat fast")
        assert "mma.sync.aligned.m16n8k8.row.col.f32.tf32" in made.text
        exact, args = operands(rng, float32, float32, (32, 24, 16), transposes, 80)
        counts = Counts()
        *_, c = made.run((2, 2), args, 3, counts=counts)
        error = np.abs(c - (exact + args[2]))
        assert 1e-4 < error.max() < 80 * 9 * 2.0**-10
        assert counts.passes["load"] <= 1.05 * counts.least["load"]
    assert "mma.sync" not in PtxKernel(looped(float32, float32, (32, 24, 16), 64), "flat fast").text


@pytest.mark.parametrize("case", [CASES[0], CASES[4], CASES[6], CASES[8]], ids=lambda c: f"{c[0]}-{c[4]}")
def test_adjoints(case):
    """The products for the gradients of the operands, which are added to what other blocks have."""
    type_, sums, extents, block_dim, transposes, start, _ = case
    made = PtxKernel(vjp(looped(type_, sums, extents, block_dim, transposes, start), [0, 1], [2]).kernel, "flat fast")
    check_adjoints(made, type_, sums, extents, transposes, 3 * extents[2], 100 * DIGITS[type_])


@pytest.mark.parametrize("type_", [float16, bfloat16, float32], ids=str)
def test_gradients_are_added_some_elements_at_a_time(type_):
    """Where rows begin at multiples of 16 bytes, and one by one where they do not."""
    made = PtxKernel(vjp(product(type_, float32, 32, 16, 32, 64), [0, 1], [2]).kernel, "flat fast")
    assert made.unit.text.count("add_2d<") == 2
    rng, together = np.random.default_rng(4), 16 // type_.dtype.itemsize
    for depth, accesses in ((64, 48 * 64 // together), (67, 32 * 64 + 16 * 64 // together)):
        a, b = (rng.integers(-3, 4, shape).astype(type_.dtype) for shape in ((32, depth), (depth, 16)))
        g, counts = rng.integers(-3, 4, (32, 16)).astype(np.float32), Counts()
        given = {"a": a, "b": b, "adj_c": g, "adj_a": a, "adj_b": 0 * b}
        found = made.run((1, 1), [given[p.name] for p in made.kernel.params], counts=counts)
        named = dict(zip((p.name for p in made.kernel.params), found, strict=True))
        x, y = a.astype(float), b.astype(float)
        x[:, :64] += g @ y[:64].T
        np.testing.assert_array_equal(named["adj_a"].astype(float), x)
        np.testing.assert_array_equal(named["adj_b"].astype(float)[:64], a.astype(float).T[:64] @ g)
        assert counts.accesses["atomic"] == accesses
