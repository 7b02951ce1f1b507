"""What is to be mapped: networks as lists of ops, their features, and where they come from; knows no hardware."""
