"""Facts about IR, found without changing it."""
