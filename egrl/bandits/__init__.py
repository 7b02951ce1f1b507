"""Search on derivation graphs: the graph that grows, the bandits that choose in it, and what makes methods of them."""
