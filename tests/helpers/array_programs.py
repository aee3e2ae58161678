"""Programs with mutable arrays, for any device: each returns arrays, to be compared with those of the processor."""

from __future__ import annotations

from typing import Any

import numpy as np

import jwarp as wp


@wp.struct
class Spring:
    rest: wp.array[float]
    k: float


@wp.kernel
def stretched(x: wp.array[float], s: Spring, by: wp.vec3, y: wp.array[float]):
    i = wp.tid()
    y[i] = s.k * (x[i] - s.rest[i]) + by[1]


@wp.kernel
def turned(q: wp.array[wp.vec3], m: wp.mat33, n: wp.int8, r: wp.array2d[wp.vec3]):
    i, j = wp.tid()
    r[i, j] = m * q[j] * float(n) + wp.vec3(float(i))


@wp.kernel
def blurred(x: wp.array2d[float], y: wp.array2d[float], total: wp.array[float]):
    i, j = wp.tid()
    s = float(0.0)
    for k in range(-1, 2):
        if 0 <= j + k < x.shape[1]:
            s += x[i, j + k]
    y[i, j] = s / 3.0
    wp.atomic_add(total, i, s)


@wp.kernel
def swapped(x: wp.array[float], n: int):
    i = wp.tid()
    if i < n / 2:
        kept = x[i]
        x[i] = x[n - 1 - i]
        x[n - 1 - i] = kept


@wp.kernel
def smooth(x: wp.array[float], k: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(k * x[i]) * x[i]


@wp.kernel
def grown(x: wp.array[float], y: wp.array[float], n: int):
    i = wp.tid()
    for j in range(n):
        x[i] = x[i] * y[i] + float(j)


@wp.kernel
def weighed(x: wp.array[float], w: wp.array[float], loss: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(loss, 0, w[i] * x[i] * x[i])


@wp.kernel
def counted_down(x: wp.array[float], left: wp.array[int]):
    i = wp.tid()
    x[i] = 0.5 * x[i] + 1.0
    if i == 0:
        left[0] = left[0] - 1


def floats(seed: int, shape: Any) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(np.float32)


def creation(device: Any) -> dict[str, Any]:
    """All ways to make an array."""
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for kind in (wp.float32, wp.float64, wp.float16, wp.int8, wp.uint16, wp.int32, wp.int64, wp.uint64, wp.bool):
        name = str(kind)
        content = rng.integers(0, 100, (3, 5))
        found[f"array {name}"] = wp.array(content, dtype=kind, device=device)
        found[f"full {name}"] = wp.full((2, 3), 1 if kind is wp.bool else 77, dtype=kind, device=device)
        found[f"ones {name}"] = wp.ones(5, dtype=kind, device=device)
        found[f"zeros {name}"] = wp.zeros((4, 1), dtype=kind, device=device)
    found["list"] = wp.array([1.0, 2.5, -3.0], device=device)
    found["vectors"] = wp.array(floats(1, (4, 3)), dtype=wp.vec3, device=device)
    found["matrices"] = wp.full(3, wp.mat22(1.0, 2.0, 3.0, 4.0), dtype=wp.mat22, device=device)
    found["from_numpy"] = wp.from_numpy(floats(2, (4, 3)), device=device)
    found["like"] = wp.ones_like(found["vectors"])
    found["clone"] = wp.clone(found["array float64"])
    found["full_like"] = wp.full_like(found["list"], 2.5)
    found["from an array"] = wp.array(found["list"])
    found["empty"] = wp.zeros(0, dtype=float, device=device)
    for name, a in found.items():
        assert a.device == wp.get_device(device), name
    return found


def copies(device: Any) -> dict[str, Any]:
    """Copies, fills and views of arrays of several layouts."""
    x, y = wp.array(floats(3, 24), device=device), wp.zeros(24, dtype=float, device=device)
    z = wp.array(floats(4, (6, 4)), dtype=float, device=device)
    wp.copy(y, x, dest_offset=3, src_offset=5, count=9)
    y[::7].fill_(8.0)
    z[1:5:2, 1].fill_(-1.0)
    z[2].zero_()
    t = z.transpose().contiguous()
    wp.copy(z[:, 0], x[::4])
    columns = z[:, 2:4].contiguous()
    v = wp.array(floats(5, (5, 3)), dtype=wp.vec3, device=device)
    v[1:3].fill_(wp.vec3(1.0, 2.0, 3.0))
    bits = x.view(wp.int32)
    x[1:9].assign(np.arange(8))
    wp.copy(x[10:20], x[12:22])  # they overlap
    w = wp.empty_like(z)
    w.assign(z)
    there = wp.clone(x, device="cpu").to(device)
    return {"x": x, "y": y, "z": z, "t": t, "columns": columns, "v": v, "bits": bits, "w": w, "there": there}


def launches(device: Any) -> dict[str, Any]:
    """Launches with numbers, vectors, matrices, structs, views, atomics, and an array that is read and written."""
    x = wp.array(floats(6, 10), device=device)
    s = Spring()
    s.rest, s.k = wp.array(floats(7, 10), device=device), 3.0
    y, total = wp.zeros(10, dtype=float, device=device), wp.zeros(4, dtype=float, device=device)
    wp.launch(stretched, 10, inputs=[x, s, wp.vec3(1.0, 2.0, 3.0)], outputs=[y], device=device)
    q = wp.array(floats(8, (5, 3)), dtype=wp.vec3, device=device)
    r = wp.zeros((4, 5), dtype=wp.vec3, device=device)
    m = wp.mat33(*np.arange(9.0))
    wp.launch(turned, (4, 5), inputs=[q, m, -3], outputs=[r], device=device)
    a = wp.array(floats(9, (4, 12)), dtype=float, device=device)
    b = wp.zeros((4, 12), dtype=float, device=device)
    wp.launch(blurred, (4, 6), inputs=[a[:, ::2], b[:, 6:]], outputs=[total])
    wp.launch(swapped, 10, inputs=[x, 10])
    for k in (2.0, 3.0):
        wp.launch(smooth, 3, inputs=[x[1:4], k, y[4:7]])
    record = wp.launch(smooth, 10, inputs=[x, 2.0, y], record_cmd=True, device=device)
    record.set_param_by_name("k", 0.5)
    record.launch()
    record.set_param_by_name("x", s.rest)
    record.launch()
    return {"x": x, "y": y, "r": r, "a": a, "b": b, "total": total, "rest": s.rest}


def repeats(device: Any) -> dict[str, Any]:
    """The same launches again and again, on the same arrays and on others, with numbers and structs that change."""
    x, y, z = (wp.array(floats(seed, 40), device=device) for seed in (1, 2, 3))
    q, r = wp.array(floats(4, (5, 3)), dtype=wp.vec3, device=device), wp.zeros((4, 5), dtype=wp.vec3, device=device)
    spring = Spring()
    for k in range(6):
        spring.rest, spring.k = (x, y)[k % 2], 0.5 * k
        wp.launch(stretched, 40, [z, spring, wp.vec3(0.1 * k, 1.0, 2.0)], [y if k == 4 else x], device=device)
        wp.launch(smooth, 40, [x, 0.3 + k], [z])
        wp.launch(smooth, 30 if k % 3 else 40, [z, np.float32(k)], [y], device=device)
        wp.launch(turned, (4, 5), [q, wp.mat33(*floats(k, 9).tolist()), k], [r], device=device)
        kept = wp.array(y, device=device) if k == 3 else None
        if kept is not None:
            wp.launch(smooth, 40, [kept, 2.0], [x])
    return {"x": x, "y": y, "z": z, "r": r}


def captured(device: Any) -> dict[str, Any]:
    """A graph with a loop, launched twice."""
    x, left = wp.array(floats(10, 6), device=device), wp.zeros(1, dtype=int, device=device)
    y = wp.zeros(6, dtype=float, device=device)

    def body() -> None:
        wp.launch(counted_down, 6, inputs=[x, left], device=device)

    with wp.ScopedCapture(device=device) as capture:
        left.fill_(3)
        wp.capture_while(left, body)
        wp.copy(y, x)
        wp.launch(smooth, 6, inputs=[x, 2.0, y], device=device)
    wp.capture_launch(capture.graph)
    wp.capture_launch(capture.graph)
    return {"x": x, "y": y, "left": left}


def gradients(device: Any) -> dict[str, Any]:
    """A tape with launches on views, arrays that are overwritten, copies, fills, and an array read and written."""
    make = {"requires_grad": True, "device": device}
    x, w = wp.array(floats(11, 8), **make), wp.array(floats(12, 8), **make)
    y, z = wp.zeros(8, dtype=float, **make), wp.zeros(8, dtype=float, **make)
    loss = wp.zeros(1, dtype=float, **make)
    with wp.Tape() as tape:
        wp.launch(smooth, 8, inputs=[x, 2.0, y])
        wp.launch(smooth, 4, inputs=[y[::2], 0.5, z[:4]])
        wp.copy(z[4:], x[2:6])
        wp.launch(grown, 8, inputs=[z, w, 3])
        wp.launch(weighed, 8, inputs=[z, w, loss])
        y.fill_(2.0)
        wp.launch(weighed, 8, inputs=[y, w, loss])
        wp.launch(smooth, 8, inputs=[w, 1.5, y])
    tape.backward(loss)
    once = {"x once": wp.clone(x.grad), "w once": wp.clone(w.grad)}
    tape.zero()
    tape.backward(loss)
    return {"x": x.grad, "w": w.grad, "z": z.grad, "y": y.grad, "loss": loss, **once}


def asked_gradients(device: Any) -> dict[str, Any]:
    """Adjoint launches by hand."""
    x, y = (wp.array(floats(seed, 6), requires_grad=True, device=device) for seed in (13, 14))
    y.grad.fill_(2.0)
    wp.launch(smooth, 6, inputs=[x, 2.0], outputs=[y], adj_inputs=[None, None], adj_outputs=[None], adjoint=True)
    mine, given = wp.zeros(6, dtype=float, device=device), wp.full(6, 3.0, dtype=float, device=device)
    wp.launch(smooth, 6, inputs=[x, 2.0], outputs=[y], adj_inputs=[mine, None], adj_outputs=[given], adjoint=True)
    return {"x": x.grad, "y": y.grad, "mine": mine, "given": given}


PROGRAMS = (creation, copies, launches, repeats, captured, gradients, asked_gradients)


def contents(found: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: a.numpy() for name, a in found.items()}


def compare(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Assert that arrays agree with the processor's, up to the order of sums and the rounding of functions."""
    assert found.keys() == wanted.keys()
    for name, a in found.items():
        x, y = a.numpy(), wanted[name].numpy()
        assert (x.shape, x.dtype) == (y.shape, y.dtype), name
        if x.dtype.kind == "f":
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(x, y, err_msg=name)
