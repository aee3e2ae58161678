"""From IR to IR: the passes that make a kernel smaller, faster, checked or batched."""
