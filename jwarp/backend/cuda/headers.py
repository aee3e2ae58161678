"""Which headers a CUDA C++ text includes from disk, and where CUDA's own are."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

from jwarp.backend.cuda.nvrtc import Unit
from jwarp.caches import cached

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.MULTILINE)
_NAMED = re.compile(r'(["<])([^">]+)[">]')


@cached("one")
def cuda_headers() -> tuple[str, ...]:
    """The folder with cuda_fp16.h and its like, if there is one: NVRTC itself brings none."""
    return next(((str(folder),) for folder in _candidates() if (folder / "cuda_fp16.h").is_file()), ())


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec else ():
        yield from (Path(place) / part / "include" for part in ("cu13", "cuda_runtime"))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "include"
    yield Path("/usr/local/cuda/include")


def included_files(unit: Unit) -> list[bytes] | None:
    """What the text and its headers include from disk, whatever conditions they are under; None if a macro says."""
    folders = [Path(o.removeprefix("--include-path=")) for o in unit.options if o.startswith("--include-path=")]
    contents: dict[str, bytes] = {}
    waiting = [unit.text, *unit.headers.values()]
    while waiting:
        for name in _INCLUDE.findall(waiting.pop()):
            named = _NAMED.match(name)
            if named is None:
                return None
            if named[2] in unit.headers:
                continue
            for folder in folders:
                path = os.path.normpath(folder / named[2])
                if path in contents or not os.path.isfile(path):
                    continue
                contents[path] = Path(path).read_bytes()
                waiting.append(contents[path].decode(errors="replace"))
                # NVRTC looks beside the file that includes, too.
                beside = Path(path).parent
                if beside not in folders:
                    folders.append(beside)
    return [x for path in sorted(contents) for x in (path.encode(), contents[path])]
