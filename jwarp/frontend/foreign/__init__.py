"""Kernels of other packages, which are compiled as they are."""
