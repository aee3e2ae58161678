"""Library of functions written in the kernel language itself."""
