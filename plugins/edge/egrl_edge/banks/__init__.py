"""Tensors of a program in banks of memory: the problem `banks`."""
