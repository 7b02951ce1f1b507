"""The MCM partitioning paper: what is run, the numbers, and the report."""
