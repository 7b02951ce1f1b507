"""One policy trained on many workloads, and the choice among what was saved; trains only through the loop."""
