"""Computations on a GPU by several contenders: they are compared, then timed in turns, and make a row of a table.

Work on a GPU goes on after the call that asked for it. So a contender is called again and again, its last result is
waited for, and the time of a call is that of all of them over their number. Contenders take turns; medians count.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from timing import Time, summarize

import jwarp

if importlib.util.find_spec("warp"):
    import warp

    warp.config.log_level = warp.LOG_ERROR
else:
    warp = None


@dataclass(frozen=True)
class Effort:
    """How much is measured: turns of each contender, seconds of one, and whether this is a trial without a GPU."""

    rounds: int = 7
    seconds: float = 0.02
    budget: float = 2.0  # seconds of all turns of a contender; two turns are made in any case
    dry: bool = False

    def size(self, real: int, dry: int) -> int:
        return dry if self.dry else real


@dataclass(frozen=True)
class Row:
    """What was measured of one computation: the time of a call by contender, and what follows from that."""

    name: str
    times: dict[str, Time]
    facts: tuple[str, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        seconds = {who: {"least": t.least, "median": t.median} for who, t in self.times.items()}
        return asdict(self) | {"times": seconds}


@dataclass
class Way:
    """A contender: the `k`-th call, which does not wait, what waits for it, and what it computes, on JAX arrays."""

    call: Callable[[int], Any]
    wait: Callable[[Any], object]
    results: Callable[[], list[jax.Array]] | None = None


def warp_device() -> str:
    return "cuda:0" if jax.default_backend() == "gpu" else "cpu"


def wait_for_warp(_: Any = None) -> None:
    warp.synchronize_device(warp_device())


def to_warp(x: Any, dtype: Any = None) -> Any:
    """Warp's view of a JAX array; numbers as they are."""
    return warp.from_jax(x, dtype) if isinstance(x, jax.Array) else x


# Seconds of the first use of each of Warp's kernels, which compiles it.
warp_compiles: dict[str, float] = {}


def load_by_warp(kernel: Any) -> None:
    """Compile a kernel of a module of its own, and note how long that took."""
    start = time.perf_counter()
    kernel.module.load(warp_device())
    warp_compiles.setdefault(kernel.func.__name__, time.perf_counter() - start)


@dataclass
class Case:
    """One computation by several contenders, of which the first is what the others are compared with."""

    name: str
    effort: Effort
    ways: dict[str, Way] = field(default_factory=dict)
    rtol: float = 1e-3
    atol: float = 1e-4
    differing: float = 0.0  # the part of the elements that may be off
    failed: list[str] = field(default_factory=list)

    def add_jax(self, name: str, function: Callable[..., Any], *sets: tuple[Any, ...]) -> None:
        """A function that is jitted here; calls take the sets of arguments in turns, as no cache holds them all."""
        jitted = jax.jit(function)
        if self.effort.dry and name.startswith("jwarp"):
            with jwarp.config(cuda_arch="sm_90"):
                jitted.trace(*sets[0]).lower(lowering_platforms=("cuda",))

        def results() -> list[jax.Array]:
            return jax.tree.leaves(jitted(*sets[0]))

        self.ways[name] = Way(lambda k: jitted(*sets[k % len(sets)]), jax.block_until_ready, results)

    def add_donated(self, name: str, function: Callable[..., Any], *args: jax.Array) -> None:
        """A function that is jitted here and changes its last argument, which is its result before."""
        jitted = jax.jit(function, donate_argnums=len(args) - 1)
        state = [jnp.copy(args[-1])]

        def call(_: int) -> jax.Array:
            state[0] = jitted(*args[:-1], state[0])
            return state[0]

        def results() -> list[jax.Array]:
            return [jitted(*args[:-1], jnp.copy(args[-1]))]

        self.ways[name] = Way(call, jax.block_until_ready, results)

    def add_warp(
        self, kernel: Any, dim: Any, sets: list[list[Any]], outputs: list[tuple[Any, Any]],
        inputs: Mapping[int, Any] | None = None, zeroed: bool = False,
    ) -> None:  # fmt: skip
        """Warp's launch on arrays that exist; `outputs` are shapes and types, `inputs` the types of those by place."""
        if warp is None:
            return
        load_by_warp(kernel)
        types = inputs or {}
        given = [[to_warp(x, types.get(k)) for k, x in enumerate(args)] for args in sets]
        written = [warp.zeros(shape, dtype=dtype, device=warp_device()) for shape, dtype in outputs]

        def call(k: int) -> None:
            if zeroed:
                for array in written:
                    array.zero_()
            warp.launch(kernel, dim=dim, inputs=given[k % len(given)], outputs=written, device=warp_device())

        def results() -> list[jax.Array]:
            for array in written:
                array.zero_()
            call(0)
            wait_for_warp()
            return [jnp.copy(warp.to_jax(array)) for array in written]

        self.ways["Warp"] = Way(call, wait_for_warp, results)

    def rename(self, name: str, new: str) -> None:
        if name in self.ways:
            self.ways[new] = self.ways.pop(name)

    def guarded(self, name: str, add: Callable[..., None], *args: Any, **named: Any) -> None:
        """Add a contender, or note why there is none: the others go on."""
        try:
            add(*args, **named)
        except Exception as error:
            self.failed.append(f"{name}: {said(error)}")

    def check(self) -> None:
        """Leave out, and name, contenders that do not compute what the first one does."""
        first, want = next(iter(self.ways)), None
        for name, way in list(self.ways.items()):
            if way.results is None:
                continue
            try:
                found = way.results()
                want = found if want is None else want
                for got, expected in zip(found, want, strict=True):
                    off = self.off(got, expected)
                    if not off <= self.differing:
                        raise AssertionError(f"differs from {first} in {off:.2%} of the elements")
            except Exception as error:
                del self.ways[name]
                self.failed.append(f"{name}: {said(error)}")
                if want is None:
                    raise

    def off(self, got: jax.Array, want: jax.Array) -> float:
        if got.shape != want.shape:
            raise AssertionError(f"a result of shape {got.shape}, not {want.shape}")
        got, want = (x.astype(jnp.float32) for x in (got, want))
        return float(jnp.mean(~(jnp.abs(got - want) <= self.atol + self.rtol * jnp.abs(want))))

    def measure(self) -> dict[str, Time]:
        self.check()
        return interleave(self.ways, self.effort)


def interleave(ways: dict[str, Way], effort: Effort) -> dict[str, Time]:
    """Seconds of a call of each, in turns that begin with another contender each time."""
    repeats = {name: _repeats(way, effort) for name, way in ways.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for turn in range(effort.rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            if turn < 2 or sum(seconds[name]) * repeats[name] < effort.budget:
                seconds[name].append(_timed(ways[name], repeats[name]))
    return {name: summarize(all_seconds) for name, all_seconds in seconds.items()}


def _timed(way: Way, repeats: int) -> float:
    start = time.perf_counter()
    for k in range(repeats):
        last = way.call(k)
    way.wait(last)
    return (time.perf_counter() - start) / repeats


def _repeats(way: Way, effort: Effort) -> int:
    """How many calls take as long as a turn should."""
    once = min(_timed(way, 1), _timed(way, 1))
    if once < effort.seconds:
        once = min(once, _timed(way, 4))
    return max(1, min(400, math.ceil(effort.seconds / once)))


def said(error: BaseException) -> str:
    """The first lines of an error, in one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:240]}"


def ratios(times: Mapping[str, Time], base: str = "jwarp") -> Iterator[str]:
    """How many times as long as `base` the others take."""
    for who, taken in times.items():
        if who != base and base in times:
            yield f"{who} takes {taken.median / times[base].median:.2f} of {base}'s time"
