"""Launches that write to arrays in place: what each array is for, which may share memory, and their replay."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

import jwarp._native as _native
from jwarp.arrays.overlap import share_elements
from jwarp.caches import PerOwner
from jwarp.compiler.cpu import lower_kernel
from jwarp.compiler.program import Program
from jwarp.errors import LaunchError
from jwarp.launching.descriptor import Descriptor, descriptor_of, extents_of
from jwarp.launching.geometry import MAX_EXTENT, BlockDim, Geometry
from jwarp.types.arrays import Extents
from jwarp.wire import Role

# Extents of arrays, for each launch in place, that are remembered as checked.
MAX_EXTENTS = 64
_CHECKED: PerOwner[Descriptor, Extents, bool] = PerOwner("checked extents of a launch in place", MAX_EXTENTS)


class Use(enum.Enum):
    """The use that an in-place launch makes of an array.

    READ      it is read; a scalar is an array of shape ()
    IN_OUT    it is written where it is
    COPY      a copy that the launch makes each time is written; the array is read
    ADD       what the kernel makes of zeros is added to it after the last thread
    SCRATCH   its content is of no account, before and after: it starts as zeros
    """

    READ = Role.READ, False
    IN_OUT = Role.IN_OUT, True
    COPY = Role.IN_OUT, False
    ADD = Role.ZEROS, True
    SCRATCH = Role.ZEROS, False

    def __init__(self, role: Role, changes: bool):
        self.role = role
        self.changes = changes  # whether the caller's array changes


class Place(NamedTuple):
    """The array for one parameter of a launch. It has the parameter's dtype and rank, and any strides."""

    array: np.ndarray
    use: Use = Use.READ


class InPlace:
    """One launch on arrays in place, ready to be replayed; it keeps the arrays alive.

    `places` has one entry for each of `program.params`. Calls of one object from several threads come one
    after the other. Contiguous aligned arrays are used as they are, others by a copy within each call. If `shared`, one
    array may be given for several parameters that are written.

    Raises:
        LaunchError: an array to be written is read-only, overlaps another one or itself, or is given
            twice; or the kernel is certain to leave an array.
        CompileError: the kernel cannot be compiled.
    """

    def __init__(
        self,
        program: Program,
        geometry: Geometry,
        places: Sequence[Place],
        block_dim: BlockDim | None = None,
        *,
        shared: bool = False,
    ):
        self.program, self.block_dim, self.shared = program, block_dim, shared
        self._record(*self._arranged(geometry, tuple(places)))

    def __call__(self) -> None:
        """Run the launch.

        Raises:
            LaunchError: an array has been resized, moved or made read-only since.
            RuntimeError: a check of the kernel failed, where it has checks.
        """
        try:
            self.native()
        except ValueError as error:
            raise LaunchError(f"kernel '{self.program.name}': {error}", hint="make the record anew") from None

    def set_places(self, places: Mapping[int, Place]) -> None:
        """Replace the arrays of some parameters. Raises what making the launch raises, and then changes nothing."""
        self._change(self.geometry, tuple(places.get(p, place) for p, place in enumerate(self.places)))

    def set_geometry(self, geometry: Geometry) -> None:
        """Launch other threads from now on."""
        self._change(geometry, self.places)

    def one_call(self) -> _native.HostLaunch:
        """The launch for other arrays of the same shapes, which must be known not to overlap."""
        kernel = lower_kernel(self.launch.program.kernel, self.launch.program.settings)
        operands, results = self.launch.operands, self.launch.results
        return _native.HostLaunch(kernel.fingerprint, kernel.program, self.launch.numbers, operands, results)

    def _arranged(self, geometry: Geometry, places: tuple[Place, ...]) -> tuple[Descriptor, tuple[Place, ...]]:
        """The launch for these arrays, checked and compiled."""
        program, places = without_aliases(self.program, places, shared=self.shared)
        whole = (*places, *_shadows(program, places))
        launch = descriptor_of(program, geometry, tuple(place.use.role for place in whole), self.block_dim)
        prepare(launch, [place.array.shape for place in whole])
        return launch, whole

    def _record(self, launch: Descriptor, whole: tuple[Place, ...]) -> None:
        self.native, self._has_local_copies = _replay(launch, whole)
        self.launch, self.geometry, self.places = launch, launch.geometry, whole[: len(self.program.params)]

    def _change(self, geometry: Geometry, places: tuple[Place, ...]) -> None:
        launch, whole = self._arranged(geometry, places)
        pairs = list(zip(self.places, places, strict=True))
        same_uses = all(old.use is new.use for old, new in pairs)
        same_shapes = all(old.array.shape == new.array.shape for old, new in pairs)
        if launch.program is not self.launch.program or not same_uses or (self._has_local_copies and not same_shapes):
            return self._record(launch, whole)
        changed = [(p, new.array) for p, (old, new) in enumerate(pairs) if new.array is not old.array]
        self.native.replace(changed, None if geometry == self.geometry else launch.numbers)
        self.launch, self.geometry, self.places = launch, geometry, places


def _replay(launch: Descriptor, places: Sequence[Place]) -> tuple[_native.BoundHostLaunch, bool]:
    """The native replay, and whether it has arrays of its own."""
    arrays = [place.array for place in places]
    results, added = [], []
    for p in launch.results:
        use = places[p].use
        if use in (Use.COPY, Use.ADD):
            arrays.append(np.empty(places[p].array.shape, places[p].array.dtype))
            if use is Use.ADD:
                added.append((len(arrays) - 1, p))
            results.append(len(arrays) - 1)
        else:
            results.append(p)
    kernel = lower_kernel(launch.program.kernel, launch.program.settings)
    native = _native.BoundHostLaunch(
        kernel.fingerprint, kernel.program, launch.numbers, arrays, launch.operands, results, added
    )
    return native, len(arrays) > len(launch.program.params)


def _shadows(program: Program, places: Sequence[Place]) -> Iterable[Place]:
    """The arrays in which checks of races note who was where."""
    dtypes = program.dtypes[len(places) :]
    for p, dtype in zip(program.shadowed, dtypes, strict=True):
        yield Place(np.empty(places[p].array.shape, dtype), Use.SCRATCH)


def prepare(launch: Descriptor, shapes: Iterable[tuple[int, ...]]) -> None:
    """Check the shapes of its arrays and compile what the launch needs, unless that has been done for these shapes.

    Raises:
        LaunchError: an extent is too long, or the kernel is certain to leave an array.
        CompileError: the kernel cannot be compiled.
    """
    kernel = launch.program.kernel
    extents = extents_of(kernel.params, shapes)
    checked = _CHECKED.of(launch)
    if extents in checked:
        return
    for param, shape in zip(kernel.params, extents, strict=True):
        if shape and max(shape) > MAX_EXTENT and not param.is_heap:
            raise LaunchError(
                f"kernel '{kernel.name}', parameter '{param.name}': an extent must be at most 2**31 - 1, got {shape}",
                hint="split the long axis in two",
            )
    lowered = lower_kernel(kernel, launch.program.settings)
    if launch.geometry.repeat:
        lowered.check(launch.geometry.dims, extents)
    lowered.require(launch.geometry.dims, extents)
    checked.keep(extents, True)


# Arrays that share memory


def without_aliases(program: Program, places: Sequence[Place], *, shared: bool) -> tuple[Program, tuple[Place, ...]]:
    """The program for these arrays, in which an array that is both read and written is one parameter; its arrays.

    Compiled code takes arrays for different ones, and vectors of threads rely on it.
    """
    same: dict[int, int] = {}
    found = list(places)
    for q, written in enumerate(places):
        if not written.use.changes:
            continue
        _refuse_unwritable(program, q, written.array)
        for p, other in enumerate(places):
            if program.params[p].is_heap or program.params[q].is_heap:
                continue  # which is known to be that of others
            if p == q or (other.use.changes and p < q) or not np.may_share_memory(written.array, other.array):
                continue
            if (shared and other.use is Use.COPY) or not _overlap(written.array, other.array):
                continue
            if not _identical(written.array, other.array):
                raise _overlap_error(program, q, f"overlaps '{program.params[p].name}' in memory", (q, p))
            if other.use.changes and not (shared and written.use is other.use is Use.IN_OUT):
                raise _overlap_error(program, q, f"and '{program.params[p].name}' are the same array", (q, p))
            if other.use.changes:
                found[p] = Place(other.array)  # nothing is left that writes to it
            if written.use is Use.IN_OUT and other.use in (Use.READ, Use.IN_OUT):
                same[p] = same.get(q, q)
    return program.merged(tuple(same.items())), tuple(found)


def refuse_shared(program: Program, contents: Sequence[np.ndarray | None], outputs: Sequence[int]) -> None:
    """Refuse the adjoint of a launch that would write to one of its inputs.

    To that launch both are one array, while the adjoint tells them apart. An array that is read-only, as the
    view of JAX's, is no memory that the launch writes to.
    """
    for q in outputs:
        written = contents[q]
        if written is None or not written.flags.writeable:
            continue
        for p, other in enumerate(contents):
            if p == q or other is None or not np.may_share_memory(written, other) or not _overlap(written, other):
                continue
            raise LaunchError(
                f"kernel '{program.name}', output '{program.params[q].name}' shares its memory with "
                f"'{program.params[p].name}', which an adjoint does not follow",
                hint="pass a copy of one of them, or make them one parameter of the kernel",
            )


def _refuse_unwritable(program: Program, p: int, array: np.ndarray) -> None:
    if not array.flags.writeable:
        raise LaunchError(
            f"kernel '{program.name}', output '{program.params[p].name}': the array is read-only",
            hint="pass an array that may be written, for example array.copy()",
        )
    if not array.flags.c_contiguous and _overlaps_itself(array):
        raise _overlap_error(program, p, "has elements that overlap in memory")


class OverlapError(LaunchError):
    """Arrays of a launch that share memory, for the parameters of these numbers: the first one is written."""

    params: tuple[int, ...] = ()


def _overlap_error(program: Program, p: int, what: str, params: tuple[int, ...] = ()) -> LaunchError:
    error = OverlapError(
        f"kernel '{program.name}', output '{program.params[p].name}' {what}",
        hint="an array that is written may be given a second time as an input, whole; pass a copy of what overlaps",
    )
    error.params = params or (p,)
    return error


def _overlaps_itself(array: np.ndarray) -> bool:
    """True if two indices may mean one element: some axis steps by less than those inside it reach."""
    reach = array.itemsize
    if array.size == 0:
        return False
    for stride, extent in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    return _identical(a, b) or share_elements(a, b)


def _identical(a: np.ndarray, b: np.ndarray) -> bool:
    """True if two arrays are one view of one memory."""

    def view(x: np.ndarray) -> tuple:
        steps = tuple(s for s, n in zip(x.strides, x.shape, strict=True) if n > 1)
        return (x.__array_interface__["data"][0], x.dtype, x.shape, steps)

    return view(a) == view(b)
