"""Modules as Warp programs know them: names that options are set for, and that kernels belong to."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, Self

from jwarp.caches import Cache
from jwarp.devices import DeviceLike, get_device
from jwarp.frontend.options import get_module_options, set_module_options


class Options(MutableMapping[str, Any]):
    """The options of a module, as they are now; what is put here is set, as by `wp.set_module_options`."""

    def __init__(self, module: str):
        self._module = module

    def __getitem__(self, name: str) -> Any:
        return get_module_options(self._module)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        set_module_options({name: value}, self._module)

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"options of modules cannot be deleted: {name!r}")

    def __iter__(self) -> Iterator[str]:
        return iter(get_module_options(self._module))

    def __len__(self) -> int:
        return len(get_module_options(self._module))

    def __repr__(self) -> str:
        return repr(dict(self))


class Module:
    """The kernels of a Python module, or of what `wp.get_module` made; `kernel.module` is that of a kernel.

    Attributes:
        name: Its name.
        options: What `wp.set_module_options` sets for its kernels.
    """

    def __init__(self, name: str, loader: Any = None) -> None:
        self.name = name
        self.loader = loader

    @property
    def options(self) -> Options:
        """The options that hold for its kernels. What is assigned to an entry holds from then on."""
        return Options(self.name)

    def set_options(self, options: dict[str, Any]) -> None:
        """As `wp.set_module_options`."""
        set_module_options(options, self)

    def load(self, device: DeviceLike = None, block_dim: int | None = None, **others: Any) -> Self:
        """The module itself: kernels are compiled when they are first launched, and there is nothing to load.

        Raises:
            LaunchError: there is no such device.
        """
        get_device(device)
        return self

    def unload(self) -> None:
        """Nothing: code is dropped with the kernels."""

    def mark_modified(self) -> None:
        """Nothing: what changed is found by what kernels are made of."""

    def __repr__(self) -> str:
        return f"<jwarp module {self.name!r}>"


_modules: Cache[str, Module] = Cache("modules that programs asked for", 4096)


def get_module(name: str) -> Module:
    """The module of a name. Kernels of it need not exist yet."""
    return _modules.made(name, lambda: Module(name))
