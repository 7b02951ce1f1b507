"""Schedules of a graph of matrix products and pointwise ops on a chip with a small fast memory (MLSys 2026 contest)."""
