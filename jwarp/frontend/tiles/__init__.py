"""Tiles while a kernel is read: memory, views, operators, and code of a block."""
