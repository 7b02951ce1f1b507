"""Bandits on derivation graphs: TAG and UCT, the graph that grows, and the completions that evaluate it."""
