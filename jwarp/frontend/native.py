"""`@wp.func_native`: functions that are text in C++ for GPUs, and what stands for them elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jwarp.errors import KernelTypeError
from jwarp.frontend.func import Func
from jwarp.frontend.syntax.source import Definition, check_function
from jwarp.types import Reference

# Texts that only let the threads of a block, or of a part of it, wait for each other, without their white space.
_ON_GPUS = "#ifdefined(__CUDA_ARCH__){}#endif"
_WAITS = ("__syncthreads();", "__syncwarp();", "__syncwarp(0xffffffff);", "__syncwarp(0xffffffffu);")
_BARRIERS = frozenset(("WP_TILE_SYNC();", *_WAITS, *map(_ON_GPUS.format, _WAITS)))


class NativeFunc(Func):
    """A function whose body is text in C++, for GPUs; elsewhere `cpu` stands for it."""

    def __init__(
        self,
        function: Callable,
        snippet: str,
        adj_snippet: str | None = None,
        replay_snippet: str | None = None,
        cpu: Func | None = None,
        definition: Definition | None = None,
    ):
        super().__init__(function, definition=definition)
        self.snippet, self.adj_snippet, self.replay_snippet, self.cpu = snippet, adj_snippet, replay_snippet, cpu

    @property
    def is_barrier(self) -> bool:
        """True if the text is a barrier of the block and nothing else."""
        return "".join(self.snippet.split()) in _BARRIERS

    @functools.cached_property
    def of_values(self) -> NativeFunc:
        """The same with references taken by value, which come back after the result; itself where there are none."""
        return ValuesFunc(self) if self.references else self

    @property
    def given_back(self) -> tuple[str, ...]:
        """The parameters that come back after the result."""
        return ()

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self.cpu is None:
            raise KernelTypeError(f"`{self.name}` is native code, which can only be called inside a kernel")
        return self.cpu(*args, **named)

    def __repr__(self) -> str:
        return f"<wp.func_native {self.name}>"


class ValuesFunc(NativeFunc):
    """A native function that takes values for its references, and gives what they are then after its result."""

    def __init__(self, native: NativeFunc):
        texts = native.snippet, native.adj_snippet, native.replay_snippet
        super().__init__(native.python, *texts, definition=native.definition)
        self._given_back = tuple(native.references)

    @functools.cached_property
    def references(self) -> dict[str, Reference]:
        """None: values are given."""
        return {}

    @property
    def given_back(self) -> tuple[str, ...]:
        return self._given_back


def func_native(
    snippet: str,
    adj_snippet: str | None = None,
    replay_snippet: str | None = None,
    *,
    cpu: Callable | None = None,
) -> Callable[[Callable], NativeFunc]:
    """Make a function of a text in C++, as Warp does, that kernels can call: GPUs run it.

    Its parameters are scalars, vectors, matrices and the other composites by value, places of the caller's
    (`wp.ref[T]`), and whole arrays; it gives a scalar, a composite or nothing. In the text they have the
    types of Warp's library: `x[i]`, `x.data[i]`, `x.shape[0]` of an array, `v[0]`, `v.c[0]` of a `wp::vec3`. An array
    that the text does not plainly write to is constant there. Nothing tests its indices.

    Args:
        snippet: The text. One that only lets the threads of a block wait for each other, as `WP_TILE_SYNC();` or
            `__syncthreads();`, is the block's barrier on every platform.
        adj_snippet: The text of its derivative in reverse mode, on GPUs: it adds to `adj_x` of the float parameters
            `x`, of arrays to `adj_x[i]`, by `adj_ret` of the result and `adj_y[i]` of the arrays that the text writes.
            Without it, derivatives are those of `cpu`, on every platform.
        replay_snippet: The text that derivatives run in the place of `snippet`. Arrays that it does not name are then
            as the launch left them.
        cpu: A `@wp.func` with the same parameters: what runs where there is no GPU, and with tiles. Without it and
            without `replay_snippet`, texts that are plain arithmetic on numbers, by value or references, and on
            elements of arrays in one dimension stand for themselves there: what they have where `__CUDA_ARCH__` is not
            defined. An index outside of its array reads zero and stores nothing; a negative one counts from the end, as
            in kernels. An `adj_snippet` is one of numbers alone.

    Raises:
        KernelTypeError: `cpu` is no `@wp.func`, or a text is none. A kernel that calls a function for which nothing
            stands raises a CompileError when it is to run on a processor, which names what the text has.
        NotDifferentiableError: where a derivative of it is taken, and nothing says what it is.
    """
    if not isinstance(snippet, str):
        raise KernelTypeError(
            f"@wp.func_native needs the text of a function, not an object of type {type(snippet).__name__}",
            hint='write @wp.func_native("return x + 1.0f;") above the `def`',
        )
    for name, text in (("adj_snippet", adj_snippet), ("replay_snippet", replay_snippet)):
        if text is not None and not isinstance(text, str):
            raise KernelTypeError(f"@wp.func_native: `{name}` must be a text, not {type(text).__name__}")
    if cpu is not None and not isinstance(cpu, Func):
        raise KernelTypeError(
            f"@wp.func_native: `cpu` must be a function under @wp.func, not {getattr(cpu, '__name__', cpu)!r}"
        )

    def decorate(function: Callable) -> NativeFunc:
        check_function(function, "@wp.func_native")
        return NativeFunc(function, snippet, adj_snippet, replay_snippet, cpu)

    return decorate
