"""The MMapGame: which buffers of a program lie in fast memory, when and where; knows no agent."""
