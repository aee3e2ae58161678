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
    """Make a function for kernels from a snippet of CUDA C++, as in Warp. GPUs run the snippet.

    Parameters are scalars, vectors, matrices and other composites by value, references (`wp.ref[T]`), and whole arrays.
    The result is a scalar, a composite or nothing. In the snippet, they have the types of Warp's library: `x[i]`,
    `x.data[i]`, `x.shape[0]` of an array, `v[0]`, `v.c[0]` of a `wp::vec3`. Arrays that the snippet does not visibly
    write to are const. Nothing checks its indices on GPUs.

    Args:
        snippet: The code. A snippet that only synchronises the threads of a block, `WP_TILE_SYNC();` or
            `__syncthreads();`, is the barrier of the block on every platform.
        adj_snippet: The code of its reverse-mode derivative, on GPUs. It adds to `adj_x` of float parameters `x`, and
            to `adj_x[i]` of arrays, from `adj_ret` of the result and `adj_y[i]` of the arrays that the snippet writes.
            Without it, derivatives are those of `cpu`, on every platform.
        replay_snippet: The code that derivatives run instead of `snippet`. Arrays that it does not name have the
            content that the launch left.
        cpu: A `@wp.func` with the same parameters, which runs on CPUs, and in kernels with tiles. Without `cpu` and
            `replay_snippet`, a snippet that is plain arithmetic on numbers (by value or by reference) and on elements
            of one-dimensional arrays is itself compiled for CPUs, from the lines for which `__CUDA_ARCH__` is not
            defined. There, an index outside an array reads zero and stores nothing, and a negative index counts from
            the end, as in kernels. This also holds for an `adj_snippet` on numbers alone.

    Raises:
        KernelTypeError: `cpu` is not a `@wp.func`, or a snippet is not a string.
        CompileError: When a kernel that calls the function is to run on a CPU, and nothing can run there. The error
            names the reason.
        NotDifferentiableError: When a derivative is taken, and nothing defines it.
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
