"""What is to be mapped: neural networks as graphs of ops, their features, and where they come from."""
