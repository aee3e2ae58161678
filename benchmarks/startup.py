"""What the first use costs in a fresh process: the import, and the first call of a kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

from figures import Figure, at_most
from timing import Time, summarize

OPERATIONS = 300

IMPORT = """
    start, used = time.perf_counter(), time.process_time()
    import jax
    {jwarp}
    report(seconds=time.perf_counter() - start, processor=time.process_time() - used)
"""

# A backend of JAX that has not started yet would be counted as part of the first call.
FIRST_CALL = """
    import jax, jax.numpy as jnp
    import jwarp as wp
    from first_kernels import small, long
    x = jnp.ones(64).block_until_ready()
    function = jax.jit({function})
    with wp.record_compiles() as events:
        start, used = time.perf_counter(), time.process_time()
        jax.block_until_ready(function(x))
        seconds, used = time.perf_counter() - start, time.process_time() - used
    report(seconds=seconds, processor=used, compile=sum(event.seconds for event in events))
"""

PRELUDE = """
    import json, time
    def report(**numbers):
        print(json.dumps(numbers))
"""

SCRIPTS = {
    "import jax": IMPORT.format(jwarp=""),
    "import jax, jwarp": IMPORT.format(jwarp="import jwarp"),
    "plain": FIRST_CALL.format(function="lambda x: x * 3.0"),
    "small": FIRST_CALL.format(function="lambda x: wp.launch(small, 64, [x], [64])"),
    "long": FIRST_CALL.format(function="lambda x: wp.launch(long, 64, [x], [64])"),
}
# These run once more with a cache on disk that an earlier process has filled.
WARM = {"small, on disk": "small", "long, on disk": "long"}


def measure(rounds: int) -> Iterator[Figure]:
    """Figures from `rounds` processes of each kind, started in turn."""
    numbers = _run_all(rounds)
    seconds = {
        name: summarize([n["seconds"] for n in numbers[name]], [n["processor"] for n in numbers[name]])
        for name in numbers
    }
    compiles = {name: min(n["compile"] for n in numbers[name]) for name in ("small", "long")}

    def beyond_plain(name: str) -> Time:
        return _minus(seconds[name], seconds["plain"])

    yield Figure(
        "import jax; jwarp: and jwarp",
        {"jax": seconds["import jax"], "jwarp": seconds["import jax, jwarp"]},
        at_most("jwarp adds", _minus(seconds["import jax, jwarp"], seconds["import jax"]).least, 0.2, "s"),
    )
    yield Figure(
        "first call of a kernel in a process",
        {"jax": seconds["plain"], "jwarp": seconds["small"]},
        at_most("compile", compiles["small"], 0.1, "ms")
        + at_most("call beyond jax's", beyond_plain("small").least, 0.1, "ms"),
    )
    yield Figure(
        f"the same, with {OPERATIONS} operations",
        {"jax": seconds["plain"], "jwarp": seconds["long"]},
        at_most("compile", compiles["long"], 0.06, "ms")
        + at_most("call beyond jax's", beyond_plain("long").least, 0.06, "ms"),
    )
    for name, operations in zip(WARM, (2, OPERATIONS), strict=True):
        yield Figure(
            f"from the cache on disk, {operations} operations",
            {"jax": seconds["plain"], "jwarp": seconds[name]},
            at_most("call beyond jax's", beyond_plain(name).least, 0.015, "ms"),
        )


def _minus(a: Time, b: Time) -> Time:
    return Time(a.least - b.least, a.median - b.median)


def _run_all(rounds: int) -> dict[str, list[dict[str, float]]]:
    numbers: dict[str, list[dict[str, float]]] = {name: [] for name in (*SCRIPTS, *WARM)}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "first_kernels.py").write_text(first_kernels())
        filled = Path(folder, "cache")
        for cold in WARM.values():
            _run(SCRIPTS[cold], Path(folder), filled)
        for _ in range(rounds):
            for name, script in SCRIPTS.items():
                with tempfile.TemporaryDirectory() as empty:
                    numbers[name].append(_run(script, Path(folder), Path(empty)))
            for name, cold in WARM.items():
                numbers[name].append(_run(SCRIPTS[cold], Path(folder), filled))
    return numbers


def _run(script: str, folder: Path, cache: Path) -> dict[str, float]:
    environment = _cold_environment() | {"JWARP_CACHE_DIR": str(cache)}
    text = textwrap.dedent(PRELUDE) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def _cold_environment() -> dict[str, str]:
    """This process's environment without JAX's cache of compiled programs."""
    return {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}


def first_kernels() -> str:
    """A module with a kernel of two operations, and one of OPERATIONS that nothing can simplify."""
    forms = ("a * b + {c}", "b - a * {c}", "wp.max(a, b * {c})", "wp.sqrt(wp.abs(a * {c} - b))")
    lines, count = [], 0
    while count < OPERATIONS:
        form = forms[len(lines) % len(forms)]
        lines.append(f"a, b = b, {form.format(c=1.0 + len(lines) / 64)}")
        count += 3 if "sqrt" not in form else 4
        count -= form.startswith(("a", "b", "wp.max"))
    body = textwrap.indent("\n".join(lines), " " * 4)
    return (
        "import jwarp as wp\n\n"
        "@wp.kernel\n"
        "def small(x: wp.array[float], y: wp.array[float]):\n"
        "    i = wp.tid()\n"
        "    y[i] = 2.0 * x[i] + 1.0\n\n"
        "@wp.kernel\n"
        "def long(x: wp.array[float], y: wp.array[float]):\n"
        "    i = wp.tid()\n"
        "    a = x[i]\n"
        "    b = a + 1.0\n"
        f"{body}\n"
        "    y[i] = a + b\n"
    )
