"""Compiles kernels that are written by hand in CUDA C++, behind an entry like that of generated ones."""

from __future__ import annotations

import dataclasses
import functools
import linecache
import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jwarp.analysis.affine import symbols_of
from jwarp.backend.cuda.assembler import plain_name
from jwarp.backend.cuda.headers import cuda_headers, included_files, own_files
from jwarp.backend.cuda.host_code import device_part, kernel_part
from jwarp.backend.cuda.host_headers import KNOWN, host_headers, of_libraries
from jwarp.backend.cuda.nvrtc import (
    Code,
    Message,
    Rejected,
    Unit,
    advice_on,
    as_compile_error,
    bundle,
    compile_unit,
    device_header,
    device_headers,
    messages_of,
    require,
    toolchain,
)
from jwarp.backend.cuda.rules import C_TYPES
from jwarp.backend.events import CompileEvent, announce
from jwarp.backend.generator import identity
from jwarp.caches import Cache
from jwarp.compiler.analysed import plan_numbers
from jwarp.compiler.cuda import IMAGES, Image, lock_of
from jwarp.config import Settings
from jwarp.errors import CompileError, KernelTypeError, KernelWarning, LaunchError, Span
from jwarp.frontend.cuda_kernel import Blocks, Definition
from jwarp.ir.nodes import Kernel, Param
from jwarp.store import Store, key_of
from jwarp.types import ArrayType
from jwarp.wire import Cover

PRELUDE, ARRAYS = "jwarp.cuh", "arrays.cuh"
# Headers that an author may include, as "jwarp/block.cuh".
LIBRARY = ("arrays.cuh", "block.cuh", "chunks.cuh", "rows.cuh", "segments.cuh", "sorting.cuh")

# The author's function is called by the entry, so for CUDA it is none itself. NVRTC cannot push macros.
_BEFORE = """\
#undef __global__
#define __global__ __device__
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
"""
# Blocks with several axes are launched along x: for the author they have the axes that were asked for.
_SHAPED = """\
JW_INLINE uint3 jw_thread_index() {{
  return {{threadIdx.x % {x}u, threadIdx.x / {x}u % {y}u, threadIdx.x / {xy}u}};
}}
JW_INLINE dim3 jw_block_shape() {{ return dim3({x}u, {y}u, {z}u); }}
#undef threadIdx
#undef blockDim
#define threadIdx jw_thread_index()
#define blockDim jw_block_shape()
"""
# Batch elements are along z, so that the author's axis z is the slower part of x.
_GRID = """\
JW_INLINE uint3 jw_block_index() {{
  return {{blockIdx.x{rest}, blockIdx.y, {layer}}};
}}
JW_INLINE dim3 jw_grid_shape() {{ return dim3(gridDim.x / {depth}u, gridDim.y, {depth}u); }}
JW_INLINE unsigned jw_item() {{ return blockIdx.z; }}
JW_INLINE unsigned jw_items_at_once() {{ return gridDim.z; }}
#undef blockIdx
#undef gridDim
#define blockIdx jw_block_index()
#define gridDim jw_grid_shape()
"""
_AFTER = """\
#undef threadIdx
#undef blockDim
#undef blockIdx
#undef gridDim
#undef __global__
#undef __launch_bounds__
#undef __grid_constant__
#ifdef JW_HOST_SHIM
#define __global__
#define __launch_bounds__(...)
#define __grid_constant__
#else
#define __global__ __attribute__((global))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__ __attribute__((grid_constant))
#endif
"""


@dataclass(frozen=True)
class Handwritten:
    """A handwritten kernel under given settings; `kernel` has its parameters, and its launch dimensions."""

    definition: Definition
    kernel: Kernel
    settings: Settings

    @property
    def entry(self) -> str:
        """The symbol of the entry; ASCII whatever the kernel is called."""
        safe = re.sub(r"[^0-9A-Za-z]+", "_", self.definition.name).strip("_")
        return f"jwarp_{safe}"

    @property
    def plan(self) -> np.ndarray:
        """The plan for the native runtime: nothing is proved of such a kernel, and nothing needs to be."""
        covers = [Cover.STORED if p in self.definition.full else Cover.UNKNOWN for p in range(len(self.kernel.params))]
        return plan_numbers(self.kernel, weight=1, covers=covers)

    def unit(self, blocks: Blocks, *, changes_inputs: bool = False) -> Unit:
        """The text of the whole, and what it is compiled with; inputs are const unless `changes_inputs`."""
        given = self.definition
        # Those of the library include each other by their names alone.
        names = device_headers((PRELUDE, *LIBRARY))
        names |= {f"jwarp/{name}": device_header(name) for name in LIBRARY}
        folders = (*given.folders, *cuda_headers())
        options = (*given.options, *(f"--include-path={folder}" for folder in folders))
        if not _DEVICE_BY_DEFAULT.isdisjoint(option.lstrip("-") for option in given.options):
            own, headers = given.text, dict(given.headers)
        else:
            own, headers = self._of_device
            options = (*options, "--device-as-default-execution-space")
        text = "\n".join(
            [
                f'#include "{ARRAYS}"',
                self._shaped(blocks) + KNOWN + _BEFORE + f"#line 1 {_quoted(given.file)}",
                own.rstrip("\n"),
                f"#line 1 {_quoted(self._wrapper_file)}",
                _AFTER,
                *self._wrapper(blocks.size, changes_inputs),
                "",
            ]
        )
        known = of_libraries((own, *headers.values()), folders) | host_headers()
        texts = {**known, **names, **headers}
        return Unit(text, f"{self.entry}.cu", options, texts, f"kernel '{given.name}'", given.span)

    @functools.cached_property
    def _of_device(self) -> tuple[str, dict[str, str]]:
        """The text without what belongs to the host, and the headers without that: those that are given, and those
        that the text includes from the author's folders if they have any."""
        given = self.definition
        files = own_files(given.text, given.folders, given.headers)
        texts = {"": given.text, **given.headers, **{name: text for name, (_, text) in files.items()}}
        made = device_part(texts, given.name)
        changed = {
            name: f"#line 1 {_quoted(str(path))}\n{made[name]}"
            for name, (path, text) in files.items()
            if made[name] != text
        }
        return made[""], {**{name: made[name] for name in given.headers}, **changed}

    def _shaped(self, blocks: Blocks) -> str:
        """The directive for blocks of several axes, and a grid as the author says."""
        depth = blocks.depth
        rest, layer = (
            (f" % (gridDim.x / {depth}u)", f"blockIdx.x / (gridDim.x / {depth}u)") if depth > 1 else ("", "0u")
        )
        grid = _GRID.format(rest=rest, layer=layer, depth=depth)
        if len(blocks.shape) < 2:
            return grid
        x, y, z = (*blocks.shape, 1)[:3]
        return grid + _SHAPED.format(x=x, y=y, z=z, xy=x * y)

    def _bounds(self, block: int) -> str:
        """The launch bounds of the author's function, where numbers and macros say them, or those of the block."""
        function = re.escape(re.split(r"[<\s]", self.definition.name)[0].split("::")[-1])
        found = re.search(rf"__launch_bounds__\s*\(([^;{{}}]*?)\)\s*(?:void\s+)?{function}\s*\(", self._plain_text)
        if found is None:
            return str(block)
        threads, *others = (part.strip() for part in found[1].split(","))
        if threads.isdigit() and int(threads) < block:
            raise LaunchError(
                f"kernel '{self.definition.name}': its __launch_bounds__ say {threads} threads at most, and its blocks "
                f"have {block}",
                hint=f"give block_dim={threads}",
            )
        macros = set(
            re.findall(r"#\s*define\s+(\w+)", "\n".join((self._plain_text, *self.definition.headers.values())))
        )
        known = all(set(re.findall(r"[A-Za-z_]\w*", part)) <= macros for part in others)
        return ", ".join([str(block), *others]) if known else str(block)

    @functools.cached_property
    def _plain_text(self) -> str:
        """The text without comments and what is in quotes, which are blank."""
        return _plain(self.definition.text)

    def _check(self, code: Code, blocks: Blocks) -> None:
        """Raise for what compiles and would not do what its author means."""
        self._show_texts()
        if "%envreg" in code.ptx:
            raise CompileError(
                f"kernel '{self.definition.name}' waits for its whole grid (or asks whether it can), which its launch "
                "does not provide",
                Span(self.definition.file, 0),
                "make a kernel of each part, and launch them one after the other",
            )
        self._refuse_axes(code, blocks)
        self._refuse_constants(code)

    def _refuse_constants(self, code: Code) -> None:
        """Constants without values are zeros, as nothing of the host runs that would fill them."""
        for symbol in _CONSTANTS.findall(code.ptx):
            name = plain_name(symbol)
            texts = {self.definition.file: self.definition.text, **self.definition.headers}
            given = re.compile(rf"\b{name}\s*(?:\[[^]]*\]\s*)*(?:=|\{{)")
            if any(given.search(text) for text in texts.values()) or code.ptx.count(symbol) < 2:
                continue
            declared = re.compile(rf"__constant__[^;]*\b{name}\b")
            where = (
                (file, found, text) for file, text in texts.items() if (found := declared.search(text)) is not None
            )
            span = next((Span(f, t.count("\n", 0, m.end()) + 1) for f, m, t in where), self.definition.span)
            raise CompileError(
                f"kernel '{self.definition.name}': it reads the constant `{name}`, which code of the host would fill; "
                "that does not run",
                span,
                "give it values where it is declared, or make it a parameter: an array that is only read",
            )

    def _refuse_axes(self, code: Code, blocks: Blocks) -> None:
        """A function that looks at axes which its blocks do not have does nothing for most of its elements."""
        if blocks.shape:
            return
        # Other kernels of the file may have other blocks.
        text = _plain(kernel_part(self.definition.text, self.definition.name))
        named = _OTHER_AXES.search(text)
        if named is None or not re.search(r"%tid\.[yz]", code.ptx):
            return
        start, line = text.rfind("\n", 0, named.start()) + 1, text.count("\n", 0, named.start()) + 1
        span = Span(self.definition.file, line, named.start() - start, named.end() - start)
        raise CompileError(
            f"kernel '{self.definition.name}' looks at {named[0]}, and its blocks have the axis x alone",
            span,
            f"give block_dim=(16, 16), or ({blocks.size}, 1) if that is what is meant",
        )

    @property
    def _wrapper_file(self) -> str:
        return f"<jwarp: call of {self.definition.name}>"

    def _wrapper(self, block: int, changes_inputs: bool) -> list[str]:
        """The entry: a loop over batch elements, in which the author's function is called."""
        symbols = symbols_of(self.kernel)
        arguments = [
            self._argument(p, param, [s.index for (q, _), s in symbols.extents.items() if q == p], changes_inputs)
            for p, param in enumerate(self.kernel.params)
        ]
        return [
            f'extern "C" __global__ void __launch_bounds__({self._bounds(block)})',
            f"{self.entry}(const __grid_constant__ jw_args<{symbols.count}, {len(arguments)}> args) {{",
            "  for (long long item = jw_item(); item < args.items; item += jw_items_at_once()) {",
            "    // Shared memory is free for the next element when all threads are done with the last.",
            "    if (item != jw_item()) __syncthreads();",
            f"    {self.definition.name}(",
            ",\n".join(f"      {argument}" for argument in arguments),
            "    );",
            "  }",
            "}",
        ]

    def _argument(self, p: int, param: Param, symbols: Sequence[int], changes_inputs: bool) -> str:
        element = element_type(param)
        if param.is_value:
            return f"jw::value_of<{element}>(args, {p}, item)"
        if p not in self.definition.outputs and not changes_inputs:
            element = f"const {element}"
        assert isinstance(param.type, ArrayType)
        extents = "".join(f", args.symbols[{k}]" for k in symbols[: param.type.dims])
        return f"jw::array_of<{element}>(args, {p}, item{extents})"

    # -- compiling

    def image(self, architectures: Sequence[str], blocks: Blocks) -> Image:
        """The compiled kernel for the architectures, from memory, disk or NVRTC.

        Raises:
            CompileError: the text is wrong.
            KernelTypeError: the function does not take the parameters.
            LaunchError: there is no NVRTC, or it does not know an architecture or an option.
        """
        require(f"kernel '{self.definition.name}'")
        start, unit = time.perf_counter(), self.unit(blocks)
        # Texts that are included from disk are as much part of the kernel as its own.
        files = included_files(unit)
        store = Store(self.settings.cache_dir if files is not None and identity() else "")
        parts = ("handwritten", identity() or "", toolchain(), unit.text, *unit.options, *architectures)
        key = key_of(*parts, *(x for pair in unit.headers.items() for x in pair), *(files or ()))
        with lock_of(key):
            # Without knowing what is included, nothing is kept.
            content, source = _images.get(key) if files is not None else None, "memory"
            if content is None:
                content, source = store.load(key), "disk"
            if content is None:
                content, source = self._compiled(unit, architectures, blocks), "compiled"
                store.save(key, content)
            _images.keep(key, content)
        name = self.definition.name
        announce(CompileEvent(name, "forward", "cuda", time.perf_counter() - start, source, len(content)))
        return Image(content, self.entry, blocks.size, 0)

    def codes(self, architectures: Sequence[str], blocks: Blocks, options: Sequence[str] = ()) -> dict[str, Code]:
        """The machine code for each architecture, compiled anew with more options."""
        unit = self.unit(blocks)
        return self._codes(dataclasses.replace(unit, options=(*unit.options, *options)), architectures, blocks)

    def _compiled(self, unit: Unit, architectures: Sequence[str], blocks: Blocks) -> bytes:
        codes = self._codes(unit, architectures, blocks)
        for message in messages_of(codes[architectures[0]].log):
            # The author cannot change the remarks about the library's own headers.
            if message.kind == "warning" and message.file in (self.definition.file, *self.definition.headers):
                where = Span(message.file, message.line)
                text = f"{where}: kernel '{self.definition.name}': {message.text}"
                warnings.warn_explicit(text, KernelWarning, message.file, message.line)
        return bundle(architectures, codes)

    def _codes(self, unit: Unit, architectures: Sequence[str], blocks: Blocks) -> dict[str, Code]:
        try:
            codes = {a: compile_unit(unit, a) for a in architectures}
            self._check(codes[architectures[0]], blocks)
            return codes
        except Rejected as rejected:
            first = rejected
        if any(m.file == self._wrapper_file for m in first.messages):
            again = dataclasses.replace(self.unit(blocks, changes_inputs=True), options=unit.options)
            try:
                codes = {a: compile_unit(again, a) for a in architectures}
                self._check(codes[architectures[0]], blocks)
            except Rejected:
                raise self._error(first) from None
            self._warn_of_inputs()
            return codes
        raise self._error(first) from None

    def _warn_of_inputs(self) -> None:
        inputs = [
            p.name for k, p in enumerate(self.kernel.params) if not p.is_value and k not in self.definition.outputs
        ]
        span = self.definition.span
        warnings.warn_explicit(
            f"kernel '{self.definition.name}' takes inputs ({', '.join(inputs)}) as pointers that are not const; what "
            "it writes there changes arrays of JAX that must not change\n  help: declare inputs as const pointers, and "
            "name in `outputs` what is written",
            KernelWarning,
            span.file,
            span.line,
        )

    def _error(self, rejected: Rejected) -> Exception:
        """The error for a person: at the author's line, or of the call of the author's function."""
        given = self.definition
        self._show_texts()
        errors = [m for m in rejected.messages if m.kind != "warning"]
        of_text = [m for m in errors if m.file != self._wrapper_file]
        if errors and not of_text:
            return self._call_error(errors[0])
        # An error of the call may follow from an error of the text.
        rejected.messages = tuple(of_text)
        made = as_compile_error(rejected, f"kernel '{given.name}'", given.span)
        advice = made.diagnostic.hint or (advice_on(of_text[0].text) if of_text else "")
        return CompileError(made.diagnostic.message, made.diagnostic.span, _missing_header(errors) or advice)

    def _show_texts(self) -> None:
        """Let errors show lines of texts that are no files; another kernel's text may have had that name."""
        given = self.definition
        in_memory = {given.file: given.text} if given.file.startswith("<") else {}
        for file, text in {**in_memory, **given.headers}.items():
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        linecache.checkcache(given.file)

    def _call_error(self, message: Message) -> Exception:
        given = self.definition
        base = re.match(r"[\w:]*", given.name)
        undefined = f'"{base[0].split("::")[-1]}"' if base else ""
        if "undefined" in message.text and undefined in message.text:
            return CompileError(
                f"kernel '{given.name}': the source has no function of this name", Span(given.file, 0),
                "`name` is what to call: a __global__ function, or an instance of a template such as scale<float, 128>",
            )  # fmt: skip
        if _UNCLOSED.search(message.text):
            last = max(given.text.count("\n") + (not given.text.endswith("\n")), 1)
            return CompileError(
                f"kernel '{given.name}': the source ends inside a function, a class or a namespace",
                Span(given.file, last),
                "close it with a }",
            )
        hint = f"declare it like\n  {self.signature}"
        if "template" in message.text and "<" not in given.name:
            hint = (
                f"`name` may be an instance of a template, such as {given.name}<float>; a function without one: {hint}"
            )
        return KernelTypeError(
            f"kernel '{given.name}': its function does not take the parameters that were declared: {message.text}",
            given.span,
            hint,
        )

    @property
    def signature(self) -> str:
        """The forms in which the function may be declared."""
        parts = []
        for p, param in enumerate(self.kernel.params):
            element = _DECLARED.get(element_type(param), element_type(param))
            star = "" if param.is_value else "*"
            const = "const " if star and p not in self.definition.outputs else ""
            parts.append(f"{const}{element}{star} {param.name}")
        return f"__global__ void {re.split('<', self.definition.name)[0]}({', '.join(parts)})"


# The compiler's message about the entry if the author's text has not ended.
_UNCLOSED = re.compile(r'linkage specification is not allowed|expected a "}"')
# The option that makes NVRTC take functions without a word like __device__ for the GPU's.
_DEVICE_BY_DEFAULT = {"default-device", "device-as-default-execution-space"}
# Comments, and texts and characters in quotes.
_HIDDEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def _plain(text: str) -> str:
    return _HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


# Constants that PTX declares without values.
_CONSTANTS = re.compile(r"^(?:\.\w+ )?\.const \.align \d+ \.\w+ (\w+)(?:\[\d+\])?;", re.MULTILINE)
_OTHER_AXES = re.compile(r"\bthreadIdx\s*\.\s*[yz]\b")

_DECLARED = {
    **{f"jw::vector<{t}, {n}>": f"{short}{n}" for t, short in (("float", "float"), ("double", "double"), ("int", "int"))
       for n in (2, 3)},
    "jw::vector<float, 4>": "float4", "jw::vector<int, 4>": "int4", "jw_half": "__half", "jw_bfloat": "__nv_bfloat16",
}  # fmt: skip

_images: Cache[str, bytes] = Cache("images of handwritten kernels", IMAGES)


def element_type(param: Param) -> str:
    """The C++ type of an element of an array, or of a value."""
    scalar = C_TYPES[param.dtype]
    element = param.type.components if isinstance(param.type, ArrayType) else ()
    if not element:
        return scalar
    kind = "vector" if len(element) == 1 else "matrix"
    return f"jw::{kind}<{scalar}, {', '.join(map(str, element))}>"


def _missing_header(errors: Sequence[Message]) -> str:
    found = next(
        (m for m in errors if "could not open source file" in m.text or "cannot open source file" in m.text), None
    )
    if found is None:
        return ""
    if re.search(r'"(cuda|cooperative|mma|vector|device|curand)', found.text) and not cuda_headers():
        return "CUDA's own headers are not installed: pip install nvidia-cuda-runtime"
    return "give its text, or its folder, as `headers`: {'its/name.h': ''} for one of the host that nothing else needs"


def _quoted(file: str) -> str:
    escaped = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def refused_option(option: str) -> str | None:
    """Why an option of NVRTC cannot be given, or None."""
    name = re.split(r"[=\s]", option.strip())[0].lstrip("-")
    for names, reason in _REFUSED.items():
        if name in names:
            return reason
    return None


_REFUSED = {
    ("arch", "gpu-architecture", "gencode", "code", "gpu-code"):
        "the architecture is that of the GPU, or of wp.config.cuda_arch",
    ("dlto", "dlink-time-opt", "rdc", "relocatable-device-code", "dc", "device-c", "ltoir", "ptx", "optix-ir"):
        "the result must be machine code that a driver loads as it is",
    ("I", "include-path"): "headers and their folders are given as `headers`",
}  # fmt: skip
