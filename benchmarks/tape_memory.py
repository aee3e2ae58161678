"""What a `wp.Tape` keeps: bytes for each launch that overwrites its array, and what recording and going back take.

python benchmarks/tape_memory.py [--size 1000000] [--steps 20]
"""

import argparse
import time

import numpy as np

import jwarp as wp


@wp.kernel
def scaled(x: wp.array[float], k: float):
    i = wp.tid()
    x[i] = k * x[i]


@wp.kernel
def bent(x: wp.array[float], k: float):
    i = wp.tid()
    x[i] = x[i] + k * wp.sin(x[i])


@wp.kernel
def moved(x: wp.array[float], v: wp.array[float], k: float):
    i = wp.tid()
    x[i] = x[i] + k * v[i]


@wp.kernel
def pulled(x: wp.array[float], v: wp.array[float], k: float):
    i = wp.tid()
    v[i] = v[i] - k * wp.sin(x[i])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=20)
    given = parser.parse_args()
    n, steps = given.size, given.steps
    programs = {
        "x = k x": lambda x, v: wp.launch(scaled, n, inputs=[x, 0.9]),
        "x = x + k sin x": lambda x, v: wp.launch(bent, n, inputs=[x, 0.1]),
        "v -= k sin x; x += k v": lambda x, v: (
            wp.launch(pulled, n, inputs=[x, v, 0.1]), wp.launch(moved, n, inputs=[x, v, 0.1]),
        ),
    }  # fmt: skip
    print(f"arrays of {4 * n / 1e6:.1f} MB, {steps} steps that overwrite them")
    print(f"{'program':26} {'kept, MB':>9} {'arrays':>7} {'run, ms':>9} {'recorded':>9} {'backward':>9}")
    for name, step in programs.items():
        for _ in range(2):  # the second time, everything is compiled
            x, v = (wp.array(np.linspace(0, 1, n), dtype=float, requires_grad=True) for _ in range(2))
            times = [time.perf_counter()]
            for _ in range(steps):
                step(x, v)
            times.append(time.perf_counter())
            with wp.Tape() as tape:
                for _ in range(steps):
                    step(x, v)
            times.append(time.perf_counter())
            tape.backward(grads={x: wp.ones(n, dtype=float)})
            times.append(time.perf_counter())
        handles = [k for entry in tape.launches for k in entry.kept.values() if k.is_saved]
        kept = {id(k.array().base): k.array().nbytes for k in handles}
        run, recorded, backward = (1e3 * t for t in np.diff(times))
        arrays = sum(kept.values()) / (4 * n)
        print(f"{name:26} {sum(kept.values()) / 1e6:9.1f} {arrays:7.1f} {run:9.1f} {recorded:9.1f} {backward:9.1f}")


if __name__ == "__main__":
    main()
