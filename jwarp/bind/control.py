"""Loops and branches on the device, while JAX traces: what their bodies write is carried."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jwarp.arrays.array import array
from jwarp.bind import compat
from jwarp.bind.forward_only import forward_only
from jwarp.bind.traced_memory import CONSTANT, Scope, TracedMemory, constant_if_stopped, value_of
from jwarp.bind.trees import Node, Reader, changed_paths
from jwarp.errors import NO_SPAN, LaunchError, Span
from jwarp.types import Geometry

# The most iterations of a loop: of all, or by the function that is its body; None where nobody says.
Iterations = int | Mapping[Any, int] | None

_iterations: contextvars.ContextVar[Iterations] = contextvars.ContextVar("most iterations of loops", default=None)


@contextlib.contextmanager
def bounded(iterations: Iterations) -> Iterator[None]:
    """Loops that are traced inside have so many iterations at most."""
    token = _iterations.set(iterations)
    try:
        yield
    finally:
        _iterations.reset(token)


def _bound_of(body: Any) -> int | None:
    found = _iterations.get()
    return found.get(body) if isinstance(found, Mapping) else found


def holds(condition: array) -> Any:
    """The truth value that the first element of a condition is not zero."""
    return jnp.reshape(value_of(condition.memory, condition.layout), -1)[0] != 0


def traced_while(
    condition: array, body: Callable[[], None], key: Any, name: str, given: Mapping[str, Any] | None = None
) -> None:
    """Run `body` as long as `condition` holds, which it changes; `key` is what a bound of iterations is looked up by.

    Raises:
        LaunchError: the body does not write to the condition, binds attributes of arguments anew, among them those that
            it is `given`, or writes to something else each time.
    """
    what = f"the body {name} of wp.capture_while"
    carried, axes = _written([body], what, given, [key])
    if condition.memory not in carried:
        raise LaunchError(
            f"{what} does not write to its condition, {condition.memory.made_at}, so that it never ends once it began",
            hint="let a kernel of the body write 0 to it",
        )

    def goes_on(values: Sequence[Any]) -> Any:
        with _inside(what, carried, values):
            return holds(condition)

    def iteration(values: Sequence[Any]) -> list[Any]:
        return _run(body, what, carried, values, axes)

    start = compat.made_varying([constant_if_stopped(memory.value) for memory in carried], axes)
    bound = _bound_of(key)
    if bound is None:
        end = jax.lax.while_loop(_constant(goes_on, start), _constant(iteration, start), start)
        message = (
            f"a loop of wp.capture_while over {name} of no known number of iterations has no gradient in reverse mode"
        )
        hint = (
            "say how many iterations it has at most, by max_trips of wp.functionalize, or differentiate in forward mode"
        )
        end = [forward_only(x, message, _place(key), hint) if _is_float(x) else x for x in end]
    else:
        end = _bounded_loop(goes_on, iteration, start, bound)
        # Nobody takes a loop that was cut off for one that has ended. A factor goes into derivatives as well.
        ended = jnp.where(goes_on(end), jnp.nan, 1.0)
        end = [x * ended.astype(x.dtype) if _is_float(x) else x for x in end]
    for memory, value in zip(carried, end, strict=True):
        memory.value = value


def _is_float(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jnp.floating)


def _place(body: Any) -> Span:
    """Where the function that is a body begins."""
    code = getattr(body, "__code__", None)
    return NO_SPAN if code is None else Span(code.co_filename, code.co_firstlineno)


def _constant(function: Callable[[Any], Any], example: Sequence[Any]) -> Callable[[Any], Any]:
    """The function, where what is written is a constant: of values of others that it reads, there is no derivative."""
    if not CONSTANT.get():
        return function
    converted, others = jax.closure_convert(function, example)
    constants = [constant_if_stopped(x) for x in others]
    return lambda values: converted(values, *constants)


def _bounded_loop(
    goes_on: Callable[[Any], Any], iteration: Callable[[Any], list[Any]], start: list[Any], bound: int
) -> list[Any]:
    """The values after at most so many iterations, with a gradient in reverse mode.

    Most loops end long before their bound, and a scan keeps something for each iteration that it might run. So the
    first iteration stands alone, and the later ones come in parts, each of which is skipped as a whole. Only the
    initial state of a part is kept; reverse mode runs its iterations once more.
    """
    once = jax.jit(iteration)  # which is traced for all parts together
    end, left, size = start, bound, 1
    while left:
        count = left if 2 * left <= 3 * size else size

        def part(values: list[Any], count: int = count) -> Any:
            return jax.lax.scan(
                lambda values, _: (jax.lax.cond(goes_on(values), once, list, values), None), values, length=count
            )[0]

        end = jax.lax.cond(goes_on(end), once if count == 1 else jax.checkpoint(part), list, end)
        left, size = left - count, 4 * size
    return end


def traced_if(
    condition: array,
    branches: Sequence[Callable[[], None]],
    keys: Sequence[Any],
    name: str,
    given: Mapping[str, Any] | None = None,
) -> None:
    """Run the first of two branches if `condition` holds, and else the other one; `keys` are what the user gave."""
    what = f"a branch of wp.capture_if, {name},"
    carried, axes = _written(branches, what, given, keys)
    start = compat.made_varying([constant_if_stopped(memory.value) for memory in carried], axes)
    both = [lambda values, branch=branch: _run(branch, what, carried, values, axes) for branch in branches]
    end = jax.lax.cond(holds(condition), *both, start)
    for memory, value in zip(carried, end, strict=True):
        memory.value = value


def written(body: Callable[[], Any], what: str, given: Mapping[str, Any] | None = None) -> list[TracedMemory]:
    """The memories from before a body that it writes to. The body is run once to find out.

    Raises:
        LaunchError: it binds attributes of arguments anew, of its own that are `given` or of the function around it.
    """
    return _written([body], what, given, [])[0]


def _written(
    bodies: Sequence[Callable[[], Any]], what: str, given: Mapping[str, Any] | None, functions: Sequence[Any]
) -> tuple[list[TracedMemory], frozenset[Any]]:
    """The memories that some bodies write to, and the manual axes of `shard_map` that these vary over, before or after.

    `functions` are what is called in the bodies, with variables around them, which stay bound as they are, too.
    """
    found: dict[TracedMemory, None] = {}
    axes: list[frozenset[Any]] = []

    def run(body: Callable[[], Any]) -> None:
        with Scope(what) as scope, _bound_as_before(what, given or {}, functions):
            body()
        found.update(scope.written)
        axes.append(compat.varying_axes([scope.values[memory] for memory in scope.written]))

    for body in bodies:
        jax.eval_shape(lambda body=body: run(body))
    before = compat.varying_axes([memory.value for memory in found])
    return list(found), before.union(*axes)


def closed_over(*functions: Any) -> dict[str, Any]:
    """The variables around some functions that they use, by name, and those around functions among these.

    The object of a method is `self`.
    """
    found: dict[str, Any] = {}
    left, seen = list(functions), set[int]()
    while left:
        try:
            function = inspect.unwrap(left.pop())
            code = getattr(function, "__code__", None)
        except Exception:  # of an object that answers for any name in a way of its own
            continue
        if isinstance(function, types.MethodType):
            found.setdefault("self", function.__self__)
        if code is None or id(function) in seen:
            continue
        seen.add(id(function))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # not set yet
                found.setdefault(name, cell.cell_contents)
                left.append(cell.cell_contents)
    return found


_arguments: contextvars.ContextVar[Mapping[str, Any] | None] = contextvars.ContextVar("arguments", default=None)


_since: contextvars.ContextVar[int] = contextvars.ContextVar("since", default=0)


class Named:
    """The objects among the arguments of a function that ids name: what is in the place of those that have the ids.

    Attributes:
        objects: The objects, by id; by 0 one that no id is known of, if there is any.
        are_used: True if a launch in the function depends on what ids name.
    """

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}
        self.are_used = False


_named: contextvars.ContextVar[Named | None] = contextvars.ContextVar("named", default=None)


@contextlib.contextmanager
def arguments(given: Mapping[str, Any], since: int, named: Named) -> Iterator[None]:
    """The arguments of the function that is traced inside, by name; what was made before `since` is no part of it."""
    tokens = (_arguments, _arguments.set(given)), (_since, _since.set(since)), (_named, _named.set(named))
    try:
        yield
    finally:
        for variable, token in tokens:
            variable.reset(token)  # type: ignore[arg-type]


def objects_here(owners: Mapping[int, Geometry]) -> dict[int, Geometry]:
    """The objects that ids name in the function that JAX traces: its own arguments, if they have the ids.

    Raises:
        LaunchError: an argument may be what an id names, and none is known of it.
    """
    here = _named.get()
    if here is None:
        return dict(owners)
    here.are_used = True
    found = {number: here.objects.get(number, owner) for number, owner in owners.items()}
    if 0 in here.objects and any(is_foreign(owner) for owner in found.values()):
        raise LaunchError(
            "a number is an id of a grid, tree, mesh or volume that is no argument of the function that"
            f" wp.functionalize traces, or was one before JAX made {here.objects[0]!r} of it, which is an argument",
            hint="pass numbers and objects to the function itself, not through jax.jit, whose objects have no ids: let"
            " the function that jax.jit compiles refer to them; or give the object itself to the launch",
        )
    return found


def is_foreign(owner: Geometry) -> bool:
    """True if a grid, tree, mesh or volume is neither an argument of the traced function nor made in it."""
    return owner.born < _since.get()


@contextlib.contextmanager
def _bound_as_before(what: str, given: Mapping[str, Any], functions: Sequence[Any]) -> Iterator[None]:
    """Check that what runs inside leaves variables around it and attributes bound as they are.

    A loop carries the contents of arrays alone.
    """

    def nodes(reader: Reader) -> dict[tuple[str, str], Node]:
        # First arguments: an object that is met once more says no more about itself.
        found: dict[tuple[str, str], Node] = {}
        for part, values in {"": known, "around": closed_over(*functions)}.items():
            for k, value in values.items():
                with contextlib.suppress(RecursionError):  # of what is nested too deeply to be looked at
                    found[part, k] = reader.read(value, k)
        return found

    known = {**given, **(_arguments.get() or {})}
    reader = Reader(refuses=False)
    before = nodes(reader)
    yield
    for key, node in nodes(Reader(reader, refuses=False)).items():
        paths: list[str] = []
        with contextlib.suppress(RecursionError):
            paths = list(changed_paths(before.get(key, node), node, key[1]))
        for path in paths:
            raise LaunchError(
                f"{what} binds {path!r} anew, which happens once, as JAX traces, and not in each iteration",
                hint="write to the array that is there: wp.copy(a, b), a.assign(b)",
            )


def _inside(what: str, carried: Sequence[TracedMemory], values: Sequence[Any]) -> Scope:
    return Scope(what, dict(zip(carried, values, strict=True)))


def _run(
    body: Callable[[], None],
    what: str,
    carried: Sequence[TracedMemory],
    values: Sequence[Any],
    axes: frozenset[Any],
) -> list[Any]:
    with _inside(what, carried, values) as scope:
        body()
        others = [memory for memory in scope.written if memory not in carried]
        if others:
            raise LaunchError(
                f"{what} writes to {others[0].made_at}, and did not when it was run before",
                hint="a body does the same each time that it is called",
            )
        return compat.made_varying([jnp.asarray(scope.values[memory], memory.dtype) for memory in carried], axes)
