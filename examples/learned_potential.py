"""A learned pair potential next to Lennard-Jones, in one kernel, trained through 200 steps of dynamics
====================================================================================================

Atoms in a periodic box interact by Lennard-Jones, and by an unknown force: here a shallow well at one and a half
diameters. All we have are films of their motion. Can a small network learn the missing force from them?

The physics is a loop over neighbours, as in any simulation. The network is an ordinary equinox module, called inside
this loop. `wp.jax_func` makes the `jax.numpy` function around the module callable in the kernel, where it becomes
machine code. The force is `jax.grad` of the energy, taken in the kernel. The gradient of the loss with respect to the
weights goes back through all 200 steps, and optax updates the weights.

To run it: `python examples/learned_potential.py` writes learned_potential.png, `--quick` trains for a few seconds.
Needs equinox, matplotlib, optax and tqdm.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure
from tqdm import tqdm

import jwarp as wp

CUTOFF, SKIN = 2.5, 0.5  # in diameters of an atom, as all lengths; energies are in depths of Lennard-Jones
DT, STEPS, FRAME = 0.005, 200, 10  # a film shows every tenth step
SIDE, BOX = 6, 6.9  # rows of atoms and atoms in a row; the side of the box
WIDTH, MOST = 8, 28  # of the network; neighbours within the cutoff and the skin


@wp.struct
class Net:
    """The weights of a network 1 - 8 - 8 - 1: matrices are parameters of kernels, so they have gradients."""

    w0: wp.types.matrix((WIDTH, 1), float)
    b0: wp.types.vector(WIDTH, float)
    w1: wp.types.matrix((WIDTH, WIDTH), float)
    b1: wp.types.vector(WIDTH, float)
    w2: wp.types.matrix((1, WIDTH), float)
    b2: wp.types.vector(1, float)


MODULE = eqx.nn.MLP("scalar", 1, WIDTH, 2, activation=jnp.tanh, key=jax.random.key(0))
START, TREE = jax.tree.flatten(eqx.filter(MODULE, eqx.is_array))


def lennard_jones(r):
    return 4.0 * (r**-12 - r**-6)


def learned(r, net):
    """What the network says, switched off smoothly at the cutoff."""
    mlp = eqx.combine(jax.tree.unflatten(TREE, jax.tree.leaves(net)), MODULE)
    return mlp(2.0 * (r - 1.5))[0] * (1.0 - (r / CUTOFF) ** 2) ** 2


def hidden(r):
    """The truth, which training never asks."""
    return -0.6 * jnp.exp(-(((r - 1.5) / 0.2) ** 2))


@wp.jax_func
def modelled_force(r, net):
    return -jax.grad(lambda r: lennard_jones(r) + learned(r, net))(r)


@wp.jax_func
def true_force(r, net):
    return -jax.grad(lambda r: lennard_jones(r) + hidden(r))(r)


def make_forces(pair_force):
    """The kernel of the forces on all atoms, with one or the other law between two of them."""

    @wp.kernel
    def forces(x: wp.array[wp.vec2], neighbours: wp.array2d[int], net: Net, f: wp.array[wp.vec2]):
        i = wp.tid()
        total = wp.vec2()
        for k in range(neighbours.shape[1]):
            j = neighbours[i, k]
            if j >= 0:
                d = x[i] - x[j]
                d = wp.vec2(d[0] - BOX * wp.round(d[0] / BOX), d[1] - BOX * wp.round(d[1] / BOX))
                r = wp.length(d)
                if r < CUTOFF:
                    total += pair_force(r, net) / r * d
        f[i] = total

    forces_fn = wp.jax_kernel(forces)
    return lambda x, neighbours, net: forces_fn(x, neighbours, net)[0]


modelled, true = make_forces(modelled_force), make_forces(true_force)


def film(forces, x, v, neighbours, net):
    """Positions in every tenth of 200 steps of velocity Verlet."""

    def step(state, _):
        x, v, f = state
        x = x + DT * v + 0.5 * DT * DT * f
        after = forces(x, neighbours, net)
        return (x, v + 0.5 * DT * (f + after), after), None

    def frame(state, _):
        state, _ = jax.lax.scan(step, state, length=FRAME)
        return state, state[0]

    return jax.lax.scan(jax.checkpoint(frame), (x, v, forces(x, neighbours, net)), length=STEPS // FRAME)[1]


def filmed(forces, x, v, neighbours, net):
    """Several films at once: `vmap` makes one launch of them."""
    return jax.jit(jax.vmap(lambda *start: film(forces, *start, net)))(x, v, neighbours)


def melt(seed: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Atoms near a lattice, their velocities, and for each one the neighbours that it may meet (-1: none)."""
    rng = np.random.default_rng(seed)
    lattice = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), -1).reshape(-1, 2) + 0.5
    x = BOX / SIDE * lattice + rng.uniform(-0.1, 0.1, (SIDE * SIDE, 2))
    v = rng.normal(0.0, 1.0, x.shape)
    d = x[:, None] - x
    r = np.linalg.norm(d - BOX * np.round(d / BOX), axis=-1) + 1e9 * np.eye(len(x))
    order = np.argsort(r, 1)[:, :MOST]
    near = np.where(np.take_along_axis(r, order, 1) < CUTOFF + SKIN, order, -1)
    return jnp.asarray(x, jnp.float32), jnp.asarray(v - v.mean(0), jnp.float32), jnp.asarray(near, jnp.int32)


def train(rounds: int, films: int) -> tuple[Net, list[float]]:
    """Follow the gradient of how far the atoms are from where the films show them, at all times."""
    net, starts = Net(*START), [jnp.stack(part) for part in zip(*map(melt, range(films)), strict=True)]
    shown = filmed(true, *starts, net)

    def loss(net):
        return 2.0 * jnp.mean((filmed(modelled, *starts, net) - shown) ** 2)

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(0.02, rounds)))

    @jax.jit
    def update(net, state):
        value, gradient = jax.value_and_grad(loss)(net)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(net, updates), state, value

    state, losses = optimizer.init(net), []
    for _ in tqdm(range(rounds), "training"):
        net, state, value = update(net, state)
        losses.append(float(value))
    return net, losses


def error(net: Net, seed: int) -> np.ndarray:
    """How far atoms are from the truth in each frame of a film, on average."""
    start = [part[None] for part in melt(seed)]
    apart = filmed(modelled, *start, net) - filmed(true, *start, net)
    return np.sqrt(np.mean(np.sum(apart**2, -1), -1))[0]


def draw(net: Net, losses: list[float], alone: np.ndarray, helped: np.ndarray, out: Path) -> None:
    """The law that was found, how the loss fell, and how a film goes on that training has not seen."""
    figure = Figure((12, 3.8), layout="constrained")
    law, fall, drift = figure.subplots(1, 3)
    r = jnp.linspace(0.95, CUTOFF, 300)
    law.plot(r, lennard_jones(r), "0.7", label="Lennard-Jones, known")
    law.plot(r, hidden(r), "k--", label="hidden part")
    law.plot(r, jax.vmap(lambda r: learned(r, net))(r), "C3", label="learned from films")
    law.set(xlabel="distance", ylabel="energy", ylim=(-1.2, 1.0), title="the law between two atoms")
    fall.semilogy(losses, "C3")
    fall.set(xlabel="round of training", ylabel="squared distance to the films", title="training")
    times = DT * FRAME * np.arange(1, STEPS // FRAME + 1)
    drift.semilogy(times, alone, "0.7", label="Lennard-Jones alone")
    drift.semilogy(times, helped, "C3", label="with the network")
    drift.set(xlabel="time", ylabel="distance of atoms from the truth", title="a film that training has not seen")
    _ = law.legend(frameon=False), drift.legend(frameon=False)
    figure.savefig(out, dpi=120)


def main(quick: bool = False, out: Path = Path("learned_potential.png")) -> tuple[list[float], np.ndarray, np.ndarray]:
    net, losses = train(rounds=12 if quick else 150, films=2 if quick else 6)
    alone, helped = error(Net(*map(jnp.zeros_like, START)), 100), error(net, 100)
    print(f"loss {losses[0]:.2e} -> {losses[-1]:.2e}")
    print(f"an unseen film, after {STEPS} steps: {alone[-1]:.3f} off without the network, {helped[-1]:.3f} with it")
    draw(net, losses, alone, helped, out)
    return losses, alone, helped


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short training")
    parser.add_argument("--out", type=Path, default=Path("learned_potential.png"))
    main(**vars(parser.parse_args()))
