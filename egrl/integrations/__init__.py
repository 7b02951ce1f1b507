"""Compilers of others that take mappings, a folder each."""
