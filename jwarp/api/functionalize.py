"""`wp.functionalize`: a function of launches, with any arguments, as a function of JAX."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from jwarp.api.jax_arguments import Converter, Returned, is_value, values_in
from jwarp.bind.functional import Functional
from jwarp.bind.pytrees import register_annotated
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import annotations_of


def functionalize(
    func: Callable[..., Any],
    *,
    returns: str | Sequence[str] | None = None,
    static_argnames: str | Sequence[str] = (),
    max_trips: int | Mapping[Callable[..., Any], int] | None = None,
    stop_gradient_in: Sequence[Any] = (),
    custom_vjp: Mapping[Callable[..., Any], Callable[..., None]] | None = None,
) -> Functionalized:
    """Make a pure JAX function from a function that changes its arguments by launches.

    Arguments may be arrays, numbers, and objects, lists and dicts that hold them. `func` runs once per set of argument
    shapes, while JAX traces: its launches, copies, fills and temporary arrays become part of the JAX program. A
    parameter that is annotated as an array (`x: wp.array[float]`, `*xs: wp.array[float]`) also accepts JAX and NumPy
    arrays, and the result is then a JAX array. The same holds for arrays in lists, tuples, dicts and objects, if these
    or their attributes are annotated (`xs: list[wp.array[float]]`).

    The arguments themselves do not change: changed arguments are returned as new objects of the same classes, which are
    made without calling `__init__`. The function works eagerly and inside `jax.jit`, `jax.vmap`, `jax.grad`, `jax.jvp`,
    `jax.lax.scan` and `jax.checkpoint`. Gradients also go through kernels made with `enable_backward=False`.

    Args:
        func: A function that launches kernels on arrays. Other Python code in it runs while JAX traces, when arrays
            stand for values: it cannot read their elements.
        returns: The names of the arguments that are returned, or one name. A change of any other argument is an error.
            Default: the function returns `(result of func, {name: argument})` with all changed arguments; the result is
            a JAX array if it is annotated as an array (`-> wp.array[float]`).
        static_argnames: Float arguments that are part of the program. All other floats, and arrays, are traced.
            Integers, bools, strings and everything else in objects are part of the program.
        max_trips: A bound on the trip counts of `wp.capture_while` loops: a number, or a dict by body. A bounded loop
            has a gradient in reverse mode. If it has not ended by then, floats that it changes are NaN.
        stop_gradient_in: Kernels, and functions of modules, that gradients do not go through: what they write is a
            constant.
        custom_vjp: Gradient rules for functions of modules that return None. In reverse mode, `rule(inputs, outputs,
            cotangents)` is called with three copies of the arguments: before the call, after the call, and with the
            cotangents of the latter in place of the content. It changes the arrays of `cotangents` to the cotangents of
            the arguments before the call. Numbers are constants.

    Returns:
        A function with the arguments of `func`.

    Raises:
        LaunchError: At a call: `func` changes an argument that is not returned, reads elements of an array, or writes
            to an array that is not part of its arguments; or a returned argument is a JAX array whose parameter is not
            annotated, which launches cannot change.
        KernelTypeError: A name is not that of an argument, or a JAX array does not match the annotation of its
            parameter.

    Example:
        >>> step_fn = wp.functionalize(step, returns="state")
        >>> new_state = jax.jit(step_fn)(model, state)
    """
    return Functionalized(func, returns, static_argnames, max_trips, stop_gradient_in, custom_vjp)


class Functionalized:
    """A function of launches as a function of JAX: what `wp.functionalize` makes."""

    def __init__(self, func: Callable[..., Any], returns: Any, static_argnames: Any, *others: Any):
        self.func = func
        self.signature = inspect.signature(func)
        self.annotated = annotations_of(func)
        self.returns = None if returns is None else _names(returns)
        self.static = _names(static_argnames)
        for name in (*(self.returns or ()), *self.static):
            if name not in self.signature.parameters:
                raise KernelTypeError(
                    f"wp.functionalize: {self.name} has no argument {name!r}; there are"
                    f" {', '.join(self.signature.parameters)}"
                )
        self._function = Functional(self.name, func, self.returns, self.static, "wp.functionalize", *others)
        register_annotated(func)
        self.__name__ = self.name
        self.__doc__ = func.__doc__

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.func, "__name__", type(self.func).__name__)

    def __call__(self, *args: Any, **named: Any) -> Any:
        try:
            bound = self.signature.bind(*args, **named)
        except TypeError as error:
            raise LaunchError(f"wp.functionalize: {self.name}: {error}") from None
        bound.apply_defaults()
        given = dict(bound.arguments)
        converter = Converter(f"wp.functionalize: {self.name}")
        made = {name: self._converted(converter, name, value) for name, value in given.items()}
        if not converter.is_needed:
            made = given
        for name in self.returns or ():
            if is_value(made[name]):
                raise self._unchanged(f"'{name}'", name, given[name])
        found = self._function(made)
        back = Returned().back if converter.is_needed else _as_found
        if self.returns is None:
            result, changed = found
            if result is None and not changed:
                for name, value in made.items():
                    for path, x in values_in(value, f"'{name}'"):
                        raise self._unchanged(path, name, x)
            if "return" in self.annotated:
                result = Returned().result(result, self.annotated["return"])
            return result, {name: back(x, given[name]) for name, x in changed.items()}
        if len(self.returns) == 1:
            return back(found, given[self.returns[0]])
        return tuple(back(x, given[name]) for name, x in zip(self.returns, found, strict=True))

    def _converted(self, converter: Converter, name: str, value: Any) -> Any:
        """An argument with arrays where JAX and NumPy arrays are given, and annotations have arrays."""
        annotation = self.annotated.get(name)
        match self.signature.parameters[name].kind:
            case inspect.Parameter.VAR_POSITIONAL:
                return tuple(converter.convert(x, annotation, f"parameter '{name}[{k}]'") for k, x in enumerate(value))
            case inspect.Parameter.VAR_KEYWORD:
                return {k: converter.convert(x, annotation, f"parameter '{k}'") for k, x in value.items()}
        return converter.convert(value, annotation, f"parameter '{name}'")

    def _unchanged(self, path: str, name: str, value: Any) -> LaunchError:
        kind = "a JAX array" if isinstance(value, jax.Array) else "a NumPy array"
        return LaunchError(
            f"wp.functionalize: {self.name} cannot change {path}, which is {kind}, and nothing would come back",
            hint=f"annotate the parameter ({name}: wp.array[...]), or pass wp.from_jax({name})",
        )

    def __repr__(self) -> str:
        return f"<wp.functionalize({self.name})>"


def _as_found(found: Any, given: Any) -> Any:
    return found


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
