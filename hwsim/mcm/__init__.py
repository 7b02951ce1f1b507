"""Partition a graph over the chips of a multi-chip module: packages, graphs, a constraint solver and its judge."""
