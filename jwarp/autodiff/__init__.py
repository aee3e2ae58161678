"""Derivatives of kernels: forward and reverse mode, IR in, IR out."""
