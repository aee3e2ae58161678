"""Small launches on a GPU, beside XLA's kernels and Warp's: in a jitted loop, in graphs, eagerly, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from gpu_throughput import of_warp, random, rates

import jwarp

JWARP = kernels.define(jwarp, enable_backward=True)
SIZE = 1024
Step = Callable[[jax.Array], jax.Array]


def step(x: jax.Array) -> jax.Array:
    return jwarp.launch(JWARP.add_one, SIZE, [x], [SIZE])[0]


def step_by_xla(x: jax.Array) -> jax.Array:
    """A kernel of its own: neighbours are not merged with it."""
    return jax.lax.optimization_barrier(x + 1.0)


def launches(effort: Effort) -> Iterator[tuple[str, Callable[[], Row]]]:
    theirs = of_warp(effort)
    x = random(0, SIZE)

    def per(case: Case, count: int) -> Row:
        times = {who: t.per(count) for who, t in case.measure().items()}
        facts = [f"{who} {t.median * 1e6:.2f} us a launch" for who, t in times.items()]
        return Row(case.name, times, (*facts, *ratios(times), *case.failed))

    def looped() -> Row:
        count = effort.size(1000, 10)
        case = Case(f"{count} launches in a fori_loop, each", effort)
        for name, once in (("jwarp", step), ("XLA", step_by_xla)):
            case.add_jax(name, lambda x, once=once: jax.lax.fori_loop(0, count, lambda _, c: once(c), x), (x,))
        if theirs:
            case.guarded("Warp, captured", captured, case, theirs, x, count)
        return per(case, count)

    def chained() -> Row:
        count = effort.size(100, 4)
        case = Case(f"{count} launches one after the other in a jit, each", effort)

        def chain(once: Step) -> Step:
            def run(x: jax.Array) -> jax.Array:
                for _ in range(count):
                    x = once(x)
                return x

            return run

        for name, once in (("jwarp", step), ("XLA", step_by_xla)):
            case.add_jax(name, chain(once), (x,))
        if theirs:
            case.guarded("Warp, captured", captured, case, theirs, x, count)
        return per(case, count)

    def eager() -> Row:
        count = effort.size(100, 4)
        case = Case("an eager launch", effort)
        jitted = {"jwarp, jitted call": jax.jit(step), "XLA, jitted call": jax.jit(step_by_xla)}
        for name, once in {"jwarp": step, **jitted, "XLA": lambda x: x + 1.0}.items():
            case.ways[name] = Way(repeated(once, x, count), jax.block_until_ready, lambda once=once: [once(x)])
        if theirs:
            case.guarded("Warp", eager_by_warp, case, theirs, x, count)
        case.guarded("jwarp, in place", in_place, case, x, count)
        return per(case, count)

    def batch() -> Row:
        members, n = effort.size(1000, 4), effort.size(1 << 16, 1 << 6)
        x, y, a = random(1, members, n), random(2, members, n), random(3, members)
        launch = lambda x, y, a: jwarp.launch(JWARP.saxpy, n, [x, y, a], [n])[0]  # noqa: E731
        case = Case(f"saxpy of {n}, vmap of {members}", effort)
        case.add_jax("jwarp", jax.vmap(launch), (x, y, a))
        flat = (x.ravel(), y.ravel())
        case.add_jax("XLA", jax.vmap(lambda x, y, a: a * x + y), (x, y, a))
        case.check()
        one = Case("one launch", effort)
        one.add_jax("jwarp, one launch", lambda x, y: jwarp.launch(JWARP.saxpy, x.size, [x, y, 0.5], [x.size])[0], flat)
        case.ways |= one.ways
        times = interleave(case.ways, effort)
        return Row(case.name, times, (*rates(times, 3 * x.nbytes), *ratios(times), *case.failed))

    def inside_jit() -> Row:
        """Warp's own way into a jitted function."""
        count = effort.size(100, 4)
        case = Case(f"{count} launches in a fori_loop, Warp by its jax_kernel, each", effort)
        case.add_jax("jwarp", lambda x: jax.lax.fori_loop(0, count, lambda _, c: step(c), x), (x,))
        if theirs:
            wrapped = warp.jax_kernel(theirs.add_one)
            chain = lambda x: jax.lax.fori_loop(0, count, lambda _, c: wrapped(c)[0], x)  # noqa: E731
            case.guarded("Warp", case.add_jax, "Warp", chain, (x,))
        return per(case, count)

    yield from (("loop", looped), ("chain", chained), ("eager", eager), ("vmap", batch), ("jax_kernel", inside_jit))


def repeated(once: Step, x: jax.Array, count: int) -> Callable[[int], jax.Array]:
    return lambda _: [once(x) for _ in range(count)][-1]


def captured(case: Case, theirs: Any, x: jax.Array, count: int) -> None:
    """As many launches as a CUDA graph of Warp, to and fro between two arrays; a capture needs a GPU."""
    load_by_warp(theirs.add_one)
    there = [to_warp(jnp.copy(x)), warp.zeros(SIZE, dtype=float, device=warp_device())]

    def enqueue() -> None:
        for k in range(count):
            given, written = there[k % 2], there[1 - k % 2]
            warp.launch(theirs.add_one, dim=SIZE, inputs=[given], outputs=[written], device=warp_device())

    run: Callable[[], object] = enqueue
    if warp_device() != "cpu":
        with warp.ScopedCapture(warp_device()) as capture:
            enqueue()
        run = lambda: warp.capture_launch(capture.graph)  # noqa: E731

    def results() -> list[jax.Array]:
        there[0].assign(to_warp(x))
        run()
        wait_for_warp()
        return [jnp.copy(warp.to_jax(there[count % 2]))]

    case.ways["Warp, captured"] = Way(lambda _: run(), wait_for_warp, results)


def eager_by_warp(case: Case, theirs: Any, x: jax.Array, count: int) -> None:
    load_by_warp(theirs.add_one)
    given, written = to_warp(x), warp.zeros(SIZE, dtype=float, device=warp_device())

    def launch() -> None:
        warp.launch(theirs.add_one, dim=SIZE, inputs=[given], outputs=[written], device=warp_device())

    def results() -> list[jax.Array]:
        launch()
        wait_for_warp()
        return [jnp.copy(warp.to_jax(written))]

    record = warp.launch(
        theirs.add_one, dim=SIZE, inputs=[given], outputs=[written], device=warp_device(), record_cmd=True
    )
    for name, once in {"Warp": launch, "Warp, recorded": record.launch}.items():
        case.ways[name] = Way(lambda _, once=once: [once() for _ in range(count)][-1], wait_for_warp, results)


def in_place(case: Case, x: jax.Array, count: int) -> None:
    """Launches that write to arrays of Warp, or of CuPy where that is not."""
    if warp is not None:
        given, written = to_warp(jnp.copy(x)), warp.zeros(SIZE, dtype=float, device=warp_device())
        stream = None if warp_device() == "cpu" else warp.get_stream(warp_device()).cuda_stream
        wait, read = wait_for_warp, lambda: jnp.copy(warp.to_jax(written))
    else:
        import cupy

        given, written = cupy.from_dlpack(jnp.copy(x)), cupy.zeros(SIZE, cupy.float32)
        stream = cupy.cuda.get_current_stream().ptr
        wait, read = lambda _=None: cupy.cuda.Device().synchronize(), lambda: jnp.asarray(cupy.asnumpy(written))

    def launch() -> None:
        jwarp.launch(JWARP.add_one, SIZE, [given], [written], stream=stream)

    def results() -> list[jax.Array]:
        launch()
        wait(None)
        return [read()]

    case.ways["jwarp, in place"] = Way(lambda _: [launch() for _ in range(count)][-1], wait, results)
