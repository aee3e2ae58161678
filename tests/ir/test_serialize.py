"""Kernels survive the way through bytes, damage is a ValueError, fingerprints tell content apart."""

import dataclasses
import json
import random
import zlib

import ir_kernels
import numpy as np
import pytest
from ir_kernels import Nodes, const

from jwarp.errors import NO_SPAN, Span
from jwarp.ir import serialize
from jwarp.ir.nodes import Block, Const, If, Kernel, Op, Value, blocks
from jwarp.ir.printing import format_kernel
from jwarp.ir.serialize import fingerprint, from_bytes, to_bytes
from jwarp.types import SCALARS, float32, float64, int32, uint64

pytestmark = pytest.mark.quick

KERNELS = [make() for make in ir_kernels.ALL] + [ir_kernels.power(uint64, 3), ir_kernels.power(int32, -1)]
HEADER = serialize.MAGIC + bytes([serialize.FORMAT])


def packed(content):
    return HEADER + zlib.compress(json.dumps(content).encode())


def unpacked(data):
    return json.loads(zlib.decompress(data[len(HEADER) :]))


def of_constants(*constants):
    nodes = tuple(Op("eq", (c, c), None, Value(SCALARS["bool"])) for c in constants)
    return Kernel("constants", (), 1, Block(nodes))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_a_kernel_comes_back(kernel):
    data = to_bytes(kernel)
    back = from_bytes(data)
    assert format_kernel(back) == format_kernel(kernel)
    assert to_bytes(back) == data
    assert fingerprint(back) == fingerprint(kernel)


def test_spans_come_back_with_the_name_of_the_file_only():
    kernel = ir_kernels.spring()
    back = from_bytes(to_bytes(kernel))
    assert back.span == Span("model.py", 10)
    assert back.body.nodes[0].span == Span("model.py", 12, 4, 9)
    assert b"somewhere" not in zlib.decompress(to_bytes(kernel)[len(HEADER) :])
    assert from_bytes(to_bytes(ir_kernels.clamp())).body.nodes[0].span == NO_SPAN


def test_constants_of_every_type_come_back_to_the_bit():
    constants = [Const(float64, v) for v in (0.1, -0.0, 5e-324, float("inf"), float("nan"), -1.7e308)]
    for type_ in SCALARS.values():
        if type_.is_int:
            constants += [Const(type_, type_.min), Const(type_, type_.max)]
        elif type_.is_float:
            constants += [Const(type_, float(type_.dtype.type(0.1))), Const(type_, float("-inf"))]
        else:
            constants += [Const(type_, True), Const(type_, False)]
    back = from_bytes(to_bytes(of_constants(*constants)))
    assert [n.args[0] for n in back.body.nodes] == constants
    assert all(type(n.args[0].value) is type(c.value) for n, c in zip(back.body.nodes, constants, strict=True))


def test_names_of_values_come_back():
    node = Op("tid", (), 0, Value(int32, "i"))
    assert from_bytes(to_bytes(Kernel("f", (), 1, Block((node,))))).body.nodes[0].result.name == "i"


def without_source(block):
    """The block with fresh values that have other names, and without spans."""
    renamed = {}

    def fresh(value):
        return renamed.setdefault(value, Value(value.type, "other")) if isinstance(value, Value) else value

    def copy(block):
        return Block(tuple(map(node_copy, block.nodes)), tuple(map(fresh, block.yields)))

    def node_copy(node):
        changes = {"span": NO_SPAN}
        for field in dataclasses.fields(node):
            value = getattr(node, field.name)
            if isinstance(value, Value):
                changes[field.name] = fresh(value)
            elif isinstance(value, Block):
                changes[field.name] = copy(value)
            elif isinstance(value, tuple) and field.name != "attr":
                changes[field.name] = tuple(map(fresh, value))
        return dataclasses.replace(node, **changes)

    return copy(block)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_the_fingerprint_ignores_positions_and_names_of_values(kernel):
    other = dataclasses.replace(kernel, body=without_source(kernel.body), span=Span("elsewhere.py", 99))
    assert fingerprint(other) == fingerprint(kernel)
    assert len(fingerprint(kernel)) == 32 and int(fingerprint(kernel), 16) >= 0


def test_the_fingerprint_tells_content_apart():
    kernel = ir_kernels.power()
    index = next(k for k, n in enumerate(kernel.body.nodes) if blocks(n))
    nodes = kernel.body.nodes
    reordered = (nodes[0], nodes[2], nodes[1], *nodes[3:])
    changed = [
        dataclasses.replace(kernel, name="powers"),
        dataclasses.replace(kernel, tid_dims=2),
        dataclasses.replace(kernel, params=kernel.params[::-1]),
        dataclasses.replace(kernel, body=Block(reordered)),
        *(ir_kernels.power(int32, step) for step in (2, 3, -1)),
        ir_kernels.power(uint64),
    ]
    for position in range(index + 1, len(nodes)):
        changed.append(dataclasses.replace(kernel, body=Block(nodes[:position])))
    prints = {fingerprint(k) for k in [kernel, *changed]}
    assert len(prints) == len(changed) + 1


def test_the_fingerprint_sees_every_bit_of_a_constant():
    values = [0.0, -0.0, 1.0, float(np.nextafter(1.0, 2.0)), float("inf"), float("-inf"), float("nan")]
    prints = {fingerprint(of_constants(Const(float64, v))) for v in values}
    assert len(prints) == len(values)
    assert fingerprint(of_constants(Const(float32, 1.0))) != fingerprint(of_constants(Const(float64, 1.0)))
    again = fingerprint(of_constants(Const(float64, float("nan"))))
    assert again in prints


def test_data_of_an_earlier_format_is_brought_to_this_one(monkeypatch):
    kernel = KERNELS[0]
    data, earlier = to_bytes(kernel), fingerprint(kernel)
    seen = []
    monkeypatch.setattr(serialize, "FORMAT", serialize.FORMAT + 1)
    with pytest.raises(ValueError, match="made by another version"):
        from_bytes(data)
    monkeypatch.setattr(serialize, "UPGRADES", {serialize.FORMAT - 1: lambda whole: seen.append(1) or whole})
    back, written = serialize.read(data)
    assert format_kernel(back) == format_kernel(kernel) and seen == [1]
    assert written == earlier


def test_the_fingerprint_in_a_file_is_that_of_its_kernel():
    for kernel in KERNELS:
        assert serialize.read(to_bytes(kernel))[1] == fingerprint(kernel)


def test_data_of_something_else_is_refused():
    data = to_bytes(KERNELS[0])
    for other, reason in (
        (b"", "not kernel data"),
        (b"PK\x03\x04", "not kernel data"),
        (serialize.MAGIC + bytes([serialize.FORMAT + 1]) + data[5:], "another version"),
        (serialize.MAGIC, "not kernel data"),
        (data[:-1], "damaged"),
        (data + b"x", "damaged"),
        (HEADER, "damaged"),
    ):
        with pytest.raises(ValueError, match=reason):
            from_bytes(other)


def test_a_decompression_bomb_is_refused():
    with pytest.raises(ValueError, match="more than"):
        from_bytes(HEADER + zlib.compress(b" " * (serialize.MAX_SIZE + 1), 9))


def test_deep_nesting_is_refused():
    for text in (b"[" * 100_000, b"[[],[]," + b"[" * 100_000):
        with pytest.raises(ValueError):
            from_bytes(HEADER + zlib.compress(text))
    body = "[[],[]]"
    for _ in range(400):
        body = f'[[["if",["bool",true],{body},[[],[]],[]]],[]]'
    spans = ",".join(["null"] * 401)
    text = f'[[[],["f","forward",false,[],[],1,0,0,[],{body}]],[[],[],[{spans}]]]'
    with pytest.raises(ValueError, match="recursion"):
        from_bytes(HEADER + zlib.compress(text.encode()))


def test_damaged_bytes_are_a_value_error():
    rng = random.Random(0)
    for data in map(to_bytes, KERNELS):
        for _ in range(150):
            damaged = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            survives_or_refused(bytes(damaged))
        for length in range(0, len(data), 7):
            with pytest.raises(ValueError):
                from_bytes(data[:length])


def survives_or_refused(data):
    """from_bytes gives a kernel that works, or a ValueError; any other exception fails the test."""
    try:
        kernel = from_bytes(data)
    except ValueError:
        return False
    assert format_kernel(kernel) and to_bytes(from_bytes(to_bytes(kernel))) == to_bytes(kernel)
    return True


def test_damaged_text_is_a_value_error():
    rng = random.Random(1)
    for data in map(to_bytes, KERNELS):
        text = zlib.decompress(data[len(HEADER) :])
        for _ in range(250):
            damaged = bytearray(text)
            for _ in range(rng.randint(1, 2)):
                damaged[rng.randrange(len(damaged))] = rng.choice(b'0123456789-[],"{}:.enulltrue \xff\\')
            survives_or_refused(HEADER + zlib.compress(bytes(damaged), 1))


def places(content):
    """Every (list, index) inside nested lists."""
    for index, item in enumerate(content):
        yield content, index
        if isinstance(item, list):
            yield from places(item)


STRANGE = [
    None,
    True,
    -1,
    0,
    1,
    7,
    10**6,
    2**70,
    0.5,
    "",
    "x",
    "if",
    "float32",
    "load",
    "\ud800",
    [],
    [[]],
    {},
    {"a": 1},
]


def test_damaged_structure_is_a_value_error():
    rng = random.Random(2)
    refused = 0
    for data in map(to_bytes, KERNELS):
        for _ in range(300):
            content = unpacked(data)
            spots = list(places(content))
            for _ in range(rng.randint(1, 2)):
                where, index = rng.choice(spots)
                if index >= len(where):
                    continue
                match rng.randrange(4):
                    case 0:
                        del where[index]
                    case 1:
                        other, at = rng.choice(spots)
                        where[index] = json.loads(json.dumps(other[at])) if at < len(other) else None
                    case 2:
                        where.insert(index, rng.choice(STRANGE))
                    case _:
                        where[index] = rng.choice(STRANGE)
            refused += not survives_or_refused(packed(content))
    assert refused > 1000


def test_every_place_of_a_kernel_withstands_every_strange_value():
    data = to_bytes(ir_kernels.clamp())
    for position in range(len(list(places(unpacked(data))))):
        for strange in STRANGE:
            content = unpacked(data)
            where, index = list(places(content))[position]
            where[index] = strange
            survives_or_refused(packed(content))


def test_a_loaded_kernel_is_verified():
    b = Nodes()
    b("store", const(0), const(1.0), attr=9)
    with pytest.raises(ValueError, match="there is no array 9"):
        from_bytes(to_bytes(Kernel("f", (), 1, b.block())))
    bad = Kernel("f", (), 1, Block((If(const(1), Block(), Block(), ()),)))
    with pytest.raises(ValueError, match="condition"):
        from_bytes(to_bytes(bad))
