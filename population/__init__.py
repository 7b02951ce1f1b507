"""Evolution over a mixed population of policies; it returns probabilities and never evaluates."""
