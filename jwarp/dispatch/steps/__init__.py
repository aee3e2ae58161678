"""Executors of the steps of derivative launches: on host arrays and on arrays of a GPU."""
