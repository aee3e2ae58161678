"""Mutable arrays: memory, views of it, and the commands that write to it."""
