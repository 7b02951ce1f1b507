"""Bandits on derivation graphs: TAG, UCT, and the completions that evaluate vertices; knows plans only as vertices."""
