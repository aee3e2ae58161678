"""`wp.check_grads`: derivatives of a kernel or a JAX function against finite differences."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.api.launch import launch
from jwarp.api.tracebacks import shortening
from jwarp.config import config
from jwarp.dispatch.call.instances import choose
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.foreign.kernels import as_kernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching.geometry import BlockDim
from jwarp.types import Struct

# By dtype: step relative to the values, rtol, atol. Large steps drown rounding, extrapolation mends their error.
_BY_DTYPE = {
    "float64": (1.0e-3, 1.0e-6, 1.0e-9),
    "float32": (3.0e-2, 3.0e-3, 1.0e-5),
    "float16": (2.0e-1, 5.0e-2, 1.0e-2),
    "bfloat16": (3.0e-1, 1.0e-1, 1.0e-1),
}
_DENSE = 3  # directions that change all components
_SINGLE = 8  # components that are changed alone
_SEARCHED = 64  # components looked at to name one that is wrong
_MODES = {"fwd": "forward", "rev": "reverse"}


@shortening
def check_grads(
    fn_or_kernel: Callable[..., Any] | Kernel,
    args: Any = None,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    outputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    dim: int | Sequence[int] | None = None,
    order: int = 2,
    modes: str | Sequence[str] = ("fwd", "rev"),
    eps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    block_dim: BlockDim | None = None,
) -> None:
    """Compare derivatives with finite differences at one point, and raise an AssertionError if they differ.

    Each floating-point argument is changed by itself: in a few random directions, and in a few single components. A
    direction is used if finite differences with several step lengths agree. Otherwise there is a kink close by, and
    other directions are tried.

    Args:
        fn_or_kernel: A JAX function, with its arguments in `args`; or a kernel, with `dim` and the same `inputs` and
            `outputs` as for `wp.launch`. Arrays among a kernel's `outputs` are arguments, too.
        args: A tuple of arguments; integers and bools stay constant. For a kernel: `dim`.
        inputs, outputs, dim, block_dim: For kernels, as in `wp.launch`.
        order: 1, or 2 to check second derivatives, too, of each mode by each mode.
        modes: Any of "fwd" (`jax.jvp`) and "rev" (`jax.vjp`).
        eps: The longest step, relative to the values; shorter ones follow. Default: 0.001 for float64 and 0.03 for
            float32. Finite differences in float32 have only three correct digits; check float64 versions for more.
        rtol, atol: Allowed error, in addition to the rounding of the function's values. Default: 1e-6 and 1e-9 for
            float64, 0.003 and 1e-5 for float32.
        seed: The seed of the directions, and of the weights that combine all elements of a result.

    Raises:
        AssertionError: A derivative is wrong, or no direction was usable. The message names argument, result, mode,
            direction and both numbers. (Not one of jwarp's error classes, because no source line is wrong.)
        NotDifferentiableError: A derivative has no exact rule.

    Example:
        >>> wp.check_grads(spring, 8, inputs=[x, 2.0], outputs=[8])
        >>> wp.check_grads(lambda x: spring_fn(x, 2.0)[0].sum(), (x,), modes="rev")
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if not modes or not set(modes) <= _MODES.keys():
        raise LaunchError(f'wp.check_grads: modes must be "fwd", "rev" or both, got {modes!r}')
    if order not in (1, 2):
        raise LaunchError(f"wp.check_grads: order must be 1 or 2, got {order!r}")
    fn_or_kernel = as_kernel(fn_or_kernel)
    if isinstance(fn_or_kernel, Kernel):
        if args is not None and dim is not None:
            raise LaunchError("wp.check_grads: dim was given twice")
        problem = _of_kernel(fn_or_kernel, args if dim is None else dim, inputs, outputs, block_dim)
    else:
        if not callable(fn_or_kernel):
            raise KernelTypeError(f"wp.check_grads: expected a function or a kernel, got {type(fn_or_kernel).__name__}")
        if any(given is not None for given in (dim, inputs, outputs, block_dim)):
            raise LaunchError("wp.check_grads: dim, inputs, outputs and block_dim are for kernels; a function has args")
        if not isinstance(args, (tuple, list)):
            raise LaunchError(f"wp.check_grads: args must be a tuple of arguments, got {type(args).__name__}")
        problem = _of_function(fn_or_kernel, tuple(args))
    if not problem.point:
        raise LaunchError(f"wp.check_grads: {problem.title} has no floating-point argument to check")
    rules = _rules(problem, eps, rtol, atol)
    with config(deterministic=True):  # so that counters give the same at every point
        _check(problem, order, modes, rules, np.random.default_rng(seed))


@dataclass(frozen=True)
class Problem:
    """A function of float arrays whose derivatives are in question, and the point to check them at."""

    title: str
    compute: Callable[[list[Any]], list[Any]]
    point: list[Any]
    arguments: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Rules:
    """How long steps are, how far off a derivative may be, and how exact values are."""

    step: float
    rtol: float
    atol: float
    rounding: float


@dataclass(frozen=True)
class Direction:
    """A way to change one argument."""

    name: str
    values: np.ndarray


@dataclass(frozen=True)
class Slope:
    """The change of one result along a direction, by finite differences."""

    value: float
    tolerance: float
    smooth: bool


# The checked arguments


def _of_kernel(kernel: Kernel, dim: Any, inputs: Any, outputs: Any, block_dim: BlockDim | None) -> Problem:
    inputs = () if inputs is None else inputs
    kernel, inputs, *_ = choose(kernel, inputs, outputs, "", reads_ids=False)
    launch(
        kernel, dim, inputs, outputs, block_dim=block_dim
    )  # what does not fit the kernel is said before anything else
    # Listed values fill, in order, the parameters that are not given by name.
    named = {name for given in (inputs, outputs) if isinstance(given, Mapping) for name in given}
    names = [parameter.name for parameter in kernel.signature if parameter.name not in named]
    first = 0 if isinstance(inputs, Mapping) else len(inputs)
    contents = _by_key(outputs if outputs is not None else {})
    # Specs and shapes stay what they are; arrays are contents that a gradient may be asked for.
    contents = {k: v for k, v in contents.items() if _is_content(v)}

    def run(inputs: Any, contents: Mapping[Any, Any]) -> Any:
        made = outputs
        if contents and outputs is not None:
            made = {k: contents.get(k, v) for k, v in _by_key(outputs).items()}
            made = made if isinstance(outputs, Mapping) else list(made.values())
        return launch(kernel, dim, inputs, made, block_dim=block_dim)

    def argument_name(path: tuple[Any, ...]) -> str:
        key = _key(path[1])
        if isinstance(key, int):
            key = names[key + (0 if _key(path[0]) == 0 else first)]
        return f"parameter '{key}{_fields(path[2:])}'"

    def result_name(path: tuple[Any, ...]) -> str:
        key = _key(path[0])
        is_named = isinstance(outputs, Mapping) or outputs is None
        return f"output '{key if is_named else names[first + key]}{_fields(path[1:])}'"

    given = dict(inputs) if isinstance(inputs, Mapping) else list(inputs)
    return _problem(f"kernel '{kernel.name}'", run, (given, contents), argument_name, result_name)


def _of_function(fn: Callable[..., Any], args: tuple[Any, ...]) -> Problem:
    try:
        names = [
            p.name
            for p in inspect.signature(fn).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []

    def argument_name(path: tuple[Any, ...]) -> str:
        index = _key(path[0])
        name = names[index] if index < len(names) else f"args[{index}]"
        return f"argument '{name}{jax.tree_util.keystr(path[1:])}'"

    def result_name(path: tuple[Any, ...]) -> str:
        return f"result{jax.tree_util.keystr(path)}"

    title = f"function '{getattr(fn, '__name__', type(fn).__name__)}'"
    return _problem(title, fn, args, argument_name, result_name)


def _problem(
    title: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    argument_name: Callable[[tuple[Any, ...]], str],
    result_name: Callable[[tuple[Any, ...]], str],
) -> Problem:
    found = jax.tree_util.tree_flatten_with_path(fn(*args))[0]
    kept = [k for k, (_, leaf) in enumerate(found) if _is_float(leaf)]
    pairs, tree = jax.tree_util.tree_flatten_with_path(args)
    leaves = [leaf for _, leaf in pairs]
    moving = [k for k, leaf in enumerate(leaves) if _is_float(leaf)]

    def compute(point: list[Any]) -> list[Any]:
        changed = list(leaves)
        for k, x in zip(moving, point, strict=True):
            changed[k] = x
        results = jax.tree.leaves(fn(*jax.tree.unflatten(tree, changed)))
        return [results[k] for k in kept]

    return Problem(
        title,
        compute,
        [jnp.asarray(leaves[k]) for k in moving],
        tuple(argument_name(pairs[k][0]) for k in moving),
        tuple(result_name(found[k][0]) for k in kept),
    )


def _derivative(problem: Problem, mode: str, rng: np.random.Generator) -> Problem:
    """The gradient for random cotangents, or the tangents along a random direction, as a function."""
    point = problem.point
    if mode == "fwd":
        directions = [_random_like(x, rng) for x in point]
        compute = lambda at: list(jax.jvp(lambda *xs: problem.compute(list(xs)), at, directions)[1])  # noqa: E731
        results = tuple(f"the tangent of {name}" for name in problem.results)
    else:
        cotangents = [_random_like(x, rng) for x in problem.compute(point)]
        compute = lambda at: list(jax.vjp(lambda *xs: problem.compute(list(xs)), *at)[1](cotangents))  # noqa: E731
        results = tuple(f"the gradient for {name}" for name in problem.arguments)
    return replace(problem, compute=compute, results=results)


def _by_key(entries: Any) -> dict[Any, Any]:
    return dict(entries) if isinstance(entries, Mapping) else dict(enumerate(entries))


def _is_content(value: Any) -> bool:
    """True if `value`, an array or a struct of arrays, is the initial content of an output."""
    return isinstance(value, (jax.Array, Struct)) and all(
        isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)
    )


def _fields(path: tuple[Any, ...]) -> str:
    """Where a leaf is in a struct: `.inner.k`."""
    return "".join(f".{entry.name if hasattr(entry, 'name') else _key(entry)}" for entry in path)


def _key(entry: Any) -> Any:
    return entry.idx if hasattr(entry, "idx") else entry.key


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, (float, np.floating, np.ndarray, jax.Array)) and jnp.issubdtype(
        jnp.result_type(leaf), jnp.floating
    )


def _random_like(x: Any, rng: np.random.Generator) -> Any:
    return jnp.asarray(rng.normal(size=jnp.shape(x)), jnp.result_type(x))


def _rules(problem: Problem, eps: float | None, rtol: float | None, atol: float | None) -> Rules:
    values = [*problem.point, *problem.compute(problem.point)]
    coarsest = max((jnp.result_type(x) for x in values), key=lambda dtype: float(jnp.finfo(dtype).eps))
    step, default_rtol, default_atol = _BY_DTYPE[coarsest.name]
    return Rules(
        step if eps is None else eps,
        default_rtol if rtol is None else rtol,
        default_atol if atol is None else atol,
        float(jnp.finfo(coarsest).eps),
    )


# The comparison


def _check(problem: Problem, order: int, modes: tuple[str, ...], rules: Rules, rng: np.random.Generator) -> None:
    for number in range(len(problem.point)):
        _check_argument(problem, number, modes, rules, rng)
    if order == 2:
        for mode in modes:
            _check(_derivative(problem, mode, rng), 1, modes, rules, rng)


def _check_argument(
    problem: Problem, number: int, modes: tuple[str, ...], rules: Rules, rng: np.random.Generator
) -> None:
    """Raise unless the derivatives for one argument are those of finite differences."""
    if not problem.point[number].size:
        return
    values = problem.compute(problem.point)
    for name, value in zip(problem.results, values, strict=True):
        if not np.isfinite(np.asarray(value, np.float64)).all():
            raise AssertionError(f"{problem.title}: {name} is not finite at the point where it was to be checked")
    weights = [rng.normal(size=value.shape) for value in values]
    derivatives = {mode: _directional(problem, number, mode, weights) for mode in modes}
    judged = [False] * len(values)
    for direction in _directions(problem.point[number], rng):
        slopes = _slopes(problem, number, direction, weights, rules)
        for mode, derivative in derivatives.items():
            found = derivative(direction)
            for k, slope in enumerate(slopes):
                if not slope.smooth:
                    continue
                if not abs(found[k] - slope.value) <= slope.tolerance:
                    culprit = _culprit(problem, number, derivative, weights, rules, k, rng)
                    raise AssertionError(
                        _describe(problem, number, mode, k, *(culprit or (direction, slope, found[k])), rules)
                    )
                judged[k] = True
    for name, verdict in zip(problem.results, judged, strict=True):
        if not verdict:
            raise AssertionError(
                f"{problem.title}, {problem.arguments[number]}: no derivative of {name} to compare with, as finite "
                "differences of several steps disagree in every direction tried\n"
                "  help: there is a kink or a jump here, or the values are too inexact: check at another point, with "
                "another eps, or in float64"
            )


def _directional(
    problem: Problem, number: int, mode: str, weights: list[np.ndarray]
) -> Callable[[Direction], list[float]]:
    """The weighted sum of the derivatives of each result along a direction, as jwarp and JAX compute it."""
    point = problem.point

    def at(x: Any) -> list[Any]:
        return problem.compute([*point[:number], x, *point[number + 1 :]])

    x = point[number]
    if mode == "fwd":

        def forward(direction: Direction) -> list[float]:
            tangents = jax.jvp(at, (x,), (jnp.asarray(direction.values, x.dtype),))[1]
            return [_dot(w, t) for w, t in zip(weights, tangents, strict=True)]

        return forward
    results, pull = jax.vjp(at, x)
    gradients = []
    for k in range(len(results)):
        seeds = [
            jnp.asarray(w if j == k else 0.0 * w, r.dtype)
            for j, (w, r) in enumerate(zip(weights, results, strict=True))
        ]
        gradients.append(np.asarray(pull(seeds)[0], np.float64))
    return lambda direction: [_dot(gradient, direction.values) for gradient in gradients]


def _directions(x: Any, rng: np.random.Generator) -> Iterator[Direction]:
    scale = _scale(x)
    for _ in range(_DENSE if x.size > 1 else 0):
        yield Direction("a random direction", scale * rng.uniform(0.3, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape))
    yield from _components(x, _SINGLE, rng)


def _components(x: Any, count: int, rng: np.random.Generator) -> Iterator[Direction]:
    scale = _scale(x)
    for flat in rng.permutation(x.size)[:count]:
        place = tuple(int(i) for i in np.unravel_index(flat, x.shape))
        values = np.zeros(x.shape)
        values[place] = scale[place]
        yield Direction(f"component [{', '.join(map(str, place))}]" if place else "its value", values)


def _scale(x: Any) -> np.ndarray:
    """The step of each component: its own size, so that a step rarely crosses a kink at zero."""
    size = np.abs(np.asarray(x, np.float64))
    typical = math.sqrt(np.mean(size**2))
    return np.maximum(size, 0.1 * typical) if typical > 0.0 else np.ones_like(size)


def _slopes(
    problem: Problem, number: int, direction: Direction, weights: list[np.ndarray], rules: Rules
) -> list[Slope]:
    """Slopes by differences with three steps, extrapolated to none."""
    point, x = problem.point, np.asarray(problem.point[number], np.float64)

    def at(step: float) -> list[np.ndarray]:
        changed = jnp.asarray(x + step * direction.values, point[number].dtype)
        found = problem.compute([*point[:number], changed, *point[number + 1 :]])
        return [w * np.asarray(value, np.float64) for w, value in zip(weights, found, strict=True)]

    here = at(0.0)
    steps = [rules.step, rules.step / 2.0, rules.step / 4.0]
    pairs = [(at(step), at(-step)) for step in steps]
    slopes = []
    for k in range(len(weights)):
        changes = [(ahead[k] - behind[k]) / (2.0 * step) for step, (ahead, behind) in zip(steps, pairs, strict=True)]
        bends = [
            float(((ahead[k] - here[k]) + (behind[k] - here[k])).sum()) / step
            for step, (ahead, behind) in zip(steps, pairs, strict=True)
        ]
        first, second, third = (float(change.sum()) for change in changes)
        coarse, fine = (4.0 * second - first) / 3.0, (4.0 * third - second) / 3.0
        value = (16.0 * fine - coarse) / 15.0
        # Terms of both signs may cancel: what they add up to is no measure of what rounds off.
        size = max(abs(value), float(np.linalg.norm(changes[2])))
        # A constant does not round in two ways.
        inexact = float(np.linalg.norm(np.where(changes[0] != 0.0, here[k], 0.0)))
        tolerance = rules.atol + rules.rtol * size + 4.0 * rules.rounding * inexact / steps[2]
        # A bend shrinks with the step where the function is smooth, and stays where it has a kink.
        smooth = abs(fine - coarse) <= tolerance and abs(bends[2]) <= tolerance + 0.5 * abs(bends[0])
        slopes.append(Slope(value, tolerance, smooth))
    return slopes


def _culprit(
    problem: Problem,
    number: int,
    derivative: Callable[[Direction], list[float]],
    weights: list[np.ndarray],
    rules: Rules,
    result: int,
    rng: np.random.Generator,
) -> tuple[Direction, Slope, float] | None:
    """A component whose derivative is wrong by itself, if one is found."""
    for direction in _components(problem.point[number], _SEARCHED, rng):
        slope = _slopes(problem, number, direction, weights, rules)[result]
        found = derivative(direction)[result]
        if slope.smooth and not abs(found - slope.value) <= slope.tolerance:
            return direction, slope, found
    return None


def _describe(
    problem: Problem,
    number: int,
    mode: str,
    result: int,
    direction: Direction,
    slope: Slope,
    found: float,
    rules: Rules,
) -> str:
    unit = float(np.abs(direction.values).max()) if direction.name != "a random direction" else 1.0
    return (
        f"{problem.title}, {problem.arguments[number]}: "
        f"the {_MODES[mode]}-mode derivative of {problem.results[result]} is wrong\n"
        f"  along {direction.name}, results weighted at random and added up\n"
        f"  expected {slope.value / unit:.9g} by finite differences (steps from {rules.step:g} of the value), "
        f"give or take {slope.tolerance / unit:.2g}\n"
        f"  found    {found / unit:.9g}"
    )


def _dot(x: Any, y: Any) -> float:
    return float(np.sum(np.asarray(x, np.float64) * np.asarray(y, np.float64)))
