"""The Python source of kernels: trees, spans, captured names."""
