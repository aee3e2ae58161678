"""`wp.optim`: optimizers that step arrays along their gradients, with the numbers of Warp's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jwarp.api.launch import launch
from jwarp.arrays.array import array
from jwarp.arrays.create import zeros
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import pow, sqrt
from jwarp.frontend.kernel import kernel
from jwarp.types import CompositeType, ScalarType, float16, float32, float64, matrix, vector

# Moments of half-wide floats are wider ones: squares of gradients would be zero.
_MOMENTS: dict[ScalarType, ScalarType] = {float16: float32, float32: float32, float64: float64}


@kernel(enable_backward=False)
def _sgd_step(
    g: array[Any],
    b: array[Any],
    lr: Any,
    momentum: Any,
    dampening: Any,
    decay: Any,
    nesterov: int,
    t: int,
    x: array[Any],
) -> None:
    i = tid()
    step = g[i]
    if decay != x.dtype(0.0):
        step += decay * x[i]
    if momentum != x.dtype(0.0):
        speed = step
        if t > 0:
            speed = momentum * b[i] + (x.dtype(1.0) - dampening) * step
        b[i] = speed
        if nesterov == 1:
            step += momentum * speed
        else:
            step = speed
    x[i] = x[i] - lr * step


@kernel(enable_backward=False)
def _adam_step(
    g: array[Any], m: array[Any], v: array[Any], lr: Any, beta1: Any, beta2: Any, t: Any, eps: Any,
    x: array[Any],
) -> None:  # fmt: skip
    i = tid()
    one = m.dtype(1.0)
    now = m.dtype(g[i])
    m[i] = beta1 * m[i] + (one - beta1) * now
    v[i] = beta2 * v[i] + (one - beta2) * now * now
    mean = m[i] / (one - pow(beta1, t + one))
    square = v[i] / (one - pow(beta2, t + one))
    x[i] = x[i] - x.dtype(lr * mean / (sqrt(square) + eps))


class _Optimizer:
    """Parameters, and arrays of what has come by for each of them, which `moments` lists."""

    def __init__(self, params: Sequence[array] | None, moments: int):
        self._moments: list[list[array]] = [[] for _ in range(moments)]
        self.params: Sequence[array] | None = None
        self.t = 0
        self.set_params(params)

    def set_params(self, params: Sequence[array] | None) -> None:
        """Say which arrays `step` changes; what is known of them stays, where shape and type are the same.

        Raises:
            KernelTypeError: the elements of one are not of floats, vectors or matrices of them.
        """
        self.params = params
        if not params:
            return
        wanted = [_moment_type(type(self).__name__, p) for p in params]
        for known in self._moments:
            before = list(known) if len(known) == len(params) else [None] * len(params)
            known[:] = [
                old if old is not None and (old.shape, old.dtype) == (p.shape, kind) else self._fresh(p, kind)
                for old, p, kind in zip(before, params, wanted, strict=True)
            ]

    def _fresh(self, param: array, kind: Any) -> array:
        return zeros(param.shape, dtype=kind, device=param.device)

    def reset_internal_state(self) -> None:
        """Forget what has come by."""
        for known in self._moments:
            for moment in known:
                moment.zero_()
        self.t = 0

    def _pairs(self, grad: Sequence[array]) -> list[tuple[Any, ...]]:
        name = type(self).__name__
        if self.params is None:
            raise LaunchError(
                f"{name} parameters must be set before calling step(), got None",
                hint="call set_params first",
            )  # fmt: skip
        if len(grad) != len(self.params):
            raise LaunchError(f"wp.optim.{name}: {len(grad)} gradients for {len(self.params)} parameters")
        return list(zip(grad, *self._moments, self.params, strict=True))


class SGD(_Optimizer):
    """Gradient descent, with momentum and weight decay as in PyTorch.

    Args:
        params: The arrays to step, of floats, or of vectors or matrices of them; `set_params` takes others.
        lr: How far a step goes.
        momentum: The part of a step that the next one repeats.
        dampening: What momentum does not take of a new gradient.
        weight_decay: Pulls towards zero, as the gradient of half its product with the sum of squares.
        nesterov: Whether a step goes on from where momentum leads.

    Example:
        >>> optimizer = wp.optim.SGD([x], lr=0.1, momentum=0.9)
        >>> optimizer.step([x.grad])
    """

    def __init__(
        self,
        params: Sequence[array] | None = None,
        lr: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ):
        super().__init__(params, 1)
        self.lr, self.momentum, self.dampening = lr, momentum, dampening
        self.weight_decay, self.nesterov = weight_decay, nesterov

    @property
    def b(self) -> list[array]:
        """The momentum of each parameter."""
        return self._moments[0]

    def step(self, grad: Sequence[array]) -> None:
        """Step along gradients, one for each parameter.

        Raises:
            LaunchError, KernelTypeError: they do not fit the parameters.
        """
        settings = self.lr, self.momentum, self.dampening, self.weight_decay, self.nesterov, self.t
        for g, b, param in self._pairs(grad):
            SGD.step_detail(g, b, *settings, param)
        self.t += 1

    @staticmethod
    def step_detail(
        g: array,
        b: array,
        lr: float,
        momentum: float,
        dampening: float,
        weight_decay: float,
        nesterov: bool,
        t: int,
        params: array,
    ) -> None:
        """One step of one array: `g` is its gradient, `b` its momentum, `t` the number of steps before.

        Raises:
            LaunchError, KernelTypeError: `g` or `b` does not fit `params`.
        """
        _check("SGD", params, g, b, params.dtype)
        flat_g, flat_b, x = map(_numbers, (g, b, params))
        launch(
            _sgd_step,
            x.size,
            [flat_g, flat_b, *_cast(x, lr, momentum, dampening, weight_decay), int(nesterov), t, x],
            record_tape=False,
        )


class Adam(_Optimizer):
    """Steps of a length that the mean and the variance of past gradients give: Kingma and Ba, 2015, algorithm 1.

    A step that is captured has the number `t` that it had then, by which the means are scaled, in every launch of the
    graph, as in Warp. Steps outside of graphs count on.

    Args:
        params: The arrays to step, of floats, or of vectors or matrices of them; `set_params` takes others.
        lr: How far a step goes.
        betas: How much of the mean, and of the mean square, is there after a step.
        eps: Is added to the root of the mean square.

    Example:
        >>> optimizer = wp.optim.Adam([x], lr=0.1)
        >>> optimizer.step([x.grad])
    """

    def __init__(
        self,
        params: Sequence[array] | None = None,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
    ):
        super().__init__(params, 2)
        self.lr, (self.beta1, self.beta2), self.eps = lr, betas, eps

    @property
    def m(self) -> list[array]:
        """The means of past gradients, of each parameter."""
        return self._moments[0]

    @property
    def v(self) -> list[array]:
        """The means of their squares."""
        return self._moments[1]

    def step(self, grad: Sequence[array]) -> None:
        """Step along gradients, one for each parameter.

        Raises:
            LaunchError, KernelTypeError: they do not fit the parameters.
        """
        for g, m, v, param in self._pairs(grad):
            Adam.step_detail(g, m, v, self.lr, self.beta1, self.beta2, self.t, self.eps, param)
        self.t += 1

    @staticmethod
    def step_detail(
        g: array,
        m: array,
        v: array,
        lr: float,
        beta1: float,
        beta2: float,
        t: float,
        eps: float,
        params: array,
    ) -> None:
        """One step of one array: `g` is its gradient, `m` and `v` are its moments, `t` the number of steps before.

        Raises:
            LaunchError, KernelTypeError: `g` does not fit `params`.
        """
        kind = _moment_type("Adam", params)
        _check("Adam", params, g, m, kind)
        _check("Adam", params, g, v, kind)
        flat_g, flat_m, flat_v, x = map(_numbers, (g, m, v, params))
        launch(
            _adam_step,
            x.size,
            [flat_g, flat_m, flat_v, *_cast(flat_m, lr, beta1, beta2, float(t), eps), x],
            record_tape=False,
        )


def _scalar(kind: Any) -> ScalarType:
    return kind.dtype if isinstance(kind, CompositeType) else kind


def _moment_type(name: str, param: array) -> Any:
    """The type of the elements of moments of a parameter."""
    if not isinstance(param, array) or _scalar(param.dtype) not in _MOMENTS:
        shown = repr(param.dtype) if isinstance(param, array) else type(param).__name__
        raise KernelTypeError(
            f"wp.optim.{name}: parameters are arrays of float16, float32 or float64, or of vectors or matrices of them,"
            f" got {shown}"
        )
    kind = param.dtype
    if name == "SGD" or _MOMENTS[_scalar(kind)] is _scalar(kind):
        return kind
    if not isinstance(kind, CompositeType):
        return float32
    return vector(kind.shape[0], float32) if len(kind.shape) == 1 else matrix(kind.shape, float32)


def _check(name: str, params: array, g: array, moment: array, kind: Any) -> None:
    if g.dtype != params.dtype:
        raise KernelTypeError(
            f"wp.optim.{name} gradient dtype must match parameter dtype {params.dtype!r}, got {g.dtype!r}"
        )
    if moment.dtype != kind:
        raise KernelTypeError(
            f"wp.optim.{name}: for a parameter of {params.dtype!r}, the moments are of {kind!r}, not {moment.dtype!r}"
        )
    if g.shape != params.shape or moment.shape != params.shape:
        raise LaunchError(
            f"wp.optim.{name} gradient shape must match parameter shape {params.shape}, got {g.shape}"
            + (f"; moments have shape {moment.shape}" if moment.shape != params.shape else "")
        )


def _numbers(a: array) -> array:
    """The components of an array, along one dimension."""
    return (a.view(_scalar(a.dtype)) if isinstance(a.dtype, CompositeType) else a).flatten()


def _cast(like: array, *numbers: float) -> list[Any]:
    return [like.layout.dtype.type(x) for x in numbers]
