"""`python -m jwarp run PROGRAM`: runs a Warp program as it is, as Python itself would, with jwarp for Warp."""

from __future__ import annotations

import builtins
import io
import os
import runpy
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader

from jwarp.programs.modules import install

USAGE = "usage: python -m jwarp run SCRIPT [ARGUMENTS]\n       python -m jwarp run -m MODULE [ARGUMENTS]"


def run(arguments: Sequence[str]) -> None:
    """Run what `arguments` name: a file, a folder or archive with `__main__.py`, or `-m` and a module.

    Raises:
        SystemExit: the program ended itself so; or with 1 after an error, which has been shown; or with 2 where the
            arguments name no program.
    """
    match list(arguments):
        case ["-h" | "--help", *_]:
            print(USAGE)
        case ["-m", module, *rest]:
            _guarded(lambda: _run_module(module, rest))
        case [script, *rest] if not script.startswith("-"):
            _guarded(lambda: _run_script(script, rest))
        case _:
            print(USAGE, file=sys.stderr)
            raise SystemExit(2)


def _run_module(module: str, rest: list[str]) -> None:
    install()
    sys.argv = ["-m", *rest]  # the first one becomes the file's name
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except ImportError as error:
        if error.__traceback__ is not None and _is_missing(error, module):
            raise SystemExit(f"{sys.executable}: {error}") from None
        raise


def _is_missing(error: ImportError, module: str) -> bool:
    """True if the module itself was not found, as opposed to one that it imports."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_code.co_filename.startswith("<frozen runpy>")


def _run_script(script: str, rest: list[str]) -> None:
    is_text = not os.path.isdir(script) and _is_source(script)
    install()
    sys.argv = [script, *rest]
    if not is_text:
        runpy.run_path(script, run_name="__main__")
        return
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    with io.open_code(os.path.abspath(script)) as file:
        source = file.read()
    # The program's own module, which stays until the process ends, as Python's does.
    main = types.ModuleType("__main__")
    vars(main).update(
        __file__=os.path.abspath(script),
        __builtins__=builtins,
        __loader__=SourceFileLoader("__main__", script),
        __spec__=None,
        __package__=None,
        __cached__=None,
    )
    sys.modules["__main__"] = main
    exec(compile(source, os.path.abspath(script), "exec", dont_inherit=True), vars(main))


def _is_source(script: str) -> bool:
    """True if a file is Python source. An unreadable file ends the process with Python's own message."""
    try:
        with open(script, "rb") as file:
            return not file.read(4).startswith((b"PK\x03\x04",)) and not script.endswith(".pyc")
    except OSError as error:
        text = f"can't open file {os.path.abspath(script)!r}: [Errno {error.errno}] {error.strerror}"
        print(f"{sys.executable}: {text}", file=sys.stderr)
        raise SystemExit(2) from None


def _guarded(program: Callable[[], None]) -> None:
    """Call, and show an error as Python shows that of a program: without the frames of what runs it."""
    try:
        program()
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.stderr.flush()
        raise SystemExit(1) from None


def _is_ours(file: str) -> bool:
    return file == __file__ or file.startswith("<frozen runpy>")
