"""Launches as data: geometry, checked arguments and descriptors, for any array library."""
