"""Shows the lines of the user's source in generated code, at the marks that say which line it comes from."""

from __future__ import annotations

import linecache
import os
import re

# How each kind of text says where code comes from: a file, or its number, and a line.
_LINE = re.compile(r'^(?:; )?#line (?P<line>\d+) "(?P<file>.*)"$')
_LOC = re.compile(r"^\s*\.loc\s+(?P<file>\d+) (?P<line>\d+) ")
_FILE = re.compile(r'^\s*\.file\s+(?P<number>\d+) (?:"(?P<folder>[^"]*)" )?"(?P<file>[^"]*)"')
_SASS = re.compile(r'^\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)')


def annotated(text: str, comment: str = "//") -> str:
    """The text with the user's source, as comments, after what says which line code comes from."""
    found_files = filter(None, map(_FILE.match, text.splitlines()))
    files = {found["number"]: os.path.join(found["folder"] or "", found["file"]) for found in found_files}
    shown: list[str] = []
    last = place = ""
    for line in text.splitlines():
        if _LINE.match(line):
            # Every statement says where it comes from; one mark for all of a line is enough to read.
            if line == place:
                continue
            place = line
        shown.append(line)
        found = _LINE.match(line) or _SASS.match(line) or _LOC.match(line)
        if found:
            source = linecache.getline(files.get(found["file"], found["file"]), int(found["line"])).strip()
            if source and source != last:
                shown.append(f"      {comment} {source}")
            last = source or last
    return "\n".join(shown) + "\n"
