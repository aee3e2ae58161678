"""The identification of jwarp's custom calls in exported programs."""

from __future__ import annotations

from jwarp.bind import compat
from jwarp.bind.targets import CUDA_DEBUG_TARGET, CUDA_TARGET, TARGET

# For `jax.export.export(f, disabled_checks=wp.EXPORT_CHECKS)`: the format of these calls is versioned by their names.
EXPORT_CHECKS = [compat.DisabledSafetyCheck.custom_call(target) for target in (TARGET, CUDA_TARGET, CUDA_DEBUG_TARGET)]
