"""Keeps on disk what is worked out about a program before there is machine code, for later processes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, TypeVar

from jwarp.collector import no_collection
from jwarp.config import Settings
from jwarp.ir.nodes import Kernel, KnownKernel
from jwarp.ir.serialize import from_entry, known, to_bytes, to_entry
from jwarp.sources import sources
from jwarp.store import Store, key_of

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class DerivationCache:
    """The place on disk of what is derived from a program.

    `origin` is a digest of all that the program is made from, but for the paths of the `files` of its source, pairs of
    names and paths: what is read gets those that these files have now. Without an origin nothing is kept.
    """

    folder: str = ""
    origin: str = ""
    files: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(kernel: Kernel, settings: Settings) -> DerivationCache:
        """That of a kernel's program under `settings`."""
        version = sources() if settings.cache_dir else None
        if version is None or not isinstance(kernel, KnownKernel) or to_entry(kernel) is None:
            return NO_CACHE
        gradients = [part for g in kernel.gradients for part in (to_bytes(g.kernel), repr(g.feeds))]
        under = repr(dataclasses.replace(settings, cache_dir=""))
        return DerivationCache(
            settings.cache_dir, key_of("program", version, to_bytes(kernel), *gradients, under), kernel.facts.files
        )

    def derived(self, *how: str) -> DerivationCache:
        """That of what is made of the program; `how` says in which way."""
        return dataclasses.replace(self, origin=key_of("derived", self.origin, *how)) if self.origin else self

    def made(
        self, name: str, make: Callable[[], T], write: Callable[[T], bytes | None], read: Callable[[bytes], T]
    ) -> T:
        """The result of `make`, from disk if it is there under this name; not stored if `write` has no bytes for it."""
        with no_collection():
            if not self.origin:
                return make()
            return Store(self.folder).made(key_of("kept", self.origin, name), make, write, read)

    def value(self, name: str, make: Callable[[], T], write: Callable[[T], Any], read: Callable[[Any], T]) -> T:
        """The same for what can be written as numbers, texts, None and lists of such, and be made of these."""
        return self.made(name, make, lambda x: json.dumps(write(x)).encode(), lambda entry: read(json.loads(entry)))

    def kernel(self, name: str, make: Callable[[], Kernel]) -> Kernel:
        """The same for a kernel, whose body is read when it is looked at."""

        def made() -> Kernel:
            return known(make()) if self.origin else make()

        return self.made(name, made, _written, lambda entry: from_entry(entry, dict(self.files)))


def _written(kernel: Kernel) -> bytes | None:
    return to_entry(known(kernel))


NO_CACHE = DerivationCache()
