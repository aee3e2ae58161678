"""`wp.capture_save` and `wp.capture_load`: graphs in files, as programs that JAX exports."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jwarp.api.exported_graphs import ExportedGraph, Param, export_graph, program_of
from jwarp.arrays.array import array
from jwarp.arrays.writes import Computation
from jwarp.bind.compat import is_not_tracing
from jwarp.devices import get_device
from jwarp.dispatch.tape.graphs import Graph
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.store import replace_file

_MAGIC = b"jwarp graph 1\n"  # the number changes with the format
_SUFFIX = ".wrp"


def capture_save(
    graph: Graph,
    path: str | os.PathLike[str],
    inputs: Mapping[str, array] | None = None,
    outputs: Mapping[str, array] | None = None,
    source_fallback: bool = False,
) -> None:
    """Write a graph to a file, with the current content of its arrays.

    The file runs in other processes and on other processors, without the kernels' source. It holds a program of
    `jax.export`, which needs the package flatbuffers. Warp cannot read the file, and jwarp cannot read Warp's files.

    Args:
        graph: A graph of launches, copies, fills, `wp.capture_if` and `wp.capture_while` on arrays in host memory.
        path: The file. `.wrp` is added if it is missing. An existing file is replaced as a whole.
        inputs, outputs: Arrays by name, for `set_param` and `get_param` after loading. Other arrays keep their current
            content. An array may have several names.
        source_fallback: Has no effect.

    Raises:
        KernelTypeError: `graph` is not a graph, or a value is not an array.
        LaunchError: The graph contains something that cannot be saved (a refit, the backward pass of a tape), runs on a
            GPU, or was itself loaded from a file.
    """
    if not isinstance(graph, Graph):
        raise KernelTypeError(f"wp.capture_save: expected a graph, got {type(graph).__name__}")
    if isinstance(graph, LoadedGraph):
        raise LaunchError("wp.capture_save: the graph was loaded from a file", hint="copy the file")
    named: dict[str, array] = {}
    for name, value in [*(inputs or {}).items(), *(outputs or {}).items()]:
        if not isinstance(value, array) or value.device is None:
            raise KernelTypeError(f"wp.capture_save: {name!r} is no array, but {type(value).__name__}")
        if named.setdefault(name, value) is not value:
            raise LaunchError(f"wp.capture_save: {name!r} is the name of two arrays")
    replace_file(_with_suffix(path), _to_bytes(export_graph(graph, named)))


def capture_load(path: str | os.PathLike[str], device: Any = None) -> LoadedGraph:
    """Read a graph that `wp.capture_save` wrote. It has separate arrays, with the content at the time of saving.

    Args:
        path: The file. `.wrp` is added if it is missing.
        device: The device to run on: the host.

    Raises:
        LaunchError: The file does not exist or is not a graph, or the device is a GPU.
    """
    file = _with_suffix(path)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise LaunchError(f"wp.capture_load: the graph in {file} cannot be read: {error.strerror}") from None
    return _loaded(content, device, f"wp.capture_load: {file}")


def capture_load_from_bytes(wrp_data: Any, modules: Mapping[str, Any] | None = None, device: Any = None) -> LoadedGraph:
    """Read a graph from the bytes of a file that `wp.capture_save` wrote.

    Args:
        wrp_data: The bytes, in any object with a buffer.
        modules: Has no effect, because the file is complete.
        device: As for `wp.capture_load`.

    Raises:
        KernelTypeError: `wrp_data` has no buffer of bytes.
        LaunchError: The bytes are not a graph, or the device is a GPU.
    """
    try:
        content = bytes(memoryview(wrp_data).cast("B"))
    except TypeError:
        kind = type(wrp_data).__name__
        raise KernelTypeError(f"wp.capture_load_from_bytes: expected bytes, got {kind}") from None
    return _loaded(content, device, "wp.capture_load_from_bytes")


class LoadedGraph(Graph):
    """A graph from a file. `wp.capture_launch` runs it, on arrays of its own, which have names.

    Attributes:
        params: The names of its arrays, sorted.
    """

    is_loaded = True

    def __init__(self, exported: ExportedGraph):
        self._program, self._written = program_of(exported), exported.written
        self._regions = [x.copy() for x in exported.regions]
        self._views = {name: param.of(self._regions[param.region]) for name, param in exported.params.items()}
        super().__init__([Computation("wp.capture_launch of a loaded graph", self._replay, [])])

    def __repr__(self) -> str:
        return f"<wp.Graph from a file, with {', '.join(self.params) or 'no parameters'}>"

    @property
    def params(self) -> list[str]:
        return sorted(self._views)

    def set_param(self, name: str, value: array) -> None:
        """Copy the elements of an array of the same shape and type into the one with that name.

        Raises:
            KernelTypeError: `value` is no array, or has other elements.
            LaunchError: There is no such name, or the shapes differ.
        """
        view = self._view(name, value)
        view[...] = value.numpy().reshape(view.shape)

    def get_param(self, name: str, value: array) -> None:
        """Copy the elements of the array with that name into one of the same shape and type.

        Raises:
            KernelTypeError: `value` is no array, or has other elements.
            LaunchError: There is no such name, or the shapes differ.
        """
        value.assign(self._view(name, value))

    def get_param_ptr(self, name: str) -> int | None:
        """The address of the first element of the array with that name; None if there is no such name."""
        view = self._views.get(name)
        return None if view is None else int(view.ctypes.data)

    def _view(self, name: str, value: Any) -> np.ndarray:
        view = self._views.get(name)
        if view is None:
            raise LaunchError(f"the graph has no parameter {name!r}; there are {', '.join(self.params) or 'none'}")
        if not isinstance(value, array) or value.device is None:
            raise KernelTypeError(f"parameter {name!r}: expected an array, got {type(value).__name__}")
        if value.layout.dtype != view.dtype:
            raise KernelTypeError(f"parameter {name!r} has elements of {view.dtype}, the array of {value.layout.dtype}")
        if value.layout.full_shape != view.shape:
            shapes = f"{view.shape}, the array {value.layout.full_shape}"
            raise LaunchError(f"parameter {name!r} has the shape {shapes}, with the axes of components")
        return view

    def _replay(self) -> None:
        if not is_not_tracing():
            raise LaunchError(
                f"{self!r} is launched while JAX traces, and works on arrays of its own",
                hint="launch what was captured, as in wp.functionalize",
            )
        for k, content in zip(self._written, self._program(*self._regions), strict=True):
            self._regions[k][...] = content


def _loaded(content: bytes, device: Any, where: str) -> LoadedGraph:
    if get_device(device).is_cuda:
        raise LaunchError(f"{where}: graphs of files run on the host", hint='pass device="cpu"')
    return LoadedGraph(_from_bytes(content, where))


def _with_suffix(path: str | os.PathLike[str]) -> Path:
    name = os.fspath(path)
    return Path(name if name.endswith(_SUFFIX) else name + _SUFFIX)


def _to_bytes(exported: ExportedGraph) -> bytes:
    """The magic number, a digest of the rest, the length of the header, the header in JSON, the program, the regions.

    The digest is there as a damaged program could crash the compiler that reads it.
    """
    header = {
        "program": len(exported.program),
        "regions": [(x.dtype.name, x.shape) for x in exported.regions],
        "written": exported.written,
        "params": {name: dataclasses.astuple(param) for name, param in exported.params.items()},
    }
    text = json.dumps(header).encode()
    parts = [len(text).to_bytes(8, "little"), text, exported.program, *(x.tobytes() for x in exported.regions)]
    content = b"".join(parts)
    return _MAGIC + hashlib.sha256(content).digest() + content


def _from_bytes(content: bytes, where: str) -> ExportedGraph:
    damaged = LaunchError(f"{where} holds no graph of this version of jwarp", hint="save it again by wp.capture_save")
    digest_at, content_at = len(_MAGIC), len(_MAGIC) + hashlib.sha256().digest_size
    digest, content, magic = content[digest_at:content_at], content[content_at:], content[:digest_at]
    if magic != _MAGIC or digest != hashlib.sha256(content).digest():
        raise damaged
    try:
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:end])
        program = content[end : end + header["program"]]
        offset, regions = end + header["program"], []
        for name, shape in header["regions"]:
            dtype = np.dtype(name)
            count = int(np.prod(shape, dtype=np.int64))
            regions.append(np.frombuffer(content, dtype, count, offset).reshape(shape))
            offset += dtype.itemsize * count
        if offset != len(content):
            raise damaged
        written = tuple(range(len(regions))[k] for k in header["written"])
        params = {name: Param(k, *rest) for name, (k, *rest) in header["params"].items()}
        for param in params.values():
            param.of(regions[param.region])
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, AttributeError):
        raise damaged from None
    return ExportedGraph(program, tuple(regions), written, params)
