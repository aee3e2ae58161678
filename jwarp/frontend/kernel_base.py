"""The base of every kernel, whatever it is written in: a name, parameters, and IR if there is a body to read."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.caches import MAX_SHAPES, Cache, PerOwner
from jwarp.config import Settings, config
from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.by_name import ByName, full_name
from jwarp.frontend.modules import Module, get_module
from jwarp.frontend.options import option, settled
from jwarp.ir import nodes
from jwarp.types import AnyType, StructArrayType, StructType, has_arrays, leaves, may_hold_handles, uint64


@dataclass(frozen=True)
class Parameter:
    """A parameter as it is written. One of a struct is taken apart into several of the IR."""

    name: str
    type: AnyType

    @property
    def is_value(self) -> bool:
        """True if the parameter is a number, vector, matrix or struct of such, passed by value."""
        return not has_arrays(self.type)


def handles_of(signature: Sequence[Parameter]) -> tuple[int, ...]:
    """The parameters that are numbers which may name a grid, tree, mesh or volume, or structs that may have these."""
    kinds = [parameter.type for parameter in signature]
    return tuple(
        u for u, kind in enumerate(kinds) if kind is uint64 or (isinstance(kind, StructType) and may_hold_handles(kind))
    )


class Kernel(ByName):
    """A kernel that can be launched, from `@wp.kernel` or `wp.cuda_kernel`.

    `signature` has the parameters as they are written, and `span` their place in the source.
    """

    # It is no abstract base class for Python: `isinstance`, at each launch, takes several times as long for those.

    made_by = "@wp.kernel"
    is_generic = False  # whether parameters stand for several types, so that an instance of it is launched

    handles: tuple[int, ...] = ()  # the parameters that grids, trees and meshes may be given for

    id_lists: tuple[int, ...] = ()  # the parameters that arrays of the ids of such may be given for

    looks_up = False  # whether its last parameter is all memory, in which it looks numbers up

    module_name = ""  # the name of the module whose options are its own
    _module: Module | None = None  # that module, where it is another one than that of the name
    options: Mapping[str, Any] = {}  # that count more than the module's

    def __init__(self, name: str, signature: tuple[Parameter, ...], span: Span, enable_backward: bool | None = None):
        self.name = self.__name__ = name
        self.signature = signature
        self.span = span
        self._enable_backward = enable_backward

    @property
    def key(self) -> str:
        """The name of the kernel, with the names of the scopes that define it, as in Warp: `solve__locals__step`."""
        own: str | None = vars(self).get("_key")
        return own or full_name(getattr(self, "__qualname__", self.name))

    @key.setter
    def key(self, key: str) -> None:
        self._key = key

    @property
    def module(self) -> Module:
        """The module whose options apply to the kernel."""
        return self._module or get_module(self.module_name)

    def belongs_to(self, module: Module, is_unique: bool = False) -> None:
        """Make the kernel one of a module's, whose options are its own from then on; perhaps the only one."""
        self._module, self.module_name = module, module.name
        module.add_kernel(self, is_unique)

    def forget(self) -> None:
        """Drop what was read of it, so that its next use reads it anew, with what it names as it is then."""

    @property
    def state(self) -> str:
        """A text that differs where the kernel's code, its parameters or its options do."""
        return f"{self!r} {sorted(self.options.items(), key=str)} {self.enable_backward}"

    def check(self) -> None:
        """Read the kernel, or that it was read. Types may not match yet: what its arguments name may be unknown.

        Raises:
            CompileError: its source, as launches would find. A kernel whose types do not match may never be launched.
        """
        with contextlib.suppress(KernelTypeError):
            self.values_ir(self.settled(config.settings))

    @property
    def enable_backward(self) -> bool:
        """True if the kernel has gradients, by its own option or that of its module."""
        if self._enable_backward is not None:
            return self._enable_backward
        return bool(option("enable_backward", self.module_name, self.options))

    def with_handles(self, kinds: Mapping[int, StructType]) -> Kernel:
        """The kernel for structs of these types in the place of some of the parameters `handles`, by parameter."""
        raise NotImplementedError(f"{self!r} takes no grids, trees and meshes")

    @property
    def has_looked_up(self) -> bool:
        """True if the store says that a kernel of this content looks numbers up, which none was read to find out."""
        return False

    def keep_look_ups(self) -> None:
        """Let the store say that it looks numbers up."""

    def with_memory(self) -> Kernel:
        """The kernel with one more parameter, all memory, so that it looks numbers up when it runs."""
        raise NotImplementedError(f"{self!r} looks no numbers up")

    def settled(self, settings: Settings) -> Settings:
        """The settings for this kernel, whose options count more than those in force."""
        return settled(settings, self.module_name, self.options)

    @functools.cached_property
    def params(self) -> tuple[nodes.Param, ...]:
        """The parameters of the IR."""
        return tuple(nodes.Param(*leaf) for a in self.signature for leaf in leaves(a.name, a.type))

    @functools.cached_property
    def groups(self) -> tuple[range, ...]:
        """Which parameters of the IR each one of the signature is taken apart into."""
        counts = (len(list(leaves(a.name, a.type))) for a in self.signature)
        return tuple(range(*pair) for pair in itertools.pairwise(itertools.accumulate(counts, initial=0)))

    @functools.cached_property
    def numbers(self) -> tuple[int, ...]:
        """The parameters of the IR that are passed by value, but for the parts of grids, trees, meshes and volumes."""
        own = [is_own for a in self.signature for is_own in _own_parts(a.name, a.type)]
        return tuple(p for p, param in enumerate(self.params) if param.is_value and own[p])

    @functools.cached_property
    def has_structs(self) -> bool:
        """True if some parameter is a struct or an array of structs."""
        return any(isinstance(a.type, (StructType, StructArrayType)) for a in self.signature)

    @functools.cached_property
    def _executables(self) -> Cache[Any, Any]:
        return _PLANS.of(self)

    @property
    def reloads(self) -> int:
        """The number of times that its code has been read anew, as a module that it names has been reloaded."""
        return 0

    @property
    def executables(self) -> Cache[Any, Any]:
        """The executables of its calls, by layout key."""
        return self._executables

    def ir(self, settings: Settings | None = None) -> nodes.Kernel:
        """The kernel as IR under `settings` (by default those in force).

        Raises:
            CompileError: it has none, or is not written in the kernel language.
        """
        raise NotImplementedError

    def values_ir(self, settings: Settings) -> tuple[nodes.Kernel, Callable[[], nodes.Kernel] | None]:
        """The kernel as IR that gives the same values, and what reads `ir` if something is left out of it.

        That is what is for derivatives. If the kernel has become another one since, reading is a CompileError.
        """
        return self.ir(settings), None

    @property
    def uses_tiles(self) -> bool:
        """True if threads work in blocks, so that there is IR for each block size."""
        return False

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
        raise NotImplementedError(f"{self!r} has no blocks")

    def outputs(self, settings: Settings) -> tuple[int, ...]:
        """The parameters of the IR that it writes."""
        raise NotImplementedError

    def may_read(self, output: int) -> bool:
        """True if the initial content of an output may be read."""
        return True

    @property
    def known_outputs(self) -> tuple[Sequence[int], Sequence[int]] | None:
        """The in-out parameters and the other outputs, where the kernel's author has said which they are."""
        return None

    def __getitem__(self, kinds: Any) -> Kernel:
        """The instance of a generic kernel for these types of what its parameters leave open."""
        raise KernelTypeError(f"kernel '{self.name}' is not generic: there is nothing to choose with {self.name}[…]")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"kernel `{self.name}` is launched, not called: wp.launch({self.name}, dim, …), or"
            f" wp.jax_kernel({self.name})(…), which is a JAX function"
        )

    def __repr__(self) -> str:
        params = ", ".join(f"{p.name}: {p.type}" for p in self.signature)
        return f"<{self.made_by.removeprefix('@')} {self.name}({params})>"


def _own_parts(name: str, kind: Any) -> Iterator[bool]:
    """For each parameter that one of a kernel's is taken apart into, whether it is no part of a grid or its like."""
    if isinstance(kind, StructType) and not kind.is_handle:
        for field, inner in kind.fields.items():
            yield from _own_parts(f"{name}.{field}", inner)
    else:
        yield from (not isinstance(kind, StructType) for _ in leaves(name, kind))


_PLANS: PerOwner[Kernel, Any, Any] = PerOwner("repeated launches of a kernel", MAX_SHAPES)
