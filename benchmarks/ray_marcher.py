"""Gradients of pictures by the spheres in them: a ray marcher with a `break`, a batch of scenes, beside jax.numpy.

    python benchmarks/ray_marcher.py              # 256 scenes, each way in a process of its own
    python benchmarks/ray_marcher.py --quick      # 32 scenes

Each ray goes through the distance field of eight spheres that melt into each other, 64 steps at most. jax.numpy has no
loop with a `break` that reverse mode goes through: it takes all steps, of scenes in batches of 16, as all at once would
not fit into memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from figures import Figure, Target, at_most, faster, format_figure, format_header
from timing import summarize

import jwarp as wp

SCENES, BATCH, PIXELS, SPHERES, STEPS = 256, 16, 64, 8, 64
NEAR, FAR, SHARP = 1.0e-3, 6.0, 8.0


@wp.func
def distance(spheres: wp.array[wp.vec4], p: wp.vec3):
    total = 0.0
    for k in range(spheres.shape[0]):
        s = spheres[k]
        total += wp.exp(-SHARP * (wp.length(p - wp.vec3(s[0], s[1], s[2])) - s[3]))
    return -wp.log(total) / SHARP


@wp.kernel
def march(spheres: wp.array[wp.vec4], picture: wp.array2d[float]):
    i, j = wp.tid()
    x = (float(j) + 0.5) / float(picture.shape[1]) - 0.5
    y = (float(i) + 0.5) / float(picture.shape[0]) - 0.5
    direction = wp.normalize(wp.vec3(x, y, 1.0))
    t = 0.0
    for _ in range(STEPS):
        d = distance(spheres, wp.vec3(0.0, 0.0, -3.0) + t * direction)
        if d < NEAR:
            break
        t += d
        if t > FAR:
            break
    picture[i, j] = wp.exp(-t)


def by_jwarp(spheres: jax.Array) -> jax.Array:
    """The pictures of all scenes."""
    return jax.vmap(lambda s: wp.launch(march, (PIXELS, PIXELS), [s], [(PIXELS, PIXELS)])[0])(spheres)


def by_jax(spheres: jax.Array) -> jax.Array:
    """The same of one scene."""
    x = (jnp.arange(PIXELS) + 0.5) / PIXELS - 0.5
    rays = jnp.stack([*jnp.broadcast_arrays(x, x[:, None], jnp.ones((PIXELS, PIXELS)))], -1)
    rays = rays / jnp.linalg.norm(rays, axis=-1, keepdims=True)

    def step(carry: Any, _: Any) -> Any:
        t, active = carry
        p = jnp.array([0.0, 0.0, -3.0]) + t[..., None] * rays
        away = jnp.linalg.norm(p[..., None, :] - spheres[:, :3], axis=-1) - spheres[:, 3]
        d = -jnp.log(jnp.sum(jnp.exp(-SHARP * away), -1)) / SHARP
        active = active & (d >= NEAR)
        t = jnp.where(active, t + d, t)
        return (t, active & (t <= FAR)), None

    start = jnp.zeros((PIXELS, PIXELS)), jnp.ones((PIXELS, PIXELS), bool)
    return jnp.exp(-jax.lax.scan(step, start, length=STEPS)[0][0])


def loss(pictures: Callable[[jax.Array], jax.Array], spheres: jax.Array) -> jax.Array:
    return jnp.sum((pictures(spheres) - 0.1) ** 2)


WAYS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "jwarp": jax.grad(partial(loss, by_jwarp)),
    "jax": lambda spheres: jax.lax.map(
        jax.vmap(jax.grad(partial(loss, by_jax))), spheres.reshape(-1, BATCH, SPHERES, 4)
    ),
}


def scenes(count: int) -> jax.Array:
    random = np.random.default_rng(0)
    places, radii = random.uniform(-0.8, 0.8, (count, SPHERES, 3)), random.uniform(0.1, 0.4, (count, SPHERES, 1))
    return jnp.asarray(np.concatenate([places, radii], -1), jnp.float32)


def run(way: str, count: int, rounds: int) -> dict[str, Any]:
    """What one way costs, in this process: first call, later ones, memory beyond what was in use."""
    wp.config.cache_dir = ""  # a first call, and no second one in another process
    spheres = scenes(count)
    jnp.sin(spheres).block_until_ready()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts again from what is in use
    before = _kib("VmRSS")
    gradient = jax.jit(WAYS[way])
    seconds = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        found = gradient(spheres).block_until_ready()
        seconds.append(time.perf_counter() - start)
    checks = np.abs(np.asarray(found).reshape(-1, 4)).sum(0).tolist()
    return {"first": seconds[0], "seconds": seconds[1:], "MiB": (_kib("VmHWM") - before) / 1024, "checks": checks}


def _kib(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field))


def measure(quick: bool) -> Iterator[Figure]:
    """The figure, from a process for each way."""
    count, rounds = (32, 2) if quick else (SCENES, 5)
    found = {}
    for way in WAYS:
        command = [sys.executable, str(Path(__file__).resolve()), "--way", way, str(count), str(rounds)]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        found[way] = json.loads(ended.stdout.splitlines()[-1])
    ours, theirs = found["jwarp"], found["jax"]
    if not np.allclose(ours["checks"], theirs["checks"], rtol=1e-2):
        raise AssertionError(f"jwarp and jax disagree: {ours['checks']} and {theirs['checks']}")
    times = {way: summarize(entry["seconds"]) for way, entry in found.items()}
    first = summarize([ours["first"]])
    targets = (
        *faster(times, "jax", 10),
        Target("memory", ours["MiB"], 0.5 * theirs["MiB"], " MiB", at_least=False),
        *at_most("first call", first.least, 0.2 * theirs["first"], "s"),
    )
    note = f"jax: {theirs['MiB']:.0f} MiB, first call {theirs['first']:.1f} s"
    yield Figure(f"ray marcher, {count} scenes of 64 x 64 pixels, gradient", times, targets, note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--way", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        way, count, rounds = args.way
        print(json.dumps(run(way, int(count), int(rounds))))
        return
    print(format_header())
    for figure in measure(args.quick):
        print(format_figure(figure))


if __name__ == "__main__":
    main()
