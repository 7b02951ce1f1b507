"""The MMapGame: which buffers of a compiled program lie in fast memory, when and where."""
