"""Modules as Warp programs know them: names that options are set for, and that kernels belong to."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Protocol, Self

from jwarp.caches import Cache
from jwarp.config import config, surface
from jwarp.devices import DeviceLike, get_device
from jwarp.frontend.options import get_module_options, reset_module_options, set_module_options


class Options(MutableMapping[str, Any]):
    """The options of a module, as they are now; what is put here is set, as by `wp.set_module_options`."""

    def __init__(self, module: str):
        self._module = module

    def __getitem__(self, name: str) -> Any:
        return get_module_options(self._module)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        set_module_options({name: value}, self._module)

    def __delitem__(self, name: str) -> None:
        if name not in get_module_options(self._module):
            raise KeyError(name)
        reset_module_options(self._module, [name])

    def clear(self) -> None:
        """Have all options be as before anybody set them."""
        reset_module_options(self._module, list(self))

    def __or__(self, others: Mapping[str, Any]) -> dict[str, Any]:
        """The options with those of a mapping in their place, as a dict."""
        return {**self, **others}

    def __iter__(self) -> Iterator[str]:
        return iter(get_module_options(self._module))

    def __len__(self) -> int:
        return len(get_module_options(self._module))

    def __repr__(self) -> str:
        return repr(dict(self))


class Member(Protocol):
    """A kernel or function of a module."""

    @property
    def key(self) -> str:
        """Its name in the module."""

    def forget(self) -> None:
        """Drop what was read of it, so that its next use reads it anew."""


class ReadMember(Member, Protocol):
    """A kernel of a module."""

    @property
    def state(self) -> str:
        """A text that differs where the kernel's code or its options do."""

    def check(self) -> None:
        """Read it, to find faults of its source."""


class Module:
    """The kernels of a Python module, or of a module from `wp.get_module`.

    Attributes:
        name: The name.
        kernels, functions: The latest kernel or function with each key, while something else refers to it. In Warp
            programs, the module itself keeps kernels.
        options: The options that `wp.set_module_options` sets for its kernels.
        execs: In programs: the module, by the device's context and block size of each call of `load`.
    """

    def __init__(self, name: str, loader: Any = None) -> None:
        self.name = name
        self.loader = loader
        self.kernels: weakref.WeakValueDictionary[str, ReadMember] = weakref.WeakValueDictionary()
        self.functions: weakref.WeakValueDictionary[str, Member] = weakref.WeakValueDictionary()
        self.live_kernels: weakref.WeakSet[ReadMember] = weakref.WeakSet()
        self._live_functions: weakref.WeakSet[Member] = weakref.WeakSet()
        self._kept: dict[str, ReadMember] = {}
        self.execs: dict[tuple[Any, int], Module] = {}

    def add_kernel(self, kernel: ReadMember, is_unique: bool = False) -> None:
        """Take a kernel into the module; `is_unique`: the module is that of this kernel alone."""
        self.kernels[kernel.key] = kernel
        self.live_kernels.add(kernel)
        if surface.is_warps and not is_unique:
            self._kept[kernel.key] = kernel

    def add_function(self, function: Member) -> None:
        """Take a function into the module."""
        self.functions[function.key] = function
        self._live_functions.add(function)

    @property
    def options(self) -> Options:
        """The options that hold for its kernels. What is assigned to an entry holds from then on."""
        return Options(self.name)

    @options.setter
    def options(self, options: Mapping[str, Any]) -> None:
        if not isinstance(options, Options) or options._module != self.name:
            options = dict(options)
            self.options.clear()
            set_module_options(options, self)

    def set_options(self, options: dict[str, Any]) -> None:
        """As `wp.set_module_options`."""
        set_module_options(options, self)

    def load(self, device: DeviceLike = None, block_dim: int | None = None, **others: Any) -> Self:
        """Returns the module itself: each kernel is compiled when it is first launched. In programs, they are read now.

        Raises:
            LaunchError: There is no such device.
            CompileError, KernelTypeError: In programs, a kernel is not written in the kernel language.
        """
        where = get_device(device)
        if surface.is_warps:
            for kernel in [*self.kernels.values()]:
                kernel.check()
            self._note(where, block_dim)
        return self

    def _note(self, device: Any, block_dim: int | None) -> None:
        """Note what was asked for; without a number, what is known stays."""
        is_open = block_dim is None or block_dim <= 0
        if is_open and any(context == device.context for context, _ in self.execs):
            return
        size = (1 if device.is_cpu else 256) if is_open else int(block_dim or 0)
        self.execs[device.context, 1 if device.is_cpu and not config.of_warp["enable_cpu_blocks"] else size] = self

    def unload(self) -> None:
        """Let the next launches read the kernels again, as after `mark_modified`."""
        self.execs.clear()
        self.mark_modified()

    def mark_modified(self) -> None:
        """Let the next launches read kernels and functions again, with the current values of the names in them."""
        for member in (*self._live_functions, *self.live_kernels):
            member.forget()

    def hash_module(self) -> bytes:
        """A hash of its kernels' code and options: 32 bytes, equal for modules with equal kernels.

        Raises:
            CompileError: a kernel is not written in the kernel language.
        """
        texts = sorted(f"{kernel.key}\0{kernel.state}" for kernel in self.live_kernels)
        options = {name: getattr(config, name, None) if x is None else x for name, x in self.options.items()}
        about = texts, sorted(options.items(), key=str), config.verify_fp, config.settings.bounds, config.settings.debug
        return hashlib.sha256(repr(about).encode()).digest()

    def get_module_hash(self, block_dim: int | None = None) -> bytes:
        """As `hash_module`: code is compiled for the block of each launch."""
        return self.hash_module()

    def __repr__(self) -> str:
        return f"<jwarp module {self.name!r}>"


_modules: Cache[str, Module] = Cache("modules that programs asked for", 4096)


def known_modules() -> dict[str, Module]:
    """The modules that programs asked for, by name."""
    return {**_modules.rest, **_modules.recent}


def forget_module(name: str) -> None:
    """Have the next one who asks for the module make another one."""
    _modules.recent.pop(name, None)
    _modules.rest.pop(name, None)


def get_module(name: str) -> Module:
    """The module of a name. Kernels of it need not exist yet."""
    return _modules.made(name, lambda: Module(name))
