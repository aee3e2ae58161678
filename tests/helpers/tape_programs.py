"""Programs with a tape, as Warp's users write them: each returns the gradients that it leaves behind.

With Warp, as `python tests/helpers/tape_programs.py` runs them, the gradients go to `tape_gradients.json`.
"""

import json
import sys
from pathlib import Path

import numpy as np

import jwarp as wp


@wp.struct
class Spring:
    rest: wp.array[float]
    k: float


@wp.kernel
def square(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def scale(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = k * x[i]


@wp.kernel
def total(x: wp.array[float], loss: wp.array[float]):
    wp.atomic_add(loss, 0, x[wp.tid()])


@wp.kernel
def weighted(x: wp.array[float], w: wp.array[float], loss: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(loss, 0, w[i] * x[i])


@wp.kernel(enable_backward=False)
def without(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i]


def loss_of():
    return wp.zeros(1, dtype=float, requires_grad=True)


def in_a_graph_if(is_captured, work):
    """Do some work now, or as a graph that is captured and launched once."""
    if not is_captured:
        work()
        return
    with wp.ScopedCapture() as capture:
        work()
    wp.capture_launch(capture.graph)


@wp.kernel
def parts(x: wp.array[float], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = wp.vec3(2.0 * x[i], 3.0 * x[i], x[i] * x[i])


@wp.kernel
def rows(a: wp.array2d[wp.vec3], b: wp.array2d[wp.vec3], c: wp.array2d[wp.vec3]):
    i = wp.tid()
    c[i, 0] = a[i, 0] + wp.cw_mul(b[i, 0], a[i, 1])


@wp.kernel
def stretched(x: wp.array[float], s: Spring, y: wp.array[float]):
    i = wp.tid()
    y[i] = s.k * (x[i] - s.rest[i])


@wp.kernel
def doubled_in_place(x: wp.array[float]):
    i = wp.tid()
    x[i] = 2.0 * x[i]


def numbers(seed, n, **named):
    return wp.array(np.random.default_rng(seed).uniform(0.5, 1.5, n).astype(np.float32), dtype=float, **named)


def chain():
    """A loss of two launches, by way of an array that is written once."""
    x, y = numbers(0, 5, requires_grad=True), wp.zeros(5, dtype=float, requires_grad=True)
    w, loss = numbers(1, 5, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 5, inputs=[x], outputs=[y])
        wp.launch(weighted, 5, inputs=[y, w], outputs=[loss])
    tape.backward(loss)
    return {"x": x.grad, "y": y.grad, "w": w.grad, "loss": loss.grad}


def retained():
    """The gradients of intermediate arrays."""
    x = numbers(0, 4, requires_grad=True)
    y = wp.zeros(4, dtype=float, requires_grad=True, retain_grad=True)
    z = wp.zeros(4, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 4, inputs=[x], outputs=[y])
        wp.launch(scale, 4, inputs=[y, 3.0], outputs=[z])
        wp.launch(total, 4, inputs=[z, loss])
    tape.backward(loss)
    return {"x": x.grad, "y": y.grad, "z": z.grad}


def from_vectors():
    """Gradients of vectors are given."""
    x, y = numbers(2, 3, requires_grad=True), wp.zeros(3, dtype=wp.vec3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(parts, 3, inputs=[x], outputs=[y])
    g = np.random.default_rng(3).uniform(size=(3, 3)).astype(np.float32)
    tape.backward(grads={y: wp.array(g, dtype=wp.vec3)})
    return {"x": x.grad, "y": y.grad, "of x": tape.gradients[x]}


def given_by_hand():
    """`grad` is set before, and backward is called without arguments; rows of matrices of vectors."""
    make = np.random.default_rng(4)
    a, b = (wp.array(make.uniform(size=(2, 2, 3)).astype(np.float32), dtype=wp.vec3, requires_grad=True) for _ in "ab")
    c = wp.zeros((2, 1), dtype=wp.vec3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(rows, 2, inputs=[a, b], outputs=[c])
    c.grad = wp.full((2, 1), value=1.0, dtype=wp.vec3)
    tape.backward()
    return {"a": a.grad, "b": b.grad}


def twice():
    """Two backward passes add up where nothing was overwritten; zero begins anew."""
    x, y = numbers(5, 4, requires_grad=True), wp.zeros(4, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 4, inputs=[x], outputs=[y])
        wp.launch(total, 4, inputs=[y, loss])
    tape.backward(loss)
    tape.backward(loss)
    added = wp.clone(x.grad)
    tape.zero()
    tape.backward(loss)
    return {"added": added, "x": x.grad}


def copied():
    """A copy, of a part, and a clone."""
    x, y = numbers(6, 6, requires_grad=True), wp.zeros(4, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.copy(y, x, dest_offset=1, src_offset=2, count=3)
        z = wp.clone(y)
        wp.launch(weighted, 4, inputs=[z, y, loss])
    tape.backward(loss)
    return {"x": x.grad, "y": y.grad, "z": z.grad}


def views():
    """Launches on slices: their gradients are slices, too."""
    x, y = numbers(7, 8, requires_grad=True), wp.zeros((2, 4), dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 4, inputs=[x[:4]], outputs=[y[0]])
        wp.launch(scale, 4, inputs=[x[2:6], 2.0], outputs=[y[1]])
        wp.launch(weighted, 4, inputs=[y[0], y[1], loss])
        wp.launch(total, 8, inputs=[y.flatten(), loss])
    tape.backward(loss)
    return {"x": x.grad, "y": y.grad}


def structs():
    """An array in a struct has a gradient."""
    s = Spring()
    s.rest, s.k = numbers(8, 4, requires_grad=True), 3.0
    x, y = numbers(9, 4, requires_grad=True), wp.zeros(4, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(stretched, 4, inputs=[x, s], outputs=[y])
        wp.launch(weighted, 4, inputs=[y, x, loss])
    tape.backward(loss)
    return {"x": x.grad, "rest": s.rest.grad}


def by_function():
    """A function that goes back itself."""
    x, y = numbers(10, 4, requires_grad=True), wp.zeros(4, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        y.assign(np.sin(x.numpy()))

        def back():
            x.grad.assign(x.grad.numpy() + np.cos(x.numpy()) * y.grad.numpy())

        tape.record_func(back, [x, y])
        wp.launch(weighted, 4, inputs=[y, x, loss])
    tape.backward(loss)
    return {"x": x.grad}


def unrecorded():
    """A launch that is not recorded, and an array that has no gradient."""
    x, y = numbers(11, 4, requires_grad=True), wp.zeros(4, dtype=float)
    z, loss = wp.zeros(4, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 4, inputs=[x], outputs=[y])
        wp.launch(weighted, 4, inputs=[y, x, loss])
        wp.launch(scale, 4, inputs=[x, 2.0], outputs=[z], record_tape=False)
    tape.backward(loss)
    return {"x": x.grad, "z": z.grad}


def adjoint_launch():
    """The adjoint of a launch, asked for by hand: through `grad`, and into other arrays."""
    x, y = numbers(12, 4, requires_grad=True), wp.zeros(4, dtype=float, requires_grad=True)
    wp.launch(square, 4, inputs=[x], outputs=[y])
    y.grad.fill_(2.0)
    wp.launch(square, 4, inputs=[x], outputs=[y], adj_inputs=[None], adj_outputs=[None], adjoint=True)
    mine, given = wp.zeros(4, dtype=float), wp.full(4, 3.0, dtype=float)
    wp.launch(square, 4, inputs=[x], outputs=[y], adj_inputs=[mine], adj_outputs=[given], adjoint=True)
    return {"x": x.grad, "y": y.grad, "mine": mine, "given": given}


LIKE_WARP = (
    chain, retained, from_vectors, given_by_hand, twice, copied, views, structs, by_function, unrecorded,
    adjoint_launch,
)  # fmt: skip

GRADIENTS = Path(__file__).with_name("tape_gradients.json")

if __name__ == "__main__":
    import tempfile

    from loaded_as_warp import module_of_warp

    with tempfile.TemporaryDirectory() as folder:
        import warp

        module = module_of_warp(sys.modules["__main__"], folder)
        warp.set_module_options({"enable_backward": True}, module)
        found = {f.__name__: {name: a.numpy().tolist() for name, a in f().items()} for f in module.LIKE_WARP}
    GRADIENTS.write_text(json.dumps(found, indent=1) + "\n")
