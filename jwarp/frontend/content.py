"""Content digests of kernels: a hash of their functions' sources and outer values, computed without reading them to IR.

Two kernels of one digest have the same IR. So it is found on disk by the digest, and the kernel need not be read again
in another process. Names are those that the code of a function has for the interpreter: of a module or class that it
names, only attributes of such names count. Where Python evaluates something for the kernel, as `wp.static` does, whole
classes count, and what their functions call. What is not understood for certain has no digest, and is read each time:
a property in a kernel, a module's `__getattr__`, a metaclass, and functions that may give something else each time.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, get_args, get_origin

import numpy as np

from jwarp.config import surface
from jwarp.errors import JwarpError, Span
from jwarp.frontend.by_name import ByName
from jwarp.frontend.canonicalise import canonical
from jwarp.frontend.code_objects import Unknown, digest_of_code, digest_of_text, imported, is_plain, names_of
from jwarp.frontend.func import Func, Lambda
from jwarp.frontend.jax_function import JaxFunction
from jwarp.frontend.native import NativeFunc
from jwarp.frontend.syntax.python_operators import OVERLOADS
from jwarp.frontend.syntax.source import Definition, file_lines, file_of, outer_values
from jwarp.frontend.syntax.transformed import Transformed
from jwarp.ir.printing import short_file
from jwarp.types import CompositeType, CompositeValue, ScalarType, StructType, Written

# Arrays of more elements than this are no constants of a kernel.
MAX_ELEMENTS = 4096
# Compiled functions of these, and these of NumPy besides its elementwise ones, give the same for the same arguments.
_PURE = frozenset(("math", "cmath", "operator", "functools"))
_PURE_OF_NUMPY = frozenset(
    (
        *("all", "any", "allclose", "arange", "argmax", "argmin", "argsort", "array", "asarray", "array_equal", "clip"),
        *("concatenate", "cross", "cumsum", "det", "diag", "diff", "dot", "eye", "full", "full_like"),
        *("identity", "inner", "interp", "inv", "isclose", "linspace", "logspace", "matmul", "max", "mean", "median"),
        *("meshgrid", "min", "norm", "ones", "ones_like", "outer", "prod", "ravel", "reshape", "round", "shape"),
        *("size", "solve", "sort", "stack", "std", "sum", "trace", "transpose", "var", "where", "zeros", "zeros_like"),
    )
)
_MODULES_OF_NUMPY = frozenset(("numpy", "numpy.linalg"))
# Of jwarp's functions in Python, those of these modules look at nothing but their arguments.
_PURE_OF_JWARP = (
    "jwarp.frontend.builtins.",
    "jwarp.frontend.func",
    "jwarp.frontend.lowering.derivatives",
    "jwarp.types.",
)
_LIBRARIES = frozenset(("jwarp", "numpy", "warp"))
_PURE_BUILTINS = frozenset(
    (
        *("abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "float", "frozenset", "int"),
        *("isinstance", "issubclass", "len", "list", "map", "max", "min", "pow", "range", "reversed", "round"),
        *("set", "slice", "sorted", "str", "sum", "tuple", "type", "zip"),
    )
)
_OF_STATIC = "jwarp.frontend.builtins.control"  # where `wp.static` is
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


@dataclasses.dataclass(frozen=True)
class Content:
    """The digest, the modules of which something counts in it, and the paths of files by their names, which count."""

    digest: str
    modules: tuple[types.ModuleType, ...]
    files: Mapping[str, str]


def content_of(function: Callable, definition: Definition, *about: Any) -> Content | None:
    """Of a kernel's function, what it calls and names, and of what there is to know `about` it; or None.

    In programs `wp.static` may mean another thing, so that these have contents of their own.
    """
    content = _Content()
    try:
        digest = content.digest(function, definition, (surface.is_warps, *about))
        return Content(digest, tuple(content.modules.values()), content.files)
    except (Unknown, JwarpError, RecursionError, AttributeError):  # the last for what jwarp has no counterpart of
        return None


class _Content:
    """The texts that say what is known, in the order in which it is met."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        # Of functions that were met, by their identity and whether Python evaluates them.
        self.numbers: dict[tuple[int, bool], int] = {}
        self.met: list[Any] = []  # so that identities stay theirs
        self.waiting: deque[tuple[Any, bool]] = deque()
        self.names: frozenset[str] = frozenset()  # of the function at hand
        self.modules: dict[int, types.ModuleType] = {}  # that something was read of, by their identity
        self.files: dict[str, str] = {}
        self.inside: dict[int, Any] = {}  # modules, classes and objects that it names, by their identity
        self.evaluates = False  # whether Python evaluates what it names when the kernel is read
        self.has_static = False  # whether `wp.static` is among what it names

    def digest(self, function: Callable, definition: Definition, about: Iterable[Any]) -> str:
        self.function(function, definition)
        for thing in about:
            self.value(thing)
        while self.waiting:
            thing, evaluates = self.waiting.popleft()
            self.texts.append(f"\n#{self.numbers[id(thing), evaluates]}")
            if isinstance(thing, Func):
                self.callee(thing, evaluates)
            else:
                self.function(thing, None, evaluates)
                self.value((thing.__defaults__, thing.__kwdefaults__, vars(thing)))
        return hashlib.sha256("\0".join(self.texts).encode("utf-8", "surrogatepass")).hexdigest()

    def callee(self, func: Func, evaluates: bool) -> None:
        if isinstance(func, Lambda):
            raise Unknown
        self.function(func.python, func.first_read, evaluates)
        self.value((func.outputs.names, func.outputs.changed, func.annotations))
        self.value((func.python.__defaults__, func.python.__kwdefaults__))
        self.value((func.defined, func.gradient, func.replay))

    def function(self, function: Callable, definition: Definition | None, evaluates: bool = False) -> None:
        """The text of a function, and what its names mean."""
        code = function.__code__
        captured = outer_values(function)  # what had no value yet when it was defined
        if definition is not None:
            captured |= definition.captured
        lines = file_lines(function) if definition is None else definition.lines
        tree = None if definition is None else definition.tree
        if not lines or not isinstance(tree, Transformed | None):
            raise Unknown
        place = Span(file_of(function), 0) if definition is None else definition.span
        self.files[short_file(place)] = place.file
        self.names = names = names_of(code) if tree is None else names_of(code) | tree.names
        self.evaluates = evaluates or "static" in names
        where = f"{short_file(place)} {code.co_firstlineno}"
        self.texts.append(f"{function.__qualname__} {where} {digest_of_text(lines)} {digest_of_code(code)}")
        if tree is not None:
            self.texts.append(tree.text)
            _sequence(self, tree.values)
        self.outer_names(function, captured)
        if self.evaluates and not (evaluates or "static" in names):  # by another name
            self.outer_names(function, captured)
        if self.evaluates and definition is not None and definition.evaluated is not None:
            self.value(definition.evaluated())

    def outer_names(self, function: Callable, captured: Mapping[str, Any]) -> None:
        """Add the values of the current function's outer names to the content."""
        self.inside, self.has_static = {}, "static" in self.names
        if self.evaluates:
            if not is_plain(function.__code__):
                raise Unknown
            for module in imported(function.__code__, function.__globals__):
                self.value(module)
        self.values_of(self.names, function, captured)
        if self.has_static and surface.is_warps:  # which takes outer names that variables are spelled like
            self.values_of(frozenset(function.__code__.co_varnames) - self.names, function, captured)
        for name in _OVERLOADS:  # which operators look for
            if name not in self.names and isinstance(found := canonical(function.__globals__.get(name)), Func):
                self.texts.append(f"operator {name}")
                self.value(found)

    def values_of(self, names: frozenset[str], function: Callable, captured: Mapping[str, Any]) -> None:
        """Add what outer names of a function mean to the content."""
        for name in sorted(names):
            if name in captured or name in function.__globals__:  # the latter of a function inside this one
                self.texts.append(name)
                self.value(captured[name] if name in captured else function.__globals__[name])
            elif self.evaluates and name in _BUILTINS and name not in _PURE_BUILTINS:
                raise Unknown

    def value(self, thing: Any) -> None:
        """Add the value of a name or attribute to the content."""
        thing = canonical(thing)
        kind = type(thing)
        if kind in _PLAIN:
            self.texts.append(f"{kind.__name__} {thing!r}")
            return
        rule = _RULES.get(kind)
        if rule is None:
            rule = next((rule for base, rule in _OF_BASES if isinstance(thing, base)), _object)
        rule(self, thing)

    def is_new(self, thing: Any) -> bool:
        """True if an object occurs for the first time; its number stands for it from then on."""
        number = self.numbers.setdefault((id(thing), self.evaluates), len(self.numbers))
        self.texts.append(f"#{number}")
        if number < len(self.met):
            return False
        self.met.append(thing)
        return True

    def is_entered(self, thing: Any) -> bool:
        """True if the current function has named the object before. From now on it has."""
        known = id(thing) in self.inside
        self.inside[id(thing)] = thing
        return known


_BUILTINS = frozenset(vars(__import__("builtins")))
_OVERLOADS = sorted(set(OVERLOADS.values()))


# -- what is said of each kind of thing


def _sequence(content: _Content, things: Iterable[Any]) -> None:
    content.texts.append(type(things).__name__ + "(")
    for thing in things:
        content.value(thing)
    content.texts.append(")")


def _mapping(content: _Content, things: Mapping[Any, Any]) -> None:
    _sequence(content, [part for pair in things.items() for part in pair])


def _set(content: _Content, things: Iterable[Any]) -> None:
    if not all(type(thing) in _PLAIN for thing in things):
        raise Unknown
    content.texts.append(f"set {sorted(map(repr, things))}")


def _array(content: _Content, array: Any) -> None:
    plain = type(array) is np.ndarray or isinstance(array, (np.generic, CompositeValue))
    if array.dtype.hasobject or array.size > MAX_ELEMENTS or (content.evaluates and not plain):
        raise Unknown
    kind = getattr(array.own_kind, "name", "") if isinstance(array, CompositeValue) else type(array).__name__
    about = f"{array.dtype!r} {array.shape} {array.strides}"
    content.texts.append(f"array {kind} {about} {array.tobytes().hex()}")
    _attributes(content, array)


def _member(content: _Content, member: enum.Enum) -> None:
    content.texts.append(f"member {member.name}")
    content.value(member._value_)
    content.value(type(member))
    _attributes(content, member)


def _func(content: _Content, func: Func) -> None:
    for name in sorted(content.names & func.attributes.keys()):
        content.texts.append("." + name)
        content.value(func.attributes[name])
    if content.is_new(func):
        content.waiting.append((func, content.evaluates))


def _native(content: _Content, func: NativeFunc) -> None:
    content.value((func.snippet, func.adj_snippet, func.replay_snippet, func.cpu))
    _func(content, func)


def _traced(content: _Content, func: JaxFunction) -> None:
    """Refuse a digest: the IR of the function is known only once JAX has traced it for the types of a call."""
    raise Unknown


def _named(content: _Content, thing: Any) -> None:
    """A builtin, or a kernel, which no kernel can use."""
    content.texts.append(f"{type(thing).__qualname__} {thing.__module__} {thing.name}")


def _module(content: _Content, module: types.ModuleType) -> None:
    name = module.__name__
    content.texts.append(f"module {name}")
    if content.is_entered(module):
        return
    members = vars(module)
    found = sorted(content.names & members.keys())
    if (root := name.partition(".")[0]) in _LIBRARIES:
        content.texts.append(str(members.get("__version__", "")))
        if content.evaluates:
            _library(content, root, module, found)
        else:
            _set_from_outside(content, members, found)
        return
    if "__getattr__" in members or type(module) is not types.ModuleType:
        raise Unknown
    if found:
        content.modules[id(module)] = module
    for name in found:
        content.texts.append("." + name)
        content.value(members[name])


def _library(content: _Content, root: str, module: types.ModuleType, names: Iterable[str]) -> None:
    """A module of jwarp, NumPy or Warp, of which Python may call what has one of `names`."""
    if root == "numpy" and module.__name__ not in _MODULES_OF_NUMPY:
        raise Unknown
    if any(hasattr(module, name) for name in content.names - vars(module).keys()):
        raise Unknown  # its class computes attributes: settings
    for name in names:
        found = canonical(vars(module)[name])
        if not (isinstance(found, ByName) and found.__module__.partition(".")[0] == "jwarp"):
            content.value(found)


def _set_from_outside(content: _Content, members: Mapping[str, Any], names: Iterable[str]) -> None:
    """Add what programs set in a module of a library: the library's version says nothing of it."""
    for name in names:
        member = canonical(members[name])
        module = getattr(member, "__module__", None) or ""
        content.texts.append(f".{name} {module} {getattr(member, '__qualname__', '')}")
        if module.partition(".")[0] not in _LIBRARIES or isinstance(member, (type, np.ndarray, np.generic)):
            content.value(member)


def _attributes(content: _Content, thing: Any) -> None:
    """Add the attributes that an object has by itself to the content, where the current function may read them."""
    own = getattr(thing, "__dict__", {})
    for name in sorted(content.names & own.keys()):
        content.texts.append("." + name)
        content.value(own[name])


def _class(content: _Content, kind: type) -> None:
    content.texts.append(f"class {kind.__module__}.{kind.__qualname__}")
    root = kind.__module__.partition(".")[0]
    if root in _LIBRARIES:
        plain = {name: member for name, member in vars(kind).items() if not _is_computed(member)}
        _set_from_outside(content, plain, sorted(content.names & plain.keys()))
    if isinstance(kind, CompositeType):
        content.texts.append(f"{kind.kind.name} {kind.shape} {kind.dtype.name}")
        if root not in _LIBRARIES:
            _attributes(content, kind)
            content.value(kind.__mro__[1])
    elif isinstance(kind, ScalarType):
        content.texts.append(kind.name)
    elif root == "numpy":
        if content.evaluates and not (issubclass(kind, (np.generic, np.dtype)) or kind in _TYPES_OF_NUMPY):
            raise Unknown
    elif root not in ("abc", "builtins", "enum", "jwarp", "typing") and not content.is_entered(kind):
        if type(kind).__module__.partition(".")[0] not in ("abc", "builtins", "enum", "jwarp", "typing"):
            raise Unknown  # attributes of the class may be computed
        own: Mapping[str, Any] = {}
        if isinstance(kind, StructType):
            own = kind.fields
            _mapping(content, own)
        if issubclass(kind, enum.Enum):
            own = kind.__members__
            _mapping(content, {name: member._value_ for name, member in own.items()})
            for member in own.values():
                _attributes(content, member)
        for base in kind.__mro__[1:-1]:
            content.value(base)
        for name, member in vars(kind).items():
            if name not in own and name not in _OF_EVERY_CLASS:
                _class_member(content, kind, name, member)


_TYPES_OF_NUMPY = (np.ndarray, np.finfo, np.iinfo)
_OF_EVERY_CLASS = frozenset(
    ("__dict__", "__doc__", "__firstlineno__", "__module__", "__slots__", "__static_attributes__", "__weakref__")
)


def _class_member(content: _Content, kind: type, name: str, member: Any) -> None:
    """Add the member that a class has under a name to the content, where the current function may use it."""
    if name in ("__getattr__", "__getattribute__"):
        raise Unknown
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    if issubclass(kind, enum.Enum):
        function = isinstance(member, types.FunctionType)
        if member.__module__ == "enum" if function else name.startswith("_") and not _is_computed(member):
            return  # of each enumeration
    computed = _is_computed(member)
    if isinstance(member, Func) or content.evaluates or name in content.names or (computed and name == "value"):
        content.texts.append("." + name)
        if content.evaluates and type(member) is property:
            content.value(("property", member.fget, member.fset))
            return
        if computed:
            raise Unknown
        content.value(member)


def _is_computed(member: Any) -> bool:
    """True if Python computes an attribute from the class's member, as for a property."""
    plain = (Func, type, types.FunctionType, types.WrapperDescriptorType, types.MethodDescriptorType)
    return hasattr(type(member), "__get__") and not isinstance(member, plain)


def _python_function(content: _Content, function: Any) -> None:
    """Only what Python evaluates can call it."""
    module = function.__module__ or ""
    content.texts.append(f"function {module}.{function.__qualname__}")
    _attributes(content, function)
    if function.__name__ == "static" and module == _OF_STATIC:
        content.evaluates = content.has_static = True
    if not content.evaluates:
        return
    root = module.partition(".")[0]
    if root in _LIBRARIES:
        if not (module.startswith(_PURE_OF_JWARP) or _is_of_numpy(function)):
            raise Unknown
    elif content.is_new(function):
        content.waiting.append((function, True))


def _compiled_function(content: _Content, function: Any) -> None:
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__name__", "")
    content.texts.append(f"compiled {module}.{name}")
    if not content.evaluates or isinstance(
        function, (np.ufunc, types.MethodDescriptorType, types.WrapperDescriptorType)
    ):
        return
    pure = name in _PURE_BUILTINS if module == "builtins" else module.lstrip("_") in _PURE
    if not (pure or _is_of_numpy(function)):
        raise Unknown


def _is_of_numpy(function: Any) -> bool:
    """True if the function is one of NumPy's that read nothing but their arguments."""
    name = getattr(function, "__name__", "")
    return name in _PURE_OF_NUMPY and function in (getattr(np, name, None), getattr(np.linalg, name, None))


def _type_variable(content: _Content, variable: TypeVar) -> None:
    content.value(("variable", variable.__name__, variable.__constraints__, variable.__bound__))


def _record(content: _Content, thing: Any) -> None:
    """One of jwarp's own descriptions of types."""
    content.texts.append(type(thing).__qualname__)
    for field in dataclasses.fields(thing):
        content.value(getattr(thing, field.name))


class _Bare:
    """An object that keeps nothing but attributes."""


def _annotation(content: _Content, thing: Written) -> None:
    """An array that annotates is its type; Python may look at what else was set on it."""
    if thing.array_type is None:
        raise Unknown
    content.texts.append(type(thing).__name__)
    content.value(thing.array_type)
    if content.evaluates:
        _mapping(content, getattr(thing, "__dict__", {}))


def _record_of_names(content: _Content, thing: Any) -> None:
    if content.evaluates:  # kernels know only its items
        content.value(type(thing))
    content.value((type(thing).__qualname__, getattr(thing, "_fields", None), *thing))
    _attributes(content, thing)


def _object(content: _Content, thing: Any) -> None:
    """Any other object: something with attributes, or what an annotation is written with."""
    kind = type(thing)
    if kind.__module__.startswith("jwarp.") and dataclasses.is_dataclass(thing):
        _record(content, thing)
        return
    if get_origin(thing) is not None:
        content.value((str(get_origin(thing)), get_args(thing)))
        return
    if kind is types.SimpleNamespace:
        if not content.is_entered(thing):
            _mapping(content, vars(thing))
        return
    if kind.__module__ in ("typing", "types"):
        content.texts.append(repr(thing))
        return
    if isinstance(thing, type(np.cross)):
        _compiled_function(content, thing)
        return
    hidden = kind.__basicsize__ != _Bare.__basicsize__ or kind.__itemsize__
    if hidden or isinstance(thing, Mapping) or any("__slots__" in vars(base) for base in kind.__mro__[:-1]):
        raise Unknown
    content.value(kind)
    if not content.is_entered(thing):
        _mapping(content, vars(thing))


_Rule = Callable[[_Content, Any], None]
_RULES: dict[type, _Rule] = {
    tuple: _sequence,
    list: _sequence,
    dict: _mapping,
    set: _set,
    frozenset: _set,
    types.ModuleType: _module,
    types.FunctionType: _python_function,
    types.BuiltinFunctionType: _compiled_function,
    np.ufunc: _compiled_function,
    types.MethodDescriptorType: _compiled_function,
    types.WrapperDescriptorType: _compiled_function,
    TypeVar: _type_variable,
}
_OF_BASES: tuple[tuple[type, _Rule], ...] = (
    (enum.Enum, _member),
    (np.ndarray, _array),
    (np.generic, _array),
    (np.dtype, lambda content, dtype: content.texts.append(repr(dtype))),
    (type, _class),
    (types.ModuleType, _module),
    (tuple, _record_of_names),
    (NativeFunc, _native),
    (JaxFunction, _traced),
    (Func, _func),
    (ByName, _named),
    (Written, _annotation),
)
