"""Versions of code for GPUs in short: "tf32 narrow:0,2 flat either"."""

from __future__ import annotations

from jwarp.backend.cuda.version import Access, Version

ACCESSES: dict[str, Access] = {"fast": "fast", "checked": "checked", "either": "either"}


def read_version(text: str | Version) -> Version:
    """The version that a text stands for; `narrow:0,2` has arrays 0 and 2 with an element for each thread."""
    if isinstance(text, Version):
        return text
    *words, access = text.split()
    narrow = next((word for word in words if word.startswith("narrow")), None)
    assert set(words) <= {narrow, "flat", "tf32", "wgmma"}, text
    per_thread = narrow.removeprefix("narrow").removeprefix(":") if narrow else ""
    return Version(
        ACCESSES[access],
        is_flat="flat" in words,
        is_narrow=narrow is not None,
        per_thread=tuple(map(int, per_thread.split(","))) if per_thread else (),
        tf32="tf32" in words,
        wgmma="wgmma" in words,
    )
