"""What a name can stand for while a kernel is read."""
