"""Runs code in a fresh Python, or in a fork of one that has imported jwarp."""

import os
import subprocess
import sys
import textwrap

import forks


def run(code, *args, **environment):
    """Run `code` in a fresh Python; its standard output."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def run_forked(code, folder=".", **settings):
    """Run `code` in a fork of a Python that has imported jwarp, which starts at once; all that it wrote.

    It runs in a folder, with these of jwarp's settings.
    """
    first = f"import os, jwarp\nos.chdir({str(folder)!r})\n"
    first += "".join(f"jwarp.config.{name} = {value!r}\n" for name, value in settings.items())
    status, text = forks.server(*forks.WITH_JWARP).run(first + textwrap.dedent(code), {}, 120)
    assert status == 0, text
    return text


def run_program(*arguments, folder=".", **settings):
    """Do what `python -m jwarp run` with these arguments does, in such a fork; all that was written."""
    code = f"import runpy, sys\nsys.argv = ['jwarp', 'run', *{[*map(str, arguments)]!r}]\n"
    code += "runpy.run_module('jwarp', run_name='__main__', alter_sys=True)\n"
    return run_forked(code, folder, **settings)
