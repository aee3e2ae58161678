"""Tensors of PyTorch and arrays share memory and gradients; a stand-in takes its place where it is missing."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp


class StandIn:
    """The part of `torch.Tensor` that arrays are made from, on NumPy's memory."""

    def __init__(self, data, requires_grad=False):
        self.data, self.requires_grad, self.grad = np.asarray(data), requires_grad, None

    dtype = property(lambda self: f"torch.{self.data.dtype}")
    device = types.SimpleNamespace(type="cpu")
    shape = property(lambda self: self.data.shape)
    ndim = property(lambda self: self.data.ndim)

    def detach(self):
        return StandIn(self.data)

    def numpy(self):
        if self.requires_grad:
            raise RuntimeError("call detach() first")
        return self.data

    def __getitem__(self, key):
        return StandIn(self.data[key])


@pytest.fixture(params=["torch", "stand_in"])
def torch(request, monkeypatch):
    """PyTorch, or a module that has as much of it as arrays need."""
    if request.param == "torch":
        return pytest.importorskip("torch")
    made = types.SimpleNamespace(
        tensor=lambda data, requires_grad=False: StandIn(data, requires_grad),
        from_numpy=StandIn,
        float32="torch.float32",
        int32="torch.int32",
    )
    monkeypatch.setitem(__import__("sys").modules, "torch", made)
    return made


def host(tensor):
    return np.asarray(tensor.detach().numpy())


@wp.kernel
def weighted(x: wp.array[wp.vec3], w: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.dot(x[i], x[i]) * w[i]


def test_a_tape_leaves_its_gradients_in_tensors(torch):
    rng = np.random.default_rng(0)
    position, weight = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=5).astype(np.float32)
    x, w = torch.tensor(position, requires_grad=True), torch.tensor(weight)
    y = wp.zeros(5, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(weighted, 5, [wp.from_torch(x, dtype=wp.vec3), wp.from_torch(w, requires_grad=True)], [y])
    result = wp.to_torch(y)
    np.testing.assert_allclose(host(result), (position**2).sum(1) * weight, rtol=1e-5)
    slope = rng.normal(size=5).astype(np.float32)
    tape.backward(grads={y: wp.from_torch(torch.tensor(slope))})
    np.testing.assert_allclose(host(x.grad), 2.0 * position * (weight * slope)[:, None], rtol=1e-5)
    np.testing.assert_allclose(host(w.grad), (position**2).sum(1) * slope, rtol=1e-5)
    assert result.requires_grad and host(result.grad).shape == (5,)


def test_each_side_sees_what_the_other_writes(torch):
    t = torch.tensor(np.arange(12, dtype=np.float32).reshape(4, 3))
    a = wp.from_torch(t, dtype=wp.vec3, return_ctype=True)
    a.fill_(7.0)
    assert (host(t) == 7.0).all() and a.shape == (4,) and not a.requires_grad
    host(t)[1] = 2.0
    np.testing.assert_array_equal(a.numpy()[1], 2.0)
    host(wp.to_torch(a))[0, 0] = -1.0
    assert host(t)[0, 0] == -1.0
    assert wp.from_torch(t[0], dtype=wp.vec3).shape == (1,)
    assert wp.from_torch(t[::2], dtype=wp.vec3).strides == (24,)
    assert wp.from_torch(t[:0], dtype=wp.vec3).shape == (0,)


def test_what_is_read_only_is_no_tensor(torch):
    x = jnp.ones(3)
    for a in (wp.from_jax(x), wp.array(np.asarray(x), copy=False)):
        with pytest.raises(wp.LaunchError, match=r"wp\.to_torch: .* is read-only(.|\n)*wp\.clone"):
            wp.to_torch(a)
        host(wp.to_torch(wp.clone(a)))[:] = 5.0
    assert (x == 1.0).all()


@pytest.mark.parametrize(
    ("given", "seen"),
    [(np.int64, wp.uint64), (np.int32, wp.uint32), (np.bool_, wp.uint8), (np.uint8, wp.int8), (np.float64, wp.float64)],
)
def test_types_of_one_width(torch, given, seen):
    a = wp.from_torch(torch.tensor(np.array([1, 0, 1], given)), dtype=seen)
    assert a.dtype is seen and a.numpy().tolist() == [1, 0, 1]


def test_a_gradient_that_is_given(torch):
    t, mine = torch.tensor(np.ones((2, 4), np.float32)), wp.zeros((2, 4), dtype=float)
    assert wp.from_torch(t, grad=mine).grad is mine
    g = torch.tensor(np.full((2, 4), 3.0, np.float32))
    a = wp.from_torch(t, grad=g, retain_grad=True)
    assert a.retain_grad and (a.grad.numpy() == 3.0).all() and t.grad is None
    assert wp.from_torch(torch.tensor(np.ones(2, np.float32), requires_grad=True), requires_grad=False).grad is None


def test_names_of_types_and_devices(torch):
    assert wp.dtype_from_torch(torch.float32) is wp.float32 and wp.dtype_from_torch("torch.bfloat16") is wp.bfloat16
    assert wp.dtype_to_torch(float) == torch.float32 and wp.dtype_to_torch(wp.uint32) == torch.int32
    assert wp.device_from_torch("cpu") == "cpu" and wp.device_to_torch("cpu") == "cpu"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda t: wp.from_torch(np.ones(3)), "expected a tensor of PyTorch, got ndarray"),
        (lambda t: wp.from_torch(t, dtype=wp.int32), "elements of torch.float32 cannot be seen as int32"),
        (lambda t: wp.from_torch(t, dtype=wp.vec3d), "elements of torch.float32 cannot be seen as vec3d"),
        (lambda t: wp.from_torch(t, dtype=wp.vec2), r"shape \(2, 3\) cannot be seen as vec2"),
        (lambda t: wp.to_torch(t), "expected an array of numbers, vectors or matrices, got"),
        (lambda t: wp.device_from_torch("meta"), "do not live on meta"),
        (lambda t: wp.dtype_from_torch("torch.complex64"), "no scalar type for 'torch.complex64'"),
        (lambda t: wp.dtype_to_torch(wp.vec3), "is no scalar type"),
        (lambda t: wp.stream_from_torch(types.SimpleNamespace(cuda_stream=5)), "default stream"),
    ],
)
def test_what_does_not_fit(torch, call, says):
    with pytest.raises((wp.KernelTypeError, wp.LaunchError), match=says):
        call(torch.tensor(np.ones((2, 3), np.float32)))


@wp.kernel
def doubled(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@pytest.mark.parametrize("place", ["x", "y"])
def test_a_tensor_that_requires_a_gradient_is_refused_with_both_ways(torch, place):
    x, tensor = np.ones(3, np.float32), torch.tensor(np.ones(3, np.float32), requires_grad=True)
    given = ([tensor], [3]) if place == "x" else ([x], [tensor])
    with pytest.raises(wp.KernelTypeError, match=f"'{place}': expected .*, got a .* that requires a grad") as error:
        wp.launch(doubled, 3, *given)
    assert "wp.from_torch(x)" in str(error.value) and "x.detach()" in str(error.value)


@wp.kernel
def moved(x: wp.array2d[wp.vec3], by: wp.vec3, y: wp.array2d[wp.vec3]):
    i, j = wp.tid()
    y[i, j] = x[i, j] + by


def test_last_axes_are_components_where_no_type_is_to_be_told(torch):
    x, y = np.random.default_rng(4).normal(size=(2, 4, 5, 3)).astype(np.float32)
    for _ in range(3):  # which are repeated
        given = [wp.from_torch(torch.tensor(a), return_ctype=True) for a in (x, y)]
        wp.launch(moved, (4, 5), inputs=[given[0], wp.vec3(1.0, 2.0, 3.0), given[1]])
        np.testing.assert_array_equal(given[1].numpy(), x + np.float32([1, 2, 3]))
    other = wp.from_torch(torch.tensor(y), return_ctype=False)
    with pytest.raises(wp.KernelTypeError, match=r"expected array2d\[vec3\], got array3d\[float32\]"):
        wp.launch(moved, (4, 5), inputs=[given[0], wp.vec3(), other])
    for wrong in (y[..., :2].copy(), y.astype(np.int32), y.reshape(20, 3)):
        bad = wp.from_torch(torch.tensor(wrong), return_ctype=True)
        with pytest.raises(wp.KernelTypeError, match=r"expected array2d\[vec3\], got"):
            wp.launch(moved, (4, 5), inputs=[given[0], wp.vec3(), bad])
