"""`@wp.func`: functions that kernels call. They are read anew at each call, so they are generic."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin, overload

from jwarp.config import surface
from jwarp.errors import CompileError, KernelTypeError
from jwarp.frontend.by_name import ByName, full_name
from jwarp.frontend.canonicalise import canonical
from jwarp.frontend.modules import Module, get_module
from jwarp.frontend.syntax.lambdas import lambda_source
from jwarp.frontend.syntax.outputs import Outputs
from jwarp.frontend.syntax.source import (
    Defined,
    Definition,
    Source,
    annotations_of,
    check_function,
    parameter_span,
)
from jwarp.frontend.syntax.static_values import defined
from jwarp.types import Bound, Pattern, Reference, Repeated, StackKind, TileKind, wanted_type
from jwarp.types.annotations import annotations_of as hints_of
from jwarp.types.annotations import refuse_unions
from jwarp.types.patterns import fits

_numbers: dict[str, itertools.count[int]] = {}  # of the functions of each key that were asked for such a name


class Func(ByName, Defined):
    """A function of the kernel language. Outside kernels, it works as the Python function.

    A call that is a statement may pass `outputs` as further arguments: variables that get the results.
    """

    gradient: Func | None = None  # what @wp.func_grad gave it
    replay: Func | None = None  # what @wp.func_replay gave it
    outside: Callable[..., Any] | None = None  # what a call outside kernels does, if not that of the Python function
    _key: str | None = None
    _module: Module | None = None
    described: Any = None  # the row of the table of builtins, of one of jwarp's own

    def __init__(
        self,
        function: Callable,
        outputs: tuple[str, ...] = (),
        earlier: Func | None = None,
        definition: Definition | None = None,
        changed: str = "",
        annotations: Mapping[str, Any] | None = None,
    ):
        """`earlier` is the function of the same name that was defined before in the same scope.

        `changed` is the first parameter, where a call that stands alone gives the result to that argument.
        `annotations` count in the place of those that are written.
        """
        functools.update_wrapper(self, function)
        self.python = function
        self._given_annotations = annotations
        self.name = function.__name__
        self.outputs = Outputs(outputs, function.__code__.co_argcount, changed)
        definition = definition or defined(function)
        if earlier is not None and definition.captured.get(self.name) is earlier:
            del definition.captured[self.name]  # it means all overloads, the later ones too
        self._definition = definition
        # A later definition with the same parameters replaces the earlier one.
        self.defined: tuple[Func, ...] = (self,)
        if earlier is not None:
            written = _written_parameters(function)
            self.defined = (*(f for f in earlier.defined if _written_parameters(f.python) != written), self)

    @property
    def key(self) -> str:
        """The name in its module, with the names of the scopes that define it, as in Warp; or a given name."""
        return self._key or full_name(self.__qualname__)

    @property
    def module(self) -> Module:
        """The module that it belongs to: the one that defines it, or a given one."""
        return self._module or get_module(self.__module__)

    def belongs_to(self, module: Module, key: str) -> None:
        """Have a module and a key instead of those of the Python function."""
        self._module, self._key = module, key
        module.add_function(self)

    def add_overload(self, other: Func) -> None:
        """Add an overload, which calls of this function choose if its parameters match the arguments.

        A new overload replaces an earlier one with the same parameter types.
        """
        self.defined = (*self.defined, *other.defined)
        vars(self).pop("wanted", None)

    def get_overload(self, arg_types: Sequence[Any], kwarg_types: Mapping[str, Any] | None = None) -> Func | None:
        """The overload that a call with arguments of these types uses, or None.

        Args:
            arg_types: The types of the positional arguments, such as `wp.vec3` or `wp.array[float]`.
            kwarg_types: The types of the keyword arguments by name.
        """
        for is_generic in (False, True):
            for each in self.overloads:
                if each.is_generic == is_generic and each._takes(arg_types, kwarg_types or {}):
                    return each
        return None

    def _takes(self, arg_types: Sequence[Any], kwarg_types: Mapping[str, Any]) -> bool:
        try:
            given = self.signature.bind(*arg_types, **kwarg_types).arguments
        except TypeError:
            return False
        variables: Bound = {}
        wanted = {name: self.declared(name) for name in given}
        return all(kind is None or fits(_type_or_itself(given[name]), kind, variables) for name, kind in wanted.items())

    @property
    def input_types(self) -> dict[str, Any]:
        """The types of the parameters as they are written, by name."""
        return {name: self.annotations[name] for name in self.signature.parameters if name in self.annotations}

    @functools.cached_property
    def native_func(self) -> str:
        """A name that no other function of the process has, not even one of the same key."""
        return f"{self.key}_{next(_numbers.setdefault(self.key, itertools.count()))}"

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values of parameters."""
        return {name: p.default for name, p in self.signature.parameters.items() if p.default is not p.empty}

    @property
    def func(self) -> Callable:
        """The Python function."""
        return self.python

    def forget(self) -> None:
        """Drop what was read of it, so that the next kernel reads it anew, with what it names as it is then."""
        self.forget_source()

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes that a program has set on the function, `f.fallback = g`, for kernels that name them."""
        own = ("python", "name", "outputs", "source", "defined", "snippet", "adj_snippet", "replay_snippet", "cpu")
        names = (n for n in vars(self) if n not in own and not n.startswith("_") and not hasattr(type(self), n))
        return {name: vars(self)[name] for name in names}

    @property
    def overloads(self) -> tuple[Func, ...]:
        """The functions that a call of this name chooses from; the last one with the same types counts."""
        if len(self.defined) == 1:
            return self.defined
        return tuple({f.wanted: f for f in self.defined}.values())

    @functools.cached_property
    def wanted(self) -> tuple[Any, ...]:
        """The declared type of each parameter, in the form of `declared`."""
        return tuple(self.declared(name) for name in self.signature.parameters)

    @property
    def is_generic(self) -> bool:
        """True if some parameter's annotation stands for several types."""
        return any(
            kind is None or (isinstance(kind, Pattern) and not isinstance(kind, TileKind)) for kind in self.wanted
        )

    @property
    def heading(self) -> str:
        """The name with the types of the parameters."""
        kinds = ("Any" if kind is None else _shown(kind) for kind in self.wanted)
        return f"{self.name}({', '.join(kinds)})"

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature for `inspect.signature` and `help`."""
        return self.described.__signature__ if self.described is not None else inspect.signature(self.python)

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The parameters."""
        signature = inspect.signature(self.python)
        for name, parameter in signature.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise CompileError(
                    f"`{self.name}` takes any number of arguments as `{name}`",
                    parameter_span(self.python, name),
                    "a wp.func has a fixed list of parameters, without `*`",
                )
        return signature

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        """The annotations, with those written as text evaluated."""
        if self._given_annotations is not None:
            return {name: canonical(kind) for name, kind in self._given_annotations.items()}
        return annotations_of(self.python, self.definition.captured)

    @functools.cached_property
    def references(self) -> dict[str, Reference]:
        """The parameters that are variables of the caller."""
        return {name: kind for name, kind in self.annotations.items() if isinstance(kind, Reference)}

    def declared(self, name: str) -> Any:
        """The declared type of parameter `name`, or of `return`.

        A type, a tuple of such for several results, () for no result, None where anything is right.
        """
        if name not in self.annotations:
            return None
        annotation = self.annotations[name]
        if name == "return" and annotation is None:
            return ()
        return self._wanted(annotation, name)

    def _wanted(self, annotation: Any, name: str) -> Any:
        if isinstance(annotation, Reference):
            return self._wanted(annotation.value, name)
        if annotation is Any or any(
            annotation is known or get_origin(annotation) is known for known in (Func, Callable)
        ):
            return None
        if get_origin(annotation) is Annotated and isinstance(annotation.__metadata__[0], Pattern):
            return annotation.__metadata__[0]
        if isinstance(annotation, (TileKind, StackKind)):
            return annotation
        if get_origin(annotation) is tuple:
            items = get_args(annotation)
            if len(items) == 2 and items[1] is ...:
                return Repeated(self._wanted(items[0], name))
            return tuple(self._wanted(item, name) for item in items)
        wanted = wanted_type(annotation)
        if wanted is None:
            raise CompileError(
                f"`{self.name}`: the annotation {annotation!r} is no type of the kernel language",
                parameter_span(self.python, name or "return"),
                "use int, float, bool, a wp scalar, vector or matrix type, an array of one, or typing.Any",
            )
        return wanted

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        chosen = CHOOSE[-1](self, args, kwargs) if self.outside is None and len(self.defined) > 1 else self
        return (self.outside or chosen.python)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<wp.func {self.name}>"


def _type_or_itself(given: Any) -> Any:
    found = wanted_type(given)
    return given if found is None else found


def _shown(kind: Any) -> str:
    """A type as a user knows it: that of an object where a handle has its place."""
    return f"wp.{kind.named}" if getattr(kind, "is_handle", False) else repr(kind)


class Lambda(Func):
    """A lambda expression as a function of the kernel language, for `wp.map`."""

    @functools.cached_property
    def source(self) -> Source:
        return lambda_source(self.python, self.definition.captured, self.definition.lines)


def _written_parameters(function: Callable) -> tuple[str, ...]:
    """The annotations of the parameters as they were written, or as Python shows them."""
    known = inspect.get_annotations(function)
    return tuple(repr(known.get(name)) for name in inspect.signature(function).parameters)


def _check_references(function: Callable, earlier: Func) -> None:
    """Refuse a function that differs from an earlier one of its name only in which parameters are references."""
    written, taken = _written_parameters(function), _without_references(function)
    for other in earlier.defined:
        if _written_parameters(other.python) != written and _without_references(other.python) == taken:
            raise CompileError(
                f"the functions of the name `{function.__name__}` differ only by wp.ref of their parameters",
                parameter_span(function, next(iter(inspect.signature(function).parameters))),
                "a call cannot choose between them: give one another name",
            )


def _without_references(function: Callable) -> tuple[str, ...]:
    """The annotations as `_written_parameters` has them, with what is referred to in place of each reference."""
    known = hints_of(function)  # also of annotations that are texts
    kinds = (known.get(name) for name in inspect.signature(function).parameters)
    return tuple(repr(kind.value if isinstance(kind, Reference) else kind) for kind in kinds)


# The last one says which of several functions of one name a call outside kernels means; from a layer above.
CHOOSE: list[Callable[[Func, tuple[Any, ...], dict[str, Any]], Func]] = []

F = TypeVar("F", bound=Callable[..., Any])


@overload
def func(function: F) -> F: ...


@overload
def func(
    function: None = None, *, name: str | None = None, module: Any = None, inline: bool | None = None
) -> Callable[[F], F]: ...


def func(
    function: Callable | None = None, *, name: str | None = None, module: Any = None, inline: bool | None = None
) -> Any:
    """Make a Python function callable from kernels.

    Arguments are scalars, vectors, matrices, arrays and functions. The function may return one value or several
    (`return a, b`). Numbers, vectors and matrices that it refers to by name are captured now.

    Several functions with one name in one scope are overloads: a call uses the overload whose annotations equal the
    types of the arguments. A parameter without annotation, or with `typing.Any`, accepts any type; a type variable, or
    a pattern such as `wp.array[Any]`, accepts several types. Overloads with such parameters come after the others, in
    order of definition, and the first that accepts the arguments is used.

    Args:
        function: The Python function.
        name, module, inline: Accepted for compatibility with Warp; no effect. `inline` is a bool.

    Raises:
        KernelTypeError: `function` is not a Python function, or `inline` is not a bool.
        CompileError: `function` is a lambda, or another decorator wraps it. Errors in its body or annotations are
            reported when a kernel that calls it is first used.
    """
    if not isinstance(inline, bool | None):
        raise KernelTypeError(f"@wp.func: inline must be a bool, not {inline!r}")
    if function is None:
        return functools.partial(_defined_in, sys._getframe(1))
    return _defined_in(sys._getframe(1), function)


def _defined_in(frame: types.FrameType, function: Callable) -> Func:
    """The function as one of the overloads that the scope of `frame` has."""
    check_function(function, "@wp.func")
    if surface.is_warps:
        refuse_unions(function, "@wp.func")
    known = frame.f_locals.get(function.__name__)
    same = isinstance(known, Func) and known.python.__qualname__ == function.__qualname__
    earlier = known if same else None
    if surface.is_warps and isinstance(earlier, Func):
        _check_references(function, earlier)
    made = Func(function, earlier=earlier)
    made.module.add_function(made)
    if surface.is_warps and isinstance(earlier, Func) and len(made.defined) <= len(earlier.defined):
        made.module.mark_modified()  # kernels that were read call the function of that name, which is this one now
    return made
