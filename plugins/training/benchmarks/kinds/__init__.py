"""Kinds of training step that people write, each small: what `memory_limit` must get right, or refuse in a line."""
