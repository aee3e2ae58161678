"""Kernels on NVIDIA GPUs: CUDA C++ text made from the IR, and what compiles it."""
