"""Optimisers of other packages behind ask and tell (the extra `peers`); they see integers, never a graph."""
