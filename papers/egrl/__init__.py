"""The EGRL paper: what is run, and the report; knows comparisons and transfers, not methods."""
