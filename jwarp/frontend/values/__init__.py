"""Bindings: everything that a name can stand for while a kernel is read."""
