"""Runs checked calls: eagerly on JAX values, in place on arrays, as replays."""
