"""Arrays that change: memory, views of it, and the commands that write to it."""
