"""The production heuristic, which places a whole program by rules of its own; knows nothing of the game."""
