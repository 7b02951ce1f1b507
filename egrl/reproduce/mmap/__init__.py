"""The MMapGame paper: what is run, the numbers, and the report."""
