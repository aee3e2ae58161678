"""Reading what a call is given: the kernel it means, the memory of each value, and what makes two calls alike."""
