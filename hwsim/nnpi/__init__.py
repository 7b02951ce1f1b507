"""Memory placement on chips like the NNP-I (Spring Hill), with stated assumptions; knows no search but its own solve."""
