"""The headers that a CUDA C++ text includes from disk, and the folder of CUDA's own."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jwarp.backend.cuda.nvrtc import Unit
from jwarp.caches import cached
from jwarp.store import key_of

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.MULTILINE)
_NAMED = re.compile(r'(["<])([^">]+)[">]')


@cached("one")
def cuda_headers() -> tuple[str, ...]:
    """The folder with cuda_fp16.h and its like, if there is one, and that of CCCL: NVRTC itself brings none."""
    found = next((folder for folder in _candidates() if (folder / "cuda_fp16.h").is_file()), None)
    if found is None:
        return ()
    library = next((f for f in (found / "cccl", *_libraries()) if (f / "cuda" / "std").is_dir()), None)
    # Older releases have it among CUDA's own.
    if library is None and (found / "cuda" / "std").is_dir():
        library = found
    return (str(found),) if library is None else (str(found), str(library))


def _libraries() -> Iterator[Path]:
    """The folder of CCCL, if it does not lie among CUDA's own headers."""
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec else ():
        yield from (Path(place) / part / "include" / "cccl" for part in ("cu13", "cuda_cccl"))


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec else ():
        yield from (Path(place) / part / "include" for part in ("cu13", "cuda_runtime"))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "include"
    yield Path("/usr/local/cuda/include")


def own_files(text: str, folders: Sequence[str], given: Mapping[str, str]) -> dict[str, tuple[Path, str]]:
    """The files in these folders that a text includes in quotes, and those that these include, by the name they go by.

    A name that stands for several files is left out, and what is `given` is no file.
    """
    found: dict[str, tuple[Path, str]] = {}
    unclear, waiting = set(), [(text, tuple(map(Path, folders)))]
    while waiting:
        content, places = waiting.pop()
        for line in _INCLUDE.findall(content):
            named = _NAMED.match(line)
            if named is None or named[1] != '"' or named[2] in given:
                continue
            path = next((p / named[2] for p in places if (p / named[2]).is_file()), None)
            if path is None:
                continue
            known = found.get(named[2])
            if known is None:
                found[named[2]] = path, path.read_text(errors="replace")
                waiting.append((found[named[2]][1], (path.parent, *map(Path, folders))))
            elif not known[0].samefile(path):
                unclear.add(named[2])
    return {name: file for name, file in found.items() if name not in unclear}


def included(text: str) -> Iterator[str]:
    """The names of the headers that a text includes."""
    for line in _INCLUDE.findall(text):
        named = _NAMED.match(line)
        if named is not None:
            yield named[2]


def included_files(unit: Unit) -> list[bytes] | None:
    """The files that the text and its headers include from disk, under any condition; None if a macro names one."""
    given = [Path(o.removeprefix("--include-path=")) for o in unit.options if o.startswith("--include-path=")]
    own = set(map(Path, cuda_headers()))
    folders, of_cuda = [f for f in given if f not in own], [f for f in given if f in own]
    contents: dict[str, bytes] = {}
    tried: dict[str, int] = {}  # in how many of the folders a name has been looked for
    waiting = [unit.text, *unit.headers.values()]
    while waiting or any(count < len(folders) for count in tried.values()):
        for line in _INCLUDE.findall(waiting.pop() if waiting else ""):
            named = _NAMED.match(line)
            if named is None:
                return None
            if named[2] in unit.headers or named[2] in tried:
                continue
            tried[named[2]] = 0
            for path in filter(os.path.isfile, (os.path.normpath(folder / named[2]) for folder in of_cuda)):
                included, contents[path] = _of_cuda(path)
                for name in included:
                    tried.setdefault(name, 0)
        # A folder that was added later is searched for all names, because NVRTC may find them there.
        for name in tried:
            for folder in folders[tried[name] :]:
                path = os.path.normpath(folder / name)
                if path in contents or not os.path.isfile(path):
                    continue
                contents[path] = Path(path).read_bytes()
                waiting.append(contents[path].decode(errors="replace"))
                # NVRTC looks next to the including file, too.
                own_folder = Path(path).parent
                if own_folder not in folders:
                    folders.append(own_folder)
            tried[name] = len(folders)
    return [x for path in sorted(contents) for x in (path.encode(), contents[path])]


@cached("the headers of CUDA")
def _of_cuda(path: str) -> tuple[tuple[str, ...], bytes]:
    """The names that one of CUDA's own headers, and those of them that it includes, include; and what stands there.

    They are hundreds of files, which stay as they are while a process runs.
    """
    names, known, waiting = set[str](), {path}, [path]
    while waiting:
        at = waiting.pop()
        included = _header(at)[0]
        names.update(included)
        own_folder = os.path.dirname(at)
        for found in filter(None, (_found(f, name) for name in included for f in (*cuda_headers(), own_folder))):
            if found not in known:
                known.add(found)
                waiting.append(found)
    return tuple(sorted(names)), key_of(*(x for at in sorted(known) for x in (at, _header(at)[1]))).encode()


@cached("the headers of CUDA")
def _header(path: str) -> tuple[tuple[str, ...], str]:
    """The names that one of them includes, and the key of its content."""
    content = Path(path).read_bytes()
    named = map(_NAMED.match, _INCLUDE.findall(content.decode(errors="replace")))
    return tuple({found[2]: None for found in named if found}), key_of(content)


@cached("names in the headers of CUDA")
def _found(folder: str, name: str) -> str | None:
    path = os.path.normpath(os.path.join(folder, name))
    return path if os.path.isfile(path) else None
