"""Figures: arrays in, matplotlib Figure out."""
