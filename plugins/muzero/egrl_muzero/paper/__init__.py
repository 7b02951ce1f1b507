"""The MMapGame paper: what is run, the numbers, the report; searches only through comparisons."""
