"""Captures: launches, copies and fills that are put into a graph instead of run, to be run by one call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.commands import Command, capture, listeners, submit
from jwarp.bind.compat import is_not_tracing
from jwarp.bind.control import traced_if, traced_while
from jwarp.devices import get_device, set_capturing
from jwarp.dispatch.tape.graphs import Graph
from jwarp.dispatch.tape.native_steps import Branch, Loop
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import int32


def capture_begin(
    device: Any = None,
    stream: Any = None,
    force_module_load: bool | None = None,
    external: bool = False,
    apic: bool = False,
    capture_mode: Any = None,
) -> None:
    """Start to record launches on `wp.array`s, copies and fills in a graph, instead of running them.

    Args:
        device: Must be a device, but has no other effect: the graph runs on the device of its arrays.
        stream, force_module_load, external, apic, capture_mode: Accepted for compatibility with Warp; no effect.

    Raises:
        LaunchError: A capture is already open.
    """
    get_device(device)
    if listeners.here.capture is not None:
        raise LaunchError("a capture has begun already", hint="end it with wp.capture_end()")
    capture([])
    set_capturing(True)


def capture_end(device: Any = None, stream: Any = None) -> Graph:
    """End a capture and return its graph.

    Raises:
        LaunchError: No capture is open.
    """
    taken = listeners.here.capture
    if taken is None:
        raise LaunchError("no capture has begun", hint="begin one with wp.capture_begin()")
    capture(None)
    set_capturing(False)
    return Graph(taken)


def capture_launch(graph: Graph, stream: Any = None) -> None:
    """Run a graph, on the arrays that were captured, by one native call.

    Raises:
        KernelTypeError: `graph` is not a graph.
        LaunchError: An array was freed or resized by force after the capture.
    """
    if not isinstance(graph, Graph):
        raise KernelTypeError(f"wp.capture_launch: expected a graph, got {type(graph).__name__}")
    submit(graph)


def _taken(body: Any, arguments: dict[str, Any], name: str) -> list[Command]:
    """The commands of a function, or of a graph."""
    if body is None:
        return []
    if isinstance(body, Graph):
        return [body]
    if not callable(body):
        raise KernelTypeError(f"{name}: expected a function or a graph, got {type(body).__name__}")
    before = capture([])
    try:
        body(**arguments)
        return listeners.here.capture or []
    finally:
        capture(before)


def _check(condition: Any, name: str) -> None:
    if not (isinstance(condition, array) and condition.size == 1 and condition.dtype is int32):
        raise KernelTypeError(f"{name}: the condition is an array of one int32, not {condition!r}")


def _now(body: Any, arguments: dict[str, Any]) -> None:
    if isinstance(body, Graph):
        capture_launch(body)
    elif body is not None:
        body(**arguments)


def _name(body: Any) -> str:
    code = getattr(body, "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return repr(getattr(body, "__name__", type(body).__name__)) + place


def capture_if(
    condition: array,
    on_true: Callable[..., Any] | Graph | None = None,
    on_false: Callable[..., Any] | Graph | None = None,
    stream: Any = None,
    **kwargs: Any,
) -> None:
    """Run one of two branches, depending on an array of one int32: in a capture, each time the graph is launched.

    While JAX traces, it becomes `jax.lax.cond` over the arrays that the branches write.

    Args:
        condition: The array. `on_true` runs if its element is not 0, otherwise `on_false`.
        on_true, on_false: Functions that launch, copy and fill, or graphs; None for nothing.
        stream: Has no effect.
        kwargs: Arguments of the functions.

    Raises:
        KernelTypeError: The condition is not such an array, or a branch is neither a function nor a graph.
    """
    _check(condition, "wp.capture_if")
    if not is_not_tracing():
        both = on_true, on_false
        branches = [functools.partial(_now, body, kwargs) for body in both]
        return traced_if(condition, branches, both, " or ".join(map(_name, both)), kwargs)
    if listeners.here.capture is None:
        return _now(on_true if condition.numpy()[0] else on_false, kwargs)
    taken = (_taken(body, kwargs, "wp.capture_if") for body in (on_true, on_false))
    return submit(Branch(condition, *taken))


def capture_while(condition: array, while_body: Callable[..., Any] | Graph, stream: Any = None, **kwargs: Any) -> None:
    """Repeat a body while an array of one int32 is not 0: in a capture, each time the graph is launched.

    While JAX traces, it becomes `jax.lax.while_loop` over the arrays that the body writes. If `wp.functionalize` has
    `max_trips`, it becomes a loop of that many iterations, which has a gradient in reverse mode. The body runs twice:
    to find the arrays that it writes, and to trace it.

    Args:
        condition: The array, which the body changes.
        while_body: A function that launches, copies and fills, or a graph.
        stream: Has no effect.
        kwargs: Arguments of the function.

    Raises:
        KernelTypeError: The condition is not such an array, or the body is neither a function nor a graph.
    """
    _check(condition, "wp.capture_while")
    if not is_not_tracing():
        return traced_while(
            condition, functools.partial(_now, while_body, kwargs), while_body, _name(while_body), kwargs
        )
    if listeners.here.capture is not None:
        return submit(Loop(condition, _taken(while_body, kwargs, "wp.capture_while")))
    if condition.device != "cpu":
        while condition.numpy().flat[0]:
            _now(while_body, kwargs)
        return None
    shown: np.ndarray = condition.numpy()
    while shown.flat[0]:
        _now(while_body, kwargs)
    return None


class ScopedCapture:
    """A context manager in which launches are captured. When it has ended, `graph` is the graph.

    Example:
        >>> with wp.ScopedCapture() as capture:
        ...     wp.launch(step, n, inputs=[x])
        >>> wp.capture_launch(capture.graph)
    """

    def __init__(
        self,
        device: Any = None,
        stream: Any = None,
        force_module_load: bool | None = None,
        external: bool = False,
        apic: bool = False,
        capture_mode: Any = None,
    ):
        self.device, self.active, self.graph = get_device(device), False, None

    def __enter__(self) -> ScopedCapture:
        capture_begin(self.device)
        self.active = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.active = False
        made = capture_end(self.device)
        self.graph = made if kind is None else None

    graph: Graph | None


__all__ = ["Graph"]
