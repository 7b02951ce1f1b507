"""Solve sharding: exact reductions, a bound by message passing and prices, and a search that improves on it."""
