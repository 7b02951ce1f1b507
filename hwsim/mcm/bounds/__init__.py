"""Proven lower bounds on the cost of a partition; knows no search method."""
