"""Generated and handwritten kernels as NVRTC compiles them, run by the PTX machine, against the interpreter.

The machine refuses what a GPU would not do, or not always: accesses outside of arrays, races, barriers that some miss.
`JWARP_FUZZ=long` tries many more random kernels, for JWARP_FUZZ_SECONDS.
"""

import dataclasses
import random
import re
import time
import warnings

import numpy as np
import pytest
from cuda_compiling import saxpy, stencil
from cuda_on_host import pack
from cuda_tiles import Scattered, in_blocks_of
from fuzz_profiles import ALL, LONG, SECONDS, first_seed, some
from gradient_kernels import KINDS
from handwritten_kernels import grow_kernel, powers_adjoint_kernel, powers_kernel
from kernel_sources import Writer, load
from op_kernels import agree, arguments, casts_of, close, inputs_of, operand_sets, ops_of
from ptx_checks import Counts
from ptx_running import PLAIN, PtxHandwritten, PtxKernel
from tile_kernels import COLUMNS, ROWS, Program
from tile_programs import product, softmax
from versions import read_version

import jwarp as wp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.cuda.records import grows
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cuda import CudaKernel
from jwarp.compiler.derive import Variant, derive
from jwarp.compiler.program import program_of
from jwarp.config import Settings, config
from jwarp.errors import KernelWarning
from jwarp.ir.ops import ELEMENTARY
from jwarp.types import SCALARS, ArrayType, bfloat16, float16, float32, float64, int64

pytestmark = pytest.mark.usefixtures("compiler")
ORDERS = (0, -1, 7)


@pytest.mark.parametrize("type_", SCALARS.values() if ALL else [float32, int64], ids=str)
def test_operations(type_):
    """All operations and conversions at corner values, to the bit but for elementary functions."""
    for ops, inputs in ((ops_of(type_), inputs_of(type_, 1)), (casts_of(type_), operand_sets(type_, 1, 5)[:1])):
        kernel, count = ops.kernel("kernel"), len(inputs[0])
        args = arguments(ops, list(inputs), count)
        expected, found = run(kernel, (count,), args), PtxKernel(kernel, "flat fast").run((count,), args)
        arrays = sum(isinstance(p.type, ArrayType) for p in ops.inputs)
        for (label, _), x, y in zip(ops.labels, found[arrays:], expected[arrays:], strict=True):
            name = label.split()[0]
            # A norm is a sum of products, which the compiler fuses.
            fits = close(x, y) if name in ELEMENTARY or name == "norm" else agree(x, y)
            if name.startswith("erf"):  # of products and sums, which the compiler rounds once
                fits |= np.isclose(x, y, rtol=1e-12 if type_ is float64 else 1e-5, atol=0)
            k = int(np.argmin(fits))
            assert fits.all(), f"{label} of {[v[k] for v in inputs]}: {x[k]!r}, expected {y[k]!r}"


def check_random(seed, folder):
    rng = random.Random(seed)
    generated = Writer(rng).kernel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        kernel = load(generated.source, folder).ir(Settings(max_unroll=rng.choice([0, 4, 16])))
    made = CudaKernel(kernel, PLAIN)
    dims = (*generated.dims[: kernel.tid_dims], *[1] * 4)[:4]
    extents = tuple(np.shape(a) or None for a in generated.arguments)
    # Threads are repeated where there are more launch dimensions.
    repeat = 1 if len(generated.dims) <= kernel.tid_dims and rng.random() < 0.6 else 2
    own = made.version(dims, extents, repeat=repeat) if 0 not in dims else read_version("checked")
    version = dataclasses.replace(own, access=rng.choice([own.access, "checked", "either"]))
    expected = run(made.proofs.kernel, generated.dims, generated.arguments)
    found = PtxKernel(kernel, version).run(generated.dims, generated.arguments, rng.choice(ORDERS))
    for k, (x, y) in enumerate(zip(found, expected, strict=True)):
        fits = np.all(agree(x, y))
        if not fits:  # functions are rounded otherwise, and products and sums together
            fits = np.allclose(x.astype(float), y.astype(float), rtol=1e-2, atol=1e-2, equal_nan=True)
        assert fits, f"seed {seed}, {version}, array {k}:\n{x}\nexpected\n{y}\n{generated.source}"


@pytest.mark.skipif(LONG, reason="the long profile runs instead")
@pytest.mark.parametrize("seed", some(range(12), of=2))
def test_random_kernels(seed, tmp_path):
    check_random(seed, tmp_path)


@pytest.mark.skipif(not LONG, reason="JWARP_FUZZ=long is not set")
def test_many_random_kernels(tmp_path):
    first, end, count = first_seed(), time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        try:
            check_random(first + count, tmp_path)
        except Exception as error:
            error.add_note(f"seed {first + count}")
            raise
        count += 1
    print(f"{count} kernels from seed {first}")


VARIANTS = (
    Variant("tangent", (2,), (0,), fresh=(2,), for_gpu=True),
    Variant("adjoint", (0,), (2,), fresh=(2,), for_gpu=True),
    Variant("adjoint", (0,), (2,), along=(0,), fresh=(2,), for_gpu=True),
)
SELECTED = [k for kinds in KINDS.values() for k in kinds]


@pytest.mark.parametrize("kernel", some(SELECTED, of=8), ids=lambda k: k.name)
def test_derivatives(kernel):
    rng = np.random.default_rng(3)
    for variant in VARIANTS if ALL else VARIANTS[1 + len(kernel.name) % 2 :][:1]:
        program = derive(program_of(kernel, config.settings), variant).program
        made = PtxKernel(program.gpu_kernel, "flat checked")
        for trips in (0, 5, 40):
            args = [np.int32(trips) if p.type is wp.int32 else rng.uniform(0.35, 0.8, 5) for p in program.params]
            expected, found = run(program.kernel, (5,), args), made.run((5,), args, int(rng.choice(ORDERS)))
            names = [p.name for p in program.params if p.is_array]
            for name, x, y in zip(names, found, expected, strict=True):
                if name.startswith(("adj_", "dot_")):
                    np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-11, err_msg=f"{kernel.name}, {trips} trips")


def test_a_heap_that_is_full():
    """The launcher gets an error; nothing is written where there is no memory, and all of it is given back."""
    kernel = next(k for kinds in KINDS.values() for k in kinds if k.name == "multiplied_in_place")
    program = derive(program_of(kernel, config.settings), VARIANTS[1]).program
    made = PtxKernel(program.gpu_kernel, "flat checked")
    made.heap_size = 3000
    args = [np.int32(90) if p.type is wp.int32 else np.full(5, 0.5) for p in program.params]
    with pytest.raises(RuntimeError, match="thread 0: .*heap has a place for"):
        made.run((5,), args)


@wp.kernel
def pulled(p: wp.array[wp.vec3], m: wp.array[float], f: wp.array[wp.vec3]):
    """As `bodies`, but soft: nothing cancels. All threads add to the same elements of the adjoint, in turn."""
    i = wp.tid()
    total = wp.vec3(0.0)
    for j in range(p.shape[0]):
        d = p[j] - p[i]
        r2 = wp.dot(d, d) + 0.5
        total += d * (m[j] / (r2 * wp.sqrt(r2)))
    f[i] = total


@pytest.mark.parametrize("kernel", [saxpy, pulled, stencil], ids=lambda k: k.name)
def test_gradients_of_plain_kernels(kernel):
    """Forward, and the adjoint by all floats, in 70 threads or 4 x 5 x 6."""
    program = program_of(kernel, config.settings)
    floats = tuple(k for k, p in enumerate(program.params) if p.dtype.is_float and k not in program.written)
    variant = Variant("adjoint", floats, program.written, fresh=program.written, for_gpu=True)
    rng = np.random.default_rng(0)
    for made in (program, derive(program, variant).program):
        dims = (4, 5, 6) if kernel is stencil else (70,)
        shapes = [(*dims[: p.type.dims], *p.type.components) if p.is_array else () for p in made.params]
        args = [rng.uniform(0.5, 2.0, shape).astype(np.float32) for shape in shapes]
        compiled = PtxKernel(made.gpu_kernel)
        assert ("jw_add_along<" in compiled.unit.text) == (kernel is pulled and made is not program)
        for x, y in zip(compiled.run(dims, args), run(made.gpu_kernel, dims, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-4)


def test_reciprocal_roots_are_one_instruction():
    """Of `pulled` with `fast_math`, and of its adjoint, where a root that is asked for by itself stays one."""
    fast, rng = Settings(cache_dir="", fast_math=True), np.random.default_rng(0)
    program = program_of(pulled, config.with_values(fast_math=True))
    variant = Variant("adjoint", (0, 1), program.written, fresh=program.written, for_gpu=True)
    for made, roots in ((program, False), (derive(program, variant).program, True)):
        compiled = PtxKernel(made.gpu_kernel, "narrow flat fast", fast, block=32)
        found = re.findall(r"\b(rsqrt|sqrt|div|rcp)\.", compiled.text)
        assert set(found) == {"rsqrt", "sqrt"} if roots else set(found) == {"rsqrt"}, found
        args = [rng.uniform(0.5, 2.0, (40, *p.type.components)).astype(np.float32) for p in made.params]
        for x, y in zip(compiled.run((40,), args), run(made.gpu_kernel, (40,), args), strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-4)


@wp.kernel
def scaled(x: wp.array2d[float], k: float, n: int, y: wp.array2d[float], total: wp.array[float]):
    i, j = wp.tid()
    y[i, j] = k * x[i, (j + n) % x.shape[1]]
    wp.atomic_add(total, 0, x[i, j])
    wp.atomic_add(total, 1, 1.0)


@wp.kernel
def turned(
    m: wp.array[wp.mat33], q: wp.array[wp.vec4d], h: wp.array[wp.types.vector(6, wp.float16)], n: int,
    y: wp.array[wp.mat33], z: wp.array[wp.vec4d], s: wp.array[wp.types.vector(6, wp.float16)], part: wp.array[wp.vec3],
):  # fmt: skip
    i = wp.tid()
    y[i] = m[i] * m[n] + wp.transpose(m[i])
    z[i] = q[i] * wp.float64(n)
    s[i] = h[i] + h[i]
    part[i] = wp.vec3(m[i][0, 0], m[i][1, 1], 0.0)
    if i % 3 == 0:
        part[i] = part[i] * 2.0
        z[i] = z[i] + q[i]


@pytest.mark.parametrize("count", [1, 31, 32, 70, 96])
def test_elements_that_warps_move_together(count):
    """Of all widths, in whole warps and in parts of one; elements of others, and what is read again, are as ever."""
    kernel, rng = turned.ir(), np.random.default_rng(count)
    made = PtxKernel(kernel, "narrow flat fast")
    assert all(f"{name}_own[" in made.unit.text for name in ("m", "q", "h", "y", "s")), made.unit.text
    assert "part_own" not in made.unit.text and "z_own" not in made.unit.text
    args = [
        np.int32(0) if not p.is_array else rng.normal(size=(count, *p.type.components)).astype(p.dtype.dtype)
        for p in kernel.params
    ]
    for x, y in zip(made.run((count,), args), run(made.made.kernel, (count,), args), strict=True):
        np.testing.assert_allclose(x.astype(float), y.astype(float), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("version", ["either", "narrow:0,3 either"])
def test_batches(version):
    """Batch axes by strides: unbatched operands, and a sum that the whole batch shares."""
    made, rng = PtxKernel(scaled.ir(), version, block=32), np.random.default_rng(0)
    a, b = 3, 2
    x, k = rng.normal(size=(a, b, 4, 5)).astype(np.float32), rng.normal(size=b).astype(np.float32)
    n = np.array([1, 4, 2], np.int32)
    batched = [(True, True), (False, True), (True, False), (True, True)]
    for total, axes in ((np.zeros(2, np.float32), (False, False)), (np.zeros((a, 2), np.float32), (True, False))):
        for order, blocks in ((0, 5), (-1, 1), (7, 2)):
            arrays = [x, k, n, np.zeros((a, b, 4, 5), np.float32), total.copy()]
            words = pack(made.kernel.params, arrays, (4, 5), tid_dims=2, batch=(a, b), batched=[*batched, axes])
            made.launch(words, arrays, order=order, blocks=blocks)
            for i in range(a):
                for j in range(b):
                    np.testing.assert_array_equal(arrays[3][i, j], k[j] * np.roll(x[i, j], -int(n[i]), axis=1))
            sums = x.astype(float).sum(axis=(1, 2, 3)) if axes[0] else x.astype(float).sum()
            np.testing.assert_allclose(arrays[4][..., 0], sums, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch", [(3,), (3, 2)], ids=str)
def test_batches_of_many_parameters(batch, tmp_path):
    """Of more than 64, whose places are in memory; every third one has no batch axis."""
    names = [f"a{k}" for k in range(70)]
    source = f"import jwarp as wp\n\n@wp.kernel\ndef kernel({': wp.array[float], '.join(names)}: wp.array[float]):\n"
    source += f"    i = wp.tid()\n    a69[i] = {' + '.join(f'{k + 1}.0 * a{k}[i]' for k in range(69))}\n"
    made, rng = PtxKernel(load(source, tmp_path).ir(), "narrow fast"), np.random.default_rng(0)
    has_axes = [k % 3 > 0 or k == 69 for k in range(70)]
    arrays = [rng.integers(-9, 9, (*batch, 5) if has else 5).astype(np.float32) for has in has_axes]
    axes = [(has,) * len(batch) for has in has_axes]
    expected = sum((k + 1) * a for k, a in enumerate(arrays[:69]))
    words = pack(made.kernel.params, arrays, (5,), tid_dims=1, batch=batch, batched=axes)
    made.launch(words, arrays)
    np.testing.assert_array_equal(arrays[69], expected)


@wp.kernel
def narrow_sums(
    x: wp.array[wp.float16], y: wp.array[wp.bfloat16], sums: wp.array[wp.float16], more: wp.array[wp.bfloat16]
):
    i = wp.tid()
    wp.atomic_add(sums, i % 3, x[i])
    wp.atomic_add(more, i % 3, y[i])


@pytest.mark.parametrize("architecture", ["compute_80", "compute_90"])
def test_atomic_sums_of_16_bits(architecture):
    """By pairs where hardware adds those, also of subnormals; in one order they have the bits of the interpreter."""
    kernel, rng = narrow_sums.ir(), np.random.default_rng(2)
    made = PtxKernel(kernel, "flat fast", architecture=architecture)
    assert "atom.global.add.noftz.f16x2" in made.text
    assert ("atom.global.add.noftz.bf16x2" in made.text) == (architecture == "compute_90")
    scale = np.array([1.0, 1e-6, 30.0] * 10)
    args = [
        (rng.normal(size=(30 if k < 2 else 3)) * (scale if k < 2 else 0)).astype(p.dtype.dtype)
        for k, p in enumerate(kernel.params)
    ]
    for x, y in zip(made.run((30,), args), run(made.made.kernel, (30,), args), strict=True):
        np.testing.assert_array_equal(x.view(np.uint16), y.view(np.uint16))


@wp.kernel
def extremes(
    x: wp.array[float],
    y: wp.array[wp.float64],
    n: wp.array[wp.int64],
    low: wp.array[float],
    high: wp.array[float],
    lower: wp.array[wp.float64],
    higher: wp.array[wp.float64],
    bits: wp.array[wp.int64],
):
    i = wp.tid()
    wp.atomic_min(low, i % 16, x[i])
    wp.atomic_max(high, i % 16, x[i])
    wp.atomic_min(lower, i % 16, y[i])
    wp.atomic_max(higher, i % 16, y[i])
    wp.atomic_and(bits, 0, n[i])
    wp.atomic_or(bits, 1, n[i])
    wp.atomic_max(bits, 2, n[i])


def test_extrema_of_floats_are_instructions():
    """Numbers win over NaN, whatever its sign, and -0 is below 0: also where memory held them before."""
    kernel, rng = extremes.ir(), np.random.default_rng(4)
    made = PtxKernel(kernel, "flat fast")
    assert "max.s32" in made.text and "min.u64" in made.text
    assert made.text.count(".cas.") == 4  # one for each that memory may have held NaN for
    special = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-40, -1e-40, 1.5, -1.5, 3.0, -2.0]
    args = []
    for k, p in enumerate(kernel.params):
        count = 160 if k < 3 else 16
        drawn = rng.integers(-99, 99, count) if p.dtype.is_int else rng.choice(special if k > 2 else special[4:], count)
        args.append(np.asarray(drawn).astype(p.dtype.dtype))
    for a in args[:2]:
        a[16 * rng.integers(0, 9, 4) + [0, 1, 2, 3]] = [0.0, -0.0, np.nan, -np.nan]
    for order in ORDERS:
        for x, y in zip(made.run((160,), args, order), run(kernel, (160,), args), strict=True):
            same = (x == y) & (np.signbit(x) == np.signbit(y)) | (x != x) & (y != y)
            assert same.all(), (x, y)


@wp.kernel
def flags(x: wp.array[wp.int8], seen: wp.array[wp.int8], n: wp.array[int]):
    i = wp.tid()
    if seen[i] == wp.int8(0):
        wp.atomic_max(seen, i, x[i])
    n[i] = int(seen[i])


def test_elements_of_a_byte_that_are_read_and_changed():
    """An atomic changes the word around an element. The compiler has to know that it changes the array."""
    kernel, rng = flags.ir(), np.random.default_rng(3)
    args = [rng.integers(-9, 9, 67).astype(np.int8), rng.integers(0, 2, 67).astype(np.int8), np.zeros(67, np.int32)]
    for x, y in zip(PtxKernel(kernel, "flat fast").run((67,), args), run(kernel, (67,), args), strict=True):
        np.testing.assert_array_equal(x, y)


@wp.kernel
def positive(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    assert x[i] > 0.0
    y[i] = wp.sqrt(x[i])


def test_the_first_failed_check_is_noted():
    program = program_of(positive, config.with_values(debug=True))
    made = PtxKernel(program.kernel, "checked")
    x = np.ones(200, np.float32)
    x[[170, 33, 90]] = -1.0
    with pytest.raises(RuntimeError, match=r"thread 33: .*assert"):
        made.run((200,), [x, np.zeros(200, np.float32), *[np.zeros(200, np.int32)] * len(program.shadowed)], -1)


@wp.kernel
def told(x: wp.array[float], m: wp.array[wp.types.matrix((6, 6), float)]):
    i = wp.tid()
    wp.printf('100%% of "%d" is %.2f\n', i, x[i])
    if i == 1:
        print(x[i])
    if i == 7:
        print(m[0])


@wp.kernel
def briefly(x: wp.array[float]):
    i = wp.tid()
    wp.printf('100%% of "%d" is %.2f\n', i, x[i])


def test_lines_are_printed_and_too_long_ones_refused():
    made = PtxKernel(briefly.ir(), "flat fast")
    made.run((2,), [np.array([0.5, 2.0], np.float32)])
    assert made.printed == ['100% of "0" is 0.50\n', '100% of "1" is 2.00\n']
    with pytest.raises(wp.CompileError, match=r"(?s)`told`: a line of 36 values .* prints 32 at most.*print\(m\[0\]\)"):
        CudaKernel(told.ir(), PLAIN).unit(read_version("flat fast"), 64)


# ---- tiles


@pytest.mark.parametrize("seed", range(60) if LONG else some(range(5), of=2))
def test_random_tiles_with_exact_sums(seed):
    rng = random.Random(seed)
    case = Scattered(rng).case()
    kernel = in_blocks_of(case.kernel, rng)
    made = PtxKernel(kernel, rng.choice(["checked", "flat checked", "either"]))
    expected = run(case.kernel, case.dims, case.arguments)
    found = made.run(case.dims, case.arguments, rng.choice(ORDERS), blocks=1)  # all blocks in turn: their stores meet
    for k, (x, y) in enumerate(zip(found, expected, strict=True)):
        assert np.all(agree(x, y)), f"seed {seed}, array {k}:\n{x}\n{y}"


# The last factors and solves, and has a tenth of the code of others that do.
@pytest.mark.parametrize("seed", range(40) if LONG else (0, 1, 22))
def test_random_tiles(seed):
    """Every operation on tiles, and the adjoint."""
    rng = random.Random(seed)
    kernel = in_blocks_of(Program(seed, steps=6).kernel(), rng)
    derived = vjp(kernel, range(len(Program.PARAMS)), [2, 3]).kernel
    values = np.random.default_rng(seed)
    for made in (PtxKernel(k, "flat checked") for k in (kernel, derived)):
        args = [values.normal(size=(ROWS, COLUMNS)) for _ in made.kernel.params]
        expected = run(made.made.kernel, (3,), args)
        for x, y in zip(made.run((3,), args, rng.choice(ORDERS), blocks=1), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-8 * (1 + np.abs(y).max()), err_msg=f"seed {seed}")


def test_a_block_whose_heap_is_full():
    """All of its threads end, wherever one of them finds no memory, and the launcher gets an error."""
    seed = next(s for s in range(40) if grows(vjp(Program(s, steps=6).kernel(), [0], [2, 3]).kernel))
    kernel = vjp(Program(seed, steps=6).kernel(), range(len(Program.PARAMS)), [2, 3]).kernel
    made = PtxKernel(kernel, "flat checked")
    args = [np.random.default_rng(0).normal(size=(ROWS, COLUMNS)) for _ in made.kernel.params]
    made.run((3,), args, blocks=1)
    for size in (0, 3000):
        made.heap_size = size
        with pytest.raises(RuntimeError, match="heap has a place for"):
            made.run((3,), args, blocks=1)


PRODUCTS = [(float32, float32), (float16, float32), (bfloat16, float32), (float16, float16), (float64, float64)]


@pytest.mark.parametrize("types", PRODUCTS, ids=lambda types: "-".join(map(str, types)))
def test_products_that_fetch_ahead(types):
    """No iteration, one, and several, of a loop whose tiles have two places in turn."""
    type_, sums = types
    made = PtxKernel(product(type_, sums, 32, 16, 32, 64), "flat fast")
    assert ("mma.sync" in made.text) == (type_ is not float32)
    rng = np.random.default_rng(0)
    for depth in (0, 32, 96):
        a, b = (rng.normal(size=shape).astype(type_.dtype) for shape in ((64, depth), (depth, 48)))
        expected, counts = a.astype(float) @ b.astype(float), Counts()
        *_, c = made.run((2, 3), [a, b, np.full((64, 48), 7, sums.dtype)], counts=counts)
        digits = 1e-14 if type_ is float64 else 1e-5 if sums is float32 else 2e-3
        np.testing.assert_allclose(c.astype(float), expected, rtol=digits, atol=digits * (1 + depth))


def test_softmax():
    x = np.random.default_rng(1).normal(size=(3, 200)).astype(np.float32)
    *_, y = PtxKernel(softmax(200, 96), "flat fast").run((3,), [x, np.zeros_like(x)])
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


# ---- handwritten kernels


def test_handwritten_kernels():
    rng = np.random.default_rng(0)
    x, bias, k = rng.normal(size=(7, 5)).astype(np.float32), rng.normal(size=5).astype(np.float32), np.float32(1.5)
    (y,) = PtxHandwritten(powers_kernel()).run([35], [x, k, bias, 7, 5], [(7, 5)])
    np.testing.assert_allclose(y, x * x * k + bias, rtol=1e-6)
    adj_y = rng.normal(size=(7, 5)).astype(np.float32)
    for order in ORDERS:
        adjoint = PtxHandwritten(powers_adjoint_kernel())
        adj_x, adj_k, adj_bias = adjoint.run([35], [x, k, adj_y], [(7, 5), (1,), (5,)], order)
        np.testing.assert_allclose(adj_x, 2 * x * k * adj_y, rtol=1e-5)
        np.testing.assert_allclose(adj_k, (x * x * adj_y).sum(), rtol=1e-5)
        np.testing.assert_allclose(adj_bias, adj_y.sum(0), rtol=1e-5)
    start = rng.normal(size=9).astype(np.float32)
    (grown,) = PtxHandwritten(grow_kernel()).run([9], [np.arange(9.0), k, 9], [start])
    np.testing.assert_allclose(grown, k * start + np.arange(9.0), rtol=1e-6, atol=1e-6)
