"""Offsets for tensors with lifetimes in a memory of finite size: offline dynamic storage allocation."""
