"""`wp.capture_while` and `wp.capture_if`: loops and branches that an array decides on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jwarp.arrays.array import array
from jwarp.arrays.commands import Call, listeners, submit
from jwarp.arrays.memory import HostMemory
from jwarp.bind.compat import is_not_tracing
from jwarp.bind.control import traced_if, traced_while
from jwarp.errors import KernelTypeError


def capture_while(condition: array, while_body: Callable[..., None] | Any, stream: Any = None, **kwargs: Any) -> None:
    """Run `while_body` as long as the first element of `condition` is not zero.

    While JAX traces, it becomes `jax.lax.while_loop` over the arrays that the body writes, or, with `max_trips` of
    `wp.functionalize`, a loop of so many trips that reverse mode goes through. The body is run twice then, to find out
    what it writes, and to trace it.

    Args:
        condition: An array of int32 that a kernel of the body writes to.
        while_body: A function that launches kernels, or a graph.
        stream: None: there is one.
        kwargs: The arguments of the function.

    Raises:
        KernelTypeError: `condition` is no array of int32, or the body is neither.
        LaunchError: While JAX traces, the body does not write to the condition.

    Example:
        >>> wp.capture_while(going, lambda: wp.launch(halve, 1, inputs=[x, going]))
    """
    _check("wp.capture_while", condition)
    body = _callable("wp.capture_while", while_body, kwargs)
    if not is_not_tracing():
        return traced_while(condition, body, while_body, _name(while_body))

    def run() -> None:
        while _holds(condition):
            body()

    return submit(Call(run)) if listeners.capture is not None else run()


def capture_if(
    condition: array,
    on_true: Callable[..., None] | Any = None,
    on_false: Callable[..., None] | Any = None,
    stream: Any = None,
    **kwargs: Any,
) -> None:
    """Run `on_true` if the first element of `condition` is not zero, and else `on_false`.

    While JAX traces, it becomes `jax.lax.cond` over the arrays that they write.

    Args:
        condition: An array of int32.
        on_true, on_false: Functions that launch kernels, graphs, or None for nothing.
        stream: None: there is one.
        kwargs: The arguments of the functions.

    Raises:
        KernelTypeError: `condition` is no array of int32, or a branch is neither.
    """
    _check("wp.capture_if", condition)
    branches = [_callable("wp.capture_if", branch, kwargs) for branch in (on_true, on_false)]
    if not is_not_tracing():
        return traced_if(condition, branches, " or ".join(map(_name, (on_true, on_false))))

    def run() -> None:
        branches[0 if _holds(condition) else 1]()

    return submit(Call(run)) if listeners.capture is not None else run()


def _check(what: str, condition: Any) -> None:
    if not isinstance(condition, array) or condition.device is None or condition.layout.dtype != "int32":
        shown = f"array of {condition.dtype!r}" if isinstance(condition, array) else type(condition).__name__
        raise KernelTypeError(f"{what}: the condition is an array of int32, got {shown}")


def _callable(what: str, body: Any, arguments: dict[str, Any]) -> Callable[[], None]:
    if body is None:
        return lambda: None
    if callable(body):
        return functools.partial(body, **arguments)
    launch = getattr(body, "launch", None)
    if launch is None:
        raise KernelTypeError(f"{what}: a body is a function or a graph, got {type(body).__name__}")
    return launch


def _name(body: Any) -> str:
    return repr(getattr(body, "__name__", type(body).__name__))


def _holds(condition: array) -> bool:
    memory = condition.memory
    content = condition.host() if isinstance(memory, HostMemory) else memory.lend(condition.layout)
    return bool(content.reshape(-1)[0])
