"""The oracle: kernels run in NumPy, all threads in step."""
