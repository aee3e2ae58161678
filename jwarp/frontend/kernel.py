"""`@wp.kernel`: a Python function with typed parameters, and the IR it stands for."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from types import ModuleType, NoneType
from typing import Any, overload

from jwarp import forks
from jwarp.caches import Cache, PerOwner
from jwarp.collector import no_collection
from jwarp.config import Settings, config
from jwarp.errors import CompileError, JwarpError, KernelTypeError, Span
from jwarp.frontend.adj import Adjoint, adjoint_of
from jwarp.frontend.builtins import rows  # noqa: F401 defines them
from jwarp.frontend.content import Content, content_of
from jwarp.frontend.context import UsesTiles
from jwarp.frontend.generics import MAX_INSTANCES, GenericKernel
from jwarp.frontend.kernel_base import Kernel, Parameter, handles_of
from jwarp.frontend.lowering.lower import Read, lower_kernel_source, warn
from jwarp.frontend.modules import Module, get_module
from jwarp.frontend.options import OF_KERNELS, checked, name_of
from jwarp.frontend.syntax.source import (
    Defined,
    Definition,
    annotations_of,
    check_function,
    file_of,
    parameter_span,
)
from jwarp.frontend.syntax.static_values import defined
from jwarp.frontend.tiles.blocks import by_blocks
from jwarp.frontend.unique_modules import in_its_own_module
from jwarp.ir import nodes
from jwarp.ir.serialize import fingerprint, from_entry, known, to_entry
from jwarp.sources import sources
from jwarp.store import Store, key_of
from jwarp.types import ArrayType, Bound, StructType, as_type, is_empty, is_open, uint64, user_type, wanted_type
from jwarp.types.all_memory import MEMORY, MEMORY_TYPE, described
from jwarp.types.annotations import NO_UNIONS, in_place_of, is_union

# Sizes of a block that are tried where none is given, the usual one first.
_BLOCK_SIZES = (256, 128, 64, 32, 512, 16, 8, 1024)


# The cached entry of a kernel whose IR depends on the size of blocks.
_USES_TILES = b"uses tiles"

_IRS: PerOwner[Kernel, tuple, Read] = PerOwner("IR of a kernel", "settings that change it, and sizes of blocks")


class PythonKernel(Kernel, Defined):
    """A kernel written in Python. Its code is read when it is first needed; numbers it names are captured now."""

    _variables: Bound | None = None  # the types that type variables of a generic kernel stand for
    _tiled: bool | None = None  # whether it uses tiles, once that is known
    _reloads = _reloads_then = 0
    _modules: Mapping[ModuleType, Any] = {}  # those that its code names something of, with what each was loaded by

    def __init__(
        self,
        function: Callable,
        enable_backward: bool | None = None,
        annotations: Mapping[str, Any] | None = None,
        definition: Definition | None = None,
    ):
        """`annotations` are the types of the parameters, if not those that are written."""
        functools.update_wrapper(self, function)
        self.python = function
        definition = definition or defined(function)
        self._definition = definition
        if annotations is None:
            annotations = annotations_of(function, definition.captured)
        super().__init__(function.__name__, _parameters(function, annotations), definition.span, enable_backward)
        assert self.params is not None  # a struct that arrays cannot hold is refused now
        self._lock = forks.Lock()

    @property
    def func(self) -> Callable:
        """The function that it was made of."""
        return self.python

    @functools.cached_property
    def adj(self) -> Adjoint:
        """Its parameters, as Warp's kernels tell of them."""
        return adjoint_of(self.signature)

    @functools.cached_property
    def handles(self) -> tuple[int, ...]:  # type: ignore[override]
        return handles_of(self.signature)

    @functools.cached_property
    def id_lists(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(u for u, p in enumerate(self.signature) if _is_of_ids(p.type))

    def with_handles(self, kinds: Mapping[int, StructType]) -> Kernel:
        ordered = tuple([(u, kinds[u]) for u in sorted(kinds)])
        return _SPECIALISED.of(self).made(ordered, lambda: HandleSpecialised(self, ordered))

    def with_memory(self) -> Kernel:
        """The kernel with one more parameter, all memory, so that it looks numbers up when it runs."""
        return _SPECIALISED.of(self).made((), lambda: WithMemory(self))

    @property
    def has_looked_up(self) -> bool:
        """True if the store says that a kernel of this content looks numbers up, which none was read to find out."""
        # Where something was read, that is known; and what has no ids among its parameters is read first.
        if not (self.handles or self.id_lists) or self._irs.recent or self._irs.rest:
            return False
        name = self._name_of_look_ups
        return name is not None and Store(config.settings.cache_dir).load(name) is not None

    def keep_look_ups(self) -> None:
        """Let the store say that it looks numbers up."""
        if (self.handles or self.id_lists) and (name := self._name_of_look_ups) is not None:
            Store(config.settings.cache_dir).save(name, b"looks up")

    @property
    def _name_of_look_ups(self) -> str | None:
        version = sources() if config.settings.cache_dir else None
        content = self._content if version else None
        return None if content is None else key_of("looks up", version or "", content.digest)

    @functools.cached_property
    def _irs(self) -> Cache[tuple, Read]:
        return _IRS.of(self)

    @property
    def reloads(self) -> int:
        if self._modules:
            self._check_modules()
        return self._reloads

    @property
    def executables(self) -> Cache[Any, Any]:
        if self._modules:
            self._check_modules()
        if self.handles:  # calls with grids, trees and meshes run other kernels
            count = sum([kernel.reloads for kernel in self._specialised])
            if count != self._reloads_then:
                self._reloads_then = count
                self._executables.clear()
        return self._executables

    def _check_modules(self) -> None:
        """Forget what was read, if a module that the code names something of has been reloaded since."""
        if all(getattr(module, "__spec__", None) is spec for module, spec in self._modules.items()):
            return
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            self._modules, self._tiled = {}, None
            self._irs.clear()
            self._reloads += 1
        self._executables.clear()

    def forget(self) -> None:
        self.forget_source()
        for kernel in self._specialised:
            kernel.forget()
        self._drop()

    @property
    def _specialised(self) -> tuple[Kernel, ...]:
        """Those for grids, trees and meshes that were made of it."""
        made = _SPECIALISED.of(self)
        return (*made.recent.values(), *made.rest.values())

    @property
    def state(self) -> str:
        return f"{super().state} {fingerprint(known(self.ir()))}"

    def ir(self, settings: Settings | None = None) -> nodes.Kernel:
        """The kernel as IR under `settings` (by default those in force).

        Of a kernel with tiles, it is the one for some size of the block: for what depends on the parameters only.
        """
        settings = self.settled(settings or config.settings)
        values, whole = self.values_ir(settings)
        return values if whole is None else whole()

    def values_ir(self, settings: Settings) -> tuple[nodes.Kernel, Callable[[], nodes.Kernel] | None]:
        made = self._thread(settings)
        if made is None:
            return self._some_blocks(settings), None
        return made.kernel, functools.partial(self._whole, settings, made) if made.left_out else None

    def _thread(self, settings: Settings) -> Read | None:
        """The IR of one thread, or of one thread computing values; None where threads work in blocks."""
        self._check_modules()
        if self._tiled:
            return None
        try:
            made = self._values((settings.max_unroll, settings.debug, 0), settings)
        except UsesTiles:
            self._tiled = True
            return None
        self._tiled = False
        return made

    @property
    def uses_tiles(self) -> bool:
        """True if the kernel uses functions on tiles or wp.block_dim(), so that its threads work in blocks."""
        if self._tiled is None:
            self.values_ir(self.settled(config.settings))
        return bool(self._tiled)

    def block_ir(
        self,
        settings: Settings | None,
        block_dim: int,
        lane_axis: int | None,
        count: int | None = None,
        over: tuple[int, ...] = (),
    ) -> nodes.Kernel:
        """A kernel with tiles as IR that is run once for each block of `block_dim` threads.

        `lane_axis` is the axis of `wp.tid()` along which the threads of a block lie, None if it reads none such;
        where the last block is not full, there are `count` threads along it. With `over`, threads are those of a launch
        over so many, counted.
        """
        settings = self.settled(settings or config.settings)
        key = (settings.max_unroll, settings.debug, block_dim)

        def made() -> Read:
            thread = self._irs.made(key, lambda: self._read(key))  # the same wherever the threads of blocks lie
            return thread._replace(kernel=by_blocks(thread.kernel, block_dim, lane_axis, count, over))

        lanes = (*key, lane_axis, count, over)
        with self._lock, no_collection():
            return self._irs.made(lanes, lambda: self._kept(lanes, settings, made)).kernel

    def _values(self, key: tuple, settings: Settings) -> Read:
        """The IR of one thread, without the parts for derivatives where these can be read later."""

        def made() -> Read:
            found = self._thread_of((*key, True), settings)
            if not found.left_out:
                return found
            digest = self._digest
            return self._thread_of((*key, False), settings) if digest is None else found._replace(digest=digest)

        with self._lock, no_collection():
            return self._irs.made(key, made)

    def _whole(self, settings: Settings, values: Read) -> nodes.Kernel:
        """The IR of one thread with the parts for derivatives, provided that the rest still is as in `values`."""
        self._check_modules()
        key = (settings.max_unroll, settings.debug, 0)

        def made() -> Read:
            # Much of a digest may count for nothing: other attributes of an object that the kernel names.
            if self._digest != values.digest and not _are_same(self._thread_of((*key, True), settings), values):
                raise CompileError(
                    f"kernel `{self.name}` refers to something that has changed since it was read: its derivative "
                    "would be of another kernel than its values",
                    self.span,
                    "define the kernel anew after the change, or ask for its derivative before it",
                )
            return self._thread_of((*key, False), settings)

        with self._lock, no_collection():
            return self._irs.made((*key, False, values.digest), made).kernel

    @property
    def _digest(self) -> str | None:
        """Of all that it would now be read from; None where that is unknown."""
        content = self._content
        return None if content is None else content.digest

    @property
    def _content(self) -> Content | None:
        return content_of(self.python, self.first_read, self.signature, self._variables)

    def _thread_of(self, key: tuple, settings: Settings) -> Read:
        """The IR of one thread under the settings in `key`."""
        return self._kept(key, settings, lambda: self._read(key))

    def _read(self, key: tuple) -> Read:
        """Lower the source to the IR of one thread."""
        modules = dict(self._modules)
        found = lower_kernel_source(
            self.source, self.signature, self.params, *key, variables=self._variables, modules=modules
        )
        self._modules = modules
        return found

    def _kept(self, key: tuple, settings: Settings, make: Callable[[], Read]) -> Read:
        """The result of `make`, or that from disk of a kernel of the same content under the same settings."""
        version = sources() if settings.cache_dir else None
        content = self._content if version else None
        if not version or not content:
            return make()

        def write(made: Read | None) -> bytes | None:
            if made is None:
                return _USES_TILES
            entry = to_entry(known(made.kernel)) if made.said is not None else None
            return None if entry is None else json.dumps((made.said, made.left_out)).encode() + b"\n" + entry

        def read(entry: bytes) -> Read | None:
            if entry == _USES_TILES:
                found = None
            else:
                header, _, encoded = entry.partition(b"\n")
                said, left_out = json.loads(header)
                if any(file not in content.files.values() for _, file, _ in said):
                    raise ValueError("warnings name a file that has moved")
                found = Read(from_entry(encoded, content.files), said, left_out)
                warn(said)
            loaded = {module: getattr(module, "__spec__", None) for module in content.modules}
            self._modules = {**self._modules, **loaded}
            return found

        def made() -> Read | None:
            try:
                found = make()
            except UsesTiles:
                return None
            return found._replace(kernel=known(found.kernel))

        name = key_of("ir", version, content.digest, repr(key))
        found = Store(settings.cache_dir).made(name, made, write, read)
        if found is None:
            raise UsesTiles
        return found

    def _some_blocks(self, settings: Settings) -> nodes.Kernel:
        """The IR for a common size of the block; if its tiles fit none such, the error is that for the first."""
        first: JwarpError | None = None
        for size in _BLOCK_SIZES:
            try:
                return self.block_ir(settings, size, None)
            except JwarpError as error:
                first = first or error
        assert first is not None
        raise first

    def outputs(self, settings: Settings) -> tuple[int, ...]:
        return nodes.written_params(self.values_ir(self.settled(settings))[0])


def _are_same(x: Read, y: Read) -> bool:
    """True if two readings of a kernel give the same IR, gradients of functions included."""

    def fingerprints(read: Read) -> list[str]:
        gradients = [part for g in read.kernel.gradients for part in (fingerprint(known(g.kernel)), repr(g.feeds))]
        return [fingerprint(known(read.kernel)), *gradients]

    return fingerprints(x) == fingerprints(y)


class Instance(PythonKernel):
    """A generic kernel for certain types of its parameters. It is pickled as these."""

    def __init__(self, generic: GenericKernel, function: Callable, kinds: tuple[Any, ...], definition: Definition):
        named = {parameter.name: kind for parameter, kind in zip(generic.signature, kinds, strict=True)}
        super().__init__(function, generic.enable_backward, named, definition)
        self.generic, self.kinds = generic, kinds
        self._module, self.module_name, self.options = generic._module, generic.module_name, generic.options
        self._variables = generic.variables(kinds)

    def __reduce__(self) -> Any:
        return _instance, (self.generic, self.kinds)


def _instance(generic: GenericKernel, kinds: tuple[Any, ...]) -> Kernel:
    return generic.instance(kinds)


class HandleSpecialised(PythonKernel):
    """A kernel that is given the arrays of grids, trees and meshes instead of numbers that name these."""

    def __init__(self, plain: PythonKernel, kinds: tuple[tuple[int, StructType], ...]):
        named: dict[str, Any] = {parameter.name: user_type(parameter.type) for parameter in plain.signature}
        named |= {plain.signature[u].name: kind for u, kind in kinds}
        super().__init__(plain.python, plain.enable_backward, named, plain.first_read)
        self.plain, self.kinds = plain, kinds
        self.name, self.options = plain.name, plain.options
        self._module, self.module_name = plain._module, plain.module_name
        self._variables = plain._variables

    def __reduce__(self) -> Any:
        return PythonKernel.with_handles, (self.plain, dict(self.kinds))


class WithMemory(PythonKernel):
    """A kernel that looks numbers up when it runs: its last parameter is all memory, and what is alive in it."""

    looks_up = True

    def __init__(self, plain: PythonKernel):
        named: dict[str, Any] = {parameter.name: user_type(described(parameter.type)) for parameter in plain.signature}
        super().__init__(plain.python, plain.enable_backward, named, plain.first_read)
        self.plain = plain
        self.signature = (*self.signature, Parameter(MEMORY, MEMORY_TYPE))
        vars(self).pop("params", None)
        self.name, self.module_name, self.options = plain.name, plain.module_name, plain.options
        self._variables = plain._variables

    def __reduce__(self) -> Any:
        return PythonKernel.with_memory, (self.plain,)


_SPECIALISED: PerOwner[Kernel, Any, Kernel] = PerOwner("kernels for grids, trees and meshes", MAX_INSTANCES)


def kernel_of(function: Callable, enable_backward: bool | None = None, definition: Definition | None = None) -> Kernel:
    """The kernel that a function is, generic where the annotation of a parameter stands for several types."""
    definition = definition or defined(function)
    annotations = annotations_of(function, definition.captured)
    generic = generic_of(
        function, annotations, lambda kinds: Instance(generic, function, kinds, generic.definition), enable_backward
    )
    if generic:
        generic._definition = definition
    return generic or PythonKernel(function, enable_backward, annotations, definition)


def generic_of(
    function: Callable,
    annotations: Mapping[str, Any],
    make: Callable[[Any], Kernel],
    enable_backward: bool | None = None,
) -> Any:
    """The generic kernel of a function whose parameters have these annotations; None where none of them is open.

    `make` gives the kernel for one type for each parameter, as users write them.
    """
    if not any(is_open(wanted_type(annotation)) for name, annotation in annotations.items() if name != "return"):
        return None
    span = Span(file_of(function), function.__code__.co_firstlineno)
    made = GenericKernel(function.__name__, _parameters(function, annotations), span, make, enable_backward)
    functools.update_wrapper(made, function)
    made.python = function
    return made


def _is_of_ids(kind: Any) -> bool:
    """True if a parameter takes arrays of ids."""
    return isinstance(kind, ArrayType) and kind.element is uint64 and kind.dims > 0


_KNOWN_TYPES = (
    "use int, float, bool, a wp scalar, vector, matrix or struct type, or wp.array[…] to wp.array4d[…] of one"
)


def _parameters(function: Callable, annotations: Mapping[str, Any]) -> tuple[Parameter, ...]:
    params = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise CompileError(
                f"parameter `{name}` of kernel `{function.__name__}` must be positional",
                parameter_span(function, name),
                "a kernel has a fixed list of parameters, without `*`",
            )
        if name not in annotations:
            raise CompileError(
                f"parameter `{name}` of kernel `{function.__name__}` has no type",
                parameter_span(function, name),
                "a kernel is a plain function, not a method: define it outside the class"
                if name == "self"
                else f"annotate it: `{name}: float` or `{name}: wp.array[float]`",
            )
        type_: Any = as_type(annotations[name]) or wanted_type(annotations[name])
        if type_ is None:
            text = f"parameter `{name}` of kernel `{function.__name__}` "
            shown, hint = f"has type {_shown(annotations[name])}, which kernels do not know", _KNOWN_TYPES
            if is_union(annotations[name]):
                shown, hint = NO_UNIONS, in_place_of(annotations[name])
            raise CompileError(text + shown, parameter_span(function, name), hint, also=TypeError)
        if is_empty(type_):
            raise CompileError(
                f"parameter `{name}` of kernel `{function.__name__}` is {user_type(type_)!r}, which has no components",
                parameter_span(function, name),
                "make it in the kernel",
            )
        params.append(Parameter(name, type_))
    returned = annotations.get("return")
    if returned not in (None, NoneType):
        raise CompileError(
            f"kernel `{function.__name__}`: Warp kernels cannot return values. Write results to output arguments, "
            "and omit the return annotation or use `-> None`.",
            parameter_span(function, "return"),
            "store to an array parameter",
        )
    return tuple(params)


def _shown(annotation: Any) -> str:
    """The annotation as its author would write it."""
    plain = isinstance(annotation, type) and not hasattr(annotation, "__args__")
    return f"`{annotation.__qualname__}`" if plain else repr(annotation)


@overload
def kernel(function: Callable[..., Any]) -> Kernel: ...


@overload
def kernel(
    function: None = None,
    *,
    name: str | None = None,
    enable_backward: bool | None = None,
    module: Any = None,
    module_options: Mapping[str, Any] | None = None,
    launch_bounds: Any = None,
    cuda_max_registers: Any = None,
    enable_cuda_smem_spilling: Any = None,
    cluster_dim: Any = None,
    entry_point_abi: str | None = None,
    grid_stride: Any = None,
) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(
    function: Callable | None = None,
    *,
    name: str | None = None,
    enable_backward: bool | None = None,
    module: Any = None,
    module_options: Mapping[str, Any] | None = None,
    launch_bounds: Any = None,
    cuda_max_registers: Any = None,
    enable_cuda_smem_spilling: Any = None,
    cluster_dim: Any = None,
    entry_point_abi: str | None = None,
    grid_stride: Any = None,
) -> Any:
    """Make a kernel from a Python function, to be run by `wp.launch` or `wp.jax_kernel`.

    Every parameter needs a type: a scalar (`int`, `float`, `bool`, `wp.float64`, …), a vector or matrix (`wp.vec3`,
    `wp.mat33`, …), or an array of these with 1 to 4 dimensions (`wp.array[float]`, `wp.array2d[wp.vec3]`, …). With
    `Any`, a type variable or a pattern such as `wp.array[Any]`, the kernel is generic: each launch runs the instance
    for the types of its arguments.

    Args:
        function: The Python function. It is read when the kernel is first used. Numbers, vectors and matrices that it
            refers to by name are captured now.
        name: The name of the kernel. Default: that of the function.
        enable_backward: If False, gradients through this kernel are refused. Default: the option of its module.
        module: The module, or its name, whose options apply (`wp.set_module_options`); "unique" for a module of its
            own.
        module_options: Options of this kernel alone, with module="unique", as in Warp. `enable_backward`, `max_unroll`,
            `fast_math` and `deterministic` have an effect.
        launch_bounds, cuda_max_registers, enable_cuda_smem_spilling, cluster_dim, entry_point_abi, grid_stride:
            Accepted for compatibility with Warp; no effect.

    Raises:
        CompileError: A parameter has no type, or a type that kernels do not support. Errors in the body are reported
            when the kernel is first used.
        KernelTypeError: There is no such option, `entry_point_abi` is not Warp's own, or `name` is not an identifier.
    """
    if not isinstance(module_options, Mapping | None):
        kind = type(module_options).__name__
        raise KernelTypeError(f"@wp.kernel: module_options must be a dict, not {kind}", also=TypeError)
    if module_options is not None and module != "unique":
        raise KernelTypeError(
            '@wp.kernel: module_options need module="unique"',
            hint="or wp.set_module_options for a whole module",
            also=ValueError,
        )
    if entry_point_abi not in (None, "warp"):
        raise KernelTypeError(
            f"@wp.kernel: entry_point_abi={entry_point_abi!r} is for launches by other programs, which there are not"
        )
    if name is not None and not (name.isascii() and name.isidentifier()):
        raise KernelTypeError(f"@wp.kernel: name must be a valid C++ identifier, not {name!r}", also=ValueError)
    of_kernel = (
        launch_bounds,
        cuda_max_registers,
        enable_cuda_smem_spilling or None,  # False is the default
        cluster_dim,
        entry_point_abi,
        grid_stride,
    )
    options = checked(module_options or {}, "@wp.kernel")
    options |= {name: value for name, value in zip(OF_KERNELS, of_kernel, strict=True) if value is not None}

    def made(function: Callable) -> Kernel:
        check_function(function, "@wp.kernel")
        found = kernel_of(function, enable_backward)
        found.options = options
        if name is not None:
            found.name = found.key = name
        if isinstance(module, Module):
            found.belongs_to(module)
        elif module == "unique":
            return in_its_own_module(found, checked(module_options or {}, "@wp.kernel"))
        else:
            found.belongs_to(get_module(function.__module__ if module is None else name_of(module)))
        return found

    return made if function is None else made(function)
