"""XLA's side of custom calls on a GPU, so that the handlers can be called without XLA: the C interface by ctypes."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any

import numpy as np

INSTANTIATE, PREPARE, INITIALIZE, EXECUTE = range(4)
STAGES = ("instantiate", "prepare", "initialize", "execute")
ARRAY, SCALAR, STRING = 1, 3, 4  # kinds of attributes
S64 = 5
CODES = {"b1": 1, "i4": 4, "i8": 5, "u4": 8, "f4": 11, "f8": 12}


def fields(*named: tuple[str, Any]) -> list[tuple[str, Any]]:
    """Every struct of the interface starts like this."""
    return [("struct_size", c_size_t), ("extension", c_void_p), *named]


class Span(Structure):
    _fields_ = (("data", c_char_p), ("size", c_size_t))


class Scalar(Structure):
    _fields_ = (("dtype", c_int32), ("value", c_void_p))


class Array(Structure):
    _fields_ = (("dtype", c_int32), ("size", c_size_t), ("data", c_void_p))


class Buffer(Structure):
    _fields_ = fields(("dtype", c_int32), ("data", c_void_p), ("rank", c_int64), ("dims", POINTER(c_int64)))


class Version(Structure):
    _fields_ = fields(("major", c_int32), ("minor", c_int32))


class TypeInfo(Structure):
    _fields_ = fields(("deleter", ctypes.CFUNCTYPE(None, c_void_p)))


class Error(Structure):
    _fields_ = fields(("message", c_char_p), ("code", c_int32))


class Type(Structure):
    _fields_ = fields(("name", Span), ("id", POINTER(c_int64)), ("info", POINTER(TypeInfo)))


class State(Structure):
    _fields_ = fields(("context", c_void_p), ("stage", c_int32), ("id", POINTER(c_int64)), ("state", c_void_p))


class Stream(Structure):
    _fields_ = fields(("context", c_void_p), ("stream", c_void_p))


FUNCTIONS = (
    "Error_Create", "Error_GetMessage", "Error_Destroy", "Handler_Register", "Stream_Get", "Type_Register",
    "ExecutionContext_Get", "State_Set", "State_Get", "DeviceMemory_Allocate", "DeviceMemory_Free",
    "ThreadPool_Schedule", "ThreadPool_NumThreads", "Future_Create", "Future_SetAvailable", "Future_SetError",
    "RunId_Get", "DeviceOrdinal_Get",
)  # fmt: skip


class Api(Structure):
    _fields_ = fields(("version", Version), ("internal", c_void_p), *((name, c_void_p) for name in FUNCTIONS))


class Arguments(Structure):
    _fields_ = fields(("size", c_int64), ("types", POINTER(c_int32)), ("values", POINTER(c_void_p)))


class Attributes(Structure):
    _fields_ = fields(
        ("size", c_int64),
        ("types", POINTER(c_int32)),
        ("names", POINTER(POINTER(Span))),
        ("values", POINTER(c_void_p)),
    )


class Frame(Structure):
    _fields_ = fields(
        ("api", POINTER(Api)),
        ("context", c_void_p),
        ("stage", c_int32),
        ("args", Arguments),
        ("rets", Arguments),
        ("attrs", Attributes),
        ("future", c_void_p),
    )


class Metadata(Structure):
    _fields_ = (("struct_size", c_size_t), ("version", Version), ("traits", c_uint32), ("type", c_int64))


class MetadataExtension(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("type", c_int32),
        ("next", c_void_p),
        ("metadata", POINTER(Metadata)),
    )


class XlaError(Exception):
    """The error that a handler returned."""

    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code = code


Handler = ctypes.CFUNCTYPE(c_void_p, POINTER(Frame))
# Prototypes of our own: the functions of `ctypes.pythonapi` are shared by all that set their types.
_pointer = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))


def _function(argument: Any) -> Any:
    return ctypes.CFUNCTYPE(c_void_p, POINTER(argument))


class Xla:
    """A registry of one target; call sites are made by `instantiate`."""

    def __init__(self, handlers: Mapping[str, Any]):
        self.handlers = {stage: Handler(_pointer(capsule, None)) for stage, capsule in handlers.items()}
        self.errors: dict[int, XlaError] = {}
        self.states: dict[int, int] = {}  # by context
        self.streams: dict[int, int] = {}
        self.numbers = itertools.count(1)
        self.types: list[str] = []
        self.api = Api(struct_size=ctypes.sizeof(Api))
        self.kept = []
        given = {
            "Error_Create": (Error, self._error),
            "Type_Register": (Type, self._type),
            "State_Set": (State, self._set),
            "State_Get": (State, self._get),
            "Stream_Get": (Stream, self._stream),
        }
        for name, (argument, method) in given.items():
            function = _function(argument)(method)
            self.kept.append(function)
            setattr(self.api, name, ctypes.cast(function, c_void_p))
        self.metadata = {stage: self._metadata(stage) for stage in STAGES}

    def _error(self, pointer: Any) -> int:
        number = next(self.numbers)
        self.errors[number] = XlaError(pointer[0].code, pointer[0].message.decode())
        return number

    def _type(self, pointer: Any) -> int | None:
        args = pointer[0]
        self.types.append(args.name.data[: args.name.size].decode())
        self.deleter = args.info[0].deleter
        args.id[0] = 77
        return None

    def _set(self, pointer: Any) -> int | None:
        self.states[pointer[0].context] = pointer[0].state
        return None

    def _get(self, pointer: Any) -> int | None:
        assert pointer[0].stage == INSTANTIATE
        assert pointer[0].id[0] == 77
        pointer[0].state = self.states[pointer[0].context]
        return None

    def _stream(self, pointer: Any) -> int | None:
        pointer[0].stream = self.streams[pointer[0].context]
        return None

    def _metadata(self, stage: str) -> Metadata:
        metadata = Metadata(struct_size=ctypes.sizeof(Metadata), type=-1)
        extension = MetadataExtension(ctypes.sizeof(MetadataExtension), 1, None, ctypes.pointer(metadata))
        frame = Frame(ctypes.sizeof(Frame), ctypes.addressof(extension), ctypes.pointer(self.api))
        assert not self.handlers[stage](ctypes.byref(frame))
        return metadata

    def instantiate(self, attributes: Mapping[str, Any]) -> Site:
        site = Site(self, attributes)
        site.call(INSTANTIATE)
        return site


class Site:
    """A call site of an executable."""

    def __init__(self, xla: Xla, attributes: Mapping[str, Any]):
        self.xla, self.context = xla, next(xla.numbers)
        self.frame = Frame(ctypes.sizeof(Frame), None, ctypes.pointer(xla.api), self.context)
        self._attributes(attributes)

    def _attributes(self, attributes: Mapping[str, Any]) -> None:
        values = [_attribute(attributes[name]) for name in sorted(attributes)]
        names = [Span(name.encode(), len(name)) for name in sorted(attributes)]
        self.kept = (values, names)
        attrs = self.frame.attrs
        attrs.size = len(values)
        attrs.types = (c_int32 * len(values))(*(kind for kind, _, _ in values))
        attrs.names = (POINTER(Span) * len(names))(*map(ctypes.pointer, names))
        attrs.values = (c_void_p * len(values))(*(ctypes.addressof(value) for _, value, _ in values))

    def call(self, stage: int, stream: int = 0, args: Sequence[np.ndarray] = (), rets: Sequence[np.ndarray] = ()):
        """Calls the handler of a stage; raises what it returns."""
        frame = Frame.from_buffer_copy(self.frame)
        frame.stage = stage
        frame.args, kept_args = _buffers(args)
        frame.rets, kept_rets = _buffers(rets)
        self.xla.streams[self.context] = stream
        error = self.xla.handlers[STAGES[stage]](ctypes.byref(frame))
        del kept_args, kept_rets
        if error:
            raise self.xla.errors.pop(error)

    def prepare(self) -> None:
        self.call(PREPARE)

    def initialize(self, stream: int) -> None:
        self.call(INITIALIZE, stream)

    def execute(self, stream: int, args: Sequence[np.ndarray], rets: Sequence[np.ndarray]) -> None:
        self.call(EXECUTE, stream, args, rets)

    def delete(self) -> None:
        self.xla.deleter(self.xla.states.pop(self.context))


def _attribute(value: Any) -> tuple[int, Any, Any]:
    """Kind, struct and what it points to."""
    if isinstance(value, (str, bytes)):
        data = value.encode() if isinstance(value, str) else value
        return STRING, Span(data, len(data)), data
    if isinstance(value, (int, np.int64)):
        number = c_int64(int(value))
        return SCALAR, Scalar(S64, ctypes.addressof(number)), number
    array = np.ascontiguousarray(value)
    code = CODES[array.dtype.str[1:]]
    return ARRAY, Array(code, array.size, array.ctypes.data if array.size else None), array


def _buffers(arrays: Sequence[np.ndarray]) -> tuple[Arguments, Any]:
    dims = [(c_int64 * max(1, a.ndim))(*a.shape) for a in arrays]
    buffers = [
        Buffer(ctypes.sizeof(Buffer), None, CODES[a.dtype.str[1:]], a.ctypes.data, a.ndim, d)
        for a, d in zip(arrays, dims, strict=True)
    ]
    values = (c_void_p * max(1, len(buffers)))(*map(ctypes.addressof, buffers))
    return Arguments(ctypes.sizeof(Arguments), None, len(buffers), None, values), (buffers, dims, values)
