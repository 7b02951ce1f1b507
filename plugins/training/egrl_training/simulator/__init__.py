"""Training within a limit of memory: which values are kept for the backward pass, and which are computed again."""
