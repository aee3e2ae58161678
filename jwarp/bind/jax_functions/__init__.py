"""Functions of jax.numpy inside kernels: traced by JAX for the types of a call, then lowered to IR of scalars."""
