"""Tiles while a kernel is read: operators, indices, and code of a block."""
