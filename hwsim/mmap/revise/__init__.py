"""Whole games revised: some wishes of a game are changed, it is played again from there, and kept or not."""
