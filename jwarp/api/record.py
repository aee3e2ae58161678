"""`wp.Launch`: a launch that is kept, changed and run again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jwarp.api.launch_arguments import asked_gradients, check_adjoint, parts_of, read_call
from jwarp.api.tracebacks import shorten
from jwarp.arrays.commands import LISTENING, Command, listeners, submit
from jwarp.arrays.subclasses import plain, plain_values
from jwarp.compiler.program import program_of
from jwarp.config import config
from jwarp.devices import Device, get_device
from jwarp.dispatch.call import checks
from jwarp.dispatch.call.array_arguments import (
    Given,
    check_value,
    host_of,
    matched_values,
)
from jwarp.dispatch.call.cached_geometry import reader
from jwarp.dispatch.call.call import Call, LaunchRequest, is_mutable, read_kernel
from jwarp.dispatch.executables import route
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.executables.table import Ready
from jwarp.dispatch.steps.backward import adjoint_of
from jwarp.errors import JwarpError, KernelTypeError, LaunchError
from jwarp.frontend.generics import GenericKernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import arguments, geometry, grouping
from jwarp.launching.adjoints import Request, has_gradient
from jwarp.launching.arguments import Matched
from jwarp.launching.geometry import BlockDim
from jwarp.launching.record import LaunchDescriptor, Record, Sizes, code_settings, info_of
from jwarp.launching.sizes import refuse_symbolic
from jwarp.types import StructType, arrays_of, renewed
from jwarp.wire import Role


class _Unset:
    def __repr__(self) -> str:
        return "<unset>"

    def __deepcopy__(self, memo: Any) -> _Unset:
        return self


UNSET: Any = _Unset()


class Launch(Record):
    """A recorded launch, to be run by `launch()`: the result of `wp.launch(..., record_cmd=True)`.

    `wp.Launch(kernel)` makes an empty record, to be filled by the setters. Its outputs are the parameters that the
    kernel writes. A record keeps the settings of `wp.config` from the time when it was made. It keeps its buffers
    alive, and sees later changes of NumPy inputs. Inside `jax.jit` and other transformations, its values may be traced.

    Args:
        kernel: A function decorated with `@wp.kernel`, or a kernel from `wp.cuda_kernel`.
        adjoint: Whether it runs the adjoint. The setters with `adjoint=True` then set gradients and cotangents.
        block_dim: Threads in a block, for kernels with tiles; for handwritten kernels also the numbers along (x, y, z).

    Attributes:
        kernel: The kernel.
        dim: Number of threads along each axis, None while unset.
        bounds: The same in Warp's form, with the number of coordinates that `tid()` reads.
        block_dim: Threads in a block, or None.
        adjoint: Whether it runs the adjoint.
        params: The value of each parameter, in order.

    Raises:
        KernelTypeError: `kernel` is not a kernel.
        LaunchError: `adjoint` or `block_dim` has an invalid value.
        CompileError: The kernel is not written in the kernel language.

    Example:
        >>> record = wp.launch(scale, 4, [jnp.arange(4.0), 2.0], [4], record_cmd=True)
        >>> record.set_param_by_name("k", 3.0)
        >>> (y,) = record.launch()
    """

    _device: Device | None = None  # where its arrays must be; None: anywhere

    def __init__(self, kernel: Kernel, adjoint: bool = False, *, block_dim: BlockDim | None = None):
        kernel = read_kernel(kernel, "wp.Launch")
        if isinstance(kernel, GenericKernel):
            kernel = kernel.the_overload()
        check_adjoint(kernel, adjoint)
        self.kernel = kernel
        self.block_dim = geometry.read_block_dim(block_dim, kernel.name)
        self.adjoint = adjoint
        self._program = program_of(kernel, config.settings)
        self._handles = frozenset(u for u, p in enumerate(kernel.signature) if is_for_handles(p.type))
        self._values: list[Any] = [UNSET] * len(kernel.signature)
        self._outputs = grouping.changed_parameters(kernel, self._program.written)
        self._output_role = Role.ZEROS
        self._is_named = False
        self._dim: tuple[int, ...] | None = None
        self._wanted: dict[int, Any] | None = None  # None: every differentiable input
        self._cotangents: dict[int, Any] | None = None
        self._gradients_named = False
        self._ready: Ready | None = None
        self._command: Command | None = None  # of a launch on mutable arrays, or its adjoint
        self._asked: list[Any] = [None] * len(kernel.signature)  # gradients of mutable arrays, None for their own
        self._replay: Callable[[], None] | None = None  # what runs it
        self._is_in_place = False  # whether it is one

    # -- what it is

    @property
    def dim(self) -> tuple[int, ...] | None:
        """Number of threads along each axis, None while unset."""
        return self._dim

    @property
    def bounds(self) -> geometry.Bounds | None:
        """The launch dimensions in Warp's form (`shape`, `size`, `coord_mult`), None while `dim` is unset."""
        return None if self._dim is None else geometry.bounds_of(self._dim, self._program.kernel.tid_dims)

    @property
    def params(self) -> tuple[Any, ...]:
        """The value of each parameter, in order."""
        return tuple(self._values)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The parameters whose gradients an adjoint record returns, by name."""
        return tuple(self.kernel.signature[u].name for u in self._gradients) if self.adjoint else ()

    def sizes(self) -> Sizes | None:
        if self._dim is None or any(value is UNSET for value in self._values):
            return None
        if self._is_in_place:
            launch = ArrayLaunch(self.kernel, self._dim, self._values, None, self.block_dim, self._device)
            call = launch.call(host_of, self._program)
        else:
            call = self._call(self._dim)
        return checks.sizes_of(call)

    @property
    def descriptor(self) -> LaunchDescriptor:
        """The launch without its data.

        Raises:
            LaunchError: `dim` is symbolic.
        """
        program = self._program
        refuse_symbolic(program.name, [self._dim or ()], "and a descriptor is of a launch of known size")
        roles = [self._role_name(u, leaf) for u in range(len(self._values)) for leaf in self._parts(u)]
        infos = tuple(info_of(param, role) for param, role in zip(self.kernel.params, roles, strict=True))
        variant = f"adjoint({', '.join(self.wanted)})" if self.adjoint else "forward"
        settings = code_settings(program.settings)
        return LaunchDescriptor(program.name, program.fingerprint, variant, self._dim, self.block_dim, infos, settings)

    def _role_name(self, index: int, leaf: Any) -> str:
        if leaf is UNSET:
            return "unset"
        if index not in self._outputs:
            return "in"
        return "inout" if checks.has_content(leaf) else "out"

    def _parts(self, index: int) -> list[Any]:
        """The parts of the value of a parameter: several for a struct."""
        if self._values[index] is UNSET:
            return [UNSET] * len(self.kernel.groups[index])
        return parts_of(self.kernel, self._given(), index)

    def _role(self, index: int) -> Role:
        return self._output_role if index in self._outputs else Role.READ

    def _given(self) -> Matched:
        roles = tuple(map(self._role, range(len(self._values))))
        return Matched(roles, tuple(self._values), self._outputs)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{param.name}={'unset' if value is UNSET else checks.shown(value)}"
            for param, value in zip(self.kernel.signature, self._values, strict=True)
        )
        kind = " adjoint" if self.adjoint else ""
        return f"<wp.Launch{kind} of {self.kernel.name}, dim={self._dim}, {shown}>"

    def __copy__(self) -> Launch:
        """A record of its own with the same values."""
        made = object.__new__(type(self))
        made.__dict__.update(
            self.__dict__,
            _values=list(self._values),
            _asked=list(self._asked),
            _ready=None,
            _command=None,
            _replay=None,
        )
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Launch:
        """A record of its own with copies of the values, for the same kernel."""
        made = copy.copy(self)
        for name in ("_values", "_wanted", "_cotangents", "_asked"):
            setattr(made, name, copy.deepcopy(getattr(self, name), memo))
        return made

    # -- changing it

    def set_dim(self, dim: int | Sequence[int]) -> None:
        """Set the number of threads along each axis: an int or up to four ints, as in `wp.launch`.

        Raises:
            LaunchError: `dim` is invalid, or an array is provably accessed outside its extents. The record does not
                change.
        """
        dims = geometry.read_dim(dim, self.kernel.name)
        if self._is_in_place:
            self._program.arranged(dims, self.block_dim)  # refuses too many threads
            self._dim, self._command, self._replay = dims, None, None
            return
        self._check_extents(dims)
        if self._ready is not None and not self._ready.resize(dims):
            self._ready = None
        self._dim = dims

    def set_param_at_index(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Set parameter number `index`; with `adjoint`, set the gradient of an input or the cotangent of an output.

        The value is the same as for `wp.launch`; an array must have exactly the dtype and rank of its parameter. The
        gradient of an input is None (not requested), True (requested), or an array or number to which it is added. A
        cotangent is None (zeros) or an array. Shapes and dtypes of gradients and cotangents are checked when the launch
        runs.

        Raises:
            KernelTypeError: The value has another kind, dtype or rank than the parameter.
            LaunchError: There is no such parameter, the record is not an adjoint, or an array to be written in place is
                read-only or overlaps another argument. After any error the record is unchanged.
        """
        count = len(self._values)
        if type(index) is not int or not 0 <= index < count:
            raise LaunchError(
                f"kernel '{self.kernel.name}' has parameters 0 to {count - 1}, got index {index!r}",
                hint=f"in order they are {', '.join(p.name for p in self.kernel.signature)}",
            )
        value = plain(value)
        if adjoint and (self._is_in_place or Given([value]).has_arrays):
            self._set_gradient_in_place(index, value)
            return
        if adjoint:
            self._set_adjoint(index, value)
            self._ready = None
            return
        if self._is_in_place or Given([value]).has_arrays:
            self._set_in_place({index: self._read(index, value, is_changing=True)})
            return
        self._set({index: self._read(index, value, is_changing=False)})

    def _set(self, values: Mapping[int, Any]) -> None:
        """Set parameters of a launch on arrays that do not change."""
        parts = self._checked(values)
        if self._ready is not None and not self._ready.change(parts):
            self._ready = None
        for u, value in values.items():
            self._values[u] = value

    def _read(self, index: int, value: Any, is_changing: bool) -> Any:
        """The argument for a parameter: the parts of a grid, tree, mesh or volume, and other values unchanged."""
        found = arrays_of(value, reader(is_changing)) if index in self._handles else None
        return value if found is None else found

    def _follow(self) -> None:
        """Take grids, trees and meshes as they are now, where they have changed."""
        read = reader(is_changing=False)
        found = {u: made for u in self._handles if (made := renewed(self._values[u], read)) is not None}
        if found:
            self._set(found)

    def set_param_by_name(self, name: str, value: Any, adjoint: bool = False) -> None:
        """Set a parameter by name, as `set_param_at_index` does by index.

        Raises:
            KernelTypeError, LaunchError: As for `set_param_at_index`, or there is no parameter with this name.
        """
        names = [param.name for param in self.kernel.signature]
        if name not in names:
            raise LaunchError(f"kernel '{self.kernel.name}' has no parameter {name!r}; there are {', '.join(names)}")
        self.set_param_at_index(names.index(name), value, adjoint)

    def set_params(self, values: Sequence[Any]) -> None:
        """Set all parameters in order. The values are the same as for `wp.launch`.

        Raises:
            KernelTypeError, LaunchError: A value does not match its parameter, or the number of values differs from the
                number of parameters. The record does not change.
        """
        if not isinstance(values, (list, tuple)) or len(values) != len(self._values):
            given = f"{len(values)} values" if isinstance(values, (list, tuple)) else type(values).__name__
            names = ", ".join(p.name for p in self.kernel.signature)
            raise LaunchError(
                f"kernel '{self.kernel.name}': set_params takes a list of {len(self._values)} values ({names}), "
                f"got {given}"
            )
        values = plain_values(values)
        is_changing = self._is_in_place or Given(values).has_arrays
        read = {u: self._read(u, value, is_changing) for u, value in enumerate(values)}
        if is_changing:
            self._set_in_place(read)
            return
        self._checked(read)
        self._values = list(read.values())
        self._ready = None

    def _set_in_place(self, values: Mapping[int, Any]) -> None:
        """Set parameters of a launch on mutable arrays."""
        for u, value in values.items():
            check_value(self.kernel, u, value)
        numbers = all(self.kernel.signature[u].is_value for u in values)
        for u, value in values.items():
            self._values[u] = value
        self._is_in_place, self._replay = True, None
        command = self._command
        if not (isinstance(command, ArrayLaunch) and numbers and command.change(values)):
            self._command = None

    def _set_gradient_in_place(self, index: int, value: Any) -> None:
        """Set the gradient that an adjoint on mutable arrays writes to; None for that of the array."""
        self._refuse_gradient(index, value)
        self._asked[index] = value
        self._is_in_place, self._command, self._replay = True, None, None

    def _checked(self, values: Mapping[int, Any]) -> dict[int, Any]:
        """The values of some parameters by part, if all of them fit."""
        kernel, written = self.kernel, self._program.written
        parts: dict[int, Any] = {}
        faults = []
        in_place = any(is_mutable(values.get(u, self._values[u])) for u in self._outputs)
        for u, value in values.items():
            argument, role = kernel.signature[u], self._role(u)
            is_output = role is Role.ZEROS
            leaves = grouping.flatten(kernel.name, argument.name, argument.type, value, is_output=is_output)
            for p, part in zip(kernel.groups[u], leaves, strict=True):
                parts[p] = part
                fault = checks.check_part(
                    kernel.params[p], part, grouping.role_of_part(kernel, u, p, role, written), in_place
                )
                if fault is not None:
                    faults.append(fault)
        arguments.raise_faults(kernel.name, faults)
        return parts

    def _refuse_gradient(self, index: int, value: Any) -> None:
        """Raise what `set_param_at_index` raises where there is no such gradient."""
        param = self.kernel.signature[index]
        if not self.adjoint:
            raise LaunchError(
                f"kernel '{self.kernel.name}': this record has no adjoint of '{param.name}', as it runs the forward "
                "launch",
                hint="record it with adjoint=True",
            )
        if value is not None and value is not False and not has_gradient(self.kernel, index):
            raise KernelTypeError(f"kernel '{self.kernel.name}', parameter '{param.name}' is {param.type!r}, which has "
                                  "no gradient")  # fmt: skip

    def _set_adjoint(self, index: int, value: Any) -> None:
        self._refuse_gradient(index, value)
        if index in self._outputs:
            if value is True:
                name = self.kernel.signature[index].name
                raise LaunchError(f"kernel '{self.kernel.name}': the cotangent of output '{name}' is an array")
            self._cotangents = {**(self._cotangents or {}), index: value}
            return
        wanted = {} if self._wanted is None else dict(self._wanted)
        wanted.pop(index, None)
        if value is not None and value is not False:
            wanted[index] = value
        self._wanted = dict(sorted(wanted.items()))

    # -- running it

    def launch(self, stream: Any = None) -> Any:
        """Run the launch, and return the outputs or the requested gradients, as `wp.launch` does.

        Args:
            stream: The CUDA stream for arrays on a GPU that are written in place, as in `wp.launch`; otherwise None.

        Raises:
            LaunchError: A parameter, `dim` or, for an adjoint, the cotangents are not set.
        """
        replay = self._replay
        if replay is not None and not LISTENING:
            return replay()
        if self._is_in_place:
            command = self._command
            if command is None:
                try:
                    command = self._prepare_in_place()
                except JwarpError as error:
                    shorten(error)
                    raise
            if LISTENING:
                return submit(command if listeners.here.capture is None else copy.copy(command))
            if isinstance(command, ArrayLaunch) and not command.kernel.looks_up:
                self._replay = command.replayer()
            else:
                self._replay = command.run
            return self._replay()
        if self._handles:
            self._follow()
        if self._ready is None:
            try:
                self._ready = self._prepared()
            except JwarpError as error:
                shorten(error)
                raise
        if stream is not None:
            route.check_stream(self._ready.call, stream)
        return self._ready(stream)

    def _prepare_in_place(self) -> Command:
        self._require_all()
        assert self._dim is not None
        launch = ArrayLaunch(self.kernel, self._dim, self._values, None, self.block_dim, self._device)
        launch.program = self._program
        command: Command = adjoint_of(launch, self._asked) if self.adjoint else launch
        command.prepare()
        self._command = command
        return command

    @property
    def _gradients(self) -> dict[int, Any]:
        """The parameters whose gradients are wanted."""
        if self._wanted is not None:
            return self._wanted
        inputs = (u for u in range(len(self._values)) if u not in self._outputs)
        return {u: True for u in inputs if has_gradient(self.kernel, u)}

    def _call(self, dims: tuple[int, ...]) -> Call:
        request = Request(self._gradients, self._cotangents, self._gradients_named) if self.adjoint else None
        return Call(
            self.kernel,
            self._program,
            dims,
            self._given(),
            request,
            self.block_dim,
            self._is_named,
            differentiable=self.kernel.enable_backward,
        )

    def _check_extents(self, dims: tuple[int, ...]) -> None:
        """Refuse an access that is provably outside, as soon as everything is known."""
        if not any(value is UNSET for value in self._values):
            checks.check_extents(self._call(dims))

    def _prepared(self) -> Ready:
        """The executable of the launch, made once for the values that are set."""
        self._require_all()
        assert self._dim is not None
        return route.ready(self._call(self._dim))

    def _require_all(self) -> None:
        """Refuse to run while something is not set."""
        if self._dim is None:
            raise LaunchError(f"kernel '{self.kernel.name}': dim is not set", hint="call set_dim")
        missing = [p.name for p, value in zip(self.kernel.signature, self._values, strict=True) if value is UNSET]
        if missing:
            raise LaunchError(
                f"kernel '{self.kernel.name}': nothing is set for {', '.join(map(repr, missing))}",
                hint="set_params, or set_param_by_name for each",
            )


def is_for_handles(kind: Any) -> bool:
    """True if a parameter of this type takes a grid, tree, mesh or volume, also as a field of a struct."""
    return isinstance(kind, StructType) and (kind.is_handle or kind.holds_handles)


def refuse_stream(kernel: Kernel, stream: Any) -> None:
    """Raise LaunchError if a record is to be made with a stream."""
    if stream is not None:
        raise LaunchError(
            f"kernel '{kernel.name}': a record has no stream", hint="pass it to launch(stream=...) of the record"
        )


def record(request: LaunchRequest, *, on_arrays: bool) -> Launch:
    """The record of a launch, all of whose arguments are checked now."""
    kernel, adjoint, block_dim = request.kernel, request.adjoint, request.block_dim
    if on_arrays:
        if request.device is not None:  # arrays that are elsewhere are refused
            ArrayLaunch(kernel, (0,), request.inputs, request.outputs, None, get_device(request.device))
        block_dim = geometry.read_block_dim(block_dim, kernel.name, as_warp=True)
        in_place = Launch(kernel, adjoint, block_dim=block_dim)
        if adjoint:
            in_place._asked = asked_gradients(request)
        in_place._is_in_place, in_place._dim = True, geometry.read_dim(request.dim, kernel.name)
        in_place._values = list(matched_values(kernel, request.inputs, request.outputs))
        if not any(value is None for value in in_place._values):  # an array that is set before it is launched
            in_place._prepare_in_place()
        return in_place
    call = read_call(request)
    made = Launch(kernel, adjoint, block_dim=block_dim)
    made._program = call.program
    made._dim, made._is_named = call.dims, call.is_named
    made._values, made._outputs = list(call.given.values), call.given.outputs
    if request.outputs is None:
        made._output_role = Role.IN_OUT
    gradients = call.request
    if gradients is not None:
        # A record made without both is filled by setters; otherwise they change single entries.
        is_empty = request.adj_inputs is None and request.adj_outputs is None
        made._wanted = None if is_empty else dict(gradients.wanted)
        made._cotangents = None if gradients.cotangents is None else dict(gradients.cotangents)
        made._gradients_named = gradients.is_named
    if gradients is None or gradients.cotangents is not None:
        made._ready = route.ready(call)
    checks.check_extents(call)
    return made
