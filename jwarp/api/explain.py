"""`wp.explain`: what the launches of a function do with memory, line by line of their kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from jwarp.api.record import Launch
from jwarp.api.tracebacks import shortening
from jwarp.bind import compat, values
from jwarp.bind.derivatives import DERIVATIVES, launch_of_derivative
from jwarp.bind.primitive import LAUNCHES, core_extents
from jwarp.compiler.cpu import lower_kernel
from jwarp.compiler.explain import Access, LaunchExplanation, explain_launch
from jwarp.compiler.launch_forms import spread_launch
from jwarp.errors import KernelTypeError
from jwarp.frontend.foreign.kernels import as_kernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching.batch import Batch
from jwarp.types import ScalarType
from jwarp.wire import Role


@dataclass(frozen=True)
class Explanation:
    """The launches of a function, in order; printed, a table by source line."""

    launches: tuple[LaunchExplanation, ...]

    @property
    def rows(self) -> tuple[Access, ...]:
        """The accesses of all launches."""
        return tuple(row for launch in self.launches for row in launch.rows)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.launches)) or "no launch"

    __repr__ = __str__


def explain(fn: Callable[..., Any] | Launch) -> Callable[..., Explanation]:
    """Explain the launches that `fn` makes: `print(wp.explain(fn)(*args))`.

    For each access to an array, by source line: whether the launch proves it in range, and under which condition, or
    each thread checks it; and how it is implemented (scalar, vector, wide with a shuffle, gather or scatter, atomic).
    For each launch: the vector width, the compiled versions and their compile times, and where the zeros of outputs
    come from.

    The function is traced and its kernels are compiled, but nothing runs. An array argument may be a
    `jax.ShapeDtypeStruct`.

    Args:
        fn: A function from `wp.jax_kernel`, a `wp.Launch` (explained without arguments), or any JAX function that
            launches kernels, also inside `jax.jit`, `jax.vmap` or `jax.lax.scan`. A launch inside a loop is explained
            once.

    Returns:
        A function of the arguments of `fn`. Its result prints as a table, and holds the same as data: `launches`, each
        with its `rows`, and all `rows` together.

    Raises:
        KernelTypeError: `fn` is a kernel, or not a function.

    Example:
        >>> print(wp.explain(wp.jax_kernel(scale))(jnp.arange(4.0), 2.0))
    """
    if isinstance(fn, Launch):
        fn = fn.launch
    fn = as_kernel(fn)
    if isinstance(fn, Kernel):
        raise KernelTypeError(
            f"wp.explain: expected a function of JAX, got the kernel '{fn.name}'",
            hint=f"wp.jax_kernel({fn.name}) is one, and so is a function that calls wp.launch",
        )
    if not callable(fn):
        raise KernelTypeError(f"wp.explain: expected a function of JAX, got {type(fn).__name__}")

    @shortening
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        leaves, tree = jax.tree.flatten((args, kwargs))
        # Python's numbers, and what else is given, may decide how the function is traced.
        traced = [k for k, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, np.ndarray, jax.ShapeDtypeStruct))]

        def run(*arrays: Any) -> Any:
            given = list(leaves)
            for k, array in zip(traced, arrays, strict=True):
                given[k] = array
            args, kwargs = jax.tree.unflatten(tree, given)
            return fn(*args, **kwargs)

        closed = jax.make_jaxpr(run)(*(leaves[k] for k in traced))
        known = {
            var: leaves[k]
            for var, k in zip(closed.jaxpr.invars, traced, strict=True)
            if not isinstance(leaves[k], jax.ShapeDtypeStruct)
        }
        # Equal but for the place where they are made, launches are explained once.
        counts: dict[_Found, int] = {}
        for found in _launches(closed, known):
            counts[found] = counts.get(found, 0) + 1
        return Explanation(tuple(replace(_explain(found), count=count) for found, count in counts.items()))

    return explained


@dataclass(frozen=True)
class _Found:
    """One launch in a traced function: what the primitive has, and scalar arguments of known value."""

    params: tuple[tuple[str, Any], ...]
    avals: tuple[Any, ...]
    scalars: tuple[tuple[int, int], ...]


def _launches(closed: Any, known: Mapping[Any, Any]) -> Iterator[_Found]:
    """The launches of a jaxpr and of those inside it; `known` has values of its variables."""
    jaxpr = getattr(closed, "jaxpr", closed)
    constants = {**known, **dict(zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=False))}

    def value_of(operand: Any) -> Any:
        return operand.val if hasattr(operand, "val") else constants.get(operand)

    for equation in jaxpr.eqns:
        operands = [value_of(operand) for operand in equation.invars]
        if equation.primitive in LAUNCHES:
            avals = tuple(operand.aval for operand in equation.invars)
            yield _Found(tuple(equation.params.items()), avals, _scalars(equation.params, operands))
            continue
        if equation.primitive in DERIVATIVES:
            compute = functools.partial(launch_of_derivative, **equation.params)
            inner = jax.make_jaxpr(compute)(*(operand.aval for operand in equation.invars))
            pairs = zip(inner.jaxpr.invars, operands, strict=True)
            yield from _launches(inner, {var: value for var, value in pairs if value is not None})
            continue
        for inner in _inner_jaxprs(equation.params.values()):
            inside = {}
            # Other equations than these may run a jaxpr more than once, with other arguments.
            if equation.primitive.name == compat.JIT:
                pairs = zip(inner.jaxpr.invars, operands, strict=True)
                inside = {var: value for var, value in pairs if value is not None}
            yield from _launches(inner, inside)


def _inner_jaxprs(params: Any) -> Iterator[Any]:
    for param in params:
        if isinstance(param, (tuple, list)):
            yield from _inner_jaxprs(param)
        elif hasattr(param, "jaxpr") or hasattr(param, "eqns"):
            yield param


def _scalars(params: Mapping[str, Any], operands: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """The integer arguments of a launch that are the same for the whole batch and known here."""
    launch = params["launch"]
    found = []
    for index, mask, value in zip(launch.operands, params["batch"].operands, operands, strict=True):
        type_ = launch.program.kernel.params[index].type
        if isinstance(type_, ScalarType) and type_.is_int and not any(mask):
            given = values.describe(value)
            if given.concrete or given.origin in ("numpy", "number"):
                found.append((index, int(value)))
    return tuple(found)


def _explain(found: _Found) -> LaunchExplanation:
    params = dict(found.params)
    launch, shapes, batch = params["launch"], params["zeros"], params["batch"]
    spread = spread_launch(launch, shapes, batch)
    if spread is not None:
        launch, shapes = spread
        batch = Batch.none(len(batch.operands), len(batch.results))
    program, geometry = launch.program, launch.geometry
    extents = core_extents(found.avals, launch, shapes, batch)
    zeros = [index for index, role in enumerate(launch.roles) if role is Role.ZEROS]
    kernel = lower_kernel(program.kernel, program.settings)
    return explain_launch(kernel, geometry.dims, geometry.repeat, batch.extents, extents, zeros, dict(found.scalars))
