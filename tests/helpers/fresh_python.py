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


def run_forked(code):
    """Run `code` in a fork of a Python that has imported jwarp, which starts at once; all that it wrote."""
    status, text = forks.server("jwarp").run(textwrap.dedent(code), {}, 120)
    assert status == 0, text
    return text
