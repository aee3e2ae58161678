"""Kernels as bytes and back, and the fingerprint that names a kernel by its content."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from jwarp.errors import NO_SPAN, Span
from jwarp.ir.attributes import decode, encode
from jwarp.ir.nodes import (
    Block,
    Const,
    Facts,
    For,
    Function,
    Gradient,
    If,
    Kernel,
    KnownKernel,
    Local,
    Node,
    Op,
    Operand,
    Order,
    Param,
    Value,
    While,
    failure_texts,
    is_plain,
    prints,
    rounds_as_written,
    walk_all,
    written_params,
)
from jwarp.ir.ops import OPS
from jwarp.ir.printing import short_file
from jwarp.ir.tile_types import check_shape
from jwarp.ir.verify import verify
from jwarp.types import (
    KINDS,
    PLAIN,
    SCALARS,
    ArrayType,
    CompositeKind,
    CompositeType,
    ScalarType,
    ValueType,
    composite,
    tile_type,
)

FORMAT = 9
# Files stay readable: by format, a function that brings content, read from JSON, to the next one. The first format
# with an entry is the oldest that is read; a change of FORMAT after the first release adds one.
UPGRADES: dict[int, Callable[[Any], Any]] = {}
MAGIC = b"jwir"
MAX_SIZE = 16 << 20
# Of compression: the best one takes five times as long, for three quarters of the size.
LEVEL = 1
MAX_NUMBER = (1 << 31) - 1


def to_bytes(kernel: Kernel) -> bytes:
    """The kernel with its spans, whose files keep only their names."""
    if isinstance(kernel, KnownKernel):
        return kernel.facts.encoded
    encoder = _Encoder()
    return _packed(encoder.content(kernel), encoder.source)


def _packed(content: bytes, source: Source) -> bytes:
    return MAGIC + bytes([FORMAT]) + zlib.compress(b"[%b,%b]" % (content, _json(source)), LEVEL)


def known(kernel: Kernel) -> KnownKernel:
    """The kernel, with what launches ask of it."""
    if isinstance(kernel, KnownKernel):
        return kernel
    bare = dataclasses.replace(kernel, gradients=()) if kernel.gradients else kernel
    encoder = _Encoder()
    content = encoder.content(bare)
    facts = Facts(
        _packed(content, encoder.source),
        _digest(content, FORMAT),
        written_params(kernel),
        failure_texts(kernel),
        prints(kernel),
        rounds_as_written(kernel),
        is_plain(kernel),
        _files(kernel),
    )
    return KnownKernel.of(kernel, facts, lambda: (kernel.functions, kernel.body))


def _files(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    """The files of the kernel's source: the names by which it is encoded, and their paths."""
    spans = {span.file: span for span in (kernel.span, *(n.span for n in walk_all(kernel)))}
    return tuple(sorted((short_file(span), path) for path, span in spans.items()))


def to_entry(kernel: KnownKernel) -> bytes | None:
    """The kernel as it is kept on this computer, with its gradients and the paths of files.

    None where two of these have one name.
    """
    paths = dict(kernel.facts.files)
    if len(paths) < len(kernel.facts.files):
        return None
    gradients = []
    for gradient in kernel.gradients:
        entry = to_entry(known(gradient.kernel))
        if entry is None:
            return None
        gradients.append([base64.b64encode(entry).decode(), gradient.feeds])
    encoder = _Encoder()
    head = encoder.kernel(dataclasses.replace(kernel, body=Block(), functions=(), gradients=()))
    facts = {f.name: getattr(kernel.facts, f.name) for f in dataclasses.fields(Facts)}
    del facts["encoded"], facts["files"]
    return _json([facts, paths, head, encoder.source, gradients]) + b"\n" + kernel.facts.encoded


def from_entry(entry: bytes, moved: Mapping[str, str] = MappingProxyType({})) -> KnownKernel:
    """The kernel that `to_entry` wrote, whose body is decoded when it is first looked at.

    `moved` has the paths of files that may have moved since, by their names.
    """
    header, _, encoded = entry.partition(b"\n")
    known, paths, head, (files, *source), gradients = json.loads(header)
    paths = {name: moved.get(name, path) for name, path in paths.items()}
    facts: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}

    def found(files: list[str]) -> list[str]:
        return [paths.get(file, file) for file in files]

    def content() -> tuple[tuple[Function, ...], Block]:
        (types, (*_, functions, body)), (files, names, spans) = json.loads(zlib.decompress(encoded[len(MAGIC) + 1 :]))
        decoder = _Decoder(types, found(files), names, spans[1:])  # the first one is the kernel's
        return decoder.functions(functions), decoder.block(body)

    shell = _Decoder([], found(files), *source).kernel(head)
    if gradients:
        read = (Gradient(from_entry(base64.b64decode(g), moved), tuple(map(tuple, feeds))) for g, feeds in gradients)
        shell = dataclasses.replace(shell, gradients=tuple(read))
    return KnownKernel.of(shell, Facts(encoded=encoded, files=tuple(paths.items()), **facts), content)


def from_bytes(data: bytes) -> Kernel:
    """The kernel that `to_bytes` wrote, also that of an earlier version; any damage is a ValueError."""
    return read(data)[0]


def read(data: bytes) -> tuple[Kernel, str]:
    """The kernel that `to_bytes` wrote, and the fingerprint that it had in the version that wrote it.

    Raises:
        ValueError: the bytes are damaged, of a version that is no longer read, or of a later one.
    """
    written, payload = _unpack(data)
    try:
        whole = json.loads(payload)
        digest = _digest(_json(whole[0]), written)
        for older in range(written, FORMAT):
            whole = UPGRADES[older](whole)
        (types, content), source = whole
        kernel = _Decoder(types, *source).kernel(content)
        verify(kernel)
    except ValueError:
        raise
    except (AttributeError, KeyError, IndexError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"damaged kernel data: {error}") from None
    return kernel, digest


def fingerprint(kernel: Kernel) -> str:
    """32 hexadecimal digits for the content, without source positions and names of values."""
    if isinstance(kernel, KnownKernel):
        return kernel.facts.fingerprint
    return _digest(_Encoder().content(kernel), FORMAT)


def _digest(content: bytes, written: int) -> str:
    return hashlib.sha256(bytes([written]) + content).hexdigest()[:32]


def _json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def _unpack(data: bytes) -> tuple[int, bytes]:
    """The format of the data, and its content as JSON."""
    if data[: len(MAGIC)] != MAGIC or len(data) == len(MAGIC):
        raise ValueError("not kernel data")
    written = data[len(MAGIC)]
    oldest = min(UPGRADES, default=FORMAT)
    if not oldest <= written <= FORMAT:
        raise ValueError(
            f"kernel data of format {written}, made by another version of jwarp: this one reads {oldest} to {FORMAT}; "
            "export the program anew with this version"
        )
    unzip = zlib.decompressobj()
    try:
        payload = unzip.decompress(data[len(MAGIC) + 1 :], MAX_SIZE)
    except zlib.error as error:
        raise ValueError(f"damaged kernel data: {error}") from None
    if not unzip.eof or unzip.unused_data:
        raise ValueError(f"damaged kernel data: cut off, too long, or more than {MAX_SIZE} bytes")
    return written, payload


# Where a kernel is written: names of files, names of values, and the spans of the kernel and its nodes, each before
# those of the nodes inside.
Source = tuple[list[str], list[str], list[list[int] | None]]


class _Encoder:
    """Turns a kernel into lists; values are numbered in order of definition. The `source` is apart from the content."""

    def __init__(self) -> None:
        self.types: list[str] = []  # of values
        self.numbers: dict[Value, int] = {}
        self.source: Source = ([], [], [])
        self.spans: dict[Span, list[int]] = {}

    def content(self, kernel: Kernel) -> bytes:
        """All but the source, which is complete then."""
        content = self.kernel(kernel)
        return _json([self.types, content])

    def kernel(self, kernel: Kernel) -> list:
        assert not kernel.gradients, "what is compiled has no derivatives in it"
        self.place(kernel.span)
        params = [self.param(p) for p in kernel.params]
        assert all(x.values is None for x in kernel.locals), "tables are made where code is"
        arrays = [[*self.param(Param(x.name, x.type)), list(x.shape), x.shared] for x in kernel.locals]
        head = [kernel.name, kernel.variant, kernel.exact, params, arrays, kernel.tid_dims, kernel.block_dim]
        functions = [[f.name, self.defines(f.params), self.block(f.body)] for f in kernel.functions]
        return [*head, int(kernel.order), functions, self.block(kernel.body)]

    def param(self, param: Param) -> list:
        if isinstance(param.type, ArrayType):
            return [param.name, param.type.dtype.name, param.type.ndim, _element(param.type)]
        return [param.name, param.type.name, 0, []]

    def place(self, span: Span) -> None:
        found = self.spans.get(span)
        files, _, spans = self.source
        if found is None and span != NO_SPAN:
            name = short_file(span)
            if name not in files:
                files.append(name)
            found = self.spans[span] = [files.index(name), span.line, span.col, span.end_col]
        spans.append(found)

    def block(self, block: Block) -> list:
        return [[self.node(n) for n in block.nodes], self.operands(block.yields)]

    def node(self, node: Node) -> list:
        # Operands come before what they define, so that the numbers follow the definitions.
        self.place(node.span)
        match node:
            case Op():
                args, attr = self.operands(node.args), node.attr
                result = None if node.result is None else self.define(node.result)
                return [node.name, args, attr if attr is None or type(attr) is int else encode(attr), result]
            case If():
                cond = self.operand(node.cond)
                return ["if", cond, self.block(node.then), self.block(node.orelse), self.defines(node.results)]
            case For():
                bounds = [self.operand(node.lo), self.operand(node.hi), node.step]
                init = self.operands(node.init)
                params = [self.define(node.index), *self.defines(node.params)]
                lanes = None if node.lanes is None else list(node.lanes)
                return ["for", bounds, init, params, self.block(node.body), self.defines(node.results), lanes]
            case While():
                init, params = self.operands(node.init), self.defines(node.params)
                blocks = [self.block(node.cond), self.block(node.body)]
                return ["while", init, params, blocks, self.defines(node.results)]

    def define(self, value: Value) -> int:
        number = self.numbers[value] = len(self.types)
        self.types.append(value.type.name)
        self.source[1].append(value.name)
        return number

    def defines(self, values: tuple[Value, ...]) -> list[int]:
        return [self.define(v) for v in values]

    def operand(self, operand: Operand) -> Any:
        if not isinstance(operand, Const):
            return self.numbers[operand]
        value = operand.value
        # As bits, so that infinities, -0.0 and every NaN stay what they are.
        if operand.type.is_float:
            value = struct.pack(">d", value).hex()
        return [operand.type.name, value]

    def operands(self, operands: tuple[Operand, ...]) -> list:
        numbers = self.numbers
        return [numbers[x] if type(x) is Value else self.operand(x) for x in operands]


class _Decoder:
    """The reverse of `_Encoder`; trusts nothing, and leaves to `verify` what that checks."""

    def __init__(self, types: Any, files: Any, names: Any, spans: Any):
        self.files = [_text(f) for f in _list(files)]
        values = zip(_list(types), _list(names), strict=True)
        self.values = [Value(_value_type(t), _text(name)) for t, name in values]
        self.spans = iter(_list(spans))

    def kernel(self, content: Any) -> Kernel:
        span = self.span()
        name, variant, exact, params, arrays, tid_dims, block_dim, order, functions, body = _list(content)
        decoded = tuple(self.param(p) for p in _list(params))
        made = tuple(self.local(a) for a in _list(arrays))
        if not isinstance(exact, bool):
            raise ValueError(f"damaged kernel data: {exact!r} is not true or false")
        called, inside = self.functions(functions), self.block(body)
        return Kernel(_text(name), decoded, tid_dims, inside, span, made, _text(variant), exact,
                      block_dim=_number(block_dim), order=Order(_number(order)), functions=called)  # fmt: skip

    def functions(self, content: Any) -> tuple[Function, ...]:
        made = (_list(function) for function in _list(content))
        return tuple(Function(_text(name), self.defined(params), self.block(body)) for name, params, body in made)

    def param(self, content: Any) -> Param:
        name, dtype, ndim, element = _list(content)
        if _number(ndim) == 0:
            return Param(_text(name), _scalar(dtype))
        kind, shape = _components(_list(element))
        type_ = _scalar(dtype) if kind is None else composite(kind, shape, _scalar(dtype))
        return Param(_text(name), ArrayType(type_, ndim - len(shape)))

    def local(self, content: Any) -> Local:
        *array, shape, shared = _list(content)
        if not isinstance(shared, bool):
            raise ValueError(f"damaged kernel data: {shared!r} is not true or false")
        param = self.param(array)
        if not isinstance(param.type, ArrayType):
            raise ValueError(f"damaged kernel data: local {param.name} is not an array")
        return Local(param.name, param.type, tuple(_number(n) for n in _list(shape)), shared)

    def span(self) -> Span:
        """That of the next node."""
        content = next(self.spans, ())
        if content is None:
            return NO_SPAN
        file, line, col, end_col = map(_number, _list(content))
        return Span(self.files[file], line, col, end_col)

    def block(self, content: Any) -> Block:
        nodes, yields = _list(content)
        return Block(tuple(self.node(n) for n in _list(nodes)), self.operands(yields))

    def node(self, content: Any) -> Node:
        place = self.span()
        name, *parts = _list(content)
        match name:
            case "if":
                cond, then, orelse, results = parts
                blocks = (self.block(then), self.block(orelse))
                return If(self.operand(cond), *blocks, self.defined(results), place)
            case "for":
                bounds, init, params, body, results, lanes = parts
                combiners = None if lanes is None else tuple(map(_text, _list(lanes)))
                lo, hi, step = _list(bounds)
                index, *inner = self.defined(params)
                limits = (self.operand(lo), self.operand(hi), step)
                carried = (tuple(inner), self.operands(init))
                inside = self.block(body)
                return For(index, *limits, *carried, inside, self.defined(results), place, combiners)
            case "while":
                init, params, blocks, results = parts
                cond, body = map(self.block, _list(blocks))
                carried = (self.defined(params), self.operands(init))
                return While(*carried, cond, body, self.defined(results), place)
        args, attr, result = parts
        row = OPS.get(_text(name))
        if row is None:
            raise ValueError(f"damaged kernel data: there is no operation {name!r}")
        made = None if result is None else self.value(result)
        return Op(name, self.operands(args), decode(attr, row.attribute), made, place)

    def value(self, number: Any) -> Value:
        return self.values[_number(number)]

    def defined(self, numbers: Any) -> tuple[Value, ...]:
        return tuple(self.value(n) for n in _list(numbers))

    def operand(self, content: Any) -> Operand:
        if not isinstance(content, list):
            return self.value(content)
        name, value = content
        type_ = _value_type(name)
        if type_.is_float:
            value = _double(value)
        return Const(type_, value)

    def operands(self, contents: Any) -> tuple[Operand, ...]:
        return tuple(self.operand(c) for c in _list(contents))


def _element(array: ArrayType) -> list:
    """The extents of the components of an array's elements, after the name of their kind if these do not tell it."""
    if not isinstance(array.element, CompositeType) or array.element.kind is PLAIN[len(array.components)]:
        return list(array.components)
    return [array.element.kind.name, *array.components]


def _components(content: list) -> tuple[CompositeKind | None, tuple[int, ...]]:
    """The kind and the extents that `_element` listed; no kind for a scalar."""
    named = bool(content) and isinstance(content[0], str)
    shape = tuple(_number(n) for n in content[named:])
    kind = KINDS.get(content[0]) if named else PLAIN.get(len(shape))
    fits = not shape if kind is None else 0 not in shape and len(shape) == kind.rank and kind.shape in (None, shape)
    if not fits:
        raise ValueError(f"damaged kernel data: there are no components {content!r}")
    return kind, shape


def _list(content: Any) -> list:
    if not isinstance(content, list):
        raise ValueError("damaged kernel data: a list is missing")
    return content


def _number(content: Any) -> int:
    if type(content) is not int or not 0 <= content <= MAX_NUMBER:
        raise ValueError(f"damaged kernel data: {content!r} is not a number of something")
    return content


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise ValueError(f"damaged kernel data: {content!r} is not text")
    content.encode()  # refuses half surrogate pairs, which could not be printed
    return content


def _double(content: Any) -> float:
    bits = bytes.fromhex(_text(content))
    if len(bits) != 8:
        raise ValueError(f"damaged kernel data: {content!r} are not the bits of a number")
    return struct.unpack(">d", bits)[0]


def _scalar(name: Any) -> ScalarType:
    if _text(name) not in SCALARS:
        raise ValueError(f"damaged kernel data: there is no type {name!r}")
    return SCALARS[name]


def _value_type(name: Any) -> ValueType:
    """The type that a value's type is called by: `float32`, or `float32[4x8]` for a tile."""
    scalar, bracket, rest = _text(name).partition("[")
    if not bracket:
        return _scalar(scalar)
    extents = rest.removesuffix("]").split("x")
    if not rest.endswith("]") or not all(n.isdecimal() and len(n) < 10 for n in extents):
        raise ValueError(f"damaged kernel data: there is no type {name!r}")
    return tile_type(_scalar(scalar), check_shape(tuple(map(int, extents))))
