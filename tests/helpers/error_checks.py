"""Checks that what is wrong with kernel source is said by class, place, reason and way out."""

import importlib.util
import itertools

import pytest

import jwarp as wp
from jwarp.errors import JwarpError

_number = itertools.count()


def load(text, tmp_path):
    """The module that `text` is, written to a file of its own."""
    path = tmp_path / f"source_{next(_number)}.py"
    path.write_bytes(text.encode())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Bodies(dict):
    """Functions that are refused, by name: each with what the error says, which a decorator takes."""

    def refused(self, match):
        def note(function):
            self[function.__name__] = (function, match)
            return function

        return note


def check(text, error, words, hint, tmp_path, read=lambda kernel: kernel.ir()):
    """`text` defines a kernel `k` whose reading raises `error` with these words at the marked place."""
    start, end = text.find("«"), text.find("»") - 1
    clean = text.replace("«", "").replace("»", "")
    with pytest.raises(JwarpError) as caught:
        read(load(clean, tmp_path).k)
    assert (caught.value.of or type(caught.value)) is error, caught.value
    shown, d = str(caught.value), caught.value.diagnostic
    assert words in d.message, shown
    assert hint in d.hint, shown
    if start >= 0:
        line = clean.count("\n", 0, start) + 1
        source = clean.split("\n")[line - 1].rstrip("\r")
        begin = start - (clean.rfind("\n", 0, start) + 1)
        assert (d.span.line, d.span.col) == (line, begin), shown
        if "\n" not in clean[start:end]:
            assert source[d.span.col : d.span.end_col] == clean[start:end], shown
        assert f"{d.span.file}:{line}" in shown and f"{line} | {source}" in shown and "^" in shown, shown


C, T = wp.CompileError, wp.KernelTypeError
