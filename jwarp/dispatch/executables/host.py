"""Launches on arrays in host memory, which are written in place: which may share memory, and what repeats them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import jwarp._native as _native
from jwarp.arrays.overlap import share_elements
from jwarp.bind import compat, values
from jwarp.caches import PerOwner
from jwarp.compiler.cpu import lower_kernel
from jwarp.compiler.launch_forms import with_lanes
from jwarp.compiler.program import on_host
from jwarp.compiler.program_base import Program
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.checks import ON_HOST, Place, Use, read_places
from jwarp.dispatch.executables.table import Ready, outdated
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Fault
from jwarp.launching.descriptor import Descriptor, descriptor_of, extents_of
from jwarp.launching.geometry import MAX_EXTENT, BlockDim, Geometry
from jwarp.launching.sizes import refuse_symbolic
from jwarp.types.arrays import Extents

# Extents of arrays, for each launch in place, that are remembered as checked.
MAX_EXTENTS = 64
_CHECKED: PerOwner[Descriptor, Extents, bool] = PerOwner("checked extents of a launch in place", MAX_EXTENTS)


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
            raise outdated(self.program.name, error) from None

    def set_places(self, places: Mapping[int, Place]) -> None:
        """Replace the arrays of some parameters. Raises what making the launch raises, and then changes nothing."""
        self._change(self.geometry, tuple(places.get(p, place) for p, place in enumerate(self.places)))

    def set_geometry(self, geometry: Geometry) -> None:
        """Launch other threads from now on."""
        self._change(geometry, self.places)

    def one_call(self) -> _native.HostLaunch:
        """The launch for other arrays of the same shapes, which must be known not to overlap."""
        return _native.HostLaunch(*code_of(self.launch), self.launch.operands, self.launch.results)

    def _arranged(self, geometry: Geometry, places: tuple[Place, ...]) -> tuple[Descriptor, tuple[Place, ...]]:
        """The launch for these arrays, checked and compiled."""
        launch, whole = described(self.program, geometry, places, self.block_dim, shared=self.shared)
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


def code_of(launch: Descriptor) -> tuple[str, bytes, np.ndarray]:
    """The kernel and the numbers of a launch, compiled, as the native module takes them."""
    kernel = lower_kernel(launch.program.kernel, launch.program.settings)
    return kernel.fingerprint, kernel.program, launch.numbers


def _replay(launch: Descriptor, places: Sequence[Place]) -> tuple[_native.BoundHostLaunch, bool]:
    """The native replay, and whether it has arrays of its own."""
    arrays, results = [place.array for place in places], list(launch.results)
    for k, p in enumerate(results):
        if places[p].use is Use.COPY:
            results[k] = len(arrays)
            arrays.append(np.empty(places[p].array.shape, places[p].array.dtype))
    native = _native.BoundHostLaunch(*code_of(launch), arrays, launch.operands, results)
    return native, len(arrays) > len(launch.program.params)


def described(
    program: Program,
    geometry: Geometry,
    places: tuple[Place, ...],
    block_dim: BlockDim | None,
    *,
    shared: bool,
    scratch: Callable[[tuple[int, ...], np.dtype], np.ndarray] = np.empty,
) -> tuple[Descriptor, tuple[Place, ...]]:
    """The launch on these arrays, and all its arrays: `scratch` makes those in which checks note who was where.

    Raises:
        LaunchError: arrays to be written are read-only, or overlap others or themselves.
    """
    program, places = without_aliases(program, places, shared=shared)
    dtypes = program.dtypes[len(places) :]
    for p, dtype in zip(program.shadowed, dtypes, strict=True):
        places += (Place(scratch(places[p].array.shape, dtype), Use.SCRATCH),)
    return descriptor_of(program, geometry, tuple(place.use.role for place in places), block_dim), places


def prepare(launch: Descriptor, shapes: Sequence[tuple[int, ...]]) -> None:
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
    if launch.geometry.repeat:
        lower_kernel(kernel, launch.program.settings).check(launch.geometry.dims, extents)
    require(launch, shapes)
    checked.keep(extents, True)


def require(launch: Descriptor, shapes: Sequence[tuple[int, ...]]) -> None:
    """Compile what a launch on arrays of these shapes needs.

    Steps of adjoints ask for no more. Arrays that they do not read are empty, such as the indices of an axis that has
    none, so that `prepare` would take them for ones that the kernel leaves.
    """
    kernel = launch.program.kernel
    extents = extents_of(kernel.params, shapes)
    lower_kernel(kernel, launch.program.settings).require(launch.geometry.dims, extents)


# Arrays that share memory


def without_aliases(program: Program, places: Sequence[Place], *, shared: bool) -> tuple[Program, tuple[Place, ...]]:
    """The program for these arrays, in which an array that is both read and written is one parameter; its arrays.

    Compiled code takes arrays for different ones, and vectors of threads rely on it.
    """
    same: dict[int, int] = {}
    found = list(places)
    # All memory is known to be that of others.
    own = [p for p, param in enumerate(program.params[: len(places)]) if not param.is_heap]
    for q, written in enumerate(places):
        if not written.use.changes:
            continue
        _refuse_unwritable(program, q, written.array)
        for p in own if q in own else ():
            other = places[p]
            if p == q or (other.use.changes and p < q) or not np.may_share_memory(written.array, other.array):
                continue
            if (shared and other.use is Use.COPY) or not _overlap(written.array, other.array):
                continue
            if not _identical(written.array, other.array):
                raise _overlap_error(program, q, f"overlaps '{program.params[p].name}' in memory", (q, p))
            if other.use.changes and not (shared and written.use is other.use is Use.IN_OUT):
                raise _overlap_error(program, q, f"and '{program.params[p].name}' are the same array", (q, p))
            if other.use.changes:
                found[p] = other._replace(use=Use.READ)  # nothing is left that writes to it
            if written.use is Use.IN_OUT and other.use in (Use.READ, Use.IN_OUT):
                same[p] = same.get(q, q)
    return program.merged(tuple(same.items())), tuple(found)


def refuse_shared(
    program: Program, contents: Sequence[np.ndarray | None], outputs: Sequence[int], changed: Sequence[int] = ()
) -> None:
    """Refuse the adjoint of a launch that would write to one of its inputs, or whose custom gradients `changed` one.

    To that launch both are one array, while the adjoint tells them apart. An array that is read-only, as the
    view of JAX's, is no memory that the launch writes to.
    """
    for q in (*outputs, *changed):
        written = contents[q]
        if written is None or not written.flags.writeable:
            continue
        what = "output" if q in outputs else "array that a gradient function writes to,"
        for p, other in enumerate(contents):
            if p == q or other is None or not np.may_share_memory(written, other) or not _overlap(written, other):
                continue
            raise LaunchError(
                f"kernel '{program.name}', {what} '{program.params[q].name}' shares its memory with "
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


class HostExecutable(_native.HostExecutable):
    """A launch for all calls of one layout, which the native module runs once it has learnt it."""

    __slots__ = ()

    def call(self, values: Sequence[Any]) -> Any:
        """Run it on the leaves of a call: what comes back, True for nothing; None where nothing has run."""
        found = self.run(values)
        return None if found is NotImplemented else True if found is None else found

    def learn_from(
        self,
        run: InPlace,
        leaves: Sequence[Any],
        results: Sequence[int] | None = None,
        names: tuple[str, ...] | None = None,
    ) -> bool:
        """Do from now on what a launch does that ran on these leaves, if that may be repeated: True if it may.

        It gives back the leaves `results`, under `names` if there are any.
        """
        places = run.places
        if len(places) != len(leaves) or run.program.shadowed:
            return False
        if any(place.use not in (Use.READ, Use.IN_OUT) for place in places):
            return False
        written = [p for p, place in enumerate(places) if p in run.program.written and leaves[p] is not None]
        arrays = [place.array for place in places]
        return self.learn(run.one_call(), list(leaves), arrays, written, results, names)


class Forward(Ready):
    """A launch on arrays in place."""

    def __init__(self, call: Call):
        super().__init__(call)
        refuse_symbolic(call.program.name, [call.dims], "and arrays that are written in place have known sizes")
        self._own = on_host(call.program)
        program, threads = self._own.arranged(call.dims, call.block_dim)
        places = read_places(program, call.matched, ON_HOST)
        places = tuple(x._replace(use=Use.COPY) if p in call.copied else x for p, x in enumerate(places))
        run_as, over = with_lanes(program, threads)
        if run_as is not program:
            # Errors tell the dimensions as they were given.
            program.check(threads, extents_of(program.params, (place.array.shape for place in places)))
        self.run = InPlace(run_as, over, places, call.block_dim, shared=call.is_shared)
        self._values = dict(enumerate(call.matched.values))
        self._results = call.results(self._values)

    def __call__(self, stream: Any = None) -> Any:
        self.run()
        return self._results

    def change(self, given: Mapping[int, Any]) -> bool:
        numbers: dict[int, np.ndarray] = {}
        places: dict[int, Place] = {}
        for p, value in given.items():
            param = self._own.params[p]
            if param.is_array:
                is_output = p in self.call.matched.outputs
                found = (ON_HOST.output if is_output else ON_HOST.input)(param, value)
                if isinstance(found, Fault):
                    return False
                places[p] = found
            elif isinstance(value, compat.Tracer):
                return False
            else:
                numbers[p] = _number(param, value)
        if places:
            self.run.set_places(places)
        for p, number in numbers.items():
            self.run.places[p].array[...] = number
        self._values.update(given)
        self._results = self.call.results(self._values)
        return True

    def resize(self, dims: tuple[int, ...]) -> bool:
        arranged, threads = with_lanes(*self._own.arranged(dims, self.call.block_dim))
        if arranged is not self.run.program:
            return False
        self.run.set_geometry(threads)
        return True

    def executable(self, values: Sequence[Any]) -> HostExecutable | None:
        if len(values) != len(self.call.matched.values):
            return None
        made = HostExecutable()
        return made if made.learn_from(self.run, values, self.call.matched.outputs, self.call.names) else None


def _number(param: Param, value: Any) -> np.ndarray:
    """The content of the array of shape () that a launch reads a scalar from."""
    return arguments.to_scalar(param.dtype, values.describe(value, param))
