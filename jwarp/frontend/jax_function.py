"""Functions that are no text of the kernel language and bring their own way to IR, as those of jax.numpy do."""

from __future__ import annotations

import functools
import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from jwarp.errors import NO_SPAN, Span
from jwarp.frontend.func import Func
from jwarp.frontend.syntax.outputs import Outputs
from jwarp.types import wanted_type


class JaxFunction(Func):
    """A function that a layer above reads: this one knows of no JAX. Outside kernels it is the Python function."""

    def __init__(self, function: Callable):
        functools.update_wrapper(self, function)
        self.python = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.outputs = Outputs((), 0)
        self.defined = (self,)

    @property
    def span(self) -> Span:
        """Where it is defined."""
        code = getattr(inspect.unwrap(self.python), "__code__", None)
        return NO_SPAN if code is None else Span(code.co_filename, code.co_firstlineno)

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        """The annotations; those of Python's own types say nothing of the width of numbers, and are left out."""
        try:
            found = inspect.get_annotations(inspect.unwrap(self.python), eval_str=True)
        except Exception:  # whatever a text among them raises: they are not for kernels then
            return {}
        known = {name: kind for name, kind in found.items() if kind not in (int, float, bool, None)}
        return {name: kind for name, kind in known.items() if wanted_type(kind) is not None}

    @abstractmethod
    def lowered(self, ctx: Any, arguments: Mapping[str, Any], span: Span) -> Any:
        """Lower a call at `span` with these arguments, bindings by parameter, at the current place of `ctx`."""

    def __repr__(self) -> str:
        return f"<wp.jax_func {self.name}>"
