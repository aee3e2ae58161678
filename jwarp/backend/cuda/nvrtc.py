"""Compiles CUDA C++ to machine code for given architectures with NVRTC, which needs no GPU."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from jwarp.backend.cuda.assembler import LINES, Refusal, line_of_symbol, place_of, refusal_of, remarks_of
from jwarp.caches import cached
from jwarp.config import ARCHITECTURE, split_names
from jwarp.errors import NO_SPAN, CompileError, LaunchError, Span

INSTALL = "pip install 'jwarp[cuda-compile]' (without a GPU) or 'jwarp[cuda13]'"
# The default targets of images without a GPU: one of each generation, which also runs on its later members.
DEFAULT_ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
OPTIONS = ("--std=c++17", "--brief-diagnostics=true", "--no-display-error-number")

# The prefix of the names by which the compiler refers to texts of native functions.
SNIPPET = "snippet of "
# Those of files that are none, but what the library wrote around a text.
OWN_FILES = "<jwarp"

# The way out if it fails for another reason than the text.
_ADVICE = {
    "NVRTC_ERROR_OUT_OF_MEMORY": "this computer has no memory left to compile with: end other programs, or set "
    "wp.config.cuda_arch to one architecture",
    "NVRTC_ERROR_INVALID_OPTION": "this NVRTC does not know the architecture (wp.config.cuda_arch) or an option of a "
    "handwritten kernel (options)",
    "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE": "a part of NVRTC is missing, or of another version: pip install "
    "--force-reinstall nvidia-cuda-nvrtc",
}
_REPORT = "another version of nvidia-cuda-nvrtc may do; please report it, with the kernel"

_DIAGNOSTIC = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<kind>error|catastrophic error|warning): (?P<text>.*)$")
_LINE = re.compile(r'#line (\d+) "(.*)"')
_INCLUDED = re.compile(r'^#include "(.+)"$', re.MULTILINE)
# ptxas speaks of what it had to put in memory for want of registers.
_RESOURCES = re.compile(r"(\d+) bytes spill stores.*?Used (\d+) registers", re.DOTALL)


@dataclass(frozen=True)
class Unit:
    """One text to compile, by the name that messages give it, with the headers that it includes by name.

    It is that of `whose` kernel, which is written at `span`, if it is one's.
    """

    text: str
    name: str
    options: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    whose: str = ""
    span: Span = NO_SPAN


@dataclass(frozen=True)
class Message:
    """One line of the compiler about a line of source."""

    file: str
    line: int
    kind: str
    text: str


class Rejected(Exception):
    """NVRTC refused a text: `messages` where it says a line, and everything it said in `log`."""

    def __init__(self, log: str, unit: Unit, architecture: str):
        super().__init__(log)
        self.log, self.unit, self.architecture = log, unit, architecture
        self.messages = messages_of(log)


@dataclass(frozen=True)
class Code:
    """Machine code for one architecture, and what the compilers said."""

    cubin: bytes
    ptx: str
    log: str

    @property
    def registers(self) -> int | None:
        """Registers of the kernel, if the unit was compiled with `-Xptxas=-v`."""
        found = _RESOURCES.search(self.log)
        return int(found[2]) if found else None

    @property
    def spills(self) -> int | None:
        """Bytes of registers kept in memory, if the unit was compiled with `-Xptxas=-v`."""
        found = _RESOURCES.search(self.log)
        return int(found[1]) if found else None


def missing() -> str | None:
    """The parts that this Python lacks to compile CUDA, in words; None if there are all."""
    if not is_installed():
        return "cuda-bindings is not installed"
    try:
        toolchain()
    except Exception as error:  # the loader's own, which has many names
        return f"NVRTC cannot be loaded: {str(error).splitlines()[0]}"
    return None


@cached("one")
def is_installed() -> bool:
    """True if there are bindings of NVRTC; whether they find their library is another question."""
    try:
        return importlib.util.find_spec("cuda.bindings.nvrtc") is not None
    except ModuleNotFoundError:
        return False


@cached("one")
def toolchain() -> str:
    """The version of NVRTC; code of another version is other code."""
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"nvrtc {major}.{minor}"


def require(what: str) -> None:
    """Raise LaunchError, which speaks of `what`, unless CUDA can be compiled."""
    lacking = missing()
    if lacking is not None:
        raise LaunchError(f"{what} cannot be compiled for CUDA: {lacking}", hint=INSTALL)


def read_architectures(text: str) -> tuple[str, ...]:
    """The architectures in a text like `sm_80, sm_90`; the default ones for an empty text.

    Raises:
        LaunchError: one of them has another form.
    """
    names = tuple(dict.fromkeys(split_names(text)))
    for name in names:
        if not ARCHITECTURE.fullmatch(name):
            raise LaunchError(
                f"wp.config.cuda_arch: {name!r} is no architecture", hint="write it like sm_90, several with commas"
            )
    return names or DEFAULT_ARCHITECTURES


def compile_unit(unit: Unit, architecture: str) -> Code:
    """The machine code of `unit` for one architecture, such as `sm_90`; its PTX alone for `compute_90`.

    Raises:
        Rejected: NVRTC found errors in the text.
        LaunchError: there is no NVRTC, or it does not know the architecture or an option.
    """
    require(unit.whose or unit.name)
    nvrtc = _nvrtc()
    expect = functools.partial(_expect, unit, architecture)
    names, texts = [n.encode() for n in unit.headers], [t.encode() for t in unit.headers.values()]
    error, program = nvrtc.nvrtcCreateProgram(unit.text.encode(), unit.name.encode(), len(texts), texts, names)
    expect(error)
    try:
        options = [f"--gpu-architecture={architecture}", *OPTIONS, *unit.options]
        (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = (
            _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program, expect)
            .decode(errors="replace")
            .rstrip("\0")
        )
        if error == nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION:
            raise Rejected(log, unit, architecture)
        expect(error, log)
        is_virtual = architecture.startswith("compute_")
        cubin = b"" if is_virtual else _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program, expect)
        ptx = _read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program, expect).decode()
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Code(cubin, ptx.rstrip("\0"), log)


def bundle(
    architectures: Sequence[str], codes: Mapping[str, Code], instead: Mapping[str, tuple[str, Code]] | None = None
) -> bytes:
    """Machine code for the one architecture, or that for several in one file.

    `instead` has, for some of them, what has the place of their machine code, and the architecture that it is for. Of
    these `codes` has the PTX, if they are at one of the `ends`.

    Raises:
        LaunchError: there is no nvfatbin, and there are several.
    """
    chosen = {a: (instead or {}).get(a) or (a, codes[a]) for a in architectures}
    if len(chosen) == 1:
        return chosen[architectures[0]][1].cubin
    oldest, newest = ends(architectures)
    # A GPU newer than all of these starts from the PTX of the newest, which its driver compiles, and one of another
    # generation between them from that of the oldest.
    return _fatbin({a: code.cubin for a, code in chosen.values()}, {a: codes[a].ptx for a in (newest, oldest)})


def virtual(architecture: str) -> str:
    """The architecture of which PTX is."""
    return architecture.replace("sm_", "compute_")


def ends(architectures: Sequence[str]) -> tuple[str, ...]:
    """Of which architectures a file has PTX."""
    return (architectures[0], architectures[-1]) if len(architectures) > 1 else ()


def messages_of(log: str) -> tuple[Message, ...]:
    """The lines of a log that speak of a line of source."""
    found = filter(None, map(_DIAGNOSTIC.match, log.splitlines()))
    return tuple(Message(f["file"], int(f["line"]), f["kind"], f["text"]) for f in found)


def as_compile_error(rejected: Rejected, what: str, whole: Span = NO_SPAN) -> CompileError:
    """The error for a person, at the line that is complained of first, or that of the `whole`."""
    errors = [m for m in rejected.messages if m.kind != "warning"]
    if not errors:
        return _as_refusal(rejected, what, whole)
    first, *others = errors
    more = f", and {len(others)} more" if others else ""
    hint = "an array that the text does not plainly write to is constant there" if "const" in first.text else ""
    hint = hint if first.file.startswith(SNIPPET) else ""
    return CompileError(f"{what}: {first.text}{more}", _span(first.file, first.line), hint)


def _as_refusal(rejected: Rejected, what: str, whole: Span) -> CompileError:
    """The error for what the assembler refuses, at the line of the source if there is one."""
    refusal = refusal_of(rejected.log)
    if refusal is None:
        said = [line for line in rejected.log.strip().splitlines() if "): warning: " not in line]
        return CompileError(f"{what}: NVRTC says\n" + "\n".join(said), whole)
    place = _place(rejected, refusal)
    return CompileError(f"{what}: {refusal.message}", whole if place is None else _span(*place), refusal.hint)


def _place(rejected: Rejected, refusal: Refusal) -> tuple[str, int] | None:
    """The place of a refusal in a file that the text has parts of."""
    unit, architecture = rejected.unit, rejected.architecture
    lines = list(_lines_of_files(unit.text))
    if refusal.words:
        written = re.compile(rf"^(?!.*\bextern\b)[^/]*\b{re.escape(refusal.words)}\b")
        return next(((file, at) for file, at, text in lines if written.search(text)), None)
    if not refusal.symbol and not refusal.remark.line:
        return None
    again = dataclasses.replace(unit, options=(*unit.options, LINES))
    try:
        ptx = compile_unit(again, architecture.replace("sm_", "compute_")).ptx
        if refusal.symbol:
            line = line_of_symbol(ptx, refusal.symbol)
        else:
            compile_unit(again, architecture)
            return None
    except Rejected as same:
        line = next((remark.line for remark in remarks_of(same.log)), 0)
    return place_of(ptx, line, {file for file, _, _ in lines}) if line else None


def _lines_of_files(text: str) -> Iterator[tuple[str, int, str]]:
    """The lines of a text that `#line` says to be those of files of others: file, number, line."""
    file, at = "", 0
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is not None:
            file, at = found[2].replace('\\"', '"').replace("\\\\", "\\"), int(found[1])
        elif file:
            if not file.startswith(OWN_FILES):
                yield file, at, line
            at += 1


def disassembler() -> str | None:
    """The program that shows machine code as text, if there is one."""
    if not is_installed():
        return None
    import cuda.pathfinder as pathfinder

    return pathfinder.find_nvidia_binary_utility("nvdisasm")


def device_folder() -> Path:
    """The folder of this package's CUDA headers: in the wheel, or in the source tree."""
    package = Path(__file__).parents[2]
    installed = package / "device_headers"
    return installed if installed.is_dir() else package.parent / "cuda" / "device"


@cached("the files in a folder")
def device_header(name: str) -> str:
    """The text of a CUDA header of this package."""
    return (device_folder() / name).read_text()


def device_headers(names: Iterable[str]) -> dict[str, str]:
    """The texts of headers of this package, and of those that they include, by name."""
    texts: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in texts:
            texts[name] = device_header(name)
            waiting += _INCLUDED.findall(texts[name])
    return texts


def _span(file: str, line: int) -> Span:
    """The whole of a line."""
    import linecache

    text = linecache.getline(file, line).rstrip("\n")
    return Span(file, line, *((len(text) - len(text.lstrip()), len(text.rstrip())) if text else (0, 0)))


def _nvrtc() -> ModuleType:
    from cuda.bindings import nvrtc

    return nvrtc


def _expect(unit: Unit, architecture: str, error: Any, log: str = "") -> None:
    if error != _nvrtc().nvrtcResult.NVRTC_SUCCESS:
        _, text = _nvrtc().nvrtcGetErrorString(error)
        said = f": {log.strip()}" if log.strip() else ""
        raise LaunchError(
            f"{unit.whose or unit.name}: NVRTC failed with {text.decode()} for {architecture}{said}", unit.span,
            _ADVICE.get(text.decode(), _REPORT),
        )  # fmt: skip


def _read(size: Any, get: Any, program: Any, expect: Callable[[Any], None]) -> bytes:
    error, length = size(program)
    expect(error)
    # Not bytes: of a single byte there is one object in the whole process, which NVRTC would write to.
    content = bytearray(length)
    (error,) = get(program, content)
    expect(error)
    return bytes(content)


def _fatbin(cubins: Mapping[str, bytes], assemblies: Mapping[str, str]) -> bytes:
    try:
        from cuda.bindings import nvfatbin

        handle = nvfatbin.create([], 0)
    except Exception as error:  # the loader's own, which has many names
        raise LaunchError(
            f"code for several architectures ({', '.join(cubins)}) needs nvfatbin: {str(error).splitlines()[0]}",
            hint="pip install nvidia-nvfatbin, or set wp.config.cuda_arch to one architecture",
        ) from None
    try:
        for architecture, cubin in cubins.items():
            nvfatbin.add_cubin(handle, cubin, len(cubin), architecture.removeprefix("sm_"), "jwarp")
        for architecture, ptx in assemblies.items():
            text = ptx.encode() + b"\0"
            nvfatbin.add_ptx(handle, text, len(text), architecture.removeprefix("sm_"), "jwarp", "")
        content = bytearray(nvfatbin.size(handle))
        nvfatbin.get(handle, content)
    except nvfatbin.nvFatbinError as error:
        raise LaunchError(
            f"code for several architectures ({', '.join(cubins)}): nvfatbin failed with {error}",
            hint="set wp.config.cuda_arch to one architecture",
        ) from None
    finally:
        nvfatbin.destroy(handle)
    return bytes(content)


# Advice on messages about handwritten source.
_ON_SOURCE = (
    (r"__cluster_dims__|__block_size__", "leave the attribute out: kernels are launched without clusters"),
    (r"device-side kernel launch", "launch each kernel from Python, by a wp.launch of its own"),
    (r"exception handling", "end the thread by `return`, or the kernel by `__trap()`"),
    (
        r"^texture is not a template|identifier \"(?:tex[123]D\w*|texture|surface)\" is undefined",
        "CUDA has no texture references any more: read an array, whose loads are cached",
    ),
    (
        r'namespace "std" has no member "(?:vector|string|map|unordered_map|list|deque|set|function|cout|cerr|endl)"',
        "containers and streams are the host's: an array parameter, shared memory and printf are there instead",
    ),
    (
        r'identifier "(?P<name>\w+)" is undefined',
        "declare `{name}` in the source; its header comes by `headers`, a macro by options=['-D{name}=…']",
    ),
    (r"excessive recursion at instantiation", "let the template end: a case that does not instantiate itself"),
)


def advice_on(message: str) -> str:
    """The advice on a message; empty where its words say it."""
    for pattern, advice in _ON_SOURCE:
        found = re.search(pattern, message)
        if found is not None:
            return advice.format(**found.groupdict())
    return ""
