"""Large launches, against Warp, numba, XLA and NumPy: in place, and with new arrays each time.

In place, jwarp replays a record on NumPy arrays, and Warp and numba launch on arrays made before. With new arrays,
jwarp and XLA run as jitted functions, and Warp and numba are given empty ones. jwarp runs in its safe mode and with
`fast_math`, numba with `fastmath`. Each contender's result is compared with that of the others before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import kernels_xla
import numpy as np
from contenders import JWARP, WARP, jwarp, numba_kernels, warp
from figures import Figure, Target, faster
from kernels import HEAVY_STEPS, POLAR_STEPS, SOFTENING
from timing import Run, Time, interleave

from jwarp import _native


def nearly_equal(got: np.ndarray, want: np.ndarray) -> bool:
    return np.allclose(got, want, rtol=1e-3, atol=1e-3)


@dataclass
class Case:
    """One computation by several contenders; each `runs` entry computes, each `results` entry shows what."""

    name: str
    runs: dict[str, Run] = field(default_factory=dict)
    results: dict[str, Callable[[], list[np.ndarray]]] = field(default_factory=dict)
    agree: Callable[[np.ndarray, np.ndarray], bool] = nearly_equal
    targets: Callable[[dict[str, Time]], tuple[Target, ...]] = lambda times: ()
    note: str = ""

    def add_jax(self, name: str, function: Callable[..., Any], *args: Any) -> None:
        """A jitted function; its results are new arrays."""
        jitted = jax.jit(function)
        self.runs[name] = lambda: jax.block_until_ready(jitted(*args))
        self.results[name] = lambda: [np.asarray(leaf) for leaf in jax.tree.leaves(jitted(*args))]

    def add_kernel(
        self,
        kernel: str,
        dim: int | tuple[int, ...],
        inputs: list[Any],
        outputs: list[np.ndarray],
        dtype: str | None = None,
        zeroed: bool = False,
    ) -> None:
        """The kernel by jwarp and by Warp, in all ways; `zeroed` where it adds to its outputs."""
        for name, fast in (("jwarp", False), ("jwarp fast", True)):
            self._add_jwarp(name, fast, getattr(JWARP, kernel), dim, inputs, outputs, zeroed)
        if warp is not None:
            self._add_warp(getattr(WARP, kernel), dim, inputs, outputs, dtype, zeroed)

    def _add_jwarp(
        self, name: str, fast: bool, kernel: Any, dim: Any, inputs: list[Any], outputs: list[np.ndarray], zeroed: bool
    ) -> None:
        arrays = [jnp.asarray(x) for x in inputs if isinstance(x, np.ndarray)]
        numbers = [None if isinstance(x, np.ndarray) else x for x in inputs]

        def launch(*given: jax.Array) -> Any:
            rest = iter(given)
            given_here = [next(rest) if x is None else x for x in numbers]
            with jwarp.config(fast_math=fast):
                return jwarp.launch(kernel, dim, given_here, [x.shape for x in outputs])

        self.add_jax(name, launch, *arrays)
        written = [np.zeros_like(x) for x in outputs]
        with jwarp.config(fast_math=fast):
            replay = jwarp.launch(kernel, dim, inputs, written, record_cmd=True).launch

        def in_place() -> None:
            if zeroed:
                for array in written:
                    array.fill(0)
            replay()

        self.add_in_place(f"{name}, in place", in_place, written)

    def _add_warp(
        self, kernel: Any, dim: Any, inputs: list[Any], outputs: list[np.ndarray], dtype: str | None, zeroed: bool
    ) -> None:
        make = partial(warp.array, device="cpu", **({"dtype": getattr(warp, dtype)} if dtype else {}))
        given = [make(x) if isinstance(x, np.ndarray) else x for x in inputs]
        written = [make(x) for x in outputs]

        def launch(arrays: list[Any]) -> None:
            if zeroed:
                for array in arrays:
                    array.zero_()
            warp.launch(kernel, dim=dim, inputs=given, outputs=arrays, device="cpu")

        def results() -> list[np.ndarray]:
            launch(written)
            return [array.numpy() for array in written]

        self.runs["warp, in place"] = lambda: launch(written)
        self.runs["warp"] = lambda: launch([warp.empty_like(array) for array in written])
        self.results["warp"] = results

    def add_in_place(self, name: str, function: Run, outputs: list[np.ndarray]) -> None:
        """A function that writes to NumPy arrays."""

        def results() -> list[np.ndarray]:
            function()
            return outputs

        self.runs[name] = function
        self.results[name] = results

    def add_numba(self, name: str, *args: Any, outputs: list[np.ndarray]) -> None:
        """numba's kernel, in place and on new arrays; some arguments are the `outputs`."""
        if numba_kernels is None:
            return
        function, places = getattr(numba_kernels, name), {id(array) for array in outputs}

        def on_new_arrays() -> None:
            function(*(np.empty_like(x) if id(x) in places else x for x in args))

        self.add_in_place("numba, in place", partial(function, *args), outputs)
        self.runs["numba"] = on_new_arrays

    def add_copy(self, array: np.ndarray) -> None:
        """NumPy's copy of an array, beside which memory-bound kernels are measured."""
        copied = np.zeros_like(array)
        self.runs["numpy, in place"] = partial(np.copyto, copied, array)

    def check(self) -> None:
        """Raise unless all contenders compute the same."""
        want = self.results["jwarp"]()
        for name, results in self.results.items():
            for got, expected in zip(results(), want, strict=True):
                if got.shape != expected.shape or not self.agree(got, expected):
                    raise AssertionError(f"{self.name}: {name} and jwarp disagree")

    def measure(self, rounds: int, budget: float) -> Figure:
        self.check()
        times = interleave(self.runs, rounds, budget)
        return Figure(self.name, times, (*self.targets(times), *beside_numba(times)), self.note)


def beside_numba(times: dict[str, Time]) -> tuple[Target, ...]:
    """In place, never behind numba's fastmath with fast_math, and not far behind without."""
    if "numba, in place" not in times:
        return ()
    numba = times["numba, in place"].least
    fast, safe = (numba / times[f"{name}, in place"].least for name in ("jwarp fast", "jwarp"))
    return (
        Target("fast_math in place, faster than numba's", fast, 1.0, "x", at_least=True),
        Target("safe in place, faster than numba's fastmath", safe, 1 / 1.3, "x", at_least=True),
    )


def of_a_copy(times: dict[str, Time], arrays: int) -> tuple[Target, ...]:
    """In place, the part of the bandwidth of NumPy's copy, where so many arrays are read or written."""
    share = (arrays / times["jwarp, in place"].least) / (2 / times["numpy, in place"].least)
    return (Target("in place, of a copy's bandwidth", share, 0.9, "x", at_least=True),)


def heavy(rng: np.random.Generator) -> Case:
    size = 1 << 18
    x = rng.random(size, dtype=np.float32)

    def step(v: jax.Array, s: jax.Array) -> tuple[jax.Array, jax.Array]:
        return v + 0.01, s + jnp.sin(v) * jnp.exp(-v)

    def looped(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, HEAVY_STEPS, lambda _, c: step(*c), (x, jnp.zeros_like(x)))[1]

    def unrolled(x: jax.Array) -> jax.Array:
        v, s = x, jnp.zeros_like(x)
        for _ in range(HEAVY_STEPS):
            v, s = step(v, s)
        return s

    case = Case("sin(v) * exp(-v), 64 times over 2^18")
    out = np.zeros_like(x)
    case.add_kernel("heavy", size, [x], [out])
    case.add_numba("heavy", x, out, outputs=[out])
    case.add_jax("jax", unrolled, jnp.asarray(x))
    case.add_jax("jax, fori_loop", looped, jnp.asarray(x))

    def targets(times: dict[str, Time]) -> tuple[Target, ...]:
        times["jax"] = min(times["jax"], times["jax, fori_loop"], key=lambda time: time.least)
        return faster(times, "jax", 3) + faster(times, "warp", 8)

    case.targets = targets
    return case


def nbody(rng: np.random.Generator) -> Case:
    size = 4096
    bodies = [rng.random(size, dtype=np.float32) for _ in range(4)]
    results = [np.zeros(size, np.float32) for _ in range(3)]

    def accelerations(x: jax.Array, y: jax.Array, z: jax.Array, mass: jax.Array) -> list[jax.Array]:
        dx, dy, dz = (p[None, :] - p[:, None] for p in (x, y, z))
        inverse = jax.lax.rsqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
        pull = inverse * inverse * inverse * mass
        return [(d * pull).sum(1) for d in (dx, dy, dz)]

    # Sums of 4096 terms in different orders.
    case = Case("n-body of 4096", agree=partial(np.allclose, rtol=1e-3, atol=1e-1))
    on_device = [jnp.asarray(array) for array in bodies]
    case.add_kernel("attract", size, [*bodies, size], results)
    case.add_numba("attract", *bodies, *results, outputs=results)
    case.add_jax("jax", accelerations, *on_device)
    case.targets = lambda times: faster(times, "warp", 8)
    return case


def stencil(rng: np.random.Generator) -> Case:
    n = 256
    a = rng.random((n, n, n), dtype=np.float32)

    def laplace(a: jax.Array) -> jax.Array:
        inner = slice(1, -1)
        total = -6.0 * a[inner, inner, inner]
        for axis in range(3):
            for shifted in (slice(0, -2), slice(2, None)):
                total += a[tuple(shifted if axis == other else inner for other in range(3))]
        return jnp.pad(total, 1)

    case = Case("7-point stencil, 256^3")
    out = np.zeros_like(a)
    case.add_kernel("laplace", a.shape, [a, n], [out])
    case.add_numba("laplace", a, out, outputs=[out])
    case.add_jax("jax", laplace, jnp.asarray(a))
    case.add_copy(a)
    case.targets = lambda times: faster(times, "warp", 8) + faster(times, "jax", 1) + of_a_copy(times, 2)
    return case


def mandelbrot(rng: np.random.Generator) -> Case:
    size = 512
    # Roundings differ, and the set's edge is chaotic.
    case = Case("Mandelbrot, 512^2", agree=lambda got, want: bool(np.mean(got != want) < 0.01))
    out = np.zeros((size, size), np.int32)
    case.add_kernel("mandelbrot", (size, size), [size], [out])
    case.add_numba("mandelbrot", out, outputs=[out])
    case.add_jax("jax", partial(kernels_xla.mandelbrot, size))
    case.targets = lambda times: faster(times, "warp", 6)
    return case


def saxpy(rng: np.random.Generator) -> Case:
    size = 1 << 24
    x, y = rng.random(size, dtype=np.float32), rng.random(size, dtype=np.float32)
    out, a = np.zeros_like(x), np.float32(2.5)

    case = Case("saxpy of 2^24", note="numpy: np.copyto; bandwidths count bytes read and written")
    arrays = jnp.asarray(x), jnp.asarray(y)
    case.add_kernel("saxpy", size, [x, y, float(a)], [out])
    case.add_numba("saxpy", x, y, a, out, outputs=[out])
    case.add_jax("jax", lambda x, y: a * x + y, *arrays)
    case.add_copy(x)
    case.targets = partial(of_a_copy, arrays=3)
    return case


def scatter(rng: np.random.Generator, bins: int) -> Case:
    size = 1 << 22
    x, places = rng.random(size, dtype=np.float32), rng.integers(0, bins, size).astype(np.int32)
    total = np.zeros(bins, np.float32)

    # One float32 cannot hold the sum of one bin to more digits, in the order of the loop.
    case = Case(f"scatter-add of 2^22 into {bins:,}", agree=partial(np.allclose, rtol=0.05))
    on_device = jnp.asarray(x), jnp.asarray(places)
    case.add_kernel("scatter", size, [x, places], [total], zeroed=True)
    case.add_jax("jax", lambda x, places: jnp.zeros(bins, jnp.float32).at[places].add(x), *on_device)
    case.add_numba("scatter", x, places, total, outputs=[total])
    on_two = case.runs["jwarp"]

    def on_one() -> None:
        _native.set_thread_limit(1)
        on_two()
        _native.set_thread_limit(0)

    case.runs["jwarp, one thread"] = on_one

    def targets(times: dict[str, Time]) -> tuple[Target, ...]:
        if "warp" not in times:
            return ()
        ratios = {name: times["warp"].least / times[name].least for name in ("jwarp", "jwarp, one thread")}
        return (
            Target("faster than warp", ratios["jwarp"], 1.05, "x", at_least=True),
            Target("the same on one thread", ratios["jwarp, one thread"], 1.0, "x", at_least=True),
        )

    case.targets = targets
    return case


def polar(rng: np.random.Generator) -> Case:
    size = 131072
    # Not near a singular matrix, where roundings would show.
    a = (np.eye(3) + 0.3 * rng.standard_normal((2 * size, 3, 3))).astype(np.float32)
    a = a[np.abs(np.linalg.det(a)) > 0.2][:size]

    def iterate(a: jax.Array) -> jax.Array:
        step = lambda _, r: 0.5 * (r + jnp.linalg.inv(r).swapaxes(1, 2))  # noqa: E731
        return jax.lax.fori_loop(0, POLAR_STEPS, step, a)

    case = Case(f"polar decomposition of {size} mat33", agree=partial(np.allclose, rtol=1e-2, atol=1e-2))
    case.add_kernel("polar", size, [a], [np.zeros_like(a)], dtype="mat33")
    case.add_jax("jax", iterate, jnp.asarray(a))
    case.targets = lambda times: faster(times, "warp", 8)
    return case


def normals(rng: np.random.Generator) -> Case:
    size = 1 << 20
    a, b = (rng.standard_normal((size, 3)).astype(np.float32) for _ in range(2))
    apart = [jnp.asarray(np.ascontiguousarray(v[:, k])) for v in (a, b) for k in range(3)]

    def cross(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.cross(*(v / jnp.linalg.norm(v, axis=1, keepdims=True) for v in (a, b)))

    case = Case("normalise and cross 2^20 vec3")
    out = np.zeros_like(a)
    case.add_kernel("normals", size, [a, b], [out], dtype="vec3")
    case.add_jax("jax", cross, jnp.asarray(a), jnp.asarray(b))
    case.add_numba("normals", a, b, out, outputs=[out])
    in_parts = jax.jit(lambda *v: jwarp.launch(JWARP.normals_apart, size, list(v), [size] * 3))
    case.runs["jwarp, structure of arrays"] = lambda: jax.block_until_ready(in_parts(*apart))

    def targets(times: dict[str, Time]) -> tuple[Target, ...]:
        ratio = times["jwarp"].least / times["jwarp, structure of arrays"].least
        of_parts = Target("of the time on a structure of arrays", ratio, 1.3, "x", at_least=False)
        return (*faster(times, "warp", 4), of_parts)

    case.targets = targets
    return case


CASES = (
    heavy,
    nbody,
    stencil,
    mandelbrot,
    saxpy,
    partial(scatter, bins=1024),
    partial(scatter, bins=10**6),
    partial(scatter, bins=1),
    polar,
    normals,
)


def measure(rounds: int, budget: float) -> Iterator[Figure]:
    """A figure for each case, each within about `budget` seconds."""
    for make in CASES:
        yield make(np.random.default_rng(0)).measure(rounds, budget)
        # The next case should not find this one's memory and code in its way.
        jax.clear_caches()
