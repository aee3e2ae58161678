"""Tests of PTX need NVRTC, and no GPU."""

import pytest

from jwarp.backend.cuda import nvrtc


@pytest.fixture
def compiler():
    """NVRTC; without it a test is skipped, which does not happen where `cuda-compile` is installed."""
    lacking = nvrtc.missing()
    if lacking is not None:
        pytest.skip(f"{lacking}: {nvrtc.INSTALL}")
    return nvrtc
