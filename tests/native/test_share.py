"""Work that threads share: what it throws reaches the caller as it was, when all of it is done."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "cuda" / "runtime"
PROGRAM = """
#include <atomic>
#include <cstdio>
#include <new>
#include <stdexcept>

#include "cpu/call_pool.h"
#include "cpu/share.h"

using jwarp::cpu::share;

struct Work {
  std::atomic<int> done{0};
  int kind;
};

void body(const void* context, int64_t begin, int64_t end) {
  Work& work = *static_cast<Work*>(const_cast<void*>(context));
  for (int64_t k = begin; k < end; ++k) {
    ++work.done;
    if (work.kind == 1 && k == 700) throw std::runtime_error("piece 700 went wrong");
    if (work.kind == 2) throw std::bad_alloc();
    if (work.kind == 3) throw k;
  }
}

int main() {
  for (int kind = 0; kind < 4; ++kind) {
    jwarp::cpu::CallPool pool(4);
    Work work;
    work.kind = kind;
    try {
      share(pool, 3, 0, 1000, {1, 1}, body, &work);
      std::printf("done");
    } catch (const std::bad_alloc&) {
      std::printf("bad_alloc");
    } catch (const std::exception& error) {
      std::printf("%s", error.what());
    } catch (int64_t) {
      std::printf("a number");
    }
    std::printf(", %d pieces\\n", work.done.load());
  }
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_exceptions_keep_their_kind_and_text(tmp_path):
    (tmp_path / "program.cc").write_text(PROGRAM)
    sources = [tmp_path / "program.cc", RUNTIME / "cpu" / "share.cc", RUNTIME / "cpu" / "call_pool.cc"]
    command = ["g++", "-std=c++17", "-pthread", f"-I{RUNTIME}", *map(str, sources), "-o", str(tmp_path / "program")]
    # Tests under a sanitizer preload its library, which is nothing for a compiler.
    subprocess.run(["env", "-u", "LD_PRELOAD", *command], check=True)
    told = subprocess.run([tmp_path / "program"], check=True, capture_output=True, text=True, timeout=60).stdout
    assert told.splitlines() == [
        "done, 1000 pieces",
        "piece 700 went wrong, 1000 pieces",
        "bad_alloc, 1000 pieces",
        "a number, 1000 pieces",
    ]
