"""Settings that every test shares."""

import atexit
import os
import shutil
import tempfile

import jax
import pytest

# The tests, and the processes they start, keep compiled kernels to themselves. Must precede `import jwarp`.
os.environ["JWARP_CACHE_DIR"] = tempfile.mkdtemp(prefix="jwarp-tests-")
atexit.register(shutil.rmtree, os.environ["JWARP_CACHE_DIR"], ignore_errors=True)

# Programs that tests start find the helpers as the tests themselves do.
_HELPERS = os.path.join(os.path.dirname(__file__), "helpers")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_HELPERS, os.environ.get("PYTHONPATH", "")]))

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
