"""The functions that kernels may call."""
