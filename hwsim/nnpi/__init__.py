"""Memory placement on chips like the NNP-I, with stated assumptions; knows no search but its own solve."""
