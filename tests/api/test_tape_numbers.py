"""Numbers, vectors and structs given to a launch on a tape count in the backward pass as they were at the launch."""

import numpy as np
import pytest

import jwarp as wp

pytestmark = pytest.mark.quick


@wp.struct
class Weights:
    scale: float
    parts: wp.vec2


@wp.kernel
def scaled(x: wp.array[float], s: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i] * s


@wp.kernel
def scaled_by_vector(x: wp.array[float], s: wp.vec2, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i] * s[0]


@wp.kernel
def scaled_by_struct(x: wp.array[float], s: Weights, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i] * (s.scale * s.parts[0])


@wp.struct
class WeightsOfAGrid:
    parts: wp.vec2
    grid: wp.uint64


@wp.kernel
def scaled_with_a_grid(x: wp.array[float], s: WeightsOfAGrid, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i] * s.parts[0] + 0.0 * float(wp.hash_grid_point_id(s.grid, 0))


def _changing(kind):
    """A kernel, a number for it that is 2 and whose owner may change it, and a function that does."""
    if kind == "number":
        number = np.array(2.0, np.float32)
        return scaled, number, lambda: number.fill(7.0)
    if kind == "vector":
        vector = wp.vec2(2.0, 3.0)
        return scaled_by_vector, vector, lambda: vector.fill(7.0)
    if kind == "list":
        numbers = [2.0, 3.0]
        return scaled_by_vector, numbers, lambda: numbers.__setitem__(0, 7.0)
    if kind == "memory of an array":
        memory = wp.full(2, 2.0, dtype=float)
        return scaled, memory.numpy()[:1].reshape(()), lambda: memory.fill_(7.0)
    if kind == "struct with a grid":
        grid, both = wp.HashGrid(4, 4, 4), WeightsOfAGrid()
        grid.build(wp.zeros(3, dtype=wp.vec3), 0.5)
        both.parts, both.grid = wp.vec2(2.0, 1.0), grid.id
        return scaled_with_a_grid, both, lambda: both.parts.fill(7.0)
    weights = Weights()
    weights.scale, weights.parts = 2.0, wp.vec2(1.0, 2.0)

    def change():
        weights.scale, weights.parts[0] = 5.0, 5.0

    return scaled_by_struct, weights, change


@pytest.mark.parametrize("kind", ["number", "vector", "list", "memory of an array", "struct", "struct with a grid"])
@pytest.mark.parametrize("way", ["now", "graph", "record"])
def test_numbers_are_what_they_were_when_the_launch_was_recorded(kind, way):
    kernel, number, change = _changing(kind)
    x, y = wp.array([1.0, -2.0, 3.0], dtype=float, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    tape = wp.Tape()

    def forward():
        with tape:
            if way == "record":
                wp.launch(kernel, 3, [x, number, y], record_cmd=True).launch()
            else:
                wp.launch(kernel, 3, [x, number, y])

    def backward():
        tape.backward(grads={y: wp.ones(3, dtype=float)})

    if way == "graph":
        with wp.ScopedCapture() as capture:
            tape.reset()
            forward()
            backward()
        change()
    for _ in range(3):
        x.grad.zero_()
        if way == "graph":
            wp.capture_launch(capture.graph)
        else:
            tape.reset()
            forward()
            change()
            backward()
            kernel, number, change = _changing(kind)
        np.testing.assert_allclose(y.numpy(), 2.0 * np.array([1.0, 4.0, 9.0]))
        np.testing.assert_allclose(x.grad.numpy(), 4.0 * x.numpy())


def test_a_vector_that_was_set_in_a_record_counts_as_it_was_then():
    x, y = wp.array([1.0, -2.0, 3.0], dtype=float, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    vector = wp.vec2(1.0, 1.0)
    record = wp.launch(scaled_by_vector, 3, [x, wp.vec2(), y], record_cmd=True)
    record.launch()
    for k in range(1, 4):
        vector[0] = k
        record.set_param_by_name("s", vector)
        vector[0] = 99.0
        x.grad.zero_()
        with wp.Tape() as tape:
            record.launch()
        tape.backward(grads={y: wp.ones(3, dtype=float)})
        np.testing.assert_allclose(y.numpy(), k * x.numpy() ** 2)
        np.testing.assert_allclose(x.grad.numpy(), 2.0 * k * x.numpy())
