"""Kernels that reach one array by its parameter and by a number see each store wherever they read it next."""

import itertools

import numpy as np
import pytest

import jwarp as wp

ROWS = 20


@pytest.fixture(autouse=True)
def on_host():
    with wp.ScopedDevice("cpu"):
        yield


@wp.struct
class Holder:
    a: wp.array[float]


@wp.func
def first_of(a: wp.array[float], i: int):
    return wp.sin(a[i]) + wp.cos(a[i]) * 0.5 + a[i] * a[i]


# Statements, as a kernel has them of the parameter `a`, of `b`, which is the same array by a number, and of bits `c`.
STEPS = [
    "{x}[i] = {x}[i] * 0.5 + 1.0",
    "s += {x}[i]",
    "s = s * 0.5 + {x}[i]",
    "s += first_of({x}, i)",
    "wp.atomic_add({x}, i, 0.25)",
    "{x}[i] += 0.125 * s",
    "for j in range(3):\n        s += {x}[i]\n        {y}[i] = s * 0.25",
    "for j in range(n):\n        {x}[i] = {y}[i] + 0.5",
    "if {x}[i] > 1.5:\n        {y}[i] = {x}[i] - 1.0",
    "c[i] = c[i] ^ wp.uint32(1 << 21)",
    "d[4 * i + 2] = d[4 * i + 2] ^ wp.uint8(32)",
]
HEAD = """
def {name}(a: wp.array[float], p: wp.array[wp.uint64], h: wp.array[Holder], n: int, o: wp.array[float]):
    i = wp.tid()
    b = wp.array(ptr=p[0], shape=ROWS, dtype=float)
    c = wp.array(ptr=p[0], shape=ROWS, dtype=wp.uint32)
    d = wp.array(ptr=p[0], shape=4 * ROWS, dtype=wp.uint8)
    e = h[0].a
    s = float(0.0)
"""


class Plain:
    """An array as a Python loop has it, of NumPy's scalars."""

    def __init__(self, content):
        self.content = content

    def __getitem__(self, i):
        return self.content[i]

    def __setitem__(self, i, x):
        self.content[i] = x


class Functions:
    """The functions of a kernel as a Python loop calls them, for one thread."""

    uint32, uint8, sin, cos = np.uint32, np.uint8, np.sin, np.cos

    @staticmethod
    def atomic_add(a, i, x):
        a[i] = a[i] + np.float32(x)


def kernel_of(tmp_path, number, rng):
    names = ["a", "b", "e"]
    kinds = rng.integers(len(STEPS), size=8)
    steps = [STEPS[k].format(x=rng.choice(names), y=rng.choice(names)) for k in kinds]
    body = "\n    ".join([*steps, "o[i] = s + a[i] + 10.0 * b[i]", "a[i] = a[i] + 0.5", "o[i] += 100.0 * e[i]"])
    head = HEAD.format(name=f"mixed{number}")
    file = tmp_path / f"mixed{number}.py"
    file.write_text(
        f"import jwarp as wp\nfrom {__name__} import ROWS, Holder, first_of\n\n@wp.kernel{head}    {body}\n"
    )
    scope: dict = {}
    exec(compile(file.read_text(), file, "exec"), scope)
    return scope[f"mixed{number}"], body


def expected(body, x, n):
    content, o = x.copy(), np.zeros(ROWS, np.float32)
    for i in range(ROWS):
        one = Plain(content)
        known = {"i": i, "n": n, "s": np.float32(0), "o": o, "a": one, "b": one, "e": one, "wp": Functions}
        known |= {"c": content.view(np.uint32), "d": content.view(np.uint8)}
        known["first_of"] = lambda a, i: np.sin(a[i]) + np.cos(a[i]) * np.float32(0.5) + a[i] * a[i]
        exec(body.replace("\n    ", "\n"), known)
    return content, o


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("captured", [False, True])
def test_random_kernels_are_a_python_loop(tmp_path, number, captured):
    rng = np.random.default_rng(number + 100 * captured)
    kernel, body = kernel_of(tmp_path, number + 100 * captured, rng)
    x = rng.uniform(0.5, 2, size=ROWS).astype(np.float32)
    wanted, output = expected(body, x, 2)
    a, o = wp.array(x), wp.zeros(ROWS)
    holder = Holder()
    holder.a = a
    given = [a, wp.array([a.ptr], dtype=wp.uint64), wp.array([holder], dtype=Holder), 2, o]
    if captured:
        with wp.ScopedCapture() as capture:
            wp.launch(kernel, ROWS, inputs=given)
        a.assign(x)
        o.zero_()
        wp.capture_launch(capture.graph)
    else:
        wp.launch(kernel, ROWS, inputs=given)
    np.testing.assert_allclose(a.numpy(), wanted, rtol=1e-5, err_msg=body)
    np.testing.assert_allclose(o.numpy(), output, rtol=1e-5, err_msg=body)


@wp.kernel
def squared_there(a: wp.array[float], p: wp.array[wp.uint64], y: wp.array[float]):
    i = wp.tid()
    b = wp.array(ptr=p[0], shape=ROWS, dtype=float)
    b[i] = b[i] + 1.0
    y[i] = a[i] * a[i]


@wp.kernel
def read_there(a: wp.array[float], p: wp.array[wp.uint64], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    b = wp.array(ptr=p[0], shape=ROWS, dtype=float)
    a[i] = a[i] + 1.0
    y[i] = x[i] * b[i]


@pytest.mark.parametrize(("there", "has_gradient"), [*itertools.product([False, True], repeat=2)])
def test_a_derivative_of_both_is_right_or_refused(there, has_gradient):
    x, z = np.random.default_rng(33).uniform(0.5, 2, size=(2, ROWS)).astype(np.float32)
    a, b, y = wp.array(x, requires_grad=has_gradient), wp.array(z), wp.zeros(ROWS, requires_grad=True)
    factor = wp.array(x, requires_grad=True)
    for kernel, moved in ((squared_there, a), (read_there, factor)):
        p = wp.array([a.ptr if there else b.ptr], dtype=wp.uint64)
        a.assign(x)
        b.assign(z)
        with wp.Tape() as tape:
            wp.launch(kernel, ROWS, inputs=[a, p, *([factor] if kernel is read_there else []), y])
        if there:
            with pytest.raises(wp.NotDifferentiableError, match="may be found|may find"):
                tape.backward(grads={y: wp.ones(ROWS)})
        elif kernel is squared_there and not has_gradient:
            tape.backward(grads={y: wp.ones(ROWS)})
        else:
            tape.backward(grads={y: wp.ones(ROWS)})
            slope = 2 * x if kernel is squared_there else z
            np.testing.assert_allclose(moved.grad.numpy(), slope, rtol=1e-5)
        tape.zero()
