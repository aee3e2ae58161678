"""The functions on tiles that kernels may call."""
