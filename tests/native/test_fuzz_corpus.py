"""Inputs that a coverage-guided fuzzer found for the decoders: refused by name, or taken, and never a crash."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
from native_kernels import new_fingerprint

from jwarp import _native

CORPUS = Path(__file__).parent / "corpus.zip"


def numbers_of(data: bytes) -> list[int]:
    """The numbers of an input, as fuzz_decoders.cc reads them."""
    numbers, i = [], 0
    while i < len(data):
        byte = data[i]
        if byte == 255 and i + 8 < len(data):
            numbers.append(struct.unpack_from("<q", data, i + 1)[0])
            i += 8
        else:
            numbers.append(byte if byte < 192 else byte - 255)
        i += 1
    return numbers


def test_each_input_is_taken_or_refused() -> None:
    taken = refused = 0
    archive = zipfile.ZipFile(CORPUS)
    for name in archive.namelist():
        data = archive.read(name).ljust(2, b"\0")
        numbers = np.array(numbers_of(data[2:]), np.int64)
        plan, launch = numbers[: data[0]], numbers[data[0] : data[0] + data[1]]
        fingerprint = new_fingerprint()
        try:
            _native.register_kernel(fingerprint, plan, 0, 0)  # without code: no thread runs
            _native.run_launch(fingerprint, launch, [], 1)
            taken += 1
        except (ValueError, RuntimeError) as error:
            assert str(error).startswith("jwarp: "), name
            refused += 1
    assert refused > 100 and taken + refused == len(archive.namelist())
