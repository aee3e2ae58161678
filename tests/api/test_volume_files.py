"""The bytes of volumes: files and buffers against Warp's NanoVDB, and damaged ones."""

import io
import struct
import sys
import types
import zlib

import numpy as np
import pytest
from fuzz_profiles import each_value

import jwarp as wp
from jwarp.errors import JwarpError


@wp.kernel
def look_up(volume: wp.uint64, at: wp.array[wp.vec3i], out: wp.array[float], indices: wp.array[int]):
    i = wp.tid()
    p = at[i]
    out[i] = wp.volume_lookup_f(volume, p[0], p[1], p[2])
    indices[i] = wp.volume_lookup_index(volume, p[0], p[1], p[2])


VALUES = (1.5, 3, wp.uint32(7), wp.int64(2**40), wp.float64(0.1), wp.vec3(1.0, 2.0, 3.0), wp.vec3d(1.0, 2.0, 3.0))
VALUES += (wp.vec4(1.0, 2.0, 3.0, 4.0), wp.vec4d(1.0, 2.0, 3.0, 4.0), None)


@pytest.mark.parametrize("value, codec", each_value(VALUES, ["none", "zip"]))
def test_files_hold_what_volumes_do(value, codec, tmp_path):
    rng = np.random.default_rng(5)
    # Each tile far from the others has nodes of its own above it, of up to a million bytes.
    points = np.concatenate([rng.integers(-6000, 6000, size=(8, 3)), rng.integers(0, 300, size=(20, 3))]).astype(
        np.int32
    )
    volume = wp.Volume.allocate_by_tiles(wp.array(points, dtype=wp.int32), 0.25, value, (1.0, -2.0, 3.0))
    path = volume.save_to_nvdb(tmp_path / "v.nvdb", codec=codec)
    again = wp.Volume.load_from_nvdb(path.read_bytes())
    np.testing.assert_array_equal(again.array().numpy(), volume.array().numpy())
    np.testing.assert_array_equal(again.get_tiles().numpy(), volume.get_tiles().numpy())
    np.testing.assert_array_equal(again.values, volume.values)
    assert again.dtype == volume.dtype and again.get_voxel_size() == (0.25, 0.25, 0.25)
    assert again.get_active_stats() == volume.get_active_stats()
    warp = pytest.importorskip("warp")
    theirs = warp.Volume.load_from_nvdb(path.read_bytes(), device="cpu")
    np.testing.assert_array_equal(theirs.get_tiles().numpy(), volume.get_tiles().numpy())
    assert theirs.get_active_stats() == volume.get_active_stats()


def test_warp_looks_up_what_is_saved(tmp_path):
    warp = pytest.importorskip("warp")
    rng = np.random.default_rng(6)
    dense = rng.normal(size=(16, 24, 8)).astype(np.float32)
    path = wp.Volume.load_from_numpy(dense, bg_value=0.5).save_to_nvdb(tmp_path / "v.nvdb")
    voxels = wp.Volume.allocate_by_voxels(wp.array(rng.integers(-20, 20, (90, 3)), dtype=wp.int32), 1.0)
    theirs = warp.Volume.load_from_nvdb(path.read_bytes(), device="cpu")
    np.testing.assert_array_equal(wp.Volume.load_from_nvdb(path.read_bytes()).values.numpy()[-1], 0.5)
    raw = theirs.array().numpy()
    np.testing.assert_array_equal(raw, wp.Volume.load_from_nvdb(path.read_bytes()).array().numpy())
    theirs = warp.Volume.load_from_nvdb(voxels.save_to_nvdb(tmp_path / "i.nvdb").read_bytes(), device="cpu")
    np.testing.assert_array_equal(theirs.get_voxels().numpy(), voxels.get_voxels().numpy())


def test_tiles_with_one_value_are_found():
    volume = wp.Volume.allocate_by_tiles(wp.array([[0, 0, 0]], dtype=wp.int32), 1.0, bg_value=1.0)
    data = volume.array().numpy()
    root = 672 + 64
    upper = root + 64 + 32
    lower = upper + 270400
    entry = lambda node, table, n: node + table + 8 * n  # noqa: E731
    struct.pack_into("<ff", data, entry(lower, 1088, (2 << 8) | (3 << 4) | 4), 5.0, 0.0)  # a tile of 8
    struct.pack_into("<ff", data, entry(upper, 8256, (1 << 10) | (2 << 5) | 3), 7.0, 0.0)  # one of 128
    found = wp.Volume(wp.array(data, dtype=wp.uint8))
    at = np.array([[0, 0, 0], [16, 24, 32], [23, 31, 39], [24, 31, 39], [128, 256, 384], [255, 383, 511]], np.int32)
    out, indices = wp.zeros(6, dtype=float), wp.zeros(6, dtype=int)
    wp.launch(look_up, 6, [found.id, wp.array(at, dtype=wp.vec3i), out, indices])
    np.testing.assert_array_equal(out.numpy(), [1.0, 5.0, 5.0, 1.0, 7.0, 7.0])
    np.testing.assert_array_equal(indices.numpy(), [0, -1, -1, -1, -1, -1])


def test_damaged_buffers_are_refused_or_read():
    rng = np.random.default_rng(7)
    points = wp.array([[0, 0, 0], [200, 0, -5000]], dtype=wp.int32)
    sources = [
        wp.Volume.allocate_by_tiles(points, 1.0, bg_value=1.0).array().numpy(),
        wp.Volume.allocate_by_voxels(points, 1.0).array().numpy(),
    ]
    at = wp.array(rng.integers(-6000, 6000, size=(64, 3)).astype(np.int32), dtype=wp.vec3i)
    out, indices = wp.zeros(64, dtype=float), wp.zeros(64, dtype=int)
    refused = 0
    headers = [*range(16, 48), *range(296, 560), *range(632, 672 + 64 + 200)]
    for n in range(1000):
        data = sources[n % 2].copy()
        spread = [*headers, *rng.integers(0, len(data), 200)]
        for where in rng.choice(spread, size=rng.integers(1, 6)):
            data[where] = rng.integers(256)
        if n % 5 == 0:
            data = data[: rng.integers(len(data))]
        try:
            volume = wp.Volume(wp.array(data, dtype=wp.uint8))
        except JwarpError as error:
            assert isinstance(error, RuntimeError) and "wp.Volume" in str(error)
            refused += 1
            continue
        if n % 10 == 1:
            wp.launch(look_up, 64, [volume.id, at, out, indices])
    assert 300 < refused < 1000


def test_damaged_files_are_refused_or_read():
    rng = np.random.default_rng(8)
    volume = wp.Volume.allocate_by_tiles(wp.array([[0, 0, 0]], dtype=wp.int32), 1.0, bg_value=1.0)
    from jwarp.api.geometry.nanovdb_files import file_of

    refused = 0
    for codec in ("none", "zip"):
        source = np.frombuffer(file_of(volume.array().numpy(), codec), np.uint8)
        for n in range(150):
            data = source.copy()
            for where in rng.integers(0, 300, size=rng.integers(1, 5)):
                data[where] = rng.integers(256)
            if n % 5 == 0:
                data = data[: rng.integers(len(data))]
            try:
                wp.Volume.load_from_nvdb(io.BytesIO(data.tobytes()))
            except JwarpError as error:
                assert isinstance(error, RuntimeError)
                refused += 1
    assert refused > 100


def stub_of_blosc():
    """A module with blosc's functions and header, which packs by zlib."""

    class Fault(Exception):
        pass

    def compress(data):
        packed = zlib.compress(data)
        return struct.pack("<4BIII", 2, 1, 0, 1, len(data), len(data), 16 + len(packed)) + packed

    def decompress(chunk):
        try:
            return zlib.decompress(chunk[16:])
        except zlib.error as error:
            raise Fault(f"Error {error} while decompressing data") from None

    return types.SimpleNamespace(compress=compress, decompress=decompress, error=Fault)


def damaged(source, at, form, *numbers):
    data = bytearray(source)
    struct.pack_into(form, data, at, *numbers)
    return bytes(data)


@pytest.mark.parametrize("is_installed", [True, False])
def test_damaged_chunks_of_blosc_are_refused(is_installed, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "blosc", stub_of_blosc())
    volume = wp.Volume.allocate_by_tiles(wp.array([[0, 0, 0], [80, 0, 0]], dtype=wp.int32), 1.0, bg_value=1.0)
    source = volume.save_to_nvdb(tmp_path / "v.nvdb", codec="blosc").read_bytes()
    again = wp.Volume.load_from_nvdb(source)
    np.testing.assert_array_equal(again.array().numpy(), volume.array().numpy())
    name = struct.unpack_from("<I", source, 16 + 136)[0]
    chunk = 16 + 176 + name + 8
    size, _, stored = struct.unpack_from("<III", source, chunk + 4)
    assert size == len(volume.array().numpy()) and chunk + stored == len(source)
    if not is_installed:
        monkeypatch.setitem(sys.modules, "blosc", None)  # an import raises ImportError then
        with pytest.raises(wp.LaunchError, match="blosc is needed"):
            wp.Volume.load_from_nvdb(source)
    cases = [
        (damaged(source, chunk + 4, "<I", 2**32 - 1), "at most"),
        (damaged(source, chunk + 4, "<I", size + 1), "at most"),
        (damaged(source, chunk + 12, "<I", stored + 1), "says that a chunk"),
        (source[: chunk + 7], "no header of blosc"),
        (source[:-3], "says that a chunk"),
    ]
    if is_installed:
        cases += [
            (damaged(source, chunk + 16 + 20, "<Q", 2**63 + 12345), "while decompressing"),
            (damaged(source, chunk + 4, "<I", size - 1), "in the place of"),
        ]
    for data, said in cases:
        with pytest.raises(wp.LaunchError, match=said):
            wp.Volume.load_from_nvdb(data)
