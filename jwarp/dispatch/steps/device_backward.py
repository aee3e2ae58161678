"""The way back through a launch on a GPU: its adjoint, in place on cotangents that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jwarp.compiler.derived import Feed
from jwarp.dispatch.gpu.cuda_arrays import Borrowed, borrow
from jwarp.dispatch.gpu.device import shadow
from jwarp.dispatch.gpu.device_launch import Placed, put
from jwarp.dispatch.gpu.device_memory import Work
from jwarp.dispatch.steps.backward import Reversal
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Param
from jwarp.launching.descriptor import descriptor_of
from jwarp.wire import DTYPES, Role


class DeviceReversal(Reversal):
    """As `Reversal`, of arrays on a GPU: contents and cotangents are what launches there take."""

    for_gpu = True

    def __call__(self, contents: Sequence[Any], cotangents: Sequence[Any]) -> None:
        if self.derived is not None:
            _Run(self, contents, cotangents).put()


class _Run:
    """One way back, on the stream of the arrays."""

    def __init__(self, back: Reversal, contents: Sequence[Any], cotangents: Sequence[Any]):
        self.back = back
        self.contents = [self._read(p, x) for p, x in enumerate(contents)]
        self.cotangents = {
            p: found for p, x in enumerate(cotangents) if isinstance(found := self._read(p, x), Borrowed)
        }
        arrays = [x for x in (*self.contents, *self.cotangents.values()) if isinstance(x, Borrowed)]
        devices = {x.lent.device for x in arrays}
        if len(devices) != 1:
            raise LaunchError(f"kernel '{back.program.name}': arrays and gradients are on GPUs {sorted(devices)}")
        self.work = Work(f"kernel '{back.program.name}'", 0, devices.pop(), [x.lent for x in arrays], back.program.span)
        self.sums: list[tuple[int, np.ndarray]] = []  # what is added in the end
        self.moved: list[tuple[int, np.ndarray]] = []  # cotangents that the kernel works on a copy of

    def _read(self, p: int, given: Any) -> Any:
        """An array on a GPU as it is borrowed, a number as an array of NumPy's."""
        if given is None or isinstance(given, np.ndarray):
            return given
        try:
            found = borrow(given, 0)
        # What a foreign object raises: the array is deleted, or on no GPU.
        except Exception as error:
            name = self.back.program.params[p].name
            raise LaunchError(
                f"kernel '{self.back.program.name}', parameter '{name}': the adjoint cannot borrow it, {error}"
            ) from None
        assert found is not None
        return found

    def put(self) -> None:
        """Put all of it on the stream."""
        back, derived, work = self.back, self.back.derived, self.work
        assert derived is not None
        finals = self._finals() if back.finals else {}
        launched = back.launched
        placed = [self._placed(feed, param, finals) for feed, param in
                  zip(derived.feeds, derived.program.params, strict=True)]  # fmt: skip
        over, roles = derived.covering(launched.geometry, launched.extents), tuple(f.role for f in derived.feeds)
        put(descriptor_of(derived.program, over, roles, launched.block_dim), placed, 0, work.device, work.kept)
        for packed, array in self.sums:
            work.add(packed, array)
        for packed, array in self.moved:
            work.unpack(packed, array)

    def _finals(self) -> Mapping[int, Placed]:
        """What the launch leaves: it runs once more, on copies of what it writes to."""
        program, launched = self.back.program, self.back.launched
        roles = [Role.IN_OUT if p in program.written else Role.READ for p in range(len(program.params))]
        placed = [self._copy(p) if role is Role.IN_OUT else self._content(p) for p, role in enumerate(roles)]
        for p in program.shadowed:
            roles.append(Role.ZEROS)
            placed.append(shadow(program, p, launched.extents[p] or ()))
        launch = descriptor_of(program, launched.geometry, tuple(roles), launched.block_dim)
        put(launch, placed, 0, self.work.device, self.work.kept)
        return {p: placed[p] for p in program.written}

    def _content(self, p: int) -> Placed:
        found, code = self.contents[p], DTYPES[self.back.program.params[p].dtype.name]
        if isinstance(found, np.ndarray):
            return found.tobytes() if found.size else None, code, found.shape
        return self._contiguous(found), code, found.outline.shape

    def _copy(self, p: int) -> Placed:
        found, code = self.contents[p], DTYPES[self.back.program.params[p].dtype.name]
        if isinstance(found, np.ndarray):  # without elements
            return None, code, found.shape
        return self.work.packed(found.outline), code, found.outline.shape

    def _contiguous(self, found: Borrowed) -> int:
        is_packed = found.outline.flags.c_contiguous
        return found.lent.address if is_packed else self.work.packed(found.outline)

    def _placed(self, feed: Feed, param: Param, finals: Mapping[int, Placed]) -> Placed:
        (kind, p), is_read, code = feed.source, feed.role is Role.READ, DTYPES[param.dtype.name]
        if kind == "final":
            return finals[p]
        if kind == "primal":
            return self._content(p) if is_read else self._copy(p)
        if kind == "given":
            return self._cotangent(p, feed, code)
        if kind == "dim":
            return np.int32(self.back.launched.geometry.dims[p]).tobytes(), code, ()
        shape = self.back.shape_of(feed, param)
        if is_read:
            return self.work.zeros(shape, param.dtype.dtype), code, shape
        if feed.result is None:
            return None, code, shape
        address = self.work.memory(shape, param.dtype.dtype)
        self.sums.append((address, self.cotangents[feed.result].outline))
        return address, code, shape

    def _cotangent(self, p: int, feed: Feed, code: int) -> Placed:
        """The cotangent itself where it is read, or becomes that of the initial content; else a copy of it."""
        found = self.cotangents[p]
        array = found.outline
        if feed.role is Role.READ:
            return self._contiguous(found), code, array.shape
        if feed.result is None:
            return self.work.packed(array), code, array.shape
        if array.flags.c_contiguous:
            return found.lent.address, code, array.shape
        packed = self.work.packed(array)
        self.moved.append((packed, array))
        return packed, code, array.shape
