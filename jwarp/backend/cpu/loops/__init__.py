"""Loops of a vector of threads: a table of strategies, and a writer or a rewrite of the IR for each."""
