"""The source line of each instruction for the processor, as metadata of LLVM's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jwarp.errors import Span

# Metadata that every text with lines has, after !0; only directives for the assembler come of it.
_UNIT = """\
!llvm.dbg.cu = !{!1}
!llvm.module.flags = !{!3, !4}
!1 = distinct !DICompileUnit(language: DW_LANG_C, file: !2, emissionKind: DebugDirectivesOnly)
!2 = !DIFile(filename: "kernel", directory: "")
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = !{i32 2, !"Dwarf Version", i32 4}
!5 = !DISubroutineType(types: !0)"""
_FIRST = 6


@dataclass
class SourceLines:
    """The metadata of a module in the making, as one of its functions asks for it: which lines its code comes from."""

    nodes: dict[str, int] = field(default_factory=dict)  # by text, in the order of their numbers
    function: int = -1  # the number of this function, if it has lines

    def of_another(self) -> SourceLines:
        """The same metadata for another function of the module."""
        return SourceLines(self.nodes)

    def origin(self, span: Span) -> str:
        """The end of an instruction of `span`."""
        if not span.line:
            return f", !dbg {self._place(0, self._function())}"
        name = span.file.replace("\\", "\\5C").replace('"', "\\22")
        file = self._node(f'!DIFile(filename: "{name}", directory: "")')
        scope = self._node(f"!DILexicalBlockFile(scope: !{self._function()}, file: !{file}, discriminator: 0)")
        return f", !dbg {self._place(span.line, scope)}"

    def of_function(self) -> str:
        """The reference in the head of the function."""
        return f" !dbg !{self.function}" if self.function >= 0 else ""

    def metadata(self) -> list[str]:
        """The module's metadata; nothing if no instruction has said where it comes from."""
        return [_UNIT, *(f"!{number} = {text}" for text, number in self.nodes.items())] if self.nodes else []

    def _function(self) -> int:
        if self.function < 0:
            kind = "spFlags: DISPFlagDefinition, unit: !1"
            name = f'name: "f{len(self.nodes)}"'
            self.function = self._node(f"distinct !DISubprogram({name}, scope: !2, file: !2, type: !5, {kind})")
        return self.function

    def _place(self, line: int, scope: int) -> str:
        return f"!{self._node(f'!DILocation(line: {line}, scope: !{scope})')}"

    def _node(self, text: str) -> int:
        return self.nodes.setdefault(text, _FIRST + len(self.nodes))


_PLACED = re.compile(r",? !dbg !(\d+)")
_LOCATION = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+),.* scope: !(\d+)")
_SCOPE = re.compile(r"^!(\d+) = (?:distinct )?!DI\w+\(.*\bfile: !(\d+)")
_FILE = re.compile(r'^!(\d+) = !DIFile\(filename: "(.*)", directory')
_METADATA = re.compile(r'^!(\d+ = (distinct )?!DI|llvm\.(dbg\.cu|module\.flags) = |\d+ = !\{i32 2, !"D)')


def with_directives(text: str) -> str:
    """The text of a module in which comments `; #line 5 "file"`, not metadata, say which lines code comes from."""
    found = text.splitlines()
    files = {m[1]: m[2] for m in map(_FILE.match, found) if m}
    scopes = {m[1]: files[m[2]] for m in map(_SCOPE.match, found) if m}
    places = {m[1]: f'; #line {m[2]} "{scopes[m[3]]}"' for m in map(_LOCATION.match, found) if m and m[2] != "0"}
    lines: list[str] = []
    for line in found:
        placed = _PLACED.search(line)
        if placed and placed[1] in places:
            lines.append(places[placed[1]])
        if not _METADATA.match(line):
            lines.append(_PLACED.sub("", line))
    return "\n".join(lines)
