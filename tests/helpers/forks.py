"""Processes that have imported what tests need, and fork for each: imports of JAX and jwarp take most of a second.

A fork stands where a fresh process stands after its imports: JAX has no backend and the native module no thread yet.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import Any

OF_NATIVE = ("numpy", "pytest", "forked_tests")
WITH_JWARP = (*OF_NATIVE, "jax", "jwarp")  # one process for all, as it takes two seconds to start it

_servers: dict[tuple[str, ...], Server] = {}


class Server:
    """A process with `modules` imported and the environment of this moment."""

    def __init__(self, modules: Sequence[str]):
        self.environment = dict(os.environ)
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"import forks; forks.serve({list(modules)!r})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.stop)

    def stop(self) -> None:
        """End it; it waits for its last fork."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def run(self, code: str, environment: dict[str, str], seconds: int) -> tuple[int, str]:
        """Runs code in a fork, with more variables, and returns its exit code, or minus a signal, and what it wrote.

        A fork that takes longer ends by SIGALRM.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        with tempfile.NamedTemporaryFile("r", errors="replace") as written:
            job = {"code": code, "environment": environment, "seconds": seconds, "output": written.name}
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            assert answer, "the process that forks for tests has ended"
            return int(answer), written.read()


def server(*modules: str) -> Server:
    """The process that has imported these modules; another one where the environment changed since."""
    found = _servers.get(modules)
    if found is None or _constant(found.environment) != _constant(dict(os.environ)):
        if found is not None:
            atexit.unregister(found.stop)
            found.stop()
        found = _servers[modules] = Server(modules)
    return found


def _constant(environment: dict[str, str]) -> dict[str, str]:
    """Without what pytest says of the test that runs."""
    return {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}


def serve(modules: Sequence[str]) -> None:
    """Run the server: fork for each line of its input, and print how that process ended."""
    for module in modules:
        dir(importlib.import_module(module))  # jwarp imports its parts when a name is asked for
    gc.collect()
    gc.freeze()  # or each fork would get its own copy of all objects when it looks for garbage
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(json.loads(line))
            return  # and out of the interpreter, as any program
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(job: dict[str, Any]) -> None:
    """Runs a job in this process, whose own files are those of the job from here on."""
    signal.alarm(job["seconds"])
    for path, flags, own in ((os.devnull, os.O_RDONLY, (0,)), (job["output"], os.O_WRONLY | os.O_APPEND, (1, 2))):
        file = os.open(path, flags)
        for number in own:
            os.dup2(file, number)
        os.close(file)
    os.environ.update(job["environment"])
    try:
        exec(compile(job["code"], "<job>", "exec"), {"__name__": "__main__"})
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        sys.exit(1)
