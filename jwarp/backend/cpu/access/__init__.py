"""Accesses of a vector of threads: facts about each, a table of strategies, and a writer for each strategy."""
