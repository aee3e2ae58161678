"""Measures what the first calls of kernels cost, in processor time of a fresh process.

    python benchmarks/first_calls.py

Each line is one process: the first call of a kernel compiled by `jax.jit`, from nothing and from the cache on disk, of
the kernel itself and of its gradient. The time of a kernel with the same parameters and few operations is taken off,
which is that of JAX.

`p2g` is the transfer from particles to a grid of a material point method: a struct of vectors and matrices, a singular
value decomposition, 27 neighbours, 54 atomic additions. `mpm` is a step of that method in three kernels, with the grid
and the way back to the particles. `chain300` and `chain5000` have that many operations.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KERNELS = ("p2g", "mpm", "chain300", "chain5000")
COUNT, GRID = 64, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="without the kernel of 5000 operations")
    parser.add_argument("--only", default="", help="kernels with this in their names")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, what = options.child.split(",")
        print(json.dumps(child(name, what)))
        return
    print(f"{'kernel':<12}{'call':<10}{'from nothing':>14}{'from disk':>12}   milliseconds of processor time")
    for name in KERNELS[: 3 if options.quick else None]:
        if options.only in name:
            for what in ("forward", "gradient"):
                with tempfile.TemporaryDirectory() as folder:
                    cold, warm = (in_process(name, what, folder) for _ in range(2))
                print(f"{name:<12}{what:<10}{cold * 1e3:>14.0f}{warm * 1e3:>12.0f}", flush=True)


def in_process(name: str, what: str, folder: str) -> float:
    """The time of a first call in a process of its own, whose cache is in `folder`."""
    environment = {**os.environ, "JWARP_CACHE_DIR": folder}
    command = [sys.executable, __file__, "--child", f"{name},{what}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def child(name: str, what: str) -> float:
    """The time of a first call, without that of a small kernel, made after another such one."""
    times = []
    for function, arguments in (
        made("chain1"),
        made("chain2" if name.startswith("chain") else f"{name}_small"),
        made(name),
    ):
        run = _gradient(function, arguments) if what == "gradient" else _forward(function, arguments)
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return times[2] - times[1]


def _forward(function: Any, arguments: list[Any]) -> Any:
    import jax

    return lambda: jax.block_until_ready(jax.jit(function)(*arguments))


def _gradient(function: Any, arguments: list[Any]) -> Any:
    import jax

    def total(*args: Any) -> Any:
        return sum((x * x).sum() for x in function(*args))

    return lambda: jax.block_until_ready(jax.jit(jax.grad(total))(*arguments))


def made(name: str) -> tuple[Any, list[Any]]:
    """A function of JAX that launches a kernel, and arguments for it."""
    import numpy as np

    import jwarp as wp

    rng = np.random.default_rng(0)
    if name.startswith("chain"):
        x = rng.normal(size=COUNT).astype(np.float32)
        launch = wp.jax_kernel(_chain(int(name.removeprefix("chain"))))
        return lambda x: launch(x), [x]
    method, is_small = name.partition("_")[0], name.endswith("_small")
    launch = wp.jax_kernel(_p2g_small() if is_small else _p2g(), num_outputs=2)
    shape = (GRID, GRID, GRID)
    x = (rng.uniform(0.3, 0.6, size=(COUNT, 3))).astype(np.float32)
    v, c = rng.normal(size=(COUNT, 3)).astype(np.float32), rng.normal(size=(COUNT, 3, 3)).astype(np.float32)
    f = (np.eye(3) + 0.1 * rng.normal(size=(COUNT, 3, 3))).astype(np.float32)
    dims = {"momenta": shape, "masses": shape}
    dt = np.float32(1e-4)
    if method == "p2g":
        return lambda x: launch(x, v, c, f, dt, launch_dims=COUNT, output_dims=dims), [x]
    on_grid, back = map(wp.jax_kernel, _mpm_small() if is_small else _mpm(), (1, 4))

    def step(x: Any) -> Any:
        momenta, masses = launch(x, v, c, f, dt, launch_dims=COUNT, output_dims=dims)
        (velocities,) = on_grid(momenta, masses, dt, launch_dims=shape)
        return back(x, f, velocities, dt)

    return step, [x]


def _chain(count: int) -> Any:
    """A kernel of so many operations, in a file of its own."""
    import jwarp  # noqa: F401

    lines = "".join(f"    a = a * {1 + k / 7:.3f} + b\n    b = b * a - {k / 9:.3f}\n" for k in range(count // 4))
    text = (
        f"import jwarp as wp\n@wp.kernel\ndef chain{count}(x: wp.array[float], y: wp.array[float]):\n    i = wp.tid()\n"
        f"    a = x[i]\n    b = a + 1.0\n{lines}    y[i] = a + b\n"
    )
    path = Path(tempfile.mkdtemp()) / f"chain{count}.py"
    path.write_text(text)
    names: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), names)
    return names[f"chain{count}"]


def _p2g() -> Any:
    import jwarp as wp

    @wp.struct
    class Particle:
        x: wp.vec3
        v: wp.vec3
        affine: wp.mat33
        stress: wp.mat33

    @wp.func
    def moved(x: wp.vec3, v: wp.vec3, c: wp.mat33, f: wp.mat33, dt: float):
        u, s, w = wp.svd3(f)
        r = u * wp.transpose(w)
        j = s[0] * s[1] * s[2]
        one = wp.identity(n=3, dtype=float)
        p = Particle()
        p.x, p.v, p.affine = x, v, c
        p.stress = -dt * (2.0 * 50.0 * (f - r) * wp.transpose(f) + 70.0 * j * (j - 1.0) * one)
        return p

    @wp.kernel
    def p2g(
        x: wp.array[wp.vec3],
        v: wp.array[wp.vec3],
        c: wp.array[wp.mat33],
        f: wp.array[wp.mat33],
        dt: float,
        momenta: wp.array3d[wp.vec3],
        masses: wp.array3d[float],
    ):
        i = wp.tid()
        p = moved(x[i], v[i], c[i], f[i], dt)
        q = p.x * 10.0
        base = wp.vec3(wp.floor(q[0] - 0.5), wp.floor(q[1] - 0.5), wp.floor(q[2] - 0.5))
        d = q - base
        w0 = 0.5 * wp.cw_mul(wp.vec3(1.5) - d, wp.vec3(1.5) - d)
        w1 = wp.vec3(0.75) - wp.cw_mul(d - wp.vec3(1.0), d - wp.vec3(1.0))
        w2 = 0.5 * wp.cw_mul(d - wp.vec3(0.5), d - wp.vec3(0.5))
        w = wp.matrix_from_rows(w0, w1, w2)
        for a in range(3):
            for b in range(3):
                for k in range(3):
                    weight = w[a, 0] * w[b, 1] * w[k, 2]
                    offset = (wp.vec3(float(a), float(b), float(k)) - d) * 0.1
                    momentum = weight * (p.v + (p.affine + p.stress) * offset)
                    wp.atomic_add(momenta, int(base[0]) + a, int(base[1]) + b, int(base[2]) + k, momentum)
                    wp.atomic_add(masses, int(base[0]) + a, int(base[1]) + b, int(base[2]) + k, weight)

    return p2g


def _mpm() -> tuple[Any, Any]:
    """The grid's step, and the transfer from the grid to particles."""
    import jwarp as wp

    @wp.kernel
    def grid(momenta: wp.array3d[wp.vec3], masses: wp.array3d[float], dt: float, velocities: wp.array3d[wp.vec3]):
        i, j, k = wp.tid()
        mass = masses[i, j, k]
        v = wp.vec3()
        if mass > 0.0:
            v = momenta[i, j, k] / mass - wp.vec3(0.0, dt * 9.8, 0.0)
            if (i < 3 and v[0] < 0.0) or (i >= masses.shape[0] - 3 and v[0] > 0.0):
                v[0] = 0.0
            if (j < 3 and v[1] < 0.0) or (j >= masses.shape[1] - 3 and v[1] > 0.0):
                v[1] = 0.0
            if (k < 3 and v[2] < 0.0) or (k >= masses.shape[2] - 3 and v[2] > 0.0):
                v[2] = 0.0
        velocities[i, j, k] = v

    @wp.kernel
    def back(
        x: wp.array[wp.vec3],
        f: wp.array[wp.mat33],
        velocities: wp.array3d[wp.vec3],
        dt: float,
        new_x: wp.array[wp.vec3],
        new_v: wp.array[wp.vec3],
        new_c: wp.array[wp.mat33],
        new_f: wp.array[wp.mat33],
    ):
        p = wp.tid()
        q = x[p] * 10.0
        base = wp.vec3(wp.floor(q[0] - 0.5), wp.floor(q[1] - 0.5), wp.floor(q[2] - 0.5))
        d = q - base
        w0 = 0.5 * wp.cw_mul(wp.vec3(1.5) - d, wp.vec3(1.5) - d)
        w1 = wp.vec3(0.75) - wp.cw_mul(d - wp.vec3(1.0), d - wp.vec3(1.0))
        w2 = 0.5 * wp.cw_mul(d - wp.vec3(0.5), d - wp.vec3(0.5))
        w = wp.matrix_from_rows(w0, w1, w2)
        v = wp.vec3()
        c = wp.mat33()
        for a in range(3):
            for b in range(3):
                for k in range(3):
                    weight = w[a, 0] * w[b, 1] * w[k, 2]
                    g = weight * velocities[int(base[0]) + a, int(base[1]) + b, int(base[2]) + k]
                    v += g
                    c += 40.0 * wp.outer(g, wp.vec3(float(a), float(b), float(k)) - d)
        new_v[p] = v
        new_c[p] = c
        new_x[p] = x[p] + dt * v
        new_f[p] = (wp.identity(n=3, dtype=float) + dt * c) * f[p]

    return grid, back


def _mpm_small() -> tuple[Any, Any]:
    """Kernels with the same parameters."""
    import jwarp as wp

    @wp.kernel
    def grid_small(momenta: wp.array3d[wp.vec3], masses: wp.array3d[float], dt: float, velocities: wp.array3d[wp.vec3]):
        i, j, k = wp.tid()
        velocities[i, j, k] = momenta[i, j, k] * masses[i, j, k] * dt

    @wp.kernel
    def back_small(
        x: wp.array[wp.vec3],
        f: wp.array[wp.mat33],
        velocities: wp.array3d[wp.vec3],
        dt: float,
        new_x: wp.array[wp.vec3],
        new_v: wp.array[wp.vec3],
        new_c: wp.array[wp.mat33],
        new_f: wp.array[wp.mat33],
    ):
        p = wp.tid()
        v = velocities[p % 3, 0, 0]
        new_x[p] = x[p]
        new_v[p] = v * x[p][0]
        new_c[p] = wp.outer(v, v) * dt
        new_f[p] = f[p] * x[p][0]

    return grid_small, back_small


def _p2g_small() -> Any:
    import jwarp as wp

    @wp.kernel
    def p2g_small(
        x: wp.array[wp.vec3],
        v: wp.array[wp.vec3],
        c: wp.array[wp.mat33],
        f: wp.array[wp.mat33],
        dt: float,
        momenta: wp.array3d[wp.vec3],
        masses: wp.array3d[float],
    ):
        i = wp.tid()
        wp.atomic_add(momenta, 0, 0, 0, c[i] * x[i] + f[i] * v[i])
        wp.atomic_add(masses, 0, 0, 0, x[i][0] * dt)

    return p2g_small


if __name__ == "__main__":
    main()
