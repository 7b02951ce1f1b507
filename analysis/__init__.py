"""Figures: arrays in, a matplotlib figure out; knows no run folder, no problem and no torch."""
