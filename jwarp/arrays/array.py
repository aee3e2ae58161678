"""`wp.array`: the annotation of a parameter, and an array that changes."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from jwarp.arrays import allocation, dlpack
from jwarp.arrays.changes import CHANGES
from jwarp.arrays.commands import LISTENING, submit
from jwarp.arrays.content import elements_of, read_element
from jwarp.arrays.copies import Copied
from jwarp.arrays.descriptors import array_t, described
from jwarp.arrays.living import table
from jwarp.arrays.memory import Deleting, HostMemory, Memory, shown_by
from jwarp.arrays.view import View, read_shape, refuse_long
from jwarp.arrays.writes import Copy, Fill, copy_range, fill
from jwarp.devices import CPU, Device, get_device
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import StructType, Written, array_type, indexedarray, uint64, wanted_type
from jwarp.types.annotations import refuse_derived
from jwarp.types.array_annotations import ArrayAnnotation, element_or_any
from jwarp.types.array_operators import Operators
from jwarp.types.handles import are_ids

# Numbers of arrays, each of which only one has.
_tokens = itertools.count()

# Gives the class of arrays whose elements are structs, for a class of arrays: from above.
OF_STRUCTS: list[Callable[[type], type]] = []


class array(Copied, Operators, Written):
    """A mutable array: launches write to it, and views of it share its elements.

    Make it from `data` (a sequence, or an array of NumPy, JAX or another library); from a `shape`, with arbitrary
    content; or from the address `ptr` of memory that something else owns. Without these, it is an annotation:
    `wp.array(dtype=float, ndim=2)` is the type of a parameter, like `wp.array2d[float]`.

    Args:
        data: The content. The components of vectors and matrices are the last axes, or lie along the last one.
        dtype: The type of the elements. Default: that of the data.
        shape: The extents of at most four dimensions.
        strides: Bytes from one element to the next along each dimension, for `ptr` and `shape`.
        ptr: The address of the first element.
        device: The device: "cpu", "cuda:0" or another GPU. Default: the device of `data`, or the current device.
        pinned: Has no effect.
        copy: If False, share the memory of a NumPy array of exactly this type.
        deleter: Called with `ptr` and the number of bytes when the memory is no longer used.
        ndim: The number of dimensions of an annotation.
        grad: The array in which gradients are accumulated.
        requires_grad: Whether the array has a gradient.
        retain_grad: Whether backward passes keep the gradient of overwritten content.

    Raises:
        KernelTypeError: The data cannot be elements of this type.
        LaunchError: The shape, the strides or the device are invalid.

    Example:
        >>> a = wp.array([1.0, 2.0, 3.0], dtype=float)
        >>> a[1:].fill_(5.0)
        >>> a.numpy()
        array([1., 5., 5.], dtype=float32)
    """

    # Of what stands for an object of a derived class, that object; of such an object, what stands for it.
    __slots__ = ("__dict__", "__weakref__", "_of", "_stand_in")

    plain_class: ClassVar[type]
    memory: Memory
    layout: View
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    ndim: int
    size: int
    device: Device | None
    _owner: Deleting | None = None  # of the memory at `ptr`
    _is_read = False  # what Warp notes for its checks of tapes, which programs save and restore
    _annotation: ClassVar[type[ArrayAnnotation]] = ArrayAnnotation
    is_untyped = False  # whether launches take its last axes for components, where a parameter has such

    def __class_getitem__(cls, given: Any) -> Any:
        refuse_derived(cls)
        return cls._annotation(*(given if isinstance(given, tuple) and len(given) == 2 else (given, 1)))

    def __new__(cls, data: Any = None, dtype: Any = Any, shape: Any = None, *args: Any, **named: Any) -> Any:
        is_made = data is not None or shape is not None or named.get("ptr") is not None
        if is_made and isinstance(dtype, StructType):
            return object.__new__(OF_STRUCTS[0](cls))
        return object.__new__(cls)

    def __init__(
        self,
        data: Any = None,
        dtype: Any = Any,
        shape: Any = None,
        strides: Any = None,
        ptr: Any = None,
        capacity: int | None = None,
        device: Any = None,
        pinned: bool = False,
        copy: bool = True,
        deleter: Any = None,
        ndim: int | None = None,
        grad: array | None = None,
        requires_grad: bool = False,
        retain_grad: bool = False,
    ):
        if data is not None and (isinstance(data, type) or wanted_type(data) is not None):
            data, dtype = None, data  # wp.array(float)
        if data is None and ptr is None and shape is None:
            self._annotate(dtype, 1 if ndim is None else ndim)
            return
        where = get_device(data.device if device is None and isinstance(data, array) else device)
        extents = None if shape is None else read_shape(shape)
        if data is not None:
            if ptr is not None:
                raise LaunchError("wp.array: data and ptr are both given")
            self._take(data, dtype, extents, copy, where)
        elif extents is None or not extents:
            raise LaunchError("wp.array: an array has at least one dimension: say shape=")
        else:
            self._show(dtype, extents, strides, ptr, (deleter, capacity or 0), where)
        self._grad: array | None = None
        self._retain_grad = False
        if grad is not None:
            self.grad = grad
        elif requires_grad:
            self._allocate_gradient()
        if retain_grad:
            self.retain_grad = True

    # -- how it is made

    def _annotate(self, dtype: Any, ndim: int) -> None:
        self.array_type = array_type(dtype, ndim)
        self.dtype, self.ndim, self.size = element_or_any(self.array_type), ndim, 0
        self.shape = self.strides = (0,) * ndim
        self.device, self._grad, self._retain_grad = None, None, False

    def _bind(self, memory: Memory, layout: View) -> None:
        self.memory, self.layout = memory, layout
        self.dtype, self.shape, self.strides = layout.element, layout.shape, layout.strides
        self.ndim, self.size, self.device = len(layout.shape), layout.size, memory.device
        self._host: np.ndarray | None = None
        self.token = next(_tokens)

    def _take(self, data: Any, dtype: Any, shape: tuple[int, ...] | None, copy: bool, device: Device) -> None:
        """Begin with the content of `data`, or share it."""
        found = allocation.adopted(data, dtype, shape)
        if found is not None:
            return self._bind(*found)
        element, content = elements_of(data, dtype, shape)
        rank = content.ndim - len(View(element, (), ()).full_shape)
        extents = content.shape[:rank]
        refuse_long(extents)
        if not copy and device.is_cuda and isinstance(data, array) and data.device is device:
            layout = data.layout if element == data.dtype else data.layout.seen_as(element)
            return self._bind(data.memory, layout if extents == layout.shape else layout.reshaped(extents))
        if not copy and device is CPU and isinstance(data, (np.ndarray, array)):
            return self._bind(*shown_by(content, element))
        layout = View.whole(element, extents)
        names_objects = element is uint64 and device is CPU and are_ids(content)
        memory: Memory = allocation.allocate(layout, zeroed=False, device=device, is_known=names_objects)
        memory.write(layout, content)
        return self._bind(memory, layout)

    def _show(self, dtype: Any, shape: tuple[int, ...], strides: Any, ptr: Any, ending: Any, device: Device) -> None:
        """Be new memory, or what is at an address."""
        element = read_element(np.float32 if dtype is Any else dtype)
        layout = View.whole(element, shape)
        if strides is not None:
            layout = View(element, shape, tuple(map(int, strides)))
            if len(layout.strides) != len(shape):
                raise LaunchError(f"wp.array: {len(layout.strides)} strides for {len(shape)} dimensions")
        low, high = layout.bounds
        if ptr is None:
            if low < 0:
                raise LaunchError("wp.array: Negative strides are those of views alone", also=NotImplementedError)
            return self._bind(allocation.allocate(layout, zeroed=False, device=device), layout)
        found = allocation.pointed_to(ptr, layout)
        if found is not None:
            return self._bind(*found)
        if not int(ptr) and high > low:
            raise LaunchError(f"wp.array: at the address 0 there are no {layout.size} elements", hint="leave ptr out")
        self._owner = Deleting(ending[0], int(ptr), max(ending[1], high - low))
        memory = allocation.memory_at(device, int(ptr) + low, high - low, self._owner)
        return self._bind(memory, View(element, shape, layout.strides, -low))

    @classmethod
    def of(cls, memory: Memory, layout: View) -> array:
        """The array that shows `layout` of `memory`."""
        made = object.__new__(array)
        made._bind(memory, layout)
        made._grad, made._retain_grad = None, False
        return made

    def seen(self, layout: View) -> array:
        """Another view of the same memory, whose gradient is the same view of the gradient."""
        made = array.of(self._require_data(), layout)
        if self._grad is not None:
            offset = self._grad.layout.offset + layout.offset - self.layout.offset
            view = View(layout.element, layout.shape, layout.strides, offset)
            made._grad = array.of(self._grad.memory, view)
        return made

    def _require_data(self) -> Memory:
        if self.device is None:
            raise LaunchError(f"{self!r} is an annotation and holds nothing", hint="wp.zeros(n, dtype=…) makes one")
        return self.memory

    # -- what it is

    @property
    def is_contiguous(self) -> bool:
        """True if the elements are contiguous in row-major order."""
        return self.device is not None and self.layout.is_contiguous

    @property
    def capacity(self) -> int:
        """The number of bytes that it spans."""
        return 0 if self.device is None else self.layout.bounds[1] - self.layout.bounds[0]

    @property
    def ptr(self) -> Any:
        """The address of the first element; None if there are no elements; a token while JAX traces."""
        if self.device is None or not self.size:
            return None
        memory: Any = self.memory
        if memory.is_traced:
            return allocation.token(memory, self.layout)
        memory.is_exposed = True  # whoever has the address may write there
        table.enter(memory)
        table.note(self)
        return memory.start + self.layout.offset

    pinned = False

    @property
    def deleter(self) -> Any:
        """The function that frees the memory at `ptr` when it is no longer used; None if jwarp frees it."""
        return getattr(self._owner, "deleter", None)

    @deleter.setter
    def deleter(self, deleter: Any) -> None:
        if self._owner is not None:
            self._owner.deleter = deleter
        elif deleter is not None:
            raise LaunchError("the memory of this array is jwarp's, which gives it back by itself")

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"array(shape={self.shape}, dtype={self.dtype!r})" if self.device else repr(self.array_type)

    def __str__(self) -> str:
        return repr(self.array_type) if self.device is None else str(self.numpy())

    # -- gradients

    @property
    def grad(self) -> array | None:
        """The array in which gradients are accumulated, or None."""
        return self._grad

    @grad.setter
    def grad(self, grad: array | None) -> None:
        if grad is not None:
            for name in ("dtype", "shape", "strides", "device"):
                mine, other = getattr(self, name), getattr(grad, name)
                if mine != other:
                    raise LaunchError(f"the gradient of an array has its {name}, {mine!r}, not {other!r}")
        self._grad = grad
        CHANGES.note()

    @property
    def requires_grad(self) -> bool:
        """True if the array has a gradient. Setting it to True allocates a gradient of zeros; False drops it."""
        return self._grad is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted and self._grad is None:
            self._allocate_gradient()
        elif not wanted:
            self._grad, self._retain_grad = None, False
        CHANGES.note()

    def _allocate_gradient(self) -> None:
        layout = View(self.layout.element, self.shape, self.strides, self.layout.offset - self.layout.bounds[0])
        self._grad = array.of(allocation.allocate(layout, zeroed=True, device=self.memory.device), layout)

    @property
    def retain_grad(self) -> bool:
        """True if backward passes keep its gradient where it was overwritten."""
        return self._retain_grad

    @retain_grad.setter
    def retain_grad(self, wanted: bool) -> None:
        if wanted and self._grad is None:
            raise LaunchError("retain_grad is for arrays that have a gradient", hint="requires_grad=True")
        self._retain_grad = wanted
        CHANGES.note()

    # -- views

    def __getitem__(self, key: Any) -> Any:
        self._require_data()
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > self.ndim:
            raise LaunchError(f"{len(keys)} indices for an array of {self.ndim} dimension(s)", also=IndexError)
        if any(isinstance(k, array) for k in keys):
            return self._named(keys)
        if wrong := [k for k in keys if not isinstance(k, slice) and not hasattr(k, "__index__")]:
            raise LaunchError(f"an array is indexed by integers and slices, not by {type(wrong[0]).__name__}")
        if len(keys) == self.ndim and not any(isinstance(k, slice) for k in keys):
            raise LaunchError(
                "single elements of an array cannot be read by an index outside of kernels",
                hint="wp.to_jax(a)[i] reads one while JAX traces, as in functions of wp.functionalize"
                if self.memory.is_traced
                else "a.numpy()[i] reads one, and writes to it",
            )
        return self.seen(self.layout.sliced(keys))

    def _named(self, keys: tuple[Any, ...]) -> indexedarray:
        """The elements that arrays of indices among the keys name."""
        rest = [k for k in keys if not hasattr(k, "__index__")]  # of the axes that are left
        shown = self[tuple([slice(None) if isinstance(k, array) else k for k in keys])]
        return indexedarray(shown, [k if isinstance(k, array) else None for k in rest])

    def __int__(self) -> int:
        raise self._no_number("int")

    def __float__(self) -> float:
        raise self._no_number("float")

    def _no_number(self, wanted: str) -> KernelTypeError:
        """The error for a number that is made of it: while JAX traces, the one of reading elements."""
        if self.device is not None and self.size:
            self.memory.expose(self.layout)
        return KernelTypeError(f"{wanted}() takes no wp.array", hint=f"{wanted}(a.numpy()[0]) reads an element")

    def __iter__(self) -> Iterator[array]:
        return (self[i] for i in range(self.shape[0]))

    def reshape(self, shape: Any) -> array:
        """A view of the same elements in another shape. One extent may be -1.

        Raises:
            LaunchError: The array is not contiguous, or the number of elements differs.
        """
        return self.seen(self.layout.reshaped(shape))

    def flatten(self) -> array:
        """A view of the elements along one dimension.

        Raises:
            LaunchError: The array is not contiguous.
        """
        return self if self.ndim == 1 else self.seen(self.layout.flattened())

    def transpose(self, axes: Any = None) -> array:
        """A view with the dimensions in another order. Default: the reverse order."""
        return self if self.ndim == 1 else self.seen(self.layout.transposed(axes))

    def view(self, dtype: Any) -> array:
        """A view of the same bytes as elements of another type.

        Elements must have the same size in both types; or scalars along the last axes become vectors or matrices, or
        the reverse.

        Raises:
            KernelTypeError, LaunchError: The types do not match.
        """
        return self.seen(self.layout.seen_as(read_element(dtype)))

    def contiguous(self) -> array:
        """The array itself if it is contiguous, otherwise a contiguous copy."""
        if self.is_contiguous:
            return self
        return self._copied(self.memory.device, self.requires_grad)

    def _copied(self, device: Device, requires_grad: bool) -> array:
        whole = View.whole(self.dtype, self.shape)
        made = array.of(allocation.allocate(whole, zeroed=False, device=device), whole)
        if requires_grad:
            made._allocate_gradient()
        submit(Copy(made, self))
        return made

    def to(self, device: Any, requires_grad: bool | None = None) -> array:
        """The array on a device: itself if it is there, otherwise a copy.

        Raises:
            LaunchError: There is no such device.
        """
        where = get_device(device)
        if where is self.device or self.device is None or self.memory.is_traced:
            return self
        return self._copied(where, self.requires_grad if requires_grad is None else requires_grad)

    # -- content

    def host(self) -> np.ndarray:
        """The elements as NumPy sees them, with component axes. It is not to be given to users."""
        found = self._host
        if found is None:
            memory = self._require_data()
            found = memory.read(self.layout)
            if type(memory) is HostMemory:
                self._host = found
        return found

    def numpy(self) -> np.ndarray:
        """The elements as a NumPy array in the same memory. The components of vectors and matrices are the last axes.

        For an array on a GPU, it waits for all earlier launches and returns a copy.

        Raises:
            LaunchError: The array stands for a value that JAX traces.
        """
        return self._require_data().expose(self.layout)

    def list(self) -> list[Any]:
        """The elements in order, as Python numbers; vectors and matrices as values of the kernel language."""
        flat = self.numpy().reshape((self.size, *self.layout.full_shape[self.ndim :]))
        return flat.tolist() if flat.ndim == 1 else [self.dtype(*row.ravel()) for row in flat]

    def cptr(self) -> Any:
        """A ctypes pointer to the numbers of a contiguous array; None if there are no elements.

        Raises:
            LaunchError: The array is not contiguous.
        """
        if not self.size:
            return None
        if not self.is_contiguous:
            raise LaunchError("only contiguous arrays have a pointer to their numbers", hint="a.contiguous() copies")
        shown = self.numpy()
        kind = np.ctypeslib.as_ctypes_type(np.uint16 if shown.itemsize == 2 else shown.dtype)
        found: Any = ctypes.cast(shown.ctypes.data, ctypes.POINTER(kind))
        found.array = shown  # keeps the memory
        return found

    def zero_(self) -> None:
        """Set all elements to zero."""
        submit(Fill(self, np.zeros((), self.layout.dtype)))

    def fill_(self, value: Any) -> None:
        """Set all elements to `value`. For vectors and matrices, it is a number or a sequence of the components.

        Raises:
            KernelTypeError: `value` does not have the type of the elements.
        """
        self._require_data()
        submit(fill(self, value))

    def assign(self, src: Any) -> None:
        """Copy the content of `src`, an array or anything that `wp.array` accepts as data.

        Raises:
            KernelTypeError, LaunchError: The content does not match.
        """
        if type(src) is np.ndarray and self.device is not None and not LISTENING:
            memory, layout = self.memory, self.layout
            if type(memory) is HostMemory and src.dtype == layout.dtype and src.shape == layout.full_shape:
                allocation.check_writable(memory)
                return memory.write(layout, src)  # as the copy below does
        source = src if isinstance(src, array) else array(src, dtype=self.dtype, copy=False, device=CPU)
        into, out = copy_range(self, source, 0, 0, 0)
        if out.size:
            dest = self if into is self.layout else self.seen(into)
            submit(Copy(dest, source if out is source.layout else source.seen(out)))

    def __dlpack__(self, **options: Any) -> Any:
        """The memory as other libraries take it, which is not copied."""
        memory: Any = self._require_data()
        if memory.device.is_cuda:
            return memory.capsule(self.layout, **options)
        return dlpack.export(self.numpy(), **{name: x for name, x in options.items() if x is not None and x != -1})

    def __dlpack_device__(self) -> tuple[int, int]:
        """Host memory, or that of a GPU, as DLPack names it."""
        return (1, 0) if self.device is None or self.device.is_cpu else (2, self.device.ordinal)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The memory of an array of the host, as NumPy takes it; others, and those of bfloat16, have none."""
        if self.device is None or not self.device.is_cpu or self.memory.is_traced or self.layout.dtype.kind == "V":
            raise AttributeError(f"{self!r} is no array of NumPy's in host memory")
        return self.numpy().__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory of an array on a GPU, as Numba and CuPy take it; others have none."""
        if self.device is None or self.device.is_cpu:
            raise AttributeError(f"{self!r} is on no GPU")
        memory: Any = self.memory
        return memory.described(self.layout)

    def __ctype__(self) -> array_t:
        """Its descriptor as a structure of ctypes, which Warp passes to compiled code."""
        self._require_data()
        return described(self)

    def __jax_array__(self) -> Any:
        return allocation.jax_value(self._require_data(), self.layout)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.numpy()
        return found.astype(dtype, copy=bool(copy)) if dtype is not None else found.copy() if copy else found


array.plain_class = array


def _of_rank(rank: int) -> Any:
    class Ranked(array):
        def __class_getitem__(cls, dtype: Any) -> Any:
            if isinstance(dtype, tuple):
                raise KernelTypeError(f"wp.array{rank}d[…] takes a single type parameter, not {len(dtype)}")
            return ArrayAnnotation(dtype, rank)

        def __new__(cls, *args: Any, **named: Any) -> Any:
            return array(*args, **{"ndim": rank, **named})

    Ranked.__name__ = Ranked.__qualname__ = f"array{rank}d"
    Ranked.__doc__ = f"`wp.array{rank}d[float]` is the type of parameters of {rank} dimension(s), `wp.array{rank}d(…)` is `wp.array(…)`."  # noqa: E501
    return Ranked


array1d, array2d, array3d, array4d = map(_of_rank, (1, 2, 3, 4))
