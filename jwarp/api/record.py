"""`wp.Launch`: a launch that is kept, changed and run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from jwarp.backend.cpu.compile import lower_kernel
from jwarp.bind import compat, values
from jwarp.bind.prepare import check_kernel, read_block_dim
from jwarp.config import config
from jwarp.dispatch import cuda_arrays, in_place, replays
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.kernel import Kernel
from jwarp.ir.nodes import Param
from jwarp.launching import arguments, geometry, grouping
from jwarp.launching.adjoints import Request, has_gradient, read_request
from jwarp.launching.arguments import Matched, Role
from jwarp.launching.descriptor import program_of
from jwarp.launching.record import LaunchDescriptor, Record, code_settings, slot_of
from jwarp.launching.sizes import refuse_symbolic

_ROLE_NAMES = {Role.READ: "in", Role.ZEROS: "out", Role.IN_OUT: "inout"}


class _Unset:
    def __repr__(self) -> str:
        return "<unset>"


UNSET: Any = _Unset()


class Launch(Record):
    """A recorded launch: what `wp.launch(..., record_cmd=True)` gives, to be run by `launch()`.

    Built directly it is empty, and filled by the setters; the outputs are then the parameters that the kernel
    writes. The settings of `wp.config` are those in force when it is made. It keeps its buffers alive, and sees
    later changes of NumPy inputs. Inside `jax.jit` and other transformations its values may be traced.

    Attributes:
        kernel: the kernel.
        dim: number of threads along each axis, None while unset.
        block_dim: threads in a block, or None.
        adjoint: whether it runs the adjoint.
        params: the value of each parameter, in order.
    """

    def __init__(self, kernel: Kernel, adjoint: bool = False, *, block_dim: int | None = None):
        check_kernel(kernel, "wp.Launch")
        if not isinstance(adjoint, bool):
            raise LaunchError(f"kernel '{kernel.name}': adjoint must be True or False, got {adjoint!r}")
        self.kernel = kernel
        self.block_dim = read_block_dim(block_dim, kernel.name)
        self.adjoint = adjoint
        self._program = program_of(kernel, config.settings)
        self._values: list[Any] = [UNSET] * len(kernel.signature)
        written = set(self._program.written)
        self._outputs = tuple(u for u, group in enumerate(kernel.groups) if not written.isdisjoint(group))
        self._only_inputs = False
        self._is_named = False
        self._dim: tuple[int, ...] | None = None
        self._wanted: dict[int, Any] | None = None  # None: every differentiable input
        self._cotangents: dict[int, Any] | None = None
        self._gradients_named = False
        self._ready: replays.Replay | None = None

    # -- what it is

    @property
    def dim(self) -> tuple[int, ...] | None:
        return self._dim

    @property
    def params(self) -> tuple[Any, ...]:
        return tuple(self._values)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The parameters whose gradients an adjoint record gives, by name."""
        return tuple(self.kernel.signature[u].name for u in self._gradients) if self.adjoint else ()

    @property
    def descriptor(self) -> LaunchDescriptor:
        """What the launch does, without its data."""
        program = self._program
        refuse_symbolic(program.name, [self._dim or ()], "and a descriptor is of a launch of known size")
        roles = [self._role_name(u, leaf) for u, leaves in enumerate(self._parts()) for leaf in leaves]
        slots = tuple(slot_of(param, role) for param, role in zip(self.kernel.params, roles, strict=True))
        variant = f"adjoint({', '.join(self.wanted)})" if self.adjoint else "forward"
        settings = code_settings(program.settings)
        return LaunchDescriptor(program.name, program.fingerprint, variant, self._dim, self.block_dim, slots, settings)

    def _role_name(self, index: int, leaf: Any) -> str:
        if leaf is UNSET:
            return "unset"
        if index not in self._outputs:
            return "in"
        has_content = values.describe(leaf).origin in ("jax", "numpy") or cuda_arrays.is_cuda_array(leaf)
        return "inout" if has_content else "out"

    def _parts(self) -> list[list[Any]]:
        """The parts of the value of each parameter: several for a struct."""
        return [self._taken_apart(u, value) for u, value in enumerate(self._values)]

    def _taken_apart(self, index: int, value: Any) -> list[Any]:
        if value is UNSET:
            return [UNSET] * len(self.kernel.groups[index])
        argument = self.kernel.signature[index]
        is_output = index in self._outputs and not self._only_inputs
        return grouping.flatten(self.kernel.name, argument.name, argument.type, value, is_output=is_output)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{param.name}={_shown(value)}" for param, value in zip(self.kernel.signature, self._values, strict=True)
        )
        kind = " adjoint" if self.adjoint else ""
        return f"<wp.Launch{kind} of {self.kernel.name}, dim={self._dim}, {shown}>"

    # -- changing it

    def set_dim(self, dim: int | Sequence[int]) -> None:
        """Let it run over `dim` threads, as in `wp.launch`.

        Raises:
            LaunchError: `dim` is no such number of threads, or an array is provably accessed outside its extents.
        """
        before, self._dim = self._dim, geometry.read_dim(dim, self.kernel.name)
        try:
            self._check_extents()
            if self._ready is not None and not self._ready.resize(self._dim):
                self._ready = None
        except LaunchError:
            self._dim = before
            raise

    def set_param_at_index(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Set parameter number `index`; with `adjoint`, the gradient of an input or the cotangent of an output.

        The gradient of an input is None (not wanted), True (wanted) or what it is added to.

        Raises:
            KernelTypeError: the value has another kind, dtype or rank than the parameter.
            LaunchError: there is no such parameter, or the record is none of an adjoint.
        """
        count = len(self._values)
        if type(index) is not int or not 0 <= index < count:
            raise LaunchError(
                f"kernel '{self.kernel.name}' has parameters 0 to {count - 1}, got index {index!r}",
                hint=f"in order they are {', '.join(p.name for p in self.kernel.signature)}",
            )
        if adjoint:
            self._set_adjoint(index, value)
            self._ready = None
        else:
            self._check_value(index, value)
            parts = zip(self.kernel.groups[index], self._taken_apart(index, value), strict=True)
            if self._ready is not None and not all(self._ready.change(p, part) for p, part in parts):
                self._ready = None
            self._values[index] = value

    def set_param_by_name(self, name: str, value: Any, adjoint: bool = False) -> None:
        """As `set_param_at_index`, by the parameter's name."""
        names = [param.name for param in self.kernel.signature]
        if name not in names:
            raise LaunchError(f"kernel '{self.kernel.name}' has no parameter {name!r}; there are {', '.join(names)}")
        self.set_param_at_index(names.index(name), value, adjoint)

    def set_params(self, values: Sequence[Any]) -> None:
        """Set all parameters in order; all or, after an error, none."""
        if not isinstance(values, (list, tuple)) or len(values) != len(self._values):
            given = f"{len(values)} values" if isinstance(values, (list, tuple)) else type(values).__name__
            names = ", ".join(p.name for p in self.kernel.signature)
            raise LaunchError(
                f"kernel '{self.kernel.name}': set_params takes a list of {len(self._values)} values ({names}), "
                f"got {given}"
            )
        for index, value in enumerate(values):
            self._check_value(index, value)
        self._values = list(values)
        self._ready = None

    def _check_value(self, index: int, value: Any) -> None:
        x64, faults = compat.x64_enabled(), []
        for p, part in zip(self.kernel.groups[index], self._taken_apart(index, value), strict=True):
            param = self.kernel.params[p]
            if not isinstance(part, jax.Array) and cuda_arrays.is_cuda_array(part):
                continue  # looked at in each launch, as its owner may still change it
            given = values.describe(part, param)
            found: Any
            if index not in self._outputs or self._only_inputs:
                found = arguments.check_input(param, given, x64 or in_place.is_mutable(part))
            elif in_place.is_mutable(part):
                found = in_place.read_place(param, part, is_output=True)
            else:
                found = arguments.read_output(param, part, given, x64)
            if isinstance(found, arguments.Fault):
                faults.append(found)
        arguments.raise_faults(self.kernel.name, faults)

    def _set_adjoint(self, index: int, value: Any) -> None:
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
        if index in self._outputs:
            if value is True:
                raise LaunchError(f"kernel '{self.kernel.name}': the cotangent of output '{param.name}' is an array")
            self._cotangents = {**(self._cotangents or {}), index: value}
            return
        wanted = {} if self._wanted is None else dict(self._wanted)
        wanted.pop(index, None)
        if value is not None and value is not False:
            wanted[index] = value
        self._wanted = dict(sorted(wanted.items()))

    # -- running it

    def launch(self, stream: Any = None) -> Any:
        """Run it: the outputs, or the wanted gradients, as `wp.launch` returns them.

        Args:
            stream: The CUDA stream for arrays on a GPU that are written in place, as in `wp.launch`; else None.

        Raises:
            LaunchError: a parameter, `dim` or, for an adjoint, the cotangents are not set.
        """
        if self._ready is None:
            self._ready = self._prepared()
        return self._ready() if stream is None else self._ready.on_stream(stream)

    def _matched(self) -> Matched:
        missing = [p.name for p, value in zip(self.kernel.signature, self._values, strict=True) if value is UNSET]
        if missing:
            raise LaunchError(
                f"kernel '{self.kernel.name}': nothing is set for {', '.join(map(repr, missing))}",
                hint="set_params, or set_param_by_name for each",
            )
        changed = Role.IN_OUT if self._only_inputs else Role.ZEROS
        roles = tuple(changed if u in self._outputs else Role.READ for u in range(len(self._values)))
        matched, written = Matched(roles, tuple(self._values), self._outputs), self._program.written
        if self.kernel.has_structs:
            return grouping.expand(self.kernel, matched, written)
        arguments.refuse_written_inputs(self.kernel.name, self.kernel.params, written, roles)
        return matched

    def _check_extents(self) -> None:
        """Refuse an access that is provably outside, as soon as everything is known."""
        if self._dim is None or any(value is UNSET for value in self._values):
            return
        if any(not isinstance(x, jax.Array) and cuda_arrays.is_cuda_array(x) for x in self._values):
            return  # in each launch
        program = self._program
        if program.handwritten is not None:
            return
        program, threads = program.arranged(self._dim, self.block_dim)
        parts = [(u in self._outputs, leaf) for u, leaves in enumerate(self._parts()) for leaf in leaves]
        shapes = [_shape(param, *part) for param, part in zip(self.kernel.params, parts, strict=True)]
        extents = tuple(s if param.is_array else None for param, s in zip(self.kernel.params, shapes, strict=True))
        if threads.repeat:
            hidden = tuple(shapes[p] for p in program.shadowed)
            lower_kernel(program.kernel, program.settings).check(threads.dims, extents + hidden)

    @property
    def _gradients(self) -> dict[int, Any]:
        """The parameters whose gradients are wanted."""
        if self._wanted is not None:
            return self._wanted
        inputs = (u for u in range(len(self._values)) if u not in self._outputs)
        return {u: True for u in inputs if has_gradient(self.kernel, u)}

    @property
    def _request(self) -> Request:
        return Request(self._gradients, self._cotangents, self._gradients_named)

    def _prepared(self) -> replays.Replay:
        """What runs the launch, made once for the values that are set."""
        if self._dim is None:
            raise LaunchError(f"kernel '{self.kernel.name}': dim is not set", hint="call set_dim")
        request = self._request if self.adjoint else None
        call = replays.Call(
            self.kernel, self._program, self._dim, self._matched(), request, self.block_dim, self._is_named
        )
        return replays.replay(call)


def record(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any] | Mapping[str, Any],
    outputs: Sequence[Any] | Mapping[str, Any] | None,
    *,
    adjoint: bool,
    adj_inputs: Any,
    adj_outputs: Any,
    block_dim: int | None,
) -> Launch:
    """The record of a launch, all of whose arguments are checked now."""
    made = Launch(kernel, adjoint, block_dim=block_dim)
    made._dim = geometry.read_dim(dim, kernel.name)
    changed = [u for u, group in enumerate(kernel.groups) if not set(group).isdisjoint(made._program.written)]
    matched = arguments.match(kernel.name, kernel.signature, changed, inputs, outputs)
    made._values, made._outputs = list(matched.values), matched.outputs
    made._only_inputs = outputs is None
    made._is_named = outputs is None or isinstance(outputs, dict)
    if adjoint:
        parts = made._parts()
        in_outs = [u for u in matched.outputs if any(made._role_name(u, leaf) == "inout" for leaf in parts[u])]
        passed = [u for u in range(len(kernel.signature)) if outputs is None or u not in matched.outputs]
        request = read_request(
            kernel, passed, matched.outputs, in_outs, adj_inputs, adj_outputs, only_inputs=outputs is None
        )
        # A record made without both is filled by setters; otherwise they change single entries.
        made._wanted = None if adj_inputs is None and adj_outputs is None else dict(request.wanted)
        made._cotangents = None if request.cotangents is None else dict(request.cotangents)
        made._gradients_named = request.is_named
        if request.cotangents is not None:
            made._ready = made._prepared()
    elif adj_inputs is not None or adj_outputs is not None:
        raise LaunchError(
            f"kernel '{kernel.name}': adj_inputs and adj_outputs are for adjoint launches", hint="pass adjoint=True"
        )
    else:
        made._ready = made._prepared()
    made._check_extents()
    return made


def _shape(param: Param, is_output: bool, value: Any) -> tuple[int, ...]:
    given = values.describe(value, param)
    if is_output and given.origin not in ("jax", "numpy", "spec"):
        found = arguments.read_output(param, value, given, x64=True)
        if isinstance(found, tuple):
            return found
    return given.shape or ()


def _shown(value: Any) -> str:
    """A value in a repr: what it is, not what it holds."""
    if value is UNSET:
        return "unset"
    given = values.describe(value)
    if given.origin in ("jax", "numpy", "spec"):
        return f"{given.dtype}{list(given.shape or ())}"
    return str(value)[:40]
