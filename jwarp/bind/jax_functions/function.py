"""`@wp.jax_func`: functions of jax.numpy that kernels call, traced by JAX for the types of each call."""

from __future__ import annotations

import inspect
import random
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp.bind import compat
from jwarp.bind.jax_functions import (  # noqa: F401 their rows
    control,
    derivatives,
    elementwise,
    indexing,
    reductions,
    shapes,
    traced,
    transforms,
)
from jwarp.bind.jax_functions import random as _random  # noqa: F401 its rows
from jwarp.bind.jax_functions.arguments import Arguments, binding_of
from jwarp.bind.jax_functions.lowering import MAX_CONSTANTS, Lowering
from jwarp.caches import PerOwner
from jwarp.errors import CompileError, JwarpError, KernelTypeError, Span
from jwarp.frontend.jax_function import JaxFunction
from jwarp.frontend.values.bindings import Binding


@dataclass(frozen=True)
class Trace:
    """A function for arguments of some types: its jaxpr, and what it returns, with shapes for arrays."""

    jaxpr: Any
    result: Any


class JaxFunc(JaxFunction):
    """A function of jax.numpy that kernels can call. Outside kernels it is that function."""

    def lowered(self, ctx: Any, arguments: Mapping[str, Any], span: Span) -> Binding:
        given = Arguments(ctx, self.name, span)
        templates = {name: given.template(name, x) for name, x in arguments.items()}
        wide = compat.x64_enabled() or any(x.flat[0].type.bits == 64 for x in given.arrays)
        with compat.with_x64(wide), jax.disable_jit(False):
            key = (wide, *given.key)
            trace = _TRACES.of(self).made(key, lambda: self._traced(given, templates, span))
            low = Lowering(ctx, self.name, span)
            found = low.closed(trace.jaxpr, given.arrays)
            return binding_of(low, trace.result, found, list(trace.jaxpr.jaxpr.outvars), self.declared("return"))

    def _traced(self, given: Arguments, templates: Mapping[str, Any], span: Span) -> Trace:
        def called(*leaves: Any) -> Any:
            left = list(leaves)
            bound = inspect.BoundArguments(self.signature, {name: make(left) for name, make in templates.items()})
            return self.python(*bound.args, **bound.kwargs)

        states = _random_states()
        try:
            jaxpr, result = jax.make_jaxpr(called, return_shape=True)(*given.specs())
        except JwarpError:
            raise
        except Exception as error:
            message, _, _ = str(error).partition("\n")
            raise CompileError(
                f"`{self.name}`: {type(error).__name__}: {message}", _place_of(error) or self.span, _way_out(error)
            ) from error
        if _random_states() != states:
            raise CompileError(
                f"`{self.name}` takes numbers from the state of a generator of random numbers, which would be the same "
                "in every thread",
                self.span,
                "use jax.random with a key made of an argument, or wp.rand_init in the kernel",
            )
        _check_constants(self, jaxpr, span)
        return Trace(jaxpr, result)


_TRACES: PerOwner[JaxFunc, tuple, Trace] = PerOwner("jaxprs of a function of jax.numpy", 256)


def _random_states() -> tuple[Any, ...]:
    name, numbers, *rest = np.random.get_state()
    return (random.getstate(), name, np.asarray(numbers).tobytes(), *rest)


def _place_of(error: Exception) -> Span | None:
    """The innermost line of the user's code that an error came from."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.lineno and not compat.in_library(frame.filename) and "/jwarp/bind/" not in frame.filename:
            end = frame.end_colno or 0 if frame.end_lineno == frame.lineno else (frame.colno or 0) + 1
            return Span(frame.filename, frame.lineno, frame.colno or 0, end)
    return None


def _way_out(error: Exception) -> str:
    if isinstance(error, jax.errors.UnexpectedTracerError):
        return "a value that JAX traces elsewhere is used in it: pass it as an argument"
    if isinstance(error, (jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError)):
        return (
            "its arguments have no values while it is traced: use jnp.where, lax.cond or lax.fori_loop; "
            "numbers that are written in the call, f(x, 2), are known"
        )
    return ""


def _check_constants(function: JaxFunc, jaxpr: Any, span: Span) -> None:
    """Refuse what a function names that is traced elsewhere, and arrays that are too large for constants."""
    count = 0
    for const in jaxpr.consts:
        name = _name_of(function, const)
        if isinstance(const, compat.Tracer):
            raise CompileError(
                f"`{function.name}` uses {name}, which JAX traces outside of it: kernels keep what such functions name",
                function.span,
                "pass it to the kernel, and from there as an argument",
            )
        count += int(np.prod(np.shape(const)))
        if count > MAX_CONSTANTS:
            raise CompileError(
                f"`{function.name}` uses {name} and arrays that functions name are constants of the kernel, of at "
                f"most {MAX_CONSTANTS} numbers",
                function.span,
                "pass it to the kernel, as a vector, matrix or struct, or read what is needed from an array there",
            )


def _name_of(function: JaxFunc, value: Any) -> str:
    """The function's own name of a value from outside."""
    what = f"an array of shape {np.shape(value)}"
    code = inspect.unwrap(function.python)
    try:
        known = inspect.getclosurevars(code)
    except TypeError:
        return what
    for names in (known.nonlocals, known.globals):
        for name, found in names.items():
            if found is value or _same_array(found, value):
                return f"`{name}`, {what},"
    return what


def _same_array(found: Any, value: Any) -> bool:
    """True if JAX made its constant `value` from the array `found`."""
    if not isinstance(found, (np.ndarray, jax.Array)) or isinstance(value, compat.Tracer):
        return False
    return found.shape == np.shape(value) and bool(np.array_equal(np.asarray(found), np.asarray(value)))


def jax_func(function: Callable[..., Any]) -> JaxFunc:
    """Make a function of jax.numpy callable from kernels.

    JAX traces the function for the types of each call. Its operations become scalar operations of the kernel, which are
    compiled, run by all threads, batched and differentiated (reverse, forward, second order) like the rest, on CPU and
    GPU. Arguments are scalars, vectors, matrices, structs and tuples of them; the function sees JAX arrays of shape (),
    (n,) or (r, c), and structs of these. Results are of the same kinds, several as a tuple: an array (n,) becomes a
    vector and an array (r, c) a matrix, unless the return annotation is another type of jwarp. Literals in the call are
    Python numbers in the function. Outside kernels, the function works as before.

    Arrays that the function refers to become constants of the kernel, up to 4096 numbers. Pass larger arrays, and
    arrays that need gradients, as arguments. With 64-bit arguments, the function is traced with `jax_enable_x64` on.
    Derivatives are JAX's, also at kinks and ties; functions under `jax.custom_jvp` and `jax.custom_vjp` have their own.
    Where JAX multiplies zero by infinity, derivatives may be zero instead of NaN.

    Raises:
        KernelTypeError: `function` is not callable. Unsupported operations (callbacks, primitives without a
            counterpart, tracers of an outer function) raise a CompileError when a kernel that calls it is first used,
            with the lines of the call and of the function.

    Example:
        >>> @wp.jax_func
        ... def well(x):
        ...     return jax.nn.softplus(4.0 * x) - jnp.tanh(x)
    """
    if not callable(function) or isinstance(function, type):
        raise KernelTypeError(f"@wp.jax_func needs a function, not {function!r}")
    if isinstance(function, JaxFunction):
        raise KernelTypeError(f"@wp.jax_func: `{function.name}` is one already")
    return JaxFunc(function)
