"""Intra-operator sharding: a strategy for each op of a model, within a limit of memory over time."""
