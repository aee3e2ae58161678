"""The tile routines of the device library: right on the processor, and compiled for GPUs into what they should be."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from cuda_on_host import BACKWARD, FORWARD
from fuzz_profiles import ALL, each_value, in_turn
from tile_routines import BLOCKS, C_TYPES, FLOATS, INTEGERS, Family, Product, TileKernel, bfloat16, numbers

ORDERS = (FORWARD, BACKWARD, 3)
f16, f32, f64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
i8, i16, i32, i64, u8, u32 = (np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32))
LARGEST = {f16: 2.0**-11, bfloat16: 2.0**-8, f32: 2.0**-24, f64: 2.0**-53}  # relative error of one rounding


# Products


def padded(array: np.ndarray, more: int) -> np.ndarray:
    return np.pad(array, ((0, 0), (0, more)), constant_values=array.dtype.type(77))


def check_product(product: Product, kernel: TileKernel, random: np.random.Generator, order: int, whole: bool) -> None:
    """Against NumPy; `whole` numbers are small, so that sums are exact and there is one rounding, if any."""
    a, b, c = (
        random.integers(-7 if dtype != u8 else 0, 8, shape).astype(dtype) if whole else numbers(random, shape, dtype)
        for shape, dtype in (
            (product.a_shape, product.a), (product.b_shape, product.b), (product.extents[:2], product.c),
        )
    )  # fmt: skip
    given = [padded(x, product.padding) for x in (a, b, c)]
    after = kernel(*given, order=order)
    for k in range(2):
        assert after[k].tobytes() == given[k].tobytes(), "an operand has changed"
    columns = product.extents[1]
    assert np.all(after[2][:, columns:] == given[2][:, columns:])
    found = after[2][:, :columns]
    left, right = a.T if product.transposed[0] else a, b.T if product.transposed[1] else b
    if product.c in INTEGERS:
        wrapped = left.astype(product.c) @ right.astype(product.c) + (c if product.added else product.c.type(0))
        np.testing.assert_array_equal(found, wrapped)
        return
    left, right = left.astype(f64), right.astype(f64)
    start = c.astype(f64) if product.added else np.zeros(product.extents[:2])
    exact = left @ right + start
    if whole:
        np.testing.assert_array_equal(found, exact.astype(product.c))
        return
    sums = f64 if f64 in (product.a, product.b, product.c) else f32
    size = np.abs(left) @ np.abs(right) + np.abs(start)
    allowed = (product.extents[2] + 2) * LARGEST[sums] * size + LARGEST[product.c] * np.abs(exact)
    if product.tf32:
        allowed += 2.5 * 2.0**-11 * size
    assert np.all(np.abs(found.astype(f64) - exact) <= 2 * allowed)


TYPES = [
    (f32, f32, f32), (f64, f64, f64), (f16, f16, f16), (f16, f16, f32), (bfloat16, bfloat16, bfloat16),
    (bfloat16, bfloat16, f32), (f16, bfloat16, f32), (f32, f16, f32), (f32, f64, f64), (f16, f16, f64), (f32, f32, f16),
    (i8, i8, i8), (i8, i8, i32), (u8, i16, i32), (i32, i32, i32), (u32, u32, u32), (i64, i64, i64), (i32, i32, i64),
]  # fmt: skip
SHAPES = [
    (1, 1, 1), (1, 7, 3), (5, 1, 9), (3, 5, 7), (16, 8, 16), (17, 13, 19), (32, 32, 32), (24, 20, 12), (1, 64, 33),
    (64, 1, 16), (8, 4, 40), (33, 65, 2), (48, 40, 20),
]  # fmt: skip


def products() -> list[Product]:
    """Every type, every shape and every block, in a random choice of their combinations; with `ALL` of more of them."""
    random = np.random.default_rng(7)
    found = []
    for number, (types, _) in enumerate(itertools.product(TYPES, range(6 if ALL else 2))):
        shape, block = SHAPES[number % len(SHAPES)], BLOCKS[random.integers(len(BLOCKS))]
        transposed = (bool(random.integers(2)), bool(random.integers(2)))
        found.append(Product(*types, shape, transposed, bool(random.integers(2)), block, padding=number % 4 // 3 * 3))
    for types in ((f32, f32, f32), (f64, f64, f64), (i32, i32, i32)):
        for transposed in itertools.product((False, True), repeat=2):
            found.append(Product(*types, (40, 36, 24), transposed, transposed[0], 64))
    # By matrix instructions: one of them, warps with several or none, more sums than registers, rows with a padding.
    tensors = (
        (f16, f16, f16), (f16, f16, f32), (bfloat16, bfloat16, bfloat16), (bfloat16, bfloat16, f32), (f32, f32, f32),
        (f64, f64, f64), (f16, f16, bfloat16),
    )  # fmt: skip
    shapes = (
        ((16, 8, 16), 32), ((16, 8, 16), 256), ((16, 16, 32), 96), ((32, 24, 48), 64), ((48, 40, 16), 128),
        ((64, 64, 32), 128), ((80, 56, 16), 96), ((16, 8, 16), 40), ((160, 136, 16), 64),
        ((16, 272, 16), 32),
    )  # fmt: skip
    for number, (types, transposed) in enumerate(
        itertools.product(tensors, itertools.product((False, True), repeat=2))
    ):
        for shape, block in (shapes[number % len(shapes)], shapes[(2 * number + 3) % len(shapes)]):
            more = 16 // types[0].itemsize * (number % 3 // 2)
            found.append(Product(*types, shape, transposed, number % 2 == 0, block, types[0] == f32, more))
    # More sums than a thread has registers for.
    found += [Product(f32, f32, f32, (70, 50, 5), block=1), Product(f64, f64, f64, (130, 66, 4), block=32)]
    return found


PRODUCTS = products()


@pytest.fixture(scope="module")
def compiled_products() -> list[TileKernel]:
    family = Family()
    kernels = [family.add((p.a, p.b, p.c), p.block, p.call()) for p in PRODUCTS]
    family.compile()
    return kernels


@pytest.mark.parametrize("order", ORDERS)
def test_products(compiled_products, order):
    random = np.random.default_rng(order + 10)
    for number, (product, kernel) in enumerate(zip(PRODUCTS, compiled_products, strict=True)):
        if not in_turn(number, ORDERS.index(order), of=len(ORDERS)):
            continue
        for whole in (False, True):
            try:
                check_product(product, kernel, random, order, whole)
            except (AssertionError, RuntimeError) as error:
                raise AssertionError(f"{product}, whole numbers: {whole}") from error


# Reductions of a value of each thread

WIDE_BLOCKS = (*BLOCKS, 33, 1000, 1024)  # the last but one ends with a warp of few lanes, more warps than these
OPERATIONS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
BITWISE = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}


def operations_of(dtype: np.dtype) -> dict[str, np.ufunc]:
    return OPERATIONS if dtype in FLOATS else OPERATIONS | BITWISE


def some_blocks(number: int, count: int) -> list[int]:
    return [WIDE_BLOCKS[(4 * number + k) % len(WIDE_BLOCKS)] for k in range(count)]


REDUCED = [(t, block) for n, t in enumerate((*FLOATS, *INTEGERS, np.dtype(bool))) for block in some_blocks(n, 4)]


@pytest.fixture(scope="module")
def compiled_reductions() -> list[TileKernel]:
    family = Family()
    kernels = []
    for dtype, block in REDUCED:
        lines = [
            f"  b[{k * block} + threadIdx.x] = tile::block_reduce<tile::{op}, {block}>(a[threadIdx.x], c);"
            for k, op in enumerate(operations_of(dtype))
        ]
        kernels.append(family.add((dtype, dtype, dtype), block, "\n".join(lines)))
    family.compile()
    return kernels


@pytest.mark.parametrize("order", ORDERS)
def test_reductions(compiled_reductions, order):
    random = np.random.default_rng(order + 20)
    for (dtype, block), kernel in zip(REDUCED, compiled_reductions, strict=True):
        x = numbers(random, (block,), dtype)
        if dtype in FLOATS:
            x = (np.abs(x.astype(f64)) ** 0.02 * np.sign(x)).astype(dtype)  # whose product is within the range
        operations = operations_of(dtype)
        _, found, _ = kernel(
            x, np.zeros((len(operations), block), dtype), np.zeros(-(-block // 32), dtype), order=order
        )
        for row, (name, ufunc) in zip(found, operations.items(), strict=True):
            label = f"{name} of {dtype}, block {block}"
            assert np.all(row == row[0]), label
            if dtype in FLOATS and name in ("add", "mul"):
                exact = ufunc.reduce(x.astype(f64))
                size = np.abs(x.astype(f64)).sum() if name == "add" else abs(exact)
                assert abs(float(row[0]) - exact) <= 2 * (np.log2(block) + 1 + (block if name == "mul" else 0)) * (
                    LARGEST[dtype] * size
                ), label
            else:
                exact = ufunc.reduce(x, dtype=dtype)
                assert row[0] == exact, label


@pytest.mark.parametrize("order", ORDERS)
def test_extrema_of_what_is_no_number(compiled_reductions, order):
    """Numbers win over NaN, and -0 is below 0."""
    random = np.random.default_rng(order + 30)
    for (dtype, block), kernel in zip(REDUCED, compiled_reductions, strict=True):
        if dtype not in FLOATS:
            continue
        nan = np.full(block, np.nan)
        for value, others in ((1.5, nan), (np.nan, nan), (-0.0, np.zeros(block)), (0.0, -np.zeros(block))):
            x = others.astype(dtype)
            x[random.integers(block)] = value
            result = kernel(x, np.zeros((4, block), dtype), np.zeros(-(-block // 32), dtype), order=order)[1]
            least, greatest = result[2:4].astype(f64)
            if others is nan:
                np.testing.assert_array_equal(result[2:4].astype(f64), np.full((2, *least.shape), value))
            else:
                assert np.all(least == 0) and np.all(np.signbit(least) == np.signbit(x).any())
                assert np.all(greatest == 0) and np.all(np.signbit(greatest) == np.signbit(x).all())


@pytest.fixture(scope="module")
def compiled_votes() -> dict[int, TileKernel]:
    family = Family()
    body = "  b[2 * threadIdx.x] = tile::block_any<{0}>(a[threadIdx.x]);\n"
    body += "  b[2 * threadIdx.x + 1] = tile::block_all<{0}>(a[threadIdx.x]);"
    kernels = {block: family.add((np.dtype(bool), np.dtype(bool)), block, body.format(block)) for block in WIDE_BLOCKS}
    family.compile()
    return kernels


@pytest.mark.parametrize("order", ORDERS)
def test_votes(compiled_votes, order):
    random = np.random.default_rng(order + 40)
    for block, kernel in compiled_votes.items():
        for x in (np.zeros(block, bool), np.ones(block, bool), random.random(block) < 0.5):
            for flipped in (False, True):
                x[random.integers(block)] ^= flipped
                _, found = kernel(x, np.zeros((block, 2), bool), order=order)
                assert np.all(found == [x.any(), x.all()])


# Positions of extrema

LOCATED = [(t, block) for n, t in enumerate((*FLOATS, *INTEGERS)) for block in some_blocks(n, 3)]


@pytest.fixture(scope="module")
def compiled_positions() -> list[TileKernel]:
    """Each thread has the element of its number in a permutation, or none."""
    family = Family()
    kernels = []
    for dtype, block in LOCATED:
        lines = ["  const int number = d[threadIdx.x];"]
        for k, op in enumerate(("min", "max")):
            absent = f"tile::identity<tile::{op}, {C_TYPES[dtype]}>()"
            value = f"number == tile::no_number ? {absent} : a[number]"
            call = f"tile::block_arg_reduce<tile::{op}, {block}>({value}, number, e, f)"
            lines += [f"  const auto found{k} = {call};"]
            lines += [f"  b[{k * block} + threadIdx.x] = found{k}.value;"]
            lines += [f"  c[{k * block} + threadIdx.x] = found{k}.number;"]
        kernels.append(family.add((dtype, dtype, i32, i32, dtype, i32), block, "\n".join(lines)))
    family.compile()
    return kernels


@pytest.mark.parametrize("order, kind", each_value(ORDERS, ["random", "equal", "few values", "NaN", "infinite"]))
def test_positions_of_extrema(compiled_positions, order, kind):
    random = np.random.default_rng(order + 50)
    for (dtype, block), kernel in zip(LOCATED, compiled_positions, strict=True):
        count = int(random.integers(1, block + 1))
        x = numbers(random, (count,), dtype) if kind in ("random", "NaN") else np.full(count, 3, dtype)
        if kind == "few values":
            x = random.integers(0, 3, count).astype(dtype) * dtype.type(0 if random.random() < 0.2 else 1)
        if dtype in FLOATS and kind == "NaN":
            x[random.integers(0, count, 2)] = np.nan
        if dtype in FLOATS and kind == "infinite":
            x[:] = random.choice([-np.inf, np.inf])
        order_of_threads = np.full(block, 2**31 - 1, np.int32)
        order_of_threads[random.permutation(block)[:count]] = random.permutation(count)
        warps = -(-block // 32)
        given = (x, np.zeros((2, block), dtype), np.zeros((2, block), np.int32), order_of_threads)
        after = kernel(*given, np.zeros(warps, dtype), np.zeros(warps, np.int32), order=order)
        for row, (values, positions) in enumerate(zip(after[1], after[2], strict=True)):
            numbered = x.astype(f64) if dtype in FLOATS else x
            if dtype in FLOATS and not np.isnan(numbered).all():
                numbered[np.isnan(numbered)] = (np.inf, -np.inf)[row]
            expected = (np.argmin, np.argmax)[row](numbered)
            assert np.all(positions == expected), (dtype, block, row)
            assert np.all(values.view(f"u{dtype.itemsize}") == x[expected].view(f"u{dtype.itemsize}"))


# Scans

SCANNED = [
    (dtype, block, op, exclusive, reverse)
    for n, (dtype, op, exclusive) in enumerate(
        itertools.product((f16, bfloat16, f32, f64, i8, i32, i64, u32), ("add", "min", "max"), (False, True))
    )
    for block in some_blocks(n, 1)
    for reverse in (False, True)
    if in_turn(n // 2, n % 2, reverse, of=2)
]


@pytest.fixture(scope="module")
def compiled_scans() -> list[TileKernel]:
    family = Family()
    kernels = []
    for dtype, block, op, exclusive, reverse in SCANNED:
        flags = f"{int(exclusive)}, {int(reverse)}"
        body = f"  tile::block_scan<tile::{op}, {block}, {flags}>(a, int(args.symbols[0]), b);"
        kernels.append(family.add((dtype, dtype), block, body))
    family.compile()
    return kernels


def scanned(x: np.ndarray, op: str, exclusive: bool) -> np.ndarray:
    """One element after the other, as it is defined."""
    if x.dtype in FLOATS:
        least = greatest = np.nan
    else:
        least, greatest = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    first = np.array([{"add": 0, "min": greatest, "max": least}[op]], x.dtype)
    operation = {"min": np.fmin, "max": np.fmax}.get(op, OPERATIONS[op])
    result = operation.accumulate(np.concatenate([first, x]), dtype=x.dtype if x.dtype not in FLOATS else f64)
    return result[:-1] if exclusive else result[1:]


SIZES = (0, 1, 2, 31, 32, 33, 63, 100, 257, 1025)


@pytest.mark.parametrize("order, size", [(ORDERS[k % len(ORDERS)], size) for k, size in enumerate(SIZES)])
def test_scans(compiled_scans, order, size):
    random = np.random.default_rng(order + 60 + size)
    for (dtype, block, op, exclusive, reverse), kernel in zip(SCANNED, compiled_scans, strict=True):
        x = numbers(random, (size,), dtype)
        found = kernel(x, np.zeros(-(-block // 32), dtype), symbols=(size,), order=order)[0]
        exact = scanned(x[::-1] if reverse else x, op, exclusive)
        exact = exact[::-1] if reverse else exact
        if dtype in FLOATS and op == "add":
            allowed = 2 * LARGEST[dtype] * np.sqrt(size + 1) * np.abs(x.astype(f64)).sum()
            assert np.all(np.abs(found.astype(f64) - exact) <= allowed), (dtype, block, op)
        else:
            wide = f64 if dtype in FLOATS else dtype
            np.testing.assert_array_equal(found.astype(wide), exact.astype(wide), err_msg=f"{dtype} {block} {op}")


# Copies


@dataclass(frozen=True)
class Copied:
    """A tile that is copied from rows `stride` elements apart, to rows `target` apart."""

    dtype: np.dtype
    rows: int
    columns: int
    block: int
    target: int
    stride: int
    shift: int = 0  # elements before the tile


COPIED = [
    Copied(dtype, rows, columns, BLOCKS[(n + k) % len(BLOCKS)], target, stride, shift)
    for n, dtype in enumerate((i8, f16, f32, f64))
    for k, (rows, columns, target, stride, shift) in enumerate(
        (
            (8, 32, 32, 64, 0), (8, 32, 48, 32, 0), (5, 7, 7, 9, 0), (3, 20, 24, 28, 0), (4, 16, 16, 16, 1),
            (1, 33, 33, 33, 0), (1, 64, 64, 64, 16), (6, 6, 6, 8, 2), (1, 1, 1, 1, 0),
        )
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def compiled_copies() -> list[TileKernel]:
    """All tiles but the first are fetched while the one before is used."""
    family = Family()
    kernels = []
    for tile in COPIED:
        name, size = C_TYPES[tile.dtype], tile.rows * tile.target
        if tile.rows == 1:
            fetch = f"tile::copy_async<{tile.columns * tile.dtype.itemsize}, {tile.block}>(to, from);"
        else:
            fetch = f"tile::copy_2d_async<{name}, {tile.rows}, {tile.columns}, {tile.block}, {tile.target}>"
            fetch += f"(to, from, {tile.stride});"
        body = f"""
  __shared__ __align__(16) {name} buffers[2][{size}];
  const int count = int(args.symbols[0]);
  const auto fetch = [&](int number) {{
    {name}* to = buffers[number % 2];
    const {name}* from = a + {tile.shift} + number * {tile.rows * tile.stride};
    {fetch}
    tile::commit_async();
  }};
  fetch(0);
  for (int number = 0; number < count; ++number) {{
    if (number + 1 < count) {{
      fetch(number + 1);
      tile::wait_async<1>();
    }} else {{
      tile::wait_async();
    }}
    for (int at = threadIdx.x; at < {tile.rows * tile.columns}; at += {tile.block}) {{
      const int row = at / {tile.columns}, column = at % {tile.columns};
      b[number * {tile.rows * tile.columns} + at] = buffers[number % 2][row * {tile.target} + column];
    }}
    __syncthreads();
  }}"""
        kernels.append(family.add((tile.dtype, tile.dtype), tile.block, body))
    family.compile()
    return kernels


@pytest.mark.parametrize("order", ORDERS)
def test_copies(compiled_copies, order):
    random = np.random.default_rng(order + 65)
    for tile, kernel in zip(COPIED, compiled_copies, strict=True):
        for count in (1, 2, 5):
            x = numbers(random, (tile.shift + count * tile.rows * tile.stride,), tile.dtype)
            exact = x[tile.shift :].reshape(count, tile.rows, tile.stride)[:, :, : tile.columns]
            found = kernel(x, np.zeros(exact.shape, tile.dtype), symbols=(count,), order=order)[1]
            np.testing.assert_array_equal(found, exact, err_msg=str(tile))


def test_what_is_not_waited_for_is_not_there():
    """The stand-in brings a copy when it is waited for, and poisons its place before."""
    family = Family()
    body = """
  __shared__ __align__(16) float buffer[32];
  tile::copy_async<128, 32>(buffer, a);
  WAIT
  b[threadIdx.x] = buffer[threadIdx.x];
  __syncthreads();
  tile::wait_async();"""
    waits = ("__syncthreads();", "tile::wait_async<1>();", "tile::commit_async(); tile::wait_async();")
    kernels = [family.add((f32, f32), 32, body.replace("WAIT", wait)) for wait in waits]
    family.compile()
    x = np.random.default_rng(66).normal(size=32).astype(f32)
    there = [np.array_equal(kernel(x, np.zeros(32, f32))[1], x) for kernel in kernels]
    assert there == [False, False, True]


# Factors and solves

SIZES = (1, 2, 3, 7, 16, 31, 32, 33, 40)
FACTORED = [
    (dtype, n, BLOCKS[(k + j) % len(BLOCKS)]) for j, dtype in enumerate((f32, f64)) for k, n in enumerate(SIZES)
]
FACTORED += [(f32, 33, 256), (f64, 24, 96), (f32, 12, 1000)]


@pytest.fixture(scope="module")
def compiled_factors() -> list[TileKernel]:
    family = Family()
    kernels = [family.add((t,), block, f"  tile::cholesky<{C_TYPES[t]}, {n}, {block}>(a);") for t, n, block in FACTORED]
    family.compile()
    return kernels


@pytest.mark.parametrize("order", ORDERS)
def test_cholesky(compiled_factors, order):
    random = np.random.default_rng(order + 70)
    for (dtype, n, block), kernel in zip(FACTORED, compiled_factors, strict=True):
        half = random.normal(size=(n, n))
        a = (half @ half.T + 0.5 * n * np.eye(n)).astype(dtype)
        exact = np.linalg.cholesky(a.astype(f64))
        a[np.triu_indices(n, 1)] = np.nan  # nobody reads it
        (found,) = kernel(a, order=order)
        assert np.all(found[np.triu_indices(n, 1)] == 0)
        scale = np.abs(exact).max()
        np.testing.assert_allclose(found, exact, rtol=0, atol=8 * n * LARGEST[dtype] * scale, err_msg=f"{n} {block}")


def test_what_has_no_factor(compiled_factors):
    """NaN from the column on where the matrix is found not to be positive definite."""
    random = np.random.default_rng(80)
    for (dtype, n, _), kernel in zip(FACTORED, compiled_factors, strict=True):
        column = int(random.integers(n))
        a = (np.eye(n) * 4 + 0.1 * random.random((n, n))).astype(dtype)
        a[column, column] = -1
        (found,) = kernel(a)
        on = np.tril(np.ones((n, n), bool)) & (np.arange(n) >= column)
        assert np.isnan(found[on]).all() and not np.isnan(found[~on]).any()


SOLVED = [
    (dtype, n, SOLVED_R, lower, transposed, block)
    for k, (dtype, lower, transposed, n) in enumerate(
        itertools.product((f32, f64), (True, False), (False, True), (1, 2, 5, 16, 33))
    )
    for SOLVED_R, block in (((1, 3, 8, 40, 100)[k % 5], BLOCKS[k % 6]), ((7, 1, 64, 2)[k % 4], BLOCKS[(k + 3) % 6]))
]


@pytest.fixture(scope="module")
def compiled_solves() -> list[TileKernel]:
    family = Family()
    kernels = []
    for dtype, n, r, lower, transposed, block in SOLVED:
        flags = f"{int(lower)}, {int(transposed)}, {block}"
        kernels.append(
            family.add((dtype, dtype), block, f"  tile::tri_solve<{C_TYPES[dtype]}, {n}, {r}, {flags}>(a, b);")
        )
    family.compile()
    return kernels


@pytest.mark.parametrize("order", ORDERS)
def test_triangular_solves(compiled_solves, order):
    random = np.random.default_rng(order + 90)
    for (dtype, n, r, lower, transposed, block), kernel in zip(SOLVED, compiled_solves, strict=True):
        whole = random.normal(size=(n, n)) / n + 2 * np.eye(n)
        factor = (np.tril(whole) if lower else np.triu(whole)).astype(dtype)
        given = np.where(factor != 0, factor, np.nan).astype(dtype)  # nobody reads the other triangle
        b = random.normal(size=(n, r)).astype(dtype)
        after = kernel(given, b, order=order)
        matrix = (factor.T if transposed else factor).astype(f64)
        exact = np.linalg.solve(matrix, b.astype(f64))
        np.testing.assert_allclose(
            after[1], exact, rtol=0, atol=8 * (n + 2) * LARGEST[dtype] * np.abs(exact).max(), err_msg=f"{n} {r} {block}"
        )
        assert after[0].tobytes() == given.tobytes()


# What may be done at once after a routine

ENDINGS = {
    "product": "tile::gemm<float, float, float, 12, 12, 12, 0, 0, 0, 64>(a, b, c);",
    "product of halves": "tile::gemm<jw_half, jw_half, float, 16, 16, 16, 0, 0, 0, 64>((jw_half*)a, (jw_half*)b, c);",
    "product of doubles": "tile::gemm<double, double, float, 8, 8, 8, 0, 0, 0, 64>((double*)a, (double*)b, c);",
    "scan": "tile::block_scan<tile::add, 64, false>(c, 144, a);",
    "factor": "tile::cholesky<float, 12, 64>(c);",
    "solve": "tile::tri_solve<float, 12, 12, true, false, 64>(a, c);",
    "solve of many columns": "tile::tri_solve<float, 3, 48, true, false, 64>(a, c);",
}


@pytest.fixture(scope="module")
def compiled_endings() -> dict[str, TileKernel]:
    """Threads read what others have made, and overwrite operands that others have read."""
    family = Family()
    after = "for (int k = threadIdx.x; k < 256; k += 64) { d[k] = c[255 - k]; a[k] = b[k] = -1; }"
    kernels = {name: family.add((f32,) * 4, 64, f"  {call}\n  {after}") for name, call in ENDINGS.items()}
    family.compile()
    return kernels


@pytest.mark.parametrize("order", [*ORDERS, 17])
@pytest.mark.parametrize("name", ENDINGS)
def test_routines_end_with_a_barrier(compiled_endings, name, order):
    random = np.random.default_rng(100)
    kernel = compiled_endings[name]
    given = [random.normal(size=256).astype(f32) for _ in range(3)]
    if name == "factor":
        x = random.normal(size=(12, 12))
        given[2][:144] = (x @ x.T + 12 * np.eye(12)).ravel()
    if name == "product of halves":
        given[:2] = [x.astype(f16).repeat(2).view(f32) for x in given[:2]]
    if name == "product of doubles":
        given[:2] = [x[:128].astype(f64).view(f32) for x in given[:2]]
    exact = kernel(*given, np.zeros(256, f32), order=FORWARD)[2]
    found = kernel(*given, np.zeros(256, f32), order=order)
    assert np.isfinite(exact).all()
    np.testing.assert_array_equal(found[2], exact)
    np.testing.assert_array_equal(found[3], exact[::-1])
    assert np.all(found[0] == -1) and np.all(found[1] == -1)


@pytest.mark.parametrize("order", [*ORDERS, 17])
def test_scratches_are_free_after_a_reduction(order):
    family = Family()
    free = "  b[0] = b[1] = -1; c[0] = c[1] = -1;"
    call = "tile::block_reduce<tile::add, 33>(a[threadIdx.x], b)"
    total = family.add((f32, f32, i32), 33, f"  a[threadIdx.x] = {call};\n{free}")
    call = "tile::block_arg_reduce<tile::max, 64>(a[threadIdx.x], int(threadIdx.x), b, c)"
    position = family.add((f32, f32, i32), 64, f"  a[threadIdx.x] = {call}.number;\n{free}")
    family.compile()
    x = np.random.default_rng(101).normal(size=64).astype(f32)
    scratches = (np.zeros(2, f32), np.zeros(2, np.int32))
    np.testing.assert_allclose(total(x[:33], *scratches, order=order)[0], x[:33].sum(), rtol=1e-5)
    assert np.all(position(x, *scratches, order=order)[0] == x.argmax())
