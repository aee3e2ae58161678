"""Large launches on a GPU beside Warp, XLA and a copy of memory: bandwidth, arithmetic, and what gradients cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import kernels
from gpu_cases import (
    Case,
    Effort,
    Row,
    Way,
    interleave,
    load_by_warp,
    ratios,
    to_warp,
    wait_for_warp,
    warp,
    warp_device,
)
from kernels import POLAR_STEPS, SOFTENING
from kernels_xla import mandelbrot as mandelbrot_by_xla
from timing import Time

import jwarp

JWARP = kernels.define(jwarp, enable_backward=True)
FLOPS_OF_A_PAIR = 20  # as is usual for one body's pull on another
Measure = Callable[[], Row]


def of_warp(effort: Effort) -> Any:
    """The kernels by Warp, each in a module of its own, so that compiling one is timed; None where Warp is not."""
    if warp is None:
        return None
    # On the CPU modules of their own take a minute.
    return kernels.define(warp, enable_backward=True, **({} if effort.dry else {"module": "unique"}))


def random(seed: int, *shape: int) -> jax.Array:
    return jax.random.uniform(jax.random.key(seed), shape)


# -- bandwidth


def bandwidth(effort: Effort) -> Iterator[tuple[str, Measure]]:
    """Kernels that wait for memory, as parts of what a copy moves."""
    theirs, copied = of_warp(effort), [0.0]
    n = effort.size(1 << 26, 1 << 12)
    x, y = random(0, n), random(1, n)

    def copy() -> Row:
        case = Case("copy", effort)
        case.add_jax("jnp.copy", jnp.copy, (x,), (y,))
        case.add_jax("XLA, x + 1", lambda x: x + 1, (x,), (y,))
        times = interleave(case.ways, effort)
        copied[0] = max(2 * x.nbytes / t.median for t in times.values())
        return Row(f"copy of {size(x.nbytes)}", times, rates(times, 2 * x.nbytes), {"bytes/s": copied[0]})

    def row(case: Case, moved: int) -> Row:
        times = case.measure()
        facts = [*rates(times, moved, copied[0]), *ratios(times), *case.failed]
        return Row(case.name, times, tuple(facts), {"bytes": moved, "copy bytes/s": copied[0]})

    def saxpy() -> Row:
        case = Case(f"saxpy of {n} floats", effort)
        case.add_jax("jwarp", lambda x, y: jwarp.launch(JWARP.saxpy, n, [x, y, 0.5], [n])[0], (x, y), (y, x))
        in_place = lambda x, y: jwarp.launch(JWARP.saxpy_in_place, n, [x, 0.5], [y])[0]  # noqa: E731
        case.guarded("jwarp, in place", case.add_donated, "jwarp, in place", in_place, x, y)
        if theirs:
            case.guarded("Warp", case.add_warp, theirs.saxpy, n, [[x, y, 0.5], [y, x, 0.5]], [(n, float)])
        case.add_jax("XLA", lambda x, y: 0.5 * x + y, (x, y), (y, x))
        case.add_donated("XLA, in place", lambda x, y: 0.5 * x + y, x, y)
        return row(case, 3 * x.nbytes)

    def stencil_row(side: int) -> Row:
        side = effort.size(side, side // 32)
        sets = [random(k, side, side, side) for k in range(3 if side <= 256 else 1)]
        case = Case(f"7-point stencil, {side}^3", effort, atol=1e-3)
        case.add_jax("jwarp", stencil, *((a,) for a in sets))
        if theirs:
            shape = sets[0].shape
            case.guarded("Warp", case.add_warp, theirs.laplace, shape, [[a, side] for a in sets], [(shape, float)])
        case.add_jax("XLA", stencil_by_xla, *((a,) for a in sets))
        return row(case, 2 * sets[0].nbytes)

    def normals() -> Row:
        m = effort.size(1 << 24, 1 << 10)
        a, b = random(2, m, 3) - 0.5, random(3, m, 3) - 0.5
        case = Case(f"normalise and cross {m} vec3", effort, rtol=1e-2, atol=1e-3)
        case.add_jax("jwarp", lambda a, b: jwarp.launch(JWARP.normals, m, [a, b], [m])[0], (a, b))
        if theirs:
            vec3 = {0: warp.vec3, 1: warp.vec3}
            case.guarded("Warp", case.add_warp, theirs.normals, m, [[a, b]], [(m, warp.vec3)], vec3)
        case.add_jax("XLA", normals_by_xla, (a, b))
        return row(case, 3 * a.nbytes)

    def polar_row() -> Row:
        m = effort.size(1 << 22, 1 << 8)
        a = matrices(m)
        case = Case(f"polar decomposition of {m} mat33", effort, rtol=1e-2, atol=1e-2, differing=1e-4)
        case.add_jax("jwarp", polar, (a,))
        if theirs:
            case.guarded("Warp", case.add_warp, theirs.polar, m, [[a]], [(m, warp.mat33)], {0: warp.mat33})
        case.add_jax("XLA", polar_by_xla, (a,))
        return row(case, 2 * a.nbytes)

    def scatter(bins: int) -> Row:
        m = effort.size(1 << 24, 1 << 12)
        x, places = random(4, m), jax.random.randint(jax.random.key(5), (m,), 0, bins, jnp.int32)
        # One float32 cannot hold the sum of one bin to more digits, in any order.
        case = Case(f"scatter-add of {m} into {bins:,}", effort, rtol=0.01, atol=1e-2)
        case.add_jax("jwarp", lambda x, places: jwarp.launch(JWARP.scatter, m, [x, places], [bins])[0], (x, places))
        if theirs:
            case.guarded("Warp", case.add_warp, theirs.scatter, m, [[x, places]], [(bins, float)], zeroed=True)
        case.add_jax("XLA", lambda x, places: jnp.zeros(bins, jnp.float32).at[places].add(x), (x, places))
        return row(case, x.nbytes + places.nbytes + 4 * bins)

    yield from (("copy", copy), ("saxpy", saxpy))
    yield from ((f"stencil {side}^3", partial(stencil_row, side)) for side in (256, 512))
    yield from (("normals", normals), ("polar", polar_row))
    yield from ((f"scatter {bins}", partial(scatter, bins)) for bins in (1, 1024, 10**6))


def rates(times: dict[str, Time], moved: int, copied: float = 0.0) -> tuple[str, ...]:
    made = []
    for who, taken in times.items():
        rate = moved / taken.median
        made.append(f"{who} {rate / 1e9:.0f} GB/s" + (f" ({rate / copied:.2f} of a copy)" if copied else ""))
    return tuple(made)


def size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


# -- arithmetic


def arithmetic(effort: Effort) -> Iterator[tuple[str, Measure]]:
    """Kernels that compute."""
    theirs = of_warp(effort)

    def nbody(count: int) -> Row:
        n = effort.size(count, count >> 8)
        bodies = [random(k, n) for k in range(4)]
        case = Case(f"n-body of {n}", effort, rtol=2e-3, atol=0.1)
        case.add_jax("jwarp", attract, tuple(bodies))
        case.add_jax("jwarp fast_math", fast(attract), tuple(bodies))
        if theirs:
            case.guarded("Warp", case.add_warp, theirs.attract, n, [[*bodies, n]], [(n, float)] * 3)
        case.guarded("XLA", case.add_jax, "XLA", attract_by_xla, tuple(bodies))
        return flops_row(case, FLOPS_OF_A_PAIR * n * n)

    def mandelbrot() -> Row:
        side = effort.size(4096, 32)
        # Roundings differ, and the set's edge is chaotic.
        case = Case(f"Mandelbrot, {side}^2", effort, rtol=0.0, atol=0.5, differing=0.01)
        case.add_jax("jwarp", lambda: jwarp.launch(JWARP.mandelbrot, (side, side), [side], [(side, side)])[0], ())
        if theirs:
            case.guarded("Warp", case.add_warp, theirs.mandelbrot, (side, side), [[side]], [((side, side), int)])
        case.add_jax("XLA", lambda: mandelbrot_by_xla(side), ())
        times = case.measure()
        return Row(case.name, times, (*ratios(times), *case.failed))

    yield from ((f"n-body {count}", partial(nbody, count)) for count in (1 << 14, 1 << 16))
    yield "mandelbrot", mandelbrot


def flops_row(case: Case, flops: float) -> Row:
    times = case.measure()
    speeds = [f"{who} {flops / t.median / 1e12:.2f} TFLOP/s" for who, t in times.items()]
    return Row(case.name, times, (*speeds, *ratios(times), *case.failed), {"flops": flops})


# -- gradients


def gradients(effort: Effort) -> Iterator[tuple[str, Measure]]:
    """Adjoints alone, beside the launches that they are adjoints of."""
    theirs = of_warp(effort)
    n = effort.size(1 << 26, 1 << 12)

    def saxpy(x: jax.Array, y: jax.Array) -> jax.Array:
        return jwarp.launch(JWARP.saxpy, x.shape[0], [x, y, 0.5], [x.shape[0]])[0]

    def row(
        name: str, function: Any, by_xla: Any, args: tuple[jax.Array, ...], kernel: str, dim: Any,
        numbers: tuple[Any, ...] = (), dtype: Any = None, by_warp: bool = True, **tolerance: float,
    ) -> Row:  # fmt: skip
        cotangents = [
            random(10 + k, *x.shape).astype(x.dtype)
            for k, x in enumerate(jax.tree.leaves(jax.eval_shape(function, *args)))
        ]
        case = Case(name, effort, **tolerance)
        case.add_jax("jwarp", adjoint_of(function), (args, cotangents))
        if theirs and by_warp:
            case.guarded(
                "Warp", add_adjoint_of_warp, case, getattr(theirs, kernel), dim, args, numbers, cotangents, dtype
            )
        if by_xla:
            case.guarded("XLA", case.add_jax, "XLA", adjoint_of(by_xla), (args, cotangents))
        # What follows computes other things, and is not compared.
        case.check()
        forward = Case(name, effort)
        forward.add_jax("jwarp, forward", function, args)
        if theirs and "Warp" in case.ways:
            outputs = [(c.shape[: -len(dtype._shape_)] if dtype else c.shape, dtype or float) for c in cotangents]
            types = dict.fromkeys(range(len(args)), dtype) if dtype else None
            given = [[*args, *numbers]]
            forward.guarded("Warp, forward", forward.add_warp, getattr(theirs, kernel), dim, given, outputs, types)
            forward.rename("Warp", "Warp, forward")
        if "XLA" in case.ways:
            forward.add_jax("XLA, forward", by_xla, args)
        case.ways |= forward.ways
        times = interleave(case.ways, effort)
        costs = [
            f"{who}: {times[who].median / times[f'{who}, forward'].median:.2f} of its forward time"
            for who in times
            if f"{who}, forward" in times
        ]
        compared = ratios({who: t for who, t in times.items() if "forward" not in who})
        return Row(name, times, (*costs, *compared, *case.failed, *forward.failed))

    def saxpy_row() -> Row:
        args = random(0, n), random(1, n)
        return row(f"adjoint of saxpy, {n}", saxpy, lambda x, y: 0.5 * x + y, args, "saxpy", n, (0.5,))

    def stencil_row() -> Row:
        side = effort.size(512, 16)
        args, dim = (random(2, side, side, side),), (side, side, side)
        return row(
            f"adjoint of the stencil, {side}^3", stencil, stencil_by_xla, args, "laplace", dim, (side,), atol=1e-2
        )

    def polar_row() -> Row:
        m = effort.size(1 << 20, 1 << 6)
        tolerance = {"rtol": 2e-2, "atol": 2e-2, "differing": 1e-2}
        dtype = warp.mat33 if warp else None
        name = f"adjoint of polar, {m} mat33"
        return row(name, polar, polar_by_xla, (matrices(m),), "polar", m, dtype=dtype, **tolerance)

    def nbody(count: int) -> Row:
        # Warp's adjoint makes an atomic addition for each pair: the large one would take too long.
        m = effort.size(count, count >> 8)
        tolerance = {"rtol": 1e-2, "atol": 1.0, "differing": 1e-3}
        args = tuple(random(k, m) for k in range(4))
        name = f"adjoint of n-body, {m}"
        return row(name, attract, None, args, "attract", m, (m,), by_warp=count < 1 << 16, **tolerance)

    yield from (("saxpy", saxpy_row), ("stencil", stencil_row), ("polar", polar_row))
    yield from ((f"n-body {count}", partial(nbody, count)) for count in (1 << 14, 1 << 16))


def adjoint_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients by all arguments, from cotangents of the results; without the results."""

    def adjoint(args: tuple[jax.Array, ...], cotangents: list[jax.Array]) -> Any:
        results, pull_back = jax.vjp(function, *args)
        return pull_back(jax.tree.unflatten(jax.tree.structure(results), cotangents))

    return adjoint


def add_adjoint_of_warp(
    case: Case, kernel: Any, dim: Any, args: tuple[jax.Array, ...], numbers: tuple[Any, ...],
    cotangents: list[jax.Array], dtype: Any,
) -> None:  # fmt: skip
    """Warp's adjoint launch, which adds to gradients that exist, and nothing is set to zero between."""
    load_by_warp(kernel)
    given = [to_warp(x, dtype) for x in args]
    seeds = [to_warp(c, dtype) for c in cotangents]
    written = [warp.zeros_like(c) for c in seeds]
    slopes = [warp.zeros_like(x) for x in given]

    def call(_: int) -> None:
        warp.launch(
            kernel, dim=dim, inputs=[*given, *numbers], outputs=written, adj_inputs=[*slopes, *[None] * len(numbers)],
            adj_outputs=seeds, adjoint=True, device=warp_device(),
        )  # fmt: skip

    def results() -> list[jax.Array]:
        for slope in slopes:
            slope.zero_()
        call(0)
        wait_for_warp()
        return [jnp.copy(warp.to_jax(slope)) for slope in slopes]

    case.ways["Warp"] = Way(call, wait_for_warp, results)


# -- the computations, by jwarp and by jax.numpy


def fast(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with jwarp.config(fast_math=True):
            return function(*args)

    return run


def stencil(a: jax.Array) -> jax.Array:
    return jwarp.launch(JWARP.laplace, a.shape, [a, a.shape[0]], [a.shape])[0]


def stencil_by_xla(a: jax.Array) -> jax.Array:
    inner = slice(1, -1)
    total = -6.0 * a[inner, inner, inner]
    for axis in range(3):
        for shifted in (slice(0, -2), slice(2, None)):
            total += a[tuple(shifted if axis == other else inner for other in range(3))]
    return jnp.pad(total, 1)


def normals_by_xla(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.cross(*(v / jnp.linalg.norm(v, axis=1, keepdims=True) for v in (a, b)))


def matrices(count: int) -> jax.Array:
    """Near rotations, as singular ones would show roundings."""
    return jnp.eye(3) + 0.2 * jax.random.normal(jax.random.key(6), (count, 3, 3))


def polar(a: jax.Array) -> jax.Array:
    return jwarp.launch(JWARP.polar, a.shape[0], [a], [a.shape[0]])[0]


def polar_by_xla(a: jax.Array) -> jax.Array:
    """The transposed inverse by cross products of rows, since `jnp.linalg.inv` calls a library for each matrix."""

    def step(_: Any, rows: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        p, q, r = rows
        cofactors = jnp.cross(q, r), jnp.cross(r, p), jnp.cross(p, q)
        determinant = jnp.sum(p * cofactors[0], 1, keepdims=True)
        return tuple(0.5 * (x + c / determinant) for x, c in zip(rows, cofactors, strict=True))

    rows = (a[:, 0], a[:, 1], a[:, 2])
    for k in range(POLAR_STEPS):
        rows = step(k, rows)
    return jnp.stack(rows, 1)


def attract(x: jax.Array, y: jax.Array, z: jax.Array, mass: jax.Array) -> list[jax.Array]:
    n = x.shape[0]
    return jwarp.launch(JWARP.attract, n, [x, y, z, mass, n], [n] * 3)


def attract_by_xla(x: jax.Array, y: jax.Array, z: jax.Array, mass: jax.Array) -> list[jax.Array]:
    dx, dy, dz = (v[None, :] - v[:, None] for v in (x, y, z))
    inverse = jax.lax.rsqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
    pull = inverse * inverse * inverse * mass
    return [jnp.sum(d * pull, 1) for d in (dx, dy, dz)]
