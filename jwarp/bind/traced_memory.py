"""Memory of arrays while JAX traces: a value, of which each write makes the next one."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import threading
import weakref
from collections.abc import Callable, Container, Iterator
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.arrays import allocation
from jwarp.arrays.content import elements_of
from jwarp.arrays.memory import HostMemory, Kept, Memory, place_of_caller
from jwarp.arrays.view import Element, View, components_of, packed, scalar_of
from jwarp.bind import compat
from jwarp.bind.known_values import Known, known_value
from jwarp.bind.values import as_it_is_now
from jwarp.devices import CPU
from jwarp.errors import KernelTypeError, LaunchError


class Scope:
    """The body of a loop or a branch while JAX traces it: what memory of functions around it holds there."""

    def __init__(self, what: str, values: dict[TracedMemory, Any] | None = None):
        self.what = what
        self.values: dict[TracedMemory, Any] = dict(values or {})
        self.written: dict[TracedMemory, None] = {}
        self.made: list[TracedMemory] = []
        self.trace = compat.trace_state()

    def __enter__(self) -> Scope:
        _scopes.open.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _scopes.open.remove(self)
        for memory in self.made:
            memory.ended = self.what


class _Scopes(threading.local):
    """The scopes that are open in this thread, from the outermost one in."""

    def __init__(self) -> None:
        self.open: list[Scope] = []


_scopes = _Scopes()


class _Trace:
    """A function that is being traced: the memories made in it, by weak references, and what is known of its values."""

    def __init__(self) -> None:
        self.made: list[weakref.ref[TracedMemory]] = []
        self.known: Known = {}


_trace: contextvars.ContextVar[_Trace | None] = contextvars.ContextVar("the function that is traced", default=None)


@contextlib.contextmanager
def settling() -> Iterator[Callable[[Container[Memory]], None]]:
    """Note the memories that are made inside. The result makes constants of them, but for those that it is given.

    A program may keep arrays that it makes in its first call, such as the points of a quadrature. If no argument
    decides on their content, they still hold it after the trace has ended.
    """
    trace = _Trace()
    token = _trace.set(trace)

    def settle(others: Container[Memory]) -> None:
        for reference in trace.made:
            memory = reference()
            if memory is not None and memory not in others:
                memory.settle()

    try:
        yield settle
    finally:
        _trace.reset(token)


# True if values written now are constants for derivatives.
CONSTANT: contextvars.ContextVar[bool] = contextvars.ContextVar("what is written is a constant", default=False)


def constant_if_stopped(value: Any) -> Any:
    """The value, as a constant where all that is written is one."""
    return jax.lax.stop_gradient(value) if CONSTANT.get() else value


class TracedMemory(Memory):
    """A value that JAX traces, for an array whose elements lie one after the other.

    `value` has the shape of all elements, with the axes of components last. It belongs to the trace in which it was
    made, and to no other one: a value that another trace writes would mean nothing when that has ended.
    """

    is_traced = True

    __slots__ = ("_found", "_value", "ended", "name", "trace", "written_at")

    def __init__(self, value: Any, name: str | None = None):
        super().__init__(CPU)
        self._value, self.name = value, name
        self.trace = compat.trace_state()
        self._found: tuple[Any, Any] = (None, None)  # the value that was looked into last, and what is known of it
        self.ended: str | None = None
        self.written_at: tuple[str, int] | None = None  # where it was written first
        if _scopes.open:
            _scopes.open[-1].made.append(self)
        elif (trace := _trace.get()) is not None:
            trace.made.append(weakref.ref(self))

    @property
    def value(self) -> Any:
        """The current value."""
        if self.ended is not None:
            raise LaunchError(
                f"{self.made_at} was made in {self.ended}, and is used after that has ended",
                hint="make the array before, and write to it",
            )
        for scope in reversed(_scopes.open):
            if self in scope.values:
                return scope.values[self]
        if isinstance(self._value, compat.Tracer) and compat.is_not_tracing():
            raise self.leaked()
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        now, value = compat.trace_state(), constant_if_stopped(value)
        if now == self.trace:
            self._value = value
        elif _scopes.open and _scopes.open[-1].trace == now:
            scope = _scopes.open[-1]
            scope.values[self] = value
            scope.written.setdefault(self)
        else:
            file, line = place_of_caller()
            if not isinstance(self._value, compat.Tracer):
                raise LaunchError(
                    f"{self.made_at} was made in a function that JAX traced, is a constant since that has ended, and is"
                    f" written at {file}:{line}",
                    hint="write to a copy: wp.clone(a); or make the array before the function is called",
                )
            raise LaunchError(
                f"{self.made_at} is written at {file}:{line} while JAX traces another function than the one that it"
                " belongs to",
                hint="pass it to that function, and return what it becomes",
            )
        if self.written_at is None:
            self.written_at = place_of_caller()
        self._version += 1

    def settle(self) -> None:
        """Hold the value as a constant from now on, if it is one."""
        if isinstance(self._value, compat.Tracer) and (known := self._known()) is not None:
            self._value = known

    def leaked(self) -> LaunchError:
        """The error where it is used after the function has ended that JAX traced."""
        return LaunchError(
            f"{self.made_at} stands for a value of a function that JAX traced, and is used after that has ended",
            hint="return wp.to_jax(a) from the function, and make an array of what comes back",
        )

    @property
    def made_at(self) -> str:
        return super().made_at if self.name is None else f"'{self.name}'"

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the value."""
        return np.dtype(self.value.dtype)

    def read(self, view: View) -> Any:
        return self._shown(self.value, view)

    def _shown(self, value: Any, view: View) -> Any:
        """The part of a value of this memory that a view shows."""
        if _is_all(view, value):
            return value
        places = _places(view, value.shape, self.dtype.itemsize)
        if places is not None:
            found = value if places == () else value[places]
            return _cast(jnp.reshape(found, view.full_shape), view.dtype)
        return _cast(jnp.reshape(value, -1)[self._indices(view)], view.dtype)

    def write(self, view: View, value: Any) -> None:
        if isinstance(value, jax.Array) and value.shape == view.full_shape and _is_all(view, self.value):
            self.value = jnp.asarray(as_it_is_now(value), self.dtype)
            return
        given = jnp.broadcast_to(jnp.asarray(as_it_is_now(value), view.dtype), view.full_shape)
        given, places = _cast(given, self.dtype), _places(view, self.value.shape, self.dtype.itemsize)
        if places == ():
            self.value = jnp.reshape(given, self.value.shape)
        elif places is not None:
            at = self.value.at[places]
            self.value = at.set(jnp.reshape(given, jax.eval_shape(lambda x: x[places], self.value).shape))
        else:
            flat = jnp.reshape(self.value, -1).at[self._indices(view)].set(given)
            self.value = jnp.reshape(flat, self.value.shape)

    def _indices(self, view: View) -> np.ndarray:
        """The numbers of the elements of the flattened value that a view shows."""
        itemsize = self.dtype.itemsize
        if view.dtype.itemsize != itemsize or view.offset % itemsize or any(s % itemsize for s in view.strides):
            raise LaunchError(
                f"a view of {self.made_at} has elements of {view.dtype.itemsize} bytes, and its own have {itemsize}:"
                " while JAX traces there are no bytes to look at",
                hint="view it as a type whose components have the same size",
            )
        found = np.asarray(view.offset // itemsize)
        for extent, stride in zip(view.full_shape, view.full_strides, strict=True):
            found = found[..., None] + np.arange(extent) * (stride // itemsize)
        return found

    def keep(self, view: View) -> Kept:
        handle = Kept(self, view)
        before = TracedMemory(self.value)
        handle.save(lambda: before.read(view))
        return handle

    def expose(self, view: View) -> np.ndarray:
        """The elements that a view shows, which are not to be written.

        Raises:
            LaunchError: JAX traces the value.
        """
        known = self._known()
        if known is None:
            file, line = place_of_caller()
            raise LaunchError(
                f"{self.made_at} is read at {file}:{line}, and stands for a value that JAX traces, so that its elements"
                " are not known yet",
                hint="read it outside of the traced function; wp.to_jax(a) gives the traced value",
            )
        with jax.ensure_compile_time_eval():
            return np.asarray(self._shown(known, view))

    @property
    def is_known(self) -> bool:
        return self._known() is not None

    def _known(self) -> Any:
        """The value if no argument of the traced function decides on it, else None."""
        value = self.value
        if self._found[0] is not value:
            trace = _trace.get()
            self._found = (value, known_value(value, {} if trace is None else trace.known))
        return self._found[1]

    def _save(self) -> None:
        """Nothing: what it was stays what it was."""


def _cast(value: Any, dtype: np.dtype) -> Any:
    """The same bits as another dtype of the same size; bools are bytes."""
    if value.dtype == dtype:
        return value
    if value.dtype.itemsize != dtype.itemsize:
        raise LaunchError(f"a value of {value.dtype} is no value of {dtype} while JAX traces")
    if value.dtype == np.bool_:
        value = value.astype(np.uint8)
    if dtype == np.bool_:
        return jax.lax.bitcast_convert_type(value, np.uint8) != 0
    return jax.lax.bitcast_convert_type(value, dtype)


def _is_all(view: View, value: Any) -> bool:
    """True if a view shows a value as it is, as most arrays do."""
    return not view.offset and view.full_shape == value.shape and view.dtype == value.dtype and view.is_contiguous


def _places(view: View, shape: tuple[int, ...], itemsize: int) -> tuple[Any, ...] | None:
    """The subscript that shows what a view does, up to its shape; () for everything, None if there is none.

    Each axis of the view goes along an axis of the value, in the same order, or some axes go along the last ones.
    """
    if view.dtype.itemsize != itemsize or view.offset % itemsize:
        return None
    offset = view.offset // itemsize
    steps = [stride // itemsize for stride in view.full_strides]
    if any(stride % itemsize for stride in view.full_strides):
        return None
    strides, total = packed(shape, 1), int(np.prod(shape))
    if (
        not offset
        and view.size * int(np.prod(components_of(view.element))) == total
        and steps == list(packed(view.full_shape, 1))
    ):
        return ()
    axes = [(extent, step) for extent, step in zip(view.full_shape, steps, strict=True) if extent != 1]
    found: list[Any] = []
    for extent, stride in zip(shape, strides, strict=True):
        start, offset = divmod(offset, stride) if stride else (0, offset)
        rest = axes
        # All axes that are left go along the elements that are left.
        if rest and start == 0 and offset == 0 and _is_packed(rest) and rest[0][0] * rest[0][1] == stride * extent:
            return tuple(found)
        if (
            axes
            and axes[0][1] > 0
            and axes[0][1] % stride == 0
            and start + (axes[0][0] - 1) * (axes[0][1] // stride) < extent
        ):
            (count, step), *axes = axes
            found.append(slice(start, start + (count - 1) * (step // stride) + 1, step // stride))
        elif start < extent:
            found.append(slice(start, start + 1))
        else:
            return None
    return None if axes or offset else tuple(found)


def _is_packed(axes: list[tuple[int, int]]) -> bool:
    return all(step == extent_in * step_in for (_, step), (extent_in, step_in) in itertools.pairwise(axes)) and (
        axes[-1][1] == 1
    )


class Token:
    """The stand-in for the address of an array's elements while JAX traces, when there are no addresses."""

    __slots__ = ("memory", "offset")

    def __init__(self, memory: TracedMemory, offset: int):
        self.memory, self.offset = memory, offset

    def __repr__(self) -> str:
        return f"<stands for the address of {self.memory.made_at}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and (self.memory, self.offset) == (other.memory, other.offset)

    def __hash__(self) -> int:
        return hash((id(self.memory), self.offset))

    def _refuse(self, *_: Any) -> NoReturn:
        raise LaunchError(
            f"the address of {self.memory.made_at} is calculated with, and while JAX traces it has none",
            hint="slices and views of the array show parts of it",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __int__ = __index__ = __lt__ = __gt__ = __and__ = _refuse


class _Tracing:
    """Tells arrays where JAX is tracing."""

    def is_tracing(self) -> bool:
        return not compat.is_not_tracing()

    def memory(self, shape: tuple[int, ...], layout: View, zeroed: bool) -> Memory:
        full = layout.full_shape
        _refuse_wide(layout.element)
        if not layout.is_contiguous:
            full = (layout.bounds[1] // layout.dtype.itemsize,)
        return TracedMemory(jnp.zeros(full, layout.dtype))

    def adopted(self, data: Any, dtype: Any, shape: tuple[int, ...] | None) -> tuple[Memory, View] | None:
        if not isinstance(data, jax.Array) or compat.is_not_tracing():
            return None
        element, given = elements_of(Shaped(data), dtype, shape)
        layout = View.whole(element, given.shape[: given.ndim - len(components_of(element))])
        return TracedMemory(jnp.reshape(jnp.asarray(as_it_is_now(data), layout.dtype), layout.full_shape)), layout

    def pointed_to(self, ptr: Any, layout: View) -> tuple[Memory, View] | None:
        if not isinstance(ptr, Token):
            return None
        return ptr.memory, View(layout.element, layout.shape, layout.strides, layout.offset + ptr.offset)

    def value(self, memory: Memory, layout: View) -> Any:
        return value_of(memory, layout)

    def token(self, memory: Memory, layout: View) -> Any:
        assert isinstance(memory, TracedMemory)
        return Token(memory, layout.offset)


class Shaped:
    """The shape and dtype of a traced value, as an array of zeros that takes no memory."""

    def __init__(self, value: Any):
        self.value = value

    def __len__(self) -> int:
        return len(self.value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.broadcast_to(np.zeros((), dtype or self.value.dtype), self.value.shape)


def _refuse_wide(element: Element) -> None:
    scalar = scalar_of(element)
    if scalar.bits == 64 and not compat.x64_enabled():
        raise KernelTypeError(
            f"an array of {element!r} is to be a JAX value, and JAX's 64-bit types are off",
            hint='jax.config.update("jax_enable_x64", True) turns them on',
        )


allocation.set_tracing(_Tracing())


def value_of(memory: Memory, view: View) -> Any:
    """The current content of a view as a JAX value; of host memory a copy, which is valid until something is written.

    Raises:
        KernelTypeError: it is of a type that JAX does not have while its 64-bit types are off.
    """
    if memory.is_traced:
        return memory.read(view)
    _refuse_wide(view.element)
    if not isinstance(memory, HostMemory):
        with jax.ensure_compile_time_eval():
            return jax.device_put(memory.read(view))
    known = memory.snapshot
    if known is not None and not memory.is_open and known[:2] == (memory.version, view):
        return known[2]
    # Of a copy that nobody else has; also where JAX traces, what is known is no part of what it traces.
    with jax.ensure_compile_time_eval():
        value = jax.device_put(np.array(memory.read(view)))
    memory.snapshot = None if memory.is_open else (memory.version, view, value)
    return value
