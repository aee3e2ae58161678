"""Queries of grids, trees and meshes, and tests of triangles, written in the kernel language."""
