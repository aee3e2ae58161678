"""`wp.autograd`: Jacobians by adjoints and by differences are NumPy's, and disagreements are found."""

from __future__ import annotations

import numpy as np
import pytest

import jwarp as wp
from jwarp.errors import LaunchError


@wp.kernel
def mixed(a: wp.array[wp.vec3], s: float, product: wp.array[float], pair: wp.array[wp.vec2]):
    i = wp.tid()
    product[i] = s * a[i][0] * a[i][1] * a[i][2]
    pair[i] = wp.vec2(a[i][0] * a[i][0], a[i][1])


@wp.kernel(enable_backward=False)
def without_adjoint(a: wp.array[float], out: wp.array[float]):
    out[wp.tid()] = 2.0 * a[wp.tid()]


@wp.func
def wrong(x: float):
    return x * x


@wp.func_grad(wrong)
def adj_wrong(x: float, adj: float):
    wp.adjoint[x] += 17.0 * adj


@wp.kernel
def with_wrong(a: wp.array[float], out: wp.array[float]):
    out[wp.tid()] = wrong(a[wp.tid()])


@wp.kernel
def increment(a: wp.array[float]):
    a[wp.tid()] += 1.0


@wp.kernel
def squares(a: wp.array[float], out: wp.array[float]):
    out[wp.tid()] = a[wp.tid()] * a[wp.tid()]


def launched():
    content = np.random.default_rng(8).normal(size=(3, 3)).astype(np.float32)
    a = wp.array(content, dtype=wp.vec3, requires_grad=True)
    outputs = [wp.zeros(3, dtype=kind, requires_grad=True) for kind in (float, wp.vec2)]
    return content, a, outputs


@pytest.mark.parametrize("of", [wp.autograd.jacobian, wp.autograd.jacobian_fd])
def test_jacobians_of_kernels(of):
    content, a, outputs = launched()
    found = of(mixed, 3, [a, 2.0], outputs)
    product, pair = np.zeros((3, 3, 3)), np.zeros((6, 3, 3))
    for k, (x, y, z) in enumerate(content.astype(float)):
        product[k, k] = 2 * y * z, 2 * x * z, 2 * x * y
        pair[2 * k, k, 0], pair[2 * k + 1, k, 1] = 2 * x, 1
    assert set(found) == {(0, 0), (0, 1)} and found[0, 0].dtype is wp.vec3
    np.testing.assert_allclose(found[0, 0].numpy(), product, atol=5e-3)
    np.testing.assert_allclose(found[0, 1].numpy(), pair, atol=5e-3)
    assert np.array_equal(a.numpy(), content) and not outputs[0].numpy().any()
    named = of(mixed, 3, [a, 2.0], outputs, input_output_mask=[("a", "pair")])
    assert set(named) == {(0, 1)}
    with pytest.raises(LaunchError, match="input_output_mask"):
        of(mixed, 3, [a, 2.0], outputs, input_output_mask=[("a", "nothing")])


def test_what_is_left_out_is_nan():
    _, a, outputs = launched()
    rows = wp.autograd.jacobian(mixed, 3, [a, 2.0], outputs, max_outputs_per_var=2)[0, 0].numpy()
    columns = wp.autograd.jacobian_fd(mixed, 3, [a, 2.0], outputs, max_inputs_per_var=4)[0, 0].numpy().reshape(3, 9)
    assert np.isnan(rows[2:]).all() and not np.isnan(rows[:2]).any()
    assert np.isnan(columns[:, 4:]).all() and not np.isnan(columns[:, :4]).any()


def test_functions_get_their_inputs_back():
    content = np.array([1.0, 2.0, 3.0], np.float32)

    def forward(x):
        wp.launch(increment, 3, [x])
        y = wp.zeros_like(x)
        wp.launch(squares, 3, [x], [y])
        return y

    x = wp.array(content, requires_grad=True)
    for of in (wp.autograd.jacobian, wp.autograd.jacobian_fd):
        np.testing.assert_allclose(of(forward, inputs=[x])[0, 0].numpy(), np.diag(2 * (content + 1)), atol=2e-2)
        assert np.array_equal(x.numpy(), content)
    assert wp.autograd.gradcheck(forward, inputs=[x], show_summary=False)


def test_disagreements_are_found(capsys):
    a, out = (wp.array([1.0, 2.0], dtype=float, requires_grad=True) for _ in range(2))
    assert not wp.autograd.gradcheck(with_wrong, 2, [a], [out], raise_exception=False)
    assert "do not match" in capsys.readouterr().out
    with pytest.raises(ValueError, match="do not match"):
        wp.autograd.gradcheck(with_wrong, 2, [a], [out], show_summary=False)
    with wp.Tape() as tape:
        wp.launch(with_wrong, 2, [a], [out])
    assert not wp.autograd.gradcheck_tape(tape, raise_exception=False, show_summary=False)
    assert wp.autograd.gradcheck_tape(tape, blacklist_kernels=["with_wrong"])


def test_launches_of_a_tape_are_checked():
    _, a, outputs = launched()
    b = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(mixed, 3, [a, 2.0], outputs)
        wp.launch(without_adjoint, 2, [b], [wp.zeros_like(b)])
    assert wp.autograd.gradcheck_tape(tape, eps=1e-3, show_summary=False)


def test_kernels_without_adjoints_have_differences_alone():
    a, out = (wp.array([1.0, 2.0], dtype=float, requires_grad=True) for _ in range(2))
    np.testing.assert_allclose(
        wp.autograd.jacobian_fd(without_adjoint, 2, [a], [out])[0, 0].numpy(), 2 * np.eye(2), atol=1e-2
    )
    with pytest.raises(LaunchError, match="backward pass enabled"):
        wp.autograd.jacobian(without_adjoint, 2, [a], [out])
    with pytest.raises(LaunchError, match="output arguments"):
        wp.autograd.jacobian(without_adjoint, 2, [a])


def test_plots():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    _, a, outputs = launched()
    known = wp.autograd.FunctionMetadata()
    found = wp.autograd.jacobian(mixed, 3, [a, 2.0], outputs, metadata=known)
    figure = wp.autograd.jacobian_plot(found, known, show_plot=False)
    assert [place.get_ylabel() for place in figure.axes[:2]] == ["product", "pair"]
    assert figure.axes[0].images[0].get_array().shape == (3, 9)
    with pytest.raises(LaunchError, match="inputs must be provided"):
        wp.autograd.jacobian_plot(found, mixed)
    plt.close("all")
