"""Partitions of a graph over the chips of a multi-chip module: costs, rules, solver, bounds; knows no policy."""
