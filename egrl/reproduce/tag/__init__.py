"""The TAG paper: what is run, the numbers, its claims, and the report."""
