"""Valid partitions from probabilities or proposals, by constraint propagation and search; knows no costs."""
