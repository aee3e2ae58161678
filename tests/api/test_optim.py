"""`wp.optim`: the numbers of Warp's optimizers, and what is refused.

With Warp, as `python tests/api/test_optim.py` runs them, the parameters after some steps go to `optim_steps.json`.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp


def steps(w, optimizer, dtype, shape, count=12, **settings):
    """The parameter after some steps along random gradients, under Warp or jwarp."""
    make = np.random.default_rng(7)
    x = w.array(make.uniform(-1, 1, shape), dtype=dtype)
    made = getattr(w.optim, optimizer)([x], **settings)
    for _ in range(count):
        made.step([w.array(make.uniform(-1, 1, shape), dtype=dtype)])
    return x.numpy()


CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.05}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-4}),
]


TYPES = {"float32": (5,), "vec3": (4, 3), "float16": (5,)}
STEPS = Path(__file__).with_name("optim_steps.json")


@pytest.mark.parametrize("case", range(len(CASES)))
def test_numbers_are_those_of_warp(case):
    optimizer, settings = CASES[case]
    for name, wanted in json.loads(STEPS.read_text())[case].items():
        found = steps(wp, optimizer, getattr(wp, name), TYPES[name], **settings)
        half = name == "float16"
        assert_allclose(found, wanted, rtol=2e-3 if half else 2e-6, atol=1e-3 if half else 1e-7)


def test_types_that_warp_lacks():
    for dtype, shape in ((wp.float64, (2, 3)), (wp.mat22d, (2, 2, 2)), (wp.quat, (3, 4))):
        make = np.random.default_rng(7)
        x = make.uniform(-1, 1, shape)
        m = v = 0.0
        for t in range(12):
            g = make.uniform(-1, 1, shape)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            x = x - 0.05 * (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8)
        assert_allclose(steps(wp, "Adam", dtype, shape, lr=0.05), x, rtol=1e-4)


def test_descent():
    @wp.kernel
    def distance(x: wp.array[wp.vec3], to: wp.vec3, loss: wp.array[float]):
        wp.atomic_add(loss, 0, wp.length_sq(x[wp.tid()] - to))

    x, loss = wp.zeros(3, dtype=wp.vec3, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    optimizer = wp.optim.Adam([x], lr=0.1)
    for _ in range(200):
        loss.zero_()
        with wp.Tape() as tape:
            wp.launch(distance, 3, inputs=[x, wp.vec3(1.0, 2.0, 3.0), loss])
        tape.backward(loss)
        optimizer.step([x.grad])
        tape.zero()
    assert_allclose(x.numpy(), np.tile([1, 2, 3], (3, 1)), atol=0.02)


def test_state_is_kept_and_forgotten():
    x, y = wp.ones(3, dtype=float), wp.ones((2, 2), dtype=float)
    optimizer = wp.optim.Adam([x, y])
    optimizer.step([wp.ones(3, dtype=float), wp.ones((2, 2), dtype=float)])
    moments = optimizer.m[0]
    optimizer.set_params([wp.zeros(3, dtype=float), wp.zeros(4, dtype=float)])
    assert optimizer.m[0] is moments and optimizer.m[1].shape == (4,) and optimizer.t == 1
    optimizer.reset_internal_state()
    assert_array_equal(moments.numpy(), 0.0)
    assert optimizer.t == 0


def test_what_is_refused():
    x = wp.zeros(3, dtype=float)
    with pytest.raises(wp.LaunchError, match="parameters must be set before"):
        wp.optim.SGD().step([x])
    with pytest.raises(wp.LaunchError, match="0 gradients for 1 parameters"):
        wp.optim.SGD([x]).step([])
    with pytest.raises(wp.KernelTypeError, match="got int32"):
        wp.optim.Adam([wp.zeros(3, dtype=int)])
    for make in (wp.optim.SGD, wp.optim.Adam):
        with pytest.raises(wp.KernelTypeError, match="must match parameter dtype float32, got"):
            make([x]).step([wp.zeros(3, dtype=wp.float64)])
        with pytest.raises(wp.LaunchError, match=r"must match parameter shape \(3,\), got \(4,\)"):
            make([x]).step([wp.zeros(4, dtype=float)])


if __name__ == "__main__":
    import warp
    import warp.optim

    STEPS.write_text(
        json.dumps([
            {
                name: steps(warp, optimizer, getattr(warp, name), shape, **settings).tolist()
                for name, shape in TYPES.items()
                if name != "float16" or optimizer == "Adam"
            }
            for optimizer, settings in CASES
        ], indent=1) + "\n"
    )  # fmt: skip
