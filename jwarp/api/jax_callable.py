"""`wp.jax_callable`: a function of launches as a function of JAX arrays, with the keywords of Warp's wrapper."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jwarp.api.jax_arrays import annotated
from jwarp.api.modes import JaxCallableGraphMode
from jwarp.api.wrappers import made_once
from jwarp.arrays.array import array
from jwarp.bind.functional import Functional
from jwarp.bind.pytrees import around
from jwarp.caches import Cache
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.launching import geometry
from jwarp.launching.keywords import refuse_keywords
from jwarp.types import ArrayType, annotations_of, meant

# Keywords of Warp's wrapper that choose how it calls back into Python, which nothing does here.
_WITHOUT_EFFECT = (
    "graph_mode", "vmap_method", "stage_in_argnames", "stage_out_argnames", "graph_cache_max", "module_preload_mode",
    "has_side_effect",
)  # fmt: skip

# Programs of Warp get one object for one function with the same options.
_MADE: Cache[Any, JaxCallable] = Cache("functions of `wp.jax_callable`", 256)


def jax_callable(
    func: Callable[..., None],
    num_outputs: int = 1,
    *,
    output_dims: Any = None,
    in_out_argnames: Sequence[str] | None = (),
    **others: Any,
) -> JaxCallable:
    """Make a function of JAX arrays from a function that launches kernels on arrays.

    The parameters of `func` are annotated like those of a kernel; the last ones are its outputs. `func` runs once,
    while JAX traces: its launches, copies, fills and temporary arrays become part of the JAX program, which works under
    `jax.jit`, `jax.vmap`, `jax.grad`, `jax.jvp` and `jax.lax.scan`. Gradients also go through kernels made with
    `enable_backward=False`.

    Args:
        func: A function that returns None.
        num_outputs: Number of arrays that are returned, including those of `in_out_argnames`. At least 1.
        output_dims: Shape of all outputs (int or tuple), or a dict of shapes by name, with or without the axes of
            components. Default: the shape of the first array argument. Outputs start as zeros.
        in_out_argnames: Array parameters that start from the array that is passed for them, and are returned.
        others: Other keywords of Warp's wrapper (`graph_mode`, `vmap_method`, …) are accepted without effect, except
            that `graph_mode`, `stage_in_argnames` and `stage_out_argnames` are kept as attributes.

    Returns:
        A function of the inputs that returns a tuple of `num_outputs` arrays, in the order of the parameters.
        `output_dims=` may be given for a single call. Floats may be traced; ints and bools are part of the program.

    Raises:
        KernelTypeError: An annotation is missing, or an output is not an array. At a call: an argument has another
            dtype or rank than its parameter.
        LaunchError: Counts or names do not match, or `func` writes to an array that is not returned.

    Example:
        >>> step_fn = wp.jax_callable(step, num_outputs=2)
        >>> x1, v1 = jax.jit(step_fn)(x, v, 0.01)
    """
    refuse_keywords("wp.jax_callable", {k: v for k, v in others.items() if k not in _WITHOUT_EFFECT}, _KEYWORDS)

    def make() -> JaxCallable:
        return JaxCallable(func, num_outputs, output_dims, in_out_argnames, others)

    if not (inspect.isfunction(func) or inspect.ismethod(func)):
        return make()
    options = others | {"num_outputs": num_outputs, "output_dims": output_dims, "in_out_argnames": in_out_argnames}
    return made_once(_MADE, func, options, make)


class JaxCallable:
    """A function of launches as a function of JAX arrays: what `wp.jax_callable` makes."""

    def __init__(
        self,
        func: Callable[..., None],
        num_outputs: int,
        output_dims: Any,
        in_outs: Sequence[str] | None,
        others: Mapping[str, Any],
    ):
        self.func, self.output_dims = func, output_dims
        self.__name__ = getattr(func, "__name__", type(func).__name__)
        self.__doc__ = func.__doc__
        self._where = f"wp.jax_callable: {self.__name__}"
        self.graph_mode = self._read_graph_mode(others.get("graph_mode"))
        self.stage_in_argnames = set(others.get("stage_in_argnames") or ())
        self.stage_out_argnames = set(others.get("stage_out_argnames") or ())
        self.kinds = self._read_kinds()
        names = tuple(self.kinds)
        in_outs = tuple(in_outs or ())
        if len(set(in_outs)) != len(in_outs):
            raise LaunchError(f"{self._where}: in_out_argnames must not contain duplicate names")
        for name in in_outs:
            if name not in names:
                raise LaunchError(
                    f"{self._where} has no parameter {name!r}, which in_out_argnames names:"
                    " it did not match any function argument names"
                )
        fresh = num_outputs - len(in_outs)
        if num_outputs < 1 or fresh < 0 or fresh > len(names):
            raise LaunchError(
                f"{self._where} has {len(names)} parameters, of which {num_outputs} cannot be outputs with"
                f" {len(in_outs)} in in_out_argnames"
            )
        self.inputs, self.fresh = names[: len(names) - fresh], names[len(names) - fresh :]
        self.outputs = tuple(name for name in names if name in in_outs or name in self.fresh)
        for name in self.outputs:
            if not isinstance(self.kinds[name], ArrayType):
                raise KernelTypeError(f"{self._where}: output '{name}' is annotated {self.kinds[name]!r}, no array")
            if name in in_outs and name in self.fresh:
                raise LaunchError(
                    f"{self._where}: '{name}' is in in_out_argnames, and stands among the outputs: in_out arguments"
                    " should be placed before output-only arguments"
                )
        self._function = Functional(self.__name__, func, self.outputs, (), "wp.jax_callable")

    def _read_graph_mode(self, mode: Any) -> JaxCallableGraphMode:
        try:
            return JaxCallableGraphMode.JAX if mode is None else JaxCallableGraphMode(mode)
        except ValueError:
            modes = ", ".join(m.name for m in JaxCallableGraphMode)
            raise LaunchError(f"{self._where}: graph_mode={mode!r} is none of {modes}") from None

    def _read_kinds(self) -> dict[str, Any]:
        """The type of each parameter: of an array, or what a number is."""
        hints = annotations_of(self.func)
        found = {}
        for name in inspect.signature(self.func).parameters:
            if name not in hints:
                raise KernelTypeError(f"{self._where}: parameter '{name}' has no annotation", hint="as in a kernel")
            found[name] = meant(hints[name])
        return found

    def __call__(self, *args: Any, output_dims: Any = None, vmap_method: Any = None) -> tuple[jax.Array, ...]:
        if len(args) != len(self.inputs):
            raise LaunchError(
                f"{self._where} takes {len(self.inputs)} arguments ({', '.join(self.inputs)}), got {len(args)}"
            )
        given = {name: self._argument(name, value) for name, value in zip(self.inputs, args, strict=True)}
        dims = self.output_dims if output_dims is None else output_dims
        for name in self.fresh:
            kind = self.kinds[name]
            shape = self._shape(name, dims, given)
            given[name] = around(jnp.zeros((*shape, *kind.components), kind.dtype.dtype), kind.element)
        found = self._function(given)
        made = (found,) if len(self.outputs) == 1 else found
        return tuple(a.memory.read(a.layout) for a in made)

    def _argument(self, name: str, value: Any) -> Any:
        kind = self.kinds[name]
        if not isinstance(kind, ArrayType):
            return value
        if isinstance(value, array):
            value = jnp.asarray(value)
        return annotated(jnp.asarray(value), kind, f"{self._where}, parameter '{name}'")

    def _shape(self, name: str, dims: Any, given: Mapping[str, Any]) -> tuple[int, ...]:
        if isinstance(dims, Mapping):
            if name not in dims:
                raise LaunchError(f"{self._where}: output_dims has no shape for '{name}'")
            dims = dims[name]
        if dims is None:
            dims = next((a.shape for a in given.values() if isinstance(a, array)), None)
        if dims is None:
            raise LaunchError(f"{self._where}: nothing tells the shape of '{name}'", hint="pass output_dims")
        shape = geometry.read_extents(dims, self.__name__, "output_dims", self.kinds[name])
        if len(shape) != self.kinds[name].dims:
            raise LaunchError(f"{self._where}: output '{name}' is {self.kinds[name]!r}, and its shape {shape}")
        return shape

    def __repr__(self) -> str:
        return f"<wp.jax_callable of {self.__name__}({', '.join(self.inputs)})>"


_KEYWORDS = ("num_outputs", "output_dims", "in_out_argnames", *_WITHOUT_EFFECT)
