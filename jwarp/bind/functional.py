"""Functions of many launches as functions of JAX: traced once, with arrays that stand for values."""

from __future__ import annotations

import contextlib
import inspect
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from jwarp.arrays.array import array
from jwarp.arrays.memory import Memory
from jwarp.arrays.view import View
from jwarp.bind import compat
from jwarp.bind.control import Iterations, Named, bounded
from jwarp.bind.control import arguments as tracing_with
from jwarp.bind.custom_vjp import Rule, replaced, stopped, stopping, with_rule
from jwarp.bind.traced_memory import TracedMemory, settling, value_of
from jwarp.bind.trees import Node, Reader, Writer, attributes, changed_paths, memories_in, values_in, whole_of
from jwarp.caches import Cache
from jwarp.config import config
from jwarp.errors import LaunchError
from jwarp.frontend import options
from jwarp.frontend.kernel_base import Kernel
from jwarp.types import births

_PACKAGES = str(Path(__file__).parents[1]), str(Path(jax.__file__).parent)

# Shapes of arguments that a function is kept for.
MAX_CALLS = 64


class Given:
    """The arguments of a call: the shape of each, and the JAX values in them."""

    def __init__(self, arguments: Mapping[str, Any], static: Sequence[str]):
        reader = Reader()
        self.nodes = {
            name: reader.read(value, name, traces_floats=name not in static) for name, value in arguments.items()
        }
        self.ids = dict(reader.ids)
        self.wholes = tuple(map(whole_of, reader.layouts))
        self.paths = (*reader.paths, *reader.value_paths)
        contents = [value_of(m, whole) for m, whole in zip(reader.memories, self.wholes, strict=True)]
        self.contents = [*contents, *reader.values]

    @property
    def key(self) -> tuple[Any, ...]:
        """The specialisation key of the function; values that are traced are not part of it."""
        types = tuple((jnp.shape(x), jax.dtypes.canonicalize_dtype(jnp.result_type(x))) for x in self.contents)
        return (tuple(self.nodes.items()), self.wholes, types)


class Functional:
    """A function of launches as a function of JAX, traced once for arguments of the same shapes.

    `what` made it, for errors.
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        returns: tuple[str, ...] | None,
        static: tuple[str, ...],
        what: str,
        iterations: Iterations = None,
        stopped_in: Sequence[Any] = (),
        rules: Mapping[Any, Rule] | None = None,
    ):
        self.iterations, self.kernels = iterations, [x for x in stopped_in if isinstance(x, Kernel)]
        self.others = {f: stopped(f) for f in stopped_in if not isinstance(f, Kernel)}
        self.others.update((f, with_rule(f, rule)) for f, rule in (rules or {}).items())
        self.name, self.func, self.returns, self.static, self.what = name, func, returns, static, what
        self.signature = inspect.signature(func)
        self._traced: Cache[Any, Traced] = Cache(f"shapes of arguments of {name}", MAX_CALLS)

    @property
    def place(self) -> str:
        """Where the function is written, as part of a sentence."""
        code = getattr(inspect.unwrap(self.func), "__code__", None)
        return "it" if code is None else f"{code.co_filename}:{code.co_firstlineno}"

    @property
    def class_name(self) -> str:
        """The class of the object that the function is a method of."""
        return type(getattr(self.func, "__self__", None)).__name__

    def attributes_of_owner(self) -> dict[str, Any]:
        """The arrays and numbers that the object has which the function is a method of."""
        owner = getattr(self.func, "__self__", None)
        names = attributes(owner) or ()
        return {name: x for name in names if isinstance(x := getattr(owner, name), (array, int, float))}

    def __call__(self, arguments: Mapping[str, Any]) -> Any:
        given = Given(arguments, self.static)
        key = (given.key, compat.x64_enabled(), config.settings, options.changes)
        traced = self._traced.made(key, lambda: Traced(self, given))
        if traced.named.are_used and traced.ids != given.ids:
            traced = self._traced.made((key, tuple(given.ids.values())), lambda: Traced(self, given))
        return traced(given.contents)

    def run(self, arguments: Mapping[str, Any], since: int, named: Named) -> Any:
        """The function itself. What was made before `since` is no part of it; ids name what is in `named`."""
        bound = inspect.BoundArguments(self.signature, dict(arguments))
        tracing = tracing_with(arguments, since, named)
        with bounded(self.iterations), stopping(self.kernels), replaced(self.others), tracing:
            # One that has a rule itself is called as the others are.
            function = next((other for f, other in self.others.items() if f is self.func), self.func)
            return function(*bound.args, **bound.kwargs)


def stand_ins(
    given: Given | Traced, contents: Sequence[Any]
) -> tuple[list[TracedMemory], dict[str, Any], dict[int, Any]]:
    """Memories that stand for values while JAX traces, the arguments around them, and those of these that have ids."""
    count = len(given.wholes)
    memories = [
        TracedMemory(jnp.reshape(x, whole.full_shape), path)
        for x, whole, path in zip(contents[:count], given.wholes, given.paths[:count], strict=True)
    ]
    starts: list[tuple[Memory, int]] = [(m, whole.bounds[0]) for m, whole in zip(memories, given.wholes, strict=True)]
    writer = Writer(starts, list(contents[count:]))
    arguments = {name: writer.make(node) for name, node in given.nodes.items()}
    named = writer.made(given.ids)
    for number, owner in named.items():
        owner.stands_for = number
    return memories, arguments, named


class Traced:
    """A function for arguments of one shape.

    `returns` are the arguments that come back, as what the function made of them; None for its result, and a dict of
    those that it changed.

    Raises, as it is called:
        LaunchError: the function changes an argument that does not come back.
    """

    def __init__(self, function: Functional, given: Given):
        self.function, self.nodes, self.wholes, self.paths = function, given.nodes, given.wholes, given.paths
        self.returns, self.name = function.returns, function.name
        self.ids, self.named = given.ids, Named()
        self.result: Node
        self.sources: list[tuple[str, Any]] = []  # of the memories of the result
        self.layouts: list[View] = []
        self.value_sources: dict[int, tuple[str, Any]] = {}
        run = self.run
        self._run = jax.jit(lambda *contents: run(contents))
        self._run.__name__ = self.name  # type: ignore[attr-defined]

    def __call__(self, contents: Sequence[Any]) -> Any:
        outputs = self._run(*contents)
        memories = [self._memory(source, contents, outputs) for source in self.sources]
        values = {k: self._value(source, contents, outputs) for k, source in self.value_sources.items()}
        made = Writer(memories, values).make(self.result)  # type: ignore[arg-type]
        if self.returns is None:
            return made
        return made[0] if len(self.returns) == 1 else tuple(made)

    def run(self, contents: Sequence[Any]) -> list[Any]:
        """The function on values; what it returns is noted as it is traced."""
        since = births()
        _, arguments, self.named.objects = stand_ins(self, contents)
        # Where all that changed comes back, an object does by each name that it was given by.
        read = Reader.read_whole if self.returns is None else Reader.read
        before = Reader()
        nodes = {name: read(before, value, name) for name, value in arguments.items()}
        attributes_of_owner = self.function.attributes_of_owner()
        with self._named(), settling() as settle:
            result = self.function.run(arguments, since, self.named)
            self._check_attributes(attributes_of_owner)
            after = Reader(before)
            found = {name: read(after, value, name) for name, value in arguments.items()}
            changed = {name: list(self._changes(name, nodes[name], found[name], after)) for name in nodes}
            outputs, returned = self._outputs(arguments, result, changed, before)
            settle(returned)
        return outputs

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Name the argument and the line where Python needs a number that JAX traces."""
        try:
            yield
        except jax.errors.ConcretizationTypeError as error:
            found = re.search(r"contents\[(\d+)\]", str(error))
            name = f"'{self.paths[int(found[1])]}'" if found else "a value that an argument decides on"
            file, line = _place_of(error)
            raise LaunchError(
                f"{name} is read at {file}:{line}, and JAX traces it, so that it is no number yet",
                hint="name a float argument in static_argnames, or decide in a kernel or by wp.capture_if or jnp.where",
            ) from error

    def _check_attributes(self, before: Mapping[str, Any]) -> None:
        """Refuse what a method changes of its object, which would happen once."""
        after = self.function.attributes_of_owner()
        for name in {**before, **after}:
            a, b = before.get(name), after.get(name)
            if a is b or (a != a and b != b):  # or not a number, as before
                continue
            if isinstance(a, array) or isinstance(b, array) or a != b:
                raise LaunchError(
                    f"{self.function.what}: {self.name} binds 'self.{name}' anew, in {self.function.place}, which"
                    " happens once, as JAX traces, and not in each call",
                    hint=f"make the object an argument: wp.functionalize({self.function.class_name}.{self.name})",
                )

    def _changes(self, name: str, before: Node, after: Node, reader: Reader) -> Any:
        for path in changed_paths(before, after, name):
            yield f"'{path}', bound anew in {self.function.place}"
        for number in memories_in(after):
            memory = reader.memories[number]
            if memory.version:
                place = getattr(memory, "written_at", None)
                yield f"'{reader.paths[number]}'" + (" at {}:{}".format(*place) if place else "")

    def _outputs(
        self, arguments: Mapping[str, Any], result: Any, changed: Mapping[str, list[str]], before: Reader
    ) -> tuple[list[Any], set[Memory]]:
        """The values that the traced function returns, and the memories that it was given or returns."""
        if self.returns is None:
            returned: Any = (result, {name: arguments[name] for name, paths in changed.items() if paths})
        else:
            returned = [arguments[name] for name in self.returns]
            for name, paths in changed.items():
                if paths and name not in self.returns:
                    shown = ", ".join(dict.fromkeys(paths))
                    known = ", ".join(map(repr, self.returns))
                    raise LaunchError(
                        f"{self.function.what}: {self.name} changes {shown}, and only {known} come back",
                        hint=f"add {name!r} to returns, or leave returns out: then all that changed comes back",
                    )
        reader = Reader(before)
        self.result = reader.read(returned, "the result")
        outputs: list[Any] = []
        count = len(self.wholes)
        self.sources = []
        returning = set(memories_in(self.result))
        for number, memory in enumerate(reader.memories):
            if not memory.is_traced:
                self.sources.append(("host", memory))
            elif number < count and not memory.version:
                self.sources.append(("given", number))
            elif number in returning:
                assert isinstance(memory, TracedMemory)
                self.sources.append(("made", len(outputs)))
                outputs.append(memory.value)
            else:
                self.sources.append(("unused", None))
        self.value_sources = {}
        for number in set(values_in(self.result)):
            if number < len(before.values):
                self.value_sources[number] = ("given", count + number)
            else:
                self.value_sources[number] = ("made", len(outputs))
                outputs.append(reader.values[number])
        return outputs, set(reader.memories)

    def _memory(self, source: tuple[str, Any], contents: Sequence[Any], outputs: Sequence[Any]) -> Any:
        kind, k = source
        if kind == "host":
            return k, 0
        if kind == "unused":
            return None
        return TracedMemory(self._value(source, contents, outputs)), 0

    def _value(self, source: tuple[str, Any], contents: Sequence[Any], outputs: Sequence[Any]) -> Any:
        kind, k = source
        return contents[k] if kind == "given" else outputs[k]


def _place_of(error: BaseException) -> tuple[str, int]:
    """File and line of the user's code that an error comes from."""
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return next(place for place in reversed(places) if not place[0].startswith(_PACKAGES))
