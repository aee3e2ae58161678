"""A photograph as a small neural network: from the position of a pixel to its colour
==================================================================================

The network is a multi-layer perceptron on sines and cosines of the coordinates. One fused kernel computes it for a
tile of pixels at a time, and the squared error of each tile. The weights are read as tiles, too, and the layers are
products of tiles. The adjoint, which is compiled only for `jax.grad`, has the products for the gradients. Adam, from
optax, updates the weights.

To run it::

    python examples/tile_mlp.py                 # writes tile_mlp.png
    python examples/tile_mlp.py --quick         # a small picture, a few steps

Needs matplotlib (the photograph is one of its samples), optax and tqdm.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib import cbook
from matplotlib.image import imread

import drawing
import jwarp as wp
from drawing.photograph import draw

EDGE = 8
PIXELS = EDGE * EDGE  # of a tile
FEATURES = 128  # sines and cosines of the coordinates
HIDDEN = 64
COLOURS = 3
LANES = 64  # threads of a block

Weights = dict[str, jax.Array]
LAYERS = {"1": (FEATURES, HIDDEN), "2": (HIDDEN, HIDDEN), "3": (HIDDEN, COLOURS)}


@wp.func
def relu(x: float):
    return wp.max(x, 0.0)


@wp.kernel
def paint(
    features: wp.array2d[float],
    wanted: wp.array2d[float],
    w1: wp.array2d[float],
    b1: wp.array[float],
    w2: wp.array2d[float],
    b2: wp.array[float],
    w3: wp.array2d[float],
    b3: wp.array[float],
    colours: wp.array2d[float],
    misses: wp.array[float],
):
    block = wp.tid()
    row = block * PIXELS
    x = wp.tile_load(features, shape=(PIXELS, FEATURES), offset=(row, 0))
    first = wp.tile_broadcast(wp.tile_load(b1, shape=HIDDEN), shape=(PIXELS, HIDDEN))
    h = wp.tile_map(relu, wp.tile_matmul(x, wp.tile_load(w1, shape=(FEATURES, HIDDEN))) + first)
    second = wp.tile_broadcast(wp.tile_load(b2, shape=HIDDEN), shape=(PIXELS, HIDDEN))
    h = wp.tile_map(relu, wp.tile_matmul(h, wp.tile_load(w2, shape=(HIDDEN, HIDDEN))) + second)
    third = wp.tile_broadcast(wp.tile_load(b3, shape=COLOURS), shape=(PIXELS, COLOURS))
    y = wp.tile_matmul(h, wp.tile_load(w3, shape=(HIDDEN, COLOURS))) + third
    wp.tile_store(colours, y, offset=(row, 0))
    miss = y - wp.tile_load(wanted, shape=(PIXELS, COLOURS), offset=(row, 0))
    wp.tile_store(misses, wp.tile_sum(wp.tile_map(wp.mul, miss, miss)), offset=block)


@dataclass(frozen=True)
class Picture:
    """Pixels in rows: their features, and their colours from 0 to 1."""

    height: int
    width: int
    features: np.ndarray
    colours: np.ndarray

    @property
    def blocks(self) -> int:
        return len(self.colours) // PIXELS


@dataclass(frozen=True)
class Trained:
    """What training gives, and what compiling took."""

    colours: np.ndarray
    losses: np.ndarray
    forward: list[wp.CompileEvent]
    adjoint: list[wp.CompileEvent]


def photograph(shrink: int) -> Picture:
    """Matplotlib's sample photograph, averaged over squares of `shrink` pixels."""
    with cbook.get_sample_data("grace_hopper.jpg") as file:
        image = np.asarray(imread(file, format="jpg"), np.float32)[..., :COLOURS] / 255.0
    # Whole tiles: a pixel outside of the picture has no colour to miss.
    height, width = (n // shrink // EDGE * EDGE for n in image.shape[:2])
    image = image[: height * shrink, : width * shrink].reshape(height, shrink, width, shrink, COLOURS).mean((1, 3))
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    # Random frequencies let a small network draw what is fine: Tancik et al., "Fourier features", 2020.
    waves = np.random.default_rng(0).normal(0, 7.0, (2, FEATURES // 2))
    phases = np.stack([x.ravel(), y.ravel()], 1) @ waves
    features = np.concatenate([np.sin(phases), np.cos(phases)], 1)
    return Picture(height, width, features.astype(np.float32), image.reshape(-1, COLOURS))


def initial_weights(seed: int = 1) -> Weights:
    """Random layers, scaled by the number of their inputs."""
    random = np.random.default_rng(seed)
    weights = {f"w{k}": random.normal(0, np.sqrt(2 / shape[0]), shape) for k, shape in LAYERS.items()}
    biases = {f"b{k}": np.zeros(shape[1]) for k, shape in LAYERS.items()}
    return {name: jnp.asarray(x, jnp.float32) for name, x in (weights | biases).items()}


def run(weights: Weights, picture: Picture) -> tuple[jax.Array, jax.Array]:
    """The colours of all pixels, and the squared miss of each tile."""
    layers = [weights[kind + k] for k in LAYERS for kind in "wb"]
    outputs = [picture.colours.shape, picture.blocks]
    inputs = [picture.features, picture.colours, *layers]
    colours, misses = wp.launch_tiled(paint, dim=[picture.blocks], inputs=inputs, outputs=outputs, block_dim=LANES)
    return colours, misses


def loss(weights: Weights, picture: Picture) -> jax.Array:
    """The mean squared miss of a colour."""
    return run(weights, picture)[1].sum() / picture.colours.size


def train(picture: Picture, steps: int, rate: float = 1e-2) -> Trained:
    """Compile forward, then forward and adjoint, and follow the gradients."""
    weights = initial_weights()
    with wp.record_compiles() as forward:
        jax.jit(partial(loss, picture=picture)).lower(weights).compile()
    optimiser = optax.adam(optax.cosine_decay_schedule(rate, steps))

    @jax.jit
    def step(weights: Weights, state: optax.OptState) -> tuple[Weights, optax.OptState, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(weights, picture)
        updates, state = optimiser.update(gradient, state)
        return optax.apply_updates(weights, updates), state, value

    state = optimiser.init(weights)
    with wp.record_compiles() as adjoint:
        step.lower(weights, state).compile()
    losses = []
    for _ in drawing.progress(range(steps), desc="train", unit=" steps"):
        weights, state, value = step(weights, state)
        losses.append(value)
    colours = np.asarray(run(weights, picture)[0])
    return Trained(colours, np.asarray(jnp.stack(losses)), list(forward), list(adjoint))


def report(events: list[wp.CompileEvent]) -> str:
    return ", ".join(f"{e.variant} {e.seconds * 1e3:.0f} ms {e.bytes} B ({e.source})" for e in events)


def main(quick: bool = False, out: Path = Path("tile_mlp.png")) -> Trained:
    picture = photograph(12 if quick else 4)
    start = time.perf_counter()
    trained = train(picture, 40 if quick else 800)
    took = time.perf_counter() - start
    for name, events in (("forward", trained.forward), ("forward and adjoint", trained.adjoint)):
        print(f"{name}: {sum(e.seconds for e in events) * 1e3:.0f} ms, {sum(e.bytes for e in events)} bytes")
        print(f"    {report(events)}")
    error = float(np.mean((np.clip(trained.colours, 0, 1) - picture.colours) ** 2))
    print(f"{picture.height} x {picture.width} pixels, {len(trained.losses)} steps in {took:.1f} s, "
          f"loss {trained.losses[0]:.4f} -> {trained.losses[-1]:.5f}, {-10 * np.log10(error):.1f} dB")  # fmt: skip
    shape = (picture.height, picture.width, COLOURS)
    draw(picture.colours.reshape(shape), trained.colours.reshape(shape), trained.losses, out)
    print(f"wrote {out}")
    return trained


if __name__ == "__main__":
    drawing.run(main, __doc__, "tile_mlp.png")
