"""From Python's statements and expressions to IR."""
