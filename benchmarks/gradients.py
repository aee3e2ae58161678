"""Gradients: what they cost beside the value alone, beside XLA's and beside Warp's; their memory and their compiling.

A gradient is that of the sum of all results, by `jax.value_and_grad` in a jitted function. Warp runs its forward and
its adjoint launch on arrays that exist; no sum, and nothing is set to zero in between.
"""

from __future__ import annotations

import importlib.util
import linecache
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kernels_gradients
import numpy as np
import ray_marcher
from contenders import jwarp, warp
from figures import Figure, Target, at_most, faster
from kernels import HEAVY_STEPS
from startup import OPERATIONS, first_kernels
from timing import Run, Time, interleave, summarize

JWARP = kernels_gradients.define(jwarp)
WARP = kernels_gradients.define(warp) if warp else None

LONG_LOOP = 100_000
THREADS = 10_000

PEAK = """
    import sys
    import jax, jax.numpy as jnp
    sys.path.insert(0, {folder!r})
    import kernels_gradients, jwarp
    kernels = kernels_gradients.define(jwarp)
    x = jnp.linspace(0.1, 3.0, {threads})
    run = jax.jit(jax.grad(lambda x, steps: jwarp.launch(kernels.orbit, x.shape, [x, steps], [x.shape])[0].sum()))

    def kib(field):
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(field))

    run(x, 3).block_until_ready()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts again from what is in use
    before = kib("VmRSS")
    run(x, {steps}).block_until_ready()
    print(kib("VmHWM") - before)
"""


def measure(rounds: int, budget: float) -> Iterator[Figure]:
    """The figures, each group of runs within about `budget` seconds."""
    random = np.random.default_rng(0)
    yield _straight(random, rounds, budget)
    yield _heavy(random, rounds, budget)
    yield _stencil(random, rounds, budget)
    yield _memory(LONG_LOOP if rounds > 5 else LONG_LOOP // 20)
    yield _compiling(3)
    yield from ray_marcher.measure(quick=rounds <= 5)


def _straight(random: np.random.Generator, rounds: int, budget: float) -> Figure:
    x, y = (jnp.asarray(a) for a in random.random((2, 1 << 20), dtype=np.float32))

    def total(x: jax.Array, y: jax.Array) -> jax.Array:
        return jwarp.launch(JWARP.straight, x.shape, [x, y], [x.shape])[0].sum()

    def same(x: jax.Array, y: jax.Array) -> jax.Array:
        r = jnp.sqrt(x * x + y * y + 1.0)
        return (jnp.sin(x) * jnp.exp(-r) + jnp.cos(y) / r).sum()

    runs = _runs(total, same, x, y)
    runs |= _warp_runs("straight", x.shape, [x, y], [np.zeros(x.shape, np.float32)])
    times = interleave(runs, rounds, budget)
    targets = _beside_value(times, 3.0)
    return Figure("straight-line kernel, 2^20, value and grad", _shown(times), targets)


def _heavy(random: np.random.Generator, rounds: int, budget: float) -> Figure:
    x = jnp.asarray(random.random(1 << 18, dtype=np.float32))

    def total(x: jax.Array) -> jax.Array:
        return jwarp.launch(JWARP.heavy, x.shape, [x], [x.shape])[0].sum()

    def looped(x: jax.Array) -> jax.Array:
        def step(_: Any, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            v, s = carry
            return v + 0.01, s + jnp.sin(v) * jnp.exp(-v)

        return jax.lax.fori_loop(0, HEAVY_STEPS, step, (x, jnp.zeros_like(x)))[1].sum()

    runs = _runs(total, looped, x)
    runs |= _warp_runs("heavy", x.shape, [x], [np.zeros(x.shape, np.float32)])
    times = interleave(runs, rounds, budget)
    targets = _beside_value(times, 2.5) + faster(times, "jax", 5) + faster(times, "warp", 8)
    return Figure("sin(v) * exp(-v), 64 times, value and grad", _shown(times), targets)


def _stencil(random: np.random.Generator, rounds: int, budget: float) -> Figure:
    n = 256
    a, cotangent = (jnp.asarray(random.random((n, n, n), dtype=np.float32)) for _ in range(2))

    def laplace(a: jax.Array) -> jax.Array:
        return jwarp.launch(JWARP.laplace, a.shape, [a, n], [a.shape])[0]

    adjoint = jax.jit(lambda a, cotangent: jax.vjp(laplace, a)[1](cotangent)[0])
    forward = jax.jit(laplace)
    pairing = float(jnp.vdot(forward(a), cotangent)), float(jnp.vdot(a, adjoint(a, cotangent)))
    if not np.isclose(*pairing, rtol=1e-2, atol=1.0):
        raise AssertionError(f"the adjoint of the stencil is not its transpose: {pairing}")
    runs: dict[str, Run] = {
        "jwarp": lambda: jax.block_until_ready(adjoint(a, cotangent)),
        "jwarp, value": lambda: jax.block_until_ready(forward(a)),
    }
    times = interleave(runs, rounds, budget)
    ratio = times["jwarp"].least / times["jwarp, value"].least
    target = Target("adjoint over forward", ratio, 2.0, "x", at_least=False)
    return Figure("7-point stencil, 256^3, adjoint alone", _shown(times), (target,))


def _memory(steps: int) -> Figure:
    """Peak memory of a gradient through a long loop, for many threads and for a tenth of them."""
    many, few = (_peak(threads, steps) for threads in (THREADS, THREADS // 10))
    # In KiB; both hold what the threads of the pool have on their tapes at one time.
    bound = 1.5 * few + 4096
    target = Target(f"memory for {THREADS} threads of {steps} steps", many / 1024, bound / 1024, " MiB", at_least=False)
    note = f"{few / 1024:.1f} MiB for a tenth of the threads"
    return Figure("gradient through a long loop, peak memory", {}, (target,), note)


def _peak(threads: int, steps: int) -> int:
    folder = str(Path(__file__).resolve().parent)
    script = textwrap.dedent(PEAK.format(folder=folder, threads=threads, steps=steps))
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return int(ended.stdout)


def _compiling(count: int) -> Figure:
    """Compiling the adjoint of a long kernel; another constant each time, so that none is found compiled."""
    seconds = []
    kept = jwarp.config.cache_dir
    jwarp.config.cache_dir = ""
    try:
        for number in range(count):
            kernel = _long_kernel(number)
            grad = jax.jit(jax.grad(lambda x, kernel=kernel: jwarp.launch(kernel, 64, [x], [64])[0].sum()))
            with jwarp.record_compiles() as events:
                grad.lower(jnp.ones(64)).compile()
            seconds.append(sum(event.seconds for event in events if event.variant.startswith("adjoint")))
    finally:
        jwarp.config.cache_dir = kept
    time = summarize(seconds)
    targets = at_most("compile", time.least, 0.1, "ms")
    return Figure(f"adjoint of a kernel of {OPERATIONS} operations", {"jwarp": time}, targets)


def _long_kernel(number: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"long_kernel_{number}.py")
        path.write_text(first_kernels().replace("b = a + 1.0", f"b = a + {1.5 + number}"))
        linecache.checkcache()
        found = importlib.util.spec_from_file_location(path.stem, path)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return module.long


def _runs(total: Callable[..., Any], same: Callable[..., Any], *args: Any) -> dict[str, Run]:
    """Value and gradient in both ways, and the value alone; checked against each other."""
    numbers = tuple(range(len(args)))
    both, value = jax.jit(jax.value_and_grad(total, numbers)), jax.jit(total)
    other = jax.jit(jax.value_and_grad(same, numbers))
    for got, want in zip(jax.tree.leaves(both(*args)), jax.tree.leaves(other(*args)), strict=True):
        if not np.allclose(got, want, rtol=2e-3, atol=1e-4):
            raise AssertionError("jwarp and jax disagree")
    return {
        "jwarp": lambda: jax.block_until_ready(both(*args)),
        "jwarp, value": lambda: jax.block_until_ready(value(*args)),
        "jax": lambda: jax.block_until_ready(other(*args)),
    }


def _warp_runs(name: str, shape: tuple[int, ...], inputs: list[Any], outputs: list[Any]) -> dict[str, Run]:
    if warp is None:
        return {}
    given = [warp.array(np.asarray(x), device="cpu") for x in inputs]
    written = [warp.array(x, device="cpu") for x in outputs]
    gradients = [warp.zeros_like(x) for x in given]
    seeds = [warp.ones_like(x) for x in written]
    kernel = getattr(WARP, name)

    def run() -> None:
        warp.launch(kernel, dim=shape, inputs=given, outputs=written, device="cpu")
        warp.launch(
            kernel, dim=shape, inputs=given, outputs=written, adj_inputs=gradients, adj_outputs=seeds, adjoint=True,
            device="cpu",
        )  # fmt: skip

    return {"warp": run}


def _beside_value(times: dict[str, Time], bound: float) -> tuple[Target, ...]:
    ratio = times["jwarp"].least / times["jwarp, value"].least
    return (Target("value and gradient over value", ratio, bound, "x", at_least=False),)


def _shown(times: dict[str, Time]) -> dict[str, Time]:
    return {name: time for name, time in times.items() if " " not in name}
