"""`wp.cast` reads the bits of structs, vectors and numbers as another type of the same size, as C lays both out."""

import numpy as np

import jwarp as wp


@wp.struct
class Mixed:
    small: wp.uint8
    x: float
    pair: wp.vec2h
    flag: bool


@wp.struct
class Half:
    f: wp.float16
    i: wp.int16


@wp.struct
class Nested:
    n: wp.uint16
    half: Half
    wide: wp.float64


@wp.struct
class Words:
    first: wp.uint32
    rest: wp.vec3ui


# The same as the structs, for NumPy.
MIXED = np.dtype([("small", "u1"), ("x", "f4"), ("pair", "f2", 2), ("flag", "?")], align=True)
NESTED = np.dtype([("n", "u2"), ("half", np.dtype([("f", "f2"), ("i", "i2")], align=True)), ("wide", "f8")], align=True)


@wp.kernel
def read_bits(mixed: wp.array[Mixed], nested: wp.array[Nested], words: wp.array2d[wp.uint32], back: wp.array2d[float]):
    i = wp.tid()
    w = wp.cast(mixed[i], Words)
    words[i, 0] = w.first
    for k in range(3):
        words[i, 1 + k] = w.rest[k]
    again = wp.cast(w, Mixed)
    back[i, 0] = again.x
    back[i, 1] = float(again.pair[1])
    back[i, 2] = float(again.small)
    back[i, 3] = wp.where(again.flag, 1.0, 0.0)
    v = wp.cast(nested[i], wp.vec2ul)
    words[i, 4] = wp.uint32(v[0] & wp.uint64(0xFFFFFFFF))
    words[i, 5] = wp.uint32(v[0] >> wp.uint64(32))
    words[i, 6] = wp.cast(nested[i].half, wp.uint32)
    half = wp.cast(words[i, 6], Half)
    back[i, 4] = float(half.f) + float(half.i)
    back[i, 5] = float(wp.cast(v[1], wp.float64))


def test_bits_lie_as_in_c():
    rng = np.random.default_rng(7)
    n = 20
    mixed, nested = np.zeros(n, MIXED), np.zeros(n, NESTED)
    mixed["small"], mixed["flag"] = rng.integers(0, 256, n), rng.random(n) < 0.5
    mixed["x"], mixed["pair"] = rng.normal(size=n), rng.normal(size=(n, 2))
    nested["n"], nested["wide"] = rng.integers(0, 2**16, n), rng.normal(size=n).astype(np.float32)
    nested["half"]["f"], nested["half"]["i"] = rng.normal(size=n), rng.integers(-(2**10), 2**10, n)
    given = {"mixed": {f: mixed[f] for f in MIXED.names}}
    half = {f: np.ascontiguousarray(nested["half"][f]) for f in ("f", "i")}
    given["nested"] = {"n": nested["n"], "half": half, "wide": nested["wide"]}
    outputs = {"words": np.zeros((n, 7), np.uint32), "back": np.zeros((n, 6), np.float32)}
    wp.launch(read_bits, n, given, outputs)
    bits = np.frombuffer(mixed.tobytes(), np.uint32).reshape(n, 4).copy()
    bits[:, 0] &= 0xFF  # the rest of it, and of the last one, is padding
    bits[:, 3] &= 0xFF
    np.testing.assert_array_equal(outputs["words"][:, :4], bits)
    words = np.frombuffer(nested.tobytes(), np.uint32).reshape(n, 4)
    np.testing.assert_array_equal(outputs["words"][:, 4:6], words[:, :2] & [0xFFFFFFFF, 0xFFFF])
    np.testing.assert_array_equal(outputs["words"][:, 6], np.frombuffer(nested["half"].tobytes(), np.uint32))
    flags = [mixed["x"], mixed["pair"][:, 1], mixed["small"], mixed["flag"]]
    sums = np.float32(nested["half"]["f"]) + nested["half"]["i"]
    np.testing.assert_array_equal(outputs["back"], np.stack([*flags, sums, nested["wide"]], 1).astype(np.float32))
