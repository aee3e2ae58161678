"""Grids, trees and meshes as Python objects: how they are built, kept and passed."""
