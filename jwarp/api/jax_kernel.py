"""`wp.jax_kernel`: a kernel as a JAX function, with the keywords of Warp's wrapper."""

from __future__ import annotations

import inspect
import operator
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jwarp.api.tracebacks import shorten
from jwarp.api.wrappers import made_once
from jwarp.caches import Cache, PerOwner
from jwarp.compiler.program import program_of
from jwarp.config import config, surface
from jwarp.dispatch.call import checks
from jwarp.dispatch.call.call import Call, read_kernel
from jwarp.dispatch.call.instances import choose, instance_for_call, with_handles
from jwarp.dispatch.executables import route
from jwarp.dispatch.executables.table import NO_SLOT, Slot, repeat
from jwarp.errors import JwarpError, KernelTypeError, KernelWarning, LaunchError
from jwarp.frontend.generics import MAX_INSTANCES
from jwarp.frontend.kernel_base import Kernel, Parameter
from jwarp.launching import geometry, grouping
from jwarp.launching.arguments import Matched
from jwarp.launching.geometry import BlockDim
from jwarp.launching.keywords import refuse_keywords
from jwarp.types import ArrayType, StructType, has_arrays, indexedarray
from jwarp.wire import Role

Dims = int | Sequence[int]
OutputDims = Dims | Mapping[str, Dims]

_MADE: Cache[Any, KernelFunction] = Cache("functions of `wp.jax_kernel`", 256)


def jax_kernel(
    kernel: Kernel,
    num_outputs: int = 1,
    *,
    launch_dims: Dims | None = None,
    output_dims: OutputDims | None = None,
    in_out_argnames: Sequence[str] | None = (),
    block_dim: BlockDim | None = None,
    enable_backward: bool = True,
    vmap_method: Any = None,
    module_preload_mode: Any = None,
    has_side_effect: bool = False,
    sharding_rule: str | Sequence[int] | int | None = None,
    **unknown: Any,
) -> KernelFunction:
    """Make a JAX function that launches `kernel`.

    The last parameters of the kernel are its outputs. The function takes values for the others, and returns a tuple of
    `num_outputs` arrays. It works eagerly and inside `jax.jit`, `jax.vmap` (one launch for the whole batch),
    `jax.lax.scan` and `jax.shard_map`.

    Args:
        kernel: A function decorated with `@wp.kernel`, or a kernel from `wp.cuda_kernel`, which knows its outputs.
        num_outputs: Number of arrays that are returned, including those of `in_out_argnames`. At least 1.
        launch_dims: Number of threads along each axis, an int or up to four ints. Default: the shape of the first array
            argument, without the axes of components. Batch axes of `vmap` do not count. May be symbolic in an export
            with symbolic shapes.
        output_dims: Shape of all outputs (int or tuple), or a dict of shapes by parameter name, with or without the
            axes of components. Default: the launch dimensions; for an output of higher rank, the shape of the first
            array argument. Outputs start as zeros.
        in_out_argnames: Array parameters that start from the array that is passed for them. They are passed as inputs
            and returned first, both in the kernel's order.
        block_dim: Threads in a block, for kernels with tiles; for handwritten kernels also the numbers along (x, y, z).
        enable_backward: If False, every gradient is a NotDifferentiableError.
        vmap_method, module_preload_mode: Accepted for compatibility with Warp. They have no effect, and a KernelWarning
            says so once.
        has_side_effect: XLA keeps the launch even if nothing uses its results. (JAX itself still drops a launch from a
            traced function that returns none of its results.)
        sharding_rule: How a launch on sharded arrays under plain `jax.jit` may be split over devices: "auto" for all
            launch and batch axes that are found to be independent, or launch axes that must be independent. Default:
            the arrays are gathered. Launches with a rule cannot be exported.
        unknown: Any other keyword is an error that says what to do instead.

    Returns:
        A function of the input values, by position or by parameter name. `launch_dims=` and `output_dims=` may be given
        for a single call; a parameter with one of these names is passed by position. Arrays must have exactly the dtype
        and rank of their parameter (the components of vectors and matrices are the last axes). Scalars may be traced.
        Results have the dtype of their parameter. The function is pickled as the kernel and the keywords.

    Raises:
        KernelTypeError: `kernel` is not a kernel, or an output or in-out parameter is a scalar. At a call: an argument
            has another kind, dtype or rank than its parameter.
        LaunchError: Counts or names do not match the kernel's parameters. At a call: the count or names of arguments or
            a shape do not match, or the kernel writes an array that is an input.
        NotDifferentiableError: A gradient is asked for along a path without an exact derivative.

    Example:
        >>> scale_fn = wp.jax_kernel(scale)
        >>> (y,) = jax.jit(scale_fn)(jnp.arange(4.0), 2.0)
    """
    kernel = read_kernel(kernel, "wp.jax_kernel")
    refuse_keywords(f"kernel '{kernel.name}': wp.jax_kernel", unknown, _KEYWORDS)
    _warn_without_effect(vmap_method=vmap_method, module_preload_mode=module_preload_mode)
    options = {
        "launch_dims": launch_dims,
        "output_dims": output_dims,
        "in_out_argnames": in_out_argnames,
        "block_dim": block_dim,
        "enable_backward": enable_backward,
        "has_side_effect": has_side_effect,
        "sharding_rule": sharding_rule,
    }
    block = geometry.block_of_program(block_dim, None, kernel.name) if surface.is_warps else None
    named = options | {"num_outputs": num_outputs, "block": block}
    return made_once(_MADE, kernel, named, lambda: _function_of(kernel, num_outputs, **options))


class KernelFunction:
    """A kernel as a JAX function: what `wp.jax_kernel` makes. It is pickled as its kernel and the keywords."""

    def __init__(self, kernel: Kernel, num_outputs: int, **keywords: Any):
        self.kernel, self.num_outputs, self.keywords = kernel, num_outputs, keywords
        in_out_argnames, launch_dims = keywords["in_out_argnames"], keywords["launch_dims"]
        known = kernel.known_outputs if num_outputs == 1 and not in_out_argnames else None
        if known is None:
            in_outs = _read_in_outs(kernel, in_out_argnames)
            count = _read_num_outputs(kernel, num_outputs, len(in_outs))
            first_output = len(kernel.signature) - count + len(in_outs)
            _check_outputs(kernel, in_outs, first_output)
            self._fresh: Sequence[int] = range(first_output, len(kernel.signature))
        else:
            in_outs, self._fresh = map(list, known)
        self._inputs = tuple(p for u, p in enumerate(kernel.signature) if u not in self._fresh)
        self.block_dim = geometry.read_block_dim(keywords["block_dim"], kernel.name)
        self._threads = (
            geometry.block_of_program(self.block_dim, None, kernel.name) if surface.is_warps else self.block_dim
        )
        if launch_dims is not None:
            geometry.read_dim(launch_dims, kernel.name, "launch_dims")
        self._launch_dims, self._output_dims = launch_dims, keywords["output_dims"]
        _check_output_names(kernel, self._output_dims, self._fresh)
        kinds = dict.fromkeys(in_outs, Role.IN_OUT) | dict.fromkeys(self._fresh, Role.ZEROS)
        self._roles = tuple(kinds.get(u, Role.READ) for u in range(len(kernel.signature)))
        self._outputs = tuple(sorted(kinds))
        self._differentiable = keywords["enable_backward"] and kernel.enable_backward
        self._has_structs, self._has_side_effect = kernel.has_structs, bool(keywords["has_side_effect"])
        self._sharding_rule = keywords["sharding_rule"]
        # The arguments are the first parameters.
        self._is_in_order = not self._has_structs and list(self._fresh) == list(
            range(len(self._inputs), len(self._roles))
        )
        self._identity = object()  # of this function among the repeated calls of its kernel
        self._describe()

    def _describe(self) -> None:
        """Say for `help`, and for messages, what may be passed."""
        self.__name__ = self.__qualname__ = self.kernel.name
        self.__signature__ = _signature(self._inputs)
        self.__doc__ = f"Launch kernel '{self.kernel.name}' with ({self._input_names}) as a JAX function."

    def __call__(
        self,
        *args: Any,
        launch_dims: Dims | None = None,
        output_dims: OutputDims | None = None,
        vmap_method: Any = None,
        **named: Any,
    ) -> tuple[Any, ...]:
        if named:
            args = self._in_order(args, named)
        if vmap_method is not None:
            _warn_without_effect(vmap_method=vmap_method)
        slot = NO_SLOT
        if launch_dims is None and output_dims is None and self._is_in_order:
            found = repeat(self.kernel, None, None, args, owner=self._identity)
            if type(found) is not Slot:
                return found
            slot = found
        try:
            return self._run(args, launch_dims, output_dims, slot)
        except JwarpError as error:
            shorten(error)
            raise

    def _run(
        self, args: Sequence[Any], launch_dims: Dims | None, output_dims: OutputDims | None, slot: Slot
    ) -> tuple[Any, ...]:
        """Run a call that is not repeated; what it finds out is kept in the slot."""
        if self.kernel.handles or self.kernel.id_lists:
            kernel, args, reads_ids, is_numbered = choose(self.kernel, args, None, "")
            slot = NO_SLOT if reads_ids or is_numbered else slot  # as other numbers have other layouts
            if kernel is not self.kernel:
                return self.of(kernel)._run(args, launch_dims, output_dims, slot)
        return route.run(self._read(args, launch_dims, output_dims), None, slot)

    def of(self, instance: Kernel) -> KernelFunction:
        """The function of an instance of the kernel, with the same keywords."""
        return _FUNCTIONS.of(self).made(instance, lambda: KernelFunction(instance, self.num_outputs, **self.keywords))

    def _read(self, args: Sequence[Any], launch_dims: Dims | None, output_dims: OutputDims | None) -> Call:
        kernel = self.kernel
        if len(args) != len(self._inputs):
            raise self._count_error(args)
        dims = self._launch_dims if launch_dims is None else launch_dims
        if dims is None:
            dims = _dims_from_argument(kernel, self._inputs, args)
            if dims is None:
                raise LaunchError(
                    f"kernel '{kernel.name}' has no array argument to take launch_dims from", hint="pass launch_dims="
                )
        threads = geometry.read_dim(dims, kernel.name, "launch_dims")
        if output_dims is not None:
            _check_output_names(kernel, output_dims, self._fresh)
        shapes = self._output_dims if output_dims is None else output_dims
        made = {
            u: _shape_of(kernel, u, self._default_shape(u, threads, args) if shapes is None else shapes)
            for u in self._fresh
        }
        given = iter(args)
        values = tuple(made[u] if u in made else next(given) for u in range(len(self._roles)))
        return Call(
            kernel,
            program_of(kernel, config.settings),
            threads,
            Matched(self._roles, values, self._outputs),
            block_dim=self._threads,
            differentiable=self._differentiable,
            side_effect=self._has_side_effect,
            is_functional=True,
            sharding_rule=self._sharding_rule,
        )

    def _default_shape(self, index: int, threads: tuple[Any, ...], args: Sequence[Any]) -> tuple[Any, ...]:
        """The shape of an output without `output_dims`."""
        rank = getattr(self.kernel.signature[index].type, "dims", None)
        if rank is None or rank <= len(threads):
            return threads
        first = _dims_from_argument(self.kernel, self._inputs, args)
        return threads if first is None or len(first) != rank else first

    def _count_error(self, args: Sequence[Any]) -> LaunchError:
        return LaunchError(
            f"kernel '{self.kernel.name}' takes {len(self._inputs)} argument{'s' * (len(self._inputs) != 1)}"
            f" ({self._input_names}), got {len(args)}"
        )

    @property
    def _input_names(self) -> str:
        return ", ".join(param.name for param in self._inputs)

    def _in_order(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """All values in order, from those by position and those by the parameter's name."""
        where, places = f"kernel '{self.kernel.name}'", {param.name: u for u, param in enumerate(self._inputs)}
        values = dict(enumerate(args))
        for name, value in named.items():
            if name in places and places[name] in values:
                raise LaunchError(f"{where}, parameter '{name}' is given twice, by position and by name")
            if name in places:
                values[places[name]] = value
        outputs = [self.kernel.signature[u].name for u in self._fresh]
        for name in outputs:
            if name in named:
                raise LaunchError(
                    f"{where}, parameter '{name}' is an output, which comes back",
                    hint=f"leave it out; in_out_argnames=['{name}'] of wp.jax_kernel lets it start from an array",
                )
        others = {name: value for name, value in named.items() if name not in places}
        refuse_keywords(where, others, (*places, *_CALL_KEYWORDS))
        missing = [name for name, u in places.items() if u not in values]
        if missing:
            raise LaunchError(f"{where}: nothing is given for {', '.join(map(repr, missing))}")
        # More of them than there are parameters are refused where all are there.
        return tuple(values[u] for u in sorted(values))

    def __reduce__(self) -> Any:
        return _again, (self.kernel, self.num_outputs, self.keywords)

    def __copy__(self) -> KernelFunction:
        return self

    def __deepcopy__(self, memo: Any) -> KernelFunction:
        return self

    def __repr__(self) -> str:
        return f"<wp.jax_kernel of {self.kernel.name}({self._input_names})>"


def _signature(inputs: Sequence[Parameter]) -> inspect.Signature:
    """The signature for `help`, and for the names of arguments in JAX's messages."""
    options = ("launch_dims", "output_dims")
    is_free = not any(param.name in options for param in inputs)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if is_free else inspect.Parameter.POSITIONAL_ONLY
    positional = [inspect.Parameter(param.name, kind) for param in inputs]
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in options if is_free]
    return inspect.Signature([*positional, *named])


def _function_of(kernel: Kernel, num_outputs: int, **keywords: Any) -> KernelFunction:
    return (GenericFunction if kernel.is_generic else KernelFunction)(kernel, num_outputs, **keywords)


def _again(kernel: Kernel, num_outputs: int, keywords: Mapping[str, Any]) -> KernelFunction:
    return _function_of(kernel, num_outputs, **keywords)


class GenericFunction(KernelFunction):
    """A generic kernel as a JAX function: a call is one of the function of the instance for its arguments."""

    def __init__(self, kernel: Kernel, num_outputs: int, **keywords: Any):
        self.kernel, self.num_outputs, self.keywords = kernel, num_outputs, keywords
        names = [parameter.name for parameter in kernel.signature]
        in_outs = _known_names(kernel, keywords["in_out_argnames"])
        first_output = len(names) - _read_num_outputs(kernel, num_outputs, len(in_outs)) + len(in_outs)
        self._inputs, self._fresh = kernel.signature[:first_output], range(first_output, len(names))
        if keywords["launch_dims"] is not None:
            geometry.read_dim(keywords["launch_dims"], kernel.name, "launch_dims")
        _check_output_names(kernel, keywords["output_dims"], self._fresh)
        self._identity = object()
        self._describe()

    def __call__(self, *args: Any, **options: Any) -> tuple[Any, ...]:
        slot = NO_SLOT
        if not options:
            found = repeat(self.kernel, None, None, args, owner=self._identity)
            if type(found) is not Slot:
                return found
            slot = found
        if self.kernel.handles:
            _, args = with_handles(self.kernel, args)
        try:
            named = {name: value for name, value in options.items() if name not in _CALL_KEYWORDS}
            if named:
                args = self._in_order(args, named)
            options = {name: options[name] for name in _CALL_KEYWORDS if name in options}
            instance = self._chosen(args, options)
            _warn_without_effect(vmap_method=options.get("vmap_method"))
            slot = slot if instance._is_in_order else NO_SLOT
            return instance._run(args, options.get("launch_dims"), options.get("output_dims"), slot)
        except JwarpError as error:
            shorten(error)
            raise

    def _chosen(self, args: Sequence[Any], options: Mapping[str, Any]) -> KernelFunction:
        """The function of the instance for these arguments."""
        if len(args) != len(self._inputs):
            raise self._count_error(args)
        given = {name: value for name, value in options.items() if value is not None}
        shapes = {"launch_dims": None, "output_dims": None, **self.keywords, **given}
        made = [_wanted_shape(self.kernel, u, args, shapes) for u in self._fresh]
        return self.of(instance_for_call(self.kernel, args, made))


# By instance.
_FUNCTIONS: PerOwner[KernelFunction, Any, KernelFunction] = PerOwner("functions of instances", MAX_INSTANCES)


def _wanted_shape(kernel: Kernel, index: int, args: Sequence[Any], shapes: Mapping[str, Any]) -> tuple[Any, ...]:
    """The shape of an output as far as it tells the type of its parameter."""
    dims = getattr(kernel.signature[index].type, "dims", None)
    given = shapes["output_dims"]
    if given is None and dims is None:
        given = shapes["launch_dims"]
    if isinstance(given, Mapping):
        given = given[kernel.signature[index].name]
    if given is not None:
        return geometry.read_dim(given, kernel.name, f"output_dims for '{kernel.signature[index].name}'")
    if dims is not None:
        return (1,) * dims  # those of the launch, which has one for each axis
    for value, parameter in zip(args, kernel.signature, strict=False):
        rank = len(getattr(value, "shape", ()))
        if rank:
            return (1,) * getattr(parameter.type, "dims", rank)
    return ()


# Checks when the function is made


_CALL_KEYWORDS = ("launch_dims", "output_dims", "vmap_method")
_KEYWORDS = (
    "num_outputs", "in_out_argnames", "block_dim", "enable_backward", "module_preload_mode", "has_side_effect",
    "sharding_rule",
    *_CALL_KEYWORDS,
)  # fmt: skip


def _read_in_outs(kernel: Kernel, names: Sequence[str] | None) -> list[int]:
    known = [param.name for param in kernel.signature]
    chosen = _known_names(kernel, names)
    for name in chosen:
        if kernel.signature[known.index(name)].is_value:
            raise KernelTypeError(
                f"kernel '{kernel.name}': in_out_argnames has '{name}', which is passed by value; only arrays can be "
                "written"
            )
    return sorted(known.index(name) for name in chosen)


def _known_names(kernel: Kernel, names: Sequence[str] | None) -> list[str]:
    """The names of in-out parameters, all of which there are."""
    known = [param.name for param in kernel.signature]
    where = f"kernel '{kernel.name}': in_out_argnames"
    if isinstance(names, str):
        raise LaunchError(f"{where} must be a sequence of names, got the string {names!r}", hint=f"[{names!r}]")
    if names is not None and not isinstance(names, Iterable):
        raise LaunchError(f"{where} must be a sequence of names, got {names!r}")
    chosen = list(names or ())
    for name in chosen:
        if name not in known:
            raise LaunchError(
                f"{where} has {name!r}, which did not match any function argument names; there are {', '.join(known)}"
            )
        if chosen.count(name) > 1:
            raise LaunchError(f"{where} has '{name}' twice, and must not contain duplicate names")
    return chosen


def _read_num_outputs(kernel: Kernel, num_outputs: Any, in_outs: int) -> int:
    where = f"kernel '{kernel.name}': num_outputs"
    try:
        count = None if isinstance(num_outputs, bool) else operator.index(num_outputs)
    except TypeError:
        count = None
    if count is None:
        raise LaunchError(f"{where} must be an int, got {type(num_outputs).__name__} {num_outputs!r}")
    if not kernel.signature:
        raise LaunchError(
            f"kernel '{kernel.name}' has no parameters, so it has no output that wp.jax_kernel could return",
            hint="give it an array parameter to write to",
        )
    if not 1 <= count <= len(kernel.signature):
        limit = f"1 to {len(kernel.signature)}" if len(kernel.signature) > 1 else "1"
        raise LaunchError(
            f"{where} must be {limit}, its number of parameters, got {count}",
            hint="it counts the parameters that come back, from the last one on, and those of in_out_argnames",
        )
    if count < in_outs:
        raise LaunchError(f"{where} counts the {in_outs} names of in_out_argnames too, got {count}")
    return count


def _check_outputs(kernel: Kernel, in_outs: list[int], first_output: int) -> None:
    for index in in_outs:
        if index >= first_output:
            raise LaunchError(
                f"kernel '{kernel.name}', parameter '{kernel.signature[index].name}': in_out arguments should be "
                f"placed before output-only arguments, which start at '{kernel.signature[first_output].name}'"
            )
    for param in kernel.signature[first_output:]:
        if param.is_value:
            raise KernelTypeError(
                f"kernel '{kernel.name}', parameter '{param.name}': an output must be an array, this is {param.type!r}",
                hint="num_outputs counts parameters from the end",
            )


def _check_output_names(kernel: Kernel, output_dims: Any, outputs: Sequence[int]) -> None:
    if not isinstance(output_dims, Mapping):
        return
    names = [kernel.signature[index].name for index in outputs]
    for name in output_dims:
        if name not in names:
            raise LaunchError(
                f"kernel '{kernel.name}': output_dims has {name!r}, which is no output; there are"
                f" {', '.join(names) or 'none'}"
            )
    missing = [name for name in names if name not in output_dims]
    if missing:
        raise LaunchError(f"kernel '{kernel.name}': output_dims has no shape for output '{missing[0]}'")


_warned: set[str] = set()
_warned_lock = threading.Lock()


def _warn_without_effect(**keywords: Any) -> None:
    for keyword, value in keywords.items():
        if value is None:
            continue
        with _warned_lock:
            first = keyword not in _warned
            _warned.add(keyword)
        if first:
            warnings.warn(
                f"wp.jax_kernel: {keyword} does nothing here; the call works without it",
                KernelWarning,
                stacklevel=3,
            )


# Values that are computed at each call


def _is_geometry(kind: Any) -> bool:
    """True if all arrays of a parameter belong to grids, trees, meshes and textures."""
    if not isinstance(kind, StructType) or not has_arrays(kind):
        return False
    return (
        kind.is_handle
        or bool(kind.static)
        or all(_is_geometry(part) for part in kind.fields.values() if has_arrays(part))
    )


def _dims_from_argument(kernel: Kernel, inputs: Sequence[Parameter], args: Sequence[Any]) -> tuple[int, ...] | None:
    """The shape of the first array argument; None if there is none."""
    first_array = next(
        (u for u, param in enumerate(inputs) if not (param.is_value or args[u] is None or _is_geometry(param.type))),
        None,
    )
    if first_array is None:
        return None
    argument, first = kernel.signature[first_array], kernel.groups[first_array]
    parts = grouping.flatten(kernel.name, argument.name, argument.type, args[first_array])
    place = next(k for k, p in enumerate(first) if not kernel.params[p].is_value)
    param = kernel.params[first[place]]
    if isinstance(value := args[first_array], indexedarray):
        return value.shape[: len(first) - 1]
    # Checked before its shape is used, so that a wrong rank is not reported as a wrong launch.
    shape = checks.shape_of(kernel.name, param, parts[place])
    return shape[: param.type.dims] if isinstance(param.type, ArrayType) else shape


def _shape_of(kernel: Kernel, index: int, shapes: Any) -> tuple[int, ...]:
    name = kernel.signature[index].name
    shape = shapes[name] if isinstance(shapes, Mapping) else shapes
    return geometry.read_extents(shape, kernel.name, f"output_dims for '{name}'", kernel.signature[index].type)
