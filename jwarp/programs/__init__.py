"""Whole programs of Warp: jwarp under the name `warp`, and `python -m jwarp run`."""
