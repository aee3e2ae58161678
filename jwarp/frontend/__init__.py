"""From a Python function to IR."""
