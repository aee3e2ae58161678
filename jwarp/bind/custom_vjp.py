"""Gradients that a user gives for functions of launches, and where none are wanted."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.bind.control import written
from jwarp.bind.traced_memory import CONSTANT, TracedMemory
from jwarp.bind.trees import Reader, Writer, changed_paths
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.kernel_base import Kernel

# From copies of the arguments before, after, and of the cotangents of what they hold after, which it changes.
Rule = Callable[[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]], None]

_NONE: frozenset[Any] = frozenset()
_kernels: contextvars.ContextVar[frozenset[Any]] = contextvars.ContextVar("kernels without gradients", default=_NONE)


def is_stopped(kernel: Kernel) -> bool:
    """True if gradients stop at a launch of the kernel now."""
    return CONSTANT.get() or (kernel.name, kernel.span) in _kernels.get()


@contextlib.contextmanager
def stopping(kernels: Iterable[Kernel]) -> Iterator[None]:
    """No gradient goes through launches of these kernels."""
    token = _kernels.set(_kernels.get() | {(kernel.name, kernel.span) for kernel in kernels})
    try:
        yield
    finally:
        _kernels.reset(token)


@contextlib.contextmanager
def replaced(others: Mapping[Any, Any]) -> Iterator[None]:
    """Functions are called by the names that modules know them by; others stand for them inside.

    Raises:
        KernelTypeError: no module knows one of them.
    """
    by_id = {id(function): (function, other) for function, other in others.items()}
    done: list[tuple[Any, str, Any]] = []
    spaces = [getattr(module, "__dict__", None) for module in list(sys.modules.values())] if by_id else []
    spaces += [getattr(inspect.unwrap(function), "__globals__", None) for function in others]
    for names in {id(names): names for names in spaces if isinstance(names, dict)}.values():
        done += [(names, name, value) for name, value in list(names.items()) if id(value) in by_id]
    missing = [f for f, _ in by_id.values() if not any(value is f for _, _, value in done)]
    if missing:
        raise KernelTypeError(
            f"wp.functionalize: no module has the function {getattr(missing[0], '__name__', missing[0])!r} by a name,"
            " so that its calls are not found",
            hint="give functions that are defined at the top of a module",
        )
    try:
        for names, name, value in done:
            names[name] = by_id[id(value)][1]
        yield
    finally:
        for names, name, value in done:
            names[name] = value


def stopped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, through whose launches no gradient goes."""

    @functools.wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        token = CONSTANT.set(True)
        try:
            return function(*args, **named)
        finally:
            CONSTANT.reset(token)

    return run


def with_rule(function: Callable[..., Any], rule: Rule) -> Callable[..., None]:
    """The function, whose gradient is what `rule` says.

    Raises, as it is called:
        LaunchError: it returns something, or binds attributes anew.
    """
    name = getattr(function, "__name__", type(function).__name__)
    signature = inspect.signature(function)

    @functools.wraps(function)
    def run(*args: Any, **named: Any) -> None:
        bound = signature.bind(*args, **named)
        given = tuple(bound.arguments.values())
        reader = Reader()
        node = reader.read(given, name)
        memories = [memory for memory in reader.memories if isinstance(memory, TracedMemory)]
        changed = [memory for memory in written(lambda: function(*args, **named), f"'{name}'") if memory in memories]
        places = [memories.index(memory) for memory in changed]

        def made(contents: Sequence[Any], values: Sequence[Any]) -> tuple[Any, list[TracedMemory]]:
            inner = {id(memory): TracedMemory(x, memory.name) for memory, x in zip(memories, contents, strict=True)}
            shown = [(inner.get(id(memory), memory), 0) for memory in reader.memories]
            return Writer(shown, list(values)).make(node), list(inner.values())

        def primal(contents: Sequence[Any], values: Sequence[Any]) -> list[Any]:
            arguments, inner = made(contents, values)
            before = Reader()
            shape = before.read(arguments, name)
            again = inspect.BoundArguments(signature, dict(zip(bound.arguments, arguments, strict=True)))
            result = function(*again.args, **again.kwargs)
            bound_anew = list(changed_paths(shape, Reader(before).read(arguments, name), name))
            if result is not None or bound_anew:
                raise LaunchError(
                    f"{name} has a rule of custom_vjp, and "
                    + ("returns something" if result is not None else f"binds {bound_anew[0]} anew"),
                    hint="let it write to arrays of its arguments, and nothing else",
                )
            return [inner[k].value for k in places]

        def forward(contents: Sequence[Any], values: Sequence[Any]) -> tuple[list[Any], Any]:
            found = primal(contents, values)
            return found, (contents, values, found)

        def back(kept: Any, cotangents: Sequence[Any]) -> Any:
            contents, values, found = kept
            after, flowing = list(contents), [_zero(x) for x in contents]
            for k, x, g in zip(places, found, cotangents, strict=True):
                after[k] = x
                flowing[k] = g if jnp.issubdtype(x.dtype, jnp.floating) else jnp.zeros_like(x)
            gradients, memories_of = made(flowing, values)
            rule(made(contents, values)[0], made(after, values)[0], gradients)
            return [_gradient(x, memory) for x, memory in zip(contents, memories_of, strict=True)], [
                _gradient(x, None) for x in values
            ]

        ruled = jax.custom_vjp(primal)
        ruled.defvjp(forward, back)
        values = [jnp.asarray(x) for x in reader.values]
        end = ruled([memory.value for memory in memories], values)
        for memory, value in zip(changed, end, strict=True):
            memory.value = value

    return run


def _zero(x: Any) -> Any:
    return jnp.zeros_like(x)


def _gradient(x: Any, memory: TracedMemory | None) -> Any:
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return np.zeros(x.shape, jax.dtypes.float0)
    return jnp.zeros_like(x) if memory is None else memory.value
