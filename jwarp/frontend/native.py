"""`@wp.func_native`: functions that are text in C++, which run where something else says what they compute."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.by_name import ByName
from jwarp.frontend.func import Func
from jwarp.frontend.syntax.source import check_function

# Texts that only let the threads of a block, or of a part of it, wait for each other, without their white space.
_ON_GPUS = "#ifdefined(__CUDA_ARCH__){}#endif"
_WAITS = ("__syncthreads();", "__syncwarp();", "__syncwarp(0xffffffff);", "__syncwarp(0xffffffffu);")
_BARRIERS = frozenset(("WP_TILE_SYNC();", *_WAITS, *map(_ON_GPUS.format, _WAITS)))


class NativeFunc(ByName):
    """A function whose body is text in C++."""

    def __init__(
        self,
        function: Callable,
        snippet: str,
        adj_snippet: str | None = None,
        replay_snippet: str | None = None,
        cpu: Func | None = None,
    ):
        functools.update_wrapper(self, function)
        self.python, self.name = function, function.__name__
        self.snippet, self.adj_snippet, self.replay_snippet, self.cpu = snippet, adj_snippet, replay_snippet, cpu

    @property
    def is_barrier(self) -> bool:
        """Whether its text does nothing but let the threads of a block wait for each other."""
        return "".join(self.snippet.split()) in _BARRIERS

    def refusal(self, span: Span) -> CompileError:
        """The error for a call of a function that is text alone."""
        return CompileError(
            f"`{self.name}` is native code, which is not compiled here",
            span,
            "give it the same in the kernel language: @wp.func_native(snippet, cpu=f) with a @wp.func f",
        )

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self.cpu is None:
            raise KernelTypeError(f"`{self.name}` is native code, which can only be called inside a kernel")
        return self.cpu(*args, **named)

    def __repr__(self) -> str:
        return f"<wp.func_native {self.name}>"


def func_native(
    snippet: str,
    adj_snippet: str | None = None,
    replay_snippet: str | None = None,
    *,
    cpu: Callable | None = None,
) -> Callable[[Callable], NativeFunc]:
    """Make a function of a text in C++, as Warp does, that kernels can call where `cpu` says what it computes.

    Args:
        snippet: The text. One that only lets the threads of a block wait for each other, as `WP_TILE_SYNC();` or
            `__syncthreads();`, is the block's barrier on every platform.
        adj_snippet, replay_snippet: Accepted so that Warp code ports: the derivative is that of `cpu`.
        cpu: A `@wp.func` with the same parameters. It is what runs, on every platform.

    Raises:
        KernelTypeError: `cpu` is no `@wp.func`, or `snippet` is no text. A kernel that calls a function without `cpu`
            raises a CompileError when it is first used.
    """
    if not isinstance(snippet, str):
        raise KernelTypeError(
            f"@wp.func_native needs the text of a function, not an object of type {type(snippet).__name__}",
            hint='write @wp.func_native("return x + 1.0f;") above the `def`',
        )
    if cpu is not None and not isinstance(cpu, Func):
        raise KernelTypeError(
            f"@wp.func_native: `cpu` must be a function under @wp.func, not {getattr(cpu, '__name__', cpu)!r}"
        )

    def decorate(function: Callable) -> NativeFunc:
        check_function(function, "@wp.func_native")
        return NativeFunc(function, snippet, adj_snippet, replay_snippet, cpu)

    return decorate
