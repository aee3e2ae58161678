"""Runs code in a fresh Python."""

import os
import subprocess
import sys
import textwrap


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
