"""Settings that every test shares."""

import jax
import pytest

# Two devices on any machine, for the tests of sharding. Must precede the first use of a device.
jax.config.update("jax_num_cpu_devices", 2)


@pytest.fixture
def x64():
    """JAX with 64-bit types."""
    with jax.enable_x64(True):
        yield
