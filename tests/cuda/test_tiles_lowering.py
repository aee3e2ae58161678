"""Launches of kernels with tiles lowered for CUDA: what the call says, and which products were needed."""

import re

import jax
import jax.numpy as jnp
import pytest
from cuda_lowering import attribute, calls, lowered
from cuda_tile_launches import BLOCK, STEP, TILE, multiply, product, softmax

import jwarp as wp
from jwarp.backend.cuda.entry import REDUCTIONS
from jwarp.caches import Cache
from jwarp.compiler import cuda

FORWARD = f"tile_matmul[float32 {TILE}x{TILE}x{STEP} nn add]"
BY_A = f"tile_matmul[float32 {TILE}x{STEP}x{TILE} nt set]"
BY_B = f"tile_matmul[float32 {STEP}x{TILE}x{TILE} tn set]"
A, B = jnp.ones((32, 24)), jnp.ones((24, 48))


@pytest.fixture(autouse=True)
def one_architecture(compiler):
    with wp.config(cuda_arch="sm_90"):
        yield


def loss(a, b):
    return product(a, b)[0].sum()


def test_the_call_has_a_block_of_threads_for_each_block():
    text, _ = lowered(product, A, B)
    assert calls(text) == ["jwarp_cuda_v1"] and attribute(text, "entry") == b"jwarp_multiply"
    # Four places for the tiles of each operand. The sums are there when these are not.
    shared = 4 * 4 * 2 * TILE * STEP
    for expected in (f"block = {BLOCK} : i64", f"shared = {shared} : i64", "grid = dense<1> : tensor<1xi64>"):
        assert expected in text


def test_only_the_products_that_are_needed_are_compiled():
    def variants(function, *args):
        return [e.variant for e in lowered(lambda *args: function(*args), *args)[1]]  # nothing of it is traced yet

    assert variants(product, A, B) == ["forward", FORWARD]
    assert variants(jax.grad(loss), A, B) == ["adjoint(a)", BY_A]
    assert variants(jax.grad(loss, 1), A, B) == ["adjoint(b)", BY_B]
    both = variants(jax.vmap(jax.grad(loss, (0, 1)), (0, None)), jnp.stack([A, A]), B)
    assert both[0] == "adjoint(a, b)" and sorted(both[1:]) == sorted([BY_A, BY_B])
    rows = variants(lambda x: wp.launch_tiled(softmax, [5], [x, 2.0], [x.shape, 1], block_dim=32), jnp.ones((5, 40)))
    assert rows == ["forward"]


def test_products_with_fewer_digits_where_jax_allows_them():
    images = {}
    for precision in (None, "float32", "tensorfloat32", "high"):
        with jax.default_matmul_precision(precision):
            images[precision] = attribute(lowered(lambda a, b: product(a, b), A, B)[0], "image")
    assert images[None] == images["float32"] != images["tensorfloat32"] == images["high"]


@wp.kernel
def coarse(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    left, right = wp.tile_load(a, shape=(16, 16)), wp.tile_load(b, shape=(16, 16))
    wp.tile_store(c, wp.tile_matmul(left, right, precision="tf32"))


def test_products_with_fewer_digits_where_they_are_asked_for():
    """And those of the gradient."""
    for adjoint in (False, True):
        text = wp.inspect(coarse, "cuda", adjoint=adjoint)
        found = re.findall(r"gemm<float, float, float, 16, 16, 16, \w+, \w+, false, \d+, true", text)
        assert len(found) == text.count("gemm<") > adjoint


def test_what_a_kernel_needs_is_found_again_on_disk(tmp_path, monkeypatch):
    """Then tiles are not lowered once more."""
    with wp.config(cache_dir=str(tmp_path)):
        monkeypatch.setattr(cuda, "_images", Cache("images", 8))
        first = lowered(lambda a, b: product(a, b), A, B)
        monkeypatch.setattr(cuda, "_images", Cache("images", 8))
        monkeypatch.setattr(cuda, "_kernels", Cache("kernels", 8))
        monkeypatch.setattr(cuda.CudaKernel, "optimized", lambda self: pytest.fail("lowered again"))
        second = lowered(lambda a, b: product(a, b), A, B)
    assert [e.source for e in first[1]] == ["compiled"] * 2 and [e.source for e in second[1]] == ["disk"] * 2
    assert [e.variant for e in second[1]] == ["forward", FORWARD]
    assert attribute(first[0], "image") == attribute(second[0], "image")


def test_code_includes_only_what_it_calls():
    assert "tile_gemm.cuh" in wp.inspect(multiply, "cuda") and REDUCTIONS not in wp.inspect(multiply, "cuda")
    assert "tile_gemm.cuh" not in wp.inspect(softmax, "cuda") and REDUCTIONS in wp.inspect(softmax, "cuda")


def test_tiles_that_a_gpu_has_no_room_for():
    @wp.kernel
    def large(x: wp.array2d[float], y: wp.array2d[float]):
        t = wp.tile_load(x, shape=(180, 180))
        total = wp.tile_sum(t)
        wp.tile_store(y, t * total[0])

    def function(x):
        return wp.launch_tiled(large, [1], [x], [x.shape], block_dim=64)[0]

    with wp.config(cuda_arch="sm_80"):
        assert calls(lowered(function, jnp.ones((180, 180)))[0]) == ["jwarp_cuda_v1"]
    with wp.config(cuda_arch="sm_120"), pytest.raises(wp.KernelTypeError, match=r"its tiles need 129\d\d\d bytes"):
        lowered(lambda x: function(x), jnp.ones((180, 180)))
