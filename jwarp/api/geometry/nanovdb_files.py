"""Files of NanoVDB: headers, names, and grids as they are or compressed."""

from __future__ import annotations

import importlib
import struct
import zlib
from typing import Any

import numpy as np

from jwarp.api.geometry.nanovdb import INVALID, refuse
from jwarp.api.geometry.nanovdb_writer import VERSION

MAGICS = (0x304244566F6E614E, 0x324244566F6E614E)  # "NanoVDB0", and "NanoVDB2" of a file
CODECS = {"none": 0, "zip": 1, "blosc": 2}
HEADER, META = 16, 176
# A compressed grid of more bytes than this, for each byte of the file, is refused.
MOST = 2048
# Of a chunk of blosc: versions and flags in 4 bytes, then the sizes of the content, of its blocks and of the chunk.
_BLOSC_HEADER = 16


def grids_of(data: bytes) -> np.ndarray:
    """The grids of a file, one after the other, as bytes.

    Raises:
        LaunchError: it is no such file, it is cut off, or blosc is not installed.
    """
    if len(data) < HEADER:
        raise refuse("NanoVDB signature not found")
    magic, version, count, codec = struct.unpack_from("<QIHH", data)
    if magic not in MAGICS:
        raise refuse("NanoVDB signature not found")
    if version >> 21 != 32:
        raise refuse(f"Unsupported NanoVDB version {version >> 21}")
    if codec not in CODECS.values():
        raise refuse(f"Unsupported codec code: {codec}")
    at, total, wanted = HEADER, 0, 0
    for _ in range(count):
        if at + META > len(data):
            raise refuse(f"{INVALID}: the file ends before its grids")
        size, stored = struct.unpack_from("<QQ", data, at)
        (name,) = struct.unpack_from("<I", data, at + 136)
        total, wanted = total + stored, wanted + size
        at += META + name
    if codec == 0:
        return np.frombuffer(data[at : at + total], np.uint8)
    made = bytearray()
    end = min(at + total, len(data))
    limit = min(wanted, MOST * len(data))
    while at + 8 <= end:
        (size,) = struct.unpack_from("<Q", data, at)
        made += _unpacked(codec, data[at + 8 : at + 8 + size], limit - len(made))
        at += 8 + size
    return np.frombuffer(bytes(made), np.uint8)


def _unpacked(codec: int, chunk: bytes, limit: int) -> bytes:
    if codec == 2:
        return _unpacked_by_blosc(chunk, limit)
    try:
        return zlib.decompressobj().decompress(chunk, max(limit, 1))
    except zlib.error as error:
        raise refuse(f"{INVALID}: {error}") from None


def _unpacked_by_blosc(chunk: bytes, limit: int) -> bytes:
    """The content of a chunk, whose header says how large it is: blosc allocates that much, so it is checked before."""
    if len(chunk) < _BLOSC_HEADER:
        raise refuse(f"{INVALID}: a chunk of {len(chunk)} bytes has no header of blosc")
    size, _, stored = struct.unpack_from("<III", chunk, 4)
    if stored != len(chunk):
        raise refuse(f"{INVALID}: blosc's header says that a chunk of {len(chunk)} bytes has {stored}")
    if size > limit:
        raise refuse(f"{INVALID}: a chunk of blosc has {size} bytes, where at most {limit} can be")
    blosc = _blosc()
    try:
        made = bytes(blosc.decompress(chunk))
    except Exception as error:  # the package's own class, which derives from Exception alone
        raise refuse(f"{INVALID}: {error}") from None
    if len(made) != size:
        raise refuse(f"{INVALID}: a chunk of blosc has {len(made)} bytes in the place of {size}")
    return made


def _blosc() -> Any:
    try:
        return importlib.import_module("blosc")
    except ImportError as error:
        raise refuse(
            f"blosc is needed for this file, but could not be imported: {error}", "pip install blosc"
        ) from None


def file_of(data: np.ndarray, codec: str) -> bytes:
    """The grids of a buffer as a file.

    Raises:
        LaunchError: there is no such codec, blosc is not installed, or the buffer starts with another grid's part.
    """
    if codec not in CODECS:
        raise refuse(f"Unsupported codec requested: {codec}", "there are 'none', 'zip' and 'blosc'")
    index, count = struct.unpack_from("<II", data.data, 24)
    if index > 0:
        raise refuse("a grid that another volume's buffer has is not saved", "save the first one, which saves all")
    metas, payload, at = bytearray(), bytearray(), 0
    for _ in range(count):
        if at + 672 > len(data):
            break
        (size,) = struct.unpack_from("<Q", data.data, at + 32)
        grid = data[at : at + size].tobytes()
        name = grid[40:296].partition(b"\0")[0] + b"\0"
        stored = grid if codec == "none" else zlib.compress(grid) if codec == "zip" else _blosc().compress(grid)
        meta = bytearray(META)
        kind_class, kind = struct.unpack_from("<II", grid, 632)
        struct.pack_into("<QQ", meta, 0, size, len(stored))
        struct.pack_into("<II", meta, 32, kind, kind_class)
        meta[40:88], meta[112:136] = grid[560:608], grid[608:632]
        struct.pack_into("<I", meta, 136, len(name))
        struct.pack_into("<HHI", meta, 168, CODECS[codec], 0, VERSION)
        metas += meta + name
        payload += (b"" if codec == "none" else struct.pack("<Q", len(stored))) + stored
        at += size
    return struct.pack("<QIHH", MAGICS[0], VERSION, count, CODECS[codec]) + bytes(metas) + bytes(payload)
