"""A derivative of a launch as it is kept on disk, or why there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jwarp.compiler.derivation_cache import DerivationCache
from jwarp.compiler.derived import DerivedLaunch, Feed, Source
from jwarp.compiler.program import GeneratedProgram
from jwarp.errors import NotDifferentiableError, Span
from jwarp.ir.printing import short_file
from jwarp.ir.serialize import from_entry, known, to_entry
from jwarp.wire import Role

Refusal = NotDifferentiableError


def write(derived: DerivedLaunch | Refusal) -> bytes | None:
    """A line that says how to launch it, then the kernels; None where a kernel has no entry."""
    if isinstance(derived, Refusal):
        return json.dumps({"refusal": _written(derived)}).encode()
    program, on_gpu = derived.program, derived.program.on_gpu
    kernels = [program.kernel, *([] if on_gpu is None or on_gpu is program.kernel else [on_gpu])]
    entries = [to_entry(known(kernel)) for kernel in kernels]
    head = {
        "sizes": [len(entry or b"") for entry in entries],
        "feeds": [[*feed.source, feed.role, feed.result, feed.is_sum] for feed in derived.feeds],
        "same": sorted(derived.same),
        "gathered": derived.gathered,
    }
    return json.dumps(head).encode() + b"\n" + b"".join(e for e in entries if e) if all(entries) else None


def read(entry: bytes, of: GeneratedProgram, cache: DerivationCache) -> DerivedLaunch | Refusal:
    """Read back what `write` wrote for a derivative of a program, whose own cache is given."""
    header, _, content = entry.partition(b"\n")
    head: dict[str, Any] = json.loads(header)
    paths = dict(cache.files)
    if "refusal" in head:
        return _refusal(head["refusal"], paths)
    size = head["sizes"][0]
    other = from_entry(content[size:], paths) if head["sizes"][1:] else None
    kernel = from_entry(content[:size], paths)
    program = GeneratedProgram(kernel, of.settings, of.owner, on_gpu=other, cache=cache)
    feeds = (Feed(Source(kind, p), Role(role), result, is_sum) for kind, p, role, result, is_sum in head["feeds"])
    gathered = ((p, tuple(axes)) for p, axes in head["gathered"])
    return DerivedLaunch(program, tuple(feeds), frozenset(head["same"]), tuple(gathered))


def _written(error: Refusal) -> list[Any]:
    written = error.diagnostic
    span = written.span
    return [written.message, written.hint, short_file(span), span.file, span.line, span.col, span.end_col]


def _refusal(written: list[Any], paths: Mapping[str, str]) -> Refusal:
    message, hint, name, path, *place = written
    return Refusal(message, Span(paths.get(name, path), *place), hint)
