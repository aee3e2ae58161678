"""Source spans, the four error classes, and how a fault is shown to a person."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

from jwarp.caches import cached
from jwarp.config import surface


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one source line: `line` counts from 1, the columns from 0."""

    file: str
    line: int
    col: int = 0
    end_col: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NO_SPAN = Span("<unknown>", 0)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A fault: what is wrong, where, and a way out."""

    message: str
    span: Span = NO_SPAN
    hint: str = ""

    def render(self) -> str:
        lines = []
        if self.span.line:
            lines.append(f"  --> {self.span}")
            source = linecache.getline(self.span.file, self.span.line).rstrip("\n")
            if source:
                number = str(self.span.line)
                width = max(1, self.span.end_col - self.span.col)
                # A span of a line alone is where its text begins.
                column = self.span.col if self.span.end_col else len(source) - len(source.lstrip())
                # Tabs stay tabs in the underline, so that the caret sits below its text.
                lead = "".join("\t" if c == "\t" else " " for c in source[:column])
                lines.append(f"{number} | {source}")
                lines.append(f"{' ' * len(number)} | {lead}{'^' * width}")
        # Programs of Warp look for the reason at the end of the text: help on other faults than those of kernel source
        # is a note of the error, which Python shows below it.
        if self.hint and (self.span.line or not surface.is_warps):
            lines.append(f"  help: {self.hint}")
        parts = [*lines, self.message] if self.span.line and surface.is_warps else [self.message, *lines]
        return "\n".join(parts)


@cached("the classes of errors")
def _joined(error: type[JwarpError], also: type[Exception]) -> type[JwarpError]:
    """The class of errors that are of both classes, and look like those of the first one."""
    names = {"__module__": error.__module__, "__doc__": error.__doc__, "__str__": BaseException.__str__}
    return type(error.__name__, (error, also), names | {"of": error, "also": also})


class JwarpError(RuntimeError):
    """Base of the errors below; `diagnostic` holds the parts that the text was made of.

    Warp raises RuntimeError for most faults. `also` is the class of its error for the same fault, where that is
    none of the bases: a program that catches Warp's error goes on.
    """

    of: ClassVar[type[JwarpError] | None] = None
    also: ClassVar[type[Exception] | None] = None

    def __new__(cls, *args: Any, also: type[Exception] | None = None, **kwargs: Any) -> Self:
        if also is None or issubclass(cls, also):
            return super().__new__(cls, *args)
        return super().__new__(cast("type[Self]", _joined(cls, also)), *args)  # type: ignore[arg-type]

    def __init__(
        self, message: str, span: Span = NO_SPAN, hint: str = "", *, also: type[Exception] | None = None
    ) -> None:
        self.diagnostic = Diagnostic(message, span, hint)
        super().__init__(self.diagnostic.render())
        if hint and surface.is_warps and not span.line:
            self.add_note(f"  help: {hint}")

    def __reduce__(self) -> tuple:
        d = self.diagnostic
        return (_again, (self.of or type(self), d.message, d.span, d.hint, self.also))


def _again(error: type[JwarpError], message: str, span: Span, hint: str, also: type[Exception] | None) -> JwarpError:
    """The error of these parts, in another process."""
    return error(message, span, hint, also=also)


class CompileError(JwarpError, SyntaxError):
    """Kernel source that is not written in the kernel language."""

    def __init__(
        self, message: str, span: Span = NO_SPAN, hint: str = "", *, also: type[Exception] | None = None
    ) -> None:
        super().__init__(message, span, hint, also=also)
        self.msg = self.args[0]  # the text of a SyntaxError


class KernelTypeError(JwarpError, TypeError):
    """A type that does not match, in kernel source or in the arguments of a launch."""

    refuses_id = False  # of a function that is given the id of an object of another kind than it takes
    needs_memory = False  # of a kernel that looks numbers up, if it is read without all memory
    wanted_handle: Any = None  # of a function that is given a number: the struct of what that would be the id of


def no_attribute(name: str, owner: str, span: Span, hint: str = "") -> KernelTypeError:
    """The error for an attribute that a value, a type or a module in kernel source does not have."""
    return KernelTypeError(f"`{name}` is not an attribute of {owner}", span, hint, also=AttributeError)


class LaunchError(JwarpError, ValueError):
    """Arguments of a launch whose count, shape, dims or names do not match the kernel."""


class NotDifferentiableError(JwarpError, NotImplementedError):
    """A derivative along a path without an exact rule."""


class KernelWarning(UserWarning):
    """Kernel source that is allowed, but probably a mistake."""
