"""Grids of chip files: the best cost of a workload on each, its proven bound, and what more of something is worth."""
