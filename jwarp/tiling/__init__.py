"""Kernels with tiles become kernels of scalars: loops over the memory of a block."""
