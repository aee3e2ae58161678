"""The public functions and classes, a file each."""
