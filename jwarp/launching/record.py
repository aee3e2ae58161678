"""A launch record as data: for tools, and as a value that can be compared, kept and sent."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from jwarp.config import LAUNCH_SETTINGS, Settings
from jwarp.errors import LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.nodes import Param
from jwarp.launching.geometry import BlockDim, Geometry
from jwarp.types import MAX_DIMS, SCALARS, ArrayType
from jwarp.types.arrays import Extents

MAGIC = b"jwarp launch 1\n"
DIGEST = 16

ROLES = ("in", "out", "inout", "unset")


@dataclass(frozen=True)
class ParamInfo:
    """One parameter of a launch: `kind` is `scalar`, `value` (a vector or matrix) or `array`.

    `rank` counts the axes of a JAX array, component axes included; `role` is `in`, `out` (from zeros), `inout`,
    or `unset` where nothing has been given yet.
    """

    name: str
    kind: str
    dtype: str
    rank: int
    role: str


@dataclass(frozen=True)
class LaunchDescriptor:
    """A launch without its data. Descriptors are equal if the launches do the same on other data.

    `fingerprint` is a hash of the kernel's code. `variant` is `forward`, or `adjoint(x, k)` with the names of the
    parameters whose gradients are requested. `settings` are the settings that change code, by name.
    """

    kernel: str
    fingerprint: str
    variant: str
    dims: tuple[int, ...] | None
    block_dim: BlockDim | None
    params: tuple[ParamInfo, ...]
    settings: tuple[tuple[str, Any], ...]

    def to_bytes(self) -> bytes:
        """The descriptor as bytes, for `from_bytes` in any process."""
        payload = json.dumps(dataclasses.astuple(self), separators=(",", ":")).encode()
        return MAGIC + hashlib.blake2b(payload, digest_size=DIGEST).digest() + payload

    @staticmethod
    def from_bytes(data: bytes) -> LaunchDescriptor:
        """The descriptor that `to_bytes` made bytes of.

        Raises:
            LaunchError: the bytes are damaged, or of another version of jwarp.
        """
        try:
            return _decode(bytes(data))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise LaunchError(
                f"no launch descriptor: {error}", hint="pass what LaunchDescriptor.to_bytes gave"
            ) from None


@dataclass(frozen=True)
class Sizes:
    """The threads of a launch, the shapes of its arrays, and the integers among its arguments, by parameter."""

    geometry: Geometry
    extents: Extents
    integers: dict[int, int]


class Record:
    """A record for tools: its kernel, and the gradients that it gives."""

    kernel: Kernel
    adjoint: bool

    @property
    def wanted(self) -> tuple[str, ...]:
        """The parameters whose gradients an adjoint record gives, by name."""
        raise NotImplementedError

    def sizes(self) -> Sizes | None:
        """The facts that the choice of an adjoint depends on; None while something is not set, or JAX traces."""
        raise NotImplementedError


def info_of(param: Param, role: str) -> ParamInfo:
    """The part of a descriptor for one parameter."""
    if isinstance(param.type, ArrayType):
        return ParamInfo(param.name, "value" if param.is_value else "array", param.dtype.name, param.type.ndim, role)
    return ParamInfo(param.name, "scalar", param.dtype.name, 0, role)


def code_settings(settings: Settings) -> tuple[tuple[str, Any], ...]:
    """The settings of a descriptor."""
    return tuple((name, getattr(settings, name)) for name in LAUNCH_SETTINGS)


def _decode(data: bytes) -> LaunchDescriptor:
    if not data.startswith(MAGIC):
        raise ValueError("it does not start as one, or is of another version")
    digest, payload = data[len(MAGIC) :][:DIGEST], data[len(MAGIC) + DIGEST :]
    if hashlib.blake2b(payload, digest_size=DIGEST).digest() != digest:
        raise ValueError("the bytes are damaged")
    kernel, fingerprint, variant, dims, block_dim, params, settings = json.loads(payload)
    for text in (kernel, fingerprint, variant):
        _expect(isinstance(text, str), "a text")
    if dims is not None:
        _expect(isinstance(dims, list) and len(dims) <= MAX_DIMS and all(_is_extent(n, 63) for n in dims), "dims")
        dims = tuple(dims)
    _expect(block_dim is None or _is_extent(block_dim), "block_dim")
    infos = tuple(ParamInfo(*entry) for entry in params)
    for info in infos:
        texts = all(isinstance(x, str) for x in (info.name, info.kind, info.dtype, info.role))
        _expect(texts and info.dtype in SCALARS and info.role in ROLES and _is_extent(info.rank), "a parameter")
        _expect(info.kind in ("scalar", "value", "array"), "a kind")
    _expect([name for name, _ in settings] == list(LAUNCH_SETTINGS), "settings")
    _expect(all(isinstance(value, (str, bool, int)) for _, value in settings), "settings")
    pairs = tuple((name, value) for name, value in settings)
    return LaunchDescriptor(kernel, fingerprint, variant, dims, block_dim, infos, pairs)


def _is_extent(n: Any, bits: int = 31) -> bool:
    return type(n) is int and 0 <= n < 1 << bits


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} is not what it should be")
