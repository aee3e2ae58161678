"""Launches as JAX functions: the only package that imports jax."""
