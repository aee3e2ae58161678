"""Calls that are checked and compiled: how they run, how they are kept, and how they are repeated."""
