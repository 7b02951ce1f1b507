"""Offsets for tensors with lifetimes in a memory of finite size; knows buffers only, neither chips nor mappings."""
