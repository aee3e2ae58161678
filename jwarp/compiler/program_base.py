"""The code of launches: what callers ask of a program, whether its kernel is generated or handwritten."""

from __future__ import annotations

import abc
import functools
import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from jwarp.backend.cuda.version import Version
from jwarp.compiler import cuda
from jwarp.config import Settings
from jwarp.errors import Span
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir import nodes
from jwarp.launching.geometry import BlockDim, Geometry
from jwarp.types.arrays import Extents
from jwarp.wire import Role, join_texts

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class GpuCode:
    """The code of a launch for GPUs; `plan` is its plan for the native module.

    A block takes `shared` bytes; `grid` is as the image or, for a handwritten kernel, its author says. Where there are
    `failures`, the texts of checks, a launch may end with an error.
    """

    image: cuda.Image
    plan: np.ndarray
    shared: int
    grid: tuple[int, ...]
    failures: tuple[str, ...] = ()

    @property
    def failure_text(self) -> str:
        """The texts of checks as the native module takes them."""
        return join_texts(self.failures)


@dataclass(frozen=True, eq=False, repr=False)
class Program(abc.ABC):
    """The code of a launch: a kernel under given settings, equal where content and place are.

    The place counts because errors show it. `kernel` has the parameters and the number of launch dimensions.
    """

    kernel: nodes.Kernel
    settings: Settings
    owner: weakref.ref[Kernel] | None = None
    _key: tuple = field(init=False)
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        key = (type(self), self.name, self.fingerprint, self.span, self.settings, *self._others)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "_hash", hash(key))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Program) and self._key == other._key)

    # Every eager launch looks its compiled form up by descriptor and program.
    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name}, {self.kernel.variant}>"

    @property
    def name(self) -> str:
        """The name that its author gave the kernel."""
        return self.kernel.name

    @property
    def span(self) -> Span:
        """The place of the kernel in its source."""
        return self.kernel.span

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """A digest of the code."""

    @property
    def _others(self) -> tuple[Hashable, ...]:
        """Further parts of the key that programs are compared by."""
        return ()

    @property
    @abc.abstractmethod
    def written(self) -> tuple[int, ...]:
        """The parameters that the kernel stores to."""

    @property
    def params(self) -> tuple[nodes.Param, ...]:
        """The parameters that a launch gives values for."""
        return self.kernel.params

    @property
    def shadowed(self) -> tuple[int, ...]:
        """The parameters that checks have an array of the same shape for, among the last ones of the kernel."""
        return ()

    @functools.cached_property
    def dtypes(self) -> tuple[np.dtype, ...]:
        """The NumPy dtype of each parameter, of its elements for an array."""
        return tuple(param.dtype.dtype for param in self.kernel.params)

    @property
    @abc.abstractmethod
    def lasts(self) -> bool:
        """True if the kernel must run although nothing needs its results."""

    @abc.abstractmethod
    def arranged(self, dims: tuple[int, ...], block_dim: BlockDim | None) -> tuple[Program, Geometry]:
        """The program of launches over `dims` in blocks of `block_dim` threads, and what it is launched over.

        Raises:
            LaunchError: there are too many threads, or they do not make whole blocks for a kernel with tiles.
        """

    @abc.abstractmethod
    def merged(self, pairs: Pairs) -> Program:
        """The program with reads of p made reads of q for each pair (p, q), which are one array.

        Raises:
            LaunchError: the kernel takes them for different ones.
        """

    @abc.abstractmethod
    def refuse_content(self, roles: Sequence[Role]) -> None:
        """Raise LaunchError where an output has an initial content that the kernel is not said to read."""

    @abc.abstractmethod
    def check(self, geometry: Geometry, extents: Extents) -> None:
        """Raise LaunchError where a launch is certain to leave an array."""

    @abc.abstractmethod
    def gpu_version(
        self, geometry: Geometry, extents: Extents, batch: tuple[int, ...] = (), *, tf32: bool = False
    ) -> Version:
        """The version of the code that a GPU runs for such launches, of a batch of these extents.

        With `tf32`, factors of products of tiles of float32 may be rounded to 11 bits.

        Raises:
            LaunchError: it is certain to leave an array.
        """

    @abc.abstractmethod
    def gpu_code(
        self, version: Version, geometry: Geometry, block_dim: BlockDim | None, architectures: Sequence[str]
    ) -> GpuCode:
        """A version compiled for the architectures.

        Raises:
            LaunchError: there is no NVRTC, or blocks of that size are impossible.
            CompileError: it cannot be compiled.
        """
