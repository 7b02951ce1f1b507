"""Whole games revised: some wishes change, the game is played again from there, and kept or not; knows no network."""
