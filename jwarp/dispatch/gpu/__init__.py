"""Launches in the memory of GPUs: borrowed arrays, streams, allocations."""
