"""The CPU backend: explicit vector code through LLVM."""
