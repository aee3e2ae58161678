"""Textures: images that kernels sample between their elements. They are structs of texels and of how these are read."""

from __future__ import annotations

import enum
import math
from typing import Any, NoReturn, Self

import numpy as np

from jwarp.arrays.allocation import jax_value
from jwarp.arrays.array import array
from jwarp.arrays.create import zeros
from jwarp.config import surface
from jwarp.devices import get_device
from jwarp.errors import JwarpError, KernelTypeError, LaunchError
from jwarp.types import ArrayType, CompositeType, Struct, StructType
from jwarp.types.scalars import bool_, float16, float32, int8, int16, int32, uint8, uint16, uint32
from jwarp.types.structs import declare_struct, unchecked


class TextureFilterMode(enum.IntEnum):
    """How textures are read between their elements."""

    CLOSEST = 0
    LINEAR = 1


class TextureAddressMode(enum.IntEnum):
    """Values of a texture outside of its elements."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


class TextureResourceFlags(enum.IntFlag):
    """How textures are used by graphics."""

    NONE = 0
    READ_ONLY = 1
    WRITE_DISCARD = 2
    SURFACE_LDST = 4
    TEXTURE_GATHER = 8


MAX_LEVELS = 16
_KINDS = (uint8, uint16, float32, int8, int16, float16, uint32, int32)  # a texture has the index of its own
_CHANNELS = (1, 2, 4)

# The fields that say how texels are read: under JAX, they are constants.
_SETTINGS = {
    "width": int32,
    "height": int32,
    "depth": int32,
    "num_channels": int32,
    "num_mip_levels": int32,
    "filter_mode": int32,
    "mip_filter_mode": int32,
    "address_mode_u": int32,
    "address_mode_v": int32,
    "address_mode_w": int32,
    "normalized_coords": bool_,
    "kind": int32,
}


class Texture(Struct):
    """Base of `Texture1D`, `Texture2D` and `Texture3D`: an array of texels that kernels sample with `texture_sample`.

    Args:
        data: The texels: an array of NumPy, JAX or jwarp of shape (width,), (height, width) or (depth, height, width),
            with a further axis for the channels if there are 2 or 4; or an array of vectors. Of type uint8, uint16,
            uint32, int8, int16, int32, float16 or float32. Without it, texels are 0.
        width, height, depth, num_channels, dtype: The extents and type, if there is no `data`.
        filter_mode: `CLOSEST` takes the nearest texel, `LINEAR` interpolates; the default is `LINEAR`, for integers of
            32 bits `CLOSEST`, which is all they can have.
        address_mode: What is outside: one mode for all axes, or a tuple with one for each.
        address_mode_u, address_mode_v, address_mode_w: The mode of one axis.
        normalized_coords: If True, coordinates run from 0 to 1 along each axis, else from 0 to the extent.
        num_mip_levels: The number of levels, each of half the extents of the one before, of averages; 0 for all down to
            one texel.
        mip_filter_mode: `LINEAR` interpolates between two levels.
        device: The device of the texels.

    Integers of 8 and 16 bits are read as 0 to 1, or -1 to 1; others as their numbers. `texels` has what is read, as
    float32 of shape (n,), channels last, the levels one after the other: an array of jwarp if `data` is one, a `device`
    is given or there is no `data`, otherwise one of NumPy or JAX. It is the only leaf of a texture as a pytree.

    Raises:
        KernelTypeError: An argument has a wrong type or value; also a ValueError.
    """

    __slots__ = ()
    ndim = 0

    texels: Any
    width: int
    height: int
    depth: int
    num_channels: int
    num_mip_levels: int
    filter_mode: TextureFilterMode
    mip_filter_mode: TextureFilterMode
    address_mode_u: TextureAddressMode
    address_mode_v: TextureAddressMode
    address_mode_w: TextureAddressMode
    normalized_coords: bool
    kind: int
    _given: Any  # integers as they were given, for copies

    def __init__(self, *given: Any, **named: Any) -> None:
        if type(self).ndim == 0:
            _refuse("Texture", "has no number of dimensions: make a Texture1D, Texture2D or Texture3D")
        if not given and not named:
            empty = dict.fromkeys(_SETTINGS, 0) | {"normalized_coords": True, "kind": _KINDS.index(float32)}
            _fill(self, {"texels": None, **empty}, None)
        else:
            self._build(*given, **named)

    def _build(
        self,
        data: Any = None,
        width: int = 0,
        height: int = 0,
        depth: int = 0,
        num_channels: int = 0,
        dtype: Any = None,
        filter_mode: Any = None,
        address_mode: Any = TextureAddressMode.CLAMP,
        address_mode_u: Any = None,
        address_mode_v: Any = None,
        address_mode_w: Any = None,
        normalized_coords: Any = True,
        num_mip_levels: int = 1,
        mip_filter_mode: Any = None,
        device: Any = None,
        surface_access: bool = False,
        cuda_array: int = 0,
    ) -> None:
        name, ndim = type(self).__name__, self.ndim
        if cuda_array or surface_access:
            _refuse(name, "texels are ordinary arrays: there are no surfaces and arrays of CUDA's", RuntimeError)
        values = None if data is None else _values(name, data)
        wanted = {"width": width, "height": height, "depth": depth}
        if values is None:
            kind = {float: float32, int: int32}.get(dtype, dtype)
            extents, channels = [int(x) for x in (depth, height, width)[3 - ndim :]], int(num_channels)
        else:
            kind, extents, channels = _described(name, ndim, data, values)
            _same(name, "channels", num_channels, channels)
            _same(name, "dtype", {float: float32, int: int32}.get(dtype, dtype), kind)
            for asked, found in zip(("depth", "height", "width")[3 - ndim :], extents, strict=True):
                _same(name, asked, wanted[asked], found)
        if kind not in _KINDS:
            known = ", ".join(str(k) for k in _KINDS)
            _refuse(name, f"Unsupported texture dtype: {kind}. Supported: {known}")
        for axis, extent in zip(("depth", "height", "width")[3 - ndim :], extents, strict=True):
            if extent <= 0:
                _refuse(name, f"Texture {axis} must be a positive integer")
        if channels not in _CHANNELS:
            _refuse(name, "Texture num_channels must be 1, 2, or 4")
        levels = _level_count(name, max(extents), extents, num_mip_levels)
        if levels > 1 and values is None:
            _refuse(name, "Mipmapped textures require data to be provided at construction")
        modes = [
            _address_mode(address_mode, own, axis) if axis < ndim else TextureAddressMode.CLAMP
            for axis, own in enumerate((address_mode_u, address_mode_v, address_mode_w))
        ]
        is_wide = kind in (int32, uint32)
        default = TextureFilterMode.CLOSEST if is_wide else TextureFilterMode.LINEAR
        filters = []
        for what, mode in (("filter mode", filter_mode), ("mip filter mode", mip_filter_mode)):
            try:
                filters.append(default if mode is None else TextureFilterMode(mode))
            except (TypeError, ValueError):
                _refuse(name, f"Invalid texture {what}: {mode}")
        if is_wide and filters[0] != TextureFilterMode.CLOSEST:
            _refuse(name, "32-bit integer textures require filter_mode=TextureFilterMode.CLOSEST")
        if is_wide and levels > 1 and filters[1] != TextureFilterMode.CLOSEST:
            _refuse(name, "32-bit integer mipmapped textures require mip_filter_mode=TextureFilterMode.CLOSEST")
        whole = [1] * (3 - ndim) + extents
        settings = {
            **dict(zip(("depth", "height", "width"), whole, strict=True)),
            "num_channels": channels,
            "num_mip_levels": levels,
            "filter_mode": filters[0],
            "mip_filter_mode": filters[1],
            **dict(zip(("address_mode_u", "address_mode_v", "address_mode_w"), modes, strict=True)),
            "normalized_coords": bool(normalized_coords),
            "kind": _KINDS.index(kind),
        }
        given: Any = None
        if values is None:
            texels: Any = zeros(math.prod(extents) * channels, dtype=float32, device=device)
        else:
            chain = _levels(values.reshape(*extents, channels), levels)
            flat = _decoded(_space(values).concatenate([level.reshape(-1) for level in chain]))
            texels = _kept(flat, data, device)
            given = np.array(values).reshape(-1) if isinstance(values, np.ndarray) and not kind.is_float else None
        _fill(self, {"texels": texels, **settings}, given)

    def replace(self, /, **changes: Any) -> Self:
        """A texture with other `texels`, which may be traced by JAX.

        Raises:
            KernelTypeError: another field is given, which belongs together with the texels.
        """
        if others := changes.keys() - {"texels"}:
            raise KernelTypeError(
                f"{type(self)!r}.replace: '{min(others)}' belongs to the texels; make another texture"
            )
        made = unchecked(type(self), {name: getattr(self, name) for name in type(self).fields} | changes)
        object.__setattr__(made, "_given", None)
        return made

    __replace__ = replace

    def __setattr__(self, name: str, value: Any) -> None:
        raise KernelTypeError(f"{type(self)!r}.{name} is not set: make another texture, or use copy_from")

    def __setstate__(self, state: Any) -> None:
        _fill(self, state[1], None)

    @property
    def dtype(self) -> Any:
        """The type of the texels that it was made of."""
        return _KINDS[self.kind]

    @property
    def is_mipmapped(self) -> bool:
        """True if there is more than one level."""
        return self.num_mip_levels > 1

    @property
    def device(self) -> Any:
        """The device of the texels."""
        return self.texels.device if isinstance(self.texels, array) else get_device("cpu")

    @property
    def id(self) -> int:
        """A number that no other texture has while this one is alive.

        Raises:
            LaunchError: the texels are JAX's, which have no address.
        """
        if isinstance(self.texels, np.ndarray):
            return int(self.texels.ctypes.data)
        if not isinstance(self.texels, array):
            raise LaunchError("a texture of JAX's values has no id")
        return int(self.texels.ptr)

    @property
    def cuda_array(self) -> NoReturn:
        """Is refused: texels are ordinary arrays."""
        _refuse_handle("cuda_array")

    @property
    def cuda_texture(self) -> NoReturn:
        """Is refused: texels are ordinary arrays."""
        _refuse_handle("cuda_texture")

    @property
    def cuda_surface(self) -> NoReturn:
        """Is refused: texels are ordinary arrays."""
        _refuse_handle("cuda_surface")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the data: extents, and the channels where there are more than one."""
        extents = (self.depth, self.height, self.width)[3 - self.ndim :]
        return extents if self.num_channels == 1 else (*extents, self.num_channels)

    def copy_from(self, src: Any) -> None:
        """Set the texels to those of an array or of another texture.

        Raises:
            LaunchError: it has another shape or type, or there are several levels; also a ValueError or RuntimeError.
        """
        values = self._other("copy_from", src, "source")
        if isinstance(self.texels, array):
            self.texels.assign(_decoded(values.reshape(-1)))
        elif isinstance(self.texels, np.ndarray):
            object.__setattr__(self, "texels", _kept(_decoded(values.reshape(-1)), self, None))
        else:
            raise LaunchError("the texels of this texture are JAX's, which do not change: use texture.replace")
        object.__setattr__(self, "_given", None if self.dtype.is_float else np.array(values).reshape(-1))

    def copy_to(self, dst: Any) -> None:
        """Copy the texels to an array or to another texture.

        Raises:
            LaunchError: it has another shape or type, or there are several levels; also a ValueError or RuntimeError.
        """
        self._other("copy_to", dst, "destination")
        values = self._numbers()
        if isinstance(dst, Texture):
            dst.copy_from(values)
        elif isinstance(dst, np.ndarray):
            dst[...] = values.reshape(dst.shape)
        else:
            dst.assign(values.reshape(*dst.shape, *getattr(dst.dtype, "shape", ())))

    def _numbers(self) -> np.ndarray:
        """The texels as the type that they were given in, in the shape of the data."""
        if self._given is not None:
            return self._given.reshape(self.shape)
        read = np.asarray(self.texels.numpy() if isinstance(self.texels, array) else self.texels)
        if not self.dtype.is_float and self.dtype.bits < 32:
            read = np.rint(read * np.float32(np.iinfo(self.dtype.dtype).max))
        return read.astype(self.dtype.dtype).reshape(self.shape)

    def _other(self, what: str, other: Any, role: str) -> Any:
        """The values of the other side of a copy, of which the shape and type are checked."""
        if self.is_mipmapped:
            raise LaunchError(
                f"{what} is not supported for mipmapped textures, whose levels are made together", also=RuntimeError
            )
        if isinstance(other, Texture):
            own, its = (self, other) if role == "destination" else (other, self)
            if other.shape[: other.ndim] != self.shape[: self.ndim] or other.ndim != self.ndim:
                raise LaunchError(
                    f"Incompatible texture shapes for copy: destination shape={its.shape}, source shape={own.shape}"
                )
            kind, channels, values = other.dtype, other.num_channels, other._numbers()
        else:
            values = _values(type(self).__name__, other)
            kind, extents, channels = _described(type(self).__name__, self.ndim, other, values)
            if tuple(extents) != (self.depth, self.height, self.width)[3 - self.ndim :]:
                raise LaunchError(
                    f"Incompatible array shape for copy: texture shape={self.shape}, {role} shape={other.shape}"
                )
        if kind is not self.dtype or channels != self.num_channels:
            raise LaunchError(
                f"Incompatible array data type for copy: texture dtype={self.dtype}, {role} dtype={kind}, texture "
                f"channels={self.num_channels}, {role} channels={channels}"
            )
        return values


def _kept(texels: Any, data: Any, device: Any) -> Any:
    """Texels as a texture keeps them: an array of jwarp's, of JAX's, or one of NumPy's that does not change."""
    if not isinstance(texels, np.ndarray):
        return texels
    if isinstance(data, array) or device is not None or surface.is_warps:
        on = data.device if device is None and isinstance(data, array) else device
        return array(texels, dtype=float32, device=on)
    made = np.array(texels)
    made.flags.writeable = False
    return made


def _refuse(name: str, message: str, also: Any = ValueError) -> NoReturn:
    raise KernelTypeError(f"wp.{name}: {message}", also=also)


def _refuse_handle(name: str) -> NoReturn:
    raise LaunchError(f"Texture.{name} is only supported for CUDA textures: texels are ordinary arrays here",
                      also=RuntimeError)  # fmt: skip


def _fill(texture: Texture, values: dict[str, Any], given: Any) -> None:
    for name, value in values.items():
        object.__setattr__(texture, name, value)
    object.__setattr__(texture, "_given", given)


def _space(values: Any) -> Any:
    """The module whose functions are for these values: NumPy's, or JAX's."""
    return np if isinstance(values, np.ndarray) else values.__array_namespace__()


def _values(name: str, data: Any) -> Any:
    """The texels as an array of NumPy's or JAX's."""
    if isinstance(data, array):
        try:
            return data.numpy()
        except JwarpError:  # while JAX traces
            return jax_value(data.memory, data.layout)
    if isinstance(data, np.ndarray) or hasattr(data, "__array_namespace__"):
        return data
    _refuse(name, "Data must be a Warp array or NumPy array, or one of JAX's")


def _described(name: str, ndim: int, data: Any, values: Any) -> tuple[Any, list[int], int]:
    """The scalar type, the extents and the number of channels of texels."""
    is_composite = isinstance(data, array) and isinstance(data.dtype, CompositeType)
    kind = next((k for k in _KINDS if k.dtype == values.dtype), values.dtype)
    if values.ndim not in ((ndim + 1,) if is_composite else (ndim, ndim + 1)):
        _refuse(name, f"{ndim}D texture data must be {ndim}D or {ndim + 1}D array, got the shape {values.shape}")
    return kind, list(values.shape[:ndim]), int(values.shape[ndim]) if values.ndim > ndim else 1


def _same(name: str, what: str, asked: Any, found: Any) -> None:
    if asked not in (None, 0) and asked != found:
        _refuse(name, f"Specified texture {what} does not match data {what} (expected {asked}, got {found})")


def _level_count(name: str, largest: int, extents: list[int], asked: int) -> int:
    most = largest.bit_length()
    if asked < 0:
        _refuse(name, "num_mip_levels must be >= 0")
    if asked > most:
        _refuse(name, f"num_mip_levels ({asked}) exceeds the maximum for base dimensions {tuple(extents)} ({most})")
    levels = asked or most
    if levels > MAX_LEVELS:
        _refuse(name, f"num_mip_levels ({levels}) exceeds the maximum supported mip levels ({MAX_LEVELS})")
    return levels


def _address_mode(every: Any, own: Any, axis: int) -> TextureAddressMode:
    mode = own
    if mode is None:
        mode = (every[axis] if axis < len(every) else None) if isinstance(every, tuple) else every
    try:
        return TextureAddressMode.CLAMP if mode is None else TextureAddressMode(mode)
    except (TypeError, ValueError):
        _refuse("Texture", f"Invalid texture address mode for axis {axis}: {mode}")


def _levels(base: Any, count: int) -> list[Any]:
    """The levels of a texture: each has the means of pairs of the one before along every axis that can be halved."""
    made, is_numpy = [base], isinstance(base, np.ndarray)
    for _ in range(1, count):
        current = made[-1]
        for axis in reversed(range(base.ndim - 1)):
            size = current.shape[axis]
            if size > 1:
                wide = current.astype(np.float64) if is_numpy else current
                first = (slice(None),) * axis
                even, odd = (wide[(*first, slice(k, size // 2 * 2, 2))] for k in (0, 1))
                current = (even + odd) * 0.5
        if np.issubdtype(base.dtype, np.integer):
            limits = np.iinfo(base.dtype)
            current = np.clip(np.rint(current), limits.min, limits.max)
        made.append(current.astype(base.dtype))
    return made


def _decoded(values: Any) -> Any:
    """Texels as they are read, float32."""
    kind = np.dtype(values.dtype)
    read = values.astype(np.float32)
    if kind.kind in "iu" and kind.itemsize < 4:
        read = read / np.float32(np.iinfo(kind).max)
    return _space(values).maximum(read, np.float32(-1.0)) if kind.kind == "i" and kind.itemsize < 4 else read


def _texture(ndim: int) -> Any:
    fields = {"texels": ArrayType(float32, 1), **_SETTINGS}
    about = {
        "__module__": __name__,
        "__qualname__": f"Texture{ndim}D",
        "__slots__": (*fields, "_given"),
        "__doc__": f"A texture of {ndim} dimension(s).\n\n{(Texture.__doc__ or '').partition(chr(10) * 2)[2]}",
        "fields": fields,
        "static": tuple(_SETTINGS),
        "ndim": ndim,
    }
    made = StructType(f"Texture{ndim}D", (Texture,), about)
    declare_struct(made)
    return made


Texture1D, Texture2D, Texture3D = _texture(1), _texture(2), _texture(3)
TEXTURES = (Texture1D, Texture2D, Texture3D)
