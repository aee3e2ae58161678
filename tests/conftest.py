"""Settings that every test shares."""

import atexit
import ctypes
import gc
import glob
import importlib
import importlib.metadata
import os
import re
import shutil
import sys
import tempfile
import threading

# Threads of NumPy's and SciPy's products would spin beside tests. Must precede `import numpy`, also in other processes.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import jax
import pytest
from jax._src.interpreters import mlir

MUCH_MEMORY = 800 << 20  # bytes of a process
MORE_MEMORY = 100 << 20  # by which a process has to grow until what it can give back is looked for again
MOST_MEMORY = 200 << 20  # by which it may have grown within a module
FREED_MEMORY = 128 << 20  # that the allocator holds back

# The tests, and the processes they start, keep compiled kernels to themselves: all workers of a run in the folder of
# the process that started them. Must precede `import jwarp`.
_PREFIX = os.path.join(tempfile.gettempdir(), "jwarp-tests-")
if "PYTEST_XDIST_WORKER" not in os.environ or not os.environ.get("JWARP_CACHE_DIR", "").startswith(_PREFIX):
    os.environ["JWARP_CACHE_DIR"] = tempfile.mkdtemp(prefix=os.path.basename(_PREFIX))
    atexit.register(shutil.rmtree, os.environ["JWARP_CACHE_DIR"], ignore_errors=True)

# Compiled code is not fast here but soon there. Simulators and the kernels of `conformance` are optimised as those of
# users, and all is in the long profile, and where CI tries all combinations.
if os.environ.get("JWARP_FUZZ") != "long":
    os.environ.setdefault("JWARP_CPU_LEVEL", "0")

# Programs that tests start find the helpers as the tests themselves do.
_HELPERS = [os.path.join(os.path.dirname(__file__), folder) for folder in ("helpers", "ptx")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*_HELPERS, os.environ.get("PYTHONPATH", "")]))

# Without bytecode each process compiles all of jwarp's source, which is most of a second, and pytest all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# XLA compiles thousands of small programs here, each of which runs once: three times as fast with these. What is
# tested, the custom calls, is compiled by jwarp alone. Must precede the first use of a device.
_FAST = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
_FAST += " --xla_llvm_disable_expensive_passes=true"
if jax.__version_info__ < (0, 11):  # later releases have no such flag, and XLA ends the process
    _FAST += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", _FAST)

# JAX makes a context of MLIR for each program, which takes as long as to lower most of those that are here. Those of
# the main thread share one, as those of later releases do, until the memory of compiled programs is given back.
_make_context, _contexts = mlir.make_ir_context, threading.local()


def _shared_context():
    if threading.current_thread() is not threading.main_thread():
        return _make_context()  # XLA partitions programs in threads of its own, and a context must not end with one
    if mlir.ir.Context.current is not None:
        return _make_context()  # a program that is lowered while another one is would become a part of that one
    if not hasattr(_contexts, "shared"):
        _contexts.shared = _make_context()
    return _contexts.shared


if not hasattr(mlir, "_thread_local_context"):
    mlir.make_ir_context = _shared_context

# JAX makes the key of each program for a cache on disk that is not there.
jax.config.update("jax_enable_compilation_cache", False)

# What the first use of a public name imports is there from the start, as tests reach for parts of jwarp before it.
dir(importlib.import_module("jwarp"))

# What is imported lives for good, and most of what a test makes dies at once: to go through all of it often took a
# twentieth of the time of the tests.
gc.freeze()
gc.set_threshold(10_000, 20, 50)

# Tests are of the processor, also where there is a GPU, but for those marked `gpu`: see helpers/gpu_everywhere.py.
_PLUGINS = {plugin.name for plugin in importlib.metadata.entry_points(group="jax_plugins")}
if glob.glob("/dev/nvidia[0-9]*") and any("cuda" in name for name in _PLUGINS):
    jax.config.update("jax_platforms", os.environ.setdefault("JAX_PLATFORMS", "cpu,cuda"))

# Two devices on any machine, for the tests of sharding. Must precede the first use of a device.
jax.config.update("jax_num_cpu_devices", 2)


@pytest.fixture
def x64():
    """JAX with 64-bit types."""
    with jax.enable_x64(True):
        yield


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the texts in tests/golden anew")


@pytest.fixture
def update_golden(request) -> bool:
    return request.config.getoption("--update-golden")


def pytest_ignore_collect(collection_path, config):
    """With `-m quick`, leave out files without such tests: to import them all takes as long as the tests."""
    is_file = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    left_out = (
        is_file
        and config.option.markexpr == "quick"
        and not re.search(r"mark\.quick|\bquick\(", collection_path.read_text())
    )
    return True if left_out else None


def pytest_collection_finish():
    """Modules of tests live for good; the programs that JAX compiled for their numbers, 100 MB, need not."""
    jax.clear_caches()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    gc.freeze()


_resident = {"when_cleared": 0}


@pytest.fixture(autouse=True, scope="module")
def memory():
    """Gives the memory of compiled programs back after a module, where there is much of it.

    JAX keeps every program that it has compiled, and the allocator what was freed: without this, a process that runs
    half of the tests grows to 4 GB. To look for it takes a quarter of a second, so not where little came since.
    """
    yield
    if freed() > FREED_MEMORY:
        ctypes.CDLL(None).malloc_trim(0)
    give_back(MORE_MEMORY)


@pytest.fixture(autouse=True)
def memory_of_long_modules():
    """The same where the tests of one module compile so much; others share their programs."""
    yield
    give_back(MOST_MEMORY)


def give_back(more: int) -> None:
    """Drop compiled programs if the process has grown by so much since it was done last."""
    if resident() > max(MUCH_MEMORY, _resident["when_cleared"] + more):
        jax.clear_caches()
        _contexts.__dict__.clear()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        _resident["when_cleared"] = resident()


class Allocated(ctypes.Structure):
    """The result of `mallinfo2` of the C library."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "used", "free", "keepcost")
    ]


def freed() -> int:
    """Bytes that were freed and that the allocator did not give back."""
    told = getattr(ctypes.CDLL(None), "mallinfo2", None)  # of glibc 2.33 and later
    if told is None:
        return 0
    told.restype = Allocated
    return told().free


def resident() -> int:
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
