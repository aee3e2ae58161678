"""A loss written in CUDA C++, with its adjoint, as a JAX function: it trains eight classifiers at once
====================================================================================================

`softmax_cross_entropy.cu` has two kernels: the fused loss of a classifier, which reads the logits once where XLA
reads them several times, and its adjoint. `wp.cuda_kernel` registers both, with JAX functions that compute the same
on the CPU. The result is an ordinary JAX function: for `jax.jit`, `jax.grad`, and `jax.vmap` over eight networks that
learn to separate the arms of a spiral, with one launch for all. Before training, the program compares the loss and
its gradient with JAX's own. Without a GPU, the JAX functions run, and the kernels are still compiled for four
generations of GPUs: the program prints the resources that they need.

To run it::

    python examples/handwritten_cuda.py               # writes handwritten_cuda.png
    python examples/handwritten_cuda.py --quick       # a few seconds

Needs matplotlib, optax and tqdm; to compile without a GPU, `pip install 'jwarp[cuda-compile]'`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import drawing
import jwarp as wp
from drawing.spirals import draw, spiral

SOURCE = Path(__file__).with_name("softmax_cross_entropy.cu")
BLOCK = 128
Logits, Labels, Rows = wp.array2d[float], wp.array[int], wp.array[float]


def losses_on_cpu(logits, labels):
    """What the kernel computes, for machines without a GPU."""
    log_sums = jax.nn.logsumexp(logits, axis=1)
    chosen = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return log_sums - chosen, log_sums


def adjoint_on_cpu(logits, labels, log_sums, adj_losses, adj_log_sums):
    softmax = jnp.exp(logits - log_sums[:, None])
    chosen = jax.nn.one_hot(labels, logits.shape[1])
    return softmax * (adj_losses + adj_log_sums)[:, None] - chosen * adj_losses[:, None]


# An adjoint takes what it needs of the inputs and results by their names, and a cotangent for each result.
adjoint = wp.cuda_kernel(
    SOURCE,
    "softmax_cross_entropy_adjoint<float>",
    {"logits": Logits, "labels": Labels, "log_sums": Rows}
    | {"adj_losses": Rows, "adj_log_sums": Rows, "adj_logits": Logits},
    outputs=["adj_logits"],
    cpu=adjoint_on_cpu,
    block_dim=BLOCK,
    grid=lambda dim: dim[0],
)
kernel = wp.cuda_kernel(
    SOURCE,
    "softmax_cross_entropy<float>",
    {"logits": Logits, "labels": Labels, "losses": Rows, "log_sums": Rows},
    outputs=["losses", "log_sums"],
    adjoint=adjoint,
    cpu=losses_on_cpu,
    block_dim=BLOCK,
    grid=lambda dim: dim[0],  # a block to each row
)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """The loss of each row."""
    rows = logits.shape[0]
    losses, _ = wp.launch(kernel, rows, [logits, labels], [rows, rows])
    return losses


# What it is compared with


@dataclass(frozen=True)
class Errors:
    """The largest differences from JAX's own operations, of the loss and of its gradient."""

    loss: float
    gradient: float


def compare(rows: int, classes: int) -> Errors:
    """The kernels' loss and gradient beside JAX's, for random logits."""
    random = np.random.default_rng(0)
    logits = jnp.asarray(3.0 * random.normal(size=(rows, classes)), jnp.float32)
    labels = jnp.asarray(random.integers(0, classes, rows), jnp.int32)
    weights = jnp.asarray(random.normal(size=rows), jnp.float32)

    def value_and_gradient(loss):
        return jax.jit(jax.value_and_grad(lambda logits: weights @ loss(logits, labels)))(logits)

    own, own_gradient = value_and_gradient(cross_entropy)
    other, other_gradient = value_and_gradient(optax.softmax_cross_entropy_with_integer_labels)
    return Errors(float(abs(own - other) / abs(other)), float(jnp.abs(own_gradient - other_gradient).max()))


def compiled() -> dict[str, str]:
    """What each kernel takes on four generations of GPUs; nothing where nothing compiles for GPUs."""
    try:
        return {k.name: wp.inspect(k, "resources") for k in (kernel, adjoint)}
    except wp.LaunchError as error:
        print(f"not compiled for GPUs: {error}")
        return {}


# Eight networks

ARMS, HIDDEN = 4, 32


def network(key: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
    """Weights and biases of three layers."""
    sizes = (2, HIDDEN, HIDDEN, ARMS)
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        (jax.random.normal(k, (a, b)) * jnp.sqrt(2.0 / a), jnp.zeros(b))
        for k, a, b in zip(keys, sizes, sizes[1:], strict=False)
    ]


def logits_of(layers: list[tuple[jax.Array, jax.Array]], places: jax.Array) -> jax.Array:
    *hidden, (weights, bias) = layers
    for inner, shift in hidden:
        places = jnp.tanh(places @ inner + shift)
    return places @ weights + bias


@dataclass(frozen=True)
class Training:
    """The mean loss of each network before each step (networks, steps), and all networks after the last."""

    losses: np.ndarray
    networks: list[tuple[jax.Array, jax.Array]]
    accuracy: float  # of the networks together, on points that none has seen


def train(networks: int, points: int, steps: int) -> Training:
    """Train several networks at once: `jax.vmap` makes one launch of the losses of all, and one of the adjoints."""
    places, arms = spiral(ARMS, points)
    optimizer = optax.adam(0.01)

    def loss(layers):
        return cross_entropy(logits_of(layers, places), arms).mean()

    @jax.jit
    @jax.vmap
    def step(layers, state):
        value, slope = jax.value_and_grad(loss)(layers)
        change, state = optimizer.update(slope, state)
        return optax.apply_updates(layers, change), state, value

    layers = jax.vmap(network)(jax.random.split(jax.random.key(0), networks))
    state, values = jax.vmap(optimizer.init)(layers), []
    for _ in drawing.progress(range(steps), desc="train", unit=" steps"):
        layers, state, value = step(layers, state)
        values.append(value)
    unseen, truth = spiral(ARMS, 4000, seed=2)
    guess = probabilities(layers, unseen).argmax(-1)
    return Training(np.stack(values, axis=1), layers, float((guess == truth).mean()))


@jax.jit
def probabilities(layers, places) -> jax.Array:
    """What the networks believe together."""
    return jax.nn.softmax(jax.vmap(logits_of, (0, None))(layers, places)).mean(0)


def main(quick: bool = False, out: Path = Path("handwritten_cuda.png")) -> tuple[Errors, dict[str, str], Training]:
    """Compare, compile for GPUs, train, draw."""
    print(f"runs on {jax.default_backend()}")
    errors = compare(512, 1000)
    print(f"beside JAX's own: loss {errors.loss:.1e} off (relative), gradient {errors.gradient:.1e} (largest)")
    if errors.loss > 1.0e-5 or errors.gradient > 1.0e-5:
        raise RuntimeError("the kernels compute something else")
    resources = compiled()
    for name, text in resources.items():
        print(name, *text.splitlines(), sep="\n  ")
    points, steps = (400, 60) if quick else (1500, 800)
    found = train(8, points, steps)
    first, last = found.losses[:, 0].mean(), found.losses[:, -1].mean()
    print(f"mean loss of 8 networks: {first:.3f} before, {last:.3f} after {steps} steps")
    print(f"together they are right for {found.accuracy:.1%} of points that they have not seen")
    draw(found, spiral(ARMS, points), lambda places: probabilities(found.networks, places), out)
    print(f"wrote {out}")
    return errors, resources, found


if __name__ == "__main__":
    drawing.run(main, __doc__, "handwritten_cuda.png")
