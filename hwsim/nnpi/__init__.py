"""Memory placement on chips like Intel's NNP-I (Spring Hill): a simulator with stated assumptions."""
