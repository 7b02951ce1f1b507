"""Runs: configuration, folder, checkpoints, summary; knows no method by name."""
