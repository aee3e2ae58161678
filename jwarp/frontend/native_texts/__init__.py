"""Texts in C++ that are plain arithmetic on numbers, read as functions of the kernel language, which processors run."""
