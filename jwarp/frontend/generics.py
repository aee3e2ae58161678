"""Generic kernels: parameters that stand for several types, and the kernel for the types of a launch's arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Never

from jwarp.arrays.subclasses import type_of_value
from jwarp.caches import Cache, PerOwner
from jwarp.config import surface
from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.adj import Adjoint, adjoint_of
from jwarp.frontend.kernel_base import Kernel, Parameter, handles_of
from jwarp.frontend.syntax.source import Defined
from jwarp.types import (
    ArrayPattern,
    ArrayType,
    Bound,
    CompositePattern,
    CompositeType,
    IndexedPattern,
    Pattern,
    ScalarType,
    StructArrayType,
    StructType,
    Variable,
    array_of,
    as_type,
    bool_,
    element_of,
    filled,
    fits,
    float32,
    from_dtype,
    indexed_type,
    int32,
    is_open,
    of_components,
    wanted_type,
)
from jwarp.types.composites import composite
from jwarp.types.patterns import ANY

# The type of a Python number if nothing asks for another one.
NUMBERS: dict[type, ScalarType] = {bool: bool_, int: int32, float: float32}

MAX_INSTANCES = 256

# The instance for arguments and for shapes of outputs: from above.
INSTANCE: list[Callable[[Kernel, Sequence[Any], Sequence[Any]], Kernel]] = []


@dataclass(frozen=True)
class Seen:
    """The facts about an argument's type.

    A value of a known type has `kind`, a Python number `number`; an array has `shape` and `dtype`. Of an output given
    by its shape, only `shape` is known. `shown` says in messages what was given.
    """

    shown: str
    kind: Any = None
    number: type | None = None
    shape: tuple[Any, ...] | None = None
    dtype: ScalarType | None = None
    is_indexed: bool = False  # whether that is of the data of an indexed array


class GenericKernel(Kernel, Defined):
    """A kernel some of whose parameters stand for several types: an instance of it is launched.

    `make` gives the kernel for one type for each parameter.
    """

    is_generic = True
    # Gives the instances that another library has been asked for.
    found_elsewhere: Callable[[], Mapping[Any, Kernel]] | None = None

    def __init__(
        self,
        name: str,
        signature: tuple[Parameter, ...],
        span: Span,
        make: Callable[[tuple[Any, ...]], Kernel],
        enable_backward: bool | None = None,
    ):
        super().__init__(name, signature, span, enable_backward)
        self._make = make
        self._explicit: dict[tuple[Any, ...], Kernel] = {}
        self._state_then = 0, 0

    @functools.cached_property
    def handles(self) -> tuple[int, ...]:  # type: ignore[override]
        any_type = (u for u, parameter in enumerate(self.signature) if parameter.type is ANY)
        return tuple(sorted({*any_type, *handles_of(self.signature)}))

    @functools.cached_property
    def adj(self) -> Adjoint:
        """Its parameters, as Warp's kernels tell of them."""
        return adjoint_of(self.signature)

    @functools.cached_property
    def wanted(self) -> tuple[Any, ...]:
        """The declared type or pattern of each parameter."""
        return tuple(_meant(parameter.type) for parameter in self.signature)

    @property
    def overloads(self) -> tuple[Kernel, ...]:
        """The instances that `wp.overload` has made, in order; in programs those that launches have made, too."""
        if surface.is_warps:
            return tuple(dict.fromkeys([*self._known.values(), *self._instances]))
        return tuple(self._known.values())

    @property
    def _known(self) -> Mapping[tuple[Any, ...], Kernel]:
        """The instances that somebody has asked for, by the types of their parameters."""
        if self.found_elsewhere is None:
            return self._explicit
        others = self.found_elsewhere()
        return {**{tuple(_meant(p.type) for p in made.signature): made for made in others.values()}, **self._explicit}

    @property
    def overload_count(self) -> int:
        """A number that grows with the instances that somebody has asked for."""
        return len(self._explicit) + (0 if self.found_elsewhere is None else len(self.found_elsewhere()))

    @property
    def executables(self) -> Cache[Any, Any]:
        """The executables of its calls, by layout key, which run instances: those of now, with the code of now."""
        state = self.overload_count, sum([instance.reloads for instance in self._instances])
        if state != self._state_then:
            self._state_then = state
            self._executables.clear()
        return self._executables

    def forget(self) -> None:
        self.forget_source()
        for instance in self._instances:
            instance.forget()

    def check(self) -> None:
        for instance in self._instances:
            instance.check()

    @property
    def state(self) -> str:
        return " ".join([super().state, *sorted(instance.state for instance in self._instances)])

    # -- instances

    @property
    def _instances(self) -> list[Kernel]:
        made = _INSTANCES.of(self)
        return [*self._explicit.values(), *made.recent.values(), *made.rest.values()]

    def instance(self, kinds: Sequence[Any]) -> Kernel:
        """The kernel for these types of the parameters, as users write them.

        Raises:
            KernelTypeError: a type does not fit its parameter, or there are more or fewer than parameters.
        """
        names = ", ".join(p.name for p in self.signature)
        if len(kinds) != len(self.signature):
            raise KernelTypeError(
                f"generic kernel '{self.name}' has {len(self.signature)} parameters ({names}), {len(kinds)} types given"
            )
        bound: Bound = {}
        found = []
        for parameter, wanted, kind in zip(self.signature, self.wanted, kinds, strict=True):
            meant = _meant(kind)
            if meant is None or is_open(meant):
                raise KernelTypeError(
                    f"generic kernel '{self.name}', parameter '{parameter.name}': an instance needs a type, not "
                    f"{kind!r}",
                    hint=f"it takes {parameter.type}",
                )
            if not fits(meant, wanted, bound):
                raise KernelTypeError(
                    f"generic kernel '{self.name}', parameter '{parameter.name}': {meant!r} does not fit "
                    f"{_expected(wanted, bound)}"
                )
            found.append(meant)
        key = tuple(found)
        return self._explicit.get(key) or _INSTANCES.of(self).made(key, lambda: self._make(key))

    def variables(self, kinds: Sequence[Any]) -> Bound:
        """The types that type variables stand for in the instance for these types of the parameters."""
        bound: Bound = {}
        for kind, wanted in zip(kinds, self.wanted, strict=True):
            fits(kind, wanted, bound)
        return bound

    def overload(self, kinds: Sequence[Any] | Mapping[str, Any]) -> Kernel:
        """The instance for these types, by name or for all parameters, which is kept: launches prefer it.

        Raises:
            KernelTypeError: as for `instance`, or there is no parameter of a name.
        """
        if isinstance(kinds, Mapping):
            kinds = {name: _type_or_itself(kind) for name, kind in kinds.items()}
            named = dict(zip((parameter.name for parameter in self.signature), self.wanted, strict=True))
            for name in kinds:
                if name not in named:
                    raise KernelTypeError(
                        f"generic kernel '{self.name}' has no parameter '{name}'; there are {', '.join(named)}"
                    )
            bound: Bound = {}
            for name, kind in kinds.items():
                meant = _meant(kind)
                if meant is not None and not is_open(meant):
                    fits(meant, named[name], bound)  # what does not fit is refused below
            kinds = [filled(kind, bound) for kind in {**named, **kinds}.values()]
        kinds = list(map(_type_or_itself, kinds))
        made = self.instance(kinds)
        self._explicit.setdefault(tuple(map(_meant, kinds)), made)
        return made

    add_overload = overload

    def infer_argument_types(self, args: Sequence[Any]) -> list[Any]:
        """The types of all parameters for these arguments, as `add_overload` takes them.

        Raises:
            KernelTypeError, LaunchError: as for a launch with these.
        """
        return [parameter.type for parameter in INSTANCE[0](self, args, ()).signature]

    def __getitem__(self, kinds: Any) -> Kernel:
        """`kernel[wp.float64]`: the instance where each open type is that one, or the next one of several."""
        given = list(kinds) if isinstance(kinds, tuple) else [kinds]
        places = _open_places(self.wanted)
        if len(given) == 1:
            given *= len(places)
        if len(given) != len(places):
            raise KernelTypeError(
                f"generic kernel '{self.name}' has {len(places)} open types, {len(given)} given",
                hint=f"they are, in order, those of {', '.join(map(str, places))}",
            )
        meant = []
        for kind in given:
            found = _meant(kind)
            if found is None or is_open(found):
                raise KernelTypeError(f"generic kernel '{self.name}': an instance needs types, not {kind!r}")
            meant.append(found)
        return self.overload([_replaced(wanted, places, meant) for wanted in self.wanted])

    # -- choosing one

    def chosen(self, seen: Sequence[Seen]) -> Kernel:
        """The instance for arguments of which this is known, one entry for each parameter.

        Raises:
            KernelTypeError: one does not fit its parameter, or does not tell its type; the message names it.
        """
        known = self._known
        fitting = [
            kinds for kinds in known if all(_could_be(given, kind) for given, kind in zip(seen, kinds, strict=True))
        ]
        if len(fitting) == 1:
            return known[fitting[0]]
        self._check_unambiguous(seen, fitting)
        return self.instance(tuple(_inferred(self, seen)))

    def _check_unambiguous(self, seen: Sequence[Seen], fitting: Sequence[tuple[Any, ...]]) -> None:
        """Refuse arguments that several instances take, where one does not say which of two types it is."""
        for u, parameter in enumerate(self.signature):
            found = list(dict.fromkeys(kinds[u] for kinds in fitting))
            if len(found) > 1 and seen[u].dtype is not None:
                raise KernelTypeError(
                    f"kernel '{self.name}', parameter '{parameter.name}': {seen[u].shown} may be "
                    f"{' or '.join(map(repr, found))}, of which there are instances",
                    hint=f"launch the one that is meant: wp.overload({self.name}, [types of the parameters])",
                )

    # -- what only instances have

    def _refused(self) -> Never:
        open_ = next(p for p in self.signature if is_open(p.type))
        known = f"; there are {', '.join(map(repr, self.overloads))}" if self._known else ""
        raise CompileError(
            f"kernel `{self.name}` is generic: the type of `{open_.name}`, {open_.type}, is not known here{known}",
            self.span,
            f"give an instance: wp.overload({self.name}, [types of the parameters])",
        )

    def the_overload(self) -> Kernel:
        """The instance made by `wp.overload`, if there is just one.

        Raises:
            CompileError: there is none, or there are several.
        """
        if len(self._known) == 1:
            return self.overloads[0]
        self._refused()

    @property
    def params(self) -> Any:
        self._refused()

    @property
    def groups(self) -> Any:
        self._refused()

    @property
    def has_structs(self) -> Any:
        self._refused()

    def ir(self, settings: Any = None) -> Any:
        self._refused()

    def block_ir(self, settings: Any, block_dim: int, lane_axis: int | None, *launch: Any) -> Any:
        self._refused()

    def outputs(self, settings: Any) -> Any:
        self._refused()


_INSTANCES: PerOwner[GenericKernel, tuple[Any, ...], Kernel] = PerOwner("instances of a generic kernel", MAX_INSTANCES)


def _type_or_itself(given: Any) -> Any:
    """The type of an array that stands for its type; other types are what they are."""
    found = type_of_value(given)
    return given if found is None else found


def _meant(kind: Any) -> Any:
    """The type that is named for a parameter of a kernel, as users write it; a pattern, or None, if it is none."""
    found = as_type(kind)
    return found if isinstance(found, StructType) else wanted_type(kind)


# -- types from what is known of arguments


def _inferred(kernel: GenericKernel, seen: Sequence[Seen]) -> list[Any]:
    """The type of each parameter. Numbers of Python, and outputs given by shapes, follow the other arguments."""
    bound: Bound = {}
    found: dict[int, Any] = {}
    elements: list[Any] = []
    order = sorted(range(len(seen)), key=lambda u: _definiteness(seen[u]))
    for u in order:
        wanted = kernel.wanted[u]
        if not is_open(wanted):
            found[u] = seen[u].kind if getattr(seen[u].kind, "stands_for", None) is not None else wanted
        else:
            found[u] = _kind_of(wanted, seen[u], bound, elements)
            if found[u] is None or not fits(found[u], wanted, bound):
                raise _mismatch(kernel, kernel.signature[u], seen[u], bound, known=found[u] is not None)
        array = getattr(found[u], "indexed", None) or found[u]
        if isinstance(array, (ArrayType, StructArrayType)) and seen[u].dtype is not None:
            elements.append(element_of(array))
    return [found[u] for u in range(len(seen))]


def _definiteness(seen: Seen) -> int:
    """0 for what has a type of its own, 1 for numbers of Python, 2 for shapes."""
    if seen.kind is not None or seen.dtype is not None:
        return 0
    return 1 if seen.number is not None else 2


def _kind_of(wanted: Any, seen: Seen, bound: Bound, elements: Sequence[Any]) -> Any:
    """The type that an argument has as a parameter of the types `wanted`, or None.

    `elements` are those of the arrays that are known.
    """
    known = filled(wanted, bound)
    if not is_open(known):
        return known if _could_be(seen, known, weak=True) else None
    if seen.is_indexed:
        data = wanted.array if isinstance(wanted, IndexedPattern) else ArrayPattern(ANY, len(seen.shape or ()))
        found = _array_kind(data, seen, elements)
        return None if found is None or isinstance(wanted, ArrayPattern) else indexed_type(found)
    if isinstance(wanted, ArrayPattern):
        return _array_kind(wanted, seen, elements)
    if isinstance(wanted, CompositePattern) and seen.dtype is not None and _has_shape(wanted, seen.shape or ()):
        return composite(wanted.kind, seen.shape or (), seen.dtype)
    if seen.kind is not None:
        return seen.kind
    if seen.number is not None:
        return NUMBERS[seen.number]
    if seen.shape is None:
        return None
    if seen.dtype is None:
        return _array_kind(ArrayPattern(wanted, len(seen.shape)), seen, elements)
    options = getattr(wanted, "options", None) or ()
    for option in options:
        if _could_be(seen, option):
            return option
    return seen.dtype if not seen.shape else array_of(seen.dtype, len(seen.shape))


def _has_shape(wanted: CompositePattern, shape: tuple[int, ...]) -> bool:
    return len(shape) == wanted.kind.rank and all(
        n in (None, m) and m > 0 for n, m in zip(wanted.shape, shape, strict=True)
    )


def _array_kind(wanted: ArrayPattern, seen: Seen, elements: Sequence[Any]) -> Any:
    dims = wanted.dims
    if isinstance(seen.kind, (ArrayType, StructArrayType)):
        return seen.kind
    if isinstance(seen.kind, StructType):  # an array of structs, as one struct of arrays
        return StructArrayType(seen.kind, dims)
    if seen.shape is None or len(seen.shape) < dims:
        return None
    dtype, components = seen.dtype, seen.shape[dims:]
    if dtype is None:
        # An output given by its shape: elements like those of the first array that could have it.
        for element in elements:
            own = element.shape if isinstance(element, CompositeType) else ()
            if components in ((), own) and fits(element, wanted.element, {}):
                return array_of(element, dims)
        scalar = next((getattr(e, "dtype", e) for e in elements if isinstance(e, (ScalarType, CompositeType))), None)
        dtype = scalar if isinstance(scalar, ScalarType) else None
        if dtype is None:
            return None
    if isinstance(wanted.element, CompositePattern):
        fitting = _has_shape(wanted.element, components)
        return array_of(composite(wanted.element.kind, components, dtype), dims) if fitting else None
    for option in getattr(wanted.element, "options", None) or ():
        if _could_be(Seen("", shape=components, dtype=dtype), option):
            return array_of(option, dims)
    if len(components) > 2 or not all(components):
        return None
    return array_of(of_components(components, dtype), dims)


def _could_be(seen: Seen, kind: Any, weak: bool = False) -> bool:
    """True if an argument may be of type `kind`; with `weak`, a Python number may be of another width."""
    if seen.is_indexed:
        data = kind.indexed if isinstance(kind, StructType) else None
        return data is not None and _could_be(replace(seen, is_indexed=False), data)
    if seen.kind is not None:
        if isinstance(kind, StructArrayType):
            return seen.kind in (kind, kind.struct)
        return bool(seen.kind == kind)
    if seen.number is not None:
        own = NUMBERS[seen.number]
        if not weak or not isinstance(kind, ScalarType):
            return kind is own
        return kind.kind == "bool" if own is bool_ else kind.is_float or (kind.is_int and own is int32)
    if seen.shape is None:
        return seen.dtype is None and not isinstance(kind, (ScalarType, CompositeType))
    if isinstance(kind, ScalarType):
        return seen.shape == () and seen.dtype is kind
    if isinstance(kind, CompositeType):
        return seen.shape == kind.shape and seen.dtype is kind.dtype
    if isinstance(kind, ArrayType):
        whole = len(seen.shape) == kind.ndim and seen.shape[kind.dims :] == kind.components
        return (whole and seen.dtype is kind.dtype) or (seen.dtype is None and (whole or len(seen.shape) == kind.dims))
    return isinstance(kind, StructArrayType) and seen.dtype is None and len(seen.shape) == kind.dims


def _mismatch(kernel: GenericKernel, parameter: Parameter, seen: Seen, bound: Bound, known: bool) -> KernelTypeError:
    where = f"kernel '{kernel.name}', parameter '{parameter.name}'"
    if seen.kind is None and seen.dtype is None and seen.number is None:
        return KernelTypeError(
            f"{where}: its type, {parameter.type}, does not follow from {seen.shown}",
            hint="pass an array or a jax.ShapeDtypeStruct, which have a dtype, or launch an instance: "
            f"wp.overload({kernel.name}, [types of the parameters])",
        )
    return KernelTypeError(f"{where}: expected {_expected(parameter.type, bound)}, got {seen.shown}")


def _expected(wanted: Any, bound: Bound) -> str:
    """The text of a parameter's pattern, with the types that other parameters have bound its variables to."""
    meant = {x: bound[x] for x in _variables(wanted) if x in bound}
    shown = ", ".join(f"{x.__name__} is {kind!r}" for x, kind in meant.items())
    return f"{wanted}, where {shown}" if shown else f"{wanted}"


# -- what is open in a signature


def _variables(wanted: Any) -> list[Any]:
    if isinstance(wanted, Variable):
        return [wanted.variable]
    inner = getattr(wanted, "element", None) or getattr(wanted, "dtype", None)
    return _variables(inner) if isinstance(inner, Pattern) else []


def _innermost(wanted: Any) -> Any:
    """The pattern at the core: of an array's element, or of a vector's components."""
    while isinstance(wanted, (ArrayPattern, CompositePattern)):
        inner = wanted.element if isinstance(wanted, ArrayPattern) else wanted.dtype
        if not isinstance(inner, Pattern):
            return wanted  # whose extents are open
        wanted = inner
    return wanted


def _open_places(wanted: Sequence[Any]) -> list[Any]:
    """One for each type that is open in a signature: a type variable once, everything else where it stands."""
    found: list[Any] = []
    for kind in wanted:
        if isinstance(kind, Pattern):
            core = _innermost(kind)
            if not isinstance(core, Variable) or core not in found:
                found.append(core)
    return found


def _replaced(wanted: Any, places: list[Any], kinds: list[Any]) -> Any:
    """`wanted` with what is open in it replaced; the types of others than variables are used up from the front."""
    if not isinstance(wanted, Pattern):
        return wanted
    core = _innermost(wanted)
    k = places.index(core) if isinstance(core, Variable) else next(i for i, p in enumerate(places) if p is core)
    kind = kinds[k]
    if not isinstance(core, Variable):
        places[k] = None  # each of the others stands for one parameter
    return _with_core(wanted, core, kind)


def _with_core(wanted: Any, core: Any, kind: Any) -> Any:
    if wanted is core:
        return kind
    if isinstance(wanted, ArrayPattern):
        return array_of(_with_core(wanted.element, core, kind), wanted.dims)
    if isinstance(kind, ScalarType) and None not in wanted.shape:
        return composite(wanted.kind, wanted.shape, kind)
    return kind


def seen_number(kind: type, shown: str) -> Seen:
    """The facts about a number of a Python type."""
    return Seen(f"{kind.__name__} {shown}", number=next(t for t in NUMBERS if issubclass(kind, t)))


def seen_array(shown: str, shape: tuple[Any, ...], dtype: Any) -> Seen:
    """The facts about an array, or about a number with a dtype."""
    return Seen(shown, shape=tuple(shape), dtype=from_dtype(dtype))


def seen_value(shown: str, shape: tuple[Any, ...], dtype: Any) -> Seen:
    """The facts about numbers that together are a vector or matrix."""
    scalar = from_dtype(dtype)
    assert scalar is not None
    return Seen(shown, kind=of_components(shape, scalar), shape=shape, dtype=scalar)
